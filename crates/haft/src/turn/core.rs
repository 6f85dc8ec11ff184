//! State that all calls of one turn share: snapshot, scope, concurrency slots, cancellation.
//!
//! Cancellation always sets a flag and never just drops a future. A call can be cancelled directly
//! (alone, by a sibling, with the turn or the run), by an interrupt of the turn (which `block`
//! tools ignore once they run), or by cancellation of its outer call.

use std::{
    any::Any,
    convert::Infallible,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use haft_core::{
    BoxFuture, CallId, DeniedPaths, DeniedPathsUnknown, Execution, Failure, FailureCode,
    HardLinked, Operation, OtherNames, Output, Progress, RemainingBudget, RetryHint, Scope, Secret,
    StopReason, ToolCall, ToolContext, ToolName,
    host::{Host, HostContext, PathRules, TaskSlot, WeakToolContext},
    sync::lock,
};
use serde_json::Value;
use smallvec::SmallVec;
use tokio::sync::{Notify, Semaphore};

use super::nested::nested;
use crate::{
    budget::{BudgetReservation, too_deep},
    call::{self, Terms, ValidatedCall},
    clock::{Clock, RuntimeClock},
    event::{Event, EventSource, Phase},
    registry::ToolSnapshot,
    run::RunCore,
    runtime::Inner,
    schema::RepairPolicy,
    secrets,
};

/// What all calls of one turn share.
pub(crate) struct TurnCore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) run: Arc<RunCore>,
    pub(crate) snapshot: ToolSnapshot,
    pub(crate) scope: Arc<Scope>,
    /// The source of its events; made when there is an observer.
    event_source: OnceLock<Arc<EventSource>>,
    slots: Semaphore,
    pub(crate) end: MessageEnd,
    /// The failure of every call, if the run has no turns left.
    exhausted: Option<Failure>,
    aborted: AtomicBool,
    /// Why no call of this turn may run, once that is decided.
    blocked: OnceLock<(FailureCode, String)>,
    /// Notes for the model from the hooks before the turn.
    host_notes: OnceLock<Vec<String>>,
    interrupted: AtomicBool,
    interrupt_notify: Notify,
    calls: Mutex<SmallVec<[RegisteredCall; 1]>>,
    pub(super) nested: Mutex<Vec<(CallId, WeakToolContext)>>,
    /// The open output streams of its calls, with the text that is not emitted yet.
    streams: Mutex<Vec<OutputStream>>,
    has_output: AtomicBool,
}

/// One of the calls that may run at the same time. Dropping it frees the slot.
pub(crate) struct ConcurrencySlot(Arc<TurnCore>);

impl Drop for ConcurrencySlot {
    fn drop(&mut self) {
        self.0.slots.add_permits(1);
    }
}

/// A call of the turn, and how to cancel it.
struct RegisteredCall {
    id: CallId,
    cx: WeakToolContext,
}

const CANCELLED: &str = "the turn was cancelled";
/// After so many turns in a row with invalid arguments the model is asked to stop calling a tool.
const MAX_INVALID_TURNS: u32 = 3;

impl TurnCore {
    pub(crate) fn new(
        run: &Arc<RunCore>,
        snapshot: ToolSnapshot,
        scope: Arc<Scope>,
        event_source: Option<Arc<EventSource>>,
        exhausted: Option<Failure>,
    ) -> Arc<Self> {
        let core = Arc::new(Self {
            exhausted,
            inner: Arc::clone(&run.inner),
            snapshot,
            scope,
            event_source: event_source.map(OnceLock::from).unwrap_or_default(),
            slots: Semaphore::new(run.inner.config.max_concurrency.min(Semaphore::MAX_PERMITS)),
            end: MessageEnd::default(),
            aborted: AtomicBool::new(false),
            blocked: OnceLock::new(),
            host_notes: OnceLock::new(),
            interrupted: AtomicBool::new(false),
            interrupt_notify: Notify::new(),
            calls: Mutex::default(),
            nested: Mutex::default(),
            streams: Mutex::default(),
            has_output: AtomicBool::new(false),
            run: Arc::clone(run),
        });
        run.begin(&core);
        core
    }

