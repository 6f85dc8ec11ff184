//! Takes a provider's response into a reply, streamed or whole.
//!
//! The decoder of the dialect finds the calls; the pieces are only shown.

use haft_core::{CallId, Error, StopReason, ToolCall, ToolName};
use haft_dialect::{
    ResponseDecoder, StreamPiece, TokenCounts, ToolExport,
    history::{AssistantPart, ContentPart, Message},
};
use serde_json::Value;

use super::{ModelPiece, Reply, argument_text};
use crate::{
    agent::{event::AgentEvent, model::Usage},
    tool_result::ToolResult,
};

impl Reply {
    /// Takes a part of a streamed response in the model's format
    /// ([`ModelInfo::dialect`](crate::agent::ModelInfo::dialect)), split anywhere. After the last
    /// one, return [`end`](Self::end).
    pub fn feed(&mut self, bytes: &[u8]) {
        self.decode(|decoder| decoder.feed(bytes));
    }

    /// Takes one event of a stream that the client has already decoded. After the last one, return
    /// [`end`](Self::end).
    pub fn event(&mut self, event: &Value) {
        self.decode(|decoder| decoder.event(event));
    }

    /// Returns whether the message is refused already: it cannot be decoded, or it is too long. A
    /// client need not read the rest of the response; [`end`](Self::end) returns why.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.problem.is_some() || self.decoder.as_ref().is_some_and(ResponseDecoder::has_failed)
    }

    /// Returns whether a streamed response that was ended had no end event: the connection was cut
    /// off, or the server stopped.
    #[must_use]
    pub fn was_cut_off(&self) -> bool {
        self.is_cut
    }

    /// Ends a streamed response and returns how it ended. An empty one is truncated.
    ///
    /// # Errors
    /// Fails if the stream could not be decoded.
    pub fn end(&mut self) -> Result<StopReason, Error> {
        let decoder = self.decoder.take().unwrap_or_else(|| self.export.dialect().stream());
        let counts = decoder.token_counts();
        let ended = decoder.finish();
        if let Some(counts) = counts {
            self.take_counts(counts);
        }
        self.decoded = decoded_parts(&self.export, &ended.message);
        self.is_cut = !ended.is_complete;
        self.leave_over(ended.calls);
        match ended.problem {
            Some(problem) => Err(problem),
            None => Ok(ended.stop),
        }
    }

    /// Takes a whole response in the model's format, and returns how it ended.
    ///
    /// # Errors
    /// Fails if it is not a response of this dialect.
    pub fn response(&mut self, response: &Value) -> Result<StopReason, Error> {
        let dialect = self.export.dialect();
        let parsed = dialect.parse(response)?;
        if let Some(counts) = dialect.token_counts(response) {
            self.take_counts(counts);
        }
        let message = parsed.assistant_message::<ToolResult>(response, &[]);
        self.decoded = decoded_parts(&self.export, &message);
        for text in self.decoded.as_deref().map(texts_of).unwrap_or_default() {
            self.text(&text);
        }
        self.leave_over(parsed.calls);
        Ok(parsed.stop)
    }

    /// Takes what a decoder found: pieces to show, calls, tokens.
    fn decode(&mut self, step: impl FnOnce(&mut ResponseDecoder) -> Vec<ToolCall>) {
        let dialect = self.export.dialect();
        let decoder = self.decoder.get_or_insert_with(|| dialect.stream().with_pieces());
        let calls = step(decoder);
        let (pieces, counts) = (decoder.take_pieces(), decoder.token_counts());
        for piece in pieces {
            match piece {
                StreamPiece::Text(text) => self.text(&text),
                StreamPiece::CallStart { id, name } => {
                    let (call, tool) = (CallId::from(id), ToolName::from(name));
                    self.shown.push(call.clone());
                    self.events.emit(|| AgentEvent::CallStarted { call, tool });
                }
                StreamPiece::Arguments { id, text } => {
                    let call = CallId::from(id);
                    self.events.emit(|| AgentEvent::Arguments { call, text });
                }
                _ => {}
            }
        }
        if let Some(counts) = counts {
            self.take_counts(counts);
        }
        for call in calls {
            self.decoded_call(call);
        }
    }

    fn take_counts(&mut self, counts: TokenCounts) {
        self.usage = Some(Usage {
            input_tokens: counts.input,
            cached_input_tokens: counts.cached_input,
            cache_write_tokens: counts.cache_write,
            output_tokens: counts.output,
        });
    }

    /// A call that a decoder completed. What was already shown of it is not shown again.
    fn decoded_call(&mut self, call: ToolCall) {
        let ToolCall { id, name, arguments, .. } = call;
        if !self.shown.contains(&id) {
            return self.call(id, name, arguments);
        }
        self.log(|| ModelPiece::CallStart { id: id.clone(), name: name.clone() });
        let text = argument_text(&arguments);
        self.log(|| ModelPiece::Arguments { id: id.clone(), text });
        self.end_of(&id, name, arguments);
    }

    /// Keeps calls until the stop reason is known.
    fn leave_over(&mut self, calls: Vec<ToolCall>) {
        for call in &calls {
            let (id, name) = (call.id.clone(), call.name.clone());
            let text = argument_text(&call.arguments);
            self.log(|| ModelPiece::CallStart { id: id.clone(), name });
            self.log(|| ModelPiece::Arguments { id: id.clone(), text });
            self.log(|| ModelPiece::CallEnd { id });
        }
        self.left_over.extend(calls);
    }
}

/// The texts of a message.
fn texts_of(parts: &[AssistantPart]) -> Vec<String> {
    let texts = parts.iter().filter_map(|part| match part {
        AssistantPart::Part(ContentPart::Text { text, .. }) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// The parts of a message as its provider wrote it; `None` if it cannot be read.
fn decoded_parts(export: &ToolExport, message: &Value) -> Option<Vec<AssistantPart>> {
    let list = match message {
        Value::Array(list) => Value::Array(list.clone()),
        one => Value::Array(vec![one.clone()]),
    };
    let read = export.dialect().read_history(&list).ok()?;
    let mut parts = Vec::new();
    for message in read.messages {
        let Message::Assistant(more) = message else { return None };
        parts.extend(more);
    }
    Some(parts)
}
