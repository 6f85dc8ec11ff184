//! Stub tools for `haft explain`: tools that rules name and that haft does not have.
//!
//! `Bash`, `Read` and so on with their usual arguments, and MCP tools by name. They can be
//! authorized; their bodies always fail.

use haft::{
    BoxFuture, Failure,
    registry::{ToolRegistryBuilder, ToolSource},
    tool::{BoxError, Capabilities, Capability, DynTool, ToolSpec},
};
use serde_json::{Map, Value, json};

/// The names of the stubs, without MCP tools.
pub(crate) const NAMES: [&str; 29] = [
    "Bash",
    "Read",
    "Edit",
    "MultiEdit",
    "Write",
    "NotebookEdit",
    "NotebookRead",
    "Glob",
    "Grep",
    "LS",
    "WebFetch",
    "WebSearch",
    "Task",
    "Agent",
    "Skill",
    "TodoWrite",
    "ExitPlanMode",
    "EnterPlanMode",
    "AskUserQuestion",
    "BashOutput",
    "KillShell",
    "TaskOutput",
    "TaskStop",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
    "ToolSearch",
    "SlashCommand",
];

/// Parameters of `Bash` that rules may name, and that `shell` does not have. With one of them a
/// call is judged with the stub.
pub(crate) const BASH_PARAMETERS: [&str; 2] = ["run_in_background", "dangerouslyDisableSandbox"];

/// Returns the call of a tool of haft that is the same as a call of this tool: `Bash` is `shell`.
pub(crate) fn equivalent(name: &str, arguments: &Value) -> Option<(&'static str, Value)> {
    let command = (name == "Bash").then(|| arguments.get("command"))?;
    let is_set = |key: &&str| arguments.get(*key).is_some_and(|set| *set != Value::Bool(false));
    if BASH_PARAMETERS.iter().any(is_set) {
        return None;
    }
    let mut own = Map::new();
    own.extend(command.map(|command| ("command".to_owned(), command.clone())));
    // Its other arguments (`description`, `timeout`) decide nothing.
    Some(("shell", Value::Object(own)))
}

/// A stub tool.
pub(crate) struct StubTool {
    /// The name a call uses.
    pub(crate) called: String,
    kind: Kind,
}

enum Kind {
    Known(&'static str),
    Remote { server: String, tool: String },
}

/// Finds the stub for a name.
pub(crate) fn find(name: &str) -> Option<StubTool> {
    if let Some(known) = NAMES.iter().find(|known| **known == name) {
        return Some(StubTool { called: name.to_owned(), kind: Kind::Known(known) });
    }
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    (is_word(server) && is_word(tool)).then(|| StubTool {
        called: format!("{server}__{tool}"),
        kind: Kind::Remote { server: server.to_owned(), tool: tool.to_owned() },
    })
}

impl StubTool {
    /// Adds it to a registry.
    pub(crate) fn add(self, registry: ToolRegistryBuilder) -> ToolRegistryBuilder {
        match self.kind {
            Kind::Known(name) => registry.add(known(name)),
            Kind::Remote { server, tool } => registry.source(Server { server, tool }),
        }
    }
}

fn known(name: &str) -> DynTool {
    let spec = ToolSpec::new(name, "A stub: it is authorized and never run.");
    let text = || json!({"type": "string"});
    let about = |about: &str| json!({"type": "string", "x-haft": about});
    let here = || json!({"type": "string", "x-haft": "read_path", "default": "."});
    let (spec, properties, required): (ToolSpec, Value, &[&str]) = match name {
        "Bash" => (
            starts(spec),
            json!({"command": about("command"), "timeout": {"type": "number"}}),
            &["command"],
        ),
        "Read" => (reads(spec), json!({"file_path": about("read_path")}), &["file_path"]),
        "NotebookRead" => {
            (reads(spec), json!({"notebook_path": about("read_path")}), &["notebook_path"])
        }
        // Without a path they read the working directory.
        "Glob" | "Grep" => (reads(spec), json!({"pattern": text(), "path": here()}), &["pattern"]),
        "LS" => (reads(spec), json!({"path": here()}), &[]),
        "NotebookEdit" => (
            spec.capabilities([Capability::Filesystem]),
            json!({"notebook_path": about("write_path"), "new_source": text()}),
            &["notebook_path"],
        ),
        "WebSearch" => (
            spec.read_only().capabilities([Capability::Network]),
            json!({"query": text()}),
            &["query"],
        ),
        // What the agent does is authorized call by call.
        "Task" | "Agent" => (
            spec.read_only().capabilities(Capabilities::NONE),
            json!({"subagent_type": about("agent"), "description": text(), "prompt": text()}),
            &[],
        ),
        // They change only what the agent itself keeps, or read what a command has printed. The
        // command was authorized when it started.
        "TodoWrite" | "BashOutput" | "KillShell" | "TaskOutput" | "TaskStop" | "TaskCreate"
        | "TaskUpdate" | "TaskList" | "TaskGet" | "ToolSearch" | "EnterPlanMode"
        | "AskUserQuestion" => (spec.read_only().capabilities(Capabilities::NONE), json!({}), &[]),
        // Claude Code asks about them.
        "SlashCommand" => {
            (spec.capabilities(Capabilities::NONE), json!({"command": text()}), &["command"])
        }
        "Skill" => (
            spec.capabilities(Capabilities::NONE),
            json!({"skill": text(), "args": text()}),
            &["skill"],
        ),
        "ExitPlanMode" => (spec.capabilities(Capabilities::NONE), json!({}), &[]),
        "WebFetch" => (
            spec.read_only().capabilities([Capability::Network]),
            json!({"url": about("url"), "prompt": text()}),
            &["url"],
        ),
        _ => (
            spec.capabilities([Capability::Filesystem]),
            json!({"file_path": about("write_path"), "content": text(), "old_string": text(), "new_string": text()}),
            &["file_path"],
        ),
    };
    let schema = json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": true});
    never(spec, schema)
}

fn starts(spec: ToolSpec) -> ToolSpec {
    spec.capabilities([Capability::Subprocess, Capability::Filesystem, Capability::Network])
}

fn reads(spec: ToolSpec) -> ToolSpec {
    spec.read_only().capabilities([Capability::Filesystem])
}

fn never(spec: ToolSpec, schema: Value) -> DynTool {
    DynTool::new(spec, schema, |_, _| -> BoxFuture<'static, Result<String, Failure>> {
        Box::pin(async { Err(Failure::failed("a stub is never run")) })
    })
}

/// A server that has one tool.
struct Server {
    server: String,
    tool: String,
}

impl ToolSource for Server {
    fn name(&self) -> &str {
        &self.server
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        let spec = ToolSpec::new(self.tool.as_str(), "A stub: it is authorized and never run.");
        let tool = never(spec, json!({"type": "object", "additionalProperties": true}));
        Box::pin(async { Ok(vec![tool]) })
    }
}
