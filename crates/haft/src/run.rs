//! One agent task: the state that lasts across its turns.
//!
//! A run owns the lock table that its calls share, the taint label of everything the model has
//! read, and a state map for its tools. Turns of one run may overlap; the lock table serializes
//! conflicting calls.
//!
//! A sub-run belongs to a parent run. It charges the parent's budget as well as its own, starts
//! with the parent's taint, and adds its own taint to the parent.

mod access;
mod builder;
mod invalid_calls;

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use haft_core::{
    Error, ErrorKind, Failure, Label, RemainingBudget, RunId, Scope, ToolContext, ToolName,
    host::{HostContext, WeakToolContext},
    sync::lock,
};
use haft_policy::{Budget, TaintTracker};

pub use self::builder::RunBuilder;
pub(crate) use self::invalid_calls::InvalidCallCounts;
use crate::{
    approval::PromptLimits,
    background::{BackgroundResult, TaskInfo},
    budget::Ledger,
    concurrency::LockTable,
    event::{Event, EventSource},
    host_code::{NO_TOKIO_RUNTIME, in_tokio_runtime},
    open_set::OpenSet,
    registry::{ToolSet, ToolSnapshot, ToolView},
    runtime::Inner,
    taint,
    tool_result::ToolResult,
    turn::{Turn, TurnCore},
};

/// State that all turns of a run share.
pub(crate) struct RunCore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) locks: Arc<LockTable>,
    cancelled: AtomicBool,
    /// Why no more calls of this run may start.
    halted: OnceLock<String>,
    /// The turns with calls that wait. Other calls look at `cancelled` and `halted` themselves.
    turns: OpenSet<TurnCore>,
    base: Scope,
    /// Hierarchical number of the run, independent of its id: `3.1` is the first sub-run of the
    /// third.
    pub(crate) line: String,
    view: ToolView,
    cycle: AtomicU32,
    /// How many messages the user has written since the run started.
    user_messages: AtomicU32,
    pub(crate) seen: Arc<TaintTracker>,
    /// The budget; `None` if nothing is limited.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// Maximum nesting depth of its calls, counted from the outermost run.
    pub(crate) max_depth: u32,
    /// The call that a sub-run works for. It takes over the taint of what the sub-run reads.
    works_for: Option<WeakToolContext>,
    /// Alive while the host holds the run and it has more than one turn.
    handle: OnceLock<Weak<Handle>>,
    /// The open sub-runs.
    subs: OpenSet<RunCore>,
    /// The parent run, and the key of this run there.
    parent: Option<(Weak<RunCore>, usize)>,
    sub_run_count: AtomicU32,
    /// The last tool set whose definitions were recorded as read by the model.
    recorded: Mutex<Weak<ToolSet>>,
    pub(crate) invalid_calls: InvalidCallCounts,
    pub(crate) prompt_limits: PromptLimits,
    /// The last tool set and its filtered view, so that an unchanged registry costs nothing.
    viewed: Mutex<Option<(Arc<ToolSet>, Arc<ToolSet>)>>,
    /// The deferred tools that are shown from the next turn on.
    loaded: Mutex<Arc<Vec<ToolName>>>,
}

/// How many deferred tools a run may load; a model that loads more has not searched.
const MAX_LOADED_TOOLS: usize = 1_000;

/// A turn whose tools are frozen, before it begins.
struct TurnOpening {
    scope: Arc<Scope>,
    snapshot: ToolSnapshot,
    /// The failure of every call, if the run has no turns left.
    spent: Option<Failure>,
}

impl Drop for RunCore {
    fn drop(&mut self) {
        if let Some((parent, key)) = &self.parent
            && let Some(parent) = parent.upgrade()
        {
            parent.subs.remove(*key);
        }
    }
}

impl RunCore {
    /// Returns the tools of the next turn, and the problems of their sources.
    async fn tools(&self) -> Result<(Arc<ToolSet>, Vec<String>), Error> {
        if !in_tokio_runtime() {
            return Err(Error::new(ErrorKind::BadConfig, NO_TOKIO_RUNTIME));
        }
        let (registry, config) = (&self.inner.registry, &self.inner.config);
        match registry.without_sources() {
            Some(tool_set) => Ok((Arc::clone(tool_set), Vec::new())),
            None => Box::pin(registry.refresh(&*self.inner.clock, config.policy_timeout)).await,
        }
    }

