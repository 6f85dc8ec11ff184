//! What a tool author compiles against.
//!
//! A tool is a name, a description, typed arguments and a body. This crate holds the words for
//! that and nothing that runs them: no async runtime, no validator, no provider's JSON. The
//! runtime is the `haft` crate, which re-exports everything here.
//!
//! Read in this order: [`Tool`] is what authors write, [`Spec`] is what it declares, [`Claim`] is
//! what one call would do, [`Context`] is what the body may touch, and [`Output`] or [`Failure`]
//! is what it gives back. [`DynTool`] is the erased form that every way of writing a tool ends in.

mod id;
mod spec;
mod option;
mod capability;
mod claim;
mod hard_link;
mod denied_paths;
mod label;
mod words;
mod verdict;
mod secret;
mod context;
mod notes;
mod later;
mod scope;
mod output;
mod stream;
mod capped;
mod failure;
mod tool;
mod erased;
mod manifest;
mod schema;
pub mod config_files;
pub mod protected_names;
#[doc(hidden)]
pub mod private;

pub use capability::{Capabilities, Capability};
pub use capped::Capped;
pub use claim::{Claim, Class, Effect, Effects, Key, Operation};
pub use context::{Busy, Confinement, Context, Host, WeakContext};
pub use denied_paths::{DeniedPaths, DeniedPathsUnknown};
pub use erased::{Args, Body, DynTool, IntoTools};
pub use failure::{BoxError, Code, Failure, Ran, Retry};
pub use haft_macros::{ToolCore as Tool, tool_core as tool, tools_core as tools};
pub use hard_link::{HardLinked, OtherNames};
pub use id::{CallId, RunId, ToolName};
pub use label::{Confidentiality, Label, Trust};
pub use later::{Deferral, Later};
pub use manifest::Manifest;
pub use notes::Note;
pub use option::{
    Backoff, Bound, Cache, Exposure, Interrupt, Isolation, Permission, Rate, Retries, Unknown,
    Window, parse_duration,
};
pub use output::{Block, IntoOutput, Json, Output, Piece, Raw, Streamed};
pub use private::{schemars, serde, serde_json};
pub use scope::{Left, Scope, Shared, Side, State, Store};
pub use secret::Secret;
pub use spec::{Enabled, Need, NeedKind, Spec};
pub use stream::{BlockPiece, Blocks, Keyed, KeyedPiece};
pub use tokio_util::sync::CancellationToken;
pub use tool::Tool;
pub use verdict::{Decision, IntoVerdict, Verdict};
pub use words::Words;

/// A boxed future that may cross threads.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
