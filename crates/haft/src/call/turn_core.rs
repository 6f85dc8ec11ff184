//! State that all calls of one turn share: snapshot, scope, concurrency slots, budget, and what the
//! turn does for the context of a call.

use std::{
    convert::Infallible,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Instant,
};

use haft_core::{
    BoxFuture, CallId, Failure, FailureCode, Progress, RetryHint, Scope, StopReason, ToolContext,
    ToolName, host::HostContext,
};
use serde_json::Value;
use tokio::sync::Notify;

use super::{
    cancellation::Cancellation, output_relay::OutputRelay, record::CallRecord, run_core::RunCore,
};
use crate::{
    budget::{BudgetReservation, too_deep},
    concurrency::{LockTable, Slots},
    event::{Event, EventSource, Phase},
    parked::ParkedPhase,
    registry::ToolSnapshot,
    schema::RepairPolicy,
    validate::{Terms, ValidatedCall},
};

/// What all calls of one turn share.
pub(crate) struct TurnCore {
    /// Its key among the open turns of the run, once a call waits.
    pub(crate) key: OnceLock<usize>,
    pub(crate) run: Arc<RunCore>,
    pub(crate) snapshot: ToolSnapshot,
    pub(crate) scope: Scope,
    /// The source of its events; made when there is an observer.
    pub(crate) event_source: OnceLock<Arc<EventSource>>,
    pub(crate) slots: Slots,
    pub(crate) end: MessageEnd,
    /// The failure of every call, if the run has no turns left.
    pub(crate) exhausted: Option<Failure>,
    /// Notes for the model from the hooks before the turn.
    pub(crate) host_notes: OnceLock<Vec<String>>,
    pub(crate) cancellation: Cancellation,
    pub(crate) output: OutputRelay,
}

/// One of the calls that may run at the same time. Dropping it frees the slot.
pub(crate) struct ConcurrencySlot {
    turn: Arc<TurnCore>,
    is_free: AtomicBool,
}

impl ConcurrencySlot {
    fn new(turn: &Arc<TurnCore>) -> Self {
        Self { turn: Arc::clone(turn), is_free: AtomicBool::new(false) }
    }

    /// The slot of a call that needs none.
    pub(crate) fn unneeded(turn: Arc<TurnCore>) -> Self {
        Self { turn, is_free: AtomicBool::new(true) }
    }

    /// Frees the slot before the end, once.
    pub(crate) fn release(&self) {
        if !self.is_free.swap(true, Ordering::SeqCst) {
            self.turn.slots.put_back();
        }
    }
}

impl Drop for ConcurrencySlot {
    fn drop(&mut self) {
        if !*self.is_free.get_mut() {
            self.turn.slots.put_back();
        }
    }
}

impl AsRef<LockTable> for ConcurrencySlot {
    /// The table that separates the concurrency classes of the run.
    fn as_ref(&self) -> &LockTable {
        &self.turn.run.locks
    }
}

/// After so many turns in a row with invalid arguments the model is asked to stop calling a tool.
const MAX_INVALID_TURNS: u32 = 3;

impl Drop for TurnCore {
    fn drop(&mut self) {
        if let Some(key) = self.key.get() {
            self.run.end_turn(*key);
        }
    }
}

impl TurnCore {
    #[inline(always)]
    pub(crate) fn new(
        run: &Arc<RunCore>,
        snapshot: ToolSnapshot,
        scope: Scope,
        event_source: Option<Arc<EventSource>>,
        exhausted: Option<Failure>,
    ) -> Arc<Self> {
        Arc::new(Self {
            key: OnceLock::new(),
            exhausted,
            snapshot,
            scope,
            event_source: event_source.map(OnceLock::from).unwrap_or_default(),
            slots: Slots::new(run.inner.config.max_concurrency),
            end: MessageEnd::default(),
            host_notes: OnceLock::new(),
            cancellation: Cancellation::default(),
            output: OutputRelay::default(),
            run: Arc::clone(run),
        })
    }

    /// Makes the context of one call.
    #[inline(always)]
    pub(crate) fn context(
        self: &Arc<Self>,
        id: CallId,
        requested_name: ToolName,
        tool_name: ToolName,
    ) -> ToolContext {
        ToolContext::new(id, requested_name, tool_name, Arc::clone(self) as _)
    }

    /// Returns the arguments of a call, redacted.
    pub(crate) fn shown(&self, call: &ValidatedCall) -> Arc<Value> {
        self.run.inner.redactor.arguments(call.tool().input(), call.arguments())
    }

