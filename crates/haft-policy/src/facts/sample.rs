//! A call in a rule file, as an example.
//!
//! ```text
//! "Bash(git push origin main)"   "Read(./a)"   "WebFetch(https://x.org/p)"
//! "mcp__github__get_issue"       "mail_send(to=bob@x.org, urgent=true)"
//! { tool = "mail_send", args = { to = "bob@x.org" }, label = "untrusted" }
//! "git push origin main"         for a rule about commands; likewise a path, a URL
//! ```

use std::{cell::OnceCell, sync::Arc};

use haft_core::{Capabilities, Capability, Confidentiality, Label, Operation, Scope, Trust};
use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::{DirectoryListings, Facts, Names};
use crate::{
    context::{ArgumentKind, PolicyContext},
    request::{Subject, traits},
    taint::TaintTracker,
};
use haft_schema::near::nearest;

/// An example call of a rule file: owns what [`Facts`] borrows.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) scope: Scope,
    pub(crate) seen: Arc<TaintTracker>,
    /// The source and the name there, for a tool from an external source.
    remote: Option<(String, String)>,
    /// What it may reach, if the example declares it.
    capabilities: Option<Capabilities>,
    /// What it does, if the example declares it.
    operations: SmallVec<[Operation; 2]>,
}

/// The names that rules use for built-in tools, and what such a tool reaches.
const BUILTIN_NAMES: [(&str, &str, Capability); 5] = [
    ("Bash", "shell", Capability::Subprocess),
    ("Read", "read_file", Capability::Filesystem),
    ("Edit", "edit_file", Capability::Filesystem),
    ("Write", "write_file", Capability::Filesystem),
    ("WebFetch", "fetch_url", Capability::Network),
];

impl Sample {
    /// The keys of an example that is a table.
    pub(crate) const KEYS: &[&str] =
        &["tool", "args", "label", "capabilities", "effects", "agent", "user"];

    /// Parses an example: `Tool(…)`, a table with `tool` and `args`, or, for a rule about commands,
    /// paths or hosts (`about`), only the command, the path or the URL.
    pub(crate) fn read(example: &Value, about: Option<ArgumentKind>) -> Result<Self, String> {
        match example {
            Value::String(text) => Self::of_text(text, about),
            Value::Object(table) => Self::of_table(table),
            _ => Err("an example must be a string or a table with `tool` and `args`".to_owned()),
        }
    }

    /// Makes a call of a tool that need not be registered.
    pub(crate) fn new(tool: &str, arguments: Value) -> Self {
        let own =
            BUILTIN_NAMES.iter().find(|(other, ..)| *other == tool).map_or(tool, |(_, own, _)| own);
        // An example is only text, so the first `__` separates.
        let remote = tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        Self {
            tool: own.to_owned(),
            arguments,
            scope: Scope::default(),
            seen: Arc::default(),
            remote: remote.map(|(source, tool)| (source.to_owned(), tool.to_owned())),
            capabilities: None,
            operations: SmallVec::new(),
        }
    }

    /// Makes a call that reads one file, or does more to it.
    pub(crate) fn touching(doing: Operation, file: &str, scope: Scope) -> Self {
        let about =
            if doing == Operation::Read { ArgumentKind::ReadPath } else { ArgumentKind::WritePath };
        Self { scope, ..Self::about(about, file) }
    }

    /// Makes a call that contacts one host.
    pub(crate) fn contacting(host: &str, scope: Scope) -> Self {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Self { scope, ..Self::about(ArgumentKind::Url, &host) }
    }

    /// The tool and the argument that a command, a path or a URL is short for.
    fn about(about: ArgumentKind, text: &str) -> Self {
        let (tool, argument) = match about {
            ArgumentKind::Command => ("shell", "command"),
            ArgumentKind::ReadPath => ("read_file", "path"),
            ArgumentKind::WritePath => ("edit_file", "path"),
            ArgumentKind::Url => ("fetch_url", "url"),
        };
        Self::new(tool, Value::Object(Map::from_iter([(argument.to_owned(), text.into())])))
    }

    fn of_text(text: &str, about: Option<ArgumentKind>) -> Result<Self, String> {
        let text = text.trim();
        match split(text) {
            Some((name, Some(inside)))
                if BUILTIN_NAMES.iter().any(|(other, ..)| *other == name) =>
            {
                let (_, about) = traits::usual(name).ok_or("it is not a call")?;
                let mut sample = Self::about(about, inside);
                sample.tool = Self::new(name, Value::Null).tool;
                Ok(sample)
            }
            Some((name, inside)) if name.starts_with("mcp__") => {
                Ok(Self::new(name, pairs(inside.unwrap_or_default())?))
            }
            split => match (about, split) {
                (Some(about), _) => Ok(Self::about(about, text)),
                (None, Some((name, inside))) => {
                    Ok(Self::new(name, pairs(inside.unwrap_or_default())?))
                }
                (None, None) => Err(format!(
                    "`{text}` is not a call; write `Tool`, `Tool(name=value)`, or a table with \
                     `tool` and `args`"
                )),
            },
        }
    }

