//! What a repair is: its kind, its record, and how much is repaired.

use serde::{Deserialize, Serialize};

/// How much is repaired before arguments are validated. The guide lists the repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RepairPolicy {
    /// No repairs: invalid arguments are rejected with an explanation.
    Off,
    /// Repairs that lose nothing and are unambiguous.
    #[default]
    Lossless,
    /// The same, and text with Python literals and single quotes, for models that write them.
    Python,
}

impl RepairPolicy {
    /// Parses the name used in the environment.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "off" => Some(Self::Off),
            "lossless" => Some(Self::Lossless),
            "python" => Some(Self::Python),
            _ => None,
        }
    }
}

/// One repair of the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Repair {
    /// The location, as a JSON pointer into the repaired value; empty for the whole.
    pub pointer: String,
    /// What kind of repair.
    pub kind: RepairKind,
    /// The old value as JSON; long values are truncated and secrets hidden.
    pub before: String,
    /// The new value; `None` if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The kinds of repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairKind {
    /// Empty text was parsed as no arguments.
    EmptyText,
    /// A byte order mark before the arguments was removed.
    ByteOrderMark,
    /// A code fence around the arguments was removed.
    CodeFence,
    /// A trailing comma was removed.
    TrailingComma,
    /// A raw control character in a string was escaped.
    ControlCharacter,
    /// A Python literal was replaced by the JSON one.
    PythonLiteral,
    /// A string in single quotes was replaced by a JSON string.
    SingleQuotes,
    /// The object was encoded twice.
    DoubleEncoded,
    /// A number was written as text, or a whole number as a float.
    Number,
    /// A boolean was written as text.
    Boolean,
    /// An array or an object was written as text.
    Json,
    /// An `enum` value was written in another case.
    EnumCase,
    /// An optional property was null.
    Null,
    /// A property name was written in another case, or with other `_` and `-`.
    Name,
}

impl RepairKind {
    /// Whether it is allowed for destructive tools.
    pub(super) fn is_careful(self) -> bool {
        matches!(self, Self::Number | Self::Boolean | Self::Json)
    }
}
