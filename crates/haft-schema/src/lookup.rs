//! Finds the schema nodes that apply to a location of a value, and whether the value there is
//! secret.
//!
//! Follows local references, combinations, properties and items. It does not validate; it may find
//! more nodes than apply, and reports when it may have found fewer.

use serde_json::{Map, Value};

use super::validator::Violation;

/// At most this many nodes per location are followed.
const MAX_NODES: usize = 512;
/// Longest chain of references; longer ones are cycles.
const MAX_REFERENCE_CHAIN: usize = 32;

/// Looks up nodes in a schema.
#[derive(Clone, Copy)]
pub(super) struct SchemaLookup<'a> {
    root: &'a Value,
    has_secrets: bool,
}

/// Some nodes, and whether they are complete.
struct Found<'a> {
    nodes: Vec<&'a Value>,
    complete: bool,
}

impl<'a> Found<'a> {
    fn add(&mut self, node: &'a Value) {
        if self.nodes.iter().any(|known| std::ptr::eq(*known, node)) {
            return;
        }
        if self.nodes.len() < MAX_NODES { self.nodes.push(node) } else { self.complete = false }
    }
}

impl<'a> SchemaLookup<'a> {
    pub(super) fn new(root: &'a Value, has_secrets: bool) -> Self {
        Self { root, has_secrets }
    }

    pub(super) fn root(self) -> &'a Value {
        self.root
    }

    /// Returns the target of a local reference.
    pub(super) fn target(self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        if pointer.contains('%') {
            self.root.pointer(&unescaped(pointer)?)
        } else {
            self.root.pointer(pointer)
        }
    }

    /// Returns the node and everything that always applies together with it: its references and the
    /// parts of its `allOf`.
    pub(super) fn parts(self, node: &'a Value) -> Vec<&'a Value> {
        let mut found = Found { nodes: Vec::new(), complete: true };
        self.expand(node, false, &mut found);
        found.nodes
    }

    /// Returns the first value of a keyword among the parts of a node.
    pub(super) fn keyword_of(self, node: &'a Value, keyword: &str) -> Option<&'a Value> {
        self.parts(node).into_iter().find_map(|part| part.get(keyword))
    }

    /// Returns the names of the properties that the parts of a node declare.
    pub(super) fn names(self, node: &'a Value) -> Vec<&'a str> {
        let mut names = Vec::new();
        for part in self.parts(node) {
            for name in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if !names.contains(&name.0.as_str()) {
                    names.push(name.0.as_str());
                }
            }
        }
        names
    }

    /// Returns all nodes that may apply to a location of a value.
    pub(super) fn at(self, pointer: &str) -> Vec<&'a Value> {
        self.find(pointer, |_| ()).nodes
    }

    /// Returns whether the value at this location must not be shown: it, an ancestor or a
    /// descendant is marked `writeOnly` or `x-secret`.
    pub(super) fn is_secret(self, pointer: &str) -> bool {
        if !self.has_secrets {
            return false;
        }
        let mut marked = false;
        let found = self.find(pointer, |node| marked |= is_marked(node));
        // FAIL CLOSED: if the nodes are incomplete, the value is treated as secret.
        marked || !found.complete || found.nodes.iter().any(|node| self.holds_secret(node))
    }

    /// Returns whether the value at this location must not be repaired: it or an ancestor is marked
    /// `x-strict`.
    pub(super) fn is_strict(self, pointer: &str) -> bool {
        let mut strict = false;
        self.find(pointer, |node| strict |= node.get("x-strict") == Some(&Value::Bool(true)));
        strict
    }

    /// Replaces everything in a value that is marked as secret.
    pub(super) fn mask(self, value: &mut Value, at: &mut String, mask: &dyn Fn(&Value) -> Value) {
        let mut marked = false;
        let found = self.find(at, |node| marked |= is_marked(node));
        // FAIL CLOSED: if the nodes are incomplete, the value is treated as secret.
        if marked || !found.complete {
            // The arguments themselves stay an object; their values are masked.
            match value.as_object_mut().filter(|_| at.is_empty()) {
                Some(map) => map.values_mut().for_each(|value| *value = mask(value)),
                None => *value = mask(value),
            }
            return;
        }
        if !found.nodes.iter().any(|node| self.holds_secret(node)) {
            return;
        }
        let here = at.len();
        match value {
            Value::Array(items) => {
                for (n, item) in items.iter_mut().enumerate() {
                    at.push_str(&format!("/{n}"));
                    self.mask(item, at, mask);
                    at.truncate(here);
                }
            }
            Value::Object(map) => {
                for (key, member) in map {
                    at.push('/');
                    at.push_str(&key.replace('~', "~0").replace('/', "~1"));
                    self.mask(member, at, mask);
                    at.truncate(here);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Whether something below this node is marked as secret.
    fn holds_secret(self, node: &'a Value) -> bool {
        let mut found = Found { nodes: Vec::new(), complete: true };
        self.expand(node, true, &mut found);
        let mut next = 0;
        while let Some(node) = found.nodes.get(next).copied() {
            if is_marked(node) {
                return true;
            }
            next += 1;
            let Some(map) = node.as_object() else { continue };
            for child in children(map) {
                self.expand(child, true, &mut found);
            }
        }
        !found.complete
    }

    fn find(self, pointer: &str, mut pass: impl FnMut(&Value)) -> Found<'a> {
        let mut here = Found { nodes: Vec::new(), complete: true };
        self.expand(self.root, true, &mut here);
        here.nodes.iter().for_each(|node| pass(node));
        for segment in pointer.split('/').skip(1) {
            let name = segment.replace("~1", "/").replace("~0", "~");
            let mut below = Found { nodes: Vec::new(), complete: here.complete };
            for node in here.nodes.iter().filter_map(|node| node.as_object()) {
                for child in named(node, &name) {
                    self.expand(child, true, &mut below);
                }
            }
            below.nodes.iter().for_each(|node| pass(node));
            here = below;
        }
        here
    }

    /// Adds a node and the nodes that always apply with it; with `branches` also those that may.
    fn expand(self, node: &'a Value, branches: bool, found: &mut Found<'a>) {
        let mut open = vec![(node, 0)];
        while let Some((node, chain)) = open.pop() {
            let before = found.nodes.len();
            found.add(node);
            if found.nodes.len() == before {
                continue;
            }
            let Some(map) = node.as_object() else { continue };
            if map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef") {
                found.complete = false;
            }
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                match self.target(reference) {
                    Some(target) if chain < MAX_REFERENCE_CHAIN => open.push((target, chain + 1)),
                    _ => found.complete = false,
                }
            }
            let lists: &[&str] = if branches { &["allOf", "anyOf", "oneOf"] } else { &["allOf"] };
            for list in lists.iter().filter_map(|k| map.get(*k)?.as_array()) {
                open.extend(list.iter().map(|part| (part, chain)));
            }
            if branches {
                let some = ["if", "then", "else"].iter().filter_map(|k| map.get(*k));
                open.extend(some.map(|part| (part, chain)));
                let depending = map.get("dependentSchemas").and_then(Value::as_object);
                open.extend(depending.into_iter().flatten().map(|(_, part)| (part, chain)));
            }
        }
    }
}

/// The schema node that contains the failing keyword.
pub(super) fn node_of<'a>(schema: &'a Value, error: &Violation<'_>) -> Option<&'a Value> {
    let path = error.schema_path();
    schema.pointer(&path[..path.rfind('/')?])
}

pub(super) fn is_marked(node: &Value) -> bool {
    ["writeOnly", "x-secret"].iter().any(|k| node.get(*k) == Some(&Value::Bool(true)))
        || node.get("format").is_some_and(|format| format == "password")
}

/// The child nodes of a node: its properties and items.
fn children(node: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let maps = ["properties", "patternProperties"];
    let lists = ["prefixItems", "items"];
    let single = ["additionalProperties", "unevaluatedProperties", "items", "additionalItems"];
    let more = ["unevaluatedItems", "contains"];
    maps.into_iter()
        .filter_map(|k| node.get(k)?.as_object())
        .flat_map(|map| map.values())
        .chain(lists.into_iter().filter_map(|k| node.get(k)?.as_array()).flatten())
        .chain(single.into_iter().chain(more).filter_map(|k| node.get(k)))
}

/// The nodes that may apply to one child.
fn named<'a>(node: &'a Map<String, Value>, name: &str) -> Vec<&'a Value> {
    let mut some = Vec::new();
    some.extend(node.get("properties").and_then(|p| p.get(name)));
    let patterns = node.get("patternProperties").and_then(Value::as_object);
    some.extend(patterns.into_iter().flatten().map(|(_, child)| child));
    if some.is_empty() {
        let rest = ["additionalProperties", "unevaluatedProperties"];
        some.extend(rest.iter().filter_map(|k| node.get(*k)));
    }
    if let Ok(index) = name.parse::<usize>() {
        for list in ["prefixItems", "items"].iter().filter_map(|k| node.get(*k)?.as_array()) {
            some.extend(list.get(index));
        }
        let items = ["items", "additionalItems", "unevaluatedItems", "contains"];
        some.extend(items.iter().filter_map(|k| node.get(*k)));
    }
    some
}