    /// Freezes the tools of a turn.
    #[inline(always)]
    fn open_turn(&self, tool_set: Arc<ToolSet>, mut problems: Vec<String>) -> TurnOpening {
        let tool_set = self.apply_view(tool_set, &mut problems);
        self.record_definitions(&tool_set);
        let events = &self.inner.events;
        let spent = self.ledger.as_ref().and_then(|ledger| ledger.cycle(events).err());
        let scope = Arc::new(Scope {
            run_scope: Arc::clone(&self.base.run_scope),
            depth: self.base.depth,
            cycle: self.cycle.fetch_add(1, Ordering::Relaxed) + 1,
            label: self.seen.label(),
            remaining_budget: self.remaining(self.base.depth, None),
        });
        let interactive = self.inner.approvals.has_approver();
        let policy = &*self.inner.policy;
        let snapshot = ToolSnapshot::take(tool_set, &scope, policy, interactive, problems)
            .defer(self.inner.config.max_tool_tokens, || self.loaded_tools());
        TurnOpening { scope, snapshot, spent }
    }

    /// Shows deferred tools from the next turn on, for the rest of the run.
    pub(crate) fn load_tools<'a>(&self, names: impl Iterator<Item = &'a ToolName>) {
        let mut loaded = lock(&self.loaded);
        for name in names {
            // A tool that is loaded keeps its place, so that the request begins as before.
            if loaded.len() < MAX_LOADED_TOOLS && !loaded.contains(name) {
                Arc::make_mut(&mut loaded).push(name.clone());
            }
        }
    }

    /// Returns the deferred tools that were loaded so far, in that order.
    pub(crate) fn loaded_tools(&self) -> Arc<Vec<ToolName>> {
        Arc::clone(&lock(&self.loaded))
    }

    /// Begins a turn whose tools are known.
    #[inline(always)]
    fn begin_turn(self: &Arc<Self>, opening: TurnOpening) -> Arc<TurnCore> {
        let TurnOpening { scope, snapshot, spent } = opening;
        let events = &self.inner.events;
        let source = events.has_observer().then(|| {
            let source = EventSource::of(&scope);
            for message in snapshot.problems() {
                let (run, message) = (scope.run.clone(), message.clone());
                events.emit_as(|| Arc::clone(&source), || Event::Problem { run, message });
            }
            let (cycle, tools) = (scope.cycle, snapshot.entries().count());
            let started = || Event::TurnStarted { run: scope.run.clone(), cycle, tools };
            events.emit_as(|| Arc::clone(&source), started);
            source
        });
        TurnCore::new(self, snapshot, scope, source, spent)
    }

    /// Registers a turn whose calls wait, so that cancelling or halting the run reaches them.
    /// Returns its key.
    pub(crate) fn watch(&self, turn: &Arc<TurnCore>) -> usize {
        self.turns.add(turn)
    }

    /// Returns whether the run is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Removes a turn that has ended.
    pub(crate) fn end_turn(&self, key: usize) {
        self.turns.remove(key);
    }

    /// Prevents calls that have not started from starting. The first reason is kept.
    pub(crate) fn halt(&self, reason: &str) {
        let _ = self.halted.set(reason.to_owned());
        self.turns.all().iter().for_each(|turn| turn.halt());
        self.subs.all().iter().for_each(|sub| sub.halt(reason));
    }

    /// Returns why no more calls may start.
    pub(crate) fn halted(&self) -> Option<&str> {
        self.halted.get().map(String::as_str)
    }

    /// Records that the model has now read these results.
    #[inline(always)]
    pub(crate) fn record_read(&self, answers: &[ToolResult]) {
        answers.iter().for_each(|answer| taint::record_read(&self.seen, answer));
        if let Some(cx) = self.works_for.as_ref().and_then(WeakToolContext::upgrade) {
            cx.add_nested_label(self.seen.label());
        }
    }

    /// Returns the remaining budget for a call of this tool at this depth.
    pub(crate) fn remaining(&self, depth: u32, tool: Option<&ToolName>) -> RemainingBudget {
        let left = self.ledger.as_ref().map(|ledger| ledger.remaining(tool)).unwrap_or_default();
        RemainingBudget { depth: Some(self.max_depth.saturating_sub(depth)), ..left }
    }

    /// Records the definitions of tools from external sources as read by the model.
    fn record_definitions(&self, tool_set: &Arc<ToolSet>) {
        if tool_set.brought().is_empty() {
            return;
        }
        let mut recorded = lock(&self.recorded);
        if recorded.as_ptr() == Arc::as_ptr(tool_set) {
            return;
        }
        // By the registered name that rules use, not by the view's alias.
        let brought = tool_set.brought().iter();
        self.seen.record_definitions(brought.map(|entry| (entry.registered(), entry.raw_hash())));
        *recorded = Arc::downgrade(tool_set);
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.turns.all().iter().for_each(|turn| turn.abort());
        self.inner.background.stop(self, "the run was cancelled");
        self.subs.all().iter().for_each(|sub| sub.cancel());
    }

    /// Returns whether the host can still receive results after this turn.
    pub(crate) fn listens(&self) -> bool {
        let held = self.handle.get().is_some_and(|handle| handle.strong_count() > 0);
        held && !self.cancelled.load(Ordering::SeqCst)
    }

    /// Records that the model reads a background result.
    fn read_background(&self, late: BackgroundResult) -> BackgroundResult {
        self.record_read(std::slice::from_ref(&late.answer));
        if let Some(ledger) = &self.ledger {
            ledger.showed(late.answer.text().len(), &self.inner.events);
        }
        late
    }

    /// Makes a sub-run from its key, and registers it: cancelling or halting the run reaches it.
    fn adopt(&self, make: impl FnOnce(usize) -> Arc<RunCore>) -> Arc<RunCore> {
        let sub = self.subs.add_with(make);
        if self.cancelled.load(Ordering::SeqCst) {
            sub.cancel();
        }
        if let Some(reason) = self.halted() {
            sub.halt(reason);
        }
        sub
    }

    fn apply_view(&self, tool_set: Arc<ToolSet>, problems: &mut Vec<String>) -> Arc<ToolSet> {
        if self.view.is_all() {
            return tool_set;
        }
        let mut viewed = lock(&self.viewed);
        if let Some((of, through)) = &*viewed
            && Arc::ptr_eq(of, &tool_set)
        {
            return Arc::clone(through);
        }
        let through = Arc::new(tool_set.through_view(&self.view, problems));
        *viewed = Some((tool_set, Arc::clone(&through)));
        through
    }
}

