//! The `Tool` trait: a tool with typed arguments and a typed output.
//!
//! `#[tool]` generates an implementation; a type can also implement it by hand. The registry stores
//! the type-erased form, [`DynTool`](crate::DynTool).

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    CallProfile, Failure, IntoOutput, Manifest, Preview, ToolContext, ToolSpec, Verdict, schema,
};

/// A tool with typed arguments.
///
/// ```
/// use haft_core::{Capabilities, Failure, Tool, ToolContext, ToolSpec};
/// use haft_core::private::{schemars, serde};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(crate = "haft_core::private::serde")]
/// #[schemars(crate = "haft_core::private::schemars")]
/// struct Square { n: i64 }
///
/// struct Squares;
///
/// impl Tool for Squares {
///     type Args = Square;
///     type Output = String;
///
///     fn spec(&self) -> ToolSpec {
///         ToolSpec::new("square", "Squares a number.").read_only().capabilities(Capabilities::NONE)
///     }
///
///     async fn call(&self, args: Square, _: &ToolContext) -> Result<String, Failure> {
///         Ok((args.n * args.n).to_string())
///     }
/// }
/// assert_eq!(Squares.manifest().name, "square");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "put `#[tool]` on a function, `#[derive(Tool)]` on an argument struct, or implement `Tool`"
)]
pub trait Tool: Send + Sync + 'static {
    /// The arguments. The JSON Schema is derived from their fields.
    type Args: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// What a successful call returns.
    type Output: IntoOutput;

    /// Whether `check` does something. `#[tool]` sets it, so that a tool without a check does not
    /// pay for one. Do not set it in a handwritten implementation.
    #[doc(hidden)]
    const CHECKS: bool = true;
    /// Whether `guard` does something; see `CHECKS`.
    #[doc(hidden)]
    const GUARDS: bool = true;
    /// Whether `profile` does something; see `CHECKS`.
    #[doc(hidden)]
    const PROFILES: bool = true;
    /// Whether the body only works in a sandboxed process. Only such a tool may declare
    /// `isolation = "required"`.
    const ISOLATED: bool = false;

    /// Returns what the tool declares.
    fn spec(&self) -> ToolSpec;

    /// Returns what this call would do. `declared` is what the spec declares, with the strictest
    /// value for every option that is not set. Change what the arguments decide. It must have no
    /// side effects. If it panics, the strictest profile applies.
    fn profile(&self, declared: CallProfile, _args: &Self::Args, _cx: &ToolContext) -> CallProfile {
        declared
    }

    /// Checks what a schema cannot express, just before the call is authorized.
    fn check(
        &self,
        _args: &Self::Args,
        _cx: &ToolContext,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Ok(()) }
    }

    /// Decides whether the call may run. `None` leaves the decision to others; an error denies the
    /// call.
    fn guard(
        &self,
        _args: &Self::Args,
        _cx: &ToolContext,
    ) -> impl Future<Output = Result<Option<Verdict>, Failure>> + Send {
        async { Ok(None) }
    }

    /// Returns what a person reads about the call before it is approved, if the arguments do not
    /// show its effect. It must have no side effects, and is called only if a person is asked.
    fn preview(
        &self,
        _args: &Self::Args,
        _cx: &ToolContext,
    ) -> impl Future<Output = Option<Preview>> + Send {
        async { None }
    }

    /// Runs the tool.
    fn call(
        &self,
        args: Self::Args,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;

    /// Returns everything the tool declares, as data.
    fn manifest(&self) -> Manifest {
        Manifest::new(&self.spec(), schema::of::<Self::Args>(), Self::Output::schema())
    }
}
