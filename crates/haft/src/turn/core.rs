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
    /// Whose events these are; made when somebody listens.
    who: OnceLock<Arc<EventSource>>,
    slots: Semaphore,
    pub(crate) end: End,
    /// Why nothing of this turn runs: the run has no turn left.
    spent: Option<Failure>,
    forced: AtomicBool,
    /// Why no call of this turn may run.
    barred: OnceLock<(FailureCode, String)>,
    /// What hooks said to the model before the turn.
    asides: OnceLock<Vec<String>>,
    interrupted: AtomicBool,
    told: Notify,
    calls: Mutex<SmallVec<[Taken; 1]>>,
    pub(super) nested: Mutex<Vec<(CallId, WeakToolContext)>>,
    /// Calls that tell pieces of output to somebody, and what is held back of them.
    telling: Mutex<Vec<Telling>>,
    has_told: AtomicBool,
}

/// One of the calls that may run at the same time. Dropping it frees the slot.
pub(crate) struct ConcurrencySlot(Arc<TurnCore>);

impl Drop for ConcurrencySlot {
    fn drop(&mut self) {
        self.0.slots.add_permits(1);
    }
}

/// A call that was taken in, and how to reach it.
struct Taken {
    id: CallId,
    cx: WeakToolContext,
}

const CANCELLED: &str = "the turn was cancelled";
/// So many turns in a row a model may call a tool wrongly before it is told to stop.
const TRIES: u32 = 3;

impl TurnCore {
    pub(crate) fn new(
        run: &Arc<RunCore>,
        snapshot: ToolSnapshot,
        scope: Arc<Scope>,
        who: Option<Arc<EventSource>>,
        spent: Option<Failure>,
    ) -> Arc<Self> {
        let core = Arc::new(Self {
            spent,
            inner: Arc::clone(&run.inner),
            snapshot,
            scope,
            who: who.map(OnceLock::from).unwrap_or_default(),
            slots: Semaphore::new(run.inner.config.max_concurrency.min(Semaphore::MAX_PERMITS)),
            end: End::default(),
            forced: AtomicBool::new(false),
            barred: OnceLock::new(),
            asides: OnceLock::new(),
            interrupted: AtomicBool::new(false),
            told: Notify::new(),
            calls: Mutex::default(),
            nested: Mutex::default(),
            telling: Mutex::default(),
            has_told: AtomicBool::new(false),
            run: Arc::clone(run),
        });
        run.begin(&core);
        core
    }

    /// Makes the context of one call.
    pub(crate) fn context(
        self: &Arc<Self>,
        id: CallId,
        called: ToolName,
        meant: ToolName,
    ) -> ToolContext {
        ToolContext::new(Arc::clone(&self.scope), id, called, meant, Arc::clone(self) as _)
    }

