//! Decodes a streamed response incrementally.
//!
//! `feed` takes the body as it arrives from the network, `event` takes decoded events. Each call is
//! returned as soon as it is complete; `finish` returns the stop reason and the assistant message.
//! The events are interpreted in each provider's file; framing, size limits and errors are here.
//!
//! Bodies are split by our own code (`framing.rs`): it bounds each event, distinguishes server-sent
//! events from concatenated JSON, and knows whether a body ended inside an event.
//!
//! INVARIANT: a stream without its end marker, with an unclosed call, or whose body ends inside an
//! event, is not `Done`.

use std::fmt;

use haft_core::{Error, ErrorKind, StopReason, ToolCall};
use haft_schema::parse;
use serde_json::Value;

use super::{
    Dialect, MAX_CALLS, RenderResult, ReplyContext,
    framing::{EventSplitter, FramingError, MAX_EVENT_BYTES, RawEvent},
    json,
    pieces::{PieceCollector, StreamPiece, TokenCounts},
    reply_context::DecodedCall,
    worse,
};

/// The longest body that is read.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Interprets the events of one provider.
pub(super) trait EventHandler: fmt::Debug + Send + Sync {
    /// Takes one event and pushes the calls that it completes. An error fails the stream.
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String>;

    /// Ends the stream.
    fn close(self: Box<Self>) -> Closing;
}

/// The state at the end of a stream.
#[derive(Debug)]
pub(super) struct Closing {
    /// The calls that were not returned before.
    pub(super) open: Vec<DecodedCall>,
    /// Why the message ended; `None` without an end marker.
    pub(super) stop: Option<StopReason>,
    /// The assistant message for the history.
    pub(super) message: Value,
    /// JSON pointers to the id of each call in that message; empty where ids are not paired.
    pub(super) places: Vec<String>,
}

/// Decodes a response while the model generates it. Made by [`Dialect::stream`].
///
/// ```
/// use haft_dialect::Dialect;
/// use haft_core::StopReason;
///
/// let mut stream = Dialect::Ollama.stream();
/// let calls = stream.feed(
///     br#"{"message": {"role": "assistant",
///          "tool_calls": [{"function": {"name": "now", "arguments": {}}}]}}
/// "#,
/// );
/// assert_eq!(calls[0].name, "now");
/// let more = stream.feed(br#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#);
/// assert!(more.is_empty());
/// assert_eq!(stream.finish().stop, StopReason::Done);
/// ```
#[derive(Debug)]
pub struct ResponseDecoder {
    splitter: EventSplitter,
    handler: Box<dyn EventHandler>,
    asked: ReplyContext,
    pieces: PieceCollector,
    /// Bytes accepted so far.
    accepted_bytes: usize,
    problem: Option<Error>,
}

/// The end of a stream.
#[derive(Debug)]
#[non_exhaustive]
pub struct DecodedResponse {
    /// The calls that were not returned before. They need a result like all others, and may run
    /// only if the stop reason allows it. A truncated call never allows it.
    pub calls: Vec<ToolCall>,
    /// Why the message ended.
    pub stop: StopReason,
    /// The assistant message, to be put into the history before the results.
    pub message: Value,
    /// What the results must repeat, for all calls of the stream.
    pub reply_context: ReplyContext,
    /// Why the stream failed, if it did.
    pub problem: Option<Error>,
    /// Whether the end event arrived and the body did not end inside an event.
    pub is_complete: bool,
    places: Vec<String>,
}

impl DecodedResponse {
    /// Returns the assistant message for the history: [`message`](Self::message), with the ids that
    /// haft assigned where the provider pairs calls and results by id and gave no id, or gave one
    /// twice.
    #[must_use]
    pub fn assistant_message<R: RenderResult>(&self, results: &[R]) -> Value {
        let mut message = self.message.clone();
        self.reply_context.write_new_ids(results, &self.places, &mut message);
        message
    }
}

impl ResponseDecoder {
    pub(super) fn new(dialect: Dialect, handler: Box<dyn EventHandler>) -> Self {
        // A client that streams requests gets a list of responses.
        let asked = ReplyContext::new(dialect).batch();
        Self {
            splitter: EventSplitter::default(),
            handler,
            asked,
            pieces: PieceCollector::default(),
            accepted_bytes: 0,
            problem: None,
        }
    }

    /// Collects what a host shows while the response is generated; see
    /// [`take_pieces`](Self::take_pieces).
    #[must_use]
    pub fn with_pieces(mut self) -> Self {
        self.pieces.enable();
        self
    }

    /// Takes the pieces since the last time: text, starts of calls, parts of their arguments.
    #[must_use]
    pub fn take_pieces(&mut self) -> Vec<StreamPiece> {
        self.pieces.take()
    }

