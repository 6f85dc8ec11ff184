//! The trait that authors write a tool with.
//!
//! The attribute macro writes an implementation of it; a type of one's own may too. The registry
//! stores one erased form (`DynTool`), made by one conversion.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{CallProfile, Failure, IntoOutput, Manifest, ToolContext, ToolSpec, Verdict, schema};

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
    /// The arguments; their fields are the schema.
    type Args: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// What a successful call gives.
    type Output: IntoOutput;

    /// Whether `check` does something. The attribute macro sets it, so that a tool without a check
    /// does not pay for one; leave it alone in a type of one's own.
    #[doc(hidden)]
    const CHECKS: bool = true;
    /// Whether `guard` does something; see `CHECKS`.
    #[doc(hidden)]
    const GUARDS: bool = true;
    /// Whether the body does its work in a confined process, or not at all. Only such a tool may say
    /// `isolation = "required"`.
    const ISOLATED: bool = false;

    /// Returns what the tool declares.
    fn spec(&self) -> ToolSpec;

    /// Returns what this call would do. `declared` is what the spec says, strictest where it is
    /// silent; change what the arguments decide. It must not act; an error here means the
    /// strictest claim.
    fn profile(&self, declared: CallProfile, _args: &Self::Args, _cx: &ToolContext) -> CallProfile {
        declared
    }

    /// Checks what a schema cannot say, just before the call is judged.
    fn check(
        &self,
        _args: &Self::Args,
        _cx: &ToolContext,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Ok(()) }
    }

    /// Judges the call. `None` is no opinion; an error refuses the call.
    fn guard(
        &self,
        _args: &Self::Args,
        _cx: &ToolContext,
    ) -> impl Future<Output = Result<Option<Verdict>, Failure>> + Send {
        async { Ok(None) }
    }

    /// Does the work.
    fn call(
        &self,
        args: Self::Args,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;

    /// Returns everything declared, as data.
    fn manifest(&self) -> Manifest {
        Manifest::new(&self.spec(), schema::of::<Self::Args>(), Self::Output::schema())
    }
}
