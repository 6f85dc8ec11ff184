//! `Failure`: an error for the model. The call failed; the run continues.
//!
//! A failure has a stable code, a message, at most one next step, a retry hint, and whether the
//! body ran.
//!
//! INVARIANT: the `source` chain is for the operator. It is never rendered to the model.

mod code;
mod convert;
mod tool_error;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

pub use self::code::{Execution, FailureCode, RetryHint};
pub(crate) use self::convert::first_line;
pub use self::tool_error::ToolError;
use serde::{Serialize, Serializer};

/// Any error an operator may want to see behind a failure.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed, for the model. It is also a [`std::error::Error`], for programs.
///
/// `?` converts the errors that bodies meet most often: I/O, JSON, number parsing, UTF-8. For every
/// other error, return `Result<T, `[`ToolError`]`>` from the body, or use
/// [`Failure::from_error`].
///
/// ```
/// use haft_core::{Failure, FailureCode};
///
/// fn body(text: &str) -> Result<u16, Failure> {
///     Ok(text.parse::<u16>()?)
/// }
/// let failure = body("many").unwrap_err();
/// assert_eq!(failure.code(), FailureCode::ToolFailed);
/// assert_eq!(failure.message(), "invalid digit found in string");
/// ```
pub struct Failure(Box<Inner>);

// Boxed: most functions of the pipeline return a `Result` with it, which should stay small.
struct Inner {
    code: FailureCode,
    message: String,
    next: Option<String>,
    /// The author's retry hint. `None` means the default of the code.
    advice: Option<RetryHint>,
    ran: Execution,
    after: Option<Duration>,
    error_type: Option<&'static str>,
    source: Option<BoxError>,
}

/// Longer messages are truncated, so that a failing tool cannot flood the model's context.
const MAX_MESSAGE_BYTES: usize = 4_000;
/// How many errors of a source chain are rendered.
const MAX_CAUSES: usize = 64;

impl Failure {
    /// Makes a failure with the default retry hint of its code.
    #[must_use]
    #[cold]
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: bounded(message.into()),
            next: None,
            advice: None,
            ran: code.execution(),
            after: None,
            error_type: None,
            source: None,
        }))
    }

    /// Makes a `tool_failed` failure: the body failed. The message is for the model.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureCode::ToolFailed, message)
    }

    /// Makes a `tool_failed` failure from any error. The model sees the first line of its
    /// `Display`; the source chain is for the operator. A `Failure` stays as it is.
    ///
    /// ```
    /// use haft_core::Failure;
    ///
    /// #[derive(Debug)]
    /// struct Busy;
    /// impl std::fmt::Display for Busy {
    ///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    ///         f.write_str("the printer is busy")
    ///     }
    /// }
    /// impl std::error::Error for Busy {}
    ///
    /// fn print() -> Result<(), Failure> {
    ///     Err(Busy).map_err(Failure::from_error)
    /// }
    /// assert_eq!(print().unwrap_err().message(), "the printer is busy");
    /// ```
    #[must_use]
    pub fn from_error(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        convert::from_error(error)
    }

    /// Makes an `invalid_value` failure: an argument matches the schema, but its value is wrong.
    #[must_use]
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureCode::InvalidValue, message)
    }

    /// Hides an error from the model. The operator still sees it.
    ///
    /// ```
    /// use haft_core::Failure;
    ///
    /// let failure = Failure::hidden(std::io::Error::other("password is hunter2"));
    /// assert!(!failure.to_string().contains("hunter2"));
    /// assert!(failure.source().unwrap().to_string().contains("hunter2"));
    /// ```
    #[must_use]
    #[cold]
    pub fn hidden(source: impl Into<BoxError>) -> Self {
        Self::new(FailureCode::ToolFailed, "the tool failed; the details are kept for the operator")
            .with_source(source)
    }

    /// Replaces the message for the model.
    ///
    /// ```
    /// use haft_core::Failure;
    ///
    /// let failure = Failure::failed("no").with_next("wait").with_message("not now");
    /// assert_eq!((failure.message(), failure.next()), ("not now", Some("wait")));
    /// ```
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = bounded(message.into());
        self
    }

    /// Sets the next step for the model.
    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.0.next = Some(bounded(next.into()));
        self
    }

    /// Sets the retry hint.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryHint) -> Self {
        self.0.advice = Some(retry);
        self
    }

    /// Sets how long to wait before a retry, as the HTTP header `Retry-After` does. Without another
    /// hint, the retry hint becomes `Later`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use haft_core::{Failure, RetryHint};
    ///
    /// let wait = Duration::from_secs(7);
    /// let busy = Failure::failed("the service is busy").with_retry_after(wait);
    /// assert_eq!((busy.retry(), busy.retry_after()), (RetryHint::Later, Some(wait)));
    /// ```
    #[must_use]
    pub fn with_retry_after(mut self, time: Duration) -> Self {
        self.0.after = Some(time);
        self.0.advice.get_or_insert(RetryHint::Later);
        self
    }

    /// Sets whether the body ran.
    #[must_use]
    pub fn with_execution(mut self, ran: Execution) -> Self {
        self.0.ran = ran;
        self
    }

    /// Attaches the source error, for the operator only.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> FailureCode {
        self.0.code
    }

    /// Returns the message for the model.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the text that a model reads: code, message, next step.
    #[must_use]
    pub fn model_text(&self) -> String {
        match &self.0.next {
            Some(next) => format!("{self}\nNext: {next}"),
            None => self.to_string(),
        }
    }

    /// Returns the next step for the model.
    #[must_use]
    pub fn next(&self) -> Option<&str> {
        self.0.next.as_deref()
    }

    /// Returns whether the call may be retried.
    #[must_use]
    pub fn retry(&self) -> RetryHint {
        self.0.advice.unwrap_or(self.0.code.retry())
    }

    /// Returns the explicit retry hint. `None` if only the default of the code applies.
    #[must_use]
    pub fn advice(&self) -> Option<RetryHint> {
        self.0.advice
    }

    /// Returns how long to wait before a retry, if known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.after
    }

    /// Returns the full type name of the error that `?` converted.
    #[must_use]
    pub fn error_type(&self) -> Option<&'static str> {
        self.0.error_type
    }

    /// Returns whether the body ran.
    #[must_use]
    pub fn execution(&self) -> Execution {
        self.0.ran
    }

    /// Returns the source error, for the operator only.
    #[must_use]
    pub fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