    /// Returns the tokens as the provider has reported them so far.
    #[must_use]
    pub fn token_counts(&self) -> Option<TokenCounts> {
        self.pieces.counts()
    }

    /// Returns whether the stream has failed: further input is ignored, so that a client need not
    /// read the rest.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.problem.is_some()
    }

    /// Takes a chunk of the body, split anywhere, and returns the calls that it completes.
    ///
    /// It reads server-sent events and concatenated JSON objects. Invalid input fails the stream:
    /// further input is ignored, and [`finish`](Self::finish) returns the error.
    #[must_use = "the completed calls are returned"]
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<ToolCall> {
        let mut ready = Vec::new();
        if !self.accept_bytes(bytes.len()) {
            return ready;
        }
        let mut splitter = std::mem::take(&mut self.splitter);
        let split = splitter.feed(bytes, |piece| self.raw_event(&piece, &mut ready));
        self.splitter = splitter;
        if let Err(why) = split {
            self.framing_failed(why);
        }
        ready
    }

    /// Records that a body could not be split into events.
    fn framing_failed(&mut self, why: FramingError) {
        let (what, hint) = match why {
            FramingError::TooLarge => {
                return self.reject(format!("one event is longer than {MAX_EVENT_BYTES} bytes"));
            }
            FramingError::NotJson => return self.reject("it contains invalid JSON"),
            FramingError::Binary => {
                ("it is binary", "decode the events and pass each to `ResponseDecoder::event`")
            }
            FramingError::Unknown => (
                "it starts neither with server-sent events nor with JSON",
                "pass the body without compression and without HTTP chunk sizes",
            ),
        };
        if self.problem.is_none() {
            self.reject(what);
            self.problem = self.problem.take().map(|error| error.hint(hint));
        }
    }

    /// Takes one decoded event, and returns the calls that it completes.
    #[must_use = "the completed calls are returned"]
    pub fn event(&mut self, event: &Value) -> Vec<ToolCall> {
        let mut ready = Vec::new();
        match json::weight(event) {
            None => self.reject("an event is nested too deep"),
            Some(weight) if weight > MAX_EVENT_BYTES => {
                self.reject(format!("one event is longer than {MAX_EVENT_BYTES} bytes"));
            }
            Some(weight) if self.accept_bytes(weight) => self.handle(event, &mut ready),
            Some(_) => {}
        }
        ready
    }

    /// Ends the stream.
    #[must_use]
    pub fn finish(mut self) -> DecodedResponse {
        let mut calls = Vec::new();
        let (last, mut is_part) = match std::mem::take(&mut self.splitter).end() {
            Ok(end) => end,
            Err(why) => {
                self.framing_failed(why);
                (None, true)
            }
        };
        if let Some(last) = last
            && self.problem.is_none()
        {
            // A last event without its blank line is accepted if it is complete; otherwise it is
            // truncated.
            match serde_json::from_slice::<Value>(&last.data) {
                Ok(_) => {
                    self.raw_event(&last, &mut calls);
                    is_part = false;
                }
                Err(_) => is_part = last.data.trim_ascii() != b"[DONE]",
            }
        }
        let Self { handler, mut asked, mut problem, .. } = self;
        let Closing { mut open, stop, message, places } = handler.close();
        let capacity = MAX_CALLS.saturating_sub(asked.len());
        if open.len() > capacity {
            problem.get_or_insert_with(|| stream_error(asked.dialect(), super::too_many()));
            open.truncate(capacity);
        }
        calls.extend(open.into_iter().map(|decoded| asked.note(decoded)));
        let is_complete = stop.is_some() && !is_part && problem.is_none();
        let stop = match stop {
            _ if problem.is_some() => StopReason::Unknown,
            // A body that ends inside an event may have lost a call, whatever came before.
            Some(stop) if is_part => worse(stop, StopReason::Truncated),
            Some(stop) => stop,
            None => StopReason::Truncated,
        };
        DecodedResponse { calls, stop, message, reply_context: asked, problem, is_complete, places }
    }

    /// Counts input, and returns whether it is still accepted.
    fn accept_bytes(&mut self, more: usize) -> bool {
        if self.problem.is_some() {
            return false;
        }
        self.accepted_bytes = self.accepted_bytes.saturating_add(more);
        if self.accepted_bytes > MAX_BODY_BYTES {
            self.reject(format!("it is longer than {MAX_BODY_BYTES} bytes"));
        }
        self.problem.is_none()
    }

    fn raw_event(&mut self, piece: &RawEvent, ready: &mut Vec<ToolCall>) {
        if self.problem.is_some() || is_done_mark(&piece.data) {
            return;
        }
        match serde_json::from_slice(&piece.data) {
            Ok(_) if has_json_arguments(self.asked.dialect()) && has_duplicate_key(&piece.data) => {
                // FAIL CLOSED: duplicate keys make it ambiguous which value the model sent and
                // which one was approved.
                self.reject("an object has a duplicate key");
            }
            Ok(event) => {
                // The text is counted already; parsed values can take far more memory than their
                // text.
                let more = json::weight(&event).unwrap_or(usize::MAX);
                if self.accept_bytes(more.saturating_sub(piece.data.len())) {
                    self.named_event(&piece.name, event, ready);
                }
            }
            Err(error) => {
                self.reject_with("an event is not valid JSON", error);
            }
        }
    }

    /// Handles an event whose name is outside of its data.
    fn named_event(&mut self, name: &str, event: Value, ready: &mut Vec<ToolCall>) {
        if name == "error" {
            return self.fail(&event);
        }
        // A gateway of Bedrock puts the member's name on the event line, and its value in the data.
        let is_member = self.asked.dialect() == Dialect::Bedrock && !name.is_empty();
        match event {
            Value::Object(ref map) if is_member && !map.contains_key(name) => {
                let wrapped = Value::Object([(name.to_owned(), event)].into_iter().collect());
                self.handle(&wrapped, ready);
            }
            event => self.handle(&event, ready),
        }
    }

    fn handle(&mut self, event: &Value, ready: &mut Vec<ToolCall>) {
        let has_error = json::some(event, "error").is_some();
        if json::text(event, "type") == "error"
            || (has_error && self.asked.dialect() != Dialect::Mcp)
        {
            return self.fail(event);
        }
        if is_complete(self.asked.dialect(), event) {
            return self.reject("it is a complete response; use `Dialect::parse`");
        }
        // Some proxies batch several events into one.
        if let Value::Array(events) = event
            && self.asked.dialect() != Dialect::Mcp
        {
            for event in events {
                if self.problem.is_none() {
                    self.handle(event, ready);
                }
            }
            return;
        }
        self.pieces.observe(self.asked.dialect(), event);
        let mut decoded = Vec::new();
        let handled = self.handler.event(event, &mut decoded);
        if self.asked.len() + decoded.len() > MAX_CALLS {
            return self.reject(super::too_many());
        }
        ready.extend(decoded.into_iter().map(|decoded| self.asked.note(decoded)));
        if let Err(why) = handled {
            self.reject(why);
        }
    }

    /// Records an error event of the provider.
    fn fail(&mut self, event: &Value) {
        let error = json::some(event, "error").unwrap_or(event);
        let message = match error {
            Value::String(text) => text.clone(),
            other => match json::text(other, "message") {
                "" => other.to_string(),
                text => text.to_owned(),
            },
        };
        let message: String = message.chars().take(500).collect();
        self.problem.get_or_insert_with(|| {
            Error::new(
                ErrorKind::BadResponse,
                format!("the provider ended the stream with an error: {message}"),
            )
        });
    }

    fn reject(&mut self, why: impl fmt::Display) {
        let dialect = self.asked.dialect();
        self.problem.get_or_insert_with(|| stream_error(dialect, why));
        self.splitter = EventSplitter::default();
    }

    fn reject_with(&mut self, why: &str, source: serde_json::Error) {
        if self.problem.is_none() {
            self.reject(format!("{why}: {source}"));
            self.problem = self.problem.take().map(|error| error.because(source));
        }
    }
}

