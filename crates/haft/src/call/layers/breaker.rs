//! Circuit breaker: rejects calls of a tool that fails repeatedly (`layer_state/circuit.rs`).
//!
//! In: how calls ended. Out: whether the next may start.
//!
//! Our own code: which failures count depends on haft's codes (`is_trouble`).

use haft_core::{Failure, FailureCode, RetryHint, ToolSpec};

use super::{Outcome, Work, in_words};
pub(super) use crate::layer_state::Trial;
use crate::{event::Event, host_code::caught};

/// How many sources of an error are inspected: a chain may be a cycle.
const MAX_ERROR_SOURCES: usize = 16;

/// Lets a call start if the circuit of its tool is closed or may be probed.
pub(super) fn begin(work: &Work<'_>) -> Result<Option<Trial>, Failure> {
    let Some(terms) = &work.turn.run.inner.config.breaker else { return Ok(None) };
    let circuit = &work.entry.layers().circuit;
    if circuit.is_quiet() {
        return Ok(None);
    }
    circuit.begin(terms, work.turn.run.inner.clock.now()).map_err(|wait| {
        let (tool, wait_words) = (work.cx.tool_name(), in_words(wait));
        Failure::new(
            FailureCode::CircuitOpen,
            format!("`{tool}` failed repeatedly and is disabled for a while"),
        )
        .with_next(format!("continue without it, or call it again in {wait_words}"))
        .with_retry_after(wait)
    })
}

/// Notes how a call ended.
#[inline(always)]
pub(super) fn note(work: &Work<'_>, outcome: &Outcome, trial: Option<&Trial>) {
    let Some(terms) = &work.turn.run.inner.config.breaker else { return };
    let circuit = &work.entry.layers().circuit;
    match outcome {
        Ok(_) if circuit.is_quiet() => {}
        Ok(_) => circuit.works(),
        Err(failure) if is_trouble(work.entry.spec(), failure) => {
            if circuit.fails(terms, trial, work.turn.run.inner.clock.now()) {
                work.turn.emit(|| Event::CircuitOpened {
                    tool: work.entry.registered().clone(),
                    failures: if trial.is_some() { 1 } else { terms.failures },
                    cooldown: terms.cooldown,
                });
            }
        }
        Err(_) => {}
    }
}

/// Returns whether a failure counts against the tool, and not only against this call.
///
/// Five reads of a missing file are mistakes of the model and no reason to reject a sixth call. So
/// an ordinary error of a body counts only if other arguments would not help (`BackgroundTask`,
/// `Never`), or if it was passed on with `?` and is the error of a service. Timeouts, panics and
/// invalid outputs always count. Denials, cancellations and waiting never count. A rate limit of a
/// service is handled by waiting.
fn is_trouble(spec: &ToolSpec, failure: &Failure) -> bool {
    match (failure.code(), failure.advice()) {
        (
            FailureCode::TimedOut
            | FailureCode::Panicked
            | FailureCode::BadOutput
            | FailureCode::UnknownOutcome,
            _,
        ) => true,
        (FailureCode::ToolFailed, Some(advice)) => {
            matches!(advice, RetryHint::Later | RetryHint::Never)
        }
        // The chain behind an error is its author's code; if that panics, it is no evidence.
        (FailureCode::ToolFailed, None) => {
            caught(|| is_failure_of_a_service(spec, failure)).unwrap_or(false)
        }
        _ => false,
    }
}

/// Returns whether an error that a body passed on with `?` is the failure of a service.
///
/// A connection that fails is, in any tool. Other types are unknown: if the tool declares `retry`,
/// its author expects such errors to be temporary, and this one outlived all attempts. What an
/// operating system says about a path or a value is about the arguments.
fn is_failure_of_a_service(spec: &ToolSpec, failure: &Failure) -> bool {
    use std::io::ErrorKind as Kind;
    if failure.error_type().is_none() {
        return false;
    }
    let mut next = failure.source();
    for _ in 0..MAX_ERROR_SOURCES {
        let Some(error) = next else { break };
        match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(
                Kind::ConnectionRefused
                | Kind::ConnectionReset
                | Kind::ConnectionAborted
                | Kind::NotConnected
                | Kind::BrokenPipe
                | Kind::HostUnreachable
                | Kind::NetworkUnreachable
                | Kind::NetworkDown
                | Kind::AddrNotAvailable
                | Kind::TimedOut
                | Kind::UnexpectedEof,
            ) => return true,
            Some(
                Kind::NotFound
                | Kind::PermissionDenied
                | Kind::AlreadyExists
                | Kind::InvalidInput
                | Kind::InvalidData
                | Kind::IsADirectory
                | Kind::NotADirectory
                | Kind::DirectoryNotEmpty
                | Kind::InvalidFilename,
            ) => return false,
            Some(_) | None => next = error.source(),
        }
    }
    spec.retry.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_something_about_the_tool_counts() {
        let spec = ToolSpec::new("t", "Tries.");
        let counts = |failure: Failure| is_trouble(&spec, &failure);
        for code in [
            FailureCode::TimedOut,
            FailureCode::Panicked,
            FailureCode::BadOutput,
            FailureCode::UnknownOutcome,
        ] {
            assert!(counts(Failure::new(code, "x")), "{code}");
        }
        assert!(counts(Failure::failed("down").with_retry(RetryHint::Later)));
        assert!(counts(Failure::failed("gone").with_retry(RetryHint::Never)));
        assert!(!counts(Failure::failed("no such file")));
        for code in [
            FailureCode::InvalidValue,
            FailureCode::Cancelled,
            FailureCode::SiblingAborted,
            FailureCode::RateLimited,
        ] {
            assert!(!counts(Failure::new(code, "x")), "{code}");
        }
    }

    #[test]
    fn an_error_passed_on_counts_where_it_speaks_of_a_service() {
        use std::{fmt, io};

        /// An error around another, as clients have them.
        #[derive(Debug)]
        struct Around(io::Error);
        impl fmt::Display for Around {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the request could not be sent")
            }
        }
        impl std::error::Error for Around {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        /// An error that names itself as its cause.
        #[derive(Debug)]
        struct Ring;
        impl fmt::Display for Ring {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("round and round")
            }
        }
        impl std::error::Error for Ring {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(self)
            }
        }

        let plain = ToolSpec::new("t", "Tries.");
        let tried = ToolSpec::new("t", "Tries.").retry(haft_core::RetryPolicy::default());
        let of = |kind: io::ErrorKind| io::Error::from(kind);
        let number = || Failure::from("x".parse::<u8>().unwrap_err());
        for (failure, counts, counts_when_tried) in [
            (Failure::from(of(io::ErrorKind::ConnectionRefused)), true, true),
            (Failure::from_error(Around(of(io::ErrorKind::ConnectionReset))), true, true),
            (Failure::from(of(io::ErrorKind::NotFound)), false, false),
            (Failure::from_error(Around(of(io::ErrorKind::PermissionDenied))), false, false),
            (Failure::from(io::Error::other("who knows")), false, true),
            (number(), false, true),
            (Failure::failed("words of the author's own"), false, false),
            (number().with_retry(RetryHint::Fix), false, false),
            (Failure::from(of(io::ErrorKind::TimedOut)).with_retry(RetryHint::Fix), false, false),
        ] {
            assert_eq!(is_trouble(&plain, &failure), counts, "{failure}");
            assert_eq!(is_trouble(&tried, &failure), counts_when_tried, "{failure}");
        }
        assert!(!is_trouble(&plain, &Failure::from_error(Ring)), "the look behind it has an end");
    }
}
