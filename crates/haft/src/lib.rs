//! A runtime for the tool calls of language models.
//!
//! A model can only write text. haft describes tools to it, parses the calls in its response,
//! authorizes each call, runs it, and returns one result per call.
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
//! // Once: the tools, and the limits and policy they run under.
//! let registry = ToolRegistry::builder().add(CountWordsTool).build()?;
//! let runtime = Runtime::builder().registry(registry).build()?;
//! let run = runtime.run();
//!
//! // Per turn: show the tools, send the request, take the response.
//! let turn = run.turn().await?;
//! let tools = turn.snapshot().export(Dialect::Anthropic);
//! assert_eq!(tools.request()["tools"][0]["name"], "count_words");
//! let response = json!({
//!     "role": "assistant",
//!     "content": [
//!         {"type": "tool_use", "id": "a", "name": "count_words", "input": {"text": "one door"}},
//!         {"type": "tool_use", "id": "b", "name": "count_words", "input": {"text": 7}},
//!     ],
//!     "stop_reason": "tool_use",
//! });
//! let answer = turn.dispatch(Dialect::Anthropic, &response).await?;
//!
//! // One result per call, in order, whatever its outcome, between markers no tool can forge.
//! let first = answer["content"][0]["content"].as_str().unwrap_or_default();
//! assert_eq!(first.lines().nth(1), Some("2"));
//! assert_eq!(answer["content"][1]["is_error"], true);
//! # Ok(())
//! # }
//! ```
//!
//! | to | look at |
//! |---|---|
//! | define a tool | [`tool`](macro@tool), [`tools`](macro@tools), [`Tool`](trait@Tool), [`DynTool`] |
//! | select what can be called | [`ToolRegistry`], [`ToolSource`], [`ToolView`] |
//! | set up and run | [`Runtime`], [`Config`], [`Run`], [`Turn`] |
//! | export tools to a provider | [`ToolSnapshot::export`], [`ExportOptions`], [`ToolExport`], [`Loss`] |
//! | parse a provider's response | [`Turn::dispatch`], [`Turn::stream`], [`Dialect::parse`], [`ResponseDecoder`] |
//! | convert a conversation | [`Dialect::read_history`], [`Transcript`], [`history`] |
//! | validate your own values | [`Schema`], [`ValidationError`], [`Repair`] |
//! | authorize calls | [`Policy`], [`Guard`], and built-in ones: [`ToolNameGuard`], [`PathGuard`], [`ConfirmDestructive`] |
//! | write the policy as rules | [`PolicyConfig::read`], [`Rules`], [`ReloadableRules`], [`Pattern`] |
//! | ask a person for approval | [`Approver`], [`ApprovalRequest`], [`ApprovalResponse`], [`GrantStore`] |
//! | run hooks around calls | [`Hook`]; the crate `haft-hooks` has commands and HTTP |
//! | wrap tool bodies, run in the background | [`Middleware`], [`ToolContext::spawn_background`], [`CheckTask`] |
//! | set budgets, track taint | [`Budget`], [`Label`], [`TaintTracker`] |
//! | explain a decision | [`Turn::explain`], [`Explanation`] |
//! | redact secrets | [`RuntimeBuilder::secret`], [`Secrets`], [`ToolContext::secret`], [`Redactor`] |
//! | mark untrusted content (prompt injection) | [`ToolResult::model_text`], [`Frame`], [`SYSTEM_TEXT`], [`sanitize`] |
//! | observe calls | [`Runtime::events`], [`Event`], [`Observer`], [`Runtime::records`], [`Journal`] |
//! | store large results | [`Artifacts`], [`ReadResult`] |
//! | read a failure | [`Failure`] for the model, [`Error`] for the operator |

mod error;
mod config;
mod near;
mod clock;
mod watch;
mod weight;
mod schema;
mod registry;
mod export;
mod runtime;
mod run;
mod turn;
mod lifecycle;
mod policy;
mod hooks;
mod layers;
mod background;
mod redact;
pub mod sanitize;
mod artifact;
mod journal;
mod tool_result;
mod frame;
mod event;
pub mod telemetry;

