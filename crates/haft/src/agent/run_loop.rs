//! The loop of an agent: ask the model, run its calls, add both to the conversation, again.
//!
//! In: a conversation with a message of the user. Out: why it ended. Each turn has the same steps:
//! limits, tools, request, reservation, model, calls, history.
//!
//! INVARIANT: turns, calls and time never exceed their limit, and whatever happens each call of the
//! model has exactly one result in the history.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use haft_core::{CallId, Error, ErrorKind, Execution, Failure, StopReason, ToolCall};
use haft_dialect::{ToolExport, history::AssistantPart};
use serde_json::Value;

use super::{
    approvals::WAITING,
    context::{self, Shrunk},
    control::{RunHandle, Signal, StopRequest},
    conversation::Conversation,
    definition::{Agent, OnToolFailure},
    event::{AgentEvent, EventSink},
    model::{ModelInfo, ModelRequest, Price, estimate_tokens},
    model_policy, output,
    reply::{FinishedReply, Reply},
    result::{ApprovalQuestion, EndReason, PendingCall, RunResult, RunStatus, RunUsage},
    runner::Runner,
    saved::SavedRun,
    script::ShownRequest,
};
use crate::{
    registry::ToolSnapshot,
    tool_result::ToolResult,
    turn::{CallScheduler, Turn, TurnHandle},
    watch::{caught, panic_message},
};

/// One run of the loop.
pub(super) struct Loop<'a> {
    pub(super) runner: &'a Runner,
    pub(super) agent: &'a Agent,
    pub(super) info: ModelInfo,
    pub(super) instructions: String,
    pub(super) control: RunHandle,
    pub(super) events: EventSink,
    pub(super) output_schema: Option<&'a Value>,
}

/// What a turn came to.
struct TurnEnd {
    stop: StopReason,
    had_calls: bool,
    /// The first call whose body failed.
    failed: Option<EndReason>,
    waits: bool,
}

/// How the wait for the model ended.
enum Asked {
    Ended(Result<StopReason, Error>),
    Signal(Signal),
    OutOfTime,
}

/// What was reserved for a model call.
struct Reserved {
    tokens: u64,
    micros: u64,
    max_tokens: u64,
    request_tokens: u64,
}

impl<'a> Loop<'a> {
    pub(super) fn new(
        runner: &'a Runner,
        agent: &'a Agent,
        control: RunHandle,
        events: EventSink,
    ) -> Result<Self, Error> {
        let info = caught(|| agent.model.info()).map_err(|why| {
            Error::new(ErrorKind::BadConfig, format!("the model's `info` panicked: {why}"))
        })?;
        let system = runner.runtime().system_text();
        let instructions = match (agent.instructions.as_str(), system) {
            ("", system) => system.to_owned(),
            (own, "") => own.to_owned(),
            (own, system) => format!("{own}\n\n{system}"),
        };
        let this = Self { runner, agent, info, instructions, control, events, output_schema: None };
        if agent.limits.micros.is_some() && this.price().is_none() {
            return Err(Error::new(
                ErrorKind::BadConfig,
                format!(
                    "the run has a money limit, and the price of the model `{}` is unknown",
                    this.info.name
                ),
            )
            .hint("set it with `Agent::price`, or remove the limit"));
        }
        Ok(this)
    }

    fn price(&self) -> Option<Price> {
        self.agent.price.or(self.info.price)
    }

    /// Asks for a final answer that matches a schema.
    pub(super) fn with_output(mut self, schema: &'a Value) -> Self {
        self.instructions = format!("{}\n\n{}", self.instructions, output::instruction(schema));
        self.output_schema = Some(schema);
        self
    }

    /// Works until the run ends or waits.
    pub(super) async fn drive(&self, conversation: &mut Conversation) -> RunResult {
        self.events.emit(|| AgentEvent::RunStarted {
            run: conversation.id().clone(),
            agent: self.agent.name.clone(),
            model: self.info.name.clone(),
        });
        let mut degraded = None;
        let reason = loop {
            match self.step(conversation, &mut degraded).await {
                Ok(()) => self.checkpoint(conversation).await,
                Err(reason) => break reason,
            }
        };
        let state = match (&reason, degraded) {
            (EndReason::Answered, Some(_)) => RunStatus::Degraded,
            (reason, _) => reason.status(),
        };
        self.end(conversation, state, reason).await
    }

