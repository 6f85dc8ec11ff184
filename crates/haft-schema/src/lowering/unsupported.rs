//! `UnsupportedSchema`: why a schema cannot be expressed under the rules of a format.

/// Why a schema cannot be expressed under these rules.
#[derive(Debug, Clone)]
pub struct UnsupportedSchema {
    /// The place, as a JSON pointer into the original.
    pub pointer: String,
    /// The keyword; empty when it is the whole subschema.
    pub keyword: String,
    /// The reason, for a person.
    pub why: String,
    /// Whether it would help to drop the `unevaluated…` keywords.
    pub(super) drop_unevaluated: bool,
    pub(super) large: bool,
    /// The definition that is needed exactly but cannot be expressed exactly.
    pub(super) inexact: Option<String>,
}

/// A result of lowering.
pub(super) type OrUnsupported<T> = Result<T, UnsupportedSchema>;
