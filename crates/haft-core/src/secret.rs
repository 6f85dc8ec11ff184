//! `Secret`: a value that does not leak into logs, messages or JSON.
//!
//! `Debug` and `Serialize` show a fixed text and not even the length. There is no `Display`, so
//! that it cannot get into a message. Only `reveal` returns the text, and it is easy to search for.

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

const PLACEHOLDER: &str = "hidden";

impl Secret {
    /// Wraps a text.
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
        write!(f, "Secret({PLACEHOLDER})")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(PLACEHOLDER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_and_serialize_do_not_leak_a_secret() {
        let secret = Secret::from("hunter2hunter2");
        let printed = format!("{secret:?} {secret:#?} {}", serde_json::to_string(&secret).unwrap());
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
