//! Conversions between `Failure` and other errors.
//!
//! A generic `From` for every error is impossible while `Failure` is an `Error`: it would overlap
//! with `From<Failure> for Failure`. [`ToolError`](super::ToolError) has that generic conversion.

use std::{any::Any, error::Error};

use super::{BoxError, Failure};

/// Shown for an error whose `Display` is empty.
const NO_MESSAGE: &str = "the tool failed without a message";

/// Converts any error; a `Failure` stays as it is.
pub(super) fn from_error<E: Error + Send + Sync + 'static>(error: E) -> Failure {
    let mut error = Some(error);
    let own = (&mut error as &mut dyn Any).downcast_mut::<Option<Failure>>();
    if let Some(own) = own.and_then(Option::take) {
        return own;
    }
    let Some(error) = error else { return Failure::failed(NO_MESSAGE) };
    let mut failure = Failure::failed(first_line(&error)).with_source(error);
    failure.0.error_type = Some(std::any::type_name::<E>());
    failure
}

/// Returns the first line of an error, which is what a model sees of it.
pub(crate) fn first_line(error: &(impl std::fmt::Display + ?Sized)) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    if line.trim().is_empty() { NO_MESSAGE } else { line }.to_owned()
}

impl From<BoxError> for Failure {
    /// A `Failure` in the box stays as it is.
    fn from(error: BoxError) -> Self {
        match error.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(error) => Failure::failed(first_line(&*error)).with_source(error),
        }
    }
}

macro_rules! from_errors {
    ($($error:ty,)*) => {$(
        impl From<$error> for Failure {
            /// The model sees the first line of `Display`. The source chain is for the operator.
            fn from(error: $error) -> Self {
                from_error(error)
            }
        }
    )*};
}

from_errors! {
    std::io::Error,
    serde_json::Error,
    std::fmt::Error,
    std::num::ParseIntError,
    std::num::ParseFloatError,
    std::num::TryFromIntError,
    std::str::ParseBoolError,
    std::char::ParseCharError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureCode;

    fn slow_down() -> Failure {
        Failure::new(FailureCode::RateLimited, "slow down").with_next("wait").with_source("429")
    }

    #[test]
    fn a_failure_is_an_error_with_a_one_line_message_and_a_source() {
        fn program() -> Result<(), Box<dyn Error>> {
            Err(slow_down())?;
            Ok(())
        }
        let error = program().unwrap_err();
        assert_eq!(error.to_string(), "rate_limited: slow down");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("429"));
        assert!(error.downcast_ref::<Failure>().is_some_and(|own| own.next() == Some("wait")));
    }

    #[test]
    fn a_failure_in_a_box_keeps_its_code_and_next_step() {
        fn boxed() -> Result<(), BoxError> {
            Err(slow_down())?;
            Ok(())
        }
        fn back() -> Result<(), Failure> {
            Ok(boxed()?)
        }
        let failure = back().unwrap_err();
        assert_eq!((failure.code(), failure.next()), (FailureCode::RateLimited, Some("wait")));
        let other = Failure::from(BoxError::from("down\nat /srv/secret"));
        assert_eq!((other.message(), other.error_type()), ("down", None));
        assert_eq!(other.cause().as_deref(), Some("down\nat /srv/secret"));
    }

    #[test]
    fn common_errors_convert_with_the_question_mark() {
        fn parse(bytes: Vec<u8>) -> Result<(u8, f32, bool, char), Failure> {
            let text = String::from_utf8(bytes)?;
            let json: serde_json::Value = serde_json::from_str(&text)?;
            let part = |at: usize| json[at].as_str().unwrap_or_default();
            Ok((part(0).parse()?, part(1).parse()?, part(2).parse()?, part(3).parse()?))
        }
        assert_eq!(parse(br#"["1","2.5","true","x"]"#.into()).unwrap(), (1, 2.5, true, 'x'));
        for (bytes, kind) in [
            (&b"\xff"[..], "FromUtf8Error"),
            (b"[", "serde_json::error::Error"),
            (b"[]", "ParseIntError"),
            (br#"["1"]"#, "ParseFloatError"),
            (br#"["1","2"]"#, "ParseBoolError"),
            (br#"["1","2","true",""]"#, "ParseCharError"),
        ] {
            let failure = parse(bytes.into()).unwrap_err();
            assert!(failure.error_type().unwrap().ends_with(kind), "{failure:?}");
            assert!(failure.source().is_some(), "{failure:?}");
        }
    }
}
