//! What rules need to know about a tool's definition: the names other programs have for such a
//! tool, and which of its arguments are paths, URLs or commands.
//!
//! The schema declares the kind of an argument (`"x-haft": "read_path"`). Names are used to guess
//! only for tools with well-known names. A guess adds parts and never removes one.

use haft_core::{Capability, Operation};
use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::PolicyTool;
use crate::context::ArgumentKind;

/// What rules need to know about a tool's definition.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traits {
    /// The names that other programs know such a tool by.
    pub(crate) known_as: SmallVec<[&'static str; 2]>,
    /// The marked arguments at the top of the schema.
    pub(crate) marks: Vec<(String, Mark)>,
    /// There are nested marks; the schema must be walked together with the arguments.
    pub(crate) deep: bool,
    /// It delegates to another agent.
    pub(crate) delegates: bool,
    /// By its name it must have arguments of these kinds, and none is marked or named so.
    pub(crate) silent: SmallVec<[ArgumentKind; 2]>,
}

impl Traits {
    /// Returns whether an argument is marked.
    pub(crate) fn is_marked(&self) -> bool {
        !self.marks.is_empty() || self.deep || !self.silent.is_empty()
    }

    /// Returns whether it delegates to another agent.
    pub(crate) fn delegates(&self) -> bool {
        self.delegates
    }

    /// Returns whether calls of a tool may have parts of this kind. An undeclared capability counts
    /// as yes, except for remote tools: those have only their arguments.
    pub(crate) fn may_be_about(tool: &PolicyTool<'_>, about: ArgumentKind) -> bool {
        let traits = tool.traits();
        let reaches = match about {
            ArgumentKind::ReadPath | ArgumentKind::WritePath => Capability::Filesystem,
            ArgumentKind::Url => Capability::Network,
            ArgumentKind::Command => Capability::Subprocess,
        };
        let claims = tool.remote.is_none() && tool.spec.effective_capabilities().has(reaches);
        let marked = |(_, mark): &(String, Mark)| match mark {
            Mark::About(own) => *own == about,
            Mark::Words => about == ArgumentKind::Command,
            Mark::Directory => about == ArgumentKind::ReadPath,
            Mark::Network => about == ArgumentKind::Url,
            Mark::Agent => false,
            Mark::Unknown => true,
        };
        claims || traits.deep || traits.silent.contains(&about) || traits.marks.iter().any(marked)
    }
}

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Declared by a rule, a person or the tool's author.
    About(ArgumentKind),
    /// The argv of one command, as a list.
    Words,
    /// The directory that commands start in.
    Directory,
    /// The hosts that a command may contact, as a list of entries of a
    /// [`NetworkAccess`](crate::NetworkAccess).
    Network,
    /// The name of another agent.
    Agent,
    /// A mark that this version does not know.
    Unknown,
}

/// Built-in tools that other programs know by another name.
const ALIASES: [(&str, &[&str]); 13] = [
    ("shell", &["Bash"]),
    ("read_file", &["Read"]),
    ("write_file", &["Write", "Edit"]),
    ("edit_file", &["Edit"]),
    ("move_path", &["Edit"]),
    ("delete_path", &["Edit"]),
    ("make_dir", &["Edit"]),
    ("list_files", &["Glob"]),
    ("search_files", &["Grep"]),
    ("fetch_url", &["WebFetch"]),
    ("agent", &["Agent"]),
    ("skill__load", &["Skill"]),
    ("skill__read", &["Skill"]),
];

/// The arguments that such tools have, if their schema has no marks.
const USUAL_ARGUMENTS: [(&str, &[&str], ArgumentKind); 6] = [
    ("Bash", &["command"], ArgumentKind::Command),
    ("Read", &["path", "file_path"], ArgumentKind::ReadPath),
    ("Edit", &["path", "file_path"], ArgumentKind::WritePath),
    ("WebFetch", &["url"], ArgumentKind::Url),
    ("Glob", &["path"], ArgumentKind::ReadPath),
    ("Grep", &["path"], ArgumentKind::ReadPath),
];

/// Maximum number of schema nodes for one value.
const MAX_SCHEMA_NODES: usize = 256;
/// Maximum nesting of arguments; see `turn::admit`.
const MAX_DEPTH: usize = 130;

/// Returns the names that other programs have for a built-in tool of this name. Of the tools from
/// sources, only those of skills have one.
pub(crate) fn known_as(name: &str, remote: Option<(&str, &str)>) -> &'static [&'static str] {
    match remote {
        None => ALIASES.iter().find(|(own, _)| *own == name).map_or(&[], |(_, known)| known),
        Some(("skill", "load" | "read")) => &["Skill"],
        Some(_) => &[],
    }
}