    fn of_table(table: &Map<String, Value>) -> Result<Self, String> {
        if let Some(odd) = table.keys().find(|key| !Self::KEYS.contains(&key.as_str())) {
            let near =
                nearest(odd, Self::KEYS.iter().copied()).map(|w| format!("; did you mean `{w}`?"));
            return Err(format!("unknown key `{odd}` in an example{}", near.unwrap_or_default()));
        }
        let text = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("`{key}` of an example must be a string")),
        };
        let tool = text("tool")?.ok_or("an example that is a table needs the key `tool`")?;
        let arguments = match table.get("args") {
            None => Value::Object(Map::new()),
            Some(args @ Value::Object(_)) => args.clone(),
            Some(_) => return Err("`args` of an example must be a table".to_owned()),
        };
        let mut sample = Self::new(tool, arguments);
        let mut scope = Scope::default();
        for word in words(table, "label")? {
            scope.label = scope.label.join(label(word)?);
        }
        scope.agent = text("agent")?.map(str::to_owned);
        scope.user = text("user")?.map(str::to_owned);
        if table.contains_key("capabilities") {
            let all = words(table, "capabilities")?;
            let all: Result<Capabilities, String> = all.into_iter().map(str::parse).collect();
            sample.capabilities = Some(all?);
        }
        for word in words(table, "effects")? {
            let known = serde_json::from_value(Value::from(word));
            sample.operations.push(known.map_err(|_| format!("`{word}` is not a known effect"))?);
        }
        sample.scope = scope;
        Ok(sample)
    }

    /// Gathers what is known about it.
    pub(crate) fn facts<'a>(&'a self, context: &'a PolicyContext) -> Facts<'a> {
        let own =
            BUILTIN_NAMES.iter().find(|(_, own, _)| *own == self.tool && self.remote.is_none());
        let capabilities = self.capabilities.or(own.map(|(.., reach)| [*reach].into()));
        let remote = self.remote.as_ref().map(|(source, tool)| (&**source, &**tool));
        let known = traits::known_as(&self.tool, remote);
        let mut names = Names { own: &self.tool, remote, known_as: known.into() };
        if remote.is_none() && own.is_none() && self.arguments.get("command").is_some() {
            names.known_as.push("Bash");
        }
        let mut facts = Facts {
            names,
            arguments: &self.arguments,
            subject: if known.contains(&"Agent") {
                Subject::SubagentCall
            } else {
                Subject::ToolCall
            },
            capabilities: capabilities.unwrap_or(Capabilities::ALL),
            declared: capabilities.is_some(),
            operations: self.operations.clone(),
            read_only: !self.operations.is_empty()
                && self.operations.iter().all(|o| *o == Operation::Read),
            destructive: capabilities.is_none_or(|c| c.has(Capability::Destructive)),
            is_known_destructive: capabilities.is_some_and(|c| c.has(Capability::Destructive)),
            effects_known: None,
            scope: &self.scope,
            seen: &self.seen,
            parts: SmallVec::new(),
            overflow: false,
            starts_elsewhere: false,
            mentions: Vec::new(),
            possible: Vec::new(),
            texts: Vec::new(),
            launches: Vec::new(),
            requested_hosts: Vec::new(),
            beginnings: Vec::new(),
            declares_reads: false,
            listings: DirectoryListings::default(),
            roots: &[],
            context,
            base: OnceCell::new(),
            root: OnceCell::new(),
        };
        for known in facts.names.known_as.clone() {
            let Some((names, about)) = traits::usual(known) else { continue };
            for value in names.iter().filter_map(|name| self.arguments.get(name)) {
                facts.add_about(value, about);
            }
        }
        facts.add_named();
        if facts.operations.is_empty() {
            facts.does(Operation::Unknown);
        }
        facts.add_rest(false);
        facts
    }
}

/// Splits `name(inside)`; `None` if the text is not a call.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if name.is_empty() {
        return None;
    }
    if rest.is_empty() {
        Some((name, None))
    } else {
        Some((name, Some(rest.strip_prefix('(')?.strip_suffix(')')?)))
    }
}

/// Parses `a=1, b=text`: values are JSON if they parse, else text.
fn pairs(inside: &str) -> Result<Value, String> {
    let mut map = Map::new();
    let mut rest = inside.trim();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else {
            return Err(format!("`{rest}` is not an argument; write `name=value`"));
        };
        let after = after.trim_start();
        // A quoted string, a list or a table may contain commas.
        let mut stream = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        let whole = stream.next().and_then(Result::ok).and_then(|value| {
            let behind = after[stream.byte_offset()..].trim_start();
            (behind.is_empty() || behind.starts_with(',')).then_some((value, behind))
        });
        let (value, behind) = whole.unwrap_or_else(|| {
            let end = after.find(',').unwrap_or(after.len());
            (Value::from(after[..end].trim_end()), &after[end..])
        });
        map.insert(name.trim().to_owned(), value);
        rest = behind.strip_prefix(',').unwrap_or(behind).trim_start();
    }
    Ok(Value::Object(map))
}

/// Reads a string or a list of strings.
fn words<'v>(table: &'v Map<String, Value>, key: &str) -> Result<Vec<&'v str>, String> {
    let words = match table.get(key) {
        None => Some(Vec::new()),
        Some(Value::String(word)) => Some(vec![word.as_str()]),
        Some(Value::Array(list)) => list.iter().map(Value::as_str).collect(),
        Some(_) => None,
    };
    words.ok_or_else(|| format!("`{key}` of an example must be a string or a list of strings"))
}

fn label(word: &str) -> Result<Label, String> {
    let (trust, confidentiality) = (Label::CLEAN.trust, Label::CLEAN.confidentiality);
    Ok(match word {
        "trusted" | "public" => Label::CLEAN,
        "workspace" => Label { trust: Trust::Workspace, confidentiality },
        "untrusted" | "tainted" => Label { trust: Trust::Untrusted, confidentiality },
        "internal" => Label { trust, confidentiality: Confidentiality::Internal },
        "secret" => Label { trust, confidentiality: Confidentiality::Secret },
        _ => return Err(format!("`{word}` is not a known label")),
    })
}