pub use haft_core::*;
pub use haft_macros::{Tool, tool, tools};

pub use artifact::{
    Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, Artifacts, Owner, ParseArtifactIdError,
    ReadArtifactError, ReadResult, ResultPage, ResultPosition, ResultQuery,
};
pub use background::{BackgroundResult, CheckTask, TaskInfo};
pub use clock::{Clock, ManualClock, RuntimeClock};
pub use config::{Breaker, Config};
pub use error::{Error, ErrorKind};
pub use event::{
    Event, EventMeta, EventRecord, EventSource, EventStream, Lagged, Observer, Phase, StreamItem,
    WaitReason,
};
pub use export::{
    DecodedResponse, Dialect, ExportOptions, ExportedTool, Loss, LossKind, ModelResponse,
    PromptCacheTtl, ReplyContext, ResponseDecoder, StrictMode, ToolAnnotations, ToolChoice,
    ToolDefinition, ToolExport, ToolSearch, Transcript, history,
};
pub use frame::{Frame, Nonces, SYSTEM_TEXT};
pub use hooks::{
    AnsweredCall, CompletedCall, Hook, HookAnswer, HookEffects, PostCallResult, PreCallDecision,
    TurnInfo, before_fn,
};
pub use journal::{
    CallIntent, CallOutcome, ExecutionRecord, IntentRecord, Journal, MemoryJournal, OutcomeRecord,
    PolicyRecord, RecordQuery, WriteStatus,
};
#[cfg(feature = "tower")]
pub use layers::tower;
pub use layers::{CacheStatus, ExecutionStats, Middleware, Next, Outcome, middleware_fn};
pub use lifecycle::AuthorizedCall;
pub use policy::{
    AllowAll, ApprovalDigest, ApprovalRequest, ApprovalResponse, ApprovalScope, Approver,
    ArgumentKind, Budget, CallLimits, CheckStep, CommandTool, ConcurrencyLimit, ConfigFile,
    ConfigLayer, ConfigPath, ConfirmDestructive, DefaultPolicy, DenyAll, DirectoryId, Example,
    ExampleResult, Explanation, FileFormat, FileNote, Finding, FindingKind, ForTools,
    FsPathResolver, GrantError, GrantStore, Guard, Handler, HookScript, HookSpec, LexicalResolver,
    LoadOptions, Mode, NearMiss, NoObjection, PathBase, PathGuard, PathResolver, Pattern,
    PatternError, PatternErrorKind, Policy, PolicyConfig, PolicyContext, Provenance,
    RecordedDecision, ReloadableRules, Review, ReviewGuard, Reviewer, Rule, RuleRef, RuleWrite,
    Rules, SandboxSettings, SourceLocation, Storage, Subject, SuggestedRules, Suggestion, Taint,
    TaintTracker, Ternary, ToolNameGuard, TrustEntry, TrustedDirs, Uncovered, approver_fn,
    config_paths, deceptive_chars, files_from, guard_fn, managed_drop_ins, managed_settings_file,
    project_files, project_root, read_config_file, read_regular_file,
};
pub use redact::{Redactor, Secrets, StreamRedactor};
pub use registry::{
    HiddenReason, RegisteredTool, ToolRegistry, ToolRegistryBuilder, ToolSnapshot, ToolSource,
    ToolView,
};
pub use run::{Run, RunBuilder};
pub use runtime::{Runtime, RuntimeBuilder};
pub use sanitize::escape_invisible;
pub use schema::{Formats, Repair, RepairKind, RepairPolicy, Schema, ValidationError, strict_json};
pub use tool_result::{Origin, ToolResult, Truncation};
pub use turn::{
    Arguments, BatchReason, BatchSlot, CallScheduler, PlannedCall, StopReason, StreamingTurn,
    THREAD_NAME, ToolCall, Turn, TurnHandle, TurnOutput, ValidatedCall,
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