    /// Makes the context of one call.
    pub(crate) fn context(
        self: &Arc<Self>,
        id: CallId,
        requested_name: ToolName,
        tool_name: ToolName,
    ) -> ToolContext {
        let scope = Arc::clone(&self.scope);
        ToolContext::new(scope, id, requested_name, tool_name, Arc::clone(self) as _)
    }

    /// Returns the arguments of a call, redacted.
    pub(crate) fn shown(&self, call: &ValidatedCall) -> Arc<Value> {
        self.inner.redactor.arguments(call.tool().input(), call.arguments())
    }

    /// Takes a concurrency slot of the turn, if one is free.
    pub(crate) fn try_slot(self: &Arc<Self>) -> Option<ConcurrencySlot> {
        self.slots.try_acquire().ok()?.forget();
        Some(ConcurrencySlot(Arc::clone(self)))
    }

    /// Waits for a concurrency slot of the turn; `None` if the turn is over.
    pub(crate) async fn slot(self: &Arc<Self>) -> Option<ConcurrencySlot> {
        self.slots.acquire().await.ok()?.forget();
        Some(ConcurrencySlot(Arc::clone(self)))
    }

    /// Emits an event of this run. It is not even built without an observer.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        self.inner.events.emit_as(|| Arc::clone(self.event_source()), event);
    }

    fn event_source(&self) -> &Arc<EventSource> {
        self.event_source.get_or_init(|| EventSource::of(&self.scope))
    }

    /// Emits the event that a call has finished a phase.
    pub(crate) fn passed(&self, cx: &ToolContext, phase: Phase) {
        self.emit(|| Event::PhaseFinished { call: cx.call_id().clone(), phase });
    }

    /// Returns the settings for validation. Arguments of a message that did not end normally are
    /// never repaired: the missing part could change the meaning.
    pub(crate) fn terms(&self) -> Terms<'_> {
        let config = &self.inner.config;
        let ended_badly = self.end.get().is_some_and(|stop| stop.why_not().is_some());
        let repair = if ended_badly { RepairPolicy::Off } else { config.repair };
        Terms {
            limit: config.max_arguments,
            repair,
            seen: &self.run.seen,
            timeout: config.timeout,
            deadline: config.deadline,
            clock: &*self.inner.clock,
        }
    }

    /// Counts in how many turns in a row a tool was called with arguments that do not fit, adds an
    /// example from the second on, and after a few asks the model to stop.
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
                let most = || call::most_bytes(bound, self.inner.config.max_result);
                let bytes = among.map(|_| most());
                // The limit counts by the registered name too: an alias of a view does not avoid it.
                let names = (call.tool().registered(), call.tool().name());
                ledger.reserve(names, bytes, among.unwrap_or(1), &self.inner.events)
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

    /// Reserves memory for so many calls.
    pub(crate) fn reserve(&self, calls: usize) {
        lock(&self.calls).reserve_exact(calls);
    }

    /// Registers a call, so that it can be cancelled.
    pub(crate) fn register(&self, cx: &ToolContext) {
        lock(&self.calls).push(RegisteredCall { id: cx.call_id().clone(), cx: cx.downgrade() });
        if self.aborted.load(Ordering::SeqCst) {
            cx.stop(FailureCode::Cancelled, CANCELLED);
        }
        if let Some((code, why)) = self.blocked.get() {
            cx.stop(*code, why);
        }
        self.stop_if_halted(cx);
    }

    /// Refuses all calls of this turn; of several reasons the first is kept.
    pub(crate) fn block_calls(&self, code: FailureCode, why: String) {
        let _ = self.blocked.set((code, why));
    }

    /// Stores the notes of the hooks before the turn; the first result carries them.
    pub(crate) fn set_host_notes(&self, notes: Vec<String>) {
        let _ = self.host_notes.set(notes);
    }

    /// Returns the notes of the hooks before the turn.
    pub(crate) fn host_notes(&self) -> &[String] {
        self.host_notes.get().map_or(&[], Vec::as_slice)
    }

    /// Stops the calls that have not begun, because the run is halted.
    pub(crate) fn halt(&self) {
        let mut all: Vec<WeakToolContext> =
            lock(&self.calls).iter().map(|c| c.cx.clone()).collect();
        all.extend(lock(&self.nested).iter().map(|(_, cx)| cx.clone()));
        all.iter().filter_map(WeakToolContext::upgrade).for_each(|cx| self.stop_if_halted(&cx));
    }

    /// Stops a call of a halted run that has not begun: its profile is set when the body begins.
    pub(super) fn stop_if_halted(&self, cx: &ToolContext) {
        if let Some(reason) = self.run.halted()
            && cx.profile().is_none()
        {
            cx.stop(FailureCode::BlockedByHook, reason);
        }
    }

    /// Cancels every call.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
        self.interrupt();
        let all: Vec<WeakToolContext> = lock(&self.calls).iter().map(|c| c.cx.clone()).collect();
        for cx in all.iter().filter_map(WeakToolContext::upgrade) {
            self.stop_body(&cx, FailureCode::Cancelled, CANCELLED);
        }
    }

    /// Stops the running calls that yield, and starts no other call.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.interrupt_notify.notify_waiters();
    }

    /// Waits until an interrupt of the turn reaches this call. A nested call is interrupted only
    /// through its outer call: if that one blocks, it needs its nested calls.
    pub(crate) async fn interrupted(&self, cx: &ToolContext) {
        if cx.call_id().looks_nested() {
            return std::future::pending().await;
        }
        loop {
            let interrupted = self.interrupt_notify.notified();
            if self.interrupted.load(Ordering::SeqCst) {
                return;
            }
            interrupted.await;
        }
    }

    /// Stops one call, and returns whether there is such a call.
    pub(crate) fn stop_call(&self, id: &str) -> bool {
        let found = lock(&self.calls).iter().find(|c| c.id == *id).map(|c| c.cx.clone());
        if let Some(cx) = found.as_ref().and_then(WeakToolContext::upgrade) {
            self.stop_body(&cx, FailureCode::Cancelled, "this call was cancelled");
        }
        found.is_some()
    }

    /// Stops the call with this row, because a sibling failed.
    pub(crate) fn stop_sibling(&self, at: usize, failed: &ToolName) {
        let cx = lock(&self.calls).get(at).and_then(|c| c.cx.upgrade());
        if let Some(cx) = cx {
            let why = format!(
                "`{failed}` in the same batch failed, which cancels the other calls of the batch"
            );
            self.stop_body(&cx, FailureCode::SiblingAborted, &why);
        }
    }

    /// Stops a body and the nested calls it waits for.
    pub(crate) fn stop_body(&self, cx: &ToolContext, code: FailureCode, why: &str) {
        cx.stop(code, why);
        if cx.nested_calls() > 0 {
            let below: Vec<WeakToolContext> = lock(&self.nested)
                .iter()
                .filter(|(id, _)| id.is_within(cx.call_id()))
                .map(|(_, cx)| cx.clone())
                .collect();
            below.iter().filter_map(WeakToolContext::upgrade).for_each(|cx| cx.stop(code, why));
        }
    }

    /// Returns the nearest call of this tool that a call is nested in.
    pub(crate) fn within(&self, cx: &ToolContext, tool: &ToolName) -> Option<ToolContext> {
        let top: Vec<WeakToolContext> = lock(&self.calls)
            .iter()
            .filter(|c| cx.call_id().is_within(&c.id))
            .map(|c| c.cx.clone())
            .collect();
        let nested = lock(&self.nested)
            .iter()
            .filter(|(id, _)| cx.call_id().is_within(id))
            .map(|(_, outer)| outer.clone())
            .collect::<Vec<_>>();
        top.iter()
            .chain(&nested)
            .filter_map(WeakToolContext::upgrade)
            .filter(|outer| outer.tool_name() == tool)
            .max_by_key(|outer| outer.call_id().as_str().len())
    }

    /// Sanitizes a chunk of output and returns what can be emitted; nothing while all of it may
    /// be the beginning of a secret. Chunks with one key are one stream.
    fn sanitize_chunk(&self, cx: &ToolContext, key: Option<&str>, chunk: &str) -> Option<String> {
        self.has_output.store(true, Ordering::Release);
        let call = cx.call_id();
        let mut streams = lock(&self.streams);
        let at = match streams.iter().position(|s| s.is_of(call, key)) {
            Some(at) => at,
            None => {
                let (key, call) = (key.map(str::to_owned), call.clone());
                let sanitizer = self.inner.redactor.sanitizing_stream();
                streams.push(OutputStream { call, key, sanitizer });
                streams.len() - 1
            }
        };
        let shown = streams.get_mut(at).map(|s| s.sanitizer.feed(chunk))?;
        let of_call = streams.iter().filter(|s| s.call == *call && s.key.is_some()).count();
        if of_call > MAX_OPEN_KEYS {
            let oldest = streams.iter().position(|s| s.call == *call && s.key.is_some());
            let oldest = oldest.map(|at| streams.remove(at));
            drop(streams);
            oldest.into_iter().for_each(|oldest| self.emit_rest(oldest));
        }
        (!shown.is_empty() || chunk.is_empty()).then_some(shown)
    }

    /// Emits the rest of a call's output streams: the body has ended.
    pub(crate) fn flush_output(&self, cx: &ToolContext) {
        if !self.has_output.load(Ordering::Acquire) {
            return;
        }
        let rest: Vec<OutputStream> =
            lock(&self.streams).extract_if(.., |stream| stream.call == *cx.call_id()).collect();
        rest.into_iter().for_each(|stream| self.emit_rest(stream));
    }

    fn emit_rest(&self, stream: OutputStream) {
        let OutputStream { call, key, sanitizer } = stream;
        let rest = sanitizer.finish();
        if rest.is_empty() {
            return;
        }
        let note = match key {
            Some(key) => Progress::Keyed(self.inner.redactor.text(&key).into_owned(), rest),
            None => Progress::Partial(rest),
        };
        self.emit(|| Event::Progress { call, note });
    }

    /// Returns whether this call must not start or go on.
    pub(crate) fn is_stopped(&self, cx: &ToolContext) -> bool {
        cx.is_cancelled()
            || (self.interrupted.load(Ordering::SeqCst) && !cx.call_id().looks_nested())
    }

    /// Returns why a call is stopped, as a call that was not run; the caller may know more.
    pub(crate) fn why_stopped(&self, cx: &ToolContext) -> Failure {
        let (code, why) = cx.stop_reason().unwrap_or((FailureCode::Cancelled, CANCELLED));
        Failure::new(code, why).with_execution(Execution::NotStarted)
    }

    /// Emits the progress that a body's interval holds back, as soon as it is due. Never ends.
    pub(crate) async fn forward_progress(&self, cx: &ToolContext) -> Infallible {
        let clock = &*self.inner.clock;
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
                () = self.inner.clock.sleep_until(deadline) => Err(Failure::new(
                    FailureCode::DeadlinePassed,
                    "the deadline of the call passed while it waited; the tool was not run",
                )),
            }
        })
    }
}

