//! Pinned definitions: what `haft.lock` keeps of every remote tool, and what has changed since
//! (rug pull).
//!
//! In: the text of a lock file and the definitions of a server. Out: for each tool whether it is
//! the one that was pinned, and a readable difference. Pure: the caller reads and writes the file.

use std::collections::{BTreeMap, BTreeSet};

use haft::{Error, ErrorKind};
use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::identity::{self, PinnedProgram, ServerIdentity};

/// The version of the file's format.
const VERSION: u32 = 1;
/// Longer values are cut in a difference.
const MAX_SHOWN_CHARS: usize = 600;

/// The content of a lock file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lockfile {
    version: u32,
    /// The pinned servers, by their configured names.
    #[serde(default)]
    pub servers: BTreeMap<String, PinnedServer>,
}

/// What is pinned of one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedServer {
    /// The command or the URL, without secrets.
    pub identity: String,
    /// The name that the server gave itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file that is run, by platform: each has its own build.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, PinnedProgram>,
    /// The protocol that the server spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// The tools, by the server's own names.
    #[serde(default)]
    pub tools: BTreeMap<String, PinnedTool>,
}

/// What is pinned of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedTool {
    /// The hash of the definition.
    pub hash: String,
    /// Whether a person has admitted it although it looks suspicious.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reviewed: bool,
    /// The definition, so that a change can be shown.
    pub definition: Value,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Lockfile {
    /// The name of the file.
    pub const FILE: &'static str = "haft.lock";
    /// The largest file that is read.
    pub const MAX_BYTES: usize = 64 << 20;

    /// Makes an empty file.
    #[must_use]
    pub fn new() -> Self {
        Self { version: VERSION, servers: BTreeMap::new() }
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Fails for text that is not a lock file of this version, and for a definition that does not
    /// have its hash. FAIL CLOSED: a broken file is never read as an empty one.
    ///
    /// ```
    /// use haft_mcp::client::Lockfile;
    ///
    /// let empty = Lockfile::new();
    /// assert_eq!(Lockfile::parse(&empty.to_text())?, empty);
    /// assert!(Lockfile::parse("{}").is_err());
    /// # Ok::<(), haft::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| {
            Error::new(ErrorKind::BadConfig, format!("`{}` cannot be read: {why}", Self::FILE))
                .hint("restore it, or delete it and pin again with `haft mcp pin`")
        };
        let file: Self = serde_json::from_str(text).map_err(|why| wrong(why.to_string()))?;
        if file.version != VERSION {
            return Err(wrong(format!("its version is {}, not {VERSION}", file.version)));
        }
        for (server, pinned) in &file.servers {
            for (name, tool) in &pinned.tools {
                if hash_of(&tool.definition) != tool.hash {
                    return Err(wrong(format!(
                        "the definition of `{name}` of `{server}` does not have its hash"
                    )));
                }
            }
        }
        Ok(file)
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// How a definition compares with the pinned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PinState {
    /// Nothing of the server is pinned.
    NoPins,
    /// It is the pinned one; whether a person has reviewed it.
    Same { reviewed: bool },
    /// The server had no such tool when it was pinned.
    New,
    /// The definition has changed.
    Changed,
    /// The server itself is another one: in this part.
    OtherServer(&'static str),
}

/// Compares one definition.
pub(super) fn compare(
    pins: Option<&PinnedServer>,
    identity: &ServerIdentity,
    tool: &Tool,
) -> PinState {
    let Some(pins) = pins else { return PinState::NoPins };
    if let Some(PinChange::Identity { part, .. }) = identity_changes(pins, identity).first() {
        return PinState::OtherServer(part);
    }
    match pins.tools.get(&*tool.name) {
        None => PinState::New,
        Some(pin) if pin.hash == hash_of(&definition(tool)) => {
            PinState::Same { reviewed: pin.reviewed }
        }
        Some(_) => PinState::Changed,
    }
}

/// The definition of a tool as pinned: everything that can reach a model or a policy.
pub(super) fn definition(tool: &Tool) -> Value {
    let mut whole = serde_json::to_value(tool).unwrap_or_default();
    if let Value::Object(map) = &mut whole {
        map.shift_remove("icons"); // never shown
    }
    sorted(whole)
}

/// The hash of a definition, over its canonical JSON.
pub(super) fn hash_of(definition: &Value) -> String {
    let canonical = sorted(definition.clone()).to_string();
    let digest = Sha256::digest(canonical.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// A value with the keys of every object in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(Map::from_iter(ordered))
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// A difference between a pinned server and the server as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PinChange {
    /// The server itself is another one.
    Identity {
        /// In which part: `command or URL`, `program` or `name`.
        part: &'static str,
        /// The pinned one.
        before: String,
        /// The present one.
        after: String,
    },
    /// A tool that was not there.
    Added {
        /// Its name.
        tool: String,
        /// Its description.
        description: String,
    },
    /// A tool that is gone.
    Removed {
        /// Its name.
        tool: String,
    },
    /// A tool whose definition has changed.
    Changed {
        /// Its name.
        tool: String,
        /// What has changed.
        fields: Vec<FieldChange>,
    },
}

/// One value of a definition that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// The pinned value; `None` if there was none.
    pub before: Option<String>,
    /// The present value; `None` if there is none.
    pub after: Option<String>,
}

/// Lists what has changed of the server itself. A part that was not pinned is not compared.
fn identity_changes(pins: &PinnedServer, now: &ServerIdentity) -> Vec<PinChange> {
    let mut changes = Vec::new();
    let mut compare = |part, before: &str, after: &str| {
        if before != after {
            let (before, after) = (cut(before), cut(after));
            changes.push(PinChange::Identity { part, before, after });
        }
    };
    compare("command or URL", &pins.identity, &now.command);
    if let Some(before) = pins.programs.get(&identity::platform()) {
        let content = |program: &PinnedProgram| format!("{} {}", program.path, program.hash);
        match &now.program {
            Some(after) if before.hash == after.hash => {}
            Some(after) => compare("program", &content(before), &content(after)),
            // FAIL CLOSED: what cannot be read may be anything.
            None => compare("program", &content(before), "a file that cannot be read"),
        }
    }
    if let Some(before) = &pins.name {
        compare("name", before, now.name.as_deref().unwrap_or_default());
    }
    changes
}

/// Lists what has changed since a server was pinned.
pub(super) fn changes(
    pins: &PinnedServer,
    identity: &ServerIdentity,
    tools: &[Tool],
) -> Vec<PinChange> {
    let mut changes = identity_changes(pins, identity);
    for tool in tools {
        let now = definition(tool);
        match pins.tools.get(&*tool.name) {
            Some(pin) if pin.hash == hash_of(&now) => {}
            Some(pin) => changes.push(PinChange::Changed {
                tool: tool.name.to_string(),
                fields: field_changes(&pin.definition, &now),
            }),
            None => changes.push(PinChange::Added {
                tool: tool.name.to_string(),
                description: cut(tool.description.as_deref().unwrap_or_default()),
            }),
        }
    }
    let present: BTreeSet<&str> = tools.iter().map(|tool| &*tool.name).collect();
    let gone = pins.tools.keys().filter(|name| !present.contains(name.as_str()));
    changes.extend(gone.map(|tool| PinChange::Removed { tool: tool.clone() }));
    changes
}

fn field_changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    leaves(before, "", &mut old);
    leaves(after, "", &mut new);
    let pointers: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    pointers
        .into_iter()
        .filter(|pointer| old.get(*pointer) != new.get(*pointer))
        .map(|pointer| FieldChange {
            pointer: pointer.clone(),
            before: old.get(pointer).map(|text| cut(text)),
            after: new.get(pointer).map(|text| cut(text)),
        })
        .collect()
}

