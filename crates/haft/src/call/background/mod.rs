//! Background results: a call is answered with a task, its work continues, and the model gets the
//! result later.
//!
//! A task belongs to the run of its call; other runs cannot read it. Its result is kept until it
//! is delivered, once, or until it expires. It reaches the model in one of two ways: the host calls
//! `Run::settled` and adds the results to the conversation, or the model calls the tool
//! `check_task`. The limit on outstanding tasks is per runtime; delivered tasks do not count.
//!
//! INVARIANT: every task is either delivered once, or reported as expired.

mod work;

pub use haft_core::host::{BackgroundTask, TaskSlot};
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use haft_core::{
    CallId, Failure, FailureCode, Output, ToolContext, ToolName,
    host::{HostContext, WeakToolContext},
    sync::lock,
};
use serde::Serialize;
use tokio::sync::Notify;

pub(crate) use self::work::begin;
use crate::{
    call::{Inner, RunCore, TurnCore},
    event::{Event, EventSource},
    tool_result::{BoxedResult, ToolResult},
};

/// The name of the tool with which a model fetches results.
pub(crate) const CHECK_TASK: &str = "check_task";
/// Longest summary that is kept, in bytes: one line for the model.
const MAX_SUMMARY_BYTES: usize = 500;
/// When the model should poll again, in seconds: polling sooner only costs turns.
const POLL_AFTER_SECONDS: u64 = 5;

/// What a model receives about a background result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task.
    pub task_id: String,
    /// The tool whose result it will be.
    pub tool_name: ToolName,
    /// Its status: `running`, `completed`, `failed`.
    pub status: &'static str,
    /// In how many seconds to poll again.
    pub poll_after_s: u64,
    /// What the work is about.
    pub summary: String,
    /// How to continue.
    pub resume_hint: String,
}

/// The result of background work.
#[derive(Debug)]
#[non_exhaustive]
pub struct BackgroundResult {
    /// The task that the call was answered with.
    pub task_id: String,
    /// The result of the work. Its id is that of the work, nested below the call.
    pub answer: ToolResult,
}

/// All tasks of a runtime.
#[derive(Default)]
pub(crate) struct Background {
    /// Number of tasks, so that a run without any need not lock.
    count: AtomicUsize,
    made: AtomicU64,
    closed: AtomicBool,
    all: Mutex<Vec<Arc<TaskEntry>>>,
    /// Notified whenever work ends or a task is removed.
    pub(crate) changed: Notify,
}

/// A task that was not delivered yet.
pub(crate) struct TaskEntry {
    pub(crate) id: Arc<str>,
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
    /// Whether the model was notified that the result is ready.
    announced: bool,
    /// Whether the run is over, so that the result cannot be delivered.
    orphaned: bool,
}

enum Stage {
    Running,
    Done(BoxedResult),
    Gone,
}

/// A reserved task whose work has not started. Dropping it removes the task.
pub(crate) struct Reservation {
    inner: Arc<Inner>,
    entry: Option<Arc<TaskEntry>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.inner.background.remove(&entry);
        }
    }
}

impl TaskEntry {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn is_of(&self, run: &RunCore) -> bool {
        std::ptr::eq(self.run.as_ptr(), run)
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.lock().stage, Stage::Running)
    }

    /// Takes the result, if there is one.
    fn take(&self) -> Option<ToolResult> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.stage, Stage::Gone) {
            Stage::Done(result) => Some(result.into_inner()),
            other => {
                state.stage = other;
                None
            }
        }
    }

    /// Cancels the work.
    fn stop(&self, why: &str) {
        let Some((turn, cx)) = self.work.get() else { return };
        if let (Some(turn), Some(cx)) = (turn.upgrade(), cx.upgrade()) {
            turn.stop_body(&cx, FailureCode::Cancelled, why);
        }
    }

    pub(crate) fn task(&self, check_tool: Option<&ToolName>) -> TaskInfo {
        let status = match &self.lock().stage {
            Stage::Done(result) if result.is_error() => "failed",
            Stage::Done(_) => "completed",
            Stage::Running | Stage::Gone => "running",
        };
        TaskInfo {
            task_id: self.id.to_string(),
            tool_name: self.tool.clone(),
            status,
            poll_after_s: POLL_AFTER_SECONDS,
            summary: self.summary.clone(),
            resume_hint: match check_tool {
                Some(tool) => format!(
                    "continue with something else; call `{tool}` for the result when you need it"
                ),
                None => {
                    "continue with something else; the result comes in a later message".to_owned()
                }
            },
        }
    }
}

impl Background {
    /// Returns whether there is any task at all.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns the tasks of a run, oldest first.
    pub(crate) fn of(&self, run: &RunCore) -> Vec<Arc<TaskEntry>> {
        if self.any() {
            self.lock().iter().filter(|entry| entry.is_of(run)).cloned().collect()
        } else {
            Vec::new()
        }
    }

