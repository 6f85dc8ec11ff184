//! Makes a schema self-contained: every reference becomes `#/$defs/<name>`.
//!
//! In: a schema of any draft, with `$id`, anchors, dynamic references and references to anywhere.
//! Out: a document of draft 2020-12 without any of these.
//! INVARIANT: it accepts exactly the same values. Nothing is fetched, so a schema cannot cause
//! SSRF.
//!
//! The target of a dynamic reference depends on the path through the document (its dynamic scope),
//! so a definition that depends on it is copied once per scope. The number of scopes is finite.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use jsonschema::Draft;
use serde_json::{Map, Value, json};

use super::{
    document::{Document, Unresolved},
    keywords::{self, SCHEMA_MAPS},
};
use crate::compiled::draft;

/// Deeper schemas are refused.
const MAX_DEPTH: usize = 128;
/// More definitions are refused. No provider accepts that many.
const MAX_DEFINITIONS: usize = 5_000;

/// Makes a schema self-contained.
pub fn resolve(source: &Value) -> Result<Document, Unresolved> {
    let foreign = |why| Unresolved { pointer: String::new(), keyword: "$schema", why };
    let draft = draft(source).map_err(foreign)?;
    let mut index = Index { old: is_old(draft), ..Index::default() };
    let base: Rc<str> = Rc::from(DEFAULT_BASE_URI);
    if !has_no_references(source, index.old, 0) {
        index.scan(source, &base, String::new(), 0)?;
    }
    let mut copier = Copier {
        draft,
        index,
        names: HashMap::new(),
        taken: HashMap::new(),
        waiting: Vec::new(),
        places: HashMap::new(),
    };
    let base = copier.index.base_of(source, &base);
    let scope = copier.enter(&base, &Rc::default());
    let root = copier.copy(source, &base, &scope, "", 0)?;
    let mut definitions = Map::new();
    let mut at = 0;
    while let Some(job) = copier.waiting.get(at).cloned() {
        at += 1;
        if at > MAX_DEFINITIONS {
            return Err(Unresolved {
                pointer: job.place,
                keyword: "$ref",
                why: format!("there are more than {MAX_DEFINITIONS} definitions"),
            });
        }
        let body = copier.copy(job.node, &job.base, &job.scope, &job.place, 0)?;
        definitions.insert(job.name, body);
    }
    Ok(Document { root, definitions, places: copier.places })
}

/// Whether a schema has no references and no reference targets. This holds for most tools and skips
/// the index. A property with the name of such a keyword gives `false`, which only costs time.
fn has_no_references(node: &Value, old: bool, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    match node {
        Value::Object(map) => map.iter().all(|(key, value)| {
            let speaks = match key.as_str() {
                "$defs" | "$comment" => false,
                "$schema" => !value.as_str().is_some_and(|d| d.contains("//json-schema.org/")),
                "id" => old,
                key => key.starts_with('$'),
            };
            !speaks && has_no_references(value, old, depth + 1)
        }),
        Value::Array(list) => list.iter().all(|item| has_no_references(item, old, depth + 1)),
        _ => true,
    }
}

/// The base URI of a document without `$id`.
const DEFAULT_BASE_URI: &str = "haft://tool/schema";

fn is_old(draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
}

/// The dynamic scope: which subschema each dynamic anchor resolves to. The outermost wins.
type DynamicScope<'a> = Rc<BTreeMap<String, (&'a Value, Rc<str>)>>;

