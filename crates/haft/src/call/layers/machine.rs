//! `ExecuteMachine`: the layers inside the middleware, in order: cache, breaker, retry, rate limit,
//! attempt.
//!
//! It is synchronous and does no I/O. `advance` runs until the outcome is known or the driver must
//! wait for something (`ExecuteNeed`).
//!
//! INVARIANT: a body is requested at most once per attempt, and an attempt is only repeated if
//! `retry` says that no side effect can be repeated.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{Args, Cache, Failure, FailureCode, ToolContext, host::HostContext};

use super::{
    ExecutionStats, Outcome, Work,
    attempt_span::AttemptSpan,
    body_attempt::{Attempt, outcome_of_attempt},
    breaker::{self, Trial},
    cache::{self, Cached, Flight, FlightMember},
    retry,
};
use crate::{
    event::{Event, WaitReason},
    host_code::after,
    layer_state::{self, Acquire, QueueSlot, RateLimiter},
};

/// Executes one authorized call.
pub(crate) struct ExecuteMachine {
    phase: Phase,
    pub(crate) stats: ExecutionStats,
    /// The decoded arguments, for the first attempt.
    first: Option<Args>,
    /// The number of the current attempt, from 1.
    attempt: u32,
    /// The context of the current attempt, if the call may have several.
    attempt_cx: Option<ToolContext>,
    /// The computation whose result goes to the cache.
    flight: Option<Box<FlightMember>>,
    /// The permission of the breaker, if this call is a probe.
    trial: Option<Trial>,
    /// The failure of the previous attempt.
    last: Option<Failure>,
    /// Whether the successful attempt had been cancelled, so that its result may be incomplete.
    was_cancelled: bool,
}

enum Phase {
    Start,
    /// Waits for an identical call.
    Flight(Box<FlightMember>),
    /// Waits for a token of a rate limiter.
    Rate(Limiter),
    /// Waits before the next attempt.
    Backoff(Failure),
    /// The body runs.
    Body,
    Taken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Limiter {
    Runtime,
    Tool,
}

/// What the driver does next.
pub(crate) enum ExecuteStep {
    Done(Outcome),
    /// Make an attempt at the body, in `ExecuteMachine::context`.
    Attempt(Args),
    Wait(ExecuteNeed),
}

/// What the machine waits for.
pub(crate) enum ExecuteNeed {
    /// The outcome of an identical call.
    Flight(Arc<Flight>),
    /// A token of a rate limiter.
    Rate(QueueSlot),
    /// A moment.
    Sleep(Instant),
}

/// What the driver reports.
pub(crate) enum ExecuteInput {
    Start,
    /// A wait ended, or was stopped; how long it took.
    Waited(Result<(), Failure>, Duration),
    /// An attempt ended, with its span.
    Body(Attempt, Option<Box<AttemptSpan>>),
}

impl ExecuteMachine {
    pub(crate) fn new(first: Args, stats: ExecutionStats) -> Self {
        Self {
            phase: Phase::Start,
            stats,
            first: Some(first),
            attempt: 1,
            attempt_cx: None,
            flight: None,
            trial: None,
            last: None,
            was_cancelled: false,
        }
    }

    /// Returns the context of the current attempt.
    pub(super) fn context<'a>(&'a self, work: &Work<'a>) -> &'a ToolContext {
        self.attempt_cx.as_ref().unwrap_or(work.cx)
    }

    /// Runs until the outcome is known or something must be waited for.
    #[inline(always)]
    pub(crate) fn advance(&mut self, work: &Work<'_>, input: ExecuteInput) -> ExecuteStep {
        match input {
            ExecuteInput::Start => match &work.entry.spec().cache {
                Some(cache) => {
                    let cached = cache::look_up(work, cache, &mut self.stats);
                    self.cached(work, cached)
                }
                None => self.begin(work),
            },
            ExecuteInput::Body(attempt, span) => {
                let cx = self.context(work);
                let outcome = outcome_of_attempt(work, cx, attempt);
                if let Some(span) = span {
                    span.end(&Work { cx, ..*work }, &outcome);
                }
                self.attempted(work, outcome)
            }
            ExecuteInput::Waited(waited, time) => self.after_wait(work, waited, time),
        }
    }

