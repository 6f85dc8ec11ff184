//! Retries a failed attempt if that is safe.
//!
//! In: a call and its retry policy. Out: the outcome of the last attempt. Each attempt has a fresh
//! instance of the arguments, its own rate limit and timeout, and a context that can be cancelled
//! without cancelling the call; the idempotency key stays the same.
//!
//! Our own code: whether an attempt may be repeated depends on what the call may have changed.
//!
//! INVARIANT: a side effect is not repeated. An attempt is retried only if the call is read-only or
//! idempotent, or the failure says that nothing ran; and never while work of the attempt is still
//! running.

use std::time::Duration;

use haft_core::{Args, Execution, Failure, FailureCode, RetryHint, RetryPolicy, host::HostContext};

use super::{ExecutionStats, Outcome, Work, begin_attempt, rate, timeout, waiting};
use crate::{
    event::{Event, WaitReason},
    secrets,
    watch::{after, caught},
};

/// The longest wait that a failure may request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Makes attempts at the body until one succeeds or none may follow.
pub(super) async fn attempts(work: &Work<'_>, first: Args, course: &mut ExecutionStats) -> Outcome {
    let inner = &work.turn.inner;
    let own = work.limits().and_then(|limits| limits.retry.as_ref());
    let retries = own.or(work.entry.spec().retry.as_ref()).or(inner.config.retry.as_ref());
    let Some(retries) = retries.filter(|retries| retries.max_attempts > 1) else {
        rate::pass(work, course).await?;
        begin_attempt(work, course);
        return timeout::attempt(work, first).await;
    };
    let mut args = Some(first);
    let mut last: Option<Failure> = None;
    for n in 1..=retries.max_attempts {
        match (rate::pass(work, course).await, last.take()) {
            (Ok(()), _) => {}
            // That the next attempt would come too late is no news; what came of the last one is.
            (Err(refused), Some(last)) if refused.code() == FailureCode::RateLimited => {
                return Err(last);
            }
            (Err(failure), _) => return Err(failure),
        }
        let args = match args.take() {
            Some(args) => args,
            None => decode(work)?,
        };
        let cx = work.cx.for_attempt(n);
        begin_attempt(work, course);
        let failure = match timeout::attempt(&Work { cx: &cx, ..*work }, args).await {
            Ok(output) => {
                course.was_hurried = cx.is_cancelled();
                return Ok(output);
            }
            Err(failure) => failure,
        };
        if n == retries.max_attempts || !may_repeat(work, retries, &failure) {
            return Err(failure);
        }
        let wait = match failure.retry_after() {
            Some(time) => time.min(MAX_RETRY_AFTER),
            None => retries.delay(n, inner.layers.chance(work.cx, n)),
        };
        let until = after(inner.clock.now(), wait);
        if until >= work.deadline {
            return Err(failure);
        }
        work.turn.emit(|| Event::Retrying {
            call: work.cx.call_id().clone(),
            attempt: n + 1,
            failed: failure.code(),
            wait,
        });
        let sleep = inner.clock.sleep_until(until);
        let waited = waiting(work, course, WaitReason::Backoff, sleep).await;
        waited.map_err(|stopped| stopped.with_source(failure.to_string()))?;
        last = Some(failure);
    }
    // The last attempt always returns.
    Err(last.unwrap_or_else(|| Failure::new(FailureCode::NotRun, "no attempt was made")))
}

/// Makes a fresh instance of the arguments. They were decoded before, so this fails only where the
/// author's own code does not answer twice alike.
fn decode(work: &Work<'_>) -> Result<Args, Failure> {
    let json = work.permitted.admitted().arguments();
    if let Some(args) = secrets::resolve(&work.turn.inner.redactor, work.entry, json)? {
        return Ok(args);
    }
    let broken = |why: String| {
        Failure::new(FailureCode::BadArguments, "the arguments could not be decoded a second time")
            .with_source(why)
    };
    match caught(|| work.entry.body().decode(json)) {
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
        || work.permitted.admitted().profile().read_only
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