    /// Returns the arguments of a call as they may be shown: redacted.
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
        self.inner.events.emit_as(|| Arc::clone(self.who()), event);
    }

    fn who(&self) -> &Arc<EventSource> {
        self.who.get_or_init(|| EventSource::of(&self.scope))
    }

    /// Tells that a call has left a phase.
    pub(crate) fn passed(&self, cx: &ToolContext, phase: Phase) {
        self.emit(|| Event::PhaseFinished { call: cx.call_id().clone(), phase });
    }

    /// On which terms calls are taken in. A message that ended badly is never repaired: what is
    /// missing could change the meaning.
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
    /// example from the second on, and after a few tells the model to stop.
    pub(crate) fn learn(
        &self,
        cx: &ToolContext,
        admitted: Result<ValidatedCall, Failure>,
    ) -> Result<ValidatedCall, Failure> {
        match admitted {
            Ok(admitted) => {
                self.run.slips.forget(cx.tool_name());
                Ok(admitted)
            }
            Err(failure)
                if matches!(
                    failure.code(),
                    FailureCode::BadArguments | FailureCode::UnparseableArguments
                ) =>
            {
                let slips = self.run.slips.count(cx.tool_name(), cx.cycle());
                if slips < 2 {
                    return Err(failure);
                }
                let failure = match self.snapshot.get(cx.tool_name().as_str()) {
                    Some(entry) => haft_schema::with_example(entry.input(), failure),
                    None => failure,
                };
                if slips <= TRIES {
                    return Err(failure);
                }
                // It has had its tries; one more of the same would only cost time.
                let next = format!(
                    "stop calling `{}`: it was called with invalid arguments {slips} times in a row; continue without it, or say what you need",
                    cx.tool_name()
                );
                Err(failure.with_retry(RetryHint::Never).with_next(next))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns whether calls may be refused because something is used up.
    pub(crate) fn counts(&self) -> bool {
        self.spent.is_some() || self.run.ledger.is_some() || self.scope.depth > self.run.deepest
    }

    /// Takes what a call may use, or turns it into a refusal. The result of one of so many calls
    /// that start together has a size; what a nested call answers is not shown.
    pub(crate) fn hold(
        &self,
        admitted: &mut Result<ValidatedCall, Failure>,
        among: Option<usize>,
    ) -> Option<Box<BudgetReservation>> {
        let Ok(call) = admitted else { return None };
        let held = match (&self.spent, &self.run.ledger) {
            (Some(spent), _) => Err(Failure::new(spent.code(), spent.message())
                .with_next(spent.next().unwrap_or_default())),
            _ if call.context().depth() > self.run.deepest => {
                Err(too_deep(call.context().depth().saturating_sub(1)))
            }
            (None, None) => return None,
            (None, Some(ledger)) => {
                let bound = call.tool().spec().max_result;
                let most = || call::most_bytes(bound, self.inner.config.max_result);
                let bytes = among.map(|_| most());
                // Another name that a view gives it is no way round its limit.
                let names = (call.tool().registered(), call.tool().name());
                ledger.hold(names, bytes, among.unwrap_or(1), &self.inner.events)
            }
        };
        match held {
            Ok(held) => Some(Box::new(held)),
            Err(failure) => {
                *admitted = Err(failure);
                None
            }
        }
    }

    /// Makes room for so many calls.
    pub(crate) fn expect(&self, calls: usize) {
        lock(&self.calls).reserve_exact(calls);
    }

    /// Makes a call of this turn stoppable.
    pub(crate) fn register(&self, cx: &ToolContext) {
        lock(&self.calls).push(Taken { id: cx.call_id().clone(), cx: cx.downgrade() });
        if self.forced.load(Ordering::SeqCst) {
            cx.stop(FailureCode::Cancelled, CANCELLED);
        }
        if let Some((code, why)) = self.barred.get() {
            cx.stop(*code, why);
        }
        self.stop_if_halted(cx);
    }

    /// Keeps the calls of this turn from running; of several reasons the first stays.
    pub(crate) fn bar(&self, code: FailureCode, why: String) {
        let _ = self.barred.set((code, why));
    }

    /// Keeps what hooks said before the turn until there is an answer to put it beside.
    pub(crate) fn keep_asides(&self, asides: Vec<String>) {
        let _ = self.asides.set(asides);
    }

    /// Returns what hooks said before the turn.
    pub(crate) fn kept_asides(&self) -> &[String] {
        self.asides.get().map_or(&[], Vec::as_slice)
    }

    /// Stops whatever has not begun, because the run is halted.
    pub(crate) fn halt(&self) {
        let mut all: Vec<WeakToolContext> =
            lock(&self.calls).iter().map(|c| c.cx.clone()).collect();
        all.extend(lock(&self.nested).iter().map(|(_, cx)| cx.clone()));
        all.iter().filter_map(WeakToolContext::upgrade).for_each(|cx| self.stop_if_halted(&cx));
    }

    /// Stops a call that has not begun, if the run is halted. A claim is set when the body begins.
    pub(super) fn stop_if_halted(&self, cx: &ToolContext) {
        if let Some(reason) = self.run.halted()
            && cx.profile().is_none()
        {
            cx.stop(FailureCode::BlockedByHook, reason);
        }
    }

    /// Stops everything.
    pub(crate) fn force(&self) {
        self.forced.store(true, Ordering::SeqCst);
        self.interrupt();
        let all: Vec<WeakToolContext> = lock(&self.calls).iter().map(|c| c.cx.clone()).collect();
        for cx in all.iter().filter_map(WeakToolContext::upgrade) {
            self.stop_body(&cx, FailureCode::Cancelled, CANCELLED);
        }
    }

    /// Stops what yields, and keeps what has not started from starting.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// Waits until an interrupt of the turn reaches this call. A nested call hears of it only
    /// through the call it is part of: if that one blocks, it needs its nested calls to finish.
    pub(crate) async fn interrupted(&self, cx: &ToolContext) {
        if cx.call_id().looks_nested() {
            return std::future::pending().await;
        }
        loop {
            let told = self.told.notified();
            if self.interrupted.load(Ordering::SeqCst) {
                return;
            }
            told.await;
        }
    }

    /// Stops one call, and says whether it was there to be stopped.
    pub(crate) fn stop_call(&self, id: &str) -> bool {
        let found = lock(&self.calls).iter().find(|c| c.id == *id).map(|c| c.cx.clone());
        if let Some(cx) = found.as_ref().and_then(WeakToolContext::upgrade) {
            self.stop_body(&cx, FailureCode::Cancelled, "this call was cancelled");
        }
        found.is_some()
    }

    /// Stops the call that was taken in at this place, because a sibling failed.
    pub(crate) fn stop_sibling(&self, at: usize, failed: &ToolName) {
        let cx = lock(&self.calls).get(at).and_then(|c| c.cx.upgrade());
        if let Some(cx) = cx {
            let why = format!(
                "`{failed}` in the same batch failed, which cancels the other calls of the batch"
            );
            self.stop_body(&cx, FailureCode::SiblingAborted, &why);
        }
    }

    /// Tells a body, and the nested calls it is waiting for, to stop.
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

    /// Takes a piece of output and returns what of it can be told; nothing while all of it may be the
    /// beginning of a secret. Pieces under one key belong together.
    fn tell_piece(&self, cx: &ToolContext, key: Option<&str>, piece: &str) -> Option<String> {
        self.has_told.store(true, Ordering::Release);
        let call = cx.call_id();
        let mut telling = lock(&self.telling);
        let at = match telling.iter().position(|own| own.is_of(call, key)) {
            Some(at) => at,
            None => {
                let washing = self.inner.redactor.sanitizing_stream();
                telling.push(Telling { call: call.clone(), key: key.map(str::to_owned), washing });
                telling.len() - 1
            }
        };
        let shown = telling.get_mut(at).map(|own| own.washing.feed(piece))?;
        let of_call = telling.iter().filter(|own| own.call == *call && own.key.is_some()).count();
        let oldest = match of_call > MAX_OPEN_KEYS {
            true => telling.iter().position(|own| own.call == *call && own.key.is_some()),
            false => None,
        };
        let oldest = oldest.map(|at| telling.remove(at));
        drop(telling);
        if let Some(oldest) = oldest {
            self.tell_rest_of(oldest);
        }
        (!shown.is_empty() || piece.is_empty()).then_some(shown)
    }

    /// Tells what was held back of a call's pieces: no more will come.
    pub(crate) fn flush_output(&self, cx: &ToolContext) {
        if !self.has_told.load(Ordering::Acquire) {
            return;
        }
        let rest: Vec<Telling> =
            lock(&self.telling).extract_if(.., |own| own.call == *cx.call_id()).collect();
        rest.into_iter().for_each(|own| self.tell_rest_of(own));
    }

    fn tell_rest_of(&self, own: Telling) {
        let Telling { call, key, washing } = own;
        let rest = washing.finish();
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

    /// Says why a call is stopped. Says that nothing ran; whoever knows better says better.
    pub(crate) fn why_stopped(&self, cx: &ToolContext) -> Failure {
        let (code, why) = cx.stop_reason().unwrap_or((FailureCode::Cancelled, CANCELLED));
        Failure::new(code, why).with_execution(Execution::NotStarted)
    }

    /// Tells what a body's notes hold back, as soon as it is due. Never ends.
    pub(crate) async fn forward_progress(&self, cx: &ToolContext) -> Infallible {
        let clock = &*self.inner.clock;
        loop {
            match cx.progress_due().await.filter(|due| *due > clock.now()) {
                // Asked again afterwards: the body may have told something itself meanwhile.
                Some(due) => clock.sleep_until(due).await,
                None => cx.flush_progress(),
            }
        }
    }

    /// Waits for something that is not work, as long as the call may wait. Boxed, because most
    /// calls never wait and should not carry the room for it.
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

/// The pieces of a call that belong together.
struct Telling {
    call: CallId,
    key: Option<String>,
    washing: haft_sanitize::SanitizingRedactor,
}

/// So many keys of one call are held open for their next piece; a body may make up any number.
const MAX_OPEN_KEYS: usize = 64;

impl Telling {
    fn is_of(&self, call: &CallId, key: Option<&str>) -> bool {
        self.call == *call && self.key.as_deref() == key
    }
}

/// Whether and how the model's message has ended.
#[derive(Default)]
pub(crate) struct End {
    stop: OnceLock<StopReason>,
    told: Notify,
}

impl End {
    pub(crate) fn set(&self, stop: StopReason) {
        let _ = self.stop.set(stop);
        self.told.notify_waiters();
    }

    pub(crate) fn get(&self) -> Option<StopReason> {
        self.stop.get().copied()
    }

    pub(crate) async fn wait(&self) -> StopReason {
        loop {
            let told = self.told.notified();
            if let Some(stop) = self.get() {
                return stop;
            }
            told.await;
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
        // A body that could not be stopped may still talk; its call has had its last event.
        if cx.is_closed() {
            return;
        }
        if !self.inner.events.has_observer() {
            return;
        }
        let note = match note {
            Progress::Partial(piece) => match self.tell_piece(cx, None, &piece) {
                Some(shown) => Progress::Partial(shown),
                None => return,
            },
            Progress::Keyed(key, piece) => match self.tell_piece(cx, Some(&key), &piece) {
                Some(shown) => Progress::Keyed(self.inner.redactor.text(&key).into_owned(), shown),
                None => return,
            },
            // Its text is looked at like that of any other event.
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
        let ticket = self.ticket(cx, summary)?;
        Ok(ticket.map(|(ticket, place)| TaskSlot { ticket, place: Box::new(place) }))
    }

    fn remaining_budget(&self, cx: &ToolContext) -> RemainingBudget {
        let tool = self.snapshot.get(cx.tool_name().as_str()).map(|entry| entry.registered());
        self.run.left(cx.depth(), Some(tool.unwrap_or(cx.tool_name())))
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

/// Returns the clock that a call goes by: the runtime's, where the call is one of ours.
pub(crate) fn clock_of(cx: &ToolContext) -> Arc<dyn Clock> {
    match cx.host().and_then(|host| host.downcast::<TurnCore>().ok()) {
        Some(turn) => Arc::clone(&turn.inner.clock),
        None => Arc::new(RuntimeClock),
    }
}
