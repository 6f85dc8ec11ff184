//! Lowers a schema to the keywords that a dialect supports.
//!
//! In: a self-contained document and a dialect's rules. Out: the schema to send, and a loss for
//! every place where it differs from the document.
//! INVARIANT: the sent schema accepts everything that the document accepts, unless a loss is
//! `narrowed`.
//!
//! Our own code, because a validator only evaluates a schema.
//!
//! Some keywords are contravariant: a wider schema below `not` makes a narrower one above it. Below
//! such a keyword a schema is kept exactly, or the keyword is dropped as a whole.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    document::Document,
    inline::{BOOLEANS, anything_as_object, as_object},
    keywords::{self, ANNOTATIONS, CONTRAVARIANT},
    merge::{false_schema, merge, types},
    query::{disjoint, mentions, reference},
    rules::{LoweringRules, References, Typing},
    sizes::size,
    unsupported::{OrUnsupported, UnsupportedSchema},
};
use crate::loss::{Loss, LossKind};

/// Branches of a union are not compared with each other beyond this.
const MAX_COMPARED_BRANCHES: usize = 60;
/// Merging stops beyond this for one tool. A normal tool needs a thousandth of it.
const MAX_MERGE_WORK: usize = 400_000;
/// References are not inlined after this many schemas were flattened at one place.
const MAX_FLATTENED_SCHEMAS: usize = 32;

/// A schema in the keywords of a dialect.
#[derive(Debug)]
pub struct LoweredSchema {
    /// The lowered schema.
    pub schema: Map<String, Value>,
    /// Where it differs from the original.
    pub losses: Vec<Loss>,
    /// What the tool's description must state because the schema no longer does.
    pub notes: Vec<String>,
    /// Renamed properties of the root, as (own name, exported name).
    pub renamed: Vec<(String, String)>,
}

/// Whether a schema may become wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    MayWiden,
    Exact,
}

/// How deep references are inlined before they are truncated.
#[derive(Debug, Clone, Copy)]
struct InlineLimits {
    /// How often a definition may be inlined inside itself.
    recursions: usize,
    /// How many definitions may be inlined inside each other.
    levels: usize,
}

/// Lowers a document to a dialect. If strict mode would change the meaning of an absent property,
/// it fails unless `insist` is set.
pub fn lower(
    document: &Document,
    rules: &LoweringRules,
    insist: bool,
) -> OrUnsupported<LoweredSchema> {
    const INLINE_LIMITS: [InlineLimits; 6] = [
        InlineLimits { recursions: 3, levels: 40 },
        InlineLimits { recursions: 2, levels: 12 },
        InlineLimits { recursions: 1, levels: 8 },
        InlineLimits { recursions: 1, levels: 4 },
        InlineLimits { recursions: 1, levels: 2 },
        InlineLimits { recursions: 1, levels: 1 },
    ];
    let mut smaller_limits = INLINE_LIMITS.iter();
    let mut inline_limits = INLINE_LIMITS[0];
    let mut drop_unevaluated = false;
    let mut inline_acyclic = rules.references == References::InlineAcyclic;
    let mut inexact = HashSet::new();
    loop {
        let mut lowering =
            Lowering::new(document, rules, inline_limits, insist, drop_unevaluated, inline_acyclic);
        lowering.inexact = inexact.clone();
        match lowering.document() {
            Ok(schema) => {
                return Ok(LoweredSchema {
                    schema,
                    losses: lowering.losses,
                    notes: lowering.notes,
                    renamed: lowering.renamed,
                });
            }
            Err(unfit) if unfit.drop_unevaluated && !drop_unevaluated => drop_unevaluated = true,
            // Each definition is dropped at most once, so the loop ends.
            Err(UnsupportedSchema { inexact: Some(name), .. }) if !inexact.contains(&name) => {
                inexact.insert(name);
            }
            Err(unfit) if unfit.large && inline_acyclic => inline_acyclic = false,
            Err(unfit) if unfit.large => match smaller_limits.next() {
                Some(next) => inline_limits = *next,
                None => return Err(unfit),
            },
            Err(unfit) => return Err(unfit),
        }
    }
}