    /// Takes a concurrency slot of the turn, if one is free.
    pub(crate) fn try_slot(self: &Arc<Self>) -> Option<ConcurrencySlot> {
        self.slots.try_take().then(|| ConcurrencySlot::new(self))
    }

    /// Waits for a concurrency slot of the turn.
    pub(crate) async fn slot(self: &Arc<Self>) -> ConcurrencySlot {
        self.slots.take().await;
        ConcurrencySlot::new(self)
    }

    /// Emits an event of this run. It is not even built without an observer.
    #[inline]
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        self.run.inner.events.emit_as(|| Arc::clone(self.event_source()), event);
    }

    /// Emits an event of a call, with the time of its phase.
    #[inline]
    pub(crate) fn emit_of(&self, record: &CallRecord, event: impl FnOnce() -> Event) {
        let source = || Arc::clone(self.event_source());
        self.run.inner.events.emit_at(|| record.moment(self), source, event);
    }

    /// Emits progress of a call.
    pub(crate) fn emit_progress(&self, call: CallId, note: Progress) {
        self.emit(|| Event::Progress { call, note });
    }

    fn event_source(&self) -> &Arc<EventSource> {
        self.event_source.get_or_init(|| EventSource::of(&self.scope))
    }

    /// Emits the event that a call has finished a phase.
    pub(crate) fn passed(&self, record: &CallRecord, phase: Phase) {
        let call = || record.cx.call_id().clone();
        self.emit_of(record, || Event::PhaseFinished { call: call(), phase });
    }

    /// Emits the event that a call was parked.
    pub(crate) fn emit_parked(&self, cx: &ToolContext, phase: ParkedPhase) {
        let (call, tool_name) = (cx.call_id(), cx.tool_name());
        self.emit(|| Event::Parked { call: call.clone(), tool_name: tool_name.clone(), phase });
    }

    /// Returns the settings for validation. Arguments of a message that did not end normally are
    /// never repaired: the missing part could change the meaning.
    #[inline(always)]
    pub(crate) fn terms(&self) -> Terms<'_> {
        let config = &self.run.inner.config;
        let ended_badly = self.end.get().is_some_and(|stop| stop.why_not().is_some());
        let repair = if ended_badly { RepairPolicy::Off } else { config.repair };
        Terms {
            limit: config.max_arguments,
            repair,
            timeout: config.timeout,
            deadline: config.deadline,
            clock: &*self.run.inner.clock,
            // Hooks, rules of the host and observers read the JSON of every call.
            reads_scalars: self.run.inner.hooks.is_empty()
                && self.run.inner.policy.of_host().is_none()
                && !self.run.inner.events.has_observer(),
        }
    }

    /// Counts in how many turns in a row a tool was called with arguments that do not fit, adds an
    /// example from the second on, and after a few asks the model to stop.
    #[inline(always)]
    pub(crate) fn count_invalid_calls(
        &self,
        cx: &ToolContext,
        validated: Result<ValidatedCall, Failure>,
    ) -> Result<ValidatedCall, Failure> {
        match validated {
            Ok(validated) => {
                self.run.invalid_calls.forget(cx.tool_name());
                Ok(validated)
            }
            Err(failure)
                if matches!(
                    failure.code(),
                    FailureCode::BadArguments | FailureCode::UnparseableArguments
                ) =>
            {
                let count = self.run.invalid_calls.count(cx.tool_name(), cx.cycle());
                if count < 2 {
                    return Err(failure);
                }
                let failure = match self.snapshot.get(cx.tool_name().as_str()) {
                    Some(entry) => haft_schema::with_example(entry.input(), failure),
                    None => failure,
                };
                if count <= MAX_INVALID_TURNS {
                    return Err(failure);
                }
                // Another attempt would only cost time.
                let next = format!(
                    "stop calling `{}`: it was called with invalid arguments {count} times in a row; continue without it, or say what you need",
                    cx.tool_name()
                );
                Err(failure.with_retry(RetryHint::Never).with_next(next))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns whether a budget can refuse calls of this turn.
    pub(crate) fn has_budget(&self) -> bool {
        let is_too_deep = self.scope.depth > self.run.max_depth;
        is_too_deep || self.exhausted.is_some() || self.run.ledger.is_some()
    }

    /// Reserves the budget of a call, or replaces the call with the failure. `among` calls start
    /// together and share the result bytes; `None` for a nested call, which the model does not see.
    pub(crate) fn reserve_budget(
        &self,
        validated: &mut Result<ValidatedCall, Failure>,
        among: Option<usize>,
    ) -> Option<Box<BudgetReservation>> {
        let Ok(call) = validated else { return None };
        let reserved = match (&self.exhausted, &self.run.ledger) {
            (Some(exhausted), _) => Err(Failure::new(exhausted.code(), exhausted.message())
                .with_next(exhausted.next().unwrap_or_default())),
            _ if call.context().depth() > self.run.max_depth => {
                Err(too_deep(call.context().depth().saturating_sub(1)))
            }
            (None, None) => return None,
            (None, Some(ledger)) => {
                let bound = call.tool().spec().max_result;
                let most = || super::most_bytes(bound, self.run.inner.config.max_result);
                let bytes = among.map(|_| most());
                // The limit counts by the registered name too, so that no alias avoids it.
                let names = (call.tool().registered(), call.tool().name());
                ledger.reserve(names, bytes, among.unwrap_or(1), &self.run.inner.events)
            }
        };
        match reserved {
            Ok(reservation) => Some(Box::new(reservation)),
            Err(failure) => {
                *validated = Err(failure);
                None
            }
        }
    }

    /// Stores the notes of the hooks before the turn; the first result carries them.
    pub(crate) fn set_host_notes(&self, notes: Vec<String>) {
        let _ = self.host_notes.set(notes);
    }

    /// Returns the notes of the hooks before the turn.
    pub(crate) fn host_notes(&self) -> &[String] {
        self.host_notes.get().map_or(&[], Vec::as_slice)
    }

    /// Emits the progress that a body's interval holds back, as soon as it is due. Never ends.
    pub(crate) async fn forward_progress(&self, cx: &ToolContext) -> Infallible {
        let clock = &*self.run.inner.clock;
        loop {
            match cx.progress_due().await.filter(|due| *due > clock.now()) {
                // Asked again afterwards: the body may have reported progress meanwhile.
                Some(due) => clock.sleep_until(due).await,
                None => cx.flush_progress(),
            }
        }
    }

    /// Waits for something outside the body, until the call is cancelled or its deadline. Boxed,
    /// because most calls never wait, and their future stays small.
    pub(crate) fn waiting<'a, T: Send>(
        &'a self,
        cx: &'a ToolContext,
        deadline: Instant,
        what: impl Future<Output = T> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Failure>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                got = what => Ok(got),
                () = cx.cancelled() => Err(self.why_stopped(cx)),
                () = self.interrupted(cx) => Err(self.why_stopped(cx)),
                () = self.run.inner.clock.sleep_until(deadline) => Err(Failure::new(
                    FailureCode::DeadlinePassed,
                    "the deadline of the call passed while it waited; the tool was not run",
                )),
            }
        })
    }
}

