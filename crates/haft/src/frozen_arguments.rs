//! The arguments of a validated call, which nothing changes any more.
//!
//! They are the text that the model wrote, the JSON, or both. A typed body reads neither, so the
//! JSON of a short call is made only if something asks for it: a rule, a hook, an observer.
//!
//! INVARIANT: text and JSON say exactly the same.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// The frozen arguments of a call.
#[derive(Debug)]
pub(crate) struct FrozenArguments {
    text: Option<String>,
    json: OnceLock<Arc<Value>>,
}

impl FrozenArguments {
    /// Freezes JSON, with the text if it says exactly the same.
    #[inline(always)]
    pub(crate) fn new(json: Arc<Value>, text: Option<String>) -> Self {
        Self { text, json: OnceLock::from(json) }
    }

    /// Freezes text that was parsed strictly, and of which nothing was changed.
    #[inline(always)]
    pub(crate) fn of_text(text: String) -> Self {
        Self { text: Some(text), json: OnceLock::new() }
    }

    /// Returns the text that the model wrote, if it says exactly what the JSON says.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the JSON.
    pub(crate) fn json(&self) -> &Arc<Value> {
        match self.json.get() {
            Some(json) => json,
            None => self.parse(),
        }
    }

    /// Makes the JSON. The text was parsed before, so it is valid.
    #[cold]
    #[inline(never)]
    fn parse(&self) -> &Arc<Value> {
        let text = self.text.as_deref().unwrap_or("{}");
        self.json.get_or_init(|| Arc::new(haft_schema::strict_json(text).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_of_a_text_is_made_once() {
        let frozen = FrozenArguments::of_text(r#"{"a": 1}"#.to_owned());
        assert_eq!(**frozen.json(), json!({"a": 1}));
        assert!(Arc::ptr_eq(frozen.json(), frozen.json()));
        assert_eq!(frozen.text(), Some(r#"{"a": 1}"#));
        let made = FrozenArguments::new(Arc::new(json!({})), None);
        assert_eq!((made.text(), &**made.json()), (None, &json!({})));
    }
}
