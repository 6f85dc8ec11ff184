//! Which definitions lead back to themselves.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{keywords, query::reference, resolve::Document};

/// The definitions that a schema refers to, each once.
pub(super) fn references(node: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(map) = node.as_object() {
        refers(map, &mut found);
    }
    found
}

/// Adds the definitions that a schema refers to, each once.
pub(super) fn refers(map: &Map<String, Value>, found: &mut Vec<String>) {
    look(map, true, &mut |name, _| {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    });
}

/// Visits every reference, and says whether an optional property stands on the way to it.
fn look(map: &Map<String, Value>, hard: bool, visit: &mut dyn FnMut(&str, bool)) {
    if let Some(name) = reference(map) {
        visit(name, hard);
    }
    for child in keywords::children(map) {
        let Some(below) = child.node.as_object() else { continue };
        // Nobody asks once it is soft.
        let optional = hard && child.key == "properties" && {
            let required = map.get("required").and_then(Value::as_array);
            let name = child.name();
            !required.is_some_and(|list| list.iter().any(|one| one.as_str() == name))
        };
        look(below, hard && !optional, visit);
    }
}

/// Where each definition leads.
fn edges(document: &Document, only_hard: bool) -> HashMap<&str, Vec<String>> {
    let lead = |body: &Value| {
        let mut found = Vec::new();
        let Some(map) = body.as_object() else { return found };
        look(map, true, &mut |name, hard| {
            if (hard || !only_hard) && !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        });
        found
    };
    document.definitions.iter().map(|(name, body)| (name.as_str(), lead(body))).collect()
}

/// The definitions that stand on a circle.
fn on_circles(edges: &HashMap<&str, Vec<String>>) -> HashSet<String> {
    // A definition that only leads to finished ones is finished; what is left over stands on a
    // circle or leads to one. Those that only lead there are taken out by the same step backwards.
    fn trim<'a>(edges: &HashMap<&'a str, Vec<String>>, backwards: bool) -> HashSet<&'a str> {
        let mut left: HashSet<&str> = edges.keys().copied().collect();
        loop {
            let next: HashSet<&str> = left
                .iter()
                .copied()
                .filter(|name| match backwards {
                    false => edges[name].iter().any(|to| left.contains(to.as_str())),
                    true => left.iter().any(|from| edges[from].iter().any(|to| to == name)),
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

/// A definition that leads back to itself, or leads to one that does.
pub(super) fn first(document: &Document) -> Option<String> {
    let edges = edges(document, false);
    let circles = on_circles(&edges);
    document.definitions.keys().find(|name| circles.contains(*name)).cloned()
}

/// The definitions that do not lead back to themselves.
pub(super) fn straight(document: &Document) -> HashSet<String> {
    let circles = on_circles(&edges(document, false));
    document.definitions.keys().filter(|name| !circles.contains(*name)).cloned().collect()
}

/// The definitions that lead back to themselves without an optional property on the way.
pub(super) fn hard(document: &Document) -> HashSet<String> {
    on_circles(&edges(document, true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::resolve::resolve, *};

    #[test]
    fn circles_are_found_with_and_without_a_way_out() {
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
        assert_eq!(sorted(hard(&document)), ["list"]);
        assert_eq!(sorted(straight(&document)), ["plain", "text"]);
        assert_eq!(first(&document).as_deref(), Some("tree"));
    }
}
