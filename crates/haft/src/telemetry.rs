//! Spans of calls, with the OpenTelemetry names for generative AI. All names are here.
//!
//! Three spans, all on the `tracing` target `haft`:
//! - `haft.call` is the whole walk of a call, refused ones included.
//! - `execute_tool` is one attempt at the body and nothing else. Waiting is outside of it by
//!   construction: for a person, for the message, for a place, for a rate, between attempts. A call
//!   that is tried again has one for each attempt, each with its own end, as a request that is sent
//!   again has; a hit in the cache has none, because nothing was executed.
//! - `haft.wait` is time in which nothing is done.
//!
//! What a body does, nested calls included, is inside its `execute_tool` span. Where nobody
//! subscribes, a call pays one look at a static. Arguments and results are put on spans only where
//! the host says so, and go through the redactor first.

use std::borrow::Cow;

use haft_core::{Decision, Failure, ToolContext, Verdict};
use tracing::{Instrument as _, Level, Span, field::Empty, instrument::Instrumented};

use crate::{
    event::Event,
    layers::{CacheStatus, ExecutionStats, Outcome, Work},
    lifecycle::File,
    runtime::Inner,
    tool_result::ToolResult,
};

/// The names are those of this version of the conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev";
/// The `tracing` target of every span of ours.
pub const TARGET: &str = "haft";
/// The span around one attempt at a body, and the name of that operation.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The span around the walk of a call.
pub const CALL: &str = "haft.call";
/// The span around a wait.
pub const WAIT: &str = "haft.wait";

/// The operation.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// What kind of tool; ours are functions.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The agent that asked.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The code of a failure; absent where there is none.
pub const ERROR_TYPE: &str = "error.type";

/// The histogram of how long attempts take, in seconds. Its values are those of the spans.
pub const EXECUTE_TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
/// The borders of its buckets.
pub const DURATION_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The counter of calls that have ended, whether or not they ran.
pub const CALLS: &str = "haft.calls";
/// The histogram of how long people take to answer, in seconds.
pub const APPROVAL_WAIT: &str = "haft.approval.wait";

/// So many characters of arguments or of a result are put on a span.
const MOST_CONTENT: usize = 8_192;

/// So many bytes of a name that a model made up are put on a span.
const MOST_NAME: usize = 128;

/// Returns whether anybody wants spans.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: TARGET, Level::INFO)
}

/// Makes the span of a walk; nothing where nobody wants it.
pub(crate) fn call_span(cx: &ToolContext) -> Span {
    if !is_traced() {
        return Span::none();
    }
    let scope = cx.scope();
    tracing::info_span!(
        target: TARGET,
        "haft.call",
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        // A name that no tool has is the model's own text, and may be as long as it likes.
        "gen_ai.tool.name" = short(cx.tool_name().as_str()),
        "gen_ai.tool.call.id" = short(cx.call_id().as_str()),
        "gen_ai.agent.name" = cx.agent_id(),
        "error.type" = Empty,
        "haft.run" = scope.run.as_str(),
        "haft.cycle" = scope.cycle,
        "haft.depth" = scope.depth,
        "haft.execution" = Empty,
        "haft.verdict" = Empty,
        "haft.rule" = Empty,
        "haft.answered_by" = Empty,
        "haft.attempts" = Empty,
        "haft.cache" = Empty,
        "haft.waited_us" = Empty,
        "haft.result.chars" = Empty,
        "haft.result.shown" = Empty,
    )
}

/// Notes on the span of the walk how it ended.
pub(crate) fn ended(envelope: &ToolResult, course: &ExecutionStats, file: Option<&File>) {
    if !is_traced() {
        return;
    }
    let span = Span::current();
    if let Some(failure) = envelope.failure() {
        failed(&span, failure);
    }
    span.record("haft.execution", ran(envelope));
    if let Some(file) = file {
        judged(&span, &file.verdict);
        span.record("haft.answered_by", file.answered_by.as_deref());
    }
    span.record("haft.attempts", course.attempts);
    span.record("haft.cache", course.cache.map(cache_word));
    span.record("haft.waited_us", u64::try_from(course.waited.as_micros()).unwrap_or(u64::MAX));
    if let Some(cut) = envelope.cut() {
        span.record("haft.result.chars", cut.of);
        span.record("haft.result.shown", cut.shown);
    }
}

/// Notes on the span of a walk that is dropped that nobody knows how it ended.
pub(crate) fn dropped() {
    if is_traced() {
        let span = Span::current();
        span.record("error.type", haft_core::FailureCode::UnknownOutcome.as_str());
        span.record("otel.status_code", "ERROR");
    }
}

