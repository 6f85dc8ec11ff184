//! Results of hooks, as values: the pipeline applies them.
//!
//! A hook that fails open reports a problem. Observers receive an event each time
//! (`Event::HookFailedOpen`), so that failing open is never silent.

use haft_core::{CallId, Failure, Output, Verdict};
use serde_json::Value;

/// What a hook decides before authorization. [`PreCallDecision::proceed`] changes nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PreCallDecision {
    pub(crate) rewrite: Option<Value>,
    pub(crate) block: Option<String>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) effects: HookEffects,
}

impl PreCallDecision {
    /// Continues without a change.
    #[must_use]
    pub fn proceed() -> Self {
        Self::default()
    }

    /// Continues with these arguments instead.
    #[must_use]
    pub fn rewrite(arguments: Value) -> Self {
        Self { rewrite: Some(arguments), ..Self::default() }
    }

    /// Blocks the call; the model receives the reason.
    #[must_use]
    pub fn block(reason: impl Into<String>) -> Self {
        Self { block: Some(reason.into()), ..Self::default() }
    }

    /// Adds a verdict to the authorization. An ask or a deny counts like a guard's. An allow
    /// replaces a missing rule, but overrides neither an ask nor a deny of a rule. Together with a
    /// rewrite, it applies to the rewritten arguments.
    #[must_use]
    pub fn verdict(verdict: Verdict) -> Self {
        Self { verdict: Some(verdict), ..Self::default() }
    }

    /// Adds a verdict.
    #[must_use]
    pub fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// Replaces the arguments.
    #[must_use]
    pub fn with_rewrite(mut self, arguments: Value) -> Self {
        self.rewrite = Some(arguments);
        self
    }

    /// Adds a note for the model next to the result.
    #[must_use]
    pub fn with_host_note(mut self, text: impl Into<String>) -> Self {
        self.effects = self.effects.with_host_note(text);
        self
    }

    /// Halts the run: this call and all calls that have not started are refused with this reason.
    #[must_use]
    pub fn with_halt(mut self, reason: impl Into<String>) -> Self {
        self.effects = self.effects.with_halt(reason);
        self
    }

    /// Reports that the hook failed, and lets the call continue (fail open).
    #[must_use]
    pub fn with_problem(mut self, why: impl Into<String>) -> Self {
        self.effects = self.effects.with_problem(why);
        self
    }
}

/// The outcome after a transform. Convert the outcome itself to leave it unchanged.
#[derive(Debug)]
pub struct PostCallResult {
    pub(crate) outcome: Result<Output, Failure>,
    pub(crate) effects: HookEffects,
}

impl From<Result<Output, Failure>> for PostCallResult {
    fn from(outcome: Result<Output, Failure>) -> Self {
        Self { outcome, effects: HookEffects::nothing() }
    }
}

impl PostCallResult {
    /// Adds effects.
    #[must_use]
    pub fn with(mut self, effects: HookEffects) -> Self {
        self.effects = effects;
        self
    }
}

/// Side effects of a hook besides its answer. [`HookEffects::nothing`] has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookEffects {
    pub(crate) aside: Option<String>,
    pub(crate) halt: Option<String>,
    pub(crate) problem: Option<String>,
}

impl HookEffects {
    /// Has no effects.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Returns whether there are no effects.
    pub(crate) fn is_nothing(&self) -> bool {
        self.aside.is_none() && self.halt.is_none() && self.problem.is_none()
    }

    /// Adds a note for the model next to the result.
    #[must_use]
    pub fn with_host_note(mut self, text: impl Into<String>) -> Self {
        self.aside = Some(text.into());
        self
    }

    /// Halts the run: all calls that have not started are refused with this reason.
    #[must_use]
    pub fn with_halt(mut self, reason: impl Into<String>) -> Self {
        self.halt = Some(reason.into());
        self
    }

    /// Reports that the hook failed, and continues (fail open).
    #[must_use]
    pub fn with_problem(mut self, why: impl Into<String>) -> Self {
        self.problem = Some(why.into());
        self
    }
}

/// A hook's answer to a call in place of the tool. The body does not run, so the call is not
/// authorized either.
#[derive(Debug)]
pub struct HookAnswer {
    pub(crate) id: CallId,
    pub(crate) outcome: Result<Output, Failure>,
}

impl HookAnswer {
    /// Answers the call with this id.
    #[must_use]
    pub fn new(id: impl Into<CallId>, outcome: Result<Output, Failure>) -> Self {
        Self { id: id.into(), outcome }
    }
}
