//! A self-contained schema.

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
    pub pointers: HashMap<String, String>,
}