fn stream_error(dialect: Dialect, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::BadResponse, format!("cannot decode this {dialect} stream: {why}"))
}

/// Whether this is the marker that some servers end their events with. It does not give a stop
/// reason.
fn is_done_mark(data: &[u8]) -> bool {
    matches!(data.trim_ascii(), b"[DONE]" | b"")
}

/// Whether a dialect sends arguments as JSON values, so that parsing an event parses them.
fn has_json_arguments(dialect: Dialect) -> bool {
    use Dialect::{Gemini, GeminiJson, Mcp, Mistral, Ollama};
    matches!(dialect, Gemini | GeminiJson | Mcp | Mistral | Ollama)
}

/// Whether valid JSON text has a duplicate key.
fn has_duplicate_key(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return true };
    let has_duplicate = |text: &str| parse::object(text, usize::MAX).is_err();
    if text.trim_start().starts_with('{') {
        has_duplicate(text)
    } else {
        has_duplicate(&format!("{{\"in\":{text}}}"))
    }
}

/// Whether an event is a complete response, for the dialects where these differ.
fn is_complete(dialect: Dialect, event: &Value) -> bool {
    match dialect {
        Dialect::Anthropic => json::text(event, "type") == "message",
        Dialect::OpenAiResponses => json::text(event, "object") == "response",
        Dialect::OpenAiChat | Dialect::Mistral => json::list(event, "choices")
            .iter()
            .any(|choice| json::some(choice, "message").is_some() && choice.get("delta").is_none()),
        Dialect::Bedrock => event.pointer("/output/message").is_some(),
        _ => false,
    }
}
