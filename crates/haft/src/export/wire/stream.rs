//! A response that arrives piece by piece.
//!
//! `feed` takes the body as it comes from the network, `event` what a client has decoded already.
//! Each call is given out as soon as it is complete; `finish` says how it all ended and gives the
//! message to echo. What the events mean is each provider's own file; what every body has in common
//! (cutting, limits, errors) is here.
//!
//! INVARIANT: a stream without its end mark, with a call that was never closed, or whose body breaks
//! off inside an event, is not `Done`.

use std::fmt;

use serde_json::Value;

use super::{
    Dialect, MAX_CALLS, ReplyContext,
    asked::Spoken,
    cut::{Cutter, MAX_EVENT, Piece, Spoilt},
    json, worse,
};
use crate::{
    error::{Error, ErrorKind},
    schema::parse,
    tool_result::ToolResult,
    turn::{StopReason, ToolCall},
};

/// The longest body that is read.
const MAX_BODY: usize = 64 << 20;

/// Listens to one provider's events.
pub(super) trait Ear: fmt::Debug + Send + Sync {
    /// Takes one event and gives the calls that it completes. An error spoils the stream.
    fn event(&mut self, event: &Value, give: &mut Vec<Spoken>) -> Result<(), String>;

    /// Ends the stream.
    fn close(self: Box<Self>) -> Closing;
}

/// What an ear knows at the end.
#[derive(Debug)]
pub(super) struct Closing {
    /// The calls that were not given out.
    pub(super) open: Vec<Spoken>,
    /// How the message ended; nothing when its end mark never came.
    pub(super) stop: Option<StopReason>,
    /// The message to echo.
    pub(super) message: Value,
    /// Where the id of each call stands in that message; empty where ids are not paired.
    pub(super) places: Vec<String>,
}

/// A response that is being read while the model writes it. Made by [`Dialect::stream`].
///
/// ```
/// use haft::{Dialect, StopReason};
///
/// let mut stream = Dialect::Ollama.stream();
/// let calls = stream.feed(
///     br#"{"message":{"role":"assistant","tool_calls":[{"function":{"name":"now","arguments":{}}}]}}
/// "#,
/// );
/// assert_eq!(calls[0].name, "now");
/// let more = stream.feed(br#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#);
/// assert!(more.is_empty());
/// assert_eq!(stream.finish().stop, StopReason::Done);
/// ```
#[derive(Debug)]
pub struct ResponseDecoder {
    cutter: Cutter,
    ear: Box<dyn Ear>,
    asked: ReplyContext,
    /// How much was taken so far.
    taken: usize,
    problem: Option<Error>,
}

/// How a stream ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct DecodedResponse {
    /// The calls that had not been given out. They must be answered like all others, and may run
    /// only if the message ended as it should; one that was cut off never lets it.
    pub calls: Vec<ToolCall>,
    /// How the message ended.
    pub stop: StopReason,
    /// The model's message, to be put into the history before the answers.
    pub message: Value,
    /// What the provider waits for, over all calls of the stream.
    pub asked: ReplyContext,
    /// What spoilt the stream, if something did.
    pub problem: Option<Error>,
    places: Vec<String>,
}

impl DecodedResponse {
    /// Returns the message to echo, once the calls are answered: as [`message`](Self::message), with
    /// the ids that haft minted wherever the provider pairs calls and answers by id and gave none, or
    /// gave one twice.
    #[must_use]
    pub fn assistant_message(&self, answers: &[ToolResult]) -> Value {
        let mut message = self.message.clone();
        self.asked.settle(answers, &self.places, &mut message);
        message
    }
}

impl ResponseDecoder {
    pub(super) fn new(dialect: Dialect, ear: Box<dyn Ear>) -> Self {
        // Whoever streams requests is answered with a list of responses.
        let asked = ReplyContext::new(dialect).batch();
        Self { cutter: Cutter::default(), ear, asked, taken: 0, problem: None }
    }

