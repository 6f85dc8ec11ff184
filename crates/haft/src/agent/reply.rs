//! Takes the pieces of a model's message: text, calls, usage. Each call enters the turn's scheduler
//! when its arguments are complete, so that read-only tools run while the model is still writing.
//!
//! In: typed pieces, or a provider's response (streamed or whole). Out: the parts of the assistant
//! message, in order, and one result per call.
//! INVARIANT: a call that was begun and not ended is answered, and is not run.

mod decode;

use std::{collections::HashSet, fmt, sync::Arc};

use haft_core::{Arguments, CallId, Error, ErrorKind, StopReason, ToolCall, ToolName};
use haft_dialect::{
    ResponseDecoder, ToolExport,
    history::{AssistantPart, ContentPart, PastCall},
};
use haft_schema::parse;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    event::{AgentEvent, EventSink},
    model::Usage,
};
use crate::{text::estimate_tokens, turn::CallScheduler};

/// The maximum number of calls in one message.
const MAX_CALLS: usize = 4_096;
/// The maximum size of one message.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// A piece of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "piece", rename_all = "snake_case")]
pub enum ModelPiece {
    /// More text.
    Text {
        /// The text.
        text: String,
    },
    /// A call begins.
    CallStart {
        /// Its id; empty if the provider has none.
        id: CallId,
        /// The tool.
        name: ToolName,
    },
    /// More of the arguments of a call.
    Arguments {
        /// The call.
        id: CallId,
        /// The next part of the JSON text.
        text: String,
    },
    /// The arguments of a call are complete.
    CallEnd {
        /// The call.
        id: CallId,
    },
    /// The tokens so far. A later one replaces it.
    Usage(Usage),
}

/// A call whose arguments are still being written.
struct OpenCall {
    id: CallId,
    name: ToolName,
    arguments: String,
}

/// Takes the message of a model. A [`Model`](super::Model) writes into it.
pub struct Reply {
    scheduler: Option<CallScheduler>,
    export: Arc<ToolExport>,
    events: EventSink,
    parts: Vec<AssistantPart>,
    /// Where the calls are among the parts.
    calls: Vec<usize>,
    /// The ids of the whole conversation.
    ids: HashSet<CallId, haft_core::host::RandomState>,
    turn: u32,
    open: Vec<OpenCall>,
    /// Calls that the end of a stream left over; they enter when the stop reason is known.
    left_over: Vec<ToolCall>,
    decoder: Option<ResponseDecoder>,
    /// Calls of a streamed response whose start was shown.
    shown: Vec<CallId>,
    /// The parts as the provider wrote them, with fields that only it understands.
    decoded: Option<Vec<AssistantPart>>,
    usage: Option<Usage>,
    problem: Option<Error>,
    bytes: usize,
    /// Whether a streamed response ended without its end event.
    is_cut: bool,
    /// Whether no call of this message may run.
    holds_calls: bool,
    /// The pieces, if they are recorded.
    log: Option<Vec<ModelPiece>>,
}

impl Reply {
    pub(super) fn new(
        scheduler: CallScheduler,
        export: Arc<ToolExport>,
        events: EventSink,
        ids: HashSet<CallId, haft_core::host::RandomState>,
        turn: u32,
    ) -> Self {
        Self {
            scheduler: Some(scheduler),
            export,
            events,
            parts: Vec::new(),
            calls: Vec::new(),
            ids,
            turn,
            open: Vec::new(),
            left_over: Vec::new(),
            decoder: None,
            shown: Vec::new(),
            decoded: None,
            usage: None,
            problem: None,
            bytes: 0,
            is_cut: false,
            holds_calls: false,
            log: None,
        }
    }

    /// Keeps the pieces, so that they can be recorded.
    pub(super) fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    pub(super) fn take_log(&mut self) -> Vec<ModelPiece> {
        self.log.take().unwrap_or_default()
    }

    /// Keeps the calls of this message from running: the run is about to end.
    pub(super) fn hold_calls(&mut self) {
        self.holds_calls = true;
    }

    /// Returns whether a provider's response is being decoded.
    pub(super) fn is_decoding(&self) -> bool {
        self.decoder.is_some()
    }

