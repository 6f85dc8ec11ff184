//! The error type of the workspace, written for the operator: the setup or the machine is wrong.
//!
//! Mistakes that a model can make are never an `Error`; they are a `Failure` inside a result.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::BoxError;

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A tool's definition is inconsistent or unusable.
    BadTool,
    /// Two tools have the same name.
    DuplicateName,
    /// A JSON Schema does not compile.
    BadSchema,
    /// A tool needs a value that the host did not supply.
    MissingState,
    /// A tool declares an option that this version does not support.
    Unsupported,
    /// A setting is invalid.
    BadConfig,
    /// A tool source could not be opened or queried.
    Source,
    /// A provider's response could not be parsed.
    BadResponse,
    /// A conversation could not be parsed, or its calls and results do not pair up.
    BadHistory,
    /// A provider did not accept the key, or the key is missing.
    Authentication,
    /// A provider could not be reached.
    Unreachable,
    /// A provider did not answer in time.
    TimedOut,
    /// A provider refused the request or failed.
    ProviderError,
}

impl ErrorKind {
    /// Returns its name, as written in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadTool => "bad_tool",
            Self::DuplicateName => "duplicate_name",
            Self::BadSchema => "bad_schema",
            Self::MissingState => "missing_state",
            Self::Unsupported => "unsupported",
            Self::BadConfig => "bad_config",
            Self::Source => "source",
            Self::BadResponse => "bad_response",
            Self::BadHistory => "bad_history",
            Self::Authentication => "authentication",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::ProviderError => "provider_error",
        }
    }
}

impl Serialize for ErrorKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

/// Why something could not be set up or read.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hints: Vec<String>,
    source: Option<BoxError>,
}

impl Error {
    /// Makes an error.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), hints: Vec::new(), source: None }))
    }

    /// Adds a hint: what the operator can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// Sets the error that caused this one.
    #[must_use]
    pub fn because(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns what kind of error this is; callers branch on it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what is wrong, without the hints.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns hints for fixing it.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.0.hints
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for hint in &self.0.hints {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}
