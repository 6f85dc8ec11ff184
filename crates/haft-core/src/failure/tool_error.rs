//! `ToolError`: any error of a body, so that `?` works on every error type.

use std::{error::Error, fmt};

use super::{BoxError, Failure, convert};

/// The error type of a body that meets errors of other crates: `?` converts every error.
///
/// The model sees the first line of the error; the source chain is for the operator. A [`Failure`]
/// keeps its code, next step and execution state. Like `anyhow::Error`, it is not an
/// [`Error`] itself, because a generic `From` for all errors would then overlap with itself.
///
/// ```
/// use haft_core::{Failure, ToolError};
///
/// fn host(url: &str) -> Result<String, ToolError> {
///     let address: std::net::SocketAddr = url.parse()?; // any error
///     if address.port() == 0 {
///         return Err(Failure::invalid("port 0 is not a port").into());
///     }
///     Ok(address.ip().to_string())
/// }
/// assert_eq!(host("::").unwrap_err().message(), "invalid socket address syntax");
/// ```
pub struct ToolError(Failure);

impl std::ops::Deref for ToolError {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    /// A `Failure` stays as it is.
    fn from(error: E) -> Self {
        Self(convert::from_error(error))
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        error.0
    }
}

impl From<ToolError> for BoxError {
    fn from(error: ToolError) -> Self {
        Box::new(error.0)
    }
}

impl From<ToolError> for Box<dyn Error> {
    fn from(error: ToolError) -> Self {
        Box::new(error.0)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolError").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Execution, FailureCode};

    #[test]
    fn a_failure_passes_through_unchanged() {
        fn inner() -> Result<(), Failure> {
            Err(Failure::new(FailureCode::TimedOut, "too slow")
                .with_next("ask for less")
                .with_execution(Execution::Unknown))
        }
        fn body() -> Result<(), ToolError> {
            Ok(inner()?)
        }
        let failure = Failure::from(body().unwrap_err());
        assert_eq!((failure.code(), failure.message()), (FailureCode::TimedOut, "too slow"));
        assert_eq!(
            (failure.next(), failure.execution()),
            (Some("ask for less"), Execution::Unknown)
        );
        assert!(failure.error_type().is_none() && failure.source().is_none());
    }

    #[test]
    fn any_error_becomes_a_failure_with_its_source_and_type() {
        fn body() -> Result<(), ToolError> {
            "nowhere".parse::<std::net::IpAddr>()?;
            Ok(())
        }
        let error = body().unwrap_err();
        assert_eq!(error.code(), FailureCode::ToolFailed);
        assert!(error.error_type().unwrap().ends_with("AddrParseError"));
        let boxed = BoxError::from(error);
        assert!(boxed.downcast_ref::<Failure>().is_some_and(|own| own.source().is_some()));
    }
}