    /// Returns how many calls are complete.
    pub(super) fn calls_so_far(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn has_usage(&self) -> bool {
        self.usage.is_some()
    }

    /// Takes a piece.
    pub fn piece(&mut self, piece: ModelPiece) {
        match piece {
            ModelPiece::Text { text } => self.text(&text),
            ModelPiece::CallStart { id, name } => self.call_start(id, name),
            ModelPiece::Arguments { id, text } => self.arguments(&id, &text),
            ModelPiece::CallEnd { id } => self.call_end(&id),
            ModelPiece::Usage(usage) => self.usage(usage),
        }
    }

    /// Takes more text.
    pub fn text(&mut self, text: &str) {
        if text.is_empty() || !self.accept(text.len()) {
            return;
        }
        self.log(|| ModelPiece::Text { text: text.to_owned() });
        self.events.emit(|| AgentEvent::Text { text: text.to_owned() });
        match self.parts.last_mut() {
            Some(AssistantPart::Part(ContentPart::Text { text: last, provider_fields: None })) => {
                last.push_str(text);
            }
            _ => self.parts.push(ContentPart::text(text).into()),
        }
    }

    /// Takes a block that only the provider understands, such as reasoning. It is sent back to it
    /// unchanged.
    pub fn opaque(&mut self, block: Value) {
        let dialect = self.export.dialect();
        self.parts.push(ContentPart::Opaque { dialect, value: block }.into());
    }

    /// Takes a whole call. It starts at once if it is read-only and needs no approval.
    pub fn call(
        &mut self,
        id: impl Into<CallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<Arguments>,
    ) {
        let (id, name, arguments) = (id.into(), name.into(), arguments.into());
        self.begin(&id, &name);
        if self.log.is_some() || self.events.is_open() {
            self.more(&id, &argument_text(&arguments));
        }
        self.end_of(&id, name, arguments);
    }

    /// Takes the start of a call.
    pub fn call_start(&mut self, id: impl Into<CallId>, name: impl Into<ToolName>) {
        let (id, name) = (id.into(), name.into());
        if self.open.len() >= MAX_CALLS {
            return self.fail(format!("it has more than {MAX_CALLS} calls"));
        }
        self.begin(&id, &name);
        self.open.push(OpenCall { id, name, arguments: String::new() });
    }

    /// Takes more of the arguments of a call that was started.
    pub fn arguments(&mut self, id: &CallId, text: &str) {
        if !self.accept(text.len()) {
            return;
        }
        self.more(id, text);
        match self.open.iter_mut().rev().find(|call| call.id == *id) {
            Some(call) => call.arguments.push_str(text),
            None => self.fail(format!("it has arguments for the call `{id}`, which was not begun")),
        }
    }

    /// Takes the end of a call. It starts at once if it is read-only and needs no approval.
    pub fn call_end(&mut self, id: &CallId) {
        match self.open.iter().rposition(|call| call.id == *id) {
            Some(at) => {
                let call = self.open.remove(at);
                self.end_of(&call.id, call.name, Arguments::Text(call.arguments));
            }
            None => self.fail(format!("it ends the call `{id}`, which was not begun")),
        }
    }

    /// Takes the tokens of this request and its response so far.
    pub fn usage(&mut self, usage: Usage) {
        self.log(|| ModelPiece::Usage(usage));
        self.usage = Some(usage);
    }

    fn begin(&mut self, id: &CallId, name: &ToolName) {
        self.log(|| ModelPiece::CallStart { id: id.clone(), name: name.clone() });
        self.events.emit(|| AgentEvent::CallStarted { call: id.clone(), tool: name.clone() });
    }

    fn more(&mut self, id: &CallId, text: &str) {
        self.log(|| ModelPiece::Arguments { id: id.clone(), text: text.to_owned() });
        self.events.emit(|| AgentEvent::Arguments { call: id.clone(), text: text.to_owned() });
    }

    /// A call is complete: it enters the turn.
    fn end_of(&mut self, id: &CallId, name: ToolName, arguments: Arguments) {
        self.log(|| ModelPiece::CallEnd { id: id.clone() });
        if self.calls.len() >= MAX_CALLS {
            return self.fail(format!("it has more than {MAX_CALLS} calls"));
        }
        if self.holds_calls {
            return self.left_over.push(ToolCall::new(id.clone(), name, arguments));
        }
        let call = self.place(id, name, arguments);
        self.events
            .emit(|| AgentEvent::CallRequested { call: call.id.clone(), tool: call.name.clone() });
        let call = self.export.receive_call(call);
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.push(call);
        }
    }

    /// Adds a call to the message, with an id that no earlier message has.
    fn place(&mut self, id: &CallId, name: ToolName, arguments: Arguments) -> ToolCall {
        // Some servers count their calls from zero in every message.
        let is_taken = !id.as_str().is_empty() && self.ids.contains(id);
        let id = if is_taken { self.fresh_id() } else { id.clone() };
        self.calls.push(self.parts.len());
        let past = PastCall::new(id.clone(), name.clone(), kept_arguments(&arguments));
        self.parts.push(past.into());
        ToolCall::new(id, name, arguments)
    }

