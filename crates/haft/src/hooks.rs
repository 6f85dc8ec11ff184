//! Code of the host around every call: before it is judged, and after its body.
//!
//! A hook may look, rewrite or block before judgement, and may transform the outcome after the
//! body. What it rewrites is admitted and checked again, so nobody judges a value that does not
//! run. Hooks run in the order they were added; rewrites compose.

use haft_core::{BoxFuture, Failure, Output};
use serde_json::Value;

use crate::turn::Admitted;

/// What a hook says before judgement.
#[derive(Debug, Clone, PartialEq)]
pub enum Before {
    /// Go on with what there is.
    Proceed,
    /// Go on with these arguments instead.
    Rewrite(Value),
    /// Stop; the reason is told to the model.
    Block(String),
}

/// Code of the host around every call.
pub trait Hook: Send + Sync + 'static {
    /// Returns its name, for messages and records.
    fn name(&self) -> &str;

    /// Looks at a call before it is judged. An error stops the call.
    fn before<'a>(&'a self, _call: &'a Admitted) -> BoxFuture<'a, Result<Before, Failure>> {
        Box::pin(async { Ok(Before::Proceed) })
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