pub(super) struct Lowering<'a> {
    pub(super) rules: &'a LoweringRules,
    pub(super) document: &'a Document,
    pub(super) losses: Vec<Loss>,
    pub(super) notes: Vec<String>,
    pub(super) renamed: Vec<(String, String)>,
    inline_limits: InlineLimits,
    pub(super) insist: bool,
    drop_unevaluated: bool,
    inline_acyclic: bool,
    /// Definitions that are always inlined.
    pub(super) replaced: HashSet<String>,
    /// Definitions being inlined around the current place, outermost first.
    pub(super) open: Vec<String>,
    /// Definitions that the result refers to.
    referenced: Vec<String>,
    /// Those of them that are needed exactly.
    exactly: HashSet<String>,
    /// Those that cannot be expressed exactly.
    inexact: HashSet<String>,
    parts: usize,
    /// The merge work so far.
    work: usize,
    /// Where the root's keywords are in the source, when the root is only a reference.
    pub(super) root_place: String,
    /// Whether the document uses `unevaluatedItems`. Cached, because every array needs it.
    uses_unevaluated_items: bool,
}

/// Schemas that could not be merged, with their places.
pub(super) type Rest = Vec<(String, Value)>;

pub(super) type LowerResult = OrUnsupported<Value>;

impl<'a> Lowering<'a> {
    fn new(
        document: &'a Document,
        rules: &'a LoweringRules,
        inline_limits: InlineLimits,
        insist: bool,
        drop_unevaluated: bool,
        inline_acyclic: bool,
    ) -> Self {
        let replaced = match rules.references {
            References::KeepOptionalCycles => super::cycles::required_cycles(document),
            References::InlineAcyclic if inline_acyclic => super::cycles::acyclic(document),
            _ => HashSet::new(),
        };
        Self {
            rules,
            document,
            losses: Vec::new(),
            notes: Vec::new(),
            renamed: Vec::new(),
            inline_limits,
            insist,
            drop_unevaluated,
            inline_acyclic,
            replaced,
            open: Vec::new(),
            referenced: Vec::new(),
            exactly: HashSet::new(),
            inexact: HashSet::new(),
            parts: 0,
            work: 0,
            root_place: String::new(),
            uses_unevaluated_items: rules.items && mentions(document, &["unevaluatedItems"]),
        }
    }

    fn document(&mut self) -> OrUnsupported<Map<String, Value>> {
        if self.rules.references == References::KeepAcyclic
            && let Some(name) = super::cycles::first_cyclic(self.document)
        {
            return Err(self.unfit(&self.path(&name), "$ref", "the reference is recursive"));
        }
        let root = self.root()?;
        let path = std::mem::take(&mut self.root_place);
        let lowered = self.lower_node(&Value::Object(root), &path, Precision::MayWiden)?;
        let Value::Object(mut schema) = lowered else {
            return Err(self.unfit("", "", "it accepts no arguments"));
        };
        let mut definitions = Map::new();
        let mut done: HashSet<(String, bool)> = HashSet::new();
        loop {
            let next = self
                .referenced
                .iter()
                .find(|name| !done.contains(&((*name).clone(), self.exactly.contains(*name))));
            let Some(name) = next.cloned() else { break };
            let exactly = self.exactly.contains(&name);
            done.insert((name.clone(), exactly));
            let lowered = self.definition(&name, exactly)?;
            definitions.insert(name, lowered);
        }
        prune(&schema, &mut definitions);
        if !definitions.is_empty() {
            schema.insert("$defs".into(), Value::Object(definitions));
        }
        self.rename_keys(&mut schema)?;
        super::sizes::check(&schema, &self.rules.limits).map_err(|why| self.unfit("", "", why))?;
        let mut seen = HashSet::new();
        self.losses.retain(|loss| seen.insert(loss.clone()));
        Ok(schema)
    }

