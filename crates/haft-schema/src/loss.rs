//! The loss report: where an exported schema differs from the tool's own.

use std::fmt;

use serde::Serialize;

/// How an exported schema differs from the tool's own at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossKind {
    /// Expressed with other keywords or at another place; it accepts the same values.
    Exact,
    /// The model may send more than the tool accepts. Safe, because arguments are always validated
    /// against the tool's own schema.
    Widened,
    /// The model can no longer send something that the tool accepts.
    Narrowed,
    /// A name was changed. Calls are mapped back to the own name.
    Renamed,
    /// The tool cannot be exported.
    Refused,
}

/// One difference, with its place in the tool's own schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The kind of difference.
    pub kind: LossKind,
    /// The place, as a JSON pointer into the tool's own schema.
    pub pointer: String,
    /// The keyword that was lost; empty when it is the whole subschema.
    pub keyword: String,
    /// What happened, for a person.
    pub note: String,
}

impl LossKind {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Widened => "widened",
            Self::Narrowed => "narrowed",
            Self::Renamed => "renamed",
            Self::Refused => "refused",
        }
    }
}

impl Loss {
    /// Makes a loss at a JSON pointer into the tool's own schema.
    pub fn new(
        kind: LossKind,
        pointer: impl Into<String>,
        keyword: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self { kind, pointer: pointer.into(), keyword: keyword.into(), note: note.into() }
    }
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "/" } else { &self.pointer };
        write!(f, "{} at {place}", self.kind)?;
        if !self.keyword.is_empty() {
            write!(f, " ({})", self.keyword)?;
        }
        write!(f, ": {}", self.note)
    }
}
