//! The runtime between a language model and the world.
//!
//! A model can only write text. haft shows it tools, hears which of them it calls, decides whether
//! each call may run, runs it, and answers it.
//!
//! ```
//! use haft::{Catalog, Dialect, Failure, Runtime, serde_json::json, tool};
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
//! // Once: what there is, and on which terms it runs.
//! let catalog = Catalog::builder().add(CountWords).build()?;
//! let runtime = Runtime::builder().catalog(catalog).build()?;
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
//! // One result for each call, in order, whatever became of it, between marks that no tool can forge.
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
//! | say what can be called | [`Catalog`], [`Source`], [`View`] |
//! | set up and run | [`Runtime`], [`Config`], [`Run`], [`Turn`] |
//! | show tools to a provider | [`Snapshot::export`], [`Options`], [`Export`], [`Loss`] |
//! | hear a provider | [`Turn::dispatch`], [`Turn::listen`], [`Dialect::parse`], [`Stream`] |
//! | move a conversation | [`Dialect::read_history`], [`Transcript`], [`history`] |
//! | check values of your own | [`Schema`], [`Problem`], [`Repair`] |
//! | decide what may run | [`Policy`], [`Guard`], and ready-made ones: [`NamePolicy`], [`PathGuard`], [`ConfirmDestructive`] |
//! | write that down as rules | [`Setup::read`], [`Rules`], [`Live`], [`Pattern`] |
//! | ask somebody | [`Approver`], [`Question`], [`Answer`], [`Grants`] |
//! | stand around calls | [`Hook`]; the crate `haft-hooks` has commands and HTTP |
//! | stand around bodies, answer later | [`Middleware`], [`Context::later`], [`Tickets`] |
//! | limit what a run uses, and know what it has read | [`Budget`], [`Label`], [`Seen`] |
//! | find out why | [`Turn::explain`], [`Explanation`] |
//! | keep secrets | [`RuntimeBuilder::secret`], [`Secrets`], [`Context::secret`], [`Redactor`] |
//! | know what the model reads | [`Envelope::shown`], [`Frame`], [`SYSTEM_TEXT`], [`hygiene`] |
//! | see what happened | [`Runtime::events`], [`Event`], [`Observer`], [`Runtime::records`], [`Journal`] |
//! | keep large results aside | [`Artifacts`], [`ReadResult`] |
//! | read a failure | [`Failure`] for the model, [`Error`] for the operator |

mod error;
mod config;
mod near;
mod clock;
mod watch;
mod weight;
mod fit;
mod catalog;
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
pub mod hygiene;
mod artifact;
mod journal;
mod envelope;
mod frame;
mod event;
pub mod telemetry;

pub use haft_core::*;
pub use haft_macros::{Tool, tool, tools};

pub use artifact::{
    Artifact, ArtifactId, ArtifactLimits, Artifacts, Facts, NoId, Owner, Page as ResultPage,
    Place as ResultPlace, Query as ResultQuery, ReadResult, Unreadable,
};
pub use background::{Late, Ticket, Tickets};
pub use catalog::{Catalog, CatalogBuilder, Entry, Snapshot, Source, View, Withheld};
pub use clock::{Clock, ManualClock, RuntimeClock};
pub use config::{Breaker, Config};
pub use envelope::{Cut, Envelope, Origin};
pub use error::{Error, ErrorKind};
pub use event::{At, Event, EventStream, Missed, Observer, Phase, Stamped, Told, Wait, Who};
pub use export::{
    Asked, Choice, Definition, Dialect, Ended, Export, Hints, Keep, Loss, LossKind, Options,
    Response, Search, Shown, Stream, Strict, Transcript, history,
};
pub use fit::{Formats, Problem, Repair, RepairKind, Repairs, Schema, strict_json};
pub use frame::{Frame, Nonces, SYSTEM_TEXT};
pub use hooks::{After, Answered, Before, Hook, Landed, Performed, Said, TurnFacts};
pub use hygiene::visible;
pub use journal::{
    End, Intended, Intention, Journal, Judgement, MemoryJournal, Query, Record, Settled, Written,
};
#[cfg(feature = "tower")]
pub use layers::tower;
pub use layers::{CacheUse, Course, Middleware, Next, Outcome, middleware_fn};
pub use lifecycle::Permitted;
pub use policy::{
    About, AllowAll, AllowEverything, Anchor, Answer, Approver, Binding, Budget, Candidate, Check,
    Cited, ConfirmDestructive, Decided, Declared, DefaultPolicy, DenyAll, DirectoryId, Disk,
    Example, Explanation, File, FileNote, Finding, FindingKind, Form, Grants, Ground, Guard,
    Handler, HookScript, HookSpec, Lasting, Layer, Lexical, Limited, Limits, Live, Match, Mode,
    NamePolicy, Near, Offer, Only, PathGuard, Pattern, PatternError, PatternErrorKind,
    Place as RulePlace, Policy, Question, Refusal, Review, Reviewed, Reviewer, Rule, RuleWrite,
    Rules, SandboxSettings, Seen, Setup, Storage, Subject, Suggestion, Taint, Traced, Tried,
    TrustBook, TrustEntry, Uncovered, Where, World, files_from, files_of, managed_drop_ins,
    managed_settings_file, project_files, project_root, read_config_file, read_regular_file,
    tricks,
};
pub use redact::{Redactor, Secrets, StreamRedactor};
pub use run::{Run, RunBuilder};
pub use runtime::{Runtime, RuntimeBuilder};
pub use turn::{
    Admitted, Arguments, Call, Control, Heard, Intake, Listening, Place, Planned, Stop,
    THREAD_NAME, Turn, Why,
};

// The programs in the documents run as doc tests, so that a page cannot say what is no longer true.
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
    #[doc = include_str!("../../../docs/guide/judging.md")]
    pub struct Judging;
    #[doc = include_str!("../../../docs/guide/rules.md")]
    pub struct RulesPage;
    #[doc = include_str!("../../../docs/guide/approvals.md")]
    pub struct Approvals;
    #[doc = include_str!("../../../docs/guide/running.md")]
    pub struct Running;
    #[doc = include_str!("../../../docs/guide/budgets-and-labels.md")]
    pub struct BudgetsAndLabels;
    #[doc = include_str!("../../../docs/guide/layers.md")]
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
    #[doc = include_str!("../../../docs/guide/seeing.md")]
    pub struct Seeing;
}