/// One stream of output chunks of a call: all that have the same key.
struct OutputStream {
    call: CallId,
    key: Option<String>,
    sanitizer: haft_sanitize::SanitizingRedactor,
}

/// So many keyed streams of one call are open at once; a body may invent any number of keys.
const MAX_OPEN_KEYS: usize = 64;

impl OutputStream {
    fn is_of(&self, call: &CallId, key: Option<&str>) -> bool {
        self.call == *call && self.key.as_deref() == key
    }
}

/// Whether and how the model's message has ended.
#[derive(Default)]
pub(crate) struct MessageEnd {
    stop: OnceLock<StopReason>,
    ended: Notify,
}

impl MessageEnd {
    pub(crate) fn set(&self, stop: StopReason) {
        let _ = self.stop.set(stop);
        self.ended.notify_waiters();
    }

    pub(crate) fn get(&self) -> Option<StopReason> {
        self.stop.get().copied()
    }

    pub(crate) async fn wait(&self) -> StopReason {
        loop {
            let ended = self.ended.notified();
            if let Some(stop) = self.get() {
                return stop;
            }
            ended.await;
        }
    }
}

impl Host for TurnCore {
    fn now(&self) -> Instant {
        self.inner.clock.now()
    }

    fn call(
        self: Arc<Self>,
        cx: ToolContext,
        id: CallId,
        name: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>> {
        Box::pin(nested(self, cx, ToolCall::new(id, name, arguments)))
    }

    fn spawn_blocking(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
        self.inner.threads.run(job)
    }

    fn report(&self, cx: &ToolContext, note: Progress) {
        // A body that could not be stopped may still report; its call has had its last event.
        if cx.is_closed() {
            return;
        }
        if !self.inner.events.has_observer() {
            return;
        }
        let note = match note {
            Progress::Partial(chunk) => match self.sanitize_chunk(cx, None, &chunk) {
                Some(shown) => Progress::Partial(shown),
                None => return,
            },
            Progress::Keyed(key, chunk) => match self.sanitize_chunk(cx, Some(&key), &chunk) {
                Some(shown) => Progress::Keyed(self.inner.redactor.text(&key).into_owned(), shown),
                None => return,
            },
            // Its text is redacted like that of any other event.
            Progress::Progress(..) => note,
        };
        self.emit(|| Event::Progress { call: cx.call_id().clone(), note });
    }

    fn secret(&self, cx: &ToolContext, name: &str) -> Result<Secret, Failure> {
        secrets::secret_for_body(
            &self.inner.redactor,
            self.snapshot.get(cx.tool_name().as_str()),
            cx,
            name,
        )
    }

    fn progress_interval(&self) -> std::time::Duration {
        self.inner.config.progress_every
    }

    fn defer(&self, cx: &ToolContext, summary: &str) -> Result<Option<TaskSlot>, Failure> {
        let task = self.task(cx, summary)?;
        Ok(task.map(|(task, place)| TaskSlot { task, place: Box::new(place) }))
    }

    fn remaining_budget(&self, cx: &ToolContext) -> RemainingBudget {
        let tool = self.snapshot.get(cx.tool_name().as_str()).map(|entry| entry.registered());
        self.run.remaining(cx.depth(), Some(tool.unwrap_or(cx.tool_name())))
    }

    fn charge(&self, _: &ToolContext, tokens: u64, micros: u64) -> Result<(), Failure> {
        match &self.run.ledger {
            Some(ledger) => ledger.charge(tokens, micros, &self.inner.events),
            None => Ok(()),
        }
    }

    fn path_rules(&self) -> &dyn PathRules {
        self
    }

    fn max_result_bytes(&self) -> usize {
        self.inner.config.max_result
    }

    fn any(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self)
    }
}

