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

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use haft_core::{Error, Label, RemainingBudget, RunId, ToolContext, ToolName, host::HostContext};
use haft_policy::{Budget, TaintTracker};

pub use self::builder::RunBuilder;
use crate::{
    approval::PromptLimits,
    budget::Ledger,
    call::{
        Handle, Inner, InvalidCallCounts, RunCore, TurnCore,
        background::{BackgroundResult, TaskInfo},
    },
    event::EventSource,
    open_set::OpenSet,
    registry::{ToolSnapshot, ToolView},
    turn::Turn,
};

/// One agent task. Clones are the same run. Dropping the last clone ends the run and cancels its
/// background work, because no one is left to fetch the results.
#[derive(Clone)]
pub struct Run(
    Arc<RunCore>,
    #[expect(dead_code, reason = "held, so that dropping the last one ends the run")]
    Option<Arc<Handle>>,
);

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
