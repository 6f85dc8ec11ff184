//! Retries a failed attempt if that is safe.
//!
//! In: a call, its retry policy, the failure of an attempt. Out: how long to wait for the next one.
//! Each attempt has a fresh instance of the arguments, its own rate limit and timeout, and a
//! context that can be cancelled without cancelling the call; the idempotency key stays the same.
//!
//! Our own code: whether an attempt may be repeated depends on what the call may have changed.
//!
//! INVARIANT: a side effect is not repeated. An attempt is retried only if the call is read-only or
//! idempotent, or the failure says that nothing ran; and never while work of the attempt is still
//! running.

use std::time::Duration;

use haft_core::{Args, Execution, Failure, FailureCode, RetryHint, RetryPolicy, host::HostContext};

use super::Work;
use crate::{host_code::caught, secrets};

/// The longest wait that a failure may request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Returns the retry policy of a call; `None` if it has one attempt.
pub(super) fn policy<'a>(work: &Work<'a>) -> Option<&'a RetryPolicy> {
    let own = work.limits().and_then(|limits| limits.retry.as_ref());
    let policy =
        own.or(work.entry.spec().retry.as_ref()).or(work.turn.run.inner.config.retry.as_ref());
    policy.filter(|policy| policy.max_attempts > 1)
}

/// Returns how long to wait after the attempt with this number failed; `None` if no attempt may
/// follow.
pub(super) fn delay(
    work: &Work<'_>,
    policy: &RetryPolicy,
    attempt: u32,
    failure: &Failure,
) -> Option<Duration> {
    if attempt >= policy.max_attempts || !may_repeat(work, policy, failure) {
        return None;
    }
    Some(match failure.retry_after() {
        Some(time) => time.min(MAX_RETRY_AFTER),
        None => policy.delay(attempt, work.turn.run.inner.layers.chance(work.cx, attempt)),
    })
}

/// Makes a fresh instance of the arguments. They were decoded before, so this fails only where the
/// author's own code does not answer twice alike.
pub(super) fn decode(work: &Work<'_>) -> Result<Args, Failure> {
    let arguments = work.permitted.validated().frozen_arguments();
    let (redactor, tool) = (&work.turn.run.inner.redactor, work.entry.secret_user());
    if let Some(args) = secrets::resolve(redactor, tool, arguments)? {
        return Ok(args);
    }
    let broken = |why: String| {
        Failure::new(FailureCode::BadArguments, "the arguments could not be decoded a second time")
            .with_source(why)
    };
    match caught(|| work.entry.body().decode(arguments.json())) {
        Ok(Ok(args)) => Ok(args),
        Ok(Err(failure)) => Err(broken(failure.to_string())),
        Err(panic) => Err(broken(panic)),
    }
}

/// Returns whether the attempt may be made again.
fn may_repeat(work: &Work<'_>, retries: &RetryPolicy, failure: &Failure) -> bool {
    // A nested call that did not run says nothing about what its caller did before.
    let never_ran = failure.execution() == Execution::NotStarted && work.cx.nested_calls() == 0;
    let harmless = never_ran
        || work.permitted.validated().profile().read_only
        || work.entry.spec().idempotent == Some(true);
    harmless
        && failure.execution() != Execution::Unknown
        && !work.cx.has_running_work()
        && !work.turn.is_stopped(work.cx)
        && is_worth_it(failure)
        && is_wanted(&retries.retry_on, failure)
}

/// Returns whether the same call may succeed later.
///
/// An error that a body returns with `?` says nothing about retrying; its code alone makes it
/// something for the model to fix. Most such errors of a tool that declares `retry`
/// are those of a service or a disk, so they are tried again. A body that says `Fix` or `Never` is
/// taken at its word.
fn is_worth_it(failure: &Failure) -> bool {
    match failure.code() {
        FailureCode::ToolFailed => {
            !matches!(failure.advice(), Some(RetryHint::Fix | RetryHint::Never))
        }
        FailureCode::InvalidValue
        | FailureCode::Cancelled
        | FailureCode::SiblingAborted
        | FailureCode::DeadlinePassed
        | FailureCode::UnknownOutcome
        | FailureCode::Unrecorded => false,
        _ => failure.retry() == RetryHint::Later,
    }
}

/// Returns whether the tool's `retry_on` includes this failure. A word that is a code means that
/// code; any other is searched in the name of the error's type.
fn is_wanted(words: &[String], failure: &Failure) -> bool {
    words.is_empty()
        || words.iter().any(|word| {
            if FailureCode::ALL.iter().any(|code| word.eq_ignore_ascii_case(code.as_str())) {
                return word.eq_ignore_ascii_case(failure.code().as_str());
            }
            let kind = failure.error_type().unwrap_or_default().to_lowercase();
            !word.is_empty() && kind.contains(&word.to_lowercase())
        })
}