impl Failure {
    /// Returns the source chain as text, for the operator only.
    #[must_use]
    pub fn cause(&self) -> Option<String> {
        // `Display` is the author's code and runs here outside the body, so catch its panic.
        let text = catch_unwind(AssertUnwindSafe(|| self.causes()));
        let all = text.unwrap_or_else(|panic| {
            // Dropping the panic payload could run the author's code again.
            std::mem::forget(panic);
            "an error whose `Display` panics".to_owned()
        });
        (!all.is_empty()).then(|| bounded(all))
    }

    fn causes(&self) -> String {
        let mut next = self.source();
        let mut all = String::new();
        // An error may be its own source, so the chain is bounded.
        for _ in 0..MAX_CAUSES {
            let Some(error) = next.filter(|_| all.len() <= MAX_MESSAGE_BYTES) else { break };
            if !all.is_empty() {
                all.push_str(": ");
            }
            all.push_str(&error.to_string());
            next = error.source();
        }
        all
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Failure {
    /// Replaces each text for which `change` returns `Some`, e.g. to redact it. The source chain is
    /// kept unless its text changes. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn reworded(mut self, change: impl Fn(&str) -> Option<String>) -> Self {
        if let Some(message) = change(&self.0.message) {
            self.0.message = message;
        }
        if let Some(next) = self.0.next.as_deref().and_then(&change) {
            self.0.next = Some(next);
        }
        if let Some(cause) = self.cause().as_deref().and_then(&change) {
            self.0.source = Some(cause.into());
        }
        self
    }
}

impl Failure {
    /// Copies the failure for another call that waits for the same result (single-flight). The
    /// source chain is copied as text. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn retold(&self) -> Self {
        Self(Box::new(Inner {
            message: self.0.message.clone(),
            next: self.0.next.clone(),
            source: self.cause().map(Into::into),
            ..*self.0
        }))
    }
}

/// Truncates on a character boundary, and notes the full size.
fn bounded(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let all = text.len();
        text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES));
        text.push_str(&format!(" … ({all} bytes in all)"));
    }
    text
}