/// Where every reference target of a document is.
#[derive(Default)]
struct Index<'a> {
    /// Whether `$ref` hides its sibling keywords.
    old: bool,
    resources: HashMap<String, &'a Value>,
    /// By resource and name; the flag is set if the name is a `$dynamicAnchor`.
    anchors: HashMap<(String, String), (&'a Value, bool)>,
    dynamic: HashMap<String, Vec<(String, &'a Value)>>,
    /// Base URI and place of every subschema, by identity.
    nodes: HashMap<*const Value, (Rc<str>, String)>,
    /// Resources with their own draft.
    drafts: HashMap<String, Draft>,
    is_dynamic: bool,
}

impl<'a> Index<'a> {
    fn scan(
        &mut self,
        node: &'a Value,
        base: &Rc<str>,
        place: String,
        depth: usize,
    ) -> Result<(), Unresolved> {
        if depth > MAX_DEPTH {
            return Err(Unresolved {
                pointer: place,
                keyword: "",
                why: format!("it is nested more than {MAX_DEPTH} levels deep"),
            });
        }
        let Some(map) = node.as_object() else { return Ok(()) };
        let own_draft = match draft(node) {
            Ok(draft) => map.contains_key("$schema").then_some(draft),
            Err(why) => return Err(Unresolved { pointer: place, keyword: "$schema", why }),
        };
        let hidden = self.old && map.contains_key("$ref");
        let text = |key: &str| map.get(key).and_then(Value::as_str).filter(|_| !hidden);
        let mut base = Rc::clone(base);
        if let Some(id) = text("$id").or_else(|| text("id").filter(|_| self.old)) {
            match id.strip_prefix('#') {
                Some(name) if self.old => {
                    self.anchors.insert((base.to_string(), name.to_owned()), (node, false));
                }
                _ => {
                    let address = join(&base, id).ok_or_else(|| Unresolved {
                        pointer: place.clone(),
                        keyword: "$id",
                        why: format!("`{id}` is not a valid URI"),
                    })?;
                    base = address.split('#').next().unwrap_or_default().into();
                    self.resources.insert(base.to_string(), node);
                }
            }
        }
        if depth == 0 {
            self.resources.entry(base.to_string()).or_insert(node);
            self.resources.entry(DEFAULT_BASE_URI.to_owned()).or_insert(node);
        }
        if let Some(name) = text("$anchor") {
            self.anchors.insert((base.to_string(), name.to_owned()), (node, false));
        }
        if let Some(name) = text("$dynamicAnchor") {
            self.anchors.insert((base.to_string(), name.to_owned()), (node, true));
            self.dynamic.entry(base.to_string()).or_default().push((name.to_owned(), node));
        }
        self.is_dynamic |= map.contains_key("$dynamicRef");
        for child in keywords::children(map) {
            if !(hidden && child.key != "definitions" && child.key != "$defs") {
                self.scan(child.node, &base, child.place(&place), depth + 1)?;
            }
        }
        if let Some(draft) = own_draft {
            self.drafts.insert(base.to_string(), draft);
        }
        self.nodes.insert(node, (base, place));
        Ok(())
    }

    fn base_of(&self, node: &Value, otherwise: &Rc<str>) -> Rc<str> {
        self.nodes
            .get(&std::ptr::from_ref(node))
            .map_or_else(|| Rc::clone(otherwise), |(base, _)| Rc::clone(base))
    }

    /// Finds the target of a reference, and whether it is a dynamic anchor.
    fn find(&mut self, base: &str, reference: &str) -> Option<Target<'a>> {
        let address = join(base, reference)?;
        let (resource, fragment) = address.split_once('#').unwrap_or((&address, ""));
        if !self.resources.contains_key(resource) {
            self.load_metaschema(resource)?;
        }
        let root = *self.resources.get(resource)?;
        let fragment = unescape(fragment)?;
        let home: Rc<str> = resource.into();
        let (node, dynamic) = if fragment.is_empty() {
            (root, None)
        } else if fragment.starts_with('/') {
            (root.pointer(&fragment)?, None)
        } else {
            let (node, dynamic) = *self.anchors.get(&(resource.to_owned(), fragment.clone()))?;
            (node, dynamic.then(|| fragment.clone()))
        };
        if !(node.is_object() || node.is_boolean()) {
            return None;
        }
        let base = self.base_of(node, &home);
        let last = fragment.rsplit('/').next().unwrap_or_default();
        let hint = match last {
            "" => "root".to_owned(),
            last => last.replace("~1", "/").replace("~0", "~"),
        };
        Some(Target { node, base, dynamic, hint })
    }

    /// Loads a metaschema of the specification. Every other address stays unknown.
    fn load_metaschema(&mut self, address: &str) -> Option<()> {
        let registry = &*referencing::SPECIFICATIONS;
        let known = registry.resolver(referencing::uri::from_str(DEFAULT_BASE_URI).ok()?);
        let contents = known.lookup(address).ok()?.contents();
        self.scan(contents, &address.into(), String::new(), 0).ok()?;
        self.resources.insert(address.to_owned(), contents);
        Some(())
    }
}

struct Target<'a> {
    node: &'a Value,
    base: Rc<str>,
    dynamic: Option<String>,
    hint: String,
}

fn join(base: &str, reference: &str) -> Option<String> {
    if let Some(fragment) = reference.strip_prefix('#') {
        return Some(format!("{base}#{fragment}"));
    }
    let base = referencing::uri::from_str(base).ok()?;
    let joined = referencing::uri::resolve_against(&base.borrow(), reference).ok()?;
    Some(joined.as_str().to_owned())
}

/// Decodes percent-encoding.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: u8| char::from(b).to_digit(16);
                let high = rest.next().and_then(digit)?;
                let low = rest.next().and_then(digit)?;
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A named definition that is not copied yet.
#[derive(Clone)]
struct Job<'a> {
    name: String,
    node: &'a Value,
    base: Rc<str>,
    scope: DynamicScope<'a>,
    place: String,
}

/// A subschema by identity and by its dynamic scope.
type Key = (*const Value, Vec<*const Value>);

struct Copier<'a> {
    draft: Draft,
    index: Index<'a>,
    names: HashMap<Key, String>,
    taken: HashMap<String, usize>,
    waiting: Vec<Job<'a>>,
    places: HashMap<String, String>,
}

