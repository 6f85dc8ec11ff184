//! What all calls of one turn share: snapshot, scope, seats, and how to stop.
//!
//! Stopping is always a flag that is told, never a dropped future. Three things can stop a call: it
//! is stopped itself (alone, by a sibling, with the turn or the run), the turn is interrupted (which
//! `block` tools sit out once they run), or the call it is nested in is stopped.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use haft_core::{
    BoxFuture, CallId, Code, Context, Failure, Host, Note, Output, Ran, Scope, ToolName,
    WeakContext,
};
use serde_json::Value;
use smallvec::SmallVec;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use super::{
    admit,
    call::{Call, Stop},
    launch::launch,
};
use crate::{catalog::Snapshot, event::Event, lifecycle, run::RunCore, runtime::Inner};

/// What all calls of one turn share.
pub(crate) struct TurnCore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) run: Arc<RunCore>,
    pub(crate) snapshot: Snapshot,
    pub(crate) scope: Arc<Scope>,
    pub(crate) seats: Semaphore,
    pub(crate) end: End,
    forced: AtomicBool,
    interrupted: AtomicBool,
    told: Notify,
    calls: Mutex<SmallVec<[Taken; 1]>>,
    nested: Mutex<Vec<(CallId, WeakContext)>>,
}

/// A call that was taken in, and how to reach it.
struct Taken {
    id: CallId,
    called: ToolName,
    cx: WeakContext,
    cause: Option<Cause>,
}

/// Why one call was stopped.
#[derive(Debug, Clone)]
enum Cause {
    Alone,
    Sibling(ToolName),
}

