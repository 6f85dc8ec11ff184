//! Makes a schema self-contained: every reference becomes `#/$defs/<name>`.
//!
//! In: a schema of any draft, with `$id`, anchors, dynamic references and references to anywhere.
//! Out: a document of draft 2020-12 without any of these.
//! INVARIANT: it accepts exactly the same values. Nothing is fetched, so a schema cannot cause
//! SSRF.
//!
//! The target of a dynamic reference depends on the path through the document (its dynamic scope),
//! so a definition that depends on it is copied once per scope. The number of scopes is finite.

use std::{collections::HashMap, rc::Rc};

use serde_json::{Map, Value, json};

use super::{
    document::Document,
    keywords::{self, SCHEMA_MAPS},
};
use crate::{
    draft::Draft,
    references::{DEFAULT_BASE_URI, DynamicScope, Index, UnresolvedReference, has_no_references},
};

/// Deeper schemas are refused.
const MAX_DEPTH: usize = 128;
/// More definitions are refused. No provider accepts that many.
const MAX_DEFINITIONS: usize = 5_000;

/// Makes a schema self-contained.
pub fn resolve(source: &Value) -> Result<Document, UnresolvedReference> {
    let foreign = |why| UnresolvedReference { pointer: String::new(), keyword: "$schema", why };
    let draft = Draft::of(source).map_err(foreign)?;
    let base: Rc<str> = Rc::from(DEFAULT_BASE_URI);
    let index = if has_no_references(source, draft.is_old()) {
        Index::empty(draft)
    } else {
        Index::new(source, draft)?
    };
    let mut copier = Copier {
        index,
        names: HashMap::new(),
        taken: HashMap::new(),
        waiting: Vec::new(),
        pointers: HashMap::new(),
    };
    let base = copier.index.base_of(source, &base);
    let scope = copier.index.enter(&base, &Rc::default());
    let root = copier.copy(source, &base, &scope, "", 0)?;
    let mut definitions = Map::new();
    let mut at = 0;
    while let Some(job) = copier.waiting.get(at).cloned() {
        at += 1;
        if at > MAX_DEFINITIONS {
            return Err(UnresolvedReference {
                pointer: job.pointer,
                keyword: "$ref",
                why: format!("there are more than {MAX_DEFINITIONS} definitions"),
            });
        }
        let body = copier.copy(job.node, &job.base, &job.scope, &job.pointer, 0)?;
        definitions.insert(job.name, body);
    }
    Ok(Document { root, definitions, pointers: copier.pointers })
}

/// A named definition that is not copied yet.
#[derive(Clone)]
struct Job<'a> {
    name: String,
    node: &'a Value,
    base: Rc<str>,
    scope: DynamicScope<'a>,
    pointer: String,
}

/// A subschema by identity and by its dynamic scope.
type Key = (*const Value, Vec<*const Value>);

struct Copier<'a> {
    index: Index<'a>,
    names: HashMap<Key, String>,
    taken: HashMap<String, usize>,
    waiting: Vec<Job<'a>>,
    pointers: HashMap<String, String>,
}

impl<'a> Copier<'a> {
    /// Returns the name of the definition that a reference resolves to.
    fn refer(
        &mut self,
        reference: &str,
        keyword: &'static str,
        base: &Rc<str>,
        scope: &DynamicScope<'a>,
        pointer: &str,
    ) -> Result<String, UnresolvedReference> {
        let target = self.index.target(reference, keyword, base, scope, pointer)?;
        let scope = self.index.enter(&target.base, scope);
        let on_the_way = scope.values().map(|(node, _)| std::ptr::from_ref(*node)).collect();
        let key = (std::ptr::from_ref(target.node), on_the_way);
        if let Some(name) = self.names.get(&key) {
            return Ok(name.clone());
        }
        let name = self.name(&target.hint);
        let pointer = target.pointer;
        self.names.insert(key, name.clone());
        self.pointers.insert(name.clone(), pointer.clone());
        self.waiting.push(Job {
            name: name.clone(),
            node: target.node,
            base: target.base,
            scope,
            pointer,
        });
        Ok(name)
    }

    /// A unique name that needs no escaping.
    fn name(&mut self, hint: &str) -> String {
        let plain: String = hint
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' })
            .take(64)
            .collect();
        let stem = if plain.is_empty() { "schema".to_owned() } else { plain };
        loop {
            let count = self.taken.entry(stem.clone()).or_insert(0);
            *count += 1;
            let name = if *count == 1 { stem.clone() } else { format!("{stem}_{count}") };
            if *count == 1 || !self.taken.contains_key(&name) {
                self.taken.entry(name.clone()).or_insert(1);
                return name;
            }
        }
    }

