//! The drafts of JSON Schema: how a schema names its draft, and which keywords a draft has.

use serde_json::Value;

/// A draft of JSON Schema, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

impl Draft {
    /// Every draft.
    pub(crate) const ALL: [Self; 5] =
        [Self::Draft4, Self::Draft6, Self::Draft7, Self::Draft201909, Self::Draft202012];

    /// Returns the draft of a schema, the latest by default. Unknown drafts are not fetched.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let Some(named) = schema.get("$schema").and_then(Value::as_str) else {
            return Ok(Self::Draft202012);
        };
        Self::named(named).ok_or_else(|| format!("`{named}` is not a known draft of JSON Schema"))
    }

    /// Returns the draft that a URI names. The URI without a version names the latest.
    pub(crate) fn named(uri: &str) -> Option<Self> {
        let uri = uri.trim_end_matches('#');
        let path = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        match path.strip_prefix("json-schema.org/")? {
            "draft-04/schema" => Some(Self::Draft4),
            "draft-06/schema" => Some(Self::Draft6),
            "draft-07/schema" => Some(Self::Draft7),
            "draft/2019-09/schema" => Some(Self::Draft201909),
            "draft/2020-12/schema" | "schema" => Some(Self::Draft202012),
            _ => None,
        }
    }

    /// Returns whether `$ref` hides the keywords next to it.
    pub(crate) fn is_old(self) -> bool {
        self <= Self::Draft7
    }

    /// Returns whether a keyword that restricts values has an effect in this draft.
    pub(crate) fn knows(self, keyword: &str) -> bool {
        let first = match keyword {
            "const" | "contains" | "propertyNames" => Self::Draft6,
            "if" | "then" | "else" => Self::Draft7,
            "dependentRequired"
            | "dependentSchemas"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "minContains"
            | "maxContains" => Self::Draft201909,
            "prefixItems" | "$dynamicRef" => Self::Draft202012,
            "dependencies" => return self.is_old(),
            "additionalItems" => return self <= Self::Draft201909,
            "$recursiveRef" => return self == Self::Draft201909,
            _ => Self::Draft4,
        };
        self >= first
    }
}
