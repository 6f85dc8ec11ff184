//! One agent task: what lasts across its turns.
//!
//! A run owns the floor that its calls share, the join of the labels it has read, and the map its
//! tools share. Turns of one run may overlap; the floor keeps them apart.
//!
//! A sub-run is a run that another answers for: it draws on the other's budget besides its own,
//! starts with what the other has read, and what it reads the other has read too.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use haft_core::{
    Label, RemainingBudget, RunId, Scope, Shared, Store, ToolContext, ToolName, WeakToolContext,
};
use serde_json::{Map, Value};

use crate::{
    background::{BackgroundResult, TaskInfo},
    error::Error,
    event::{Event, EventSource},
    policy::{Budget, Ledger, PromptLimits, TaintTracker},
    registry::{Shelf, ToolSnapshot, ToolView},
    runtime::Inner,
    tool_result::ToolResult,
    turn::{Floor, Turn, TurnCore},
};

/// What all turns of a run share.
pub(crate) struct RunCore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) floor: Arc<Floor>,
    cancelled: AtomicBool,
    /// Why nothing more of this run may begin.
    halted: OnceLock<String>,
    turns: Mutex<Vec<Weak<TurnCore>>>,
    base: Scope,
    /// Which run it is, and below which: `3.1` is the first below the third. Whatever it is called.
    pub(crate) line: String,
    view: ToolView,
    cycle: AtomicU32,
    pub(crate) seen: Arc<TaintTracker>,
    /// What the run may use; nothing where nothing is limited.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// The deepest that its calls may be nested, from the top of all.
    pub(crate) deepest: u32,
    /// The call that a sub-run works for: it hears what the sub-run reads.
    works_for: Option<WeakToolContext>,
    /// Whether somebody still has the run in hand, and it has more than one turn.
    handle: OnceLock<Weak<Handle>>,
    subs: Mutex<Vec<Weak<RunCore>>>,
    subs_so_far: AtomicU32,
    /// The last shelf whose definitions were noted.
    noted: Mutex<Weak<Shelf>>,
    pub(crate) slips: Slips,
    pub(crate) manners: PromptLimits,
    /// The last shelf seen through the view, so that an unchanged registry costs nothing.
    looked: Mutex<Option<(Arc<Shelf>, Arc<Shelf>)>>,
}

impl RunCore {
    /// Notes a turn, so that cancelling the run reaches it.
    pub(crate) fn begin(&self, turn: &Arc<TurnCore>) {
        {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|turn| turn.strong_count() > 0);
            turns.push(Arc::downgrade(turn));
        }
        if self.cancelled.load(Ordering::SeqCst) {
            turn.force();
        }
    }

    /// Keeps whatever has not begun from beginning; of several reasons the first stays.
    pub(crate) fn halt(&self, reason: &str) {
        let _ = self.halted.set(reason.to_owned());
        let turns: Vec<_> = self.turns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        turns.iter().filter_map(Weak::upgrade).for_each(|turn| turn.halt());
        let subs: Vec<_> = self.subs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        subs.iter().filter_map(Weak::upgrade).for_each(|sub| sub.halt(reason));
    }

    /// Returns why nothing more may begin.
    pub(crate) fn halted(&self) -> Option<&str> {
        self.halted.get().map(String::as_str)
    }

    /// Notes that the model has now read these answers.
    pub(crate) fn hear(&self, answers: &[ToolResult]) {
        answers.iter().for_each(|answer| self.seen.hear(answer));
        if let Some(cx) = self.works_for.as_ref().and_then(WeakToolContext::upgrade) {
            cx.heard(self.seen.label());
        }
    }

    /// Returns what is left now, for a call so deep, of this tool.
    pub(crate) fn left(&self, depth: u32, tool: Option<&ToolName>) -> RemainingBudget {
        let left =
            self.ledger.as_ref().map_or_else(RemainingBudget::default, |ledger| ledger.left(tool));
        RemainingBudget { depth: Some(self.deepest.saturating_sub(depth)), ..left }
    }

    /// Notes how the tools are defined that somebody else brought.
    fn note(&self, shelf: &Arc<Shelf>) {
        if shelf.brought().is_empty() {
            return;
        }
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.as_ptr() == Arc::as_ptr(shelf) {
            return;
        }
        // By the name that rules know it by, whatever the view calls it.
        self.seen.shown(shelf.brought().iter().map(|entry| (entry.registered(), entry.raw_hash())));
        *noted = Arc::downgrade(shelf);
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        let turns: Vec<_> = self.turns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for turn in turns.iter().filter_map(Weak::upgrade) {
            turn.force();
        }
        self.inner.background.stop(self, "the run was cancelled");
        let subs: Vec<_> = self.subs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        subs.iter().filter_map(Weak::upgrade).for_each(|sub| sub.cancel());
    }

    /// Returns whether anybody would hear of what comes after this turn.
    pub(crate) fn listens(&self) -> bool {
        let held = self.handle.get().is_some_and(|handle| handle.strong_count() > 0);
        held && !self.cancelled.load(Ordering::SeqCst)
    }

    /// Notes that the model reads what came later.
    fn hear_late(&self, late: BackgroundResult) -> BackgroundResult {
        self.hear(std::slice::from_ref(&late.answer));
        if let Some(ledger) = &self.ledger {
            ledger.showed(late.answer.text().len(), &self.inner.events);
        }
        late
    }

    /// Notes a sub-run, so that cancelling or halting the run reaches it.
    fn adopt(&self, sub: &Arc<RunCore>) {
        {
            let mut subs = self.subs.lock().unwrap_or_else(PoisonError::into_inner);
            subs.retain(|sub| sub.strong_count() > 0);
            subs.push(Arc::downgrade(sub));
        }
        if self.cancelled.load(Ordering::SeqCst) {
            sub.cancel();
        }
        if let Some(reason) = self.halted() {
            sub.halt(reason);
        }
    }

    fn look(&self, shelf: Arc<Shelf>, problems: &mut Vec<String>) -> Arc<Shelf> {
        if self.view.is_all() {
            return shelf;
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, through)) = &*looked
            && Arc::ptr_eq(of, &shelf)
        {
            return Arc::clone(through);
        }
        let through = Arc::new(shelf.seen_through(&self.view, problems));
        *looked = Some((shelf, Arc::clone(&through)));
        through
    }
}