/// Puts a wait into a span of its own.
pub(crate) fn waiting<F: Future>(what: &'static str, wait: F) -> Instrumented<F> {
    let span = match is_traced() {
        true => tracing::info_span!(
            target: TARGET,
            "haft.wait",
            "otel.name" = %format_args!("haft.wait {what}"),
            "otel.kind" = "internal",
            "haft.wait.for" = what,
        ),
        false => Span::none(),
    };
    wait.instrument(span)
}

/// Returns whether anybody wants to know of an attempt.
pub(crate) fn is_watched(work: &Work<'_>) -> bool {
    work.turn.inner.events.is_heard() || is_traced()
}

/// Makes one attempt in a span of its own, and tells how it ended.
pub(crate) async fn watched(work: &Work<'_>, body: impl Future<Output = Outcome>) -> Outcome {
    let inner = &work.turn.inner;
    let span = if is_traced() { execute_span(work) } else { Span::none() };
    let began = inner.clock.now();
    let outcome = body.instrument(span.clone()).await;
    let took = inner.clock.now().saturating_duration_since(began);
    match &outcome {
        Err(failure) => failed(&span, failure),
        Ok(output) if inner.config.trace_content && !span.is_disabled() => {
            span.record("gen_ai.tool.call.result", &*shown(inner, &output.as_text()));
        }
        Ok(_) => {}
    }
    drop(span);
    work.turn.tell(|| Event::AttemptFinished {
        call: work.cx.call_id().clone(),
        tool_name: work.cx.tool_name().clone(),
        attempt: work.cx.attempt(),
        failed: outcome.as_ref().err().map(Failure::code),
        took,
    });
    outcome
}

fn execute_span(work: &Work<'_>) -> Span {
    let (cx, scope) = (work.cx, work.cx.scope());
    let span = tracing::info_span!(
        target: TARGET,
        "execute_tool",
        "otel.name" = %format_args!("execute_tool {}", cx.tool_name()),
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = EXECUTE_TOOL,
        "gen_ai.tool.name" = cx.tool_name().as_str(),
        "gen_ai.tool.call.id" = cx.call_id().as_str(),
        "gen_ai.tool.description" = work.entry.spec().description.as_str(),
        "gen_ai.tool.type" = "function",
        "gen_ai.agent.name" = cx.agent_id(),
        "gen_ai.tool.call.arguments" = Empty,
        "gen_ai.tool.call.result" = Empty,
        "error.type" = Empty,
        "haft.run" = scope.run.as_str(),
        "haft.cycle" = scope.cycle,
        "haft.depth" = scope.depth,
        "haft.attempt" = cx.attempt(),
        "haft.class" = class_word(work.permitted.admitted().profile().class),
        "haft.verdict" = Empty,
        "haft.rule" = Empty,
    );
    let inner = &work.turn.inner;
    if !span.is_disabled() {
        judged(&span, &inner.redactor.verdict(work.permitted.verdict().clone()));
    }
    if inner.config.trace_content && !span.is_disabled() {
        let admitted = work.permitted.admitted();
        let arguments = inner.redactor.arguments(admitted.tool(), admitted.arguments()).to_string();
        span.record("gen_ai.tool.call.arguments", &*shown(inner, &arguments));
    }
    span
}

/// Returns text as it may be shown: harmless, without secrets, and no longer than need be. It is cut
/// last, because half a secret is no longer known for one.
fn shown<'a>(inner: &Inner, text: &'a str) -> Cow<'a, str> {
    let clean = inner.redactor.washed(text).0.map_or(Cow::Borrowed(text), Cow::Owned);
    match clean.char_indices().nth(MOST_CONTENT).map(|(at, _)| at) {
        Some(at) => Cow::Owned(clean[..at].to_owned()),
        None => clean,
    }
}

/// The beginning of a name.
fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_NAME)]
}

/// A failure has its code; a success leaves the status as it is.
fn failed(span: &Span, failure: &Failure) {
    span.record("error.type", failure.code().as_str());
    span.record("otel.status_code", "ERROR");
}

fn judged(span: &Span, verdict: &Verdict) {
    span.record("haft.verdict", Decision::as_str(&verdict.decision));
    span.record("haft.rule", &*verdict.source);
}

fn ran(envelope: &ToolResult) -> &'static str {
    match envelope.execution() {
        haft_core::Execution::NotStarted => "not_started",
        haft_core::Execution::Completed => "completed",
        haft_core::Execution::Unknown => "unknown",
    }
}

fn cache_word(cache: CacheStatus) -> &'static str {
    match cache {
        CacheStatus::Hit => "hit",
        CacheStatus::Joined => "joined",
        CacheStatus::Miss => "miss",
    }
}

fn class_word(class: haft_core::ConcurrencyClass) -> &'static str {
    match class {
        haft_core::ConcurrencyClass::ReadOnly => "read_only",
        haft_core::ConcurrencyClass::WriteExclusive => "write_exclusive",
        haft_core::ConcurrencyClass::Unsafe => "unsafe",
    }
}
