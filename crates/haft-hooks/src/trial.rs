//! Runs hooks on a fixture: which are called, what they answer, and what that would mean.
//!
//! For a person at a terminal. The hooks are really called; no tool is.

use std::{sync::Arc, time::Duration};

use haft::policy::HookSpec;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    configured::ConfiguredHook,
    names::Names,
    project_dir::ProjectDir,
    reply::{ParsedReply, Reply},
};

/// The result of running one hook on a fixture.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HookTestResult {
    /// The hook: its event and its location.
    pub hook: String,
    /// Why it was not called. `None` if it was.
    pub skipped: Option<String>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// The HTTP status of an endpoint.
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What it decided: `allow`, `ask`, `defer`, `deny` or `block`.
    pub decision: Option<&'static str>,
    /// The reason it gave.
    pub reason: Option<String>,
    /// The rewritten arguments.
    pub rewrite: Option<Value>,
    /// The rewritten output.
    pub output: Option<Value>,
    /// The note for the model.
    pub context: Option<String>,
    /// The message for a person.
    pub message: Option<String>,
    /// Why it would end the run, if it would.
    pub halt: Option<String>,
    /// What is wrong with its answer.
    pub problem: Option<String>,
    /// Whether a problem denies the call; otherwise the call continues and the problem is reported.
    /// A truncated answer and a changed script deny the call even if the hook fails open.
    pub fails_closed: bool,
}

impl HookTestResult {
    fn new(spec: &HookSpec) -> Self {
        Self {
            hook: ConfiguredHook::name_of(spec),
            skipped: None,
            exit_code: None,
            status: None,
            took_ms: 0,
            decision: None,
            reason: None,
            rewrite: None,
            output: None,
            context: None,
            message: None,
            halt: None,
            problem: None,
            fails_closed: spec.fails_closed,
        }
    }

    /// Returns whether the hook would stop the call.
    #[must_use]
    pub fn stops(&self) -> bool {
        matches!(self.decision, Some("deny" | "block"))
            || self.halt.is_some()
            || (self.problem.is_some() && self.fails_closed)
    }
}

/// Calls the hooks that match a fixture, in order, and returns the result of each. Each gets the
/// input as the one before rewrote it. The fixture is the input of a hook; missing fields that do
/// not depend on a call are filled in.
pub async fn test_hooks(
    specs: &[HookSpec],
    event: &str,
    fixture: &Value,
    project_dir: &ProjectDir,
) -> Vec<HookTestResult> {
    let project_dir = Arc::new(project_dir.clone());
    let mut input = crate::input::base(&project_dir, &haft::tool::Scope::default(), event);
    input.insert("cwd".to_owned(), json!(project_dir.path.to_string_lossy()));
    if let Value::Object(fixture) = fixture {
        input.extend(fixture.clone());
    }
    input.insert("hook_event_name".to_owned(), json!(event));
    let mut all = Vec::with_capacity(specs.len());
    for (at, spec) in specs.iter().enumerate() {
        let mut result = HookTestResult::new(spec);
        let tool = input.get("tool_name").and_then(Value::as_str).map(Names::from_name);
        if let Some(names) = &tool {
            input.insert("tool_name".to_owned(), json!(names.protocol));
        }
        let hook = match ConfiguredHook::new(spec, &project_dir, &specs[..at]) {
            Ok(hook) => hook,
            Err(error) => {
                result.skipped = Some(error.to_string());
                all.push(result);
                continue;
            }
        };
        result.skipped = skip_reason(&hook, event, tool.as_ref(), &input);
        if result.skipped.is_none() {
            let began = Instant::now();
            let reply = hook.reply(&Value::Object(input.clone())).await;
            let parsed = ParsedReply::parse(event, &reply);
            result.fill(reply, parsed, began.elapsed());
            if let Some(arguments) = &result.rewrite {
                input.insert("tool_input".to_owned(), arguments.clone());
            }
        }
        all.push(result);
    }
    all
}

fn skip_reason(
    hook: &ConfiguredHook,
    event: &str,
    tool: Option<&Names>,
    input: &serde_json::Map<String, Value>,
) -> Option<String> {
    if hook.event != event {
        return Some(format!("its event is `{}`", hook.event));
    }
    let names = tool?;
    if !hook.matches_tool(names) {
        return Some(format!("its matcher does not match `{}`", names.protocol));
    }
    let arguments = input.get("tool_input").unwrap_or(&Value::Null);
    (!hook.condition_holds_for(&names.registered, arguments))
        .then(|| "its condition does not hold".to_owned())
}

impl HookTestResult {
    fn fill(&mut self, reply: Reply, parsed: ParsedReply, took: Duration) {
        match reply {
            Reply::Exit { code, .. } => self.exit_code = code,
            Reply::Status { status, .. } => self.status = Some(status),
            Reply::Truncated | Reply::ScriptChanged(_) | Reply::None(_) => {}
        }
        self.fails_closed |= parsed.always_refuses();
        self.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        (self.decision, self.reason) = match (parsed.block, parsed.decision) {
            (Some(reason), _) => (Some("block"), Some(reason)),
            (None, Some((decision, reason))) => (Some(decision.as_str()), Some(reason)),
            (None, None) => (None, None),
        };
        self.rewrite = parsed.rewrite;
        self.output = parsed.output;
        self.context = parsed.context;
        self.message = parsed.message;
        self.halt = parsed.halt;
        self.problem = parsed.problem;
    }
}
