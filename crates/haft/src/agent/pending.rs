//! Calls that wait for an approval: which ones they are, and how they go on.

use haft_core::{Arguments, CallId, Decision, Execution, StopReason, ToolCall};
use haft_dialect::history::AssistantPart;
use serde_json::Value;

use super::{
    approvals::WAITING,
    conversation::Conversation,
    definition::OnToolFailure,
    result::{ApprovalQuestion, EndReason, PendingCall},
    run_loop::{Loop, first_failure, has_time},
};
use crate::tool_result::ToolResult;

impl Loop<'_> {
    /// Runs the calls that waited for an approval.
    pub(super) async fn finish_open(
        &self,
        conversation: &mut Conversation,
    ) -> Result<(), EndReason> {
        has_time(conversation)?;
        let Some(open) = conversation.open.take() else { return Ok(()) };
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
            scheduler.push(export.receive_call(call.tool_call()));
        }
        let stop = StopReason::Done;
        let results = self.finish_calls(scheduler, stop, &handle, None, conversation).await;
        let failed = first_failure(&results);
        let parts = &open.message;
        let waiting = self.waiting(conversation, parts, &results).await;
        let waits = !waiting.is_empty();
        conversation.close_open(open, results, &waiting, &self.events);
        match failed {
            _ if waits => Err(EndReason::AwaitingApproval),
            Some(failed) if self.agent.on_tool_failure == OnToolFailure::Fail => Err(failed),
            _ => Ok(()),
        }
    }

    /// Returns the calls whose approval was deferred, and those that were not started for it.
    pub(super) async fn waiting(
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
                    Arguments::Json(json) => json.clone(),
                    Arguments::Text(text) => Value::String(text.clone()),
                },
                question: question.map(|question| self.runner.redact_question(question)),
            });
        }
        self.ask_ahead(conversation, &mut waiting).await;
        waiting
    }

    /// Finds out which of the calls that were not started will need an approval too, so that a
    /// person can answer all questions at once. Nothing is asked and nothing runs.
    async fn ask_ahead(&self, conversation: &Conversation, waiting: &mut [PendingCall]) {
        if waiting.iter().all(|call| call.question.is_some()) {
            return;
        }
        let Ok(turn) = self.open_turn(conversation).await else { return };
        for call in waiting.iter_mut().filter(|call| call.question.is_none()) {
            let explanation = turn.explain(call.tool_call()).await;
            let verdict = &explanation.verdict;
            let needs_input = match &verdict.decision {
                Decision::Ask => None,
                Decision::NeedInput(argument) => Some(argument.clone()),
                Decision::Allow | Decision::Deny => continue,
            };
            call.question = Some(self.runner.redact_question(ApprovalQuestion {
                reason: verdict.reason.to_string(),
                source: verdict.source.to_string(),
                arguments: call.arguments.clone(),
                needs_input,
                risk: explanation.touches,
                always: Vec::new(),
            }));
        }
    }
}

impl PendingCall {
    /// Returns the call as the model wrote it.
    fn tool_call(&self) -> ToolCall {
        let arguments = match &self.arguments {
            Value::String(text) => Arguments::Text(text.clone()),
            json => Arguments::Json(json.clone()),
        };
        ToolCall::new(self.call.clone(), self.tool.clone(), arguments)
    }
}

fn take_question(
    asked: &mut Vec<(CallId, ApprovalQuestion)>,
    id: &CallId,
) -> Option<ApprovalQuestion> {
    let at = asked.iter().position(|(call, _)| call == id)?;
    Some(asked.swap_remove(at).1)
}
