//! Finds recursive definitions (cycles in the graph of references).

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{document::Document, keywords, query::reference};

/// The definitions that a schema refers to, each once.
pub(super) fn references(node: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(map) = node.as_object() {
        collect_references(map, &mut found);
    }
    found
}

/// Adds the definitions that a schema refers to, each once.
pub(super) fn collect_references(map: &Map<String, Value>, found: &mut Vec<String>) {
    look(map, true, &mut |name, _| {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    });
}

/// Visits every reference with a flag: whether no optional property is on the path to it.
fn look(map: &Map<String, Value>, hard: bool, visit: &mut dyn FnMut(&str, bool)) {
    if let Some(name) = reference(map) {
        visit(name, hard);
    }
    for child in keywords::children(map) {
        let Some(below) = child.node.as_object() else { continue };
        // Not needed once the path has an optional property.
        let optional = hard && child.key == "properties" && {
            let required = map.get("required").and_then(Value::as_array);
            let name = child.name();
            !required.is_some_and(|list| list.iter().any(|one| one.as_str() == name))
        };
        look(below, hard && !optional, visit);
    }
}

/// The references of each definition.
fn edges(document: &Document, only_required: bool) -> HashMap<&str, Vec<String>> {
    let lead = |body: &Value| {
        let mut found = Vec::new();
        let Some(map) = body.as_object() else { return found };
        look(map, true, &mut |name, hard| {
            if (hard || !only_required) && !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        });
        found
    };
    document.definitions.iter().map(|(name, body)| (name.as_str(), lead(body))).collect()
}

/// The definitions on a cycle.
fn on_cycles(edges: &HashMap<&str, Vec<String>>) -> HashSet<String> {
    // Repeatedly removes definitions without an edge to a remaining one. What remains is on a cycle
    // or leads to one. The same step on reversed edges removes those that only lead there.
    fn trim<'a>(edges: &HashMap<&'a str, Vec<String>>, backwards: bool) -> HashSet<&'a str> {
        let mut left: HashSet<&str> = edges.keys().copied().collect();
        loop {
            let next: HashSet<&str> = left
                .iter()
                .copied()
                .filter(|name| {
                    if backwards {
                        left.iter().any(|from| edges[from].iter().any(|to| to == name))
                    } else {
                        edges[name].iter().any(|to| left.contains(to.as_str()))
                    }
                })
                .collect();
            if next.len() == left.len() {
                return next;
            }
            left = next;
        }
    }
    let ahead = trim(edges, false);
    let behind = trim(edges, true);
    ahead.intersection(&behind).map(|name| (*name).to_owned()).collect()
}

/// The first recursive definition.
pub(super) fn first_cyclic(document: &Document) -> Option<String> {
    let edges = edges(document, false);
    let cycles = on_cycles(&edges);
    document.definitions.keys().find(|name| cycles.contains(*name)).cloned()
}

/// The definitions that are not recursive.
pub(super) fn acyclic(document: &Document) -> HashSet<String> {
    let cycles = on_cycles(&edges(document, false));
    document.definitions.keys().filter(|name| !cycles.contains(*name)).cloned().collect()
}

/// The definitions that are recursive through required properties only.
pub(super) fn required_cycles(document: &Document) -> HashSet<String> {
    on_cycles(&edges(document, true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::resolve::resolve, *};

    #[test]
    fn recursion_is_found_through_required_and_optional_properties() {
        let document = resolve(&json!({
            "$ref": "#/$defs/tree",
            "properties": {"l": {"$ref": "#/$defs/list"}, "p": {"$ref": "#/$defs/plain"}},
            "$defs": {
                "tree": {"properties": {"next": {"$ref": "#/$defs/tree"}}},
                "list": {
                    "properties": {"next": {"$ref": "#/$defs/list"}},
                    "required": ["next"],
                },
                "plain": {"items": {"$ref": "#/$defs/text"}},
                "text": {"type": "string"},
            },
        }))
        .unwrap();
        let sorted = |set: HashSet<String>| {
            let mut names: Vec<String> = set.into_iter().collect();
            names.sort();
            names
        };
        assert_eq!(sorted(required_cycles(&document)), ["list"]);
        assert_eq!(sorted(acyclic(&document)), ["plain", "text"]);
        assert_eq!(first_cyclic(&document).as_deref(), Some("tree"));
    }
}