    /// Makes one turn. An error is the end of the run.
    async fn step(
        &self,
        conversation: &mut Conversation,
        degraded: &mut Option<EndReason>,
    ) -> Result<(), EndReason> {
        self.is_stopped(conversation)?;
        if conversation.open.is_some() {
            self.finish_open(conversation).await?;
            return Ok(());
        }
        self.add_messages(conversation);
        let turn = self.turn(conversation, degraded.is_some()).await?;
        self.is_stopped(conversation)?;
        if turn.waits {
            return Err(EndReason::AwaitingApproval);
        }
        match turn.stop {
            StopReason::Refused => return Err(EndReason::ModelRefused),
            StopReason::Truncated if !turn.had_calls && !self.control.has_messages() => {
                return Err(EndReason::Truncated);
            }
            _ => {}
        }
        if let Some(failed) = turn.failed {
            match self.agent.on_tool_failure {
                OnToolFailure::Continue => {}
                OnToolFailure::Fail => return Err(failed),
                OnToolFailure::Degrade => {
                    conversation.add_host_text(
                        "[note from the host: a tool failed. Answer now with what you have; no \
                         further call will run.]",
                    );
                    degraded.get_or_insert(failed);
                    return Ok(());
                }
            }
        }
        match turn.had_calls && degraded.is_none() {
            true => {
                self.take_background(conversation);
                Ok(())
            }
            false if self.control.has_messages() => Ok(()),
            false => self.answered(conversation).await,
        }
    }

    /// The model has answered. Background work that is not done yet is waited for.
    async fn answered(&self, conversation: &mut Conversation) -> Result<(), EndReason> {
        if conversation.run.tickets().is_empty() {
            return Err(EndReason::Answered);
        }
        let run = conversation.run.clone();
        let late = tokio::select! {
            biased;
            signal = self.control.next_signal(None) => return match signal {
                Signal::Message => Ok(()),
                Signal::Stop(_) => self.is_stopped(conversation),
            },
            () = self.out_of_time(conversation) => return Err(time_is_up()),
            late = run.next_settled() => late,
        };
        match late {
            Some(late) => {
                conversation.add_host_text(&background_text(&late));
                self.take_background(conversation);
                Ok(())
            }
            None => Err(EndReason::Answered),
        }
    }

    /// Adds the background results that are ready.
    fn take_background(&self, conversation: &mut Conversation) {
        for late in conversation.run.settled() {
            conversation.add_host_text(&background_text(&late));
        }
    }

