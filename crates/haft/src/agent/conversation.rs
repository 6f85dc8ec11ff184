//! The conversation of a run: its history, the ids in it, and about how many tokens it has.
//!
//! INVARIANT: a message of the model enters the history together with the results of all its calls,
//! one each, under ids that no earlier call has.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{Arguments, Block, CallId, Label, RunId, ToolName};
use haft_dialect::{
    ToolExport,
    history::{AssistantPart, ContentPart, Media, MediaSource, Message, PastResult, Transcript},
};

use super::{
    event::{AgentEvent, EventSink},
    model::{ModelInfo, Usage},
    model_policy::ApprovedReasons,
    reply::FinishedReply,
    result::{CallSummary, PendingCall, RunStatus, RunUsage},
    saved::{OpenTurn, SavedRun},
};
use crate::{
    instructions, memory_size::memory_size_of, registry::ToolSnapshot, run::Run,
    text::estimate_tokens, tool_result::ToolResult,
};

/// The ids of all calls of a conversation.
pub(super) type CallIds = HashSet<CallId, haft_core::host::RandomState>;

/// The state of a run between two turns.
pub(super) struct Conversation {
    pub(super) run: Run,
    pub(super) history: Transcript,
    pub(super) ids: CallIds,
    /// What was used, without the time since `since`.
    pub(super) usage: RunUsage,
    /// When the work on the last message began, or ended.
    since: Instant,
    is_working: bool,
    /// The text of the model's last message.
    pub(super) text: String,
    /// The calls since the last message of the user.
    pub(super) executions: Vec<CallSummary>,
    pub(super) labels: Vec<(CallId, Label)>,
    /// The fingerprint of the tools that were offered last.
    tools: String,
    /// The export of these tools; the same one has the same fingerprint.
    offered: Option<Arc<ToolExport>>,
    pub(super) open: Option<OpenTurn>,
    /// Model calls that an approver allowed until the end of the run.
    pub(super) approved: ApprovedReasons,
    /// Tokens of the history: as the provider counted them, and estimated since.
    pub(super) history_tokens: u64,
}

impl Conversation {
    pub(super) fn new(run: Run, now: Instant) -> Self {
        Self {
            run,
            history: Transcript::default(),
            ids: CallIds::default(),
            usage: RunUsage::default(),
            since: now,
            is_working: false,
            text: String::new(),
            executions: Vec::new(),
            labels: Vec::new(),
            tools: String::new(),
            offered: None,
            open: None,
            approved: ApprovedReasons::default(),
            history_tokens: 0,
        }
    }

    /// Continues a saved run. Everything that it has read counts as read again.
    pub(super) fn restore(run: Run, saved: SavedRun, now: Instant) -> Self {
        let mut conversation = Self::new(run, now);
        let open = saved.open.iter().flat_map(|open| &open.message);
        let open = open.filter_map(|part| match part {
            AssistantPart::Call(call) => Some(call),
            AssistantPart::Part(_) => None,
        });
        conversation.ids = saved.history.calls().chain(open).map(|call| call.id.clone()).collect();
        let of_results = saved.history.messages.iter().filter_map(|message| match message {
            Message::Results(results) => Some(results),
            _ => None,
        });
        let open = saved.open.iter().map(|open| &open.results);
        for result in of_results.chain(open).flatten() {
            let label = saved.labels.iter().find(|(id, _)| *id == result.id);
            let Some((_, label)) = label else { continue };
            let name = result.name.clone().unwrap_or_else(|| ToolName::from(""));
            let seen = conversation.run.taint();
            seen.record(&result.id, &name, None, *label, &text_of(&result.parts));
        }
        conversation.history_tokens = saved.history.messages.iter().map(message_tokens).sum();
        conversation.history = saved.history;
        conversation.usage = saved.usage;
        conversation.text = saved.text;
        conversation.run.load_tools(&saved.loaded);
        instructions::restore(conversation.run.shared(), &saved.instructions);
        conversation.labels = saved.labels;
        conversation.tools = saved.tools;
        conversation.open = saved.open;
        conversation
    }

    /// The work on a message begins. The wait for it does not count as time of the run.
    pub(super) fn begin_work(&mut self, now: Instant) {
        // A stream that was dropped has not ended its work.
        self.end_work(now);
        if let Some(ledger) = self.run.ledger() {
            ledger.add_idle(self.run.id(), now.saturating_duration_since(self.since));
        }
        (self.since, self.is_working) = (now, true);
    }

    /// The work on a message has ended.
    pub(super) fn end_work(&mut self, now: Instant) {
        if self.is_working {
            self.usage.elapsed = self.elapsed(now);
            (self.since, self.is_working) = (now, false);
        }
    }