    fn remove(&self, entry: &Arc<TaskEntry>) {
        let mut all = self.lock();
        if let Some(at) = all.iter().position(|other| Arc::ptr_eq(other, entry)) {
            all.remove(at);
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        drop(all);
        self.changed.notify_waiters();
    }

    /// Takes the results of a run that are ready.
    pub(crate) fn take_results(&self, run: &RunCore) -> Vec<BackgroundResult> {
        self.of(run).iter().filter_map(|entry| self.deliver(entry)).collect()
    }

    /// Takes one result, once.
    pub(crate) fn deliver(&self, entry: &Arc<TaskEntry>) -> Option<BackgroundResult> {
        let answer = entry.take()?;
        self.remove(entry);
        Some(BackgroundResult { task_id: entry.id.to_string(), answer })
    }

    /// Waits for the next result of a run; `None` if none is outstanding.
    pub(crate) async fn next_result(&self, run: &RunCore) -> Option<BackgroundResult> {
        loop {
            let changed = self.changed.notified();
            let own = self.of(run);
            if let Some(late) = own.iter().find_map(|entry| self.deliver(entry)) {
                return Some(late);
            }
            if own.is_empty() {
                return None;
            }
            changed.await;
        }
    }

    /// Returns the status of a run's tasks.
    pub(crate) fn tasks(&self, run: &RunCore) -> Vec<TaskInfo> {
        self.of(run).iter().map(|entry| entry.task(None)).collect()
    }

    /// Cancels the work of a run that is over, and discards its results.
    pub(crate) fn end(&self, run: &RunCore, why: &str, inner: &Inner) {
        for entry in self.of(run) {
            entry.lock().orphaned = true;
            entry.stop(why);
            if entry.take().is_some() {
                self.expire(&entry, inner);
            }
        }
    }

    /// Cancels the work of a run that continues; its results report the cancellation.
    pub(crate) fn stop(&self, run: &RunCore, why: &str) {
        self.of(run).iter().for_each(|entry| entry.stop(why));
    }

    fn expire(&self, entry: &Arc<TaskEntry>, inner: &Inner) {
        self.remove(entry);
        let (call, task_id) = (entry.call.clone(), Arc::clone(&entry.id));
        inner.events.emit_as(|| Arc::clone(&entry.who), || Event::Expired { call, task_id });
    }

    /// Accepts no more work, waits for the grace period, cancels the rest, and waits for it to end.
    pub(crate) async fn close(&self, inner: &Inner) {
        self.closed.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
        let config = &inner.config;
        self.idle(inner, config.background_grace).await;
        let all: Vec<_> = self.lock().clone();
        all.iter().for_each(|entry| entry.stop("the runtime is being closed"));
        // Cancelling, dropping and journaling each have their own timeout.
        self.idle(inner, config.grace * 3 + config.policy_timeout).await;
    }

    /// Waits until no work is running, with a timeout.
    async fn idle(&self, inner: &Inner, limit: std::time::Duration) {
        let clock = &*inner.clock;
        let mut late = clock.sleep_until(crate::host_code::after(clock.now(), limit));
        loop {
            let changed = self.changed.notified();
            if !self.lock().iter().any(|entry| entry.is_running()) {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = late.as_mut() => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<TaskEntry>>> {
        lock(&self.all)
    }
}

impl TurnCore {
    /// Reserves a task for background work; `None` if its result could not be delivered.
    pub(crate) fn task(
        &self,
        cx: &ToolContext,
        summary: &str,
    ) -> Result<Option<(Output, Reservation)>, Failure> {
        let background = &self.run.inner.background;
        let limit = self.run.inner.config.max_background;
        let has_reader = self.run.listens() && !cx.call_id().looks_nested();
        if !has_reader || limit == 0 || background.closed.load(Ordering::SeqCst) {
            return Ok(None);
        }
        // Redacted before it is truncated: half a secret would not be recognized.
        let (cleaned, _) = self.run.inner.redactor.sanitize_and_redact(summary);
        let mut summary = cleaned.unwrap_or_else(|| summary.to_owned());
        summary.truncate(summary.floor_char_boundary(MAX_SUMMARY_BYTES));
        let mut all = background.lock();
        if all.len() >= limit {
            return Err(Failure::new(
                FailureCode::NotRun,
                format!("{limit} background results are already outstanding, which is the limit"),
            )
            .with_next("wait for one of them to finish, or fetch the finished ones"));
        }
        let n = background.made.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Arc::new(TaskEntry {
            id: format!("task-{n}").into(),
            call: cx.next_nested_id(),
            tool: cx.tool_name().clone(),
            summary,
            who: EventSource::of(&self.scope),
            run: Arc::downgrade(&self.run),
            work: OnceLock::new(),
            state: Mutex::new(State { stage: Stage::Running, announced: false, orphaned: false }),
        });
        all.push(Arc::clone(&entry));
        background.count.fetch_add(1, Ordering::AcqRel);
        drop(all);
        let task = serde_json::to_value(entry.task(self.check_tool_name())).unwrap_or_default();
        let reservation = Reservation { inner: Arc::clone(&self.run.inner), entry: Some(entry) };
        Ok(Some((Output::json(task), reservation)))
    }

    /// Returns the name under which this turn offers `check_task`.
    fn check_tool_name(&self) -> Option<&ToolName> {
        let is_it =
            |entry: &&Arc<crate::registry::RegisteredTool>| *entry.registered() == CHECK_TASK;
        self.snapshot.entries().find(is_it).map(|entry| entry.name())
    }

    /// Announces results that are ready, for a model that can fetch them. It contains only text of
    /// the host; the output of a tool comes as a result.
    pub(crate) fn late_news(&self) -> Vec<String> {
        let done = |entry: &Arc<TaskEntry>| {
            let mut state = entry.lock();
            let is_news = matches!(state.stage, Stage::Done(_)) && !state.announced;
            is_news && !std::mem::replace(&mut state.announced, true)
        };
        let Some(check_tool) = self.check_tool_name() else { return Vec::new() };
        let own = self.run.inner.background.of(&self.run);
        let news = own.iter().filter(|entry| done(entry)).map(|entry| {
            let status = entry.task(None).status;
            format!(
                "`{}` of `{}` is {status}; call `{check_tool}` for the result",
                entry.id, entry.tool
            )
        });
        news.collect()
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("tasks", &self.lock().len()).finish_non_exhaustive()
    }
}