    /// Continues after a wait, or ends the call if the wait was stopped.
    #[inline(never)]
    fn after_wait(
        &mut self,
        work: &Work<'_>,
        waited: Result<(), Failure>,
        time: Duration,
    ) -> ExecuteStep {
        match std::mem::replace(&mut self.phase, Phase::Taken) {
            Phase::Flight(member) => match self.waited(work, WaitReason::InFlight, waited, time) {
                Ok(()) => {
                    let cached = cache::joined(work, member, &mut self.stats);
                    self.cached(work, cached)
                }
                Err(failure) => ExecuteStep::Done(Err(failure)),
            },
            Phase::Rate(limiter) => match self.waited(work, WaitReason::Rate, waited, time) {
                Ok(()) if limiter == Limiter::Runtime => self.acquire(work, Limiter::Tool),
                Ok(()) => self.run(work),
                Err(failure) => {
                    return_token(work, limiter);
                    self.refused_by_rate(work, failure)
                }
            },
            Phase::Backoff(failure) => match self.waited(work, WaitReason::Backoff, waited, time) {
                Ok(()) => {
                    self.last = Some(failure);
                    self.attempt += 1;
                    self.acquire(work, Limiter::Runtime)
                }
                Err(stopped) => self.end(work, Err(stopped.with_source(failure.to_string()))),
            },
            // A driver that answers another need is a mistake of ours; the call still ends.
            Phase::Start | Phase::Body | Phase::Taken => ExecuteStep::Done(Err(Failure::new(
                FailureCode::UnknownOutcome,
                "the runtime itself failed",
            ))),
        }
    }

    /// Continues after the lookup in the cache.
    fn cached(&mut self, work: &Work<'_>, cached: Cached) -> ExecuteStep {
        match cached {
            Cached::Outcome(outcome) => ExecuteStep::Done(outcome),
            Cached::Wait(member) => {
                let flight = Arc::clone(member.flight());
                self.phase = Phase::Flight(member);
                ExecuteStep::Wait(ExecuteNeed::Flight(flight))
            }
            Cached::Compute(flight) => {
                self.flight = flight;
                self.begin(work)
            }
        }
    }

    /// Starts the first attempt, unless the breaker rejects the call.
    #[inline(always)]
    fn begin(&mut self, work: &Work<'_>) -> ExecuteStep {
        match breaker::begin(work) {
            Ok(trial) => {
                self.trial = trial;
                self.acquire(work, Limiter::Runtime)
            }
            Err(failure) => self.finish(work, Err(failure)),
        }
    }

    /// Takes a token of each rate limiter, from this one on.
    #[inline(always)]
    fn acquire(&mut self, work: &Work<'_>, from: Limiter) -> ExecuteStep {
        if from == Limiter::Runtime
            && let Some(rate) = &work.turn.run.inner.layers.rate
            && let Some(step) = self.take_token(work, rate, Limiter::Runtime)
        {
            return step;
        }
        if let Some(rate) = &work.entry.layers().rate
            && let Some(step) = self.take_token(work, rate, Limiter::Tool)
        {
            return step;
        }
        self.run(work)
    }

    /// Takes a token of a rate limiter; `None` if there is one at once.
    #[inline(never)]
    fn take_token(
        &mut self,
        work: &Work<'_>,
        rate: &Arc<RateLimiter>,
        limiter: Limiter,
    ) -> Option<ExecuteStep> {
        match rate.acquire(work.turn.run.inner.clock.now(), work.deadline) {
            Acquire::Passed => None,
            Acquire::Wait(slot) => {
                self.phase = Phase::Rate(limiter);
                Some(ExecuteStep::Wait(ExecuteNeed::Rate(slot)))
            }
            Acquire::TooLong(wait) => {
                let tool = (limiter == Limiter::Tool).then(|| work.cx.tool_name().as_str());
                let refused = layer_state::refused(rate, tool, wait);
                return_token(work, limiter);
                Some(self.refused_by_rate(work, refused))
            }
        }
    }

