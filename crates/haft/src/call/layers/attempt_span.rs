//! The span and the event of one attempt at a body.

use std::{borrow::Cow, time::Instant};

use haft_core::Failure;
use tracing::{Span, field::Empty, span::EnteredSpan};

use super::{Outcome, Work};
use crate::{
    event::Event,
    secrets::RuntimeRedactor,
    telemetry::{EXECUTE_TOOL, TARGET, is_traced, record_failure, record_verdict},
    text::nth_char,
};

/// Content on a span is truncated to this many characters.
const MAX_CONTENT_CHARS: usize = 8_192;

/// One attempt, as observers and subscribers see it.
pub(crate) struct AttemptSpan {
    span: Span,
    began: Instant,
}

impl AttemptSpan {
    /// Starts an attempt; `None` without an observer and a subscriber.
    pub(crate) fn start(work: &Work<'_>) -> Option<Box<Self>> {
        let inner = &work.turn.run.inner;
        if !inner.events.has_observer() && !is_traced() {
            return None;
        }
        let span = if is_traced() { execute_span(work) } else { Span::none() };
        Some(Box::new(Self { span, began: inner.clock.now() }))
    }

    /// Enters the span, for a poll of the body.
    pub(crate) fn enter(&self) -> EnteredSpan {
        self.span.clone().entered()
    }

    /// Records and emits how the attempt ended.
    pub(crate) fn end(self, work: &Work<'_>, outcome: &Outcome) {
        let inner = &work.turn.run.inner;
        let took = inner.clock.now().saturating_duration_since(self.began);
        match outcome {
            Err(failure) => record_failure(&self.span, failure),
            Ok(output) if inner.config.trace_content && !self.span.is_disabled() => {
                let text = output.as_text();
                self.span
                    .record("gen_ai.tool.call.result", &*prepare_content(&inner.redactor, &text));
            }
            Ok(_) => {}
        }
        drop(self.span);
        work.turn.emit(|| Event::AttemptFinished {
            call: work.cx.call_id().clone(),
            tool_name: work.cx.tool_name().clone(),
            attempt: work.cx.attempt(),
            failed: outcome.as_ref().err().map(Failure::code),
            took,
        });
    }
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
        "haft.class" = class_name(work.permitted.validated().profile().class),
        "haft.verdict" = Empty,
        "haft.rule" = Empty,
    );
    let inner = &work.turn.run.inner;
    if !span.is_disabled() {
        record_verdict(&span, &inner.redactor.verdict(work.permitted.verdict().clone()));
    }
    if inner.config.trace_content && !span.is_disabled() {
        let admitted = work.permitted.validated();
        let arguments =
            inner.redactor.arguments(admitted.tool().input(), admitted.arguments()).to_string();
        span.record("gen_ai.tool.call.arguments", &*prepare_content(&inner.redactor, &arguments));
    }
    span
}

/// Sanitizes, redacts and truncates text for a span. It truncates last, because half a secret would
/// not be recognized.
fn prepare_content<'a>(redactor: &RuntimeRedactor, text: &'a str) -> Cow<'a, str> {
    let clean = redactor.sanitize_and_redact(text).0.map_or(Cow::Borrowed(text), Cow::Owned);
    let end = nth_char(&clean, MAX_CONTENT_CHARS);
    if end < clean.len() { Cow::Owned(clean[..end].to_owned()) } else { clean }
}

fn class_name(class: haft_core::ConcurrencyClass) -> &'static str {
    match class {
        haft_core::ConcurrencyClass::ReadOnly => "read_only",
        haft_core::ConcurrencyClass::WriteExclusive => "write_exclusive",
        haft_core::ConcurrencyClass::Unsafe => "unsafe",
    }
}
