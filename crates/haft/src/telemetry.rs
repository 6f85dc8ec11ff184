//! Spans of calls, named by the OpenTelemetry conventions for generative AI. All names are here.
//!
//! Three spans, all on the `tracing` target `haft`:
//! - `haft.call` is a whole call, including refused ones.
//! - `execute_tool` is one attempt at the body and nothing else. It contains no waiting: for
//!   approval, the message, a slot, a rate limit or backoff. A retried call has one per attempt, as
//!   a retried request has; a cache hit has none, because nothing was executed.
//! - `haft.wait` is time spent waiting.
//!
//! The work of a body, including nested calls, is inside its `execute_tool` span. Without a
//! subscriber, a call only pays for reading a static. Arguments and results are put on spans only
//! if the host enables it, and are redacted first.

use haft_core::{Decision, Failure, ToolContext, Verdict};
use tracing::{Instrument as _, Level, Span, field::Empty, instrument::Instrumented};

use crate::{
    journal::PolicyRecord,
    outcome::{CacheStatus, ExecutionStats},
    tool_result::ToolResult,
};

/// The version of the conventions that the names come from.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev";
/// The `tracing` target of all spans of this crate.
pub const TARGET: &str = "haft";
/// The span around one attempt at a body, and the name of that operation.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The span around a whole call.
pub const CALL: &str = "haft.call";
/// The span around a wait.
pub const WAIT: &str = "haft.wait";

/// The operation.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The kind of tool; always a function.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The agent that asked.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The code of a failure; absent without one.
pub const ERROR_TYPE: &str = "error.type";

/// The histogram of attempt durations, in seconds. Its values are those of the spans.
pub const EXECUTE_TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
/// The bucket boundaries of that histogram.
pub const DURATION_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The counter of finished calls, whether or not they ran.
pub const CALLS: &str = "haft.calls";
/// The histogram of approval times, in seconds.
pub const APPROVAL_WAIT: &str = "haft.approval.wait";

/// A name invented by a model is truncated to this many bytes on a span.
const MAX_NAME_BYTES: usize = 128;

/// Returns whether a subscriber wants spans.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: TARGET, Level::INFO)
}

/// Makes the span of a call; `Span::none()` without a subscriber.
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
        // An unknown tool name is text of the model, and may be arbitrarily long.
        "gen_ai.tool.name" = truncate_name(cx.tool_name().as_str()),
        "gen_ai.tool.call.id" = truncate_name(cx.call_id().as_str()),
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

/// Records on the call's span how the call ended.
pub(crate) fn ended(result: &ToolResult, course: &ExecutionStats, policy: Option<&PolicyRecord>) {
    if !is_traced() {
        return;
    }
    let span = Span::current();
    if let Some(failure) = result.failure() {
        record_failure(&span, failure);
    }
    span.record("haft.execution", execution_name(result));
    if let Some(policy) = policy {
        record_verdict(&span, &policy.verdict);
        span.record("haft.answered_by", policy.answered_by.as_deref());
    }
    span.record("haft.attempts", course.attempts);
    span.record("haft.cache", course.cache.map(cache_name));
    span.record("haft.waited_us", u64::try_from(course.waited.as_micros()).unwrap_or(u64::MAX));
    if let Some(cut) = result.truncation() {
        span.record("haft.result.chars", cut.total_chars);
        span.record("haft.result.shown", cut.shown_chars);
    }
}

/// Records on the span of a dropped call that its outcome is unknown.
pub(crate) fn dropped() {
    if is_traced() {
        let span = Span::current();
        span.record("error.type", haft_core::FailureCode::UnknownOutcome.as_str());
        span.record("otel.status_code", "ERROR");
    }
}

/// Wraps a wait in a span of its own.
pub(crate) fn waiting<F: Future>(what: &'static str, wait: F) -> Instrumented<F> {
    let span = if is_traced() {
        tracing::info_span!(
            target: TARGET,
            "haft.wait",
            "otel.name" = %format_args!("haft.wait {what}"),
            "otel.kind" = "internal",
            "haft.wait.for" = what,
        )
    } else {
        Span::none()
    };
    wait.instrument(span)
}

/// Truncates a name.
fn truncate_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

/// Records the failure's code; for a success the status stays unset.
pub(crate) fn record_failure(span: &Span, failure: &Failure) {
    span.record("error.type", failure.code().as_str());
    span.record("otel.status_code", "ERROR");
}

pub(crate) fn record_verdict(span: &Span, verdict: &Verdict) {
    span.record("haft.verdict", Decision::as_str(&verdict.decision));
    span.record("haft.rule", &*verdict.source);
}

fn execution_name(result: &ToolResult) -> &'static str {
    match result.execution() {
        haft_core::Execution::NotStarted => "not_started",
        haft_core::Execution::Completed => "completed",
        haft_core::Execution::Unknown => "unknown",
    }
}

fn cache_name(cache: CacheStatus) -> &'static str {
    match cache {
        CacheStatus::Hit => "hit",
        CacheStatus::Joined => "joined",
        CacheStatus::Miss => "miss",
    }
}