    fn copy(
        &mut self,
        node: &'a Value,
        base: &Rc<str>,
        scope: &DynamicScope<'a>,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, UnresolvedReference> {
        let Some(map) = node.as_object() else {
            return match node {
                Value::Bool(_) => Ok(node.clone()),
                other => Err(UnresolvedReference {
                    pointer: pointer.to_owned(),
                    keyword: "",
                    why: format!("a schema is an object or a boolean, not {other}"),
                }),
            };
        };
        if depth > MAX_DEPTH {
            return Err(UnresolvedReference {
                pointer: pointer.to_owned(),
                keyword: "",
                why: format!("it is nested more than {MAX_DEPTH} levels deep"),
            });
        }
        let here = self.index.base_of(node, base);
        let scope = if here == *base { Rc::clone(scope) } else { self.index.enter(&here, scope) };
        let draft = self.index.draft_of(&here);
        let old = draft.is_old();
        let mut out = Map::new();
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let name = self.refer(reference, "$ref", &here, &scope, pointer)?;
            out.insert("$ref".into(), pointer_to(&name));
            if old {
                return Ok(Value::Object(out));
            }
        }
        let mut more = Vec::new();
        let recursive = draft == Draft::Draft201909;
        for (keyword, wanted) in [("$dynamicRef", !recursive), ("$recursiveRef", recursive)] {
            if let Some(reference) = map.get(keyword).and_then(Value::as_str).filter(|_| wanted) {
                let name = self.refer(reference, keyword, &here, &scope, pointer)?;
                more.push(json!({"$ref": pointer_to(&name)}));
            }
        }
        for (key, value) in map {
            let below = || format!("{pointer}/{key}");
            let one = |copier: &mut Self, child: &'a Value, below: &str| {
                copier.copy(child, &here, &scope, below, depth + 1)
            };
            let copied = match key.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" | "$schema" | "$id" | "$anchor"
                | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary" | "$comment" | "$defs"
                | "definitions" | "id" | "nullable" | "contentSchema" => continue,
                // A keyword of a later draft has no effect in an earlier one.
                key if keywords::restricts(key) && !draft.knows(key) => continue,
                "then" | "else" if !map.contains_key("if") => continue,
                "minContains" | "maxContains" if !map.contains_key("contains") => continue,
                "items" if value.is_array() => {
                    let list = self.list(value, &here, &scope, &below(), depth)?;
                    if let Some(rest) = map.get("additionalItems") {
                        let rest = one(self, rest, &format!("{pointer}/additionalItems"))?;
                        out.insert("items".into(), rest);
                    }
                    if list.as_array().is_some_and(|l| !l.is_empty()) {
                        out.insert("prefixItems".into(), list);
                    }
                    continue;
                }
                // Only has an effect next to a list of items.
                "additionalItems" => continue,
                "dependencies" if old => {
                    for (name, needs) in value.as_object().into_iter().flatten() {
                        let (word, needs) = match needs {
                            Value::Array(_) => ("dependentRequired", needs.clone()),
                            schema => {
                                let below = format!("{pointer}/{key}/{}", keywords::escape(name));
                                ("dependentSchemas", one(self, schema, &below)?)
                            }
                        };
                        let pointer = out.entry(word).or_insert_with(|| json!({}));
                        if let Some(pointer) = pointer.as_object_mut() {
                            pointer.insert(name.clone(), needs);
                        }
                    }
                    continue;
                }
                "dependencies" => continue,
                "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => continue,
                "minimum" if map.get("exclusiveMinimum") == Some(&Value::Bool(true)) => {
                    out.insert("exclusiveMinimum".into(), value.clone());
                    continue;
                }
                "maximum" if map.get("exclusiveMaximum") == Some(&Value::Bool(true)) => {
                    out.insert("exclusiveMaximum".into(), value.clone());
                    continue;
                }
                key if keywords::SINGLE_SCHEMA.contains(&key) => one(self, value, &below())?,
                key if keywords::SCHEMA_LISTS.contains(&key) => {
                    self.list(value, &here, &scope, &below(), depth)?
                }
                key if SCHEMA_MAPS.contains(&key) => {
                    let mut copied = Map::new();
                    for (name, child) in value.as_object().into_iter().flatten() {
                        let below = format!("{pointer}/{key}/{}", keywords::escape(name));
                        copied.insert(name.clone(), one(self, child, &below)?);
                    }
                    Value::Object(copied)
                }
                key if COUNTS.contains(&key) => whole(value),
                _ => value.clone(),
            };
            out.insert(key.clone(), copied);
        }
        // A second reference next to `$ref` goes under `allOf`.
        for reference in more {
            if !out.contains_key("$ref") {
                out.insert("$ref".into(), reference["$ref"].clone());
                continue;
            }
            let all = out.entry("allOf").or_insert_with(|| json!([]));
            if let Some(all) = all.as_array_mut() {
                all.push(reference);
            }
        }
        Ok(Value::Object(out))
    }

    fn list(
        &mut self,
        value: &'a Value,
        base: &Rc<str>,
        scope: &DynamicScope<'a>,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, UnresolvedReference> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let copied: Result<Vec<Value>, UnresolvedReference> = items
            .iter()
            .enumerate()
            .map(|(n, item)| self.copy(item, base, scope, &format!("{pointer}/{n}"), depth + 1))
            .collect();
        copied.map(Value::Array)
    }
}