fn leaves(value: &Value, at: &str, out: &mut BTreeMap<String, String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter()
                .for_each(|(key, value)| leaves(value, &format!("{at}/{}", escaped(key)), out));
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().enumerate().for_each(|(n, value)| leaves(value, &format!("{at}/{n}"), out));
        }
        Value::String(text) => {
            out.insert(at.to_owned(), text.clone());
        }
        other => {
            out.insert(at.to_owned(), other.to_string());
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(json: Value) -> Tool {
        serde_json::from_value(json).unwrap()
    }

    fn add(description: &str) -> Tool {
        tool(json!({"name": "add", "description": description, "inputSchema": {"type": "object"}}))
    }

    fn pinned(tool: &Tool) -> PinnedServer {
        let definition = definition(tool);
        let pin = PinnedTool { hash: hash_of(&definition), reviewed: false, definition };
        PinnedServer {
            identity: "stdio \"x\"".into(),
            tools: BTreeMap::from([(tool.name.to_string(), pin)]),
            ..PinnedServer::default()
        }
    }

    fn command(text: &str) -> ServerIdentity {
        ServerIdentity { command: text.into(), ..ServerIdentity::default() }
    }

    #[test]
    fn a_changed_definition_is_seen_and_the_order_of_keys_is_not() {
        let pins = pinned(&add("Adds."));
        let state = |tool: &Tool| compare(Some(&pins), &command("stdio \"x\""), tool);
        assert_eq!(state(&add("Adds.")), PinState::Same { reviewed: false });
        assert_eq!(state(&add("Adds, and reads your keys.")), PinState::Changed);
        let other =
            tool(json!({"inputSchema": {"type": "object"}, "description": "Adds.", "name": "add"}));
        assert_eq!(state(&other), PinState::Same { reviewed: false });
        let other = command("stdio \"y\"");
        let state = compare(Some(&pins), &other, &add("Adds."));
        assert_eq!(state, PinState::OtherServer("command or URL"));
        assert_eq!(compare(None, &other, &add("Adds.")), PinState::NoPins);
    }

    #[test]
    fn a_hint_that_changes_is_a_change() {
        let hinted = |read_only: bool| {
            tool(json!({"name": "add", "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": read_only}}))
        };
        let pins = pinned(&hinted(false));
        assert_eq!(compare(Some(&pins), &command("stdio \"x\""), &hinted(true)), PinState::Changed);
    }

    #[test]
    fn the_difference_names_the_field_with_both_values() {
        let pins = pinned(&add("Adds."));
        let found = changes(
            &pins,
            &command("stdio \"x\""),
            &[add("Adds more."), tool(json!({"name": "b", "inputSchema": {}}))],
        );
        assert_eq!(
            found[0],
            PinChange::Changed {
                tool: "add".into(),
                fields: vec![FieldChange {
                    pointer: "/description".into(),
                    before: Some("Adds.".into()),
                    after: Some("Adds more.".into()),
                }],
            }
        );
        assert!(matches!(&found[1], PinChange::Added { tool, .. } if tool == "b"));
        let none = changes(&pins, &command("stdio \"x\""), &[]);
        assert!(matches!(&none[0], PinChange::Removed { .. }));
    }

    #[test]
    fn another_program_or_name_is_another_server() {
        let program =
            |path: &str, hash: &str| PinnedProgram { path: path.into(), hash: hash.into() };
        let mut pins = pinned(&add("Adds."));
        let mut now = command("stdio \"x\"");
        now.program = Some(program("/bin/x", "sha256:1"));
        now.name = Some("x".into());
        let state =
            |pins: &PinnedServer, now: &ServerIdentity| compare(Some(pins), now, &add("Adds."));
        let same = PinState::Same { reviewed: false };
        assert_eq!(state(&pins, &now), same, "nothing of it is pinned");
        pins.name = Some("x".into());
        pins.programs.insert("another-machine".into(), program("/bin/x", "sha256:2"));
        assert_eq!(state(&pins, &now), same, "of another machine");
        pins.programs.insert(identity::platform(), program("/opt/x", "sha256:1"));
        assert_eq!(state(&pins, &now), same, "the same content elsewhere");
        let before = now.digest();
        now.program = Some(program("/bin/x", "sha256:3"));
        assert_eq!(state(&pins, &now), PinState::OtherServer("program"));
        assert_ne!(now.digest(), before, "approvals do not count for it");
        now.program = None;
        assert_eq!(state(&pins, &now), PinState::OtherServer("program"));
        pins.programs.clear();
        now.name = Some("y".into());
        assert_eq!(state(&pins, &now), PinState::OtherServer("name"));
        assert_ne!(now.digest(), before);
    }

    #[test]
    fn a_lock_file_with_a_definition_that_was_edited_is_refused() {
        let mut file = Lockfile::new();
        file.servers.insert("math".into(), pinned(&add("Adds.")));
        let text = file.to_text();
        assert_eq!(Lockfile::parse(&text).unwrap(), file);
        let edited = text.replace("Adds.", "Adds more.");
        assert!(Lockfile::parse(&edited).unwrap_err().to_string().contains("hash"));
        assert!(Lockfile::parse(&text.replace("\"version\": 1", "\"version\": 2")).is_err());
    }
}
