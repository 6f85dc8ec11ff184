//! Code of the host around every call: before it is judged, and after its body.
//!
//! A hook may look, rewrite or block before judgement, and may transform the outcome after the
//! body. What it rewrites is admitted and checked again, so nobody judges a value that does not
//! run. Hooks run in the order they were added; rewrites compose.

use haft_core::{BoxFuture, Failure, Output, Verdict};
use serde_json::Value;

use crate::turn::Admitted;

/// What a hook says before judgement. Say nothing with [`Before::proceed`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Before {
    pub(crate) rewrite: Option<Value>,
    pub(crate) block: Option<String>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) aside: Option<String>,
    pub(crate) halt: Option<String>,
}

impl Before {
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
    /// stands in for a missing rule and lifts neither a rule's ask nor a deny.
    #[must_use]
    pub fn judge(verdict: Verdict) -> Self {
        Self { verdict: Some(verdict), ..Self::default() }
    }

    /// Goes on with these arguments as well.
    #[must_use]
    pub fn with_rewrite(mut self, arguments: Value) -> Self {
        self.rewrite = Some(arguments);
        self
    }

    /// Tells the model something beside the result.
    #[must_use]
    pub fn with_aside(mut self, text: impl Into<String>) -> Self {
        self.aside = Some(text.into());
        self
    }

    /// Ends the run: this call and whatever has not begun is refused with this reason.
    #[must_use]
    pub fn with_halt(mut self, reason: impl Into<String>) -> Self {
        self.halt = Some(reason.into());
        self
    }
}

/// Code of the host around every call.
pub trait Hook: Send + Sync + 'static {
    /// Returns its name, for messages and records.
    fn name(&self) -> &str;

    /// Looks at a call before it is judged. An error stops the call.
    fn before<'a>(&'a self, _call: &'a Admitted) -> BoxFuture<'a, Result<Before, Failure>> {
        Box::pin(async { Ok(Before::proceed()) })
    }

    /// Transforms the outcome of a body. An error makes the call a failure whose body ran.
    fn after<'a>(
        &'a self,
        _call: &'a haft_core::Context,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, Result<Output, Failure>> {
        Box::pin(async { outcome })
    }
}
