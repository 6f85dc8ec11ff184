//! A value that whoever holds it may use, and that nobody sees by printing it.
//!
//! `Debug` and `Serialize` show a fixed word and not even the length. There is no `Display`, so that
//! it cannot slip into a message; `reveal` is the one way to the text, and easy to search for.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer};

/// A secret value. Clones share the text.
///
/// ```
/// use haft_core::Secret;
///
/// let key = Secret::new("correct horse");
/// assert_eq!(format!("{key:?}"), "Secret(hidden)");
/// assert_eq!(key.reveal(), "correct horse");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

const HIDDEN: &str = "hidden";

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({HIDDEN})")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_printing_nor_writing_shows_it() {
        let secret = Secret::from("hunter2hunter2");
        let printed = format!("{secret:?} {secret:#?} {}", serde_json::to_string(&secret).unwrap());
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
