//! Tries hooks out on a fixture: which would be called, what they say, and what that would mean.
//!
//! For a person at a terminal. The hooks are really called; no tool is.

use std::{sync::Arc, time::Duration};

use haft::HookSpec;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    line::Line,
    names::Names,
    place::ProjectDir,
    ruling::{Reply, Ruling},
};

/// What came of trying one hook.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct TrialResult {
    /// The hook: its event and where it is written.
    pub hook: String,
    /// Why it was not called; nothing when it was.
    pub skipped: Option<String>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// The status of an address.
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What it decided: `allow`, `ask`, `defer`, `deny` or `block`.
    pub decision: Option<&'static str>,
    /// Why, in its words.
    pub reason: Option<String>,
    /// The arguments it wants instead.
    pub rewrite: Option<Value>,
    /// The output it wants instead.
    pub output: Option<Value>,
    /// What it wants the model to read.
    pub context: Option<String>,
    /// What it wants a person to read.
    pub message: Option<String>,
    /// It would end the run, and why.
    pub halt: Option<String>,
    /// What is wrong with its answer.
    pub problem: Option<String>,
    /// Whether a problem would refuse the call; otherwise the call would go on, loudly. A truncated
    /// answer and a script that changed refuse the call even where the hook fails open.
    pub fails_closed: bool,
}

impl TrialResult {
    fn new(spec: &HookSpec) -> Self {
        Self {
            hook: Line::name_of(spec),
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

    /// Returns whether the hook would keep the call from running.
    #[must_use]
    pub fn stops(&self) -> bool {
        matches!(self.decision, Some("deny" | "block"))
            || self.halt.is_some()
            || (self.problem.is_some() && self.fails_closed)
    }
}

/// Calls the hooks that are about a fixture, in order, each seeing the input as the one before left
/// it, and says what came of each. The fixture is what a hook would be told; missing fields that do
/// not depend on a call are filled in.
pub async fn try_out(
    specs: &[HookSpec],
    event: &str,
    fixture: &Value,
    place: &ProjectDir,
) -> Vec<TrialResult> {
    let place = Arc::new(place.clone());
    let mut told = crate::input::base(&place, &haft::Scope::default(), event);
    told.insert("cwd".to_owned(), json!(place.path.to_string_lossy()));
    if let Value::Object(fixture) = fixture {
        told.extend(fixture.clone());
    }
    told.insert("hook_event_name".to_owned(), json!(event));
    let mut all = Vec::with_capacity(specs.len());
    for (at, spec) in specs.iter().enumerate() {
        let mut tried = TrialResult::new(spec);
        let tool = told.get("tool_name").and_then(Value::as_str).map(Names::plain);
        if let Some(names) = &tool {
            told.insert("tool_name".to_owned(), json!(names.shown));
        }
        let line = match Line::new(spec, &place, &specs[..at]) {
            Ok(line) => line,
            Err(error) => {
                tried.skipped = Some(error.to_string());
                all.push(tried);
                continue;
            }
        };
        tried.skipped = why_not(&line, event, tool.as_ref(), &told);
        if tried.skipped.is_none() {
            let began = Instant::now();
            let reply = line.reply(&Value::Object(told.clone())).await;
            let ruling = Ruling::read(event, &reply);
            tried.fill(reply, ruling, began.elapsed());
            if let Some(arguments) = &tried.rewrite {
                told.insert("tool_input".to_owned(), arguments.clone());
            }
        }
        all.push(tried);
    }
    all
}

fn why_not(
    line: &Line,
    event: &str,
    tool: Option<&Names>,
    told: &serde_json::Map<String, Value>,
) -> Option<String> {
    if line.event != event {
        return Some(format!("it is about `{}`", line.event));
    }
    let names = tool?;
    if !line.is_about(names) {
        return Some(format!("its matcher is not about `{}`", names.shown));
    }
    let input = told.get("tool_input").unwrap_or(&Value::Null);
    (!line.holds_for(&names.own, input)).then(|| "its condition does not hold".to_owned())
}

impl TrialResult {
    fn fill(&mut self, reply: Reply, ruling: Ruling, took: Duration) {
        match reply {
            Reply::Exit { code, .. } => self.exit_code = code,
            Reply::Status { status, .. } => self.status = Some(status),
            Reply::Truncated | Reply::ScriptChanged(_) | Reply::None(_) => {}
        }
        self.fails_closed |= ruling.always_refuses();
        self.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        (self.decision, self.reason) = match (ruling.block, ruling.decision) {
            (Some(reason), _) => (Some("block"), Some(reason)),
            (None, Some((decision, reason))) => (Some(decision.word()), Some(reason)),
            (None, None) => (None, None),
        };
        self.rewrite = ruling.rewrite;
        self.output = ruling.output;
        self.context = ruling.context;
        self.message = ruling.message;
        self.halt = ruling.halt;
        self.problem = ruling.problem;
    }
}
