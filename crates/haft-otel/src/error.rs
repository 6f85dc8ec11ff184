//! The error of this crate, for the operator.

use std::fmt;

/// Why the export could not be configured or data could not be sent.
#[derive(Debug)]
pub struct OtlpError {
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl OtlpError {
    pub(crate) fn new(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }

    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }
}

impl fmt::Display for OtlpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for OtlpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
