//! Keywords of JSON Schema whose value is not a schema.

/// Keywords whose value is a map from names to schemas, so that its keys are not keywords.
pub(super) const NAMED_SCHEMA_KEYWORDS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is data.
pub(super) const DATA_KEYWORDS: [&str; 4] = ["enum", "const", "default", "examples"];
