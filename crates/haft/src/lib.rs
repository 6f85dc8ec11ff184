//! Runs tool calls for language models: defines tools, shows them to a model in each provider's
//! format, validates, authorizes, runs and records each call, and answers it exactly once.
//!
//! ```
//! use haft::{Dialect, Failure, Runtime, ToolRegistry, serde_json::json, tool};
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
//! # async fn main() -> Result<(), Failure> {
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
//! | [`policy`] | who may call what: policies, guards, rules, configuration files, explanations |
//! | [`approval`] | questions to a person, answers, grants |
//! | [`hooks`] | code of the host before and after calls |
//! | [`middleware`] | code of the host around the body of a tool |
//! | [`background`] | calls that answer later |
//! | [`budget`], [`taint`] | limits of a run; trust and confidentiality of what it has read |
//! | [`events`], [`journal`], [`telemetry`] | what happens now, what happened, spans and metrics |
//! | [`artifacts`] | large results, stored and read in pages |
//! | [`secrets`], [`sanitize`] | secrets and redaction; text that is safe for terminals and models |
//! | [`host`], [`testing`] | clocks, frames, confinement; what tests need |
//!
//! [`Failure`] is what the model reads when a call fails. [`Error`] is what the operator reads.

mod error;
mod config;
mod near;
mod clock;
mod watch;
mod weight;
pub mod schema;
pub mod registry;
mod export;
mod runtime;
mod run;
pub mod turn;
mod lifecycle;
pub mod policy;
pub mod hooks;
mod layers;
pub mod background;
mod redact;
pub mod sanitize;
mod artifact;
pub mod journal;
mod tool_result;
mod frame;
mod event;
pub mod telemetry;

#[doc(inline)]
pub use haft_core::private::traits::Tool;
pub use haft_core::{
    BoxFuture, Failure, FailureCode, Output, State, ToolContext, schemars, serde, serde_json,
};
pub use haft_macros::{Tool, tool, tools};

pub use config::Config;
pub use error::{Error, ErrorKind};
pub use export::{Dialect, history};
#[cfg(feature = "tower")]
pub use layers::tower;
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
    pub use crate::{Failure, Output, State, Tool, ToolContext, tool, tools};
}

/// What a tool declares and returns: its spec, its call profile, its output.
pub mod tool {
    pub use haft_core::{
        Args, Backoff, Block, BlockChunk, Blocks, Body, BoundedBuffer, BoxError, Cache, CallId,
        CallProfile, CancellationToken, Capabilities, Capability, ConcurrencyClass, Dependency,
        DependencyKind, DynTool, Effect, Effects, Enabled, Execution, Exposure, Interrupt,
        IntoOutput, IntoTools, Isolation, Json, KeyedChunk, KeyedStream, Manifest, Operation,
        OutputChunk, Permission, Progress, Rate, RateError, Raw, ResourceKey, ResultLimit,
        RetryHint, RetryPolicy, RunId, RunState, Scope, Shared, Store, StreamOutput, ToolName,
        ToolSpec, UnknownFields, WeakToolContext, Window, Words, parse_duration,
    };
}

/// What the program around the runtime provides or reads: clocks, frames, confinement.
pub mod host {
    pub use haft_core::{
        Busy, Confinement, DeniedPaths, DeniedPathsUnknown, HardLinked, Host, Metadata, OtherNames,
        config_files, protected_names,
    };

    pub use crate::{
        clock::{Clock, RuntimeClock},
        config::Breaker,
        frame::{Frame, SYSTEM_TEXT},
        run::RunBuilder,
        turn::THREAD_NAME,
    };
}

/// Each provider's format: tool definitions, responses and results.
pub mod dialect {
    pub use crate::export::{
        DecodedResponse, Dialect, ExportOptions, ExportedTool, Loss, LossKind, ModelResponse,
        PromptCacheTtl, ReplyContext, ResponseDecoder, StrictMode, ToolAnnotations, ToolChoice,
        ToolDefinition, ToolExport, ToolSearch,
    };
}

/// Questions to a person, their answers, and the grants that last.
pub mod approval {
    pub use crate::policy::{
        ApprovalDigest, ApprovalRequest, ApprovalResponse, ApprovalScope, Approver, GrantError,
        GrantStore, SuggestedRules, approver_fn, deceptive_chars,
    };
}

/// Code of the host around the body of a tool.
pub mod middleware {
    pub use crate::layers::{
        CacheStatus, ExecutionStats, Middleware, Next, Outcome, middleware_fn,
    };
}

/// Limits on what a run may use.
pub mod budget {
    pub use haft_core::RemainingBudget;

    pub use crate::policy::Budget;
}

/// Labels of content (trust, confidentiality), and what a run has read so far.
pub mod taint {
    pub use haft_core::{Confidentiality, Label, Trust};