    /// Ends a call that the rate limit stops. If an attempt failed before, its failure says more.
    fn refused_by_rate(&mut self, work: &Work<'_>, failure: Failure) -> ExecuteStep {
        let failure = match self.last.take() {
            Some(last) if failure.code() == FailureCode::RateLimited => last,
            _ => failure,
        };
        self.end(work, Err(failure))
    }

    /// Requests an attempt at the body.
    #[inline(always)]
    fn run(&mut self, work: &Work<'_>) -> ExecuteStep {
        self.last = None;
        let args = match self.first.take() {
            Some(args) => args,
            None => match retry::decode(work) {
                Ok(args) => args,
                Err(failure) => return self.end(work, Err(failure)),
            },
        };
        // Each attempt of a call that may have several has a context of its own.
        self.attempt_cx = retry::policy(work).map(|_| work.cx.for_attempt(self.attempt));
        self.stats.attempts += 1;
        if self.stats.attempts == 1 {
            work.turn.emit(|| Event::Running { call: work.cx.call_id().clone() });
        }
        self.phase = Phase::Body;
        ExecuteStep::Attempt(args)
    }

    /// Ends the call, or waits for the next attempt.
    #[inline(always)]
    fn attempted(&mut self, work: &Work<'_>, outcome: Outcome) -> ExecuteStep {
        let Some(policy) = retry::policy(work) else { return self.end(work, outcome) };
        let failure = match outcome {
            Ok(output) => {
                self.was_cancelled = self.context(work).is_cancelled();
                return self.end(work, Ok(output));
            }
            Err(failure) => failure,
        };
        let Some(wait) = retry::delay(work, policy, self.attempt, &failure) else {
            return self.end(work, Err(failure));
        };
        let until = after(work.turn.run.inner.clock.now(), wait);
        if until >= work.deadline {
            return self.end(work, Err(failure));
        }
        work.turn.emit(|| Event::Retrying {
            call: work.cx.call_id().clone(),
            attempt: self.attempt + 1,
            failed: failure.code(),
            wait,
        });
        self.phase = Phase::Backoff(failure);
        ExecuteStep::Wait(ExecuteNeed::Sleep(until))
    }

    /// Records a wait, and returns how it ended.
    fn waited(
        &mut self,
        work: &Work<'_>,
        what: WaitReason,
        waited: Result<(), Failure>,
        time: Duration,
    ) -> Result<(), Failure> {
        self.stats.waited = self.stats.waited.saturating_add(time);
        work.turn.emit(|| Event::Waited { call: work.cx.call_id().clone(), what, time });
        waited.map_err(|stopped| match stopped.code() {
            // An attempt was made before, so it would be wrong to report that nothing ran.
            FailureCode::DeadlinePassed if self.stats.attempts > 0 => Failure::new(
                FailureCode::DeadlinePassed,
                "the deadline of the call passed before it could be retried",
            ),
            _ => stopped,
        })
    }

    /// Ends a call that passed the breaker.
    #[inline(always)]
    fn end(&mut self, work: &Work<'_>, outcome: Outcome) -> ExecuteStep {
        breaker::note(work, &outcome, self.trial.as_ref());
        self.trial = None;
        self.finish(work, outcome)
    }

    /// Stores the outcome in the cache, and ends the call.
    #[inline(always)]
    fn finish(&mut self, work: &Work<'_>, outcome: Outcome) -> ExecuteStep {
        let cache: Option<&Cache> = work.entry.spec().cache.as_ref();
        if let Some((cache, member)) = cache.zip(self.flight.take()) {
            cache::store(work, cache, &member, &outcome, self.was_cancelled);
        }
        ExecuteStep::Done(outcome)
    }
}

/// Returns the runtime's token, if the tool's limiter refused the call after it.
fn return_token(work: &Work<'_>, refused_by: Limiter) {
    if refused_by == Limiter::Tool
        && let Some(all) = &work.turn.run.inner.layers.rate
    {
        all.give_back();
    }
}
