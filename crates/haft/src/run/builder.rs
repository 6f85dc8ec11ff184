//! Configures a run, or a sub-run, before it starts.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use haft_core::{
    RunId, RunScope, Scope, SharedMap, ToolContext, TypeMap,
    host::{HostContext, WeakToolContext},
};
use serde_json::{Map, Value};

use crate::concurrency::LockTable;

use super::{
    Budget, EventSource, Handle, Inner, InvalidCallCounts, Ledger, OpenSet, PromptLimits, Run,
    RunCore, TaintTracker, ToolView,
};

/// Configures a run before it starts.
#[must_use]
pub struct RunBuilder {
    inner: Arc<Inner>,
    scope: Scope,
    run_state: TypeMap,
    view: ToolView,
    one_shot: bool,
    budget: Budget,
    seen: Option<TaintTracker>,
    over: Option<Arc<RunCore>>,
    line: String,
    works_for: Option<WeakToolContext>,
}

impl RunBuilder {
    pub(crate) fn new(inner: &Arc<Inner>, id: RunId) -> Self {
        let mut scope = Scope::from(RunScope {
            run: id,
            state: Arc::clone(&inner.state),
            ..RunScope::default()
        });
        if let Some(workspace) = &inner.workspace {
            scope.working_directory = Arc::clone(workspace);
        }
        Self {
            inner: Arc::clone(inner),
            scope,
            run_state: TypeMap::default(),
            view: ToolView::all(),
            budget: inner.budget.clone(),
            seen: None,
            over: None,
            line: inner.artifacts.line(),
            works_for: None,
            one_shot: false,
        }
    }

    /// Builds a sub-run of a run, below a call at this depth.
    pub(super) fn under(over: &Arc<RunCore>, depth: u32, works_for: Option<&ToolContext>) -> Self {
        let n = over.sub_run_count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut scope = over.base.clone();
        scope.run = RunId::from(format!("{}.{n}", over.base.run));
        scope.depth = depth.saturating_add(1);
        scope.shared = SharedMap::default();
        Self {
            inner: Arc::clone(&over.inner),
            run_state: TypeMap::clone(&scope.run_state),
            view: over.view.clone(),
            scope,
            budget: Budget::default(),
            seen: Some(TaintTracker::child_of(&over.seen)),
            over: Some(Arc::clone(over)),
            line: format!("{}.{n}", over.line),
            works_for: works_for.map(ToolContext::downgrade),
            one_shot: false,
        }
    }

    /// Sets the run's id.
    pub fn id(mut self, id: impl Into<RunId>) -> Self {
        self.scope.run = id.into();
        self
    }

    /// Sets the session.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.scope.session = Some(id.into());
        self
    }

    /// Sets the agent, and appends it to the agent path.
    pub fn agent(mut self, id: impl Into<String>) -> Self {
        let id = id.into();
        let path = &self.scope.agent_path;
        self.scope.agent_path = path.iter().cloned().chain([id.clone()]).collect();
        self.scope.agent = Some(id);
        self
    }

    /// Sets the user.
    pub fn user(mut self, id: impl Into<String>) -> Self {
        self.scope.user = Some(id.into());
        self
    }

    /// Sets the request.
    pub fn request(mut self, id: impl Into<String>) -> Self {
        self.scope.request = Some(id.into());
        self
    }

    /// Sets the directory that relative paths start from. The default is the root directory of the
    /// tools ([`DynTool::within`](haft_core::DynTool::within)), if they all have the same one.
    pub fn working_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.scope.working_directory = path.into().into();
        self
    }

    /// Sets metadata that tools can read.
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.scope.metadata = Arc::new(metadata);
        self
    }

    /// Supplies a value for this run's tools (`RunState<T>`).
    pub fn run_state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.run_state.insert(value);
        self
    }

    /// Sets the tools that the run sees.
    pub fn view(mut self, view: ToolView) -> Self {
        self.view = view;
        self
    }

    /// Declares that the run has only one turn, so that approvals for the run make no sense.
    /// Approvals for a session are still possible.
    pub fn one_shot(mut self) -> Self {
        self.one_shot = true;
        self
    }

    /// Lowers the budget of the run. Limits that are already set still hold.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = self.budget.smaller(budget);
        self
    }

    /// Records text that the user wrote, as [`Run::user_text`] does.
    pub fn user_text(mut self, text: &str) -> Self {
        self.seen.get_or_insert_default().record_user_text(text);
        self
    }

    /// Starts the run. Its time budget starts now.
    #[must_use]
    pub fn start(mut self) -> Run {
        self.scope.run_state = Arc::new(self.run_state);
        let above = self.over.as_ref().map_or(self.inner.config.max_depth, |over| over.max_depth);
        let own = self.budget.depth.map(|levels| self.scope.depth.saturating_add(levels));
        let max_depth = own.map_or(above, |own| own.min(above));
        let over = self.over.as_ref();
        let too_deep = self.scope.depth > max_depth;
        let (seen, ledger) = match over {
            // It can run nothing, so it needs no state of its own. This bounds the parent chain by
            // the maximum depth.
            Some(over) if too_deep => (Arc::clone(&over.seen), over.ledger.clone()),
            _ => {
                let above = over.and_then(|over| over.ledger.clone());
                let who = EventSource::run_of(&self.scope);
                let ledger = Ledger::open(who, self.budget, above, &self.inner.clock);
                (Arc::new(self.seen.unwrap_or_default()), ledger)
            }
        };
        let make = |parent| {
            Arc::new(RunCore {
                handle: OnceLock::new(),
                cancelled: AtomicBool::new(false),
                halted: OnceLock::new(),
                turns: OpenSet::default(),
                locks: LockTable::default(),
                has_executor: AtomicBool::new(false),
                cycle: AtomicU32::new(0),
                user_messages: AtomicU32::new(0),
                seen,
                ledger,
                max_depth,
                works_for: self.works_for,
                subs: OpenSet::default(),
                parent,
                sub_run_count: AtomicU32::new(0),
                recorded: Mutex::default(),
                invalid_calls: InvalidCallCounts::default(),
                prompt_limits: PromptLimits::new(&self.inner.approvals, &self.scope, self.one_shot),
                viewed: Mutex::new(None),
                loaded: Mutex::default(),
                base: self.scope,
                line: self.line,
                view: self.view,
                inner: self.inner,
            })
        };
        let core = match &self.over {
            Some(over) => over.adopt(|key| make(Some((Arc::downgrade(over), key)))),
            None => make(None),
        };
        // A run of one turn cannot fetch results later.
        let handle = (!self.one_shot).then(|| Arc::new(Handle(Arc::clone(&core))));
        if let Some(handle) = &handle {
            let _ = core.handle.set(Arc::downgrade(handle));
        }
        Run(core, handle)
    }
}

impl fmt::Debug for RunBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunBuilder").field("run", &self.scope.run).finish_non_exhaustive()
    }
}