    fn fresh_id(&self) -> CallId {
        let ids = (self.calls.len() + 1..).map(|n| format!("haft-{}-{n}", self.turn));
        ids.map(CallId::from).find(|id| !self.ids.contains(id)).unwrap_or_default()
    }

    /// Counts the bytes of the message; returns whether it may go on.
    fn accept(&mut self, more: usize) -> bool {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > MAX_MESSAGE_BYTES {
            self.fail(format!("it is longer than {MAX_MESSAGE_BYTES} bytes"));
        }
        self.problem.is_none()
    }

    fn fail(&mut self, why: impl fmt::Display) {
        self.problem.get_or_insert_with(|| {
            Error::new(ErrorKind::BadResponse, format!("the model's message is refused: {why}"))
        });
    }

    fn log(&mut self, piece: impl FnOnce() -> ModelPiece) {
        if let Some(log) = &mut self.log {
            log.push(piece());
        }
    }

    /// Returns the tokens: as reported, or estimated for a request of so many.
    pub(super) fn counted(&self, request_tokens: u64) -> Usage {
        self.usage.unwrap_or_else(|| {
            let arguments = |part: &AssistantPart| match part {
                AssistantPart::Call(call) => match &call.arguments {
                    Arguments::Text(text) => text.len(),
                    Arguments::Json(json) => json.to_string().len(),
                },
                AssistantPart::Part(ContentPart::Text { text, .. }) => text.len(),
                AssistantPart::Part(_) => 0,
            };
            let bytes = self.parts.iter().map(arguments).sum();
            Usage {
                input_tokens: request_tokens,
                output_tokens: estimate_tokens(bytes),
                ..Usage::default()
            }
        })
    }

    /// Ends the message. Returns what remains to be done and the problem, if there was one.
    pub(super) fn finish(mut self, ended: Result<StopReason, Error>) -> FinishedReply {
        let mut problem = self.problem.take();
        let mut stop = match ended {
            Ok(stop) if problem.is_none() => stop,
            Ok(_) => StopReason::Unknown,
            Err(error) => {
                problem.get_or_insert(error);
                StopReason::Unknown
            }
        };
        if !self.open.is_empty() && stop == StopReason::Done {
            stop = StopReason::Truncated;
        }
        if self.holds_calls && !self.left_over.is_empty() && stop == StopReason::Done {
            stop = StopReason::Unknown;
        }
        let open = std::mem::take(&mut self.open);
        let open = open.into_iter().map(|call| ToolCall::new(call.id, call.name, call.arguments));
        let rest: Vec<ToolCall> = open.chain(std::mem::take(&mut self.left_over)).collect();
        let mut scheduler = self.scheduler.take();
        if let Some(scheduler) = &mut scheduler {
            // The end is known before the last calls enter, so that none of them starts by itself.
            scheduler.expect(stop, rest.len());
        }
        for call in rest.into_iter().take(MAX_CALLS - self.calls.len().min(MAX_CALLS)) {
            let call = self.place(&call.id, call.name, call.arguments);
            self.events.emit(|| AgentEvent::CallRequested {
                call: call.id.clone(),
                tool: call.name.clone(),
            });
            if let Some(scheduler) = &mut scheduler {
                scheduler.push(self.export.receive_call(call));
            }
        }
        let is_call = |part: &AssistantPart| matches!(part, AssistantPart::Call(_));
        let fits = |parts: &Vec<AssistantPart>| {
            parts.iter().filter(|part| is_call(part)).count() == self.calls.len()
        };
        // What the provider wrote has fields that it wants back.
        let parts = self.decoded.take().filter(fits).unwrap_or(self.parts);
        FinishedReply { scheduler, parts, ids: self.ids, turn: self.turn, stop, problem }
    }
}

/// A message that has ended; its calls may still run.
pub(super) struct FinishedReply {
    pub(super) scheduler: Option<CallScheduler>,
    pub(super) parts: Vec<AssistantPart>,
    pub(super) ids: HashSet<CallId, haft_core::host::RandomState>,
    pub(super) turn: u32,
    pub(super) stop: StopReason,
    pub(super) problem: Option<Error>,
}

/// The arguments as the history keeps them: JSON, unless parsing fails or loses something.
fn kept_arguments(arguments: &Arguments) -> Arguments {
    match arguments {
        Arguments::Text(text) => match parse::object(text, MAX_MESSAGE_BYTES) {
            Ok(map) => Arguments::Json(Value::Object(map)),
            Err(_) => arguments.clone(),
        },
        Arguments::Json(_) => arguments.clone(),
    }
}

fn argument_text(arguments: &Arguments) -> String {
    match arguments {
        Arguments::Text(text) => text.clone(),
        Arguments::Json(json) => json.to_string(),
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("parts", &self.parts.len())
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}
