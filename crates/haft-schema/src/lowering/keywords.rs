//! The keywords of JSON Schema: which types they apply to, and which ones only annotate.

pub(super) use crate::keywords::{SCHEMA_LISTS, SCHEMA_MAPS, SINGLE_SCHEMA, children, escape};

/// Contravariant keywords: a wider schema below makes a narrower one above. The schema below is
/// kept exactly or not at all.
pub(super) const CONTRAVARIANT: [&str; 4] = ["not", "if", "contains", "oneOf"];

/// Annotations: keywords that do not restrict the accepted values.
pub(super) const ANNOTATIONS: [&str; 10] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];

/// Keywords that apply to strings only.
pub(super) const TEXT: [&str; 3] = ["minLength", "maxLength", "pattern"];
/// Keywords that apply to numbers only.
pub(super) const NUMBER: [&str; 5] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Keywords that apply to arrays only.
pub(super) const ARRAY: [&str; 9] = [
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
];
/// Keywords that apply to objects only.
pub(super) const OBJECT: [&str; 10] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
];
/// Keywords that apply to every value.
pub(super) const ANY_TYPE: [&str; 12] = [
    "$ref", "format", "type", "enum", "const", "not", "if", "then", "else", "anyOf", "oneOf",
    "allOf",
];

/// Whether a keyword restricts the accepted values.
pub(super) fn restricts(key: &str) -> bool {
    ANY_TYPE.contains(&key)
        || TEXT.contains(&key)
        || NUMBER.contains(&key)
        || ARRAY.contains(&key)
        || OBJECT.contains(&key)
}