    /// Lowers one definition.
    fn definition(&mut self, name: &str, exactly: bool) -> LowerResult {
        let Some(body) = self.document.definitions.get(name) else { return Ok(json!({})) };
        let path = self.path(name);
        self.open.clear();
        self.open.push(name.to_owned());
        let precision = if exactly { Precision::Exact } else { Precision::MayWiden };
        let lowered = match self.lower_node(body, &path, precision) {
            Err(unfit) if exactly && !unfit.large && !unfit.drop_unevaluated => {
                return Err(UnsupportedSchema { inexact: Some(name.to_owned()), ..unfit });
            }
            lowered => lowered?,
        };
        match (lowered, self.rules.subset()) {
            (Value::Bool(_), Some(subset)) if subset.typing == Typing::Needed => {
                Err(self.unfit(&path, "", "it accepts no value"))
            }
            (Value::Bool(false), Some(_)) => {
                self.lose(&path, "", "it accepts no value, which cannot be expressed", precision)?;
                Ok(json!({}))
            }
            (lowered, _) => Ok(as_object(lowered)),
        }
    }

    /// Lowers one schema. `false` means that it accepts no value.
    pub(super) fn lower_node(
        &mut self,
        node: &Value,
        path: &str,
        precision: Precision,
    ) -> LowerResult {
        self.parts += 1;
        // A schema that is passed on unchanged does not grow.
        let grows =
            self.inline_acyclic || self.rules.subset().is_some() || self.rules.inlines_plainly();
        if grows && self.parts > self.rules.limits.parts {
            let why =
                format!("it has more than {} subschemas after inlining", self.rules.limits.parts);
            return Err(UnsupportedSchema { large: true, ..self.unfit(path, "$ref", why) });
        }
        match self.rules.subset() {
            None => self.plain(node, path, precision),
            Some(subset) => self.reduce(subset, node, path, precision),
        }
    }

    /// Lowers one schema for a dialect that supports all keywords.
    fn plain(&mut self, node: &Value, path: &str, precision: Precision) -> LowerResult {
        let Some(map) = node.as_object() else { return Ok(node.clone()) };
        if self.rules.inlines_plainly() && (map.contains_key("$ref") || map.contains_key("allOf")) {
            return self.inlined(map, path, precision);
        }
        // Not copied where there is nothing to fold, because that would copy at every level.
        if !self.inline_acyclic || !(map.contains_key("$ref") || map.contains_key("allOf")) {
            return self.plain_keywords(map, path, precision);
        }
        let depth = self.open.len();
        let folded = self.fold(map, path)?;
        let lowered = self.plain_keywords(&folded, path, precision);
        self.open.truncate(depth);
        lowered
    }

