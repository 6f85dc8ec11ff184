//! `Metadata`: data of the host about a run, read-only.

use serde_json::{Map, Value};

/// Data of the host about a run. A missing key gives `null`.
///
/// ```
/// use haft_core::{ToolContext, serde_json::Value};
///
/// fn tenant(cx: &ToolContext) -> Option<&str> {
///     cx.metadata().get("tenant").and_then(Value::as_str)
/// }
/// fn is_billed(cx: &ToolContext) -> bool {
///     cx.metadata()["billing"]["plan"] == "paid"
/// }
/// # let _ = (tenant, is_billed);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Metadata<'a> {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }

    /// Returns all keys and values.
    #[must_use]
    pub fn as_map(self) -> &'a Map<String, Value> {
        self.0
    }
}

impl std::ops::Index<&str> for Metadata<'_> {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_metadata_is_null() {
        let map = Map::from_iter([("a".to_owned(), Value::from(1))]);
        let metadata = Metadata(&map);
        assert_eq!(metadata["a"], 1);
        assert_eq!(metadata["b"]["c"], Value::Null);
        assert_eq!((metadata.get("b"), metadata.as_map().len()), (None, 1));
    }
}
