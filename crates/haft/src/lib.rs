//! Runs tool calls for language models: defines tools, shows them to a model in each provider's
//! format, validates, authorizes, runs and records each call, and answers it exactly once.
//!
//! ```
//! use haft::{Dialect, Runtime, ToolRegistry, serde_json::json, tool};
//!
//! /// Counts the words of a text.
//! #[tool(read_only, capabilities())]
//! async fn count_words(
//!     /// The text to look at.
//!     text: String,
//! ) -> usize {
//!     text.split_whitespace().count()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Once: the tools, and the runtime with its policy and limits.
//! let registry = ToolRegistry::builder().add(CountWordsTool).build()?;
//! let runtime = Runtime::builder().registry(registry).build()?;
//! let run = runtime.run();
//!
//! // Per turn: export the tools, send the request, dispatch the response.
//! let turn = run.turn().await?;
//! let tools = turn.snapshot().export(Dialect::Anthropic);
//! assert_eq!(tools.request()["tools"][0]["name"], "count_words");
//! let response = json!({
//!     "role": "assistant",
//!     "content": [
//!         {"type": "tool_use", "id": "a", "name": "count_words", "input": {"text": "one two"}},
//!         {"type": "tool_use", "id": "b", "name": "count_words", "input": {"text": 7}},
//!     ],
//!     "stop_reason": "tool_use",
//! });
//! let answer = turn.dispatch(Dialect::Anthropic, &response).await?;
//!
//! // One result per call, in order, between markers that a tool cannot forge (prompt injection).
//! let first = answer["content"][0]["content"].as_str().unwrap_or_default();
//! assert_eq!(first.lines().nth(1), Some("2"));
//! assert_eq!(answer["content"][1]["is_error"], true);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`prelude`] | what a file with tools needs |
//! | [`mod@tool`] | declaring a tool by hand: spec, call profile, capabilities, output |
//! | [`registry`] | all tools of a runtime, sources of tools, filtered views |
//! | [`schema`] | JSON Schema: compile, validate, explain, repair |
//! | [`dialect`] | each provider's format: definitions, responses, results |
//! | [`history`] | message histories: read, convert between providers, fix |
//! | [`turn`](mod@turn) | one model response and its calls: plan, schedule, stream |
//! | [`agent`] | the agent loop: agents, runs, models, the scripted model |
//! | [`policy`] | who may call what: policies, guards, rules, configuration files, explanations |
//! | [`approval`] | questions to a person, answers, grants |
//! | [`hooks`] | code of the host before and after calls |
//! | [`middleware`] | code of the host around the body of a tool |
//! | [`background`] | calls that answer later |
//! | [`budget`], [`taint`] | limits of a run; trust and confidentiality of what it has read |
//! | [`events`], [`journal`], [`telemetry`] | what happens now, what happened, spans and metrics |
//! | [`search`], [`instructions`] | `tool_search`; instructions that bring tools on demand |
//! | [`front_matter`] | fields at the beginning of Markdown files |
//! | [`artifacts`] | large results, stored and read in pages |
//! | [`secrets`], [`sanitize`] | secrets and redaction; text that is safe for terminals and models |
//! | [`host`], [`testing`] | clocks, frames, confinement; what tests need |
//!
//! [`Failure`] is what the model reads when a call fails. [`Error`] is what the operator reads.

mod config;
mod text;
mod clock;
mod host_code;
mod memory_size;
mod frozen_arguments;
mod open_set;
mod concurrency;
mod outcome;
mod layer_state;
pub mod registry;
mod runtime;
mod run;
pub mod turn;
mod validate;
mod call;
pub mod search;
mod guards;
pub mod policy;
pub mod approval;
pub mod budget;
pub mod taint;
pub mod hooks;
mod check_task;
pub mod secrets;
mod artifact;
mod read_result;
pub mod journal;
mod parked;
mod tool_result;
mod frame;
mod event;
pub mod telemetry;
pub mod front_matter;
pub mod instructions;
pub mod agent;

use haft_schema::near;

#[doc(inline)]
pub use haft_core::private::traits::Tool;
pub use haft_core::{
    BoxFuture, Error, ErrorKind, Failure, FailureCode, Output, State, ToolContext, ToolError,
    schemars, serde, serde_json,
};
pub use haft_macros::{Tool, arguments, output, tool, tools};

pub use config::Config;
pub use haft_dialect::{Dialect, history};
pub use registry::ToolRegistry;
pub use run::Run;
pub use runtime::{Runtime, RuntimeBuilder};
pub use tool_result::ToolResult;
pub use turn::{ToolCall, Turn};

#[doc(hidden)]
pub use haft_core::private;

/// The names that almost every file with tools needs.
///
/// ```
/// use haft::prelude::*;
///
/// /// Counts the lines of a text.
/// #[tool(read_only, capabilities())]
/// async fn count_lines(text: String) -> Result<usize, Failure> {
///     Ok(text.lines().count())
/// }
/// ```
pub mod prelude {
    pub use crate::{Tool, tool, tools};
    pub use haft_core::{Failure, Output, State, ToolContext, ToolError};
}

