//! What all calls of one turn share: snapshot, scope, tokens, seats.
//!
//! Stopping is always a token. Three things can stop a call: its own token (cancelled alone, by a
//! sibling, or with the turn), the turn's interrupt (which `block` tools sit out), the run's token.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use haft_core::{
    BoxFuture, CallId, CancellationToken, Code, Context, Failure, Host, Note, Output, Ran, Scope,
    ToolName,
};
use serde_json::Value;
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
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) scope: Arc<Scope>,
    pub(crate) force: CancellationToken,
    pub(crate) interrupt: CancellationToken,
    pub(crate) seats: Semaphore,
    pub(crate) end: End,
    stops: Mutex<Vec<Stoppable>>,
}

/// A call of this turn, and how to stop it.
struct Stoppable {
    id: CallId,
    called: ToolName,
    token: CancellationToken,
    cause: Option<Cause>,
}

/// Why one call was stopped.
#[derive(Debug, Clone)]
enum Cause {
    Alone,
    Sibling(ToolName),
}

impl TurnCore {
    pub(crate) fn new(run: &Arc<RunCore>, snapshot: Arc<Snapshot>, scope: Arc<Scope>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(&run.inner),
            snapshot,
            scope,
            force: run.cancel.child_token(),
            interrupt: CancellationToken::new(),
            seats: Semaphore::new(run.inner.config.max_concurrency.min(Semaphore::MAX_PERMITS)),
            end: End::default(),
            stops: Mutex::default(),
            run: Arc::clone(run),
        })
    }

    /// Makes the context of one call, and makes the call stoppable.
    pub(crate) fn context(
        self: &Arc<Self>,
        id: CallId,
        called: ToolName,
        meant: ToolName,
    ) -> Context {
        let token = self.force.child_token();
        self.stops().push(Stoppable {
            id: id.clone(),
            called: called.clone(),
            token: token.clone(),
            cause: None,
        });
        let host: Arc<dyn Host> = Arc::clone(self) as _;
        Context::new(Arc::clone(&self.scope), id, called, meant, token, host)
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
        let token = {
            let mut stops = self.stops();
            let Some(stop) = stops.iter_mut().find(|s| s.id == *id) else { return false };
            stop.cause.get_or_insert(cause);
            stop.token.clone()
        };
        token.cancel();
        true
    }

    /// Returns why this call must not start or go on, if so. Says that nothing ran; whoever knows
    /// better says better.
    pub(crate) fn stopped(&self, cx: &Context) -> Option<Failure> {
        (cx.is_cancelled() || self.interrupt.is_cancelled()).then(|| self.why_stopped(cx))
    }

    /// Says why a call is stopped.
    pub(crate) fn why_stopped(&self, cx: &Context) -> Failure {
        let cause =
            self.stops().iter().find(|s| s.id == *cx.call_id()).and_then(|s| s.cause.clone());
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
                () = self.interrupt.cancelled() => Err(self.why_stopped(cx)),
                () = tokio::time::sleep_until(deadline) => Err(Failure::new(
                    Code::DeadlinePassed,
                    "the call's time ran out while it waited for its turn; nothing was run",
                )),
            }
        })
    }

    /// Returns the calls that were taken in, in order.
    pub(crate) fn taken_in(&self) -> Vec<(CallId, ToolName)> {
        self.stops().iter().map(|s| (s.id.clone(), s.called.clone())).collect()
    }

    fn stops(&self) -> std::sync::MutexGuard<'_, Vec<Stoppable>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    let inner = Context::new(
        Arc::new(scope),
        call.id.clone(),
        call.name.clone(),
        meant,
        cx.cancellation().child_token(),
        Arc::clone(&turn) as _,
    );
    let admitted =
        entry.and_then(|entry| admit::admit(entry, call, inner.clone(), config.max_arguments));
    let parent = lifecycle::Parent { claim, deadline: cx.deadline().map(Instant::from_std) };
    let walk = lifecycle::walk(Arc::clone(&turn), admitted, inner, Some(parent));
    match launch(walk).end().await {
        Some(envelope) => envelope.into_outcome(),
        None => Err(Failure::new(Code::UnknownOutcome, "the nested call was lost")),
    }
}