impl TurnCore {
    pub(crate) fn new(run: &Arc<RunCore>, snapshot: Snapshot, scope: Arc<Scope>) -> Arc<Self> {
        let core = Arc::new(Self {
            inner: Arc::clone(&run.inner),
            snapshot,
            scope,
            seats: Semaphore::new(run.inner.config.max_concurrency.min(Semaphore::MAX_PERMITS)),
            end: End::default(),
            forced: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            told: Notify::new(),
            calls: Mutex::default(),
            nested: Mutex::default(),
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
    ) -> Context {
        Context::new(Arc::clone(&self.scope), id, called, meant, Arc::clone(self) as _)
    }

    /// Makes room for so many calls.
    pub(crate) fn expect(&self, calls: usize) {
        lock(&self.calls).reserve_exact(calls);
    }

    /// Makes a call of this turn stoppable.
    pub(crate) fn take_in(&self, cx: &Context) {
        lock(&self.calls).push(Taken {
            id: cx.call_id().clone(),
            called: cx.called().clone(),
            cx: cx.downgrade(),
            cause: None,
        });
        if self.forced.load(Ordering::SeqCst) {
            cx.stop();
        }
    }

    /// Returns the calls that were taken in, in order.
    pub(crate) fn taken_in(&self) -> Vec<(CallId, ToolName)> {
        lock(&self.calls).iter().map(|c| (c.id.clone(), c.called.clone())).collect()
    }

    /// Stops everything.
    pub(crate) fn force(&self) {
        self.forced.store(true, Ordering::SeqCst);
        self.interrupt();
        let all: Vec<WeakContext> = lock(&self.calls).iter().map(|c| c.cx.clone()).collect();
        for cx in all.iter().filter_map(WeakContext::upgrade) {
            self.stop_body(&cx);
        }
    }

    /// Stops what yields, and keeps what has not started from starting.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// Waits until the turn is interrupted.
    pub(crate) async fn interrupted(&self) {
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
        self.stop(id, Cause::Alone)
    }

    /// Stops one call because a sibling failed.
    pub(crate) fn stop_sibling(&self, id: &CallId, failed: &ToolName) {
        self.stop(id.as_str(), Cause::Sibling(failed.clone()));
    }

    fn stop(&self, id: &str, cause: Cause) -> bool {
        let cx = {
            let mut calls = lock(&self.calls);
            let Some(call) = calls.iter_mut().find(|c| c.id == *id) else { return false };
            call.cause.get_or_insert(cause);
            call.cx.upgrade()
        };
        if let Some(cx) = cx {
            self.stop_body(&cx);
        }
        true
    }

    /// Tells a body, and the nested calls it is waiting for, to stop.
    pub(crate) fn stop_body(&self, cx: &Context) {
        cx.stop();
        if cx.nested_calls() > 0 {
            let below: Vec<WeakContext> = lock(&self.nested)
                .iter()
                .filter(|(id, _)| id.is_within(cx.call_id()))
                .map(|(_, cx)| cx.clone())
                .collect();
            below.iter().filter_map(WeakContext::upgrade).for_each(|cx| cx.stop());
        }
    }

    /// Returns whether a call is nested, at any depth, in a call of this tool.
    pub(crate) fn works_in(&self, cx: &Context, tool: &ToolName) -> bool {
        let is_outer = |outer: &CallId, outer_cx: &WeakContext| {
            cx.call_id().is_within(outer)
                && outer_cx.upgrade().is_some_and(|outer| outer.meant() == tool)
        };
        lock(&self.calls).iter().any(|c| is_outer(&c.id, &c.cx))
            || lock(&self.nested).iter().any(|(id, outer)| is_outer(id, outer))
    }

    /// Returns whether this call must not start or go on.
    pub(crate) fn is_stopped(&self, cx: &Context) -> bool {
        cx.is_cancelled() || self.interrupted.load(Ordering::SeqCst)
    }

    /// Says why a call is stopped. Says that nothing ran; whoever knows better says better.
    pub(crate) fn why_stopped(&self, cx: &Context) -> Failure {
        let cause = lock(&self.calls)
            .iter()
            .find(|c| c.id == *cx.call_id() || cx.call_id().is_within(&c.id))
            .and_then(|c| c.cause.clone());
        match cause {
            Some(Cause::Sibling(tool)) => Failure::new(
                Code::SiblingAborted,
                format!("`{tool}` in the same batch failed, and that cancels its siblings"),
            ),
            Some(Cause::Alone) => Failure::new(Code::Cancelled, "this call was cancelled"),
            None => Failure::new(Code::Cancelled, "the turn was cancelled"),
        }
        .with_ran(Ran::No)
    }

    /// Waits for something that is not work, as long as the call may wait. Boxed, because most
    /// calls never wait and should not carry the room for it.
    pub(crate) fn waiting<'a, T: Send>(
        &'a self,
        cx: &'a Context,
        deadline: Instant,
        what: impl Future<Output = T> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Failure>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                got = what => Ok(got),
                () = cx.cancelled() => Err(self.why_stopped(cx)),
                () = self.interrupted() => Err(self.why_stopped(cx)),
                () = tokio::time::sleep_until(deadline) => Err(Failure::new(
                    Code::DeadlinePassed,
                    "the call's time ran out while it waited for its turn; nothing was run",
                )),
            }
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether and how the model's message has ended.
#[derive(Default)]
pub(crate) struct End {
    stop: OnceLock<Stop>,
    told: Notify,
}

impl End {
    pub(crate) fn set(&self, stop: Stop) {
        let _ = self.stop.set(stop);
        self.told.notify_waiters();
    }

    pub(crate) fn get(&self) -> Option<Stop> {
        self.stop.get().copied()
    }

    pub(crate) async fn wait(&self) -> Stop {
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
    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }

    fn call(
        self: Arc<Self>,
        cx: Context,
        id: CallId,
        name: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>> {
        Box::pin(nested(self, cx, Call::new(id, name, arguments)))
    }

    fn block(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
        self.inner.threads.run(job)
    }

    fn tell(&self, cx: &Context, note: Note) {
        self.inner.events.tell(|| Event::Noted { call: cx.call_id().clone(), note: note.clone() });
    }
}

/// Walks a call that a body makes. It takes the whole walk, one level deeper.
async fn nested(turn: Arc<TurnCore>, cx: Context, call: Call) -> Result<Output, Failure> {
    let Some(claim) = cx.claim().cloned() else {
        return Err(Failure::new(Code::NotRun, "only a running tool can call other tools"));
    };
    let config = &turn.inner.config;
    let depth = cx.depth() + 1;
    if depth > config.max_depth {
        return Err(Failure::new(
            Code::BudgetExhausted,
            format!("calls are nested {} deep already; no more is allowed", cx.depth()),
        ));
    }
    let mut scope = Scope::clone(cx.scope());
    scope.depth = depth;
    scope.left.depth = Some(config.max_depth - depth);
    let entry = admit::resolve(&turn.snapshot, &call.name);
    let meant = entry.as_ref().map_or_else(|_| call.name.clone(), |e| e.name().clone());
    let id = call.id.clone();
    let scope = Arc::new(scope);
    let inner = Context::new(scope, id.clone(), call.name.clone(), meant, Arc::clone(&turn) as _);
    lock(&turn.nested).push((id.clone(), inner.downgrade()));
    let _listed = Listed { turn: &turn, id: &id };
    // Stopped between the outer call's stop and our being listed: nobody would tell us.
    if cx.is_cancelled() {
        inner.stop();
    }
    let admitted =
        entry.and_then(|entry| admit::admit(entry, call, inner.clone(), config.max_arguments));
    let parent = lifecycle::Parent { claim, deadline: cx.deadline().map(Instant::from_std) };
    let walk = lifecycle::walk(Arc::clone(&turn), admitted, inner, Some(Box::new(parent)));
    match launch(walk).end().await {
        Some(envelope) => envelope.into_outcome(),
        None => Err(Failure::new(Code::UnknownOutcome, "the nested call was lost")),
    }
}

/// A nested call that can be reached while it lasts.
struct Listed<'a> {
    turn: &'a TurnCore,
    id: &'a CallId,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut nested = lock(&self.turn.nested);
        if let Some(at) = nested.iter().position(|(id, _)| id == self.id) {
            nested.swap_remove(at);
        }
    }
}