impl fmt::Display for Failure {
    /// The text for people: code and message. What a model reads is
    /// [`model_text`](Failure::model_text).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source()
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("next", &self.0.next)
            .field("retry", &self.retry())
            .field("execution", &self.0.ran)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Serialize for Failure {
    /// Everything but the source, which is for the operator.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let fields = 5 + usize::from(self.0.after.is_some());
        let mut out = to.serialize_struct("Failure", fields)?;
        out.serialize_field("code", &self.0.code)?;
        out.serialize_field("message", &self.0.message)?;
        out.serialize_field("next", &self.0.next)?;
        out.serialize_field("retry", &self.retry())?;
        out.serialize_field("execution", &self.0.ran)?;
        if let Some(after) = self.0.after {
            out.serialize_field("retry_after_ms", &millis(after))?;
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_docs_page() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        for code in FailureCode::ALL {
            let page = std::path::Path::new(pages).join(format!("{code}.md"));
            #[expect(clippy::disallowed_methods, reason = "the test reads the project's own docs")]
            let text = std::fs::read_to_string(&page)
                .unwrap_or_else(|e| panic!("docs/errors/{code}.md: {e}"));
            assert!(text.starts_with(&format!("# `{code}`")), "{code}: the page names its code");
            let table = format!(
                "| {} | {} | {} |",
                serde_json::to_value(code.retry()).unwrap().as_str().unwrap(),
                serde_json::to_value(code.execution()).unwrap().as_str().unwrap(),
                code.exit_code()
            );
            assert!(text.contains(&table), "{code}: the page lacks the row `{table}`");
        }
    }

    #[test]
    fn a_cyclic_source_chain_is_bounded() {
        #[derive(Debug)]
        struct Ring(&'static str);
        impl fmt::Display for Ring {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }
        impl std::error::Error for Ring {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(self)
            }
        }
        let cause = Failure::from_error(Ring("round and round")).cause().unwrap();
        assert!(cause.starts_with("round and round: round") && cause.len() < 2 * MAX_MESSAGE_BYTES);
        assert_eq!(Failure::from_error(Ring("")).cause(), None);
    }

    #[test]
    fn a_copied_failure_keeps_its_text_hints_and_cause() {
        let first = Failure::from(std::io::Error::other("down"))
            .with_next("wait")
            .with_retry_after(Duration::from_secs(7))
            .with_execution(Execution::Unknown);
        let again = first.retold();
        assert_eq!(again.to_string(), first.to_string());
        assert_eq!((again.execution(), again.advice()), (first.execution(), first.advice()));
        assert_eq!(
            (again.retry_after(), again.error_type()),
            (first.retry_after(), first.error_type())
        );
        assert_eq!(again.cause(), first.cause());
    }

    #[test]
    fn a_message_is_bounded_and_never_empty() {
        let long = Failure::failed("é".repeat(10_000));
        assert!(long.message().len() < MAX_MESSAGE_BYTES + 40);
        let silent: Failure = std::io::Error::other("").into();
        assert!(!silent.message().is_empty());
    }

    #[test]
    fn a_failure_keeps_its_error_type_and_explicit_retry_hint() {
        let failure: Failure = std::io::Error::other("down").into();
        assert_eq!(failure.error_type(), Some("std::io::error::Error"));
        assert_eq!(
            (failure.retry(), failure.advice()),
            (RetryHint::Fix, None),
            "only the default of the code"
        );
        let explicit =
            failure.with_retry(RetryHint::Never).with_retry_after(Duration::from_secs(2));
        assert_eq!(
            (explicit.advice(), explicit.retry()),
            (Some(RetryHint::Never), RetryHint::Never)
        );
        let json = serde_json::to_value(&explicit).unwrap();
        assert_eq!(json["retry_after_ms"], 2_000);
        assert!(
            serde_json::to_value(Failure::failed("x")).unwrap().get("retry_after_ms").is_none()
        );
    }

    #[test]
    fn only_the_first_line_of_an_error_is_shown() {
        let failure: Failure = std::io::Error::other("no such page\nat /srv/secret").into();
        assert_eq!(failure.message(), "no such page");
    }
}