/// Returns the kind of the usual arguments of such a tool.
pub(crate) fn usual(known: &str) -> Option<(&'static [&'static str], ArgumentKind)> {
    let known = if known == "Write" { "Edit" } else { known };
    USUAL_ARGUMENTS
        .iter()
        .find(|(name, ..)| *name == known)
        .map(|(_, names, about)| (*names, *about))
}

impl Traits {
    pub(crate) fn of(tool: &PolicyTool<'_>) -> Self {
        let schema = tool.input_schema;
        let mut traits = Self::default();
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut shallow = 0;
        for (name, node) in properties.into_iter().flatten() {
            if let Some(mark) = node.get("x-haft").map(mark) {
                shallow += 1;
                traits.marks.push((name.clone(), mark));
                traits.delegates |= mark == Mark::Agent;
            }
        }
        traits.deep = count(schema, MAX_DEPTH) > shallow;
        traits.known_as = known_as(tool.registered.as_str(), tool.remote).into();
        if tool.remote.is_some() {
            return traits;
        }
        let has = |name: &str| properties.is_some_and(|p| p.contains_key(name));
        if has("command") && !traits.known_as.contains(&"Bash") {
            traits.known_as.push("Bash");
        }
        traits.delegates |= traits.known_as.contains(&"Agent");
        for known in &traits.known_as {
            let Some((names, about)) = usual(known) else { continue };
            let is_marked = |(_, mark): &(String, Mark)| *mark == Mark::About(about);
            if traits.marks.iter().any(is_marked) {
                continue;
            }
            let before = traits.marks.len();
            for name in names.iter().filter(|name| has(name)) {
                if !traits.marks.iter().any(|(marked, _)| marked == name) {
                    traits.marks.push(((*name).to_owned(), Mark::About(about)));
                }
            }
            let listing = matches!(*known, "Glob" | "Grep");
            if traits.marks.len() == before && !traits.deep && !listing {
                traits.silent.push(about);
            }
        }
        traits
    }
}

/// Reads a mark; an unknown value is `Unknown`, not `None`.
fn mark(value: &Value) -> Mark {
    match value.as_str() {
        Some("read_path") => Mark::About(ArgumentKind::ReadPath),
        Some("write_path") => Mark::About(ArgumentKind::WritePath),
        Some("url") => Mark::About(ArgumentKind::Url),
        Some("command") => Mark::About(ArgumentKind::Command),
        Some("words") => Mark::Words,
        Some("directory") => Mark::Directory,
        Some("network") => Mark::Network,
        Some("agent") => Mark::Agent,
        _ => Mark::Unknown,
    }
}

/// Returns the operation on what such an argument names.
pub(crate) fn operation(about: ArgumentKind) -> Operation {
    match about {
        ArgumentKind::ReadPath => Operation::Read,
        ArgumentKind::WritePath => Operation::Write,
        ArgumentKind::Url => Operation::External,
        ArgumentKind::Command => Operation::Execute,
    }
}

/// Counts the marks in a schema.
fn count(schema: &Value, depth: usize) -> usize {
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    match schema {
        Value::Object(map) => {
            let here = usize::from(map.contains_key("x-haft"));
            here + map.values().map(|node| count(node, depth)).sum::<usize>()
        }
        Value::Array(list) => list.iter().map(|node| count(node, depth)).sum(),
        _ => 0,
    }
}

/// Walks the arguments together with their schema and reports every marked value. Returns whether
/// everything could be visited.
pub(crate) fn walk<'v>(
    schema: &Value,
    arguments: &'v Value,
    found: &mut dyn FnMut(&'v Value, Mark),
) -> bool {
    let mut walker = Walker { root: schema, found, complete: true };
    let mut nodes = Vec::new();
    walker.spread(schema, &mut nodes);
    walker.visit(&nodes, arguments, MAX_DEPTH);
    walker.complete
}

struct Walker<'s, 'v, 'f> {
    root: &'s Value,
    found: &'f mut dyn FnMut(&'v Value, Mark),
    complete: bool,
}