    /// Returns why the run must not go on.
    fn is_stopped(&self, conversation: &Conversation) -> Result<(), EndReason> {
        match self.control.stop() {
            Some(StopRequest::Cancel) => {
                conversation.run.cancel();
                return Err(EndReason::Cancelled);
            }
            Some(StopRequest::Interrupt) => return Err(EndReason::Interrupted),
            None => {}
        }
        match conversation.run.halted() {
            Some(reason) if reason != WAITING => {
                Err(EndReason::Halted { reason: reason.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Adds the messages that the user sent meanwhile.
    fn add_messages(&self, conversation: &mut Conversation) {
        for text in self.control.take_messages() {
            self.events.emit(|| AgentEvent::MessageAdded { text: text.clone() });
            conversation.add_user(&text);
        }
    }

    /// One message of the model and its calls.
    async fn turn(
        &self,
        conversation: &mut Conversation,
        is_closing: bool,
    ) -> Result<TurnEnd, EndReason> {
        has_turns_and_time(conversation)?;
        let turn = self.open_turn(conversation).await?;
        let options = &self.agent.export;
        let export = turn.snapshot().export_with(self.info.dialect, options);
        conversation.tools = turn.snapshot().fingerprint();
        self.make_room(conversation, turn.snapshot(), &export).await?;
        let number = conversation.usage.turns.saturating_add(1);
        let tokens = self.fixed_tokens(&export).saturating_add(conversation.history_tokens);
        model_policy::check(&conversation.run, self.agent, &self.info, number, tokens)?;
        let reserved = self.reserve(conversation, &export)?;
        conversation.usage.turns = number;
        self.events.emit(|| AgentEvent::ModelCalled {
            turn: number,
            tools: export.exported_tools().len(),
            input_tokens: reserved.request_tokens,
            max_tokens: reserved.max_tokens,
        });
        let handle = turn.handle();
        let ids = std::mem::take(&mut conversation.ids);
        let mut reply =
            Reply::new(turn.schedule(), Arc::clone(&export), self.events.clone(), ids, number);
        if is_closing {
            reply.hold_calls();
        }
        let request = ModelRequest {
            instructions: &self.instructions,
            history: &conversation.history,
            tools: &export,
            max_tokens: reserved.max_tokens,
            turn: number - 1,
            output_schema: self.output_schema,
        };
        let recorded = self.runner.recorder().map(|to| (to, ShownRequest::of(&request)));
        if recorded.is_some() {
            reply.keep_log();
        }
        let asked = self.ask(request, &mut reply, conversation).await;
        self.settle(conversation, &reply, &reserved, number);
        let (ended, known) = stop_of(asked, &handle);
        let log = reply.take_log();
        let mut reply = reply.finish(ended);
        let (stop, problem) = (reply.stop, reply.problem.take());
        if let Some((recorder, shown)) = recorded {
            let ended = problem.as_ref().map_or(Ok(stop), Err);
            recorder.add(shown, &self.info, log, ended, self.runner.runtime().redactor());
        }
        let results = self.finish_calls(&mut reply, stop, &handle, known, conversation).await;
        let had_calls = !results.is_empty();
        let failed = first_failure(&results);
        let waiting = self.waiting(conversation, &reply, &results);
        let waits = !waiting.is_empty();
        conversation.append(reply, results, waiting, &self.events);
        match problem {
            _ if self.is_stopped(conversation).is_err() => {}
            Some(problem) => {
                let message = self.runner.redact(&problem.to_string());
                return Err(EndReason::ModelFailed { message });
            }
            None if is_out_of_time(conversation) => return Err(time_is_up()),
            None => {}
        }
        Ok(TurnEnd { stop, had_calls, failed, waits })
    }

    /// Freezes the tools of the turn.
    async fn open_turn(&self, conversation: &Conversation) -> Result<Turn, EndReason> {
        let selector = self.agent.selector.as_deref();
        let history = &conversation.history;
        let opened = conversation.run.turn_with(async |snapshot| {
            let selector = selector?;
            let selected = AssertUnwindSafe(async { selector.select(history, snapshot).await });
            // FAIL CLOSED: a selector that panics offers nothing.
            Some(selected.catch_unwind().await.unwrap_or_default())
        });
        tokio::select! {
            biased;
            opened = opened => opened.map_err(|error| EndReason::ToolsUnavailable {
                message: self.runner.redact(&error.to_string()),
            }),
            () = self.out_of_time(conversation) => Err(time_is_up()),
        }
    }

    /// Waits for the model's message.
    async fn ask(
        &self,
        request: ModelRequest<'_>,
        reply: &mut Reply,
        conversation: &Conversation,
    ) -> Asked {
        // Making the future runs the host's code as well.
        let asking = AssertUnwindSafe(async { self.agent.model.respond(request, reply).await })
            .catch_unwind();
        tokio::select! {
            biased;
            signal = self.control.next_signal(None) => Asked::Signal(signal),
            () = self.out_of_time(conversation) => Asked::OutOfTime,
            ended = asking => Asked::Ended(ended.unwrap_or_else(|panic| {
                let why = format!("the model's client panicked: {}", panic_message(panic));
                Err(Error::new(ErrorKind::BadResponse, why))
            })),
        }
    }

    /// Waits for the calls of the message. Every call gets its result, whatever happens meanwhile.
    async fn finish_calls(
        &self,
        reply: &mut FinishedReply,
        stop: StopReason,
        handle: &TurnHandle,
        mut known: Option<Signal>,
        conversation: &Conversation,
    ) -> Vec<ToolResult> {
        let Some(scheduler) = reply.scheduler.take() else { return Vec::new() };
        let mut finish = std::pin::pin!(scheduler.finish(stop));
        let mut out_of_time = std::pin::pin!(self.out_of_time(conversation));
        let mut is_late = false;
        loop {
            tokio::select! {
                biased;
                results = &mut finish => return results,
                signal = self.control.next_signal(known) => {
                    apply(signal, handle);
                    known = Some(signal);
                }
                () = &mut out_of_time, if !is_late => {
                    handle.abort();
                    is_late = true;
                }
            }
        }
    }

    /// Runs the calls that waited for an approval.
    async fn finish_open(&self, conversation: &mut Conversation) -> Result<(), EndReason> {
        let Some(open) = conversation.open.take() else { return Ok(()) };
        has_time(conversation)?;
        let turn = match self.open_turn(conversation).await {
            Ok(turn) => turn,
            Err(reason) => {
                conversation.open = Some(open);
                return Err(reason);
            }
        };
        let export = turn.snapshot().export_with(self.info.dialect, &self.agent.export);
        let handle = turn.handle();
        let mut scheduler = turn.schedule();
        scheduler.expect(StopReason::Done, open.pending.len());
        for call in &open.pending {
            let arguments = match &call.arguments {
                Value::String(text) => text.as_str().into(),
                json => haft_core::Arguments::Json(json.clone()),
            };
            let call = ToolCall::new(call.call.clone(), call.tool.clone(), arguments);
            scheduler.push(export.receive_call(call));
        }
        let results = self.finish_scheduler(scheduler, &handle, conversation).await;
        let failed = first_failure(&results);
        let parts = &open.message;
        let waiting = self.waiting_among(conversation, parts, &results);
        let waits = !waiting.is_empty();
        conversation.close_open(open, results, &waiting, &self.events);
        match failed {
            _ if waits => Err(EndReason::AwaitingApproval),
            Some(failed) if self.agent.on_tool_failure == OnToolFailure::Fail => Err(failed),
            _ => Ok(()),
        }
    }

    async fn finish_scheduler(
        &self,
        scheduler: CallScheduler,
        handle: &TurnHandle,
        conversation: &Conversation,
    ) -> Vec<ToolResult> {
        let mut reply = FinishedReply {
            scheduler: Some(scheduler),
            parts: Vec::new(),
            ids: Default::default(),
            turn: conversation.usage.turns,
            stop: StopReason::Done,
            problem: None,
        };
        self.finish_calls(&mut reply, StopReason::Done, handle, None, conversation).await
    }

    /// Returns the calls whose approval was deferred, and those that were not started for it.
    fn waiting(
        &self,
        conversation: &Conversation,
        reply: &FinishedReply,
        results: &[ToolResult],
    ) -> Vec<PendingCall> {
        self.waiting_among(conversation, &reply.parts, results)
    }

    fn waiting_among(
        &self,
        conversation: &Conversation,
        parts: &[AssistantPart],
        results: &[ToolResult],
    ) -> Vec<PendingCall> {
        let Some(deferred) = self.runner.deferred() else { return Vec::new() };
        let mut asked = deferred.take(conversation.id());
        if asked.is_empty() {
            return Vec::new();
        }
        let calls = parts.iter().filter_map(|part| match part {
            AssistantPart::Call(call) => Some(call),
            AssistantPart::Part(_) => None,
        });
        let calls: Vec<_> = calls.collect();
        let mut waiting = Vec::new();
        for (at, result) in results.iter().enumerate() {
            let question = take_question(&mut asked, result.id());
            let is_held = result.failure().is_some_and(|failure| failure.message() == WAITING);
            if result.execution() != Execution::NotStarted || !(is_held || question.is_some()) {
                continue;
            }
            // The nth result belongs to the nth call of a new message, or to the call with its id.
            let call = calls.iter().find(|call| call.id == *result.id()).or(calls.get(at));
            let Some(call) = call else { continue };
            waiting.push(PendingCall {
                call: result.id().clone(),
                tool: call.name.clone(),
                arguments: match &call.arguments {
                    haft_core::Arguments::Json(json) => json.clone(),
                    haft_core::Arguments::Text(text) => Value::String(text.clone()),
                },
                question: question.map(|question| self.runner.redact_question(question)),
            });
        }
        waiting
    }

    /// Shortens a conversation that is too long for the model.
    async fn make_room(
        &self,
        conversation: &mut Conversation,
        tools: &ToolSnapshot,
        export: &ToolExport,
    ) -> Result<(), EndReason> {
        let Some(context) = self.info.context_tokens else { return Ok(()) };
        let limit = context.saturating_sub(self.max_tokens());
        let (strategy, fixed) = (self.agent.on_context_limit, self.fixed_tokens(export));
        let shrunk = context::fit(conversation, strategy, tools, fixed, limit).await?;
        if let Some(Shrunk { results, from_tokens, to_tokens }) = shrunk {
            self.events.emit(|| AgentEvent::ContextShrunk { results, from_tokens, to_tokens });
        }
        Ok(())
    }

    /// How many tokens a message of the model may have.
    fn max_tokens(&self) -> u64 {
        let own = self.agent.max_tokens;
        self.info.max_output_tokens.map_or(own, |most| own.min(most))
    }

    /// Reserves what the model call may use, and decides how long the message may be.
    fn reserve(
        &self,
        conversation: &mut Conversation,
        export: &Arc<ToolExport>,
    ) -> Result<Reserved, EndReason> {
        let fixed = self.fixed_tokens(export);
        let request_tokens = fixed.saturating_add(conversation.history_tokens);
        let mut max_tokens = self.max_tokens();
        let left = conversation.run.remaining_budget();
        let used_up = |what: &str, left: u64| EndReason::LimitReached {
            message: format!(
                "the next model call needs more {what} than the {left} that are left for this run"
            ),
        };
        // One is left over, so that calls which start while the model writes are not refused.
        if let Some(tokens) = left.tokens {
            let room = tokens.saturating_sub(request_tokens).saturating_sub(1);
            max_tokens = max_tokens.min(room);
            if max_tokens == 0 {
                return Err(used_up("tokens", tokens));
            }
        }
        let price = self.price();
        if let (Some(micros), Some(price)) = (left.micros, price) {
            let room = micros.saturating_sub(price.of(request_tokens, 0)).saturating_sub(1);
            let affordable = match price.output {
                0 if room > 0 => max_tokens,
                0 => 0,
                output => room.saturating_mul(1_000_000) / output,
            };
            max_tokens = max_tokens.min(affordable);
            if max_tokens == 0 {
                return Err(used_up("money (in millionths)", micros));
            }
        }
        let tokens = request_tokens.saturating_add(max_tokens);
        let micros = price.map_or(0, |price| price.of(request_tokens, max_tokens));
        if let Some(ledger) = conversation.run.ledger() {
            ledger.reserve_model_call(tokens, micros).map_err(limit)?;
        }
        Ok(Reserved { tokens, micros, max_tokens, request_tokens })
    }

    /// The tokens of the instructions and the tools.
    fn fixed_tokens(&self, export: &ToolExport) -> u64 {
        estimate_tokens(self.instructions.len().saturating_add(export.as_str().len()))
    }

    /// Counts what the model call used in place of what was reserved.
    fn settle(
        &self,
        conversation: &mut Conversation,
        reply: &Reply,
        reserved: &Reserved,
        number: u32,
    ) {
        let usage = reply.counted(reserved.request_tokens);
        let micros =
            self.price().map_or(0, |price| price.of(usage.input_tokens, usage.output_tokens));
        if let Some(ledger) = conversation.run.ledger() {
            let events = &conversation.run.services().events;
            let reserved = (reserved.tokens, reserved.micros);
            ledger.settle_model_call(reserved, (usage.total(), micros), events);
        }
        let overshoot = usage.total().saturating_sub(reserved.tokens);
        if overshoot > 0 && self.is_limited() {
            self.events.emit(|| AgentEvent::Warning {
                message: format!(
                    "the model used {} tokens, {overshoot} more than were reserved",
                    usage.total()
                ),
            });
        }
        let total = &mut conversation.usage;
        total.overshoot_tokens = total.overshoot_tokens.saturating_add(overshoot);
        total.tokens += usage;
        total.micros = total.micros.saturating_add(micros);
        if reply.has_usage() {
            let fixed = reserved.request_tokens.saturating_sub(conversation.history_tokens);
            conversation.calibrate(usage, fixed);
        }
        let total = self.usage(conversation);
        self.events.emit(|| AgentEvent::ModelFinished { turn: number, usage, total });
    }

    fn is_limited(&self) -> bool {
        self.agent.limits.tokens.is_some() || self.agent.limits.micros.is_some()
    }

    /// Returns what the run has used, with the time until now.
    fn usage(&self, conversation: &Conversation) -> RunUsage {
        let now = self.runner.now();
        let elapsed = now.saturating_duration_since(conversation.since);
        let mut usage = conversation.usage;
        // Whole microseconds, as it is saved.
        let elapsed = usage.elapsed.saturating_add(elapsed).as_micros();
        usage.elapsed = Duration::from_micros(u64::try_from(elapsed).unwrap_or(u64::MAX));
        usage
    }

    /// Waits until the time of the run is up; forever if it has no limit.
    async fn out_of_time(&self, conversation: &Conversation) {
        match until(conversation) {
            Some(until) => conversation.run.services().clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    fn save(&self, conversation: &Conversation, state: Option<RunStatus>) -> SavedRun {
        conversation.save(&self.agent.name, &self.info, state, self.usage(conversation))
    }

    /// Stores the state of the run after a turn.
    async fn checkpoint(&self, conversation: &Conversation) {
        if self.runner.saved_runs().is_some() {
            self.store(&self.save(conversation, None)).await;
        }
    }

    /// Stores a state. One that cannot be stored is a warning: the run itself is not in doubt.
    async fn store(&self, saved: &SavedRun) {
        let Some(store) = self.runner.saved_runs() else { return };
        let stored = AssertUnwindSafe(async { store.save(saved).await }).catch_unwind().await;
        let problem = match stored {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic_message(panic),
        };
        let problem = self.runner.redact(&problem);
        let message = format!("the state of the run could not be stored: {problem}");
        self.events.emit(|| AgentEvent::Warning { message });
    }

    async fn end(
        &self,
        conversation: &mut Conversation,
        state: RunStatus,
        reason: EndReason,
    ) -> RunResult {
        let waits = state == RunStatus::Waiting;
        let mut saved = None;
        if waits || self.runner.saved_runs().is_some() {
            let state = Box::new(self.save(conversation, Some(state)));
            self.store(&state).await;
            saved = waits.then_some(state);
        }
        let pending = conversation.open.as_ref().map(|open| open.pending.clone());
        RunResult {
            run: conversation.id().clone(),
            text: conversation.text.clone(),
            state,
            reason,
            executions: std::mem::take(&mut conversation.executions),
            usage: self.usage(conversation),
            pending: pending.unwrap_or_default(),
            history: conversation.history.clone(),
            saved,
        }
    }
}

/// How the message ended, and the signal that ended it.
fn stop_of(asked: Asked, handle: &TurnHandle) -> (Result<StopReason, Error>, Option<Signal>) {
    match asked {
        Asked::Ended(ended) => (ended, None),
        Asked::Signal(signal) => {
            apply(signal, handle);
            (Ok(StopReason::Truncated), Some(signal))
        }
        Asked::OutOfTime => {
            handle.abort();
            (Ok(StopReason::Truncated), None)
        }
    }
}

fn apply(signal: Signal, handle: &TurnHandle) {
    match signal {
        Signal::Message | Signal::Stop(StopRequest::Interrupt) => handle.interrupt(),
        Signal::Stop(StopRequest::Cancel) => handle.abort(),
    }
}

fn until(conversation: &Conversation) -> Option<Instant> {
    conversation.run.ledger().and_then(|ledger| ledger.until())
}

fn has_time(conversation: &Conversation) -> Result<(), EndReason> {
    match conversation.run.ledger() {
        Some(ledger) => ledger.has_time().map_err(limit),
        None => Ok(()),
    }
}

fn is_out_of_time(conversation: &Conversation) -> bool {
    has_time(conversation).is_err()
}

fn has_turns_and_time(conversation: &Conversation) -> Result<(), EndReason> {
    has_time(conversation)?;
    match conversation.run.remaining_budget().cycles {
        Some(0) => {
            Err(EndReason::LimitReached { message: "all turns of this run are used".to_owned() })
        }
        _ => Ok(()),
    }
}

fn time_is_up() -> EndReason {
    EndReason::LimitReached { message: "the time of this run is up".to_owned() }
}

fn limit(failure: Failure) -> EndReason {
    EndReason::LimitReached { message: failure.message().to_owned() }
}

/// The first call whose body failed.
fn first_failure(results: &[ToolResult]) -> Option<EndReason> {
    results.iter().find_map(|result| {
        let failure = result.failure().filter(|f| f.execution() != Execution::NotStarted)?;
        Some(EndReason::ToolFailed {
            call: result.id().clone(),
            tool: result.tool_name().clone(),
            code: failure.code(),
        })
    })
}

fn take_question(
    asked: &mut Vec<(CallId, ApprovalQuestion)>,
    id: &CallId,
) -> Option<ApprovalQuestion> {
    let at = asked.iter().position(|(call, _)| call == id)?;
    Some(asked.swap_remove(at).1)
}

fn background_text(late: &crate::background::BackgroundResult) -> String {
    format!(
        "[note from the host: the result of ticket {}]\n{}",
        late.ticket,
        late.answer.model_text()
    )
}
