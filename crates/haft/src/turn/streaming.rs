//! A turn that parses the model's response while it is streamed.
//!
//! In: a provider's body or its events. Each call enters the turn when it is complete, so that
//! read-only calls are often done before the message ends. Out: the assistant message and the
//! message with the results.
//!
//! INVARIANT: a truncated call is answered, and is not run.

use std::{fmt, sync::Arc};

use haft_core::{Error, StopReason};
use haft_dialect::{DecodedResponse, ResponseDecoder, ToolExport};
use serde_json::Value;

use super::scheduler::CallScheduler;
use crate::tool_result::ToolResult;

/// A turn whose response is being streamed. Made by [`Turn::stream`](super::Turn::stream).
pub struct StreamingTurn {
    export: Arc<ToolExport>,
    stream: ResponseDecoder,
    scheduler: CallScheduler,
}

/// The result of a response.
#[derive(Debug)]
#[non_exhaustive]
pub struct TurnOutput {
    /// The model's message, to append to the history. If the provider pairs by id and gave none, or
    /// one twice, it contains the ids that the results use.
    pub message: Value,
    /// The message with the results of all calls, to append after it.
    pub answer: Value,
    /// The results, in the model's order.
    pub results: Vec<ToolResult>,
    /// How the message ended.
    pub stop: StopReason,
    /// The error of the stream, if there was one. Its calls are answered anyway.
    pub problem: Option<Error>,
}

impl StreamingTurn {
    pub(super) fn new(export: Arc<ToolExport>, scheduler: CallScheduler) -> Self {
        Self { stream: export.dialect().stream(), export, scheduler }
    }

    /// Takes a part of the body, split anywhere. Must be called inside a tokio runtime, because
    /// calls may become tasks.
    pub fn feed(&mut self, bytes: &[u8]) {
        for call in self.stream.feed(bytes) {
            self.scheduler.push(self.export.receive_call(call));
        }
    }

    /// Takes one event that a client has already decoded. Must be called inside a tokio runtime.
    pub fn event(&mut self, event: &Value) {
        for call in self.stream.event(event) {
            self.scheduler.push(self.export.receive_call(call));
        }
    }

    /// Ends the response, runs what may run, and returns the two messages to append.
    ///
    /// Dropping the future cancels the turn; its calls still end and are still recorded.
    pub async fn finish(self) -> TurnOutput {
        let Self { export, stream, mut scheduler } = self;
        let mut ended = stream.finish();
        let open = std::mem::take(&mut ended.calls);
        // The end is known before the last calls enter, so that none of them starts by itself.
        scheduler.expect(ended.stop, open.len());
        for call in open {
            scheduler.push(export.receive_call(call));
        }
        let results = scheduler.finish(ended.stop).await;
        let message = ended.assistant_message(&results);
        let answer = ended.reply_context.render_results(&results);
        let DecodedResponse { stop, problem, .. } = ended;
        TurnOutput { message, answer, results, stop, problem }
    }
}

impl fmt::Debug for StreamingTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamingTurn").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}
