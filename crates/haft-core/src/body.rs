//! `Body`: the object-safe form of a tool, which runtimes call.
//!
//! In: frozen JSON and a context. Out: what one call would do, and its result.

use std::{any::Any, borrow::Cow, future::ready, sync::Arc};

use serde_json::Value;

use crate::{BoxFuture, CallProfile, Failure, Output, Preview, ToolContext, Verdict};

/// Decoded arguments, type-erased.
pub type Args = Box<dyn Any + Send + Sync>;

/// A tool's body behind one pointer. Implemented here for every [`Tool`](crate::Tool) and for
/// closures.
///
/// Required are `decode` and `call`. `profiles`, `checks` and `guards` say beforehand whether
/// `profile`, `check` and `guard` do something. If not, the pipeline skips them.
pub trait Body: Send + Sync + 'static {
    /// Decodes the frozen JSON into the body's arguments.
    fn decode(&self, json: &Arc<Value>) -> Result<Args, Failure>;

    /// Returns whether `decode_scalars` does something.
    fn decodes_scalars(&self) -> bool {
        false
    }

    /// Decodes the members of an object of scalars, without a JSON tree. `None` if that is not
    /// possible: `decode` then decodes the same arguments, or says what is wrong.
    fn decode_scalars(
        &self,
        _members: &mut dyn Iterator<Item = (Cow<'_, str>, Value)>,
    ) -> Option<Args> {
        None
    }

    /// Returns whether `profile` does something. If not, a call does what the tool declares.
    fn profiles(&self) -> bool {
        true
    }

    /// Returns what this call would do.
    fn profile(&self, declared: CallProfile, _args: &Args, _cx: &ToolContext) -> CallProfile {
        declared
    }

    /// Returns whether it only works in a sandboxed process.
    fn is_isolated(&self) -> bool {
        false
    }

    /// Returns whether `check` does something.
    fn checks(&self) -> bool {
        false
    }

    /// Checks what a schema cannot express.
    fn check<'a>(
        &'a self,
        _args: &'a Args,
        _cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(ready(Ok(())))
    }

    /// Returns whether `guard` does something.
    fn guards(&self) -> bool {
        false
    }

    /// Decides whether the call may run.
    fn guard<'a>(
        &'a self,
        _args: &'a Args,
        _cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(ready(Ok(None)))
    }

    /// Returns what a person reads about the call before it is approved, if the arguments do not
    /// show its effect.
    fn preview<'a>(
        &'a self,
        _args: &'a Args,
        _cx: &'a ToolContext,
    ) -> BoxFuture<'a, Option<Preview>> {
        Box::pin(ready(None))
    }

    /// Makes the future that runs the tool. It owns its data, so that a runtime can move it.
    fn call(
        self: Arc<Self>,
        args: Args,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<Output, Failure>>;
}
