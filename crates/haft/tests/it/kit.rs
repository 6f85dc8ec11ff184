//! Shared helpers: small tools, a runtime around them, and a readable event log.

use std::sync::{Arc, Mutex};

use haft::{
    Failure, Runtime, RuntimeBuilder, ToolCall, ToolRegistry, ToolResult,
    events::Event,
    journal::{ExecutionRecord, MemoryJournal},
    policy::AllowAll,
    testing::Nonces,
    tool::{Capabilities, ConcurrencyClass, DynTool, ToolSpec},
};
use serde_json::{Value, json};

/// Returns a spec that is allowed without approval.
pub(crate) fn read(name: &str) -> ToolSpec {
    ToolSpec::new(name, "Reads something.").read_only().capabilities(Capabilities::NONE)
}

/// Returns a spec that writes and runs alone.
pub(crate) fn write(name: &str) -> ToolSpec {
    ToolSpec::new(name, "Writes something.").class(ConcurrencyClass::WriteExclusive)
}

/// Returns a schema with one optional string.
pub(crate) fn open_schema() -> Value {
    json!({"properties": {"x": {"type": "string"}, "key": {"type": "string"}}})
}

/// Returns a tool that returns its own name and argument at once.
pub(crate) fn quick(spec: ToolSpec) -> DynTool {
    let name = spec.name.clone();
    DynTool::new(spec, open_schema(), move |args, _| {
        let text = format!("{name}({})", args["x"].as_str().unwrap_or_default());
        async move { text }
    })
}

/// Returns a tool that sleeps on the runtime's clock.
pub(crate) fn slow(spec: ToolSpec, millis: u64) -> DynTool {
    DynTool::new(spec, open_schema(), move |_, _| async move {
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        "slept"
    })
}

/// Returns a tool that fails.
pub(crate) fn failing(spec: ToolSpec) -> DynTool {
    DynTool::new(spec, open_schema(), |_, _| async { Err::<(), _>(Failure::failed("no luck")) })
}

/// Returns a runtime builder over these tools that allows everything.
pub(crate) fn permissive(tools: Vec<DynTool>) -> RuntimeBuilder {
    Runtime::builder()
        .registry(ToolRegistry::builder().add(tools).build().unwrap())
        .policy(AllowAll)
        .nonces(Nonces::counting(0))
}

/// Returns calls from `name` or `name:argument` items, with ids `c1`, `c2`, ….
pub(crate) fn calls(text: &str) -> Vec<ToolCall> {
    text.split_whitespace()
        .enumerate()
        .map(|(n, word)| {
            let (name, argument) = word.split_once(':').unwrap_or((word, ""));
            let arguments = if argument.is_empty() { json!({}) } else { json!({"x": argument}) };
            ToolCall::new(format!("c{}", n + 1), name, arguments)
        })
        .collect()
}

/// Records the events of a runtime, one short line each.
#[derive(Clone, Default)]
pub(crate) struct Transcript(Arc<Mutex<Vec<String>>>);

impl Transcript {
    /// Returns the recording observer.
    pub(crate) fn observer(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let lines = Arc::clone(&self.0);
        move |event| {
            let line = match event {
                Event::Planned { call, requested_name: called, place } => {
                    format!("{call} {called} batch {} ({})", place.batch, place.why)
                }
                Event::Running { call } => format!("{call} running"),
                Event::Asked { call, verdict, .. } => format!("{call} asked: {}", verdict.reason),
                Event::Authorized { call, verdict } => {
                    format!("{call} permitted by {}", verdict.source)
                }
                Event::Progress { call, note } => format!("{call} {note:?}"),
                Event::Finished { call, failed, execution: ran, .. } => {
                    let end = failed.map_or("ok", |code| code.as_str());
                    format!("{call} finished {end} ran {ran:?}")
                }
                Event::Problem { message, .. } => format!("problem: {message}"),
                _ => return,
            };
            lines.lock().unwrap().push(line);
        }
    }

    /// Returns the recorded lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Returns how many terminal events a call had.
    pub(crate) fn ends_of(&self, id: &str) -> usize {
        let start = format!("{id} finished");
        self.lines().iter().filter(|l| l.starts_with(&start)).count()
    }
}

/// Returns results as `id code-or-ok`.
pub(crate) fn ends(answers: &[ToolResult]) -> Vec<String> {
    answers
        .iter()
        .map(|a| {
            let end = a.failure().map_or("ok", |f| f.code().as_str());
            format!("{} {end}", a.id())
        })
        .collect()
}

/// Returns the framed text of the nth result, from a body with the default label.
pub(crate) fn framed(n: usize, tool: &str, body: &str) -> String {
    let (opening, closing) = marks(n, tool, "", body.chars().count());
    format!("{opening}\n{body}\n{closing}")
}

/// Returns the framed text of a failed body.
pub(crate) fn framed_failure(n: usize, tool: &str, text: &str) -> String {
    let code = text.split(':').next().unwrap();
    let (opening, closing) = marks(n, tool, &format!(" error={code}"), text.chars().count());
    format!("{opening}\n{text}\n{closing}")
}

/// Returns the markers before and after the nth result.
pub(crate) fn marks(n: usize, tool: &str, more: &str, chars: usize) -> (String, String) {
    let opening =
        format!("[haft {n:010} tool={tool} label=untrusted/internal{more} chars={chars}]");
    (opening, format!("[/haft {n:010}]"))
}

/// Returns the intent records of calls.
pub(crate) fn intents(journal: &MemoryJournal) -> Vec<ExecutionRecord> {
    journal.records().into_iter().filter(|r| r.intent.is_some()).collect()
}

/// Returns the records of finished calls.
pub(crate) fn settled(journal: &MemoryJournal) -> Vec<ExecutionRecord> {
    journal.records().into_iter().filter(|r| r.end.is_some()).collect()
}
