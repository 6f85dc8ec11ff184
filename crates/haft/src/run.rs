//! One agent task: what lasts across its turns.
//!
//! A run owns the floor that its calls share, the join of the labels it has read, and the map its
//! tools share. Turns of one run may overlap; the floor keeps them apart.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use haft_core::{Label, RunId, Scope, Store, ToolName};
use serde_json::{Map, Value};

use crate::{
    catalog::{Shelf, Snapshot, View},
    error::Error,
    event::Event,
    policy::{Manners, Seen},
    runtime::Inner,
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
    view: View,
    cycle: AtomicU32,
    pub(crate) seen: Arc<Seen>,
    pub(crate) slips: Slips,
    pub(crate) manners: Manners,
    /// The last shelf seen through the view, so that an unchanged catalog costs nothing.
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
    }

    /// Returns why nothing more may begin.
    pub(crate) fn halted(&self) -> Option<&str> {
        self.halted.get().map(String::as_str)
    }

    /// Notes that the run has now read something with this label.
    pub(crate) fn read(&self, label: Label) {
        self.seen.read(label);
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

/// One agent task. Clones are the same run.
#[derive(Clone)]
pub struct Run(Arc<RunCore>);

impl Run {
    /// Begins a turn: asks the sources, freezes the tools, and waits for the model's response.
    ///
    /// # Errors
    /// Fails when a source cannot be opened.
    pub async fn turn(&self) -> Result<Turn, Error> {
        let core = &self.0;
        let (shelf, mut problems) =
            core.inner.catalog.refresh(core.inner.config.judge_timeout).await?;
        let shelf = core.look(shelf, &mut problems);
        let mut scope = core.base.clone();
        scope.cycle = core.cycle.fetch_add(1, Ordering::Relaxed) + 1;
        scope.label = self.label();
        let interactive = core.inner.desk.is_staffed();
        let snapshot = Snapshot::take(shelf, &scope, &*core.inner.policy, interactive, problems);
        for message in snapshot.problems() {
            let (run, message) = (scope.run.clone(), message.clone());
            core.inner.events.tell(|| Event::Problem { run, message });
        }
        core.inner.events.tell(|| Event::TurnStarted {
            run: scope.run.clone(),
            cycle: scope.cycle,
            tools: snapshot.entries().count(),
        });
        let turn = TurnCore::new(core, snapshot, Arc::new(scope));
        turn.before_turn().await;
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
    /// (`blocked_by_hook`). What runs goes on to its end; to stop that too, cancel the run.
    pub fn halt(&self, reason: &str) {
        self.0.halt(reason);
    }

    /// Returns why the run was halted, if it was; a loop that sees this should end.
    #[must_use]
    pub fn halted(&self) -> Option<&str> {
        self.0.halted()
    }

    /// Cancels everything the run is doing, and whatever it would still do.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        let turns: Vec<_> = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for turn in turns.iter().filter_map(Weak::upgrade) {
            turn.force();
        }
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
    side: Store,
    view: View,
    one_shot: bool,
}

impl RunBuilder {
    pub(crate) fn new(inner: &Arc<Inner>, id: RunId) -> Self {
        let mut scope = Scope { run: id, state: Arc::clone(&inner.state), ..Scope::default() };
        scope.left.depth = Some(inner.config.max_depth);
        Self {
            inner: Arc::clone(inner),
            scope,
            side: Store::default(),
            view: View::all(),
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
        self.scope.agent_path.push(id.clone());
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

    /// Sets where relative paths start.
    pub fn working_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.scope.working_directory = path.into().into();
        self
    }

    /// Sets what the host wants to tell its tools.
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.scope.metadata = Arc::new(metadata);
        self
    }

    /// Supplies a value for this run's tools (`Side<T>`).
    pub fn side<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.side.insert(value);
        self
    }

    /// Sets what the run sees of the catalog.
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Says that the run has one turn only, so that no answer can hold for longer. A run that belongs
    /// to a session still has that.
    pub fn one_shot(mut self) -> Self {
        self.one_shot = true;
        self
    }

    /// Starts the run.
    #[must_use]
    pub fn start(mut self) -> Run {
        self.scope.side = Arc::new(self.side);
        Run(Arc::new(RunCore {
            cancelled: AtomicBool::new(false),
            halted: OnceLock::new(),
            turns: Mutex::default(),
            floor: Arc::default(),
            cycle: AtomicU32::new(0),
            seen: Arc::default(),
            slips: Slips::default(),
            manners: Manners::new(&self.inner.desk, &self.scope, self.one_shot),
            looked: Mutex::new(None),
            base: self.scope,
            view: self.view,
            inner: self.inner,
        }))
    }
}

impl fmt::Debug for RunBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunBuilder").field("run", &self.scope.run).finish_non_exhaustive()
    }
}
