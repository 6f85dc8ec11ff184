//! What a tool author compiles against.
//!
//! A tool is a name, a description, typed arguments and a body. This crate holds the types for
//! that. It has no async runtime, no validator and no provider format. The runtime is the `haft`
//! crate, which re-exports everything here.
//!
//! Read in this order: [`Tool`] is what authors write, [`ToolSpec`] is what it declares,
//! [`CallProfile`] is what one call would do, [`ToolContext`] is what the body may use, and
//! [`Output`] or [`Failure`] is what it returns. [`DynTool`] is the type-erased form of every tool.
//! [`host`] holds what only a runtime needs.

mod id;
mod spec;
mod option;
mod capability;
mod profile;
mod hard_link;
mod denied_paths;
mod label;
mod shared_str;
mod verdict;
mod secret;
mod context;
mod progress;
mod scope;
mod output;
mod preview;
mod into_output;
mod stream;
mod spawn_background;
mod body;
mod bounded_buffer;
mod hashing;
mod failure;
mod error;
mod call;
mod tool;
mod decode_error;
mod erased;
mod manifest;
mod schema;
pub mod host;
pub mod config_files;
pub mod protected_names;
#[doc(hidden)]
pub mod private;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod text;

pub use body::{Args, Body};
pub use bounded_buffer::BoundedBuffer;
pub use call::{Arguments, StopReason, ToolCall};
pub use capability::{Capabilities, Capability};
pub use context::{Confinement, Metadata, ToolContext};
pub use denied_paths::{DeniedPaths, DeniedPathsUnknown, MaskedPaths};
pub use erased::{DynTool, IntoTools};
pub use error::{Error, ErrorKind};
pub use failure::{BoxError, Execution, Failure, FailureCode, RetryHint, ToolError};
pub use haft_macros::{
    ToolCore as Tool, arguments_core as arguments, output_core as output, tool_core as tool,
    tools_core as tools,
};
pub use hard_link::{HardLinkedFile, OtherNames};
pub use id::{CallId, RunId, ToolName};
pub use into_output::{IntoOutput, Json, TextError, UncheckedJson};
pub use label::{Confidentiality, Label, Trust};
pub use manifest::Manifest;
pub use option::{
    Backoff, Cache, Exposure, Interrupt, Isolation, Permission, Rate, RateError, ResultLimit,
    RetryPolicy, UnknownFields, Window, parse_duration,
};
pub use output::{Block, Output};
pub use preview::Preview;
pub use private::{schemars, serde, serde_json};
pub use profile::{CallProfile, ConcurrencyClass, Effect, Effects, Operation, ResourceKey};
pub use progress::Progress;
pub use scope::{RemainingBudget, RunScope, RunState, Scope, SharedMap, State, TypeMap};
pub use secret::Secret;
pub use shared_str::SharedStr;
pub use spec::{Dependency, DependencyKind, Enabled, ToolSpec};
pub use stream::{BlockChunk, Blocks, KeyedChunk, KeyedStream, OutputChunk, StreamOutput};
pub use tokio_util::sync::CancellationToken;
pub use tool::Tool;
pub use verdict::{Decision, IntoVerdict, Verdict};

/// A boxed future that may cross threads.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