/// Keywords whose value is a count.
const COUNTS: [&str; 8] = [
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];

/// A count may be written as 2.0, which some readers reject.
fn whole(count: &Value) -> Value {
    match count.as_f64() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
        Some(f) if count.is_f64() && f.fract() == 0.0 && (0.0..9e15).contains(&f) => {
            json!(f as u64)
        }
        _ => count.clone(),
    }
}

fn pointer_to(name: &str) -> Value {
    Value::String(format!("#/$defs/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_every_kind_become_definitions() {
        let source = json!({
            "$id": "https://example.com/root",
            "type": "object",
            "properties": {
                "a": {"$ref": "#/$defs/a~1b"},
                "b": {"$ref": "#here"},
                "c": {"$ref": "other#/$defs/deep"},
                "d": {"$ref": "#/properties/e"},
                "e": {"enum": [{"$ref": "#/nowhere"}]},
                "f": {"$ref": "#"},
                "g": {"$ref": "#/$defs/a%25"},
            },
            "$defs": {
                "a/b": {"type": "string"},
                "a%": {"type": "boolean"},
                "x": {"$anchor": "here", "type": "integer"},
                "y": {"$id": "other", "$defs": {"deep": {"type": "null"}}},
            },
        });
        let document = resolve(&source).unwrap();
        let target = |name: &str| {
            let reference = document.root["properties"][name]["$ref"].as_str().unwrap();
            &document.definitions[reference.strip_prefix("#/$defs/").unwrap()]
        };
        assert_eq!(target("a"), &json!({"type": "string"}));
        assert_eq!(target("b"), &json!({"type": "integer"}));
        assert_eq!(target("c"), &json!({"type": "null"}));
        assert_eq!(target("d"), &json!({"enum": [{"$ref": "#/nowhere"}]}), "data stays data");
        assert_eq!(target("f")["properties"]["f"]["$ref"], "#/$defs/root");
        assert_eq!(target("g"), &json!({"type": "boolean"}));
        assert!(document.root.get("$id").is_none());
    }

    #[test]
    fn older_drafts_are_converted_to_2020_12() {
        let source = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": [{"type": "string"}], "additionalItems": false,
            "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
            "properties": {"r": {"$ref": "#/definitions/x", "type": "string"}},
            "definitions": {"x": {"type": "integer"}},
        });
        let document = resolve(&source).unwrap();
        assert_eq!(
            document.root,
            json!({
                "items": false, "prefixItems": [{"type": "string"}],
                "dependentRequired": {"a": ["b"]},
                "dependentSchemas": {"c": {"required": ["d"]}},
                "properties": {"r": {"$ref": "#/$defs/x"}},
            })
        );
        let four = json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "minimum": 1, "exclusiveMinimum": true,
        });
        assert_eq!(resolve(&four).unwrap().root, json!({"exclusiveMinimum": 1}));
    }

    #[test]
    fn keywords_of_later_drafts_have_no_effect() {
        let seven = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "prefixItems": [{"type": "string"}], "unevaluatedProperties": false,
            "dependentRequired": {"a": ["b"]}, "const": 1,
        });
        assert_eq!(resolve(&seven).unwrap().root, json!({"const": 1}));
        let four = json!({"$schema": "http://json-schema.org/draft-04/schema#", "const": 1});
        assert_eq!(resolve(&four).unwrap().root, json!({}));
        let mixed = json!({
            "properties": {"a": {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$id": "https://example.com/a",
                "prefixItems": [false],
            }},
            "prefixItems": [true], "dependencies": {"a": ["b"]},
        });
        assert_eq!(
            resolve(&mixed).unwrap().root,
            json!({"properties": {"a": {}}, "prefixItems": [true]})
        );
    }

    #[test]
    fn unresolvable_references_are_refused() {
        let outside = resolve(&json!({"properties": {"a": {"$ref": "https://example.com/x"}}}));
        let outside = outside.unwrap_err();
        assert_eq!((outside.pointer.as_str(), outside.keyword), ("/properties/a", "$ref"));
        assert!(outside.why.contains("nothing is fetched"));
        assert!(
            resolve(&json!({"$ref": "#/$defs/none"}))
                .unwrap_err()
                .why
                .contains("cannot be resolved")
        );
        let mut deep = json!({});
        for _ in 0..2_000 {
            deep = json!({"items": deep});
        }
        assert!(resolve(&deep).unwrap_err().why.contains("levels"));
    }
}
