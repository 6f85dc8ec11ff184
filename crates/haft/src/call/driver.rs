//! Drives call machines in the async runtime.
//!
//! `RunningCall` is one future per call. It polls what the machine needs once, in place; a call
//! that never waits needs no task and no box. What is not ready is kept, with a timer and the
//! cancellation next to it, and the future can be moved to a task.
//!
//! INVARIANT: a call that is dropped before its end still has its terminal event.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use haft_core::{Execution as BodyExecution, Failure, FailureCode, ToolContext};
use tracing::Span;

use super::{
    acquire, approve,
    authorize::GuardId,
    explain_invalid, journal_write,
    machine::{BudgetReservation, CallMachine, Resume},
    record::Parent,
    sanitize,
    step::{Input, Need, Step},
    truncate,
    validate::ValidatedCall,
    watched::{Limit, Watched},
};
use crate::{
    call::TurnCore,
    event::Event,
    host_code::Stopped,
    journal::WriteStatus,
    telemetry,
    tool_result::{BoxedResult, ToolResult},
};

/// A call that runs, as a future. It owns its turn, so that it can become a task.
pub(crate) struct RunningCall {
    turn: Arc<TurnCore>,
    call: DrivenCall,
}

/// A call that its turn polls in place.
pub(crate) struct DrivenCall {
    machine: CallMachine,
    waiting: Waiting,
    /// The span of the call; `Span::none()` without a subscriber.
    span: Span,
    has_started: bool,
    has_ended: bool,
}

/// What a call waits for.
enum Waiting {
    /// Its first poll.
    Start,
    Need(Need),
    Work(Watched),
    /// The execution of its machine.
    Execution,
    /// The result, or nothing more.
    Ended,
}

impl RunningCall {
    /// Makes the future of a call. Nothing happens before the first poll.
    pub(crate) fn new(
        turn: Arc<TurnCore>,
        call: Result<ValidatedCall, Failure>,
        cx: ToolContext,
        parent: Option<Arc<Parent>>,
        reservation: Option<Box<BudgetReservation>>,
    ) -> Self {
        let call = DrivenCall::new(&turn, call, cx, parent, reservation);
        Self { turn, call }
    }

    /// Continues a call that was polled in place and waits.
    pub(crate) fn from_driven(turn: Arc<TurnCore>, call: DrivenCall) -> Self {
        Self { turn, call }
    }

    /// Continues a machine that has this need.
    pub(crate) fn with_need(turn: Arc<TurnCore>, machine: CallMachine, need: Need) -> Self {
        let (waiting, span) = (Waiting::Need(need), Span::none());
        let call = DrivenCall { machine, waiting, span, has_started: true, has_ended: false };
        Self { turn, call }
    }

    /// Returns the context of the call.
    pub(crate) fn context(&self) -> &ToolContext {
        &self.call.machine.facts().cx
    }

    /// Sets how a call that was parked goes on.
    pub(crate) fn set_resume(&mut self, resume: Option<Box<Resume>>) {
        self.call.set_resume(resume);
    }
}

impl DrivenCall {
    #[inline]
    pub(crate) fn new(
        turn: &TurnCore,
        call: Result<ValidatedCall, Failure>,
        cx: ToolContext,
        parent: Option<Arc<Parent>>,
        reservation: Option<Box<BudgetReservation>>,
    ) -> Self {
        let span = telemetry::call_span(&cx);
        Self {
            machine: CallMachine::new(turn, call, cx, parent, reservation),
            waiting: Waiting::Start,
            span,
            has_started: false,
            has_ended: false,
        }
    }

    /// Sets how a call that was parked goes on.
    pub(crate) fn set_resume(&mut self, resume: Option<Box<Resume>>) {
        self.machine.set_resume(resume);
    }

    /// Polls the call to its result. A call that is not ready must become a `RunningCall`, which
    /// has its terminal event however it ends.
    #[inline(always)]
    pub(crate) fn poll(
        &mut self,
        turn: &Arc<TurnCore>,
        task: &mut task::Context<'_>,
    ) -> Poll<BoxedResult> {
        self.has_started = true;
        let entered = (!self.span.is_none()).then(|| self.span.clone().entered());
        let polled = catch_unwind(AssertUnwindSafe(|| self.poll_inside(turn, task)));
        let polled = match polled {
            Ok(polled) => polled,
            Err(_) => self.after_panic(turn, task),
        };
        self.has_ended = polled.is_ready();
        drop(entered);
        polled
    }

