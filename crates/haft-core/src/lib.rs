//! What a tool author compiles against.
//!
//! A tool is a name, a description, typed arguments and a body. This crate holds the types for
//! that. It has no async runtime, no validator and no provider format. The runtime is the `haft`
//! crate, which re-exports everything here.
//!
//! Read in this order: [`Tool`] is what authors write, [`ToolSpec`] is what it declares,
//! [`CallProfile`] is what one call would do, [`ToolContext`] is what the body may use, and
//! [`Output`] or [`Failure`] is what it returns. [`DynTool`] is the type-erased form of every tool.

mod id;
mod spec;
mod option;
mod capability;
mod profile;
mod hard_link;
mod denied_paths;
mod label;
mod words;
mod verdict;
mod secret;
mod context;
mod progress;
mod background_task;
mod scope;
mod output;
mod stream;
mod bounded_buffer;
mod failure;
mod tool;
mod erased;
mod manifest;
mod schema;
pub mod config_files;
pub mod protected_names;
#[doc(hidden)]
pub mod private;

pub use background_task::{BackgroundTask, TaskSlot};
pub use bounded_buffer::BoundedBuffer;
pub use capability::{Capabilities, Capability};
pub use context::{Busy, Confinement, Host, Metadata, ToolContext, WeakToolContext};
pub use denied_paths::{DeniedPaths, DeniedPathsUnknown};
pub use erased::{Args, Body, DynTool, IntoTools};
pub use failure::{BoxError, Execution, Failure, FailureCode, RetryHint};
pub use haft_macros::{ToolCore as Tool, tool_core as tool, tools_core as tools};
pub use hard_link::{HardLinked, OtherNames};
pub use id::{CallId, RunId, ToolName};
pub use label::{Confidentiality, Label, Trust};
pub use manifest::Manifest;
pub use option::{
    Backoff, Cache, Exposure, Interrupt, Isolation, Permission, Rate, RateError, ResultLimit,
    RetryPolicy, UnknownFields, Window, parse_duration,
};
pub use output::{Block, IntoOutput, Json, Output, OutputChunk, Raw, StreamOutput};
pub use private::{schemars, serde, serde_json};
pub use profile::{CallProfile, ConcurrencyClass, Effect, Effects, Operation, ResourceKey};
pub use progress::Progress;
pub use scope::{RemainingBudget, RunState, Scope, Shared, State, Store};
pub use secret::Secret;
pub use spec::{Dependency, DependencyKind, Enabled, ToolSpec};
pub use stream::{BlockChunk, Blocks, KeyedChunk, KeyedStream};
pub use tokio_util::sync::CancellationToken;
pub use tool::Tool;
pub use verdict::{Decision, IntoVerdict, Verdict};
pub use words::Words;

/// A boxed future that may cross threads.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