    pub(super) fn plain_keywords(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        precision: Precision,
    ) -> LowerResult {
        let mut out = Map::new();
        for (key, value) in map {
            let below = || format!("{path}/{key}");
            match key.as_str() {
                "$ref" => {
                    if let Some(name) = reference(map) {
                        self.refer(name);
                        if precision == Precision::Exact {
                            self.refer_exactly(name, path)?;
                        }
                    }
                    out.insert(key.clone(), value.clone());
                }
                "unevaluatedItems" | "unevaluatedProperties" if self.drop_unevaluated => {
                    self.lose(path, key, "it depends on keywords that were left out", precision)?;
                }
                "oneOf" if !self.rules.one_of => {
                    let branches = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    self.one_of_to_any_of(branches, &below(), precision)?;
                    let lowered = self.each(branches, &below(), precision)?;
                    let has_any_of = out.contains_key("anyOf") || map.contains_key("anyOf");
                    if !has_any_of {
                        out.insert("anyOf".into(), Value::Array(lowered));
                    } else if self.rules.inlines_plainly() {
                        self.retry_without_unevaluated(path, "oneOf")?;
                        self.lose(&below(), "oneOf", "it is a sibling of `anyOf`", precision)?;
                    } else {
                        push(&mut out, "allOf", json!({"anyOf": lowered}));
                    }
                }
                // An earlier keyword may have started the list.
                "allOf" => {
                    let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    for lowered in self.each(parts, &below(), precision)? {
                        push(&mut out, "allOf", lowered);
                    }
                }
                "then" | "else" if map.contains_key("if") && !out.contains_key("if") => {
                    // Its condition was dropped, or comes later and `contravariant` adds this
                    // keyword.
                    continue;
                }
                key if CONTRAVARIANT.contains(&key) => {
                    self.contravariant(&mut out, map, key, path, precision)?;
                }
                key if keywords::SINGLE_SCHEMA.contains(&key) => {
                    let lowered = self.lower_node(value, &below(), precision)?;
                    let lowered =
                        if BOOLEANS.contains(&key) { lowered } else { anything_as_object(lowered) };
                    out.insert(key.to_owned(), lowered);
                }
                key if keywords::SCHEMA_LISTS.contains(&key) => {
                    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    out.insert(key.to_owned(), Value::Array(self.each(list, &below(), precision)?));
                }
                key if keywords::SCHEMA_MAPS.contains(&key) => {
                    let mut lowered = Map::new();
                    for (name, child) in value.as_object().into_iter().flatten() {
                        let below = format!("{path}/{key}/{}", keywords::escape(name));
                        lowered.insert(
                            name.clone(),
                            as_object(self.lower_node(child, &below, precision)?),
                        );
                    }
                    out.insert(key.to_owned(), Value::Object(lowered));
                }
                key if keywords::restricts(key) || ANNOTATIONS.contains(&key) => {
                    out.insert(key.to_owned(), value.clone());
                }
                key if self.rules.unknown_keywords
                    || key == "minContains"
                    || key == "maxContains" =>
                {
                    out.insert(key.to_owned(), value.clone());
                }
                _ => {}
            }
        }
        let is_array = out.get("type").is_some_and(|t| types(t).contains(&"array"));
        if self.rules.items
            && is_array
            && !out.contains_key("items")
            && !out.contains_key("prefixItems")
        {
            if self.uses_unevaluated_items {
                self.lose(path, "unevaluatedItems", "every item counts as evaluated", precision)?;
            }
            out.insert("items".into(), json!({}));
        }
        let is_object = out.get("type").is_some_and(|t| types(t).contains(&"object"));
        if self.rules.properties && is_object && !out.contains_key("properties") {
            out.insert("properties".into(), json!({}));
        }
        Ok(Value::Object(out))
    }

    /// Keeps a contravariant keyword exactly, or drops it.
    fn contravariant(
        &mut self,
        out: &mut Map<String, Value>,
        map: &Map<String, Value>,
        key: &str,
        path: &str,
        precision: Precision,
    ) -> OrUnsupported<()> {
        let before = self.losses.len();
        let below = format!("{path}/{key}");
        let lowered = match map.get(key) {
            Some(Value::Array(list)) => self.each(list, &below, Precision::Exact).map(Value::Array),
            Some(one) => self.lower_node(one, &below, Precision::Exact).map(anything_as_object),
            None => return Ok(()),
        };
        match lowered {
            Ok(lowered) => {
                out.insert(key.to_owned(), lowered);
                if key == "if" {
                    for next in ["then", "else"] {
                        if let Some(schema) = map.get(next) {
                            let lowered =
                                self.lower_node(schema, &format!("{path}/{next}"), precision)?;
                            out.insert(next.to_owned(), as_object(lowered));
                        }
                    }
                }
                Ok(())
            }
            Err(unfit) if unfit.large || unfit.drop_unevaluated => Err(unfit),
            Err(_) => {
                self.losses.truncate(before);
                if !self.drop_unevaluated
                    && mentions(self.document, &["unevaluatedItems", "unevaluatedProperties"])
                {
                    return Err(UnsupportedSchema {
                        drop_unevaluated: true,
                        ..self.unfit(path, key, "")
                    });
                }
                self.lose(path, key, "its subschema cannot be expressed exactly", precision)
            }
        }
    }