/// One agent task. Clones are the same run. Dropping the last clone ends the run and cancels its
/// background work, because no one is left to fetch the results.
#[derive(Clone)]
pub struct Run(
    Arc<RunCore>,
    #[expect(dead_code, reason = "held, so that dropping the last one ends the run")]
    Option<Arc<Handle>>,
);

/// Ends the run when it is dropped.
struct Handle(Arc<RunCore>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.inner.background.end(&self.0, "its run is over", &self.0.inner);
    }
}

impl Run {
    /// Starts a turn: queries the sources and freezes the tools. The turn then waits for the
    /// model's response.
    ///
    /// If the run's turn budget is used up, the turn is still returned, and every call in it is
    /// refused.
    ///
    /// # Errors
    /// Fails if a source cannot be opened, and outside of a tokio runtime.
    pub async fn turn(&self) -> Result<Turn, Error> {
        let (tool_set, problems) = self.0.tools().await?;
        let turn = self.0.begin_turn(self.0.open_turn(tool_set, problems));
        if !self.0.inner.hooks.is_empty() {
            turn.before_turn().await;
        }
        Ok(Turn::new(turn))
    }

    /// Starts a turn that offers only some of the tools. `select` gets the snapshot and returns the
    /// names to offer; `None` offers all of them. A tool that is not selected is also refused when
    /// it is called.
    ///
    /// # Errors
    /// Fails if a source cannot be opened, and outside of a tokio runtime.
    pub async fn turn_with(
        &self,
        select: impl AsyncFnOnce(&ToolSnapshot) -> Option<Vec<String>>,
    ) -> Result<Turn, Error> {
        let (tool_set, problems) = self.0.tools().await?;
        let mut opening = self.0.open_turn(tool_set, problems);
        if let Some(names) = select(&opening.snapshot).await {
            opening.snapshot.keep_only(&names);
        }
        let turn = self.0.begin_turn(opening);
        if !self.0.inner.hooks.is_empty() {
            turn.before_turn().await;
        }
        Ok(Turn::new(turn))
    }

