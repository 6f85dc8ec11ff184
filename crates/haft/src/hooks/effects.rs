//! What hooks say, as values: the walk carries it out.
//!
//! A hook that lets something go although it could not look says so with a problem; observers are
//! told each time (`Event::HookFailedOpen`), so that failing open is never silent.

use haft_core::{CallId, Failure, Output, Verdict};
use serde_json::Value;

/// What a hook says before judgement. Say nothing with [`PreCallDecision::proceed`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PreCallDecision {
    pub(crate) rewrite: Option<Value>,
    pub(crate) block: Option<String>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) said: HookEffects,
}

impl PreCallDecision {
    /// Goes on with what there is.
    #[must_use]
    pub fn proceed() -> Self {
        Self::default()
    }

    /// Goes on with these arguments instead.
    #[must_use]
    pub fn rewrite(arguments: Value) -> Self {
        Self { rewrite: Some(arguments), ..Self::default() }
    }

    /// Stops the call; the reason is told to the model.
    #[must_use]
    pub fn block(reason: impl Into<String>) -> Self {
        Self { block: Some(reason.into()), ..Self::default() }
    }

    /// Has an opinion that the judges take in: an ask or a deny counts like a guard's, an allow
    /// stands in for a missing rule and lifts neither a rule's ask nor a deny. Said together with a
    /// rewrite, it is about the rewritten arguments.
    #[must_use]
    pub fn judge(verdict: Verdict) -> Self {
        Self { verdict: Some(verdict), ..Self::default() }
    }

    /// Has an opinion as well.
    #[must_use]
    pub fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// Goes on with these arguments as well.
    #[must_use]
    pub fn with_rewrite(mut self, arguments: Value) -> Self {
        self.rewrite = Some(arguments);
        self
    }

    /// Tells the model something beside the result.
    #[must_use]
    pub fn with_host_note(mut self, text: impl Into<String>) -> Self {
        self.said = self.said.with_host_note(text);
        self
    }

    /// Halts the run: this call and whatever has not begun is refused with this reason.
    #[must_use]
    pub fn with_halt(mut self, reason: impl Into<String>) -> Self {
        self.said = self.said.with_halt(reason);
        self
    }

    /// Says that it could not look, and lets the call go all the same.
    #[must_use]
    pub fn with_problem(mut self, why: impl Into<String>) -> Self {
        self.said = self.said.with_problem(why);
        self
    }
}

/// What a transform makes of an outcome. Make one from the outcome itself to leave it as it is.
#[derive(Debug)]
pub struct PostCallResult {
    pub(crate) outcome: Result<Output, Failure>,
    pub(crate) said: HookEffects,
}

impl From<Result<Output, Failure>> for PostCallResult {
    fn from(outcome: Result<Output, Failure>) -> Self {
        Self { outcome, said: HookEffects::nothing() }
    }
}

impl PostCallResult {
    /// Says something as well.
    #[must_use]
    pub fn with(mut self, said: HookEffects) -> Self {
        self.said = said;
        self
    }
}

/// What a hook says beside its answer. Say nothing with [`HookEffects::nothing`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookEffects {
    pub(crate) aside: Option<String>,
    pub(crate) halt: Option<String>,
    pub(crate) problem: Option<String>,
}

impl HookEffects {
    /// Says nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Returns whether it says nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.aside.is_none() && self.halt.is_none() && self.problem.is_none()
    }

    /// Tells the model something beside the result.
    #[must_use]
    pub fn with_host_note(mut self, text: impl Into<String>) -> Self {
        self.aside = Some(text.into());
        self
    }

    /// Halts the run: whatever has not begun is refused with this reason.
    #[must_use]
    pub fn with_halt(mut self, reason: impl Into<String>) -> Self {
        self.halt = Some(reason.into());
        self
    }

    /// Says that it could not look, and lets things go all the same.
    #[must_use]
    pub fn with_problem(mut self, why: impl Into<String>) -> Self {
        self.problem = Some(why.into());
        self
    }
}

/// The answer that a hook gives to a call instead of the tool. The body does not run, so nobody
/// judges the call either.
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
