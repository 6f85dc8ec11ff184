//! Results that come later: a call is answered with a ticket, its work goes on, and the model hears
//! of the end.
//!
//! A ticket belongs to the run of its call, and nobody else can read it. Its result waits until it is
//! delivered, once, or until its time is over. The model hears of it in one of two ways: the host asks
//! the run (`Run::settled`) and adds what came to the conversation, or the model asks with the tool
//! `check_ticket`. Tickets are counted over the whole runtime, delivered ones no more.
//!
//! INVARIANT: every ticket is delivered once, or told to have expired.

mod work;
mod tool;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use haft_core::{CallId, Failure, FailureCode, Output, ToolContext, ToolName, WeakToolContext};
use serde::Serialize;
use tokio::sync::Notify;

pub use self::tool::CheckTask;
pub(crate) use self::work::begin;
use crate::{
    event::{Event, EventSource},
    run::RunCore,
    runtime::Inner,
    tool_result::ToolResult,
    turn::TurnCore,
};

/// The longest summary that is kept, in bytes: a line for the model.
const SUMMARY: usize = 500;
/// When the model may sensibly ask again, in seconds: sooner only costs turns.
const POLL_AFTER: u64 = 5;

/// What a model is told of a result that comes later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The ticket.
    pub ticket_id: String,
    /// The tool whose result it will be.
    pub tool_name: ToolName,
    /// How it stands: `running`, `completed`, `failed`.
    pub status: &'static str,
    /// In how many seconds it makes sense to ask again.
    pub poll_after_s: u64,
    /// What the work is about.
    pub summary: String,
    /// How to go on.
    pub resume_hint: String,
}

/// A result that came later.
#[derive(Debug)]
#[non_exhaustive]
pub struct BackgroundResult {
    /// The ticket that the call was answered with.
    pub ticket: String,
    /// What came of its work. Its id is the work's own, below that of the call.
    pub answer: ToolResult,
}

/// All tickets of a runtime.
#[derive(Default)]
pub(crate) struct Background {
    /// How many there are, so that whoever has none need not lock.
    count: AtomicUsize,
    made: AtomicU64,
    closed: AtomicBool,
    all: Mutex<Vec<Arc<Open>>>,
    /// Told whenever work ends or a ticket goes.
    changed: Notify,
}

/// A ticket that was not delivered yet.
pub(crate) struct Open {
    id: Arc<str>,
    call: CallId,
    tool: ToolName,
    summary: String,
    who: Arc<EventSource>,
    run: Weak<RunCore>,
    work: OnceLock<(Weak<TurnCore>, WeakToolContext)>,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    /// Whether the model was told that it can have the result.
    announced: bool,
    /// Whether anybody is left to hear of it.
    orphaned: bool,
}

enum Stage {
    Running,
    Done(Box<ToolResult>),
    Gone,
}

/// The place of a ticket whose work has not begun. Dropping it gives the place back.
pub(crate) struct Place {
    inner: Arc<Inner>,
    open: Option<Arc<Open>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.inner.background.remove(&open);
        }
    }
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_of(&self, run: &RunCore) -> bool {
        std::ptr::eq(self.run.as_ptr(), run)
    }

    fn is_running(&self) -> bool {
        matches!(self.lock().stage, Stage::Running)
    }

    /// Takes the result, if there is one.
    fn take(&self) -> Option<ToolResult> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.stage, Stage::Gone) {
            Stage::Done(envelope) => Some(*envelope),
            other => {
                state.stage = other;
                None
            }
        }
    }

    /// Tells the work to stop.
    fn stop(&self, why: &str) {
        let Some((turn, cx)) = self.work.get() else { return };
        if let (Some(turn), Some(cx)) = (turn.upgrade(), cx.upgrade()) {
            turn.stop_body(&cx, FailureCode::Cancelled, why);
        }
    }

    fn ticket(&self, asks: Option<&ToolName>) -> TaskInfo {
        let status = match &self.lock().stage {
            Stage::Done(envelope) if envelope.is_error() => "failed",
            Stage::Done(_) => "completed",
            Stage::Running | Stage::Gone => "running",
        };
        TaskInfo {
            ticket_id: self.id.to_string(),
            tool_name: self.tool.clone(),
            status,
            poll_after_s: POLL_AFTER,
            summary: self.summary.clone(),
            resume_hint: match asks {
                Some(tool) => format!(
                    "go on with something else; ask `{tool}` for the result when you need it"
                ),
                None => "go on with something else; the result comes in a later message".to_owned(),
            },
        }
    }
}

impl Background {
    /// Returns whether there is any ticket at all.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns the tickets of a run, oldest first.
    fn of(&self, run: &RunCore) -> Vec<Arc<Open>> {
        match self.any() {
            true => self.lock().iter().filter(|open| open.is_of(run)).cloned().collect(),
            false => Vec::new(),
        }
    }