/// Whether and how the model's message has ended.
#[derive(Default)]
pub(crate) struct MessageEnd {
    /// 0 while the message goes on.
    stop: AtomicU8,
    /// Whether a call waits, or has waited, for the end.
    is_awaited: AtomicBool,
    notify: Notify,
}

impl MessageEnd {
    /// Sets how a message ended that is complete before the turn has a call. No call can wait for
    /// the end yet, so that no call needs a signal.
    pub(crate) fn set_before_calls(&self, stop: StopReason) {
        self.stop.store(number(stop), Ordering::Release);
    }

    /// Sets how the message ended. The first value is kept.
    pub(crate) fn set(&self, stop: StopReason) {
        if self.get().is_some() {
            return;
        }
        let set = self.stop.compare_exchange(0, number(stop), Ordering::SeqCst, Ordering::SeqCst);
        if set.is_ok() && self.is_awaited.load(Ordering::SeqCst) {
            self.notify.notify_waiters();
        }
    }

    pub(crate) fn get(&self) -> Option<StopReason> {
        match self.stop.load(Ordering::SeqCst) {
            0 => None,
            1 => Some(StopReason::Done),
            2 => Some(StopReason::Truncated),
            3 => Some(StopReason::Refused),
            _ => Some(StopReason::Unknown),
        }
    }

    pub(crate) async fn wait(&self) -> StopReason {
        // `set` stores the end and then reads the flag. We set the flag and then read the end. All
        // of it is `SeqCst`, so at least one side sees the other, and no notification is lost.
        self.is_awaited.store(true, Ordering::SeqCst);
        loop {
            let ended = self.notify.notified();
            if let Some(stop) = self.get() {
                return stop;
            }
            ended.await;
        }
    }
}

/// Returns a stop reason as a number that is not 0.
fn number(stop: StopReason) -> u8 {
    match stop {
        StopReason::Done => 1,
        StopReason::Truncated => 2,
        StopReason::Refused => 3,
        StopReason::Unknown => 4,
    }
}
