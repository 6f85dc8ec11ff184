//! What a provider's schema says more, less or differently than the tool's own.

use std::fmt;

use serde::Serialize;

/// How one place of a schema fared on its way into a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossKind {
    /// Said in another place or in other words; what is accepted is the same.
    Exact,
    /// The model may say more than the tool accepts. Safe: arguments are always checked against
    /// the tool's own schema.
    Widened,
    /// The model can no longer say something that the tool accepts.
    Narrowed,
    /// A name was changed; it is changed back on the way in.
    Renamed,
    /// The tool cannot be shown.
    Refused,
}

/// One difference, with its place in the tool's own schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// What became of it.
    pub kind: LossKind,
    /// The place, as a JSON pointer into the tool's own schema.
    pub pointer: String,
    /// The word that could not be kept; empty when it is the place as a whole.
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
    pub(crate) fn new(
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
