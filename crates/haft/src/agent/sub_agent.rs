//! An agent as a tool of another agent.
//!
//! The sub-agent works in a sub-run: it has a share of the budget, starts with what the parent has
//! read, and its calls go through the same policy. Starting it is a call of a tool, so the policy
//! decides about that as well.

use std::sync::Arc;

use haft_core::{DynTool, Failure, FailureCode, ToolContext, ToolSpec};
use serde_json::{Value, json};

use super::{
    control::RunHandle, conversation::Conversation, definition::Agent, event::EventSink,
    result::RunStatus, run_loop::Loop, runner::Runner,
};
use crate::{run::Run, runtime::Runtime};

impl Agent {
    /// Makes a tool that runs this agent on a task and returns its answer.
    ///
    /// The agent sees the tools of the runtime through its own view, and its limits apply in
    /// addition to those of the run that calls it. A question about one of its calls cannot be
    /// deferred.
    #[must_use]
    pub fn into_tool(self, spec: ToolSpec) -> DynTool {
        let schema = json!({
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "What the agent shall do, with everything it needs to know.",
                },
                "agent": {"const": self.name, "x-haft": "agent", "default": self.name},
            },
            "required": ["task"],
        });
        DynTool::new(spec, schema, move |arguments: Arc<Value>, cx: ToolContext| {
            let agent = self.clone();
            async move {
                let task = arguments["task"].as_str().unwrap_or_default().to_owned();
                agent.work_below(&cx, &task).await
            }
        })
    }

    async fn work_below(&self, cx: &ToolContext, task: &str) -> Result<String, Failure> {
        let Some(builder) = Run::sub_run_of(cx) else {
            return Err(Failure::failed("the agent can only run inside of a runtime"));
        };
        let builder = builder.agent(self.name.clone()).view(self.tools.clone());
        let run = builder.budget(self.limits.clone()).start();
        let runner = Runner::new(Runtime::of(&run));
        let mut conversation = Conversation::new(run, runner.now());
        // The task was written by a model, so it does not count as the user's text.
        conversation.add_host_text(task);
        let work = Loop::new(&runner, self, RunHandle::default(), EventSink::default());
        let work = work.map_err(|error| {
            Failure::failed("the agent could not be started").with_source(error)
        })?;
        let result = work.drive(&mut conversation).await;
        match result.state {
            RunStatus::Completed | RunStatus::Degraded => Ok(result.text),
            RunStatus::Cancelled => {
                Err(Failure::new(FailureCode::Cancelled, "the agent was cancelled"))
            }
            state => Err(Failure::failed(format!(
                "the agent `{}` {state}: {}",
                self.name, result.reason
            ))),
        }
    }
}