    pub use crate::policy::{Provenance, Taint, TaintTracker};
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
    pub use crate::artifact::{
        Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, Artifacts, Owner, ParseArtifactIdError,
        ReadArtifactError, ReadResult, ResultPage, ResultPosition, ResultQuery,
    };
}

/// Secrets that tools get and models never read.
pub mod secrets {
    pub use haft_core::Secret;

    pub use crate::redact::{Redactor, Secrets, StreamRedactor};
}

/// What tests of a host need: a clock that is set by hand, frames with known numbers.
pub mod testing {
    pub use crate::{clock::ManualClock, frame::Nonces};
}

// Names that the modules of this crate take from its root.
#[allow(unused_imports, reason = "one list for all modules, tests included")]
pub(crate) use {
    artifact::{
        Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, Artifacts, Owner, ParseArtifactIdError,
        ReadArtifactError, ReadResult, ResultPage, ResultPosition, ResultQuery,
    },
    background::{BackgroundResult, CheckTask, TaskInfo},
    clock::{Clock, ManualClock, RuntimeClock},
    config::Breaker,
    event::{
        Event, EventMeta, EventRecord, EventSource, EventStream, Lagged, Observer, Phase,
        StreamItem, WaitReason,
    },
    export::{
        DecodedResponse, ExportOptions, ExportedTool, Loss, LossKind, ModelResponse,
        PromptCacheTtl, ReplyContext, ResponseDecoder, StrictMode, ToolAnnotations, ToolChoice,
        ToolDefinition, ToolExport, ToolSearch,
    },
    frame::{Frame, Nonces, SYSTEM_TEXT},
    haft_core::*,
    hooks::{
        AnsweredCall, CompletedCall, Hook, HookAnswer, HookEffects, PostCallResult,
        PreCallDecision, TurnInfo, before_fn,
    },
    journal::{
        CallIntent, CallOutcome, ExecutionRecord, IntentRecord, Journal, MemoryJournal,
        OutcomeRecord, PolicyRecord, RecordQuery, WriteStatus,
    },
    layers::{CacheStatus, ExecutionStats, Middleware, Next, Outcome, middleware_fn},
    lifecycle::AuthorizedCall,
    policy::{
        AllowAll, ApprovalDigest, ApprovalRequest, ApprovalResponse, ApprovalScope, Approver,
        ArgumentKind, Budget, CallLimits, CheckStep, CommandTool, ConcurrencyLimit, ConfigFile,
        ConfigLayer, ConfigPath, ConfirmDestructive, DefaultPolicy, DenyAll, DirectoryId, Example,
        ExampleResult, Explanation, FileFormat, FileNote, Finding, FindingKind, ForTools,
        FsPathResolver, GrantError, GrantStore, Guard, Handler, HookScript, HookSpec,
        LexicalResolver, LoadOptions, Mode, NearMiss, NoObjection, PathBase, PathGuard,
        PathResolver, Pattern, PatternError, PatternErrorKind, Policy, PolicyConfig, PolicyContext,
        Provenance, RecordedDecision, ReloadableRules, Review, ReviewGuard, Reviewer, Rule,
        RuleRef, RuleWrite, Rules, SandboxSettings, SourceLocation, Storage, Subject,
        SuggestedRules, Suggestion, Taint, TaintTracker, Ternary, ToolNameGuard, TrustEntry,
        TrustedDirs, Uncovered, approver_fn, config_paths, deceptive_chars, files_from, guard_fn,
        managed_drop_ins, managed_settings_file, project_files, project_root, read_config_file,
        read_regular_file,
    },
    redact::{Redactor, Secrets, StreamRedactor},
    registry::{
        HiddenReason, RegisteredTool, ToolRegistryBuilder, ToolSnapshot, ToolSource, ToolView,
    },
    run::RunBuilder,
    sanitize::escape_invisible,
    schema::{Formats, Repair, RepairKind, RepairPolicy, Schema, ValidationError, strict_json},
    tool_result::{Origin, Truncation},
    turn::{
        Arguments, BatchReason, BatchSlot, CallScheduler, PlannedCall, StopReason, StreamingTurn,
        THREAD_NAME, TurnHandle, TurnOutput, ValidatedCall,
    },
};

// The programs in the documents run as doc tests, so that a page cannot go out of date.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../../docs/guide/first-tool.md")]
    pub struct FirstTool;
    #[doc = include_str!("../../../docs/guide/turns.md")]
    pub struct Turns;
    #[doc = include_str!("../../../docs/guide/arguments.md")]
    pub struct Arguments;
    #[doc = include_str!("../../../docs/guide/authorization.md")]
    pub struct Judging;
    #[doc = include_str!("../../../docs/guide/rules.md")]
    pub struct RulesPage;
    #[doc = include_str!("../../../docs/guide/approvals.md")]
    pub struct Approvals;
    #[doc = include_str!("../../../docs/guide/running.md")]
    pub struct Running;
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