    fn remove(&self, open: &Arc<Open>) {
        let mut all = self.lock();
        if let Some(at) = all.iter().position(|other| Arc::ptr_eq(other, open)) {
            all.remove(at);
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        drop(all);
        self.changed.notify_waiters();
    }

    /// Takes the results of a run that are there.
    pub(crate) fn settled(&self, run: &RunCore) -> Vec<BackgroundResult> {
        self.of(run).iter().filter_map(|open| self.deliver(open)).collect()
    }

    /// Takes one result, once.
    fn deliver(&self, open: &Arc<Open>) -> Option<BackgroundResult> {
        let answer = open.take()?;
        self.remove(open);
        Some(BackgroundResult { ticket: open.id.to_string(), answer })
    }

    /// Waits for the next result of a run; nothing when none is outstanding.
    pub(crate) async fn next_settled(&self, run: &RunCore) -> Option<BackgroundResult> {
        loop {
            let changed = self.changed.notified();
            let own = self.of(run);
            if let Some(late) = own.iter().find_map(|open| self.deliver(open)) {
                return Some(late);
            }
            if own.is_empty() {
                return None;
            }
            changed.await;
        }
    }

    /// Returns how a run's tickets stand.
    pub(crate) fn tickets(&self, run: &RunCore) -> Vec<TaskInfo> {
        self.of(run).iter().map(|open| open.ticket(None)).collect()
    }

    /// Stops the work of a run that is over, and lets its results go.
    pub(crate) fn end(&self, run: &RunCore, why: &str, inner: &Inner) {
        for open in self.of(run) {
            open.lock().orphaned = true;
            open.stop(why);
            if open.take().is_some() {
                self.expire(&open, inner);
            }
        }
    }

    /// Stops the work of a run that goes on; its results say so.
    pub(crate) fn stop(&self, run: &RunCore, why: &str) {
        self.of(run).iter().for_each(|open| open.stop(why));
    }

    fn expire(&self, open: &Arc<Open>, inner: &Inner) {
        self.remove(open);
        let (call, ticket) = (open.call.clone(), Arc::clone(&open.id));
        inner.events.tell(|| Arc::clone(&open.who), || Event::Expired { call, ticket });
    }

    /// Takes no more work, waits a while for what there is, stops the rest, and sees it end.
    pub(crate) async fn close(&self, inner: &Inner) {
        self.closed.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
        let config = &inner.config;
        self.idle(inner, config.background_grace).await;
        let all: Vec<_> = self.lock().clone();
        all.iter().for_each(|open| open.stop("the runtime is being closed"));
        // Asked, dropped, and written down: each has its own bound.
        self.idle(inner, config.grace * 3 + config.judge_timeout).await;
    }

    /// Waits until no work is under way, at most so long.
    async fn idle(&self, inner: &Inner, limit: std::time::Duration) {
        let clock = &*inner.clock;
        let mut late = clock.sleep_until(crate::watch::after(clock.now(), limit));
        loop {
            let changed = self.changed.notified();
            if !self.lock().iter().any(|open| open.is_running()) {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = late.as_mut() => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Open>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnCore {
    /// Gives a ticket for work that goes on after the answer; nothing where nobody would hear of its
    /// end.
    pub(crate) fn ticket(
        &self,
        cx: &ToolContext,
        summary: &str,
    ) -> Result<Option<(Output, Place)>, Failure> {
        let background = &self.inner.background;
        let most = self.inner.config.max_background;
        let is_heard = self.run.listens() && !cx.call_id().looks_nested();
        if !is_heard || most == 0 || background.closed.load(Ordering::SeqCst) {
            return Ok(None);
        }
        // Washed before it is cut: half a secret is no longer known for one.
        let (washed, _) = self.inner.redactor.washed(summary);
        let mut summary = washed.unwrap_or_else(|| summary.to_owned());
        summary.truncate(summary.floor_char_boundary(SUMMARY));
        let mut all = background.lock();
        if all.len() >= most {
            return Err(Failure::new(
                FailureCode::NotRun,
                format!("{most} results are outstanding already, and no more may be"),
            )
            .with_next("wait for one of them to end, or fetch those that have"));
        }
        let n = background.made.fetch_add(1, Ordering::Relaxed) + 1;
        let open = Arc::new(Open {
            id: format!("ticket-{n}").into(),
            call: cx.next_nested_id(),
            tool: cx.tool_name().clone(),
            summary,
            who: EventSource::of(&self.scope),
            run: Arc::downgrade(&self.run),
            work: OnceLock::new(),
            state: Mutex::new(State { stage: Stage::Running, announced: false, orphaned: false }),
        });
        all.push(Arc::clone(&open));
        background.count.fetch_add(1, Ordering::AcqRel);
        drop(all);
        let ticket = serde_json::to_value(open.ticket(self.asks_with())).unwrap_or_default();
        let place = Place { inner: Arc::clone(&self.inner), open: Some(open) };
        Ok(Some((Output::json(ticket), place)))
    }

    /// Returns the name under which this turn offers the tool that asks for results.
    fn asks_with(&self) -> Option<&ToolName> {
        let is_it =
            |entry: &&Arc<crate::registry::RegisteredTool>| *entry.registered() == tool::NAME;
        self.snapshot.entries().find(is_it).map(|entry| entry.name())
    }

    /// Says which results are there, for a model that can ask for them. The host's words only: what
    /// a tool gave back comes as a result.
    pub(crate) fn late_news(&self) -> Vec<String> {
        let done = |open: &Arc<Open>| {
            let mut state = open.lock();
            let is_news = matches!(state.stage, Stage::Done(_)) && !state.announced;
            is_news && !std::mem::replace(&mut state.announced, true)
        };
        let Some(asks) = self.asks_with() else { return Vec::new() };
        let own = self.inner.background.of(&self.run);
        let news = own.iter().filter(|open| done(open)).map(|open| {
            let status = open.ticket(None).status;
            format!("`{}` of `{}` is {status}; ask `{asks}` for the result", open.id, open.tool)
        });
        news.collect()
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("tickets", &self.lock().len()).finish_non_exhaustive()
    }
}