    #[inline(always)]
    fn poll_inside(
        &mut self,
        turn: &Arc<TurnCore>,
        task: &mut task::Context<'_>,
    ) -> Poll<BoxedResult> {
        let Poll::Ready(input) = self.poll_waiting(turn, task) else { return Poll::Pending };
        let step = self.machine.advance(turn, input);
        self.take_steps(turn, step, task)
    }

    /// Satisfies what the machine needs, until the call has ended or must wait.
    #[inline(always)]
    fn take_steps(
        &mut self,
        turn: &Arc<TurnCore>,
        mut step: Step,
        task: &mut task::Context<'_>,
    ) -> Poll<BoxedResult> {
        loop {
            let need = match step {
                Step::Done(result) => return Poll::Ready(result),
                Step::Wait(need) => need,
            };
            let Poll::Ready(input) = self.satisfy(turn, need, task) else { return Poll::Pending };
            step = self.machine.advance(turn, input);
        }
    }

    /// Ends a call after a panic. Bodies, guards and hooks are supervised one by one, so this is a
    /// mistake of ours, and the call still gets its result.
    #[cold]
    #[inline(never)]
    fn after_panic(
        &mut self,
        turn: &Arc<TurnCore>,
        task: &mut task::Context<'_>,
    ) -> Poll<BoxedResult> {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let step = self.machine.panicked(turn);
            self.take_steps(turn, step, task)
        }));
        ended.unwrap_or_else(|_| {
            let (inner, cx) = (&turn.run.inner, &self.machine.facts().cx);
            let (id, name) = (cx.call_id().clone(), cx.requested_name().clone());
            let lost = ToolResult::lost(&inner.config, &inner.nonces, id, name);
            Poll::Ready(BoxedResult::new(lost))
        })
    }

    /// Polls what the call waits for.
    #[inline(always)]
    fn poll_waiting(&mut self, turn: &Arc<TurnCore>, task: &mut task::Context<'_>) -> Poll<Input> {
        match std::mem::replace(&mut self.waiting, Waiting::Ended) {
            Waiting::Start => Poll::Ready(Input::Start),
            Waiting::Need(need) => self.satisfy(turn, need, task),
            Waiting::Work(mut watched) => {
                self.machine.facts().forget_moment();
                let polled = watched.poll(turn, &self.machine.facts().cx, task);
                if polled.is_pending() {
                    self.waiting = Waiting::Work(watched);
                }
                polled
            }
            Waiting::Execution => {
                self.machine.facts().forget_moment();
                self.poll_execution(turn, task)
            }
            Waiting::Ended => Poll::Pending,
        }
    }

    #[inline(always)]
    fn poll_execution(
        &mut self,
        turn: &Arc<TurnCore>,
        task: &mut task::Context<'_>,
    ) -> Poll<Input> {
        let execution = self.machine.execution_mut();
        match execution.and_then(|execution| execution.poll(turn, task)) {
            Some(Poll::Ready(())) => Poll::Ready(Input::Executed(None)),
            Some(Poll::Pending) => {
                self.waiting = Waiting::Execution;
                Poll::Pending
            }
            None => self.poll_middleware(turn, task),
        }
    }

    /// Executes a call through its middleware.
    fn poll_middleware(
        &mut self,
        turn: &Arc<TurnCore>,
        task: &mut task::Context<'_>,
    ) -> Poll<Input> {
        let Some(execution) = self.machine.take_execution() else {
            // A mistake of ours; the machine ends the call.
            return Poll::Ready(Input::Stopped(Stopped::Panicked(String::new())));
        };
        let work = execution.through_middleware(Arc::clone(turn));
        let work = async move { Input::Executed(Some(work.await)) };
        self.wait_for(turn, Limit::NONE, work, task)
    }

    /// Keeps a future and polls it once.
    fn wait_for(
        &mut self,
        turn: &Arc<TurnCore>,
        limit: Limit,
        work: impl Future<Output = Input> + Send + 'static,
        task: &mut task::Context<'_>,
    ) -> Poll<Input> {
        self.waiting = Waiting::work(limit, work);
        self.poll_waiting(turn, task)
    }

    /// Satisfies a need now, or starts to.
    #[inline(always)]
    fn satisfy(
        &mut self,
        turn: &Arc<TurnCore>,
        need: Need,
        task: &mut task::Context<'_>,
    ) -> Poll<Input> {
        self.machine.facts().forget_moment();
        let policy_timeout = turn.run.inner.config.policy_timeout;
        match need {
            Need::Execute => self.poll_execution(turn, task),
            Need::WriteIntent => {
                let (machine, turn) = (&self.machine, turn);
                let status = machine
                    .intent(turn)
                    .map(|intent| journal_write::intend(turn.run.inner.journal.any(), &intent));
                let input = |result, took_time| Input::IntentWritten { result, took_time };
                self.written(turn, status, policy_timeout, input, task)
            }
            Need::WriteOutcome => {
                let inner = &turn.run.inner;
                let status = self
                    .machine
                    .outcome()
                    .map(|outcome| journal_write::settle(inner.journal.any(), &outcome));
                let input = |result, _| Input::OutcomeWritten(result);
                self.written(turn, status, policy_timeout, input, task)
            }
            other => {
                self.waiting = self.begin_waiting(turn, other, policy_timeout);
                self.poll_waiting(turn, task)
            }
        }
    }

    /// Takes the status of a write of the journal: it is done, or to be waited for.
    fn written(
        &mut self,
        turn: &Arc<TurnCore>,
        status: Option<WriteStatus>,
        limit: Duration,
        input: impl FnOnce(Result<(), haft_core::BoxError>, bool) -> Input + Send + 'static,
        task: &mut task::Context<'_>,
    ) -> Poll<Input> {
        match status {
            Some(WriteStatus::Now(result)) => Poll::Ready(input(result, false)),
            Some(WriteStatus::Later(writing)) => {
                let work = async move { input(writing.await, true) };
                self.wait_for(turn, Limit::timeout(limit), work, task)
            }
            // A mistake of ours; the machine ends the call, so that it does not wait forever.
            None => Poll::Ready(Input::Stopped(Stopped::Panicked("nothing to write".to_owned()))),
        }
    }

    /// Starts to satisfy a need of a call that has no outcome yet. Each of these is a future.
    fn begin_waiting(
        &mut self,
        turn: &Arc<TurnCore>,
        need: Need,
        policy_timeout: Duration,
    ) -> Waiting {
        let shared = turn;
        let turn = Arc::clone(turn);
        let parks = self.machine.facts().parent().is_none();
        match need {
            Need::Check(call) => {
                Waiting::work(Limit::cancel_or_timeout(policy_timeout), async move {
                    let checked = call.tool().body().check(call.args(), call.context()).await;
                    Input::Checked(call, checked)
                })
            }
            Need::PreHook(call, at) => {
                let limit = Limit::cancel_or_timeout(turn.run.inner.hooks[at].limit());
                Waiting::work(limit, async move {
                    let answer = turn.run.inner.hooks[at].hook().before(&call).await;
                    Input::PreHook(call, Box::new(answer))
                })
            }
            Need::Guard(call, guard) => {
                Waiting::work(Limit::cancel_or_timeout(policy_timeout), async move {
                    let answer = ask_guard(&turn, &call, guard).await;
                    Input::Guard(call, Box::new(answer))
                })
            }
            Need::MessageEnd => {
                let wait = async move { Input::MessageEnd(turn.end.wait().await) };
                Waiting::work(Limit::CANCEL, telemetry::waiting("message", wait))
            }
            Need::ApprovalPermit => {
                let wait =
                    async move { Input::ApprovalPermit(turn.run.inner.approvals.permit().await) };
                Waiting::work(Limit::CANCEL.or_park(parks), wait)
            }
            Need::Approval(open) => {
                let limit = Limit::cancel_or_timeout(approve::timeout(&turn, &open));
                let limit = limit.or_park(parks);
                let wait = async move {
                    let answered = turn.run.inner.approvals.ask(&open.request()).await;
                    drop(open);
                    Input::Answer(Box::new(answered))
                };
                Waiting::work(limit, telemetry::waiting("approval", wait))
            }
            Need::Acquire(call, deadline) => {
                let parent = self.machine.facts().shared_parent();
                let wait = async move {
                    let parent = parent.as_deref();
                    let locks = acquire::acquire(&turn, call.validated(), parent, deadline).await;
                    drop(call);
                    Input::Acquired(Box::new(locks))
                };
                Waiting::work(Limit::NONE.or_park(parks), telemetry::waiting("place", wait))
            }
            other => self.begin_finish(shared, other),
        }
    }

    /// Starts to satisfy a need of a call that has an outcome.
    fn begin_finish(&mut self, turn: &Arc<TurnCore>, need: Need) -> Waiting {
        let turn = Arc::clone(turn);
        match need {
            Need::PostHook(completed, at, outcome) => {
                let limit = Limit::timeout(turn.run.inner.hooks[at].limit());
                Waiting::work(limit, async move {
                    let hook = turn.run.inner.hooks[at].hook();
                    Input::PostHook(Box::new(hook.after(&completed, *outcome).await))
                })
            }
            Need::Explain(failure) => {
                let facts = self.machine.facts();
                let (cx, began) = (facts.cx.clone(), facts.began);
                let outer = facts.parent().and_then(|parent| parent.deadline);
                Waiting::work(Limit::NONE, async move {
                    Input::Explained(
                        explain_invalid::explained(&turn, &cx, outer, began, failure).await,
                    )
                })
            }
            Need::Sanitize(outcome) => Waiting::work(Limit::NONE, async move {
                let (outcome, altered) =
                    sanitize::sanitized_off_executor(*outcome, &turn.run.inner).await;
                Input::Sanitized(Box::new(outcome), altered)
            }),
            Need::Truncate(output, label) => {
                let facts = self.machine.facts();
                let limit = super::finish::result_limit(facts).unwrap_or_default();
                let cx = facts.cx.clone();
                Waiting::work(Limit::NONE, async move {
                    let truncated = truncate::truncate(&turn, &cx, label, *output, limit).await;
                    for (facts, shown) in truncated.stored {
                        let call = cx.call_id().clone();
                        turn.emit(|| Event::ResultOffloaded {
                            call,
                            shown,
                            facts: Arc::new(facts),
                        });
                    }
                    Input::Truncated(Box::new(truncated.output), Box::new(truncated.truncation))
                })
            }
            // Every other need is handled above; the machine ends the call if one is not.
            _ => Waiting::work(Limit::NONE, async {
                Input::Stopped(Stopped::Panicked("unknown need".to_owned()))
            }),
        }
    }
}