    /// Returns the time of the run, in whole microseconds, as it is saved.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        let since = match self.is_working {
            true => now.saturating_duration_since(self.since),
            false => Duration::ZERO,
        };
        let elapsed = self.usage.elapsed.saturating_add(since).as_micros();
        Duration::from_micros(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Notes which tools the model is offered.
    pub(super) fn offer(&mut self, export: &Arc<ToolExport>, tools: &ToolSnapshot) {
        if !self.offered.as_ref().is_some_and(|last| Arc::ptr_eq(last, export)) {
            self.tools = tools.fingerprint();
            self.offered = Some(Arc::clone(export));
        }
    }

    /// Adds a message of the user.
    pub(super) fn add_user(&mut self, text: &str) {
        self.run.user_text(text);
        self.add_host_text(text);
    }

    /// Adds text that the user did not write, in the place of a user's message.
    pub(super) fn add_host_text(&mut self, text: &str) {
        let message = Message::User(vec![ContentPart::text(text)]);
        self.history_tokens = self.history_tokens.saturating_add(message_tokens(&message));
        self.history.messages.push(message);
    }

    /// Adds a message of the model and the results of its calls. Calls that are pending keep the
    /// whole message out of the history.
    pub(super) fn append(
        &mut self,
        mut reply: FinishedReply,
        results: Vec<ToolResult>,
        waiting: Vec<PendingCall>,
        events: &EventSink,
    ) {
        let mut results = results.into_iter();
        let mut past = Vec::with_capacity(results.len());
        let mut pending = Vec::new();
        for part in &mut reply.parts {
            let AssistantPart::Call(call) = part else { continue };
            let Some(result) = results.next() else { break };
            let id = unique_id(&mut reply.ids, result.id(), reply.turn);
            call.id = id.clone();
            if let Some(call) = waiting.iter().find(|call| call.call == *result.id()) {
                pending.push(PendingCall { call: id, ..call.clone() });
                continue;
            }
            past.push(self.keep_result(id, call.name.clone(), &result, reply.turn, events));
        }
        self.ids = reply.ids;
        self.text = text_of_message(&reply.parts);
        if pending.is_empty() {
            self.push_turn(reply.parts, past);
        } else {
            self.open = Some(OpenTurn { message: reply.parts, results: past, pending });
        }
    }

    /// Completes the open message with the results of its pending calls.
    pub(super) fn close_open(
        &mut self,
        open: OpenTurn,
        results: Vec<ToolResult>,
        waiting: &[PendingCall],
        events: &EventSink,
    ) {
        let OpenTurn { message, results: mut past, pending } = open;
        let turn = self.usage.turns;
        let mut still = Vec::new();
        for (call, result) in pending.into_iter().zip(results) {
            match waiting.iter().find(|waiting| waiting.call == *result.id()) {
                Some(waiting) => still.push(PendingCall { call: call.call, ..waiting.clone() }),
                None => past.push(self.keep_result(call.call, call.tool, &result, turn, events)),
            }
        }
        if !still.is_empty() {
            self.open = Some(OpenTurn { message, results: past, pending: still });
            return;
        }
        // In the order of the calls.
        let order = |result: &PastResult| {
            message
                .iter()
                .position(|part| matches!(part, AssistantPart::Call(call) if call.id == result.id))
        };
        past.sort_by_key(order);
        self.push_turn(message, past);
    }

    fn push_turn(&mut self, parts: Vec<AssistantPart>, results: Vec<PastResult>) {
        if parts.is_empty() {
            return;
        }
        for message in [Message::Assistant(parts), Message::Results(results)] {
            if matches!(&message, Message::Results(results) if results.is_empty()) {
                continue;
            }
            self.history_tokens = self.history_tokens.saturating_add(message_tokens(&message));
            self.history.messages.push(message);
        }
    }

    /// Takes over the provider's own count of the tokens up to the model's last message.
    pub(super) fn calibrate(&mut self, usage: Usage, fixed_tokens: u64) {
        if usage.input_tokens > 0 {
            self.history_tokens = usage.input_tokens.saturating_sub(fixed_tokens);
        }
    }

    fn keep_result(
        &mut self,
        id: CallId,
        name: ToolName,
        result: &ToolResult,
        turn: u32,
        events: &EventSink,
    ) -> PastResult {
        let summary = CallSummary::of(turn, id.clone(), result);
        events.emit(|| AgentEvent::CallFinished {
            summary: summary.clone(),
            text: result.text().into_owned(),
        });
        self.usage.calls = self.usage.calls.saturating_add(1);
        self.executions.push(summary);
        if result.label() != Label::CLEAN {
            self.labels.push((id.clone(), result.label()));
        }
        past_result(id, name, result)
    }

    /// Returns the state as data.
    pub(super) fn save(
        &self,
        agent: &str,
        info: &ModelInfo,
        state: Option<RunStatus>,
        usage: RunUsage,
    ) -> SavedRun {
        SavedRun {
            version: SavedRun::version(),
            run: self.run.id().clone(),
            agent: agent.to_owned(),
            model: info.name.clone(),
            state,
            text: self.text.clone(),
            tools: self.tools.clone(),
            history: self.history.clone(),
            open: self.open.clone(),
            usage,
            labels: self.labels.clone(),
            loaded: self.run.loaded_tools(),
            instructions: instructions::loaded_ids(self.run.shared()),
        }
    }

    pub(super) fn id(&self) -> &RunId {
        self.run.id()
    }
}