/// In how many turns in a row each tool was called with arguments that do not fit.
#[derive(Default)]
pub(crate) struct Slips {
    /// Whether there are any, so that calls that fit need not lock.
    any: AtomicBool,
    counts: Mutex<Vec<Slip>>,
}

struct Slip {
    tool: ToolName,
    cycle: u32,
    count: u32,
}

impl Slips {
    /// A model that fails at more tools than this at a time needs more than an example.
    const MOST: usize = 32;

    /// Counts one more, and returns how many there are now. Several in one turn count once: the
    /// model has not been told of the first when it writes the second.
    pub(crate) fn count(&self, tool: &ToolName, cycle: u32) -> u32 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(true, Ordering::Relaxed);
        if let Some(slip) = counts.iter_mut().find(|slip| slip.tool == *tool) {
            slip.count = slip.count.saturating_add(u32::from(slip.cycle != cycle));
            slip.cycle = cycle;
            return slip.count;
        }
        if counts.len() >= Self::MOST {
            counts.remove(0);
        }
        counts.push(Slip { tool: tool.clone(), cycle, count: 1 });
        1
    }

    /// Starts again, because a call fits.
    pub(crate) fn forget(&self, tool: &ToolName) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|slip| slip.tool != *tool);
        self.any.store(!counts.is_empty(), Ordering::Relaxed);
    }
}

/// One agent task. Clones are the same run. When the last of them is dropped, the run is over: what it
/// left to be done later is told to stop, because nobody would hear of it.
#[derive(Clone)]
pub struct Run(
    Arc<RunCore>,
    #[expect(dead_code, reason = "held, so that dropping the last one ends the run")]
    Option<Arc<Handle>>,
);

/// Says that the run is over, when it is dropped.
struct Handle(Arc<RunCore>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.inner.background.end(&self.0, "its run is over", &self.0.inner);
    }
}

