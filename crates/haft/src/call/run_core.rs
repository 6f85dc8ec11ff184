//! State that all turns of a run share: its lock table, the taint label of everything the model has
//! read, its budget, its open turns and sub-runs.

use std::sync::{
    Arc, Mutex, OnceLock, Weak,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use haft_core::{
    Error, ErrorKind, Failure, RemainingBudget, Scope, ToolName,
    host::{HostContext, WeakToolContext},
    sync::lock,
};
use haft_policy::TaintTracker;

use super::{
    background::BackgroundResult, invalid_calls::InvalidCallCounts, services::Inner,
    turn_core::TurnCore,
};
use crate::{
    approval::PromptLimits,
    budget::Ledger,
    concurrency::LockTable,
    event::{Event, EventSource},
    host_code::{NO_TOKIO_RUNTIME, in_tokio_runtime},
    open_set::OpenSet,
    registry::{ToolSet, ToolSnapshot, ToolView},
    taint,
    tool_result::ToolResult,
};

/// State that all turns of a run share.
pub(crate) struct RunCore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) locks: LockTable,
    pub(crate) cancelled: AtomicBool,
    /// Whether a turn has begun inside a tokio runtime.
    pub(crate) has_executor: AtomicBool,
    /// Why no more calls of this run may start.
    pub(crate) halted: OnceLock<String>,
    /// The turns with calls that wait. Other calls look at `cancelled` and `halted` themselves.
    pub(crate) turns: OpenSet<TurnCore>,
    pub(crate) base: Scope,
    /// Hierarchical number of the run, independent of its id: `3.1` is the first sub-run of the
    /// third.
    pub(crate) line: String,
    pub(crate) view: ToolView,
    pub(crate) cycle: AtomicU32,
    /// How many messages the user has written since the run started.
    pub(crate) user_messages: AtomicU32,
    pub(crate) seen: Arc<TaintTracker>,
    /// The budget; `None` if nothing is limited.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// Maximum nesting depth of its calls, counted from the outermost run.
    pub(crate) max_depth: u32,
    /// The call that a sub-run works for. It takes over the taint of what the sub-run reads.
    pub(crate) works_for: Option<WeakToolContext>,
    /// Alive while the host holds the run and it has more than one turn.
    pub(crate) handle: OnceLock<Weak<Handle>>,
    /// The open sub-runs.
    pub(crate) subs: OpenSet<RunCore>,
    /// The parent run, and the key of this run there.
    pub(crate) parent: Option<(Weak<RunCore>, usize)>,
    pub(crate) sub_run_count: AtomicU32,
    /// The last tool set whose definitions were recorded as read by the model.
    pub(crate) recorded: Mutex<Weak<ToolSet>>,
    pub(crate) invalid_calls: InvalidCallCounts,
    pub(crate) prompt_limits: PromptLimits,
    /// The last tool set and its filtered view, so that an unchanged registry costs nothing.
    pub(crate) viewed: Mutex<Option<(Arc<ToolSet>, Arc<ToolSet>)>>,
    /// The deferred tools that are shown from the next turn on.
    pub(crate) loaded: Mutex<Arc<Vec<ToolName>>>,
}

/// How many deferred tools a run may load; a model that loads more has not searched.
const MAX_LOADED_TOOLS: usize = 1_000;

/// A turn whose tools are frozen, before it begins.
pub(crate) struct TurnOpening {
    scope: Scope,
    pub(crate) snapshot: ToolSnapshot,
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
    pub(crate) async fn tools(&self) -> Result<(Arc<ToolSet>, Vec<String>), Error> {
        // Looked up until it was found once, because looking it up counts a reference.
        if !self.has_executor.load(Ordering::Relaxed) {
            if !in_tokio_runtime() {
                return Err(Error::new(ErrorKind::BadConfig, NO_TOKIO_RUNTIME));
            }
            self.has_executor.store(true, Ordering::Relaxed);
        }
        let (registry, config) = (&self.inner.registry, &self.inner.config);
        match registry.without_sources() {
            Some(tool_set) => Ok((Arc::clone(tool_set), Vec::new())),
            None => Box::pin(registry.refresh(&*self.inner.clock, config.policy_timeout)).await,
        }
    }

    /// Freezes the tools of a turn.
    #[inline(always)]
    pub(crate) fn open_turn(
        &self,
        tool_set: Arc<ToolSet>,
        mut problems: Vec<String>,
    ) -> TurnOpening {
        let tool_set = self.apply_view(tool_set, &mut problems);
        self.record_definitions(&tool_set);
        let events = &self.inner.events;
        let spent = self.ledger.as_ref().and_then(|ledger| ledger.cycle(events).err());
        let scope = Scope {
            run_scope: Arc::clone(&self.base.run_scope),
            depth: self.base.depth,
            cycle: self.cycle.fetch_add(1, Ordering::Relaxed) + 1,
            label: self.seen.label(),
        };
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
    pub(crate) fn begin_turn(self: &Arc<Self>, opening: TurnOpening) -> Arc<TurnCore> {
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

    pub(crate) fn cancel(&self) {
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
    pub(crate) fn read_background(&self, late: BackgroundResult) -> BackgroundResult {
        self.record_read(std::slice::from_ref(&late.answer));
        if let Some(ledger) = &self.ledger {
            ledger.showed(late.answer.text().len(), &self.inner.events);
        }
        late
    }

    /// Makes a sub-run from its key, and registers it: cancelling or halting the run reaches it.
    pub(crate) fn adopt(&self, make: impl FnOnce(usize) -> Arc<RunCore>) -> Arc<RunCore> {
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

/// Ends the run when it is dropped.
pub(crate) struct Handle(pub(crate) Arc<RunCore>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.inner.background.end(&self.0, "its run is over", &self.0.inner);
    }
}
