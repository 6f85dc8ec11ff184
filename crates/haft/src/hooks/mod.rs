//! Code of the host around every call and every turn.
//!
//! A hook may look, rewrite or block before judgement, and may transform the outcome after the
//! body. What it rewrites is admitted and checked again, so nobody judges a value that does not
//! run. Hooks run in the order they were added; rewrites compose. Transforms are hooks, because
//! they change what comes out; observers are not, because they can change nothing.

mod effects;
mod silent;
mod placed;
mod functions;

use std::{sync::Arc, time::Duration};

use haft_core::{BoxFuture, Failure, Output, RunId, Scope, ToolContext};
use serde_json::Value;

pub use self::effects::{HookAnswer, HookEffects, PostCallResult, PreCallDecision};
pub use self::functions::before_fn;
pub(crate) use self::placed::{HookPlace, Placed, Seated, around_turn};
use self::silent::silent;
use crate::{
    redact::Redactor,
    registry::RegisteredTool,
    tool_result::ToolResult,
    turn::{ValidatedCall, redactor_of},
};

/// Code of the host around calls and turns. Every moment has a default that does nothing.
///
/// An error, a panic or a silence beyond the hook's time is never taken for consent: before a body
/// it stops what was about to begin (`hook_failed`), after one it makes the call a failure whose
/// body ran.
pub trait Hook: Send + Sync + 'static {
    /// Returns its name, for messages and records. Asked once, when the runtime is built.
    fn name(&self) -> &str;

    /// Returns how long it may take each time; nothing means `judge_timeout`. Asked once.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns whether it has to do with calls of this tool.
    fn applies_to(&self, _tool: &RegisteredTool) -> bool {
        true
    }

    /// Looks at a turn before the model is asked. An error refuses every call of the turn.
    fn before_turn<'a>(
        &'a self,
        _turn: &'a TurnInfo,
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        silent()
    }

    /// Looks at calls that are about to start together, before any of their bodies runs, and may
    /// answer some of them itself. Each call is shown once; a call that an earlier hook answered is
    /// not shown. An error, an id that was not shown, or an id answered twice fails all of them.
    fn before_batch<'a>(
        &'a self,
        _calls: &'a [&'a ValidatedCall],
    ) -> BoxFuture<'a, Result<Vec<HookAnswer>, Failure>> {
        silent()
    }

    /// Looks at a call before it is judged. An error stops the call.
    fn before<'a>(
        &'a self,
        _call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        silent()
    }

    /// Transforms the outcome of a body, a failure as well as a success.
    fn after<'a>(
        &'a self,
        _call: &'a CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, PostCallResult> {
        Box::pin(async { PostCallResult::from(outcome) })
    }

    /// Looks at all answers of a turn before the model reads them. It cannot change them any more;
    /// it may add a word or halt the run. An error halts the run.
    fn after_turn<'a>(
        &'a self,
        _turn: &'a TurnInfo,
        _answers: &'a [AnsweredCall<'a>],
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        silent()
    }
}

/// A turn, as hooks see it.
#[derive(Debug, Clone)]
pub struct TurnInfo {
    scope: Arc<Scope>,
    tools: usize,
}

impl TurnInfo {
    pub(crate) fn new(scope: Arc<Scope>, tools: usize) -> Self {
        Self { scope, tools }
    }

    /// Returns the run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.scope.run
    }

    /// Returns which turn of the run it is, from 1.
    #[must_use]
    pub fn cycle(&self) -> u32 {
        self.scope.cycle
    }

    /// Returns how many tools it offers.
    #[must_use]
    pub fn tools(&self) -> usize {
        self.tools
    }

    /// Returns the facts of the run.
    #[must_use]
    pub fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }
}

/// A call whose body has ended, as hooks see it.
#[derive(Debug)]
pub struct CompletedCall {
    pub(crate) tool: Arc<RegisteredTool>,
    pub(crate) arguments: Arc<Value>,
    pub(crate) cx: ToolContext,
}

impl CompletedCall {
    /// Returns the tool that was called.
    #[must_use]
    pub fn tool(&self) -> &Arc<RegisteredTool> {
        &self.tool
    }

    /// Returns the arguments it ran with.
    #[must_use]
    pub fn arguments(&self) -> &Arc<Value> {
        &self.arguments
    }

    /// Returns the arguments as anybody else may see them: without secrets, and without what the
    /// tool's schema marks as one.
    #[must_use]
    pub fn shown(&self) -> Arc<Value> {
        self.redactor().arguments(&self.tool, &self.arguments)
    }

    /// Returns what takes secrets out of an outcome that leaves the process. A hook is handed the
    /// outcome as the body gave it.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        redactor_of(&self.cx)
    }

    /// Returns the call's context.
    #[must_use]
    pub fn context(&self) -> &ToolContext {
        &self.cx
    }
}

/// A call that has its answer, as hooks see it at the end of a turn.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredCall<'a> {
    pub(crate) answer: &'a ToolResult,
    pub(crate) tool: Option<&'a Arc<RegisteredTool>>,
    pub(crate) redactor: &'a Redactor,
}

impl<'a> AnsweredCall<'a> {
    /// Returns the answer, as the model will read it.
    #[must_use]
    pub fn answer(&self) -> &'a ToolResult {
        self.answer
    }

    /// Returns the tool; nothing when the model called one that does not exist.
    #[must_use]
    pub fn tool(&self) -> Option<&'a Arc<RegisteredTool>> {
        self.tool
    }

    /// Returns the arguments, as far as the call came with them; nothing when they did not fit.
    #[must_use]
    pub fn arguments(&self) -> Option<&'a Arc<Value>> {
        self.answer.left.as_ref().and_then(|left| left.arguments.as_ref())
    }

    /// Returns the same as anybody else may see them: without secrets, and without what the tool's
    /// schema marks as one.
    #[must_use]
    pub fn shown(&self) -> Option<Arc<Value>> {
        let arguments = self.arguments()?;
        match self.tool {
            Some(tool) => Some(self.redactor.arguments(tool, arguments)),
            None => {
                Some(self.redactor.json(arguments).map_or_else(|| Arc::clone(arguments), Arc::new))
            }
        }
    }
}