    fn each(
        &mut self,
        list: &[Value],
        path: &str,
        precision: Precision,
    ) -> OrUnsupported<Vec<Value>> {
        list.iter()
            .enumerate()
            .map(|(n, item)| {
                Ok(as_object(self.lower_node(item, &format!("{path}/{n}"), precision)?))
            })
            .collect()
    }

    /// Inlines references and merges `allOf`, as far as that is exact. The rest stays under
    /// `allOf`.
    fn fold(&mut self, map: &Map<String, Value>, path: &str) -> OrUnsupported<Map<String, Value>> {
        let (mut folded, rest) = self.flatten(map, path, &mut 0)?;
        for (_, part) in rest {
            push(&mut folded, "allOf", part);
        }
        Ok(folded)
    }

    /// Inlines the references of one place and merges `allOf`. Returns what could not be merged,
    /// with its place. The inlined definitions stay open.
    pub(super) fn flatten(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        folded: &mut usize,
    ) -> OrUnsupported<(Map<String, Value>, Rest)> {
        let mut rest = Vec::new();
        let mut parts: Vec<(String, Value)> = Vec::new();
        let mut out = map.clone();
        *folded += 1;
        if let Some(name) = reference(map)
            && self.may_replace(name)
            && *folded < MAX_FLATTENED_SCHEMAS
        {
            out.shift_remove("$ref");
            self.open.push(name.to_owned());
            if let Some(body) = self.document.definitions.get(name) {
                parts.push((self.path(name), body.clone()));
            }
        } else if reference(map).is_some() && !self.inline_acyclic {
            // The reference cannot be followed any further.
            out.shift_remove("$ref");
            rest.push((path.to_owned(), json!({"$ref": map["$ref"]})));
        }
        if let Some(Value::Array(all)) = out.shift_remove("allOf") {
            let below = |n| format!("{path}/allOf/{n}");
            parts.extend(all.into_iter().enumerate().map(|(n, part)| (below(n), part)));
        }
        for (path, part) in parts {
            match part {
                Value::Bool(true) => {}
                Value::Bool(false) => return Ok((false_schema(), Vec::new())),
                Value::Object(part) => {
                    let (part, more) = self.flatten(&part, &path, folded)?;
                    rest.extend(more);
                    // Each merge copies what was merged before.
                    self.work += 1 + size(&out) + size(&part);
                    if self.work > MAX_MERGE_WORK {
                        let unfit = self.unfit(&path, "allOf", "it has too many subschemas");
                        let large =
                            self.inline_acyclic || self.rules.references == References::Inline;
                        return Err(UnsupportedSchema { large, ..unfit });
                    }
                    match merge(&out, &part) {
                        Some(merged) => out = merged,
                        None => rest.push((path, Value::Object(part))),
                    }
                }
                other => rest.push((path, other)),
            }
        }
        Ok((out, rest))
    }

    /// Whether a reference may be inlined at this place.
    fn may_replace(&self, name: &str) -> bool {
        let recursions = self.open.iter().filter(|open| *open == name).count();
        let ends = recursions < self.inline_limits.recursions
            && self.open.len() < self.inline_limits.levels;
        match self.rules.references {
            References::InlineAcyclic => self.replaced.contains(name),
            _ => ends,
        }
    }

    /// Asks for another attempt without the `unevaluated…` keywords, before a keyword that they
    /// depend on is dropped. Otherwise its properties would count as unevaluated and be refused.
    pub(super) fn retry_without_unevaluated(&self, path: &str, keyword: &str) -> OrUnsupported<()> {
        let unevaluated = ["unevaluatedItems", "unevaluatedProperties"];
        if !self.drop_unevaluated && mentions(self.document, &unevaluated) {
            return Err(UnsupportedSchema {
                drop_unevaluated: true,
                ..self.unfit(path, keyword, "")
            });
        }
        Ok(())
    }

    pub(super) fn refer(&mut self, name: &str) {
        if !self.referenced.iter().any(|referenced| referenced == name) {
            self.referenced.push(name.to_owned());
        }
    }

