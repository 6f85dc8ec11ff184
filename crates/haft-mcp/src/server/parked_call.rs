//! A tool call that waits for an approval by its client: it is written down, the request ends with
//! the question, and the client's next request finishes the call, also in another process.
//!
//! INVARIANT: a call whose client answered no never runs.

use std::collections::BTreeMap;

use haft::{
    Run, ToolCall, Turn,
    policy::Decision,
    taint::Label,
    tool::CallId,
    turn::{ParkedCall, TurnHandle},
};
use rmcp::{ErrorData, model::InputRequiredResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    approver,
    conversation::Conversation,
    core::{Ended, ServerCore},
    job::{Answer, Job},
    seal::Binding,
};

/// The call of a job.
pub(super) struct JobCall {
    pub(super) run: Run,
    pub(super) id: CallId,
    pub(super) turn: TurnHandle,
}

/// A waiting call, as it is kept.
#[derive(Serialize, Deserialize)]
pub(super) struct WaitingCall {
    pub(super) call: ParkedCall,
    /// What its run had read.
    label: Label,
}

impl WaitingCall {
    /// Returns the run to finish it in: it has the id of the first one, and its taint.
    pub(super) fn run(&self, conversation: &Conversation) -> Run {
        let own = &conversation.run;
        let run = if self.call.run() == own.id() {
            own.clone()
        } else {
            own.sub_run().id(self.call.run().clone()).start()
        };
        if run.label() != self.label {
            // Another process has read this.
            let origin = Some("an earlier process");
            run.taint().record(self.call.id(), self.call.tool_name(), origin, self.label, "");
        }
        run
    }

    /// Makes sure that a call whose client said no cannot run, if the rules have changed and do not
    /// ask any more.
    pub(super) async fn stop_if_refused(&self, turn: &Turn, answers: &BTreeMap<String, Value>) {
        if !answers.values().any(approver::is_refusal) {
            return;
        }
        let (id, tool) = (self.call.id().as_str(), self.call.tool_name().as_str());
        let call = ToolCall::new(id, tool, self.call.arguments().clone());
        if turn.explain(call).await.verdict.decision == Decision::Allow {
            turn.handle().abort();
        }
    }
}

impl ServerCore {
    /// Ends the request with the questions of its job. A call that has not started is written down;
    /// a job whose body runs waits in memory.
    pub(super) async fn ask_later(&self, job: Job, binding: Binding) -> Result<Ended, ErrorData> {
        let requests = job.input_requests();
        let call = job.parkable_call().map(|call| (call.turn.clone(), call.run.label()));
        let state = match call {
            None => self.parked.park(job, binding),
            Some((turn, label)) => {
                turn.park();
                match job.finish().await? {
                    Answer::Parked(call) => {
                        self.parked.park_call(&WaitingCall { call: *call, label }, binding)
                    }
                    // Another approver was faster.
                    answer => return Ok(Ended::Done(answer)),
                }
            }
        };
        let Some(state) = state else {
            return Err(ErrorData::internal_error("too many questions are open", None));
        };
        Ok(Ended::InputRequired(InputRequiredResult::new(Some(requests), Some(state))))
    }
}