impl Future for RunningCall {
    type Output = BoxedResult;

    fn poll(self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<BoxedResult> {
        let Self { turn, call } = self.get_mut();
        call.poll(turn, task)
    }
}

impl Drop for RunningCall {
    /// Emits the terminal event of a call that is dropped, as when the async runtime shuts down.
    fn drop(&mut self) {
        let call = &self.call;
        let record = call.machine.facts();
        if !call.has_started || record.is_task() || call.has_ended {
            return;
        }
        let _entered = call.span.enter();
        telemetry::dropped();
        self.turn.emit(|| Event::Finished {
            call: record.cx.call_id().clone(),
            tool_name: record.cx.tool_name().clone(),
            failed: Some(FailureCode::UnknownOutcome),
            cause: Some("the call was dropped before its end".to_owned()),
            execution: BodyExecution::Unknown,
            elapsed: self.turn.run.inner.clock.now().saturating_duration_since(record.began),
        });
    }
}

impl Waiting {
    fn work(limit: Limit, work: impl Future<Output = Input> + Send + 'static) -> Self {
        Self::Work(Watched::new(limit, work))
    }
}

/// Asks one guard.
pub(super) async fn ask_guard(
    turn: &TurnCore,
    call: &ValidatedCall,
    guard: GuardId,
) -> Result<Option<haft_core::Verdict>, haft_core::Failure> {
    match guard {
        GuardId::Tool => call.tool().body().guard(call.args(), call.context()).await,
        GuardId::Runtime(at) => turn.run.inner.guards[at].decide(call).await,
    }
}