/// Whether a name matches a pattern; an invalid pattern matches nothing.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    regex::RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .is_ok_and(|regex| regex.is_match(name))
}

/// Limits the compiled size of a pattern (ReDoS).
const MAX_PATTERN_BYTES: usize = 1 << 18;

/// Decodes percent-encoding, which references may use.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_mark_is_found_at_any_depth_and_through_references() {
        let schema = json!({
            "properties": {
                "login": {"$ref": "#/$defs/login%20form"},
                "list": {"items": {"anyOf": [{"$ref": "#/$defs/key"}, {"type": "null"}]}},
                "name": {"type": "string"},
                "extra": {"additionalProperties": {"x-secret": true}},
                "loop": {"$ref": "#/$defs/loop"},
            },
            "$defs": {
                "login form": {"properties": {
                    "user": {"type": "string"},
                    "password": {"allOf": [{"type": "string", "writeOnly": true}]},
                }},
                "key": {"type": "string", "x-secret": true},
                "loop": {"properties": {"next": {"$ref": "#/$defs/loop"}}},
            },
        });
        let lookup = SchemaLookup::new(&schema, true);
        for secret in [
            "/login/password",
            "/login/password/0",
            "/login",
            "",
            "/list/3",
            "/list",
            "/extra/a~1b",
        ] {
            assert!(lookup.is_secret(secret), "{secret}");
        }
        for open in ["/login/user", "/name", "/loop", "/loop/next/next", "/nowhere"] {
            assert!(!lookup.is_secret(open), "{open}");
        }
    }

    #[test]
    fn unresolvable_reference_counts_as_secret() {
        let schema = json!({"properties": {"a": {"$ref": "#anchor"}, "b": {"x-secret": true}}});
        assert!(SchemaLookup::new(&schema, true).is_secret("/a"));
    }
}