impl<'s, 'v> Walker<'s, 'v, '_> {
    fn visit(&mut self, nodes: &[&'s Value], value: &'v Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            self.complete = false;
            return;
        };
        let mut marks_found: SmallVec<[Mark; 2]> = SmallVec::new();
        for mark in nodes.iter().filter_map(|node| node.get("x-haft").map(mark)) {
            if !marks_found.contains(&mark) {
                marks_found.push(mark);
                (self.found)(value, mark);
            }
        }
        let mut below = Vec::new();
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    self.named(nodes, name, &mut below);
                    if !below.is_empty() {
                        self.visit(&below, value, depth);
                    }
                    below.clear();
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    self.numbered(nodes, index, &mut below);
                    if !below.is_empty() {
                        self.visit(&below, value, depth);
                    }
                    below.clear();
                }
            }
            _ => {}
        }
    }

    fn named(&mut self, nodes: &[&'s Value], name: &str, below: &mut Vec<&'s Value>) {
        for node in nodes.iter().filter_map(|node| node.as_object()) {
            if let Some(child) = node.get("properties").and_then(|p| p.get(name)) {
                self.spread(child, below);
            }
            let patterns = node.get("patternProperties").and_then(Value::as_object);
            for child in patterns.into_iter().flat_map(Map::values) {
                self.spread(child, below);
            }
            for rest in ["additionalProperties", "unevaluatedProperties"] {
                if let Some(child) = node.get(rest) {
                    self.spread(child, below);
                }
            }
        }
    }

    fn numbered(&mut self, nodes: &[&'s Value], index: usize, below: &mut Vec<&'s Value>) {
        for node in nodes.iter().filter_map(|node| node.as_object()) {
            for list in ["prefixItems", "items"].iter().filter_map(|k| node.get(*k)?.as_array()) {
                if let Some(child) = list.get(index) {
                    self.spread(child, below);
                }
            }
            for rest in ["items", "additionalItems", "unevaluatedItems", "contains"] {
                if let Some(child) = node.get(rest).filter(|child| child.is_object()) {
                    self.spread(child, below);
                }
            }
        }
    }

    /// Adds a node and all nodes that apply to the same value.
    fn spread(&mut self, node: &'s Value, nodes: &mut Vec<&'s Value>) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            let Some(map) = node.as_object() else { continue };
            if nodes.iter().any(|known| std::ptr::eq(*known, node)) {
                continue;
            }
            if nodes.len() >= MAX_SCHEMA_NODES {
                self.complete = false;
                return;
            }
            nodes.push(node);
            if map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef") {
                self.complete = false;
            }
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                match reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) {
                    Some(target) => open.push(target),
                    None => self.complete = false,
                }
            }
            for word in ["allOf", "anyOf", "oneOf"] {
                open.extend(map.get(word).and_then(Value::as_array).into_iter().flatten());
            }
            open.extend(["if", "then", "else"].iter().filter_map(|word| map.get(*word)));
            let depending = map.get("dependentSchemas").and_then(Value::as_object);
            open.extend(depending.into_iter().flat_map(Map::values));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_found_at_any_depth_and_through_references() {
        let schema = json!({
            "properties": {
                "files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
                "tree": {"$ref": "#/$defs/tree"},
                "free": {"additionalProperties": {"x-haft": "url"}},
            },
            "$defs": {
                "file": {"properties": {"at": {"anyOf": [{"x-haft": "write_path"}, {"type": "null"}]}}},
                "tree": {"properties": {
                    "run": {"x-haft": "command"},
                    "next": {"$ref": "#/$defs/tree"},
                }},
            },
        });
        let arguments = json!({
            "files": [{"at": "a"}, {"at": "b"}],
            "tree": {"run": "x", "next": {"next": {"run": "y"}}},
            "free": {"z": "https://x.org"},
            "other": "c",
        });
        let mut found = Vec::new();
        let complete = walk(&schema, &arguments, &mut |value, mark| {
            found.push((value.as_str().unwrap().to_owned(), mark));
        });
        assert!(complete);
        assert_eq!(
            found,
            [
                ("a".to_owned(), Mark::About(ArgumentKind::WritePath)),
                ("b".to_owned(), Mark::About(ArgumentKind::WritePath)),
                ("x".to_owned(), Mark::About(ArgumentKind::Command)),
                ("y".to_owned(), Mark::About(ArgumentKind::Command)),
                ("https://x.org".to_owned(), Mark::About(ArgumentKind::Url)),
            ]
        );
        let lost = json!({"properties": {"a": {"$ref": "#anchor"}}});
        assert!(
            !walk(&lost, &json!({"a": 1}), &mut |_, _| {}),
            "an unresolvable reference is reported"
        );
    }
}
