//! Text that is cloned often: a `&'static str` or an `Arc<str>`.

use std::{borrow::Cow, fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that is cheap to clone. It dereferences to `str`, and is made from a literal, a `String` or
/// an `Arc<str>`.
///
/// ```
/// use haft_core::SharedStr;
///
/// let text = SharedStr::from(format!("rule {}", 7));
/// assert_eq!(text.clone(), "rule 7");
/// ```
#[derive(Clone)]
pub struct SharedStr(Text);

#[derive(Clone)]
enum Text {
    Fixed(&'static str),
    Shared(Arc<str>),
}

impl SharedStr {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Fixed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl SharedStr {
    /// Returns whether both point to the same text. This is faster than a comparison.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.as_str(), other.as_str())
    }
}

impl Deref for SharedStr {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for SharedStr {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Default for SharedStr {
    fn default() -> Self {
        Self(Text::Fixed(""))
    }
}

impl From<&'static str> for SharedStr {
    fn from(text: &'static str) -> Self {
        Self(Text::Fixed(text))
    }
}

impl From<String> for SharedStr {
    fn from(text: String) -> Self {
        Self(Text::Shared(text.into()))
    }
}

impl From<Arc<str>> for SharedStr {
    fn from(text: Arc<str>) -> Self {
        Self(Text::Shared(text))
    }
}

impl From<Cow<'static, str>> for SharedStr {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl From<SharedStr> for String {
    fn from(text: SharedStr) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq for SharedStr {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SharedStr {}

impl PartialEq<str> for SharedStr {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for SharedStr {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for SharedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for SharedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for SharedStr {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SharedStr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}
