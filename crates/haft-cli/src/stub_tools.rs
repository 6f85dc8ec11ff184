//! Tools that rules know and this command has not: enough of them to be judged, nothing to be run.
//!
//! `Bash`, `Read` and their kin by the arguments they usually have, and tools of servers by name
//! alone. Their bodies refuse.

use haft::{
    BoxError, BoxFuture, Capability, DynTool, Failure, ToolRegistryBuilder, ToolSource, ToolSpec,
};
use serde_json::{Value, json};

/// The names that rules know, besides those of servers.
pub(crate) const NAMES: [&str; 7] = ["Bash", "Read", "Edit", "Write", "Glob", "Grep", "WebFetch"];

/// A tool to be judged.
pub(crate) struct StandIn {
    /// The name a call uses.
    pub(crate) called: String,
    kind: Kind,
}

enum Kind {
    Known(&'static str),
    Remote { server: String, tool: String },
}

/// Finds the stand-in for a name.
pub(crate) fn find(name: &str) -> Option<StandIn> {
    if let Some(known) = NAMES.iter().find(|known| **known == name) {
        return Some(StandIn { called: name.to_owned(), kind: Kind::Known(known) });
    }
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    (is_word(server) && is_word(tool)).then(|| StandIn {
        called: format!("{server}__{tool}"),
        kind: Kind::Remote { server: server.to_owned(), tool: tool.to_owned() },
    })
}

impl StandIn {
    /// Puts it into a registry.
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
    let (spec, properties, required): (ToolSpec, Value, &[&str]) = match name {
        "Bash" => (
            starts(spec),
            json!({"command": about("command"), "timeout": {"type": "number"}}),
            &["command"],
        ),
        "Read" => (reads(spec), json!({"file_path": about("read_path")}), &["file_path"]),
        "Glob" | "Grep" => {
            (reads(spec), json!({"pattern": text(), "path": about("read_path")}), &["pattern"])
        }
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
