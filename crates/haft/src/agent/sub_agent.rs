//! An agent as a tool of another agent.
//!
//! The sub-agent works in a sub-run: it has a share of the budget, starts with what the parent has
//! read, and its calls go through the same policy. Starting it is a call of a tool, so the policy
//! decides about that as well. Only its answer comes back: the final text, or JSON of a declared
//! schema.

use std::sync::Arc;

use haft_core::{DynTool, Error, ErrorKind, Failure, FailureCode, Output, ToolContext, ToolSpec};
use serde_json::{Value, json};

use super::{
    control::RunHandle,
    conversation::Conversation,
    definition::Agent,
    event::EventSink,
    output::{MAX_CORRECTIONS, correction, parse},
    result::{EndReason, RunResult, RunStatus},
    run_loop::Loop,
    runner::Runner,
};
use crate::{run::Run, runtime::Runtime, schema::Schema};

/// The schema of an answer, compiled and as it is shown.
struct DeclaredResult {
    schema: Value,
    compiled: Schema,
}

impl Agent {
    /// Makes a tool that runs this agent on a task and returns its answer.
    ///
    /// The agent sees the tools of the runtime through its own view, and its limits apply in
    /// addition to those of the run that calls it. A question about one of its calls cannot be
    /// deferred.
    #[must_use]
    pub fn into_tool(self, spec: ToolSpec) -> DynTool {
        self.tool_with(spec, None)
    }

    /// Makes a tool that runs this agent and returns JSON of this schema, and nothing else of what
    /// the agent wrote or read. An answer that does not match is returned to the agent with the
    /// problems, at most twice; then the call fails.
    ///
    /// # Errors
    /// Fails if the schema does not compile.
    pub fn into_tool_with_result(self, spec: ToolSpec, schema: Value) -> Result<DynTool, Error> {
        let compiled = Schema::compile(&schema).map_err(|error| {
            let why = format!("the result of the agent `{}` has no usable schema", self.name);
            Error::new(ErrorKind::BadSchema, why).because(error)
        })?;
        Ok(self.tool_with(spec, Some(Arc::new(DeclaredResult { schema, compiled }))))
    }

    fn tool_with(self, spec: ToolSpec, declared: Option<Arc<DeclaredResult>>) -> DynTool {
        let input = json!({
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
        DynTool::new(spec, input, move |arguments: Arc<Value>, cx: ToolContext| {
            let (agent, declared) = (self.clone(), declared.clone());
            async move {
                let task = arguments["task"].as_str().unwrap_or_default().to_owned();
                agent.work_below(&cx, &task, declared.as_deref()).await
            }
        })
    }

    async fn work_below(
        &self,
        cx: &ToolContext,
        task: &str,
        declared: Option<&DeclaredResult>,
    ) -> Result<Output, Failure> {
        let Some(builder) = Run::sub_run_of(cx) else {
            return Err(Failure::failed("the agent can only run inside of a runtime"));
        };
        let builder = builder.agent(self.name.clone()).view(self.tools.clone());
        let run = builder.budget(self.limits.clone()).start();
        let runner = Runner::new(Runtime::of(&run));
        let mut conversation = Conversation::new(run, runner.now());
        // The task was written by a model, so it does not count as the user's text.
        conversation.add_host_text(task);
        let work = || -> Result<Loop<'_>, Failure> {
            let work = Loop::new(&runner, self, RunHandle::default(), EventSink::default());
            work.map_err(|error| {
                Failure::failed("the agent could not be started").with_source(error)
            })
        };
        let Some(declared) = declared else {
            let result = work()?.drive(&mut conversation).await;
            return self.answer(result).map(Output::text);
        };
        let mut corrections = 0;
        loop {
            let work = work()?.with_output(&declared.schema);
            let result = work.drive(&mut conversation).await;
            let reason = result.reason.clone();
            let text = self.answer(result).map_err(|failure| match failure.code() {
                FailureCode::Cancelled => failure,
                // The reason may quote the model: the names and ids of its calls.
                code => {
                    let why = format!("the agent `{}` failed: {}", self.name, category(&reason));
                    Failure::new(code, why).with_source(failure)
                }
            })?;
            match parse::<Value>(&declared.compiled, &text) {
                Ok(answer) => return Ok(Output::json(answer)),
                Err(mismatch) if corrections == MAX_CORRECTIONS => {
                    // The details quote the answer, which may contain a prompt injection.
                    let (name, summary) = (&self.name, mismatch.summary);
                    let why =
                        format!("the answer of the agent `{name}` has another form: {summary}");
                    return Err(Failure::failed(why).with_source(mismatch.details));
                }
                Err(mismatch) => {
                    corrections += 1;
                    let note = format!("[note from the host: {}]", correction(&mismatch.details));
                    conversation.add_host_text(&note);
                }
            }
        }
    }

    /// The text of a run that has answered.
    fn answer(&self, result: RunResult) -> Result<String, Failure> {
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

/// Why a run ended, without any text of the model or of a tool.
fn category(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::ModelRefused => "its model refused to answer",
        EndReason::ModelFailed { .. } => "its model failed",
        EndReason::ToolFailed { .. } => "one of its calls failed",
        EndReason::LimitReached { .. } => "it reached a limit",
        EndReason::ContextLimit { .. } => "its conversation is too long",
        EndReason::Denied { .. } => "the policy does not allow it",
        EndReason::AwaitingApproval => "one of its calls needs approval",
        _ => "it gave no answer",
    }
}
