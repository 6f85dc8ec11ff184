//! The loop of an agent: ask the model, run its calls, add both to the conversation, again.
//!
//! In: a conversation with a message of the user. Out: why it ended. Each turn has the same steps:
//! limits, tools, request, reservation, model, calls, history.
//!
//! INVARIANT: turns, calls and time never exceed their limit, and whatever happens each call of the
//! model has exactly one result in the history.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures_util::FutureExt as _;
use haft_core::{Error, ErrorKind, Execution, Failure, StopReason};
use serde_json::Value;

use super::{
    approvals::WAITING,
    control::{RunHandle, Signal, StopRequest},
    conversation::Conversation,
    definition::{Agent, OnToolFailure},
    event::{AgentEvent, EventSink},
    model::{ModelInfo, ModelRequest},
    model_policy, output,
    reply::Reply,
    result::{EndReason, RunResult, RunStatus},
    runner::Runner,
    script::ShownRequest,
};
use crate::{
    host_code::{caught, panic_message},
    tool_result::ToolResult,
    turn::{CallScheduler, Turn, TurnHandle},
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

    /// Asks for a final answer that matches a schema.
    pub(super) fn with_output(mut self, schema: &'a Value) -> Self {
        self.instructions = format!("{}\n\n{}", self.instructions, output::instruction(schema));
        self.output_schema = Some(schema);
        self
    }

    /// Works until the run ends or waits.
    pub(super) async fn drive(&self, conversation: &mut Conversation) -> RunResult {
        conversation.begin_work(self.runner.now());
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
            StopReason::Truncated | StopReason::Unknown
                if !turn.had_calls && !self.control.has_messages() =>
            {
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
        if conversation.run.background_tasks().is_empty() {
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
            late = run.next_background_result() => late,
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
        for late in conversation.run.take_background_results() {
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
        conversation.offer(&export, turn.snapshot());
        self.make_space(conversation, turn.snapshot(), &export).await?;
        let number = conversation.usage.turns.saturating_add(1);
        let tokens = self.fixed_tokens(&export).saturating_add(conversation.history_tokens);
        self.may_ask_model(conversation, number, tokens).await?;
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
        self.events.pause().await;
        self.settle(conversation, &reply, &reserved, number);
        let (ended, known) = stop_of(asked, &handle);
        let log = reply.take_log();
        let mut reply = reply.finish(ended);
        let (stop, problem) = (reply.stop, reply.problem.take());
        if let Some((recorder, shown)) = recorded {
            let ended = problem.as_ref().map_or(Ok(stop), Err);
            recorder.add(shown, &self.info, log, ended, self.runner.runtime().redactor());
        }
        let results = match reply.scheduler.take() {
            Some(calls) => self.finish_calls(calls, stop, &handle, known, conversation).await,
            None => Vec::new(),
        };
        let had_calls = !results.is_empty();
        let failed = first_failure(&results);
        let waiting = self.waiting(conversation, &reply.parts, &results).await;
        let waits = !waiting.is_empty();
        conversation.append(reply, results, waiting, &self.events);
        self.events.pause().await;
        match problem {
            _ if self.is_stopped(conversation).is_err() => {}
            Some(problem) => {
                let message = self.runner.redact(problem.message());
                let hints = problem.hints().iter().map(|hint| self.runner.redact(hint)).collect();
                return Err(EndReason::ModelFailed { message, kind: problem.kind(), hints });
            }
            None if is_out_of_time(conversation) => return Err(time_is_up()),
            None => {}
        }
        Ok(TurnEnd { stop, had_calls, failed, waits })
    }

    /// Asks the policy about the model call, and an approver if the policy wants that.
    async fn may_ask_model(
        &self,
        conversation: &Conversation,
        turn: u32,
        tokens: u64,
    ) -> Result<(), EndReason> {
        let (run, approved) = (&conversation.run, &conversation.approved);
        tokio::select! {
            biased;
            checked = model_policy::check(run, approved, self.agent, &self.info, turn, tokens) => {
                checked
            }
            () = self.stopped() => {
                self.is_stopped(conversation).and(Err(EndReason::Interrupted))
            }
            () = self.out_of_time(conversation) => Err(time_is_up()),
        }
    }

    /// Waits until the host stops the run.
    async fn stopped(&self) {
        let mut known = None;
        loop {
            let signal = self.control.next_signal(known).await;
            if matches!(signal, Signal::Stop(_)) {
                return;
            }
            known = Some(signal);
        }
    }

    /// Freezes the tools of the turn.
    pub(super) async fn open_turn(&self, conversation: &Conversation) -> Result<Turn, EndReason> {
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
    pub(super) async fn finish_calls(
        &self,
        scheduler: CallScheduler,
        stop: StopReason,
        handle: &TurnHandle,
        mut known: Option<Signal>,
        conversation: &Conversation,
    ) -> Vec<ToolResult> {
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

    /// Waits until the time of the run is up; forever if it has no limit.
    async fn out_of_time(&self, conversation: &Conversation) {
        match until(conversation) {
            Some(until) => conversation.run.services().clock.sleep_until(until).await,
            None => std::future::pending().await,
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

pub(super) fn has_time(conversation: &Conversation) -> Result<(), EndReason> {
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

pub(super) fn limit(failure: Failure) -> EndReason {
    EndReason::LimitReached { message: failure.message().to_owned() }
}

/// The first call whose body failed.
pub(super) fn first_failure(results: &[ToolResult]) -> Option<EndReason> {
    results.iter().find_map(|result| {
        let failure = result.failure().filter(|f| f.execution() != Execution::NotStarted)?;
        Some(EndReason::ToolFailed {
            call: result.id().clone(),
            tool: result.tool_name().clone(),
            code: failure.code(),
        })
    })
}

fn background_text(late: &crate::call::background::BackgroundResult) -> String {
    format!(
        "[note from the host: the result of ticket {}]\n{}",
        late.task_id,
        late.answer.model_text()
    )
}