impl Run {
    /// Begins a turn: asks the sources, freezes the tools, and waits for the model's response.
    ///
    /// When the run has no turn left, the turn is given all the same, and every call of it is
    /// refused.
    ///
    /// # Errors
    /// Fails when a source cannot be opened.
    pub async fn turn(&self) -> Result<Turn, Error> {
        let core = &self.0;
        let (shelf, mut problems) = core
            .inner
            .registry
            .refresh(&*core.inner.clock, core.inner.config.judge_timeout)
            .await?;
        let shelf = core.look(shelf, &mut problems);
        core.note(&shelf);
        let events = &core.inner.events;
        let spent = core.ledger.as_ref().and_then(|ledger| ledger.cycle(events).err());
        let mut scope = core.base.clone();
        scope.cycle = core.cycle.fetch_add(1, Ordering::Relaxed) + 1;
        scope.label = self.label();
        scope.left = core.left(scope.depth, None);
        let interactive = core.inner.desk.is_staffed();
        let snapshot =
            ToolSnapshot::take(shelf, &scope, &*core.inner.policy, interactive, problems);
        let who = events.is_heard().then(|| EventSource::of(&scope));
        if let Some(who) = &who {
            for message in snapshot.problems() {
                let (run, message) = (scope.run.clone(), message.clone());
                events.tell(|| Arc::clone(who), || Event::Problem { run, message });
            }
            let tools = snapshot.entries().count();
            let started =
                || Event::TurnStarted { run: scope.run.clone(), cycle: scope.cycle, tools };
            events.tell(|| Arc::clone(who), started);
        }
        let turn = TurnCore::new(core, snapshot, Arc::new(scope), who, spent);
        if !core.inner.hooks.is_empty() {
            turn.before_turn().await;
        }
        Ok(Turn::new(turn))
    }

    /// Returns the run's id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.0.base.run
    }

    /// Returns the join of what the run has read so far.
    #[must_use]
    pub fn label(&self) -> Label {
        self.0.seen.label()
    }

    /// Halts the run: every call that has not begun, now or later, is refused with this reason
    /// (`blocked_by_hook`), and so is every call of the runs below it. What runs goes on to its end;
    /// to stop that too, cancel the run.
    pub fn halt(&self, reason: &str) {
        self.0.halt(reason);
    }

    /// Returns why the run was halted, if it was; a loop that sees this should end.
    #[must_use]
    pub fn halted(&self) -> Option<&str> {
        self.0.halted()
    }

    /// Returns what the run has read, and which results made it what it is.
    #[must_use]
    pub fn seen(&self) -> &Arc<TaintTracker> {
        &self.0.seen
    }

    /// Notes words of the user's. What the user said is not taken for a stranger's, even when a
    /// stranger says it too. Only the user's own words belong here.
    pub fn user_said(&self, text: &str) {
        self.0.seen.user_said(text);
    }

    /// Returns what is left of the budget, right now.
    #[must_use]
    pub fn remaining_budget(&self) -> RemainingBudget {
        self.0.left(self.0.base.depth, None)
    }

    /// Returns how many calls of a tool are left, where that is limited.
    #[must_use]
    pub fn remaining_budget_of(&self, tool: &ToolName) -> Option<u64> {
        self.0.left(self.0.base.depth, Some(tool)).own_calls
    }

    /// Counts what the model has cost: tokens, and money in millionths of the currency unit. It has
    /// been spent, so it is counted past the limit too; then no more call runs.
    pub fn spend(&self, tokens: u64, micros: u64) {
        if let Some(ledger) = &self.0.ledger {
            ledger.spend(tokens, micros, &self.0.inner.events);
        }
    }

    /// Begins a run that this one answers for, such as a sub-agent's.
    ///
    /// It is one level deeper, in the same session, for the same user, in the same folder, and sees
    /// the same tools unless it is told otherwise. What it uses is used by this run as well, whatever
    /// share of its own it is given. It starts with what this run has read, and what it reads this
    /// run has read too, at once; runs beside it have not. Cancelling this run cancels it. Too deep a
    /// run refuses every call.
    pub fn sub_run(&self) -> RunBuilder {
        RunBuilder::under(&self.0, self.0.base.depth, None)
    }

    /// Begins a run that a call answers for: a tool that is an agent itself. It is as
    /// [`sub_run`](Self::sub_run) says, one level below the call, and the call's result carries the
    /// label of all that the run has read. Nothing where the call is not this crate's.
    #[must_use]
    pub fn below(cx: &ToolContext) -> Option<RunBuilder> {
        let turn = cx.host()?.downcast::<TurnCore>().ok()?;
        Some(RunBuilder::under(&turn.run, cx.depth(), Some(cx)))
    }

    /// Takes the results that have come later, each once. From here on the run has read them: a loop
    /// that asks adds them to the conversation.
    #[must_use]
    pub fn settled(&self) -> Vec<BackgroundResult> {
        let all = self.0.inner.background.settled(&self.0);
        all.into_iter().map(|late| self.0.hear_late(late)).collect()
    }

    /// Waits for the next result that comes later, and takes it; nothing when none is outstanding.
    pub async fn next_settled(&self) -> Option<BackgroundResult> {
        let late = self.0.inner.background.next_settled(&self.0).await?;
        Some(self.0.hear_late(late))
    }

    /// Returns the tickets whose results have not been taken, oldest first.
    #[must_use]
    pub fn tickets(&self) -> Vec<TaskInfo> {
        self.0.inner.background.tickets(&self.0)
    }

    /// Cancels everything the run is doing, and whatever it would still do, with its sub-runs.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Run").field(self.id()).finish()
    }
}

