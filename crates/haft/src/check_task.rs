//! The tool with which a model fetches background results.

use std::{sync::Arc, time::Duration};

use haft_core::{
    Block, Capabilities, DynTool, Failure, FailureCode, IntoTools, Label, Output, ToolContext,
    ToolSpec, host::HostContext,
};
use serde_json::{Value, json};

use crate::call::{
    TurnCore,
    background::{Background, CHECK_TASK, TaskEntry},
};

/// Longest wait for a result, in seconds: shorter than the timeout of an attempt.
const MAX_WAIT_SECONDS: u64 = 60;

/// Lets the model fetch background results. Add it to the registry together with tools that answer
/// with a task.
///
/// The tool is called `check_task`. Without a task it lists those of the run. With one it
/// returns the result, once, or reports that it is not ready, after waiting up to a minute if the
/// model asks for it. It cannot see tasks of other runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckTask;

impl IntoTools for CheckTask {
    fn into_tools(self) -> Vec<DynTool> {
        let about = "Returns the result of a task, or says that it is not ready yet. \
                     Without a task, lists the outstanding tasks.";
        // The results it returns carry their own label.
        let spec = ToolSpec::new(CHECK_TASK, about)
            .read_only()
            .capabilities(Capabilities::NONE)
            .label(Label::CLEAN)
            .timeout(Duration::from_secs(MAX_WAIT_SECONDS + 30));
        let schema = json!({
            "properties": {
                "task_id": {"type": "string", "description": "The task whose result to return."},
                "wait_s": {
                    "type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS,
                    "description": "How many seconds to wait for the result; 0 by default.",
                },
            },
        });
        vec![DynTool::new(spec, schema, |args, cx| async move { check_task(&args, &cx).await })]
    }
}

async fn check_task(args: &Value, cx: &ToolContext) -> Result<Output, Failure> {
    let turn = cx.host().and_then(|host| host.downcast::<TurnCore>().ok()).ok_or_else(|| {
        Failure::new(FailureCode::NotRun, "background tasks are not available here")
    })?;
    let background = &turn.run.inner.background;
    let Some(id) = args["task_id"].as_str() else {
        return Ok(Output::json(json!({"tasks": background.tasks(&turn.run)})));
    };
    let find = || background.of(&turn.run).into_iter().find(|entry| *entry.id == *id);
    let Some(entry) = find() else { return Err(unknown_task(id)) };
    let wait = args["wait_s"].as_u64().unwrap_or(0).min(MAX_WAIT_SECONDS);
    wait_for_end(&turn, background, &entry, Duration::from_secs(wait)).await;
    if entry.is_running() {
        let task = entry.task(Some(cx.tool_name()));
        return Ok(Output::json(serde_json::to_value(task).unwrap_or_default()));
    }
    let Some(late) = background.deliver(&entry) else { return Err(unknown_task(id)) };
    cx.add_nested_label(late.answer.label());
    match late.answer.output() {
        Some(output) => Ok(output.clone()),
        // The query succeeded; the work behind the task failed.
        None => {
            let text = late.answer.text().into_owned();
            let line = format!("the background task `{id}` failed");
            Ok(Output::text(line).and(Block::text(text)))
        }
    }
}

async fn wait_for_end(
    turn: &TurnCore,
    background: &Background,
    entry: &Arc<TaskEntry>,
    limit: Duration,
) {
    let clock = &*turn.run.inner.clock;
    let mut late = clock.sleep_until(crate::host_code::after(clock.now(), limit));
    loop {
        let changed = background.changed.notified();
        if !entry.is_running() || limit.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = late.as_mut() => return,
        }
    }
}

fn unknown_task(id: &str) -> Failure {
    let shown: String = id.chars().take(64).collect();
    Failure::invalid(format!("there is no task `{shown}`, or its result was already delivered"))
        .with_next(format!("call `{CHECK_TASK}` without a task to list them"))
}