    /// Takes a part of the body, cut anywhere, and returns the calls that it completes.
    ///
    /// Server-sent events and JSON objects one after another are both read. What cannot be read
    /// spoils the stream: nothing more is taken, and [`finish`](Self::finish) says why.
    #[must_use = "the calls that are complete are in what this returns"]
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<ToolCall> {
        let mut give = Vec::new();
        if !self.takes(bytes.len()) {
            return give;
        }
        let mut cutter = std::mem::take(&mut self.cutter);
        let cut = cutter.feed(bytes, |piece| self.piece(&piece, &mut give));
        self.cutter = cutter;
        if let Err(why) = cut {
            self.uncut(why);
        }
        give
    }

    /// Notes that a body could not be cut into events.
    fn uncut(&mut self, why: Spoilt) {
        let (what, hint) = match why {
            Spoilt::TooLarge => {
                return self.spoil(format!("one event is longer than {MAX_EVENT} bytes"));
            }
            Spoilt::NotJson => return self.spoil("it holds something that is no JSON"),
            Spoilt::Binary => {
                ("it is binary", "decode the events and give each to `ResponseDecoder::event`")
            }
            Spoilt::Strange => (
                "it begins neither like events nor like JSON",
                "give the body without compression and without the sizes of HTTP chunks",
            ),
        };
        if self.problem.is_none() {
            self.spoil(what);
            self.problem = self.problem.take().map(|error| error.hint(hint));
        }
    }

    /// Takes one event that a client has decoded already, and returns the calls that it completes.
    #[must_use = "the calls that are complete are in what this returns"]
    pub fn event(&mut self, event: &Value) -> Vec<ToolCall> {
        let mut give = Vec::new();
        match json::weight(event) {
            None => self.spoil("an event is nested too deep"),
            Some(weight) if weight > MAX_EVENT => {
                self.spoil(format!("one event is longer than {MAX_EVENT} bytes"));
            }
            Some(weight) if self.takes(weight) => self.hear(event, &mut give),
            Some(_) => {}
        }
        give
    }

    /// Ends the stream: nothing more will come.
    #[must_use]
    pub fn finish(mut self) -> DecodedResponse {
        let mut calls = Vec::new();
        let (last, mut is_part) = match std::mem::take(&mut self.cutter).end() {
            Ok(end) => end,
            Err(why) => {
                self.uncut(why);
                (None, true)
            }
        };
        if let Some(last) = last
            && self.problem.is_none()
        {
            // An event without its blank line is taken if it is whole, and is a loose end if not.
            match serde_json::from_slice::<Value>(&last.data) {
                Ok(_) => {
                    self.piece(&last, &mut calls);
                    is_part = false;
                }
                Err(_) => is_part = last.data.trim_ascii() != b"[DONE]",
            }
        }
        let Self { ear, mut asked, mut problem, .. } = self;
        let Closing { mut open, stop, message, places } = ear.close();
        let room = MAX_CALLS.saturating_sub(asked.len());
        if open.len() > room {
            problem.get_or_insert_with(|| spoilt(asked.dialect(), super::too_many()));
            open.truncate(room);
        }
        calls.extend(open.into_iter().map(|spoken| asked.note(spoken)));
        let stop = match stop {
            _ if problem.is_some() => StopReason::Unknown,
            // What broke off inside an event may have lost a call, whatever was said before.
            Some(stop) if is_part => worse(stop, StopReason::Truncated),
            Some(stop) => stop,
            None => StopReason::Truncated,
        };
        DecodedResponse { calls, stop, message, asked, problem, places }
    }

    /// Counts what comes, and says whether it is still taken.
    fn takes(&mut self, more: usize) -> bool {
        if self.problem.is_some() {
            return false;
        }
        self.taken = self.taken.saturating_add(more);
        if self.taken > MAX_BODY {
            self.spoil(format!("it is longer than {MAX_BODY} bytes"));
        }
        self.problem.is_none()
    }

    fn piece(&mut self, piece: &Piece, give: &mut Vec<ToolCall>) {
        if self.problem.is_some() || is_done_mark(&piece.data) {
            return;
        }
        match serde_json::from_slice(&piece.data) {
            Ok(_) if has_data(self.asked.dialect()) && has_key_twice(&piece.data) => {
                // FAIL CLOSED: which of the two was meant, and which of them somebody approved?
                self.spoil("a key stands twice in one object");
            }
            Ok(event) => {
                // The text is counted already; values can be far more than their text.
                let more = json::weight(&event).unwrap_or(usize::MAX);
                if self.takes(more.saturating_sub(piece.data.len())) {
                    self.named(&piece.name, event, give);
                }
            }
            Err(error) => {
                self.spoil_with("an event is no JSON", error);
            }
        }
    }