#[cfg(test)]
mod tests {
    use haft_core::Backoff;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_may_succeed_later_is_tried_again() {
        let worth = |failure: Failure| is_worth_it(&failure);
        assert!(worth(std::io::Error::other("down").into()), "nothing was said about it");
        assert!(worth(Failure::failed("busy").with_retry(RetryHint::Later)));
        assert!(!worth(Failure::failed("no such city").with_retry(RetryHint::Fix)));
        assert!(!worth(Failure::failed("gone").with_retry(RetryHint::Never)));
        assert!(
            !worth(Failure::invalid("no").with_retry(RetryHint::Later)),
            "the value stays wrong"
        );
        for code in FailureCode::ALL {
            let expected = matches!(
                code,
                FailureCode::ToolFailed
                    | FailureCode::TimedOut
                    | FailureCode::RateLimited
                    | FailureCode::CircuitOpen
                    | FailureCode::ApprovalExpired
                    | FailureCode::NotRun
            );
            assert_eq!(worth(Failure::new(*code, "x")), expected, "{code}");
        }
    }

    #[test]
    fn words_are_codes_or_parts_of_a_type_name() {
        let io = || Failure::from(std::io::Error::other("down"));
        let wanted = |words: &[&str], failure: &Failure| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            is_wanted(&words, failure)
        };
        assert!(wanted(&[], &io()));
        assert!(wanted(&["IO::Error"], &io()) && wanted(&["parse", "std::io"], &io()));
        assert!(wanted(&["Tool_Failed"], &io()));
        assert!(
            !wanted(&["timed_out"], &io()) && !wanted(&["parse"], &io()) && !wanted(&[""], &io())
        );
        let late = Failure::new(FailureCode::TimedOut, "x");
        assert!(wanted(&["timed_out"], &late) && !wanted(&["io"], &late));
    }

    fn times() -> impl Strategy<Value = Duration> {
        prop_oneof![
            8 => (0u64..100_000).prop_map(Duration::from_millis),
            1 => any::<u64>().prop_map(Duration::from_nanos),
            1 => (any::<u64>(), 0u32..1_000_000_000).prop_map(|(s, n)| Duration::new(s, n)),
        ]
    }

    fn anything() -> impl Strategy<Value = RetryPolicy> {
        let backoff =
            prop_oneof![Just(Backoff::Fixed), Just(Backoff::Linear), Just(Backoff::Exponential)];
        (backoff, times(), times(), any::<bool>()).prop_map(|(backoff, first, longest, jitter)| {
            RetryPolicy {
                backoff,
                initial_delay: first,
                max_delay: longest,
                jitter,
                ..RetryPolicy::default()
            }
        })
    }

    proptest! {
        #[test]
        fn waits_are_bounded_grow_and_are_spread_by_half(
            retries in anything(),
            failed in prop_oneof![1u32..70, any::<u32>()],
            chance in prop_oneof![4 => 0.0..=1.0, 1 => any::<f64>()],
        ) {
            let base = RetryPolicy { jitter: false, ..retries.clone() };
            let wait = retries.delay(failed, chance);
            let plain = base.delay(failed, chance);
            // Bounds: never past the longest, and what is not spread does not know chance.
            prop_assert!(wait <= retries.max_delay && plain <= retries.max_delay);
            prop_assert_eq!(plain, base.delay(failed, 0.0));
            // The base never shrinks from try to try, and begins with the first wait.
            prop_assert!(plain <= base.delay(failed.saturating_add(1), 0.0));
            prop_assert_eq!(base.delay(1, 0.0), retries.initial_delay.min(retries.max_delay));
            prop_assert_eq!(base.delay(0, 0.0), base.delay(1, 0.0), "there is no attempt 0");
            if !retries.jitter {
                prop_assert_eq!(wait, plain);
                return Ok(());
            }
            // Jitter: from half to one and a half times, within the precision of seconds.
            let (wait, plain) = (wait.as_secs_f64(), plain.as_secs_f64());
            let (near, longest) = (1e-9 + plain * 1e-9, retries.max_delay.as_secs_f64());
            prop_assert!(wait >= plain * 0.5 - near, "{wait} of {plain}");
            prop_assert!(wait <= (plain * 1.5).min(longest) + near, "{wait} of {plain}");
        }
    }
}
