//! Metrics of calls, from the runtime's events.
//!
//! The duration of `execute_tool` is that of the attempt and of its span, without waiting time. An
//! unknown tool name is text from the model and would create a time series each, so all of them
//! share one name (bounded cardinality).

use haft::{
    FailureCode,
    events::{Event, EventMeta, Observer},
    telemetry,
};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};

/// The name of all unknown tools.
const UNKNOWN_TOOL: &str = "_other";

/// An observer that records metrics. Made by [`Telemetry::observer`](crate::Telemetry::observer).
#[derive(Debug, Clone)]
pub struct Metrics {
    execute: Histogram<f64>,
    calls: Counter<u64>,
    approval: Histogram<f64>,
}

impl Metrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self {
            execute: meter
                .f64_histogram(telemetry::EXECUTE_TOOL_DURATION)
                .with_unit("s")
                .with_description("How long an attempt at a tool's body took.")
                .with_boundaries(telemetry::DURATION_BUCKETS.to_vec())
                .build(),
            calls: meter
                .u64_counter(telemetry::CALLS)
                .with_unit("{call}")
                .with_description("Finished calls, whether or not the body ran.")
                .build(),
            approval: meter
                .f64_histogram(telemetry::APPROVAL_WAIT)
                .with_unit("s")
                .with_description("How long calls waited for approval.")
                .with_boundaries(telemetry::DURATION_BUCKETS.to_vec())
                .build(),
        }
    }
}

impl Observer for Metrics {
    fn observe(&self, _: &Event) {}

    fn observe_at(&self, at: &EventMeta, event: &Event) {
        match event {
            Event::AttemptFinished { tool_name, failed, took, .. } => {
                let mut attributes = attributes(tool_name.as_str(), *failed);
                attributes.push(KeyValue::new(telemetry::TOOL_TYPE, "function"));
                if let Some(agent) = at.source.agent_path.last() {
                    attributes.push(KeyValue::new(telemetry::AGENT_NAME, agent.clone()));
                }
                self.execute.record(took.as_secs_f64(), &attributes);
            }
            Event::Finished { tool_name, failed, .. } => {
                let is_tool =
                    !matches!(failed, Some(FailureCode::UnknownTool | FailureCode::NotOffered));
                let name = if is_tool { tool_name.as_str() } else { UNKNOWN_TOOL };
                self.calls.add(1, &attributes(name, *failed));
            }
            Event::Answered { waited, .. } => self.approval.record(waited.as_secs_f64(), &[]),
            _ => {}
        }
    }
}

fn attributes(tool: &str, failed: Option<FailureCode>) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::new(telemetry::TOOL_NAME, tool.to_owned())];
    attributes.extend(failed.map(|code| KeyValue::new(telemetry::ERROR_TYPE, code.as_str())));
    attributes
}