/// Makes an id that no call of the conversation has.
fn unique_id(ids: &mut CallIds, wanted: &CallId, turn: u32) -> CallId {
    if !wanted.as_str().is_empty() && ids.insert(wanted.clone()) {
        return wanted.clone();
    }
    let fresh = (1..).map(|n| CallId::from(format!("haft-{turn}-{n}")));
    let fresh = fresh.into_iter().find(|id| !ids.contains(id)).unwrap_or_default();
    ids.insert(fresh.clone());
    fresh
}

/// A result as the history keeps it: what the model reads, between its markers.
fn past_result(id: CallId, name: ToolName, result: &ToolResult) -> PastResult {
    let has_media = |block: &Block| matches!(block, Block::Image { .. } | Block::Audio { .. });
    let parts = match result.output() {
        Some(output) if output.blocks.iter().any(has_media) => {
            result.model_blocks().into_iter().map(part_of).collect()
        }
        _ => vec![ContentPart::text(result.model_text())],
    };
    PastResult { id, name: Some(name), parts, is_error: result.is_error(), provider_fields: None }
}

fn part_of(block: Block) -> ContentPart {
    match block {
        Block::Text { text } => ContentPart::text(text),
        Block::Json { json } => ContentPart::Json(json),
        Block::Image { data, media_type } | Block::Audio { data, media_type } => {
            let media = Media { media_type, source: MediaSource::Base64(data), name: None };
            ContentPart::Media { media, provider_fields: None }
        }
        Block::Link { .. } => ContentPart::text(haft_dialect::block_text(&block)),
    }
}

/// The text of a message of the model.
fn text_of_message(parts: &[AssistantPart]) -> String {
    let mut text = String::new();
    for part in parts {
        if let AssistantPart::Part(ContentPart::Text { text: more, .. }) = part {
            text.push_str(more);
        }
    }
    text
}

/// The text of some content.
pub(super) fn text_of(parts: &[ContentPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ContentPart::Text { text, .. } => Some(text.clone()),
        ContentPart::Json(json) => Some(json.to_string()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Estimates the tokens of a message.
pub(super) fn message_tokens(message: &Message) -> u64 {
    let parts = |parts: &[ContentPart]| parts.iter().map(part_bytes).sum::<usize>();
    let bytes = match message {
        Message::System(content) | Message::User(content) => parts(content),
        Message::Assistant(all) => all
            .iter()
            .map(|part| match part {
                AssistantPart::Part(part) => part_bytes(part),
                AssistantPart::Call(call) => {
                    CALL_BYTES
                        + call.name.as_str().len()
                        + match &call.arguments {
                            Arguments::Text(text) => text.len(),
                            Arguments::Json(json) => memory_size_of(json, usize::MAX),
                        }
                }
            })
            .sum(),
        Message::Results(results) => {
            results.iter().map(|result| CALL_BYTES + parts(&result.parts)).sum()
        }
    };
    estimate_tokens(bytes.saturating_add(MESSAGE_BYTES))
}

/// About how many bytes a provider adds around a message.
const MESSAGE_BYTES: usize = 16;
/// About how many bytes a provider adds around a call or a result.
const CALL_BYTES: usize = 48;
/// An image costs about this many tokens, whatever its size; in bytes of text.
const MEDIA_BYTES: usize = 4_500;

fn part_bytes(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text { text, .. } => text.len(),
        ContentPart::Json(json) | ContentPart::Opaque { value: json, .. } => {
            memory_size_of(json, usize::MAX)
        }
        ContentPart::Media { .. } => MEDIA_BYTES,
        ContentPart::Fields(_) => 0,
    }
}