impl PathRules for TurnCore {
    fn is_path_denied(&self, _cx: &ToolContext, doing: Operation, file: &Path) -> bool {
        let rules = self.inner.policy.file_rules();
        rules.is_some_and(|rules| rules.is_path_denied(doing, file, &self.scope))
    }

    fn asks_about_protected(&self, _cx: &ToolContext) -> bool {
        self.inner.policy.file_rules().is_some_and(|rules| rules.asks_about_protected())
    }

    fn other_names(
        &self,
        _cx: &ToolContext,
        doing: Operation,
        path: &Path,
        file: &HardLinked,
    ) -> OtherNames {
        let rules = self.inner.policy.file_rules();
        rules.map_or(OtherNames::Clear, |r| r.other_names(doing, path, file, &self.scope))
    }

    fn denied_paths(
        &self,
        _cx: &ToolContext,
        roots: &[PathBuf],
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        let now = || self.inner.clock.now();
        match self.inner.policy.file_rules() {
            Some(rules) => rules.denied_paths(roots, &self.scope, &now),
            None => Ok(DeniedPaths::default()),
        }
    }
}

/// Returns the clock of a call: that of its runtime, if the call belongs to one.
pub(crate) fn clock_of(cx: &ToolContext) -> Arc<dyn Clock> {
    match cx.host().and_then(|host| host.downcast::<TurnCore>().ok()) {
        Some(turn) => Arc::clone(&turn.inner.clock),
        None => Arc::new(RuntimeClock),
    }
}