impl<'a> Copier<'a> {
    /// Adds the dynamic anchors of an entered resource; earlier ones win.
    fn enter(&self, resource: &str, scope: &DynamicScope<'a>) -> DynamicScope<'a> {
        let Some(anchors) = self.index.dynamic.get(resource).filter(|_| self.index.is_dynamic)
        else {
            return Rc::clone(scope);
        };
        let mut more = BTreeMap::clone(scope);
        for (name, node) in anchors {
            more.entry(name.clone()).or_insert_with(|| (*node, resource.into()));
        }
        Rc::new(more)
    }

    /// Returns the name of the definition that a reference resolves to.
    fn refer(
        &mut self,
        reference: &str,
        keyword: &'static str,
        base: &Rc<str>,
        scope: &DynamicScope<'a>,
        place: &str,
    ) -> Result<String, Unresolved> {
        let unresolved = || Unresolved {
            pointer: place.to_owned(),
            keyword,
            why: if reference.starts_with('#') {
                format!("`{reference}` cannot be resolved")
            } else {
                format!("`{reference}` is not in this schema, and nothing is fetched")
            },
        };
        let mut target = self.index.find(base, reference).ok_or_else(unresolved)?;
        if keyword == "$dynamicRef"
            && let Some(name) = &target.dynamic
            && let Some((node, base)) = scope.get(name)
        {
            target.node = node;
            target.base = Rc::clone(base);
        }
        let scope = self.enter(&target.base, scope);
        let on_the_way = scope.values().map(|(node, _)| std::ptr::from_ref(*node)).collect();
        let key = (std::ptr::from_ref(target.node), on_the_way);
        if let Some(name) = self.names.get(&key) {
            return Ok(name.clone());
        }
        let name = self.name(&target.hint);
        let place = match self.index.nodes.get(&key.0) {
            Some((_, place)) => place.clone(),
            None => reference.trim_start_matches('#').to_owned(),
        };
        self.names.insert(key, name.clone());
        self.places.insert(name.clone(), place.clone());
        self.waiting.push(Job {
            name: name.clone(),
            node: target.node,
            base: target.base,
            scope,
            place,
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
        place: &str,
        depth: usize,
    ) -> Result<Value, Unresolved> {
        let Some(map) = node.as_object() else {
            return match node {
                Value::Bool(_) => Ok(node.clone()),
                other => Err(Unresolved {
                    pointer: place.to_owned(),
                    keyword: "",
                    why: format!("a schema is an object or a boolean, not {other}"),
                }),
            };
        };
        if depth > MAX_DEPTH {
            return Err(Unresolved {
                pointer: place.to_owned(),
                keyword: "",
                why: format!("it is nested more than {MAX_DEPTH} levels deep"),
            });
        }
        let here = self.index.base_of(node, base);
        let scope = if here == *base { Rc::clone(scope) } else { self.enter(&here, scope) };
        let draft = self.index.drafts.get(&*here).copied().unwrap_or(self.draft);
        let old = is_old(draft);
        let mut out = Map::new();
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let name = self.refer(reference, "$ref", &here, &scope, place)?;
            out.insert("$ref".into(), pointer_to(&name));
            if old {
                return Ok(Value::Object(out));
            }
        }
        let mut more = Vec::new();
        let recursive = draft == Draft::Draft201909;
        for (keyword, wanted) in [("$dynamicRef", !recursive), ("$recursiveRef", recursive)] {
            if let Some(reference) = map.get(keyword).and_then(Value::as_str).filter(|_| wanted) {
                let name = self.refer(reference, keyword, &here, &scope, place)?;
                more.push(json!({"$ref": pointer_to(&name)}));
            }
        }
        for (key, value) in map {
            let below = || format!("{place}/{key}");
            let one = |copier: &mut Self, child: &'a Value, below: &str| {
                copier.copy(child, &here, &scope, below, depth + 1)
            };
            let copied = match key.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" | "$schema" | "$id" | "$anchor"
                | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary" | "$comment" | "$defs"
                | "definitions" | "id" | "nullable" | "contentSchema" => continue,
                // A keyword of a later draft has no effect in an earlier one.
                key if keywords::restricts(key) && !draft.is_known_keyword(key) => continue,
                "then" | "else" if !map.contains_key("if") => continue,
                "minContains" | "maxContains" if !map.contains_key("contains") => continue,
                "items" if value.is_array() => {
                    let list = self.list(value, &here, &scope, &below(), depth)?;
                    if let Some(rest) = map.get("additionalItems") {
                        let rest = one(self, rest, &format!("{place}/additionalItems"))?;
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
                                let below = format!("{place}/{key}/{}", keywords::escape(name));
                                ("dependentSchemas", one(self, schema, &below)?)
                            }
                        };
                        let place = out.entry(word).or_insert_with(|| json!({}));
                        if let Some(place) = place.as_object_mut() {
                            place.insert(name.clone(), needs);
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
                        let below = format!("{place}/{key}/{}", keywords::escape(name));
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
        place: &str,
        depth: usize,
    ) -> Result<Value, Unresolved> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let copied: Result<Vec<Value>, Unresolved> = items
            .iter()
            .enumerate()
            .map(|(n, item)| self.copy(item, base, scope, &format!("{place}/{n}"), depth + 1))
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