/// What a tool declares and returns: its spec, its call profile, its output.
pub mod tool {
    pub use haft_core::{
        Args, Backoff, Block, BlockChunk, Blocks, Body, BoundedBuffer, BoxError, Cache, CallId,
        CallProfile, CancellationToken, Capabilities, Capability, ConcurrencyClass, Dependency,
        DependencyKind, DynTool, Effect, Effects, Enabled, Execution, Exposure, Interrupt,
        IntoOutput, IntoTools, Isolation, Json, KeyedChunk, KeyedStream, Manifest, Operation,
        OutputChunk, Permission, Preview, Progress, Rate, RateError, ResourceKey, ResultLimit,
        RetryHint, RetryPolicy, RunId, RunScope, RunState, Scope, SharedMap, SharedStr,
        StreamOutput, TextError, ToolName, ToolSpec, TypeMap, UncheckedJson, UnknownFields, Window,
        parse_duration,
    };
}

/// What the program around the runtime provides or reads: clocks, frames, confinement.
pub mod host {
    pub use haft_core::{
        Confinement, DeniedPaths, DeniedPathsUnknown, HardLinkedFile, MaskedPaths, Metadata,
        OtherNames, config_files,
        host::{
            BackgroundTask, Host, HostContext, PathRules, RunningWork, TaskSlot, WeakToolContext,
        },
        protected_names,
    };

    pub use crate::{
        clock::{Clock, RuntimeClock},
        concurrency::THREAD_NAME,
        config::Breaker,
        frame::{Frame, SYSTEM_TEXT},
        run::RunBuilder,
    };
}

/// JSON Schema: compile, validate, explain, repair.
pub mod schema {
    pub use haft_schema::{
        Formats, Repair, RepairKind, RepairPolicy, Schema, ValidationError, strict_json,
    };
}

/// Each provider's format: tool definitions, responses and results.
pub mod dialect {
    pub use haft_dialect::{
        DecodedResponse, Dialect, ExportOptions, ExportedTool, Loss, LossKind, ModelResponse,
        OpeningMarker, PromptCacheTtl, RenderResult, ReplyContext, ResponseDecoder, ResultBlock,
        ResultContent, StreamPiece, StreamStart, StrictMode, TokenCounts, ToolAnnotations,
        ToolChoice, ToolDefinition, ToolExport, ToolSearch, block_text,
    };
}

/// Code of the host around the body of a tool.
pub mod middleware {
    pub use crate::{
        call::layers::{Middleware, Next, middleware_fn},
        outcome::{CacheStatus, ExecutionStats, Outcome},
    };
}

/// Calls that are answered with a task: their work goes on, and the model gets the result later.
pub mod background {
    pub use crate::{
        call::background::{BackgroundResult, BackgroundTask, TaskInfo, TaskSlot},
        check_task::CheckTask,
    };
}

/// What happens in a runtime, as it happens.
pub mod events {
    pub use crate::event::{
        Event, EventMeta, EventRecord, EventSource, EventStream, Lagged, Observer, Phase,
        StreamItem, WaitReason,
    };
}

/// Large results that are stored instead of being sent to the model.
pub mod artifacts {
    pub use crate::{
        artifact::{
            Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, Artifacts, Owner,
            ParseArtifactIdError, ReadArtifactError, ResultPage, ResultPosition, ResultQuery,
        },
        read_result::ReadResult,
    };
}

/// Text that is safe for terminals and models: no escape sequences, no invisible characters.
pub mod sanitize {
    pub use haft_sanitize::{
        SanitizedText, StreamSanitizer, escape_invisible, from_bytes, sanitize,
    };
}

/// What tests of a host need: a clock that is set by hand, frames with known numbers.
pub mod testing {
    pub use crate::{clock::ManualClock, frame::Nonces};
}

// The programs in the documents run as doc tests, so that a page cannot go out of date.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../../docs/guide/first-tool.md")]
    pub struct FirstTool;
    #[doc = include_str!("../../../docs/guide/agents.md")]
    pub struct Agents;
    #[doc = include_str!("../../../docs/guide/sub-agents.md")]
    pub struct SubAgents;
    #[doc = include_str!("../../../docs/guide/tool-search.md")]
    pub struct ToolSearchPage;
    #[doc = include_str!("../../../docs/guide/turns.md")]
    pub struct Turns;
    #[doc = include_str!("../../../docs/guide/arguments.md")]
    pub struct ArgumentsPage;
    #[doc = include_str!("../../../docs/guide/authorization.md")]
    pub struct Judging;
    #[doc = include_str!("../../../docs/guide/rules.md")]
    pub struct RulesPage;
    #[doc = include_str!("../../../docs/guide/approvals.md")]
    pub struct Approvals;
    #[doc = include_str!("../../../docs/guide/running.md")]
    pub struct RunningPage;
    #[doc = include_str!("../../../docs/guide/budgets-and-labels.md")]
    pub struct BudgetsAndLabels;
    #[doc = include_str!("../../../docs/guide/caching-retries-limits.md")]
    pub struct Layers;
    #[doc = include_str!("../../../docs/guide/secrets.md")]
    pub struct SecretsPage;
    #[doc = include_str!("../../../docs/guide/large-results.md")]
    pub struct LargeResults;
    #[doc = include_str!("../../../docs/guide/dialects.md")]
    pub struct Dialects;
    #[doc = include_str!("../../../docs/guide/results.md")]
    pub struct Results;
    #[doc = include_str!("../../../docs/guide/history.md")]
    pub struct History;
    #[doc = include_str!("../../../docs/guide/observability.md")]
    pub struct Seeing;
}