/// Says what is known about a run before it starts.
#[must_use]
pub struct RunBuilder {
    inner: Arc<Inner>,
    scope: Scope,
    run_state: Store,
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
        let mut scope = Scope { run: id, state: Arc::clone(&inner.state), ..Scope::default() };
        if let Some(workspace) = &inner.workspace {
            scope.working_directory = Arc::clone(workspace);
        }
        Self {
            inner: Arc::clone(inner),
            scope,
            run_state: Store::default(),
            view: ToolView::all(),
            budget: inner.budget.clone(),
            seen: None,
            over: None,
            line: inner.artifacts.line(),
            works_for: None,
            one_shot: false,
        }
    }

    /// Begins a run below one that is so deep.
    fn under(over: &Arc<RunCore>, depth: u32, works_for: Option<&ToolContext>) -> Self {
        let n = over.subs_so_far.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let scope = Scope {
            run: RunId::from(format!("{}.{n}", over.base.run)),
            depth: depth.saturating_add(1),
            shared: Shared::default(),
            ..over.base.clone()
        };
        Self {
            inner: Arc::clone(&over.inner),
            run_state: Store::clone(&scope.side),
            view: over.view.clone(),
            scope,
            budget: Budget::default(),
            seen: Some(TaintTracker::under(&over.seen)),
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

    /// Sets the agent, and puts it at the end of the agent path.
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

    /// Sets where relative paths start. Without this that is the folder that the tools keep to
    /// ([`DynTool::within`](crate::DynTool::within)), where they agree on one.
    pub fn working_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.scope.working_directory = path.into().into();
        self
    }

    /// Sets what the host wants to tell its tools.
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.scope.metadata = Arc::new(metadata);
        self
    }

    /// Supplies a value for this run's tools (`RunState<T>`).
    pub fn run_state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.run_state.insert(value);
        self
    }

    /// Sets what the run sees of the registry.
    pub fn view(mut self, view: ToolView) -> Self {
        self.view = view;
        self
    }

    /// Says that the run has one turn only, so that no answer can hold for longer. A run that belongs
    /// to a session still has that.
    pub fn one_shot(mut self) -> Self {
        self.one_shot = true;
        self
    }

    /// Sets what the run may use: no more than it might use already. Said twice, both hold.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = self.budget.smaller(budget);
        self
    }

    /// Notes words of the user's, as [`Run::user_said`] does.
    pub fn user_said(mut self, text: &str) -> Self {
        self.seen.get_or_insert_default().user_said(text);
        self
    }

    /// Starts the run. Its time begins now.
    #[must_use]
    pub fn start(mut self) -> Run {
        self.scope.side = Arc::new(self.run_state);
        let above = self.over.as_ref().map_or(self.inner.config.max_depth, |over| over.deepest);
        let own = self.budget.depth.map(|levels| self.scope.depth.saturating_add(levels));
        let deepest = own.map_or(above, |own| own.min(above));
        let over = self.over.as_ref();
        let too_deep = self.scope.depth > deepest;
        let (seen, ledger) = match over {
            // It can do nothing, so it needs nothing of its own; so lists of runs above runs are
            // never longer than calls may be deep.
            Some(over) if too_deep => (Arc::clone(&over.seen), over.ledger.clone()),
            _ => {
                let above = over.and_then(|over| over.ledger.clone());
                let who = EventSource::run_of(&self.scope);
                let ledger = Ledger::open(who, self.budget, above, &self.inner.clock);
                (Arc::new(self.seen.unwrap_or_default()), ledger)
            }
        };
        let core = Arc::new(RunCore {
            handle: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            halted: OnceLock::new(),
            turns: Mutex::default(),
            floor: Arc::default(),
            cycle: AtomicU32::new(0),
            seen,
            ledger,
            deepest,
            works_for: self.works_for,
            subs: Mutex::default(),
            subs_so_far: AtomicU32::new(0),
            noted: Mutex::default(),
            slips: Slips::default(),
            manners: PromptLimits::new(&self.inner.desk, &self.scope, self.one_shot),
            looked: Mutex::new(None),
            base: self.scope,
            line: self.line,
            view: self.view,
            inner: self.inner,
        });
        if let Some(over) = &self.over {
            over.adopt(&core);
        }
        // A run of one turn has nobody who would ask later.
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
