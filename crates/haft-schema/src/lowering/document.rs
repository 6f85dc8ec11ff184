//! A self-contained schema, and why a schema is not one.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A schema whose only references are `#/$defs/<name>`.
#[derive(Debug, Clone)]
pub struct Document {
    /// The schema without its definitions.
    pub root: Value,
    /// The definitions, by name.
    pub definitions: Map<String, Value>,
    /// The place of each definition in the source.
    pub places: HashMap<String, String>,
}

/// Why a schema cannot be made self-contained.
#[derive(Debug, Clone)]
pub struct Unresolved {
    /// The place, as a JSON pointer.
    pub pointer: String,
    /// The keyword that is wrong.
    pub keyword: &'static str,
    /// The reason, for a person.
    pub why: String,
}
