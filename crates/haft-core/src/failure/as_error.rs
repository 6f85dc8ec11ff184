//! A failure as a standard error, so that `?` works in functions that return `Box<dyn Error>`.

use std::fmt;

use super::{BoxError, Failure};

/// A [`Failure`] as a [`std::error::Error`], from [`Failure::into_error`].
///
/// `Failure` itself is not an `Error`, so that `?` can turn every `Error` into a `Failure`.
#[derive(Debug)]
pub struct FailureError(Failure);

impl FailureError {
    pub(super) fn new(failure: Failure) -> Self {
        Self(failure)
    }

    /// Returns the failure.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        self.0
    }

    /// Returns the failure by reference.
    #[must_use]
    pub fn failure(&self) -> &Failure {
        &self.0
    }
}

impl fmt::Display for FailureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for FailureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Failure> for BoxError {
    fn from(failure: Failure) -> Self {
        Box::new(failure.into_error())
    }
}

impl From<Failure> for Box<dyn std::error::Error> {
    fn from(failure: Failure) -> Self {
        Box::new(failure.into_error())
    }
}