    /// Returns the run's id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.0.base.run
    }

    /// Returns the joined taint label of everything the run has read so far.
    #[must_use]
    pub fn label(&self) -> Label {
        self.0.seen.label()
    }

    /// Halts the run: every call that has not started, now or later, is refused with this reason
    /// (`blocked_by_hook`), also in sub-runs. Calls that are running continue; cancel the run to
    /// stop them.
    pub fn halt(&self, reason: &str) {
        self.0.halt(reason);
    }

    /// Returns why the run was halted, if it was. An agent loop should end then.
    #[must_use]
    pub fn halted(&self) -> Option<&str> {
        self.0.halted()
    }

    /// Returns the taint tracker: what the run has read, and which results set its label.
    #[must_use]
    pub fn taint(&self) -> &Arc<TaintTracker> {
        &self.0.seen
    }

    /// Records text that the user wrote. Text of the user is not treated as untrusted, even if an
    /// untrusted result contains it too. Pass only the user's own text.
    pub fn user_text(&self, text: &str) {
        self.0.user_messages.fetch_add(1, Ordering::Relaxed);
        self.0.seen.record_user_text(text);
    }

    /// Returns how many messages of the user the run of a call has recorded since it started.
    /// Something that holds until the user writes again compares this number. `None` if the context
    /// does not belong to this runtime.
    #[must_use]
    pub fn user_messages_of(cx: &ToolContext) -> Option<u32> {
        let turn = cx.host()?.downcast::<TurnCore>().ok()?;
        Some(turn.run.user_messages.load(Ordering::Relaxed))
    }

    /// Returns the remaining budget.
    #[must_use]
    pub fn remaining_budget(&self) -> RemainingBudget {
        self.0.remaining(self.0.base.depth, None)
    }

    /// Returns how many calls of a tool are left; `None` if not limited.
    #[must_use]
    pub fn remaining_budget_of(&self, tool: &ToolName) -> Option<u64> {
        self.0.remaining(self.0.base.depth, Some(tool)).own_calls
    }

    /// Charges the cost of a model request: tokens, and money in millionths of the currency unit.
    /// The cost is counted even past the limit; then no further call runs.
    pub fn spend(&self, tokens: u64, micros: u64) {
        if let Some(ledger) = &self.0.ledger {
            ledger.spend(tokens, micros, &self.0.inner.events);
        }
    }

    /// Builds a sub-run, for example for a sub-agent.
    ///
    /// It is one level deeper and has the same session, user, working directory and tools, unless
    /// the builder changes them. What it uses is also charged to this run, in addition to a budget
    /// of its own. It starts with this run's taint, and its taint reaches this run at once, but not
    /// sibling runs. Cancelling this run cancels it. A sub-run beyond the maximum depth refuses
    /// every call.
    pub fn sub_run(&self) -> RunBuilder {
        RunBuilder::under(&self.0, self.0.base.depth, None)
    }

    /// Builds a sub-run on behalf of a call, for a tool that is itself an agent. It works like
    /// [`sub_run`](Self::sub_run), one level below the call, and the call's result carries the
    /// label of everything the sub-run has read. `None` if the context does not belong to this
    /// runtime.
    #[must_use]
    pub fn sub_run_of(cx: &ToolContext) -> Option<RunBuilder> {
        let turn = cx.host()?.downcast::<TurnCore>().ok()?;
        Some(RunBuilder::under(&turn.run, cx.depth(), Some(cx)))
    }

    /// Takes the background results that are ready, each once. The run counts as having read them,
    /// so the agent loop must add them to the conversation.
    #[must_use]
    pub fn take_background_results(&self) -> Vec<BackgroundResult> {
        let all = self.0.inner.background.take_results(&self.0);
        all.into_iter().map(|late| self.0.read_background(late)).collect()
    }

    /// Waits for the next background result and takes it; `None` if none is outstanding.
    pub async fn next_background_result(&self) -> Option<BackgroundResult> {
        let late = self.0.inner.background.next_result(&self.0).await?;
        Some(self.0.read_background(late))
    }

    /// Returns the tasks whose results were not taken yet, oldest first.
    #[must_use]
    pub fn background_tasks(&self) -> Vec<TaskInfo> {
        self.0.inner.background.tasks(&self.0)
    }

    /// Cancels all running and future calls of the run and its sub-runs.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Run").field(self.id()).finish()
    }
}