    /// References a definition at a place where a wider one would be wrong.
    fn refer_exactly(&mut self, name: &str, path: &str) -> OrUnsupported<()> {
        if self.inexact.contains(name) {
            return Err(self.unfit(path, "$ref", "its definition cannot be expressed exactly"));
        }
        if self.exactly.insert(name.to_owned()) {
            // It may have been lowered before, less exactly.
            self.referenced.retain(|referenced| referenced != name);
            self.referenced.push(name.to_owned());
        }
        Ok(())
    }

    /// The number of open definitions; `close_definitions` goes back to it.
    pub(super) fn open_definitions(&self) -> usize {
        self.open.len()
    }

    pub(super) fn close_definitions(&mut self, depth: usize) {
        self.open.truncate(depth);
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.document.pointers.get(name).cloned().unwrap_or_default()
    }

    pub(super) fn unfit(
        &self,
        path: &str,
        keyword: &str,
        why: impl Into<String>,
    ) -> UnsupportedSchema {
        UnsupportedSchema {
            pointer: path.to_owned(),
            keyword: keyword.to_owned(),
            why: why.into(),
            drop_unevaluated: false,
            large: false,
            inexact: None,
        }
    }

    /// Records that something becomes wider, or fails where that is not allowed.
    pub(super) fn lose(
        &mut self,
        path: &str,
        keyword: &str,
        note: impl Into<String>,
        precision: Precision,
    ) -> OrUnsupported<()> {
        match precision {
            Precision::MayWiden => {
                self.losses.push(Loss::new(LossKind::Widened, path, keyword, note));
                Ok(())
            }
            Precision::Exact => Err(self.unfit(path, keyword, note)),
        }
    }

    pub(super) fn narrow(
        &mut self,
        path: &str,
        keyword: &str,
        note: &str,
        precision: Precision,
    ) -> OrUnsupported<()> {
        if precision == Precision::Exact {
            return Err(self.unfit(path, keyword, note));
        }
        self.losses.push(Loss::new(LossKind::Narrowed, path, keyword, note));
        Ok(())
    }

    /// Records that something is expressed differently and means the same.
    pub(super) fn exact(&mut self, path: &str, keyword: &str, note: &str) {
        self.losses.push(Loss::new(LossKind::Exact, path, keyword, note));
    }

    /// Records whether `anyOf` in place of `oneOf` loses the "exactly one".
    pub(super) fn one_of_to_any_of(
        &mut self,
        branches: &[Value],
        path: &str,
        precision: Precision,
    ) -> OrUnsupported<()> {
        if self.all_disjoint(branches) {
            self.exact(path, "oneOf", "its branches exclude each other, so `anyOf` is equivalent");
            return Ok(());
        }
        self.lose(path, "oneOf", "more than one branch may match", precision)
    }

    pub(super) fn all_disjoint(&self, branches: &[Value]) -> bool {
        branches.len() <= MAX_COMPARED_BRANCHES
            && branches.iter().enumerate().all(|(n, one)| {
                branches[n + 1..].iter().all(|other| disjoint(self.document, one, other))
            })
    }
}

fn push(out: &mut Map<String, Value>, key: &str, value: Value) {
    match out.get_mut(key) {
        Some(Value::Array(list)) => list.push(value),
        _ => {
            out.insert(key.to_owned(), Value::Array(vec![value]));
        }
    }
}

/// Removes the definitions that are not referenced.
fn prune(schema: &Map<String, Value>, definitions: &mut Map<String, Value>) {
    let mut reached: HashSet<String> = HashSet::new();
    if definitions.is_empty() {
        return;
    }
    let mut waiting = Vec::new();
    super::cycles::collect_references(schema, &mut waiting);
    while let Some(name) = waiting.pop() {
        if reached.insert(name.clone())
            && let Some(body) = definitions.get(&name)
        {
            waiting.extend(super::cycles::references(body));
        }
    }
    definitions.retain(|name, _| reached.contains(name));
}
