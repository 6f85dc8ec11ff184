//! Hooks: code of the host around every call and every turn.
//!
//! Before authorization, a hook may inspect, rewrite or block a call; after the body, it may
//! transform the outcome. Rewritten arguments are validated again, so the authorized value is the
//! one that runs. Hooks run in the order they were added; rewrites compose. Observers are not
//! hooks, because they cannot change anything.

mod effects;
mod default_answer;
mod named;
mod functions;

use std::{sync::Arc, time::Duration};

use haft_core::{BoxFuture, Failure, Output, RunId, Scope, ToolContext};
use serde_json::Value;

use self::default_answer::default_answer;
pub use self::effects::{HookAnswer, HookEffects, PostCallResult, PreCallDecision};
pub use self::functions::before_fn;
pub(crate) use self::named::{AddedHook, NamedHook, around_turn};
use crate::{
    registry::RegisteredTool,
    secrets::{Redactor, RuntimeRedactor},
    tool_result::ToolResult,
    validate::ValidatedCall,
};

/// Code of the host around calls and turns. Every method has a default that does nothing.
///
/// An error, a panic or a timeout is never taken as consent. Before a body it stops the call
/// (`hook_failed`); after a body it turns the call into a failure whose body ran.
///
/// A closure with a typed parameter is a hook that runs before each call; [`before_fn`] gives it a
/// name.
///
/// ```
/// use haft::{hooks::PreCallDecision, turn::ValidatedCall};
///
/// let runtime = haft::Runtime::builder().hook(|call: &ValidatedCall| {
///     println!("{} is about to be authorized", call.tool().name());
///     Ok(PreCallDecision::proceed())
/// });
/// # let _ = runtime;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a hook",
    label = "not a hook",
    note = "for a closure, write `before_fn(\"its name\", |call| Ok(PreCallDecision::proceed()))`, or give its parameter the type `&ValidatedCall`",
    note = "otherwise implement `Hook`"
)]
pub trait Hook: Send + Sync + 'static {
    /// Returns its name, for messages and records. Called once, when the runtime is built.
    fn name(&self) -> &str;

    /// Returns its timeout per invocation; `None` means `policy_timeout`. Called once.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns whether it applies to calls of this tool.
    fn applies_to(&self, _tool: &RegisteredTool) -> bool {
        true
    }

    /// Runs before a turn. An error refuses every call of the turn.
    fn before_turn<'a>(
        &'a self,
        _turn: &'a TurnInfo,
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        default_answer()
    }

    /// Inspects calls that are about to start together, before any of their bodies runs, and may
    /// answer some of them. Each call is passed once; a call that an earlier hook answered is not
    /// passed. An error, an unknown id, or an id answered twice fails all of them.
    fn before_batch<'a>(
        &'a self,
        _calls: &'a [&'a ValidatedCall],
    ) -> BoxFuture<'a, Result<Vec<HookAnswer>, Failure>> {
        default_answer()
    }

    /// Inspects a call before authorization. An error stops the call.
    fn before<'a>(
        &'a self,
        _call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        default_answer()
    }

    /// Transforms the outcome of a body, whether success or failure.
    fn after<'a>(
        &'a self,
        _call: &'a CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, PostCallResult> {
        Box::pin(async { PostCallResult::from(outcome) })
    }

    /// Inspects all results of a turn before the model reads them. It cannot change them, but may
    /// add a note or halt the run. An error halts the run.
    fn after_turn<'a>(
        &'a self,
        _turn: &'a TurnInfo,
        _answers: &'a [AnsweredCall<'a>],
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        default_answer()
    }
}

/// A turn, as hooks see it.
#[derive(Debug, Clone)]
pub struct TurnInfo {
    scope: Scope,
    tools: usize,
}

impl TurnInfo {
    pub(crate) fn new(scope: Scope, tools: usize) -> Self {
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

    /// Returns the scope of the run.
    #[must_use]
    pub fn scope(&self) -> &Scope {
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

    /// Returns the arguments redacted: without secrets, and without fields that the tool's schema
    /// marks as secret.
    #[must_use]
    pub fn shown(&self) -> Arc<Value> {
        RuntimeRedactor::of(&self.cx).arguments(self.tool.input(), &self.arguments)
    }

    /// Returns the redactor, for an outcome that leaves the process. A hook receives the raw
    /// outcome of the body.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        Redactor::clone(&RuntimeRedactor::of(&self.cx))
    }

    /// Returns the call's context.
    #[must_use]
    pub fn context(&self) -> &ToolContext {
        &self.cx
    }
}

/// A call with its result, as hooks see it at the end of a turn.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredCall<'a> {
    pub(crate) answer: &'a ToolResult,
    pub(crate) tool: Option<&'a Arc<RegisteredTool>>,
    pub(crate) redactor: &'a RuntimeRedactor,
}

impl<'a> AnsweredCall<'a> {
    /// Returns the result, as the model will read it.
    #[must_use]
    pub fn answer(&self) -> &'a ToolResult {
        self.answer
    }

    /// Returns the tool; `None` if the model called an unknown one.
    #[must_use]
    pub fn tool(&self) -> Option<&'a Arc<RegisteredTool>> {
        self.tool
    }

    /// Returns the arguments; `None` if they were invalid.
    #[must_use]
    pub fn arguments(&self) -> Option<&'a Arc<Value>> {
        self.answer.left.as_ref().and_then(|left| left.arguments.as_ref())
    }

    /// Returns the arguments redacted: without secrets, and without fields that the tool's schema
    /// marks as secret.
    #[must_use]
    pub fn shown(&self) -> Option<Arc<Value>> {
        let arguments = self.arguments()?;
        match self.tool {
            Some(tool) => Some(self.redactor.arguments(tool.input(), arguments)),
            None => {
                Some(self.redactor.json(arguments).map_or_else(|| Arc::clone(arguments), Arc::new))
            }
        }
    }
}