    /// Hears an event whose name stands outside of its data.
    fn named(&mut self, name: &str, event: Value, give: &mut Vec<ToolCall>) {
        if name == "error" {
            return self.fail(&event);
        }
        // A gateway of Bedrock puts the member's name on the event line, and its value in the data.
        let is_member = self.asked.dialect() == Dialect::Bedrock && !name.is_empty();
        match event {
            Value::Object(ref map) if is_member && !map.contains_key(name) => {
                let wrapped = Value::Object([(name.to_owned(), event)].into_iter().collect());
                self.hear(&wrapped, give);
            }
            event => self.hear(&event, give),
        }
    }

    fn hear(&mut self, event: &Value, give: &mut Vec<ToolCall>) {
        let has_error = json::some(event, "error").is_some();
        if json::text(event, "type") == "error"
            || (has_error && self.asked.dialect() != Dialect::Mcp)
        {
            return self.fail(event);
        }
        if is_complete(self.asked.dialect(), event) {
            return self.spoil("it is a complete response, which `Dialect::parse` reads");
        }
        // Some proxies gather several events into one.
        if let Value::Array(events) = event
            && self.asked.dialect() != Dialect::Mcp
        {
            for event in events {
                if self.problem.is_none() {
                    self.hear(event, give);
                }
            }
            return;
        }
        let mut spoken = Vec::new();
        let heard = self.ear.event(event, &mut spoken);
        if self.asked.len() + spoken.len() > MAX_CALLS {
            return self.spoil(super::too_many());
        }
        give.extend(spoken.into_iter().map(|spoken| self.asked.note(spoken)));
        if let Err(why) = heard {
            self.spoil(why);
        }
    }

    /// Notes that the provider itself broke off.
    fn fail(&mut self, event: &Value) {
        let error = json::some(event, "error").unwrap_or(event);
        let said = match error {
            Value::String(text) => text.clone(),
            other => match json::text(other, "message") {
                "" => other.to_string(),
                text => text.to_owned(),
            },
        };
        let said: String = said.chars().take(500).collect();
        self.problem.get_or_insert_with(|| {
            Error::new(
                ErrorKind::BadResponse,
                format!("the provider ended the stream with an error: {said}"),
            )
        });
    }

    fn spoil(&mut self, why: impl fmt::Display) {
        let dialect = self.asked.dialect();
        self.problem.get_or_insert_with(|| spoilt(dialect, why));
        self.cutter = Cutter::default();
    }

    fn spoil_with(&mut self, why: &str, source: serde_json::Error) {
        if self.problem.is_none() {
            self.spoil(format!("{why}: {source}"));
            self.problem = self.problem.take().map(|error| error.because(source));
        }
    }
}

fn spoilt(dialect: Dialect, why: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::BadResponse,
        format!("this is no {dialect} stream that can be read: {why}"),
    )
}

/// Whether this is the mark that some servers end their events with. It says nothing about how the
/// message ended.
fn is_done_mark(data: &[u8]) -> bool {
    matches!(data.trim_ascii(), b"[DONE]" | b"")
}

/// Whether a dialect has arguments as data, so that reading an event reads them.
fn has_data(dialect: Dialect) -> bool {
    use Dialect::{Gemini, GeminiJson, Mcp, Mistral, Ollama};
    matches!(dialect, Gemini | GeminiJson | Mcp | Mistral | Ollama)
}

/// Whether JSON text that can be read says something twice.
fn has_key_twice(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return true };
    let is_twice = |text: &str| parse::object(text, usize::MAX).is_err();
    match text.trim_start().starts_with('{') {
        true => is_twice(text),
        false => is_twice(&format!("{{\"in\":{text}}}")),
    }
}

/// Whether an event is no event but a whole response, of a provider that tells them apart.
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
