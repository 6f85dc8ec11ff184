//! Says a schema in the words that a dialect has.
//!
//! In: a self-contained document and a dialect's rules. Out: the schema to send, and every place
//! where it says more, less or something else than the document does. What is sent accepts
//! everything that the document accepts, unless the report says `narrowed`.
//!
//! Some words turn things round: a wider schema below `not` makes a narrower one above it. Below
//! such a word a schema is kept exactly, or the word is given up as a whole.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    keywords::{self, NOTES, TURNED},
    merge::{equal, merge, nothing, type_of, types},
    query::{self, disjoint, kind, kinds, mentions, reference, takes_null},
    resolve::Document,
    rules::{References, Rules, Subset, Typing, Values},
    text,
};
use crate::export::report::{Loss, LossKind};

/// More branches than this are not compared with each other.
const COMPARED: usize = 60;
/// Merging goes no deeper than this in one place.
const FOLDED: usize = 32;

/// A schema in a dialect's words.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) schema: Map<String, Value>,
    pub(crate) losses: Vec<Loss>,
    /// What the tool's description must say because the schema no longer does.
    pub(crate) told: Vec<String>,
    /// Properties of the root under another name: what the tool calls them, what they are called.
    pub(crate) renamed: Vec<(String, String)>,
}

/// Why a schema cannot be said under these rules.
#[derive(Debug, Clone)]
pub(crate) struct Unfit {
    pub(crate) pointer: String,
    pub(crate) keyword: String,
    pub(crate) why: String,
    /// Whether leaving out what looks at its neighbours would help.
    deaf: bool,
    large: bool,
}

/// Whether a schema may become wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Wider,
    Exactly,
}

/// How much is replaced before it is cut.
#[derive(Debug, Clone, Copy)]
struct Reach {
    /// How often a definition may stand inside itself.
    circles: usize,
    /// How many definitions may stand inside each other.
    levels: usize,
}

/// Says a document in a dialect's words. A strict mode that would change what leaving out a
/// property means is only taken when it is insisted on.
pub(crate) fn lower(document: &Document, rules: &Rules, insist: bool) -> Result<Lowered, Unfit> {
    const REACHES: [Reach; 6] = [
        Reach { circles: 3, levels: 40 },
        Reach { circles: 2, levels: 12 },
        Reach { circles: 1, levels: 8 },
        Reach { circles: 1, levels: 4 },
        Reach { circles: 1, levels: 2 },
        Reach { circles: 1, levels: 1 },
    ];
    let mut reaches = REACHES.iter();
    let mut reach = REACHES[0];
    let mut deaf = false;
    let mut unfold = rules.references == References::Unfold;
    loop {
        let mut lowering = Lowering::new(document, rules, reach, insist, deaf, unfold);
        match lowering.document() {
            Ok(schema) => {
                return Ok(Lowered {
                    schema,
                    losses: lowering.losses,
                    told: lowering.told,
                    renamed: lowering.renamed,
                });
            }
            Err(unfit) if unfit.deaf && !deaf => deaf = true,
            Err(unfit) if unfit.large && unfold => unfold = false,
            Err(unfit) if unfit.large => match reaches.next() {
                Some(next) => reach = *next,
                None => return Err(unfit),
            },
            Err(unfit) => return Err(unfit),
        }
    }
}

pub(super) struct Lowering<'a> {
    pub(super) rules: &'a Rules,
    pub(super) document: &'a Document,
    pub(super) losses: Vec<Loss>,
    pub(super) told: Vec<String>,
    pub(super) renamed: Vec<(String, String)>,
    reach: Reach,
    insist: bool,
    deaf: bool,
    unfold: bool,
    /// Definitions that are always replaced by what they say.
    replaced: HashSet<String>,
    /// Definitions that stand open around the current place, from the outermost.
    open: Vec<String>,
    /// Definitions that are referred to in what is sent.
    wanted: Vec<String>,
    parts: usize,
}

type Said = Result<Value, Unfit>;

impl<'a> Lowering<'a> {
    fn new(
        document: &'a Document,
        rules: &'a Rules,
        reach: Reach,
        insist: bool,
        deaf: bool,
        unfold: bool,
    ) -> Self {
        let replaced = match rules.references {
            References::OptionalCircle => super::circles::hard(document),
            References::Unfold if unfold => super::circles::straight(document),
            _ => HashSet::new(),
        };
        Self {
            rules,
            document,
            losses: Vec::new(),
            told: Vec::new(),
            renamed: Vec::new(),
            reach,
            insist,
            deaf,
            unfold,
            replaced,
            open: Vec::new(),
            wanted: Vec::new(),
            parts: 0,
        }
    }

    fn document(&mut self) -> Result<Map<String, Value>, Unfit> {
        if self.rules.references == References::NoCircle
            && let Some(name) = super::circles::first(self.document)
        {
            return Err(self.unfit(&self.place(&name), "$ref", "it leads back to itself"));
        }
        let root = self.root()?;
        let said = self.say(&Value::Object(root), "", Aim::Wider)?;
        let Value::Object(mut schema) = said else {
            return Err(self.unfit("", "", "no arguments at all would be accepted"));
        };
        let mut definitions = Map::new();
        let mut at = 0;
        while let Some(name) = self.wanted.get(at).cloned() {
            at += 1;
            let Some(body) = self.document.definitions.get(&name) else { continue };
            let place = self.place(&name);
            self.open.clear();
            self.open.push(name.clone());
            let said = self.say(body, &place, Aim::Wider)?;
            let said = match (said, self.rules.subset()) {
                (Value::Bool(_), Some(subset)) if subset.typing == Typing::Needed => {
                    return Err(self.unfit(&place, "", "it accepts nothing"));
                }
                (Value::Bool(false), Some(_)) => {
                    self.lose(&place, "", "it accepts nothing, which cannot be said", Aim::Wider)?;
                    json!({})
                }
                (said, _) => said,
            };
            definitions.insert(name, said);
        }
        prune(&schema, &mut definitions);
        if !definitions.is_empty() {
            schema.insert("$defs".into(), Value::Object(definitions));
        }
        super::sizes::check(&schema, &self.rules.limits).map_err(|why| self.unfit("", "", why))?;
        let mut seen = HashSet::new();
        self.losses.retain(|loss| seen.insert(loss.clone()));
        Ok(schema)
    }

    /// Says one schema. `false` means that it accepts nothing.
    fn say(&mut self, node: &Value, place: &str, aim: Aim) -> Said {
        self.parts += 1;
        if self.parts > self.rules.limits.parts {
            let why = format!("it grows beyond {} parts", self.rules.limits.parts);
            return Err(Unfit { large: true, ..self.unfit(place, "$ref", why) });
        }
        match self.rules.subset() {
            None => self.plain(node, place, aim),
            Some(subset) => self.reduce(subset, node, place, aim),
        }
    }

    /// Says one schema in a dialect that understands all words.
    fn plain(&mut self, node: &Value, place: &str, aim: Aim) -> Said {
        let Some(map) = node.as_object() else { return Ok(node.clone()) };
        let depth = self.open.len();
        let folded = if self.unfold { self.fold(map, place)? } else { map.clone() };
        let said = self.plain_words(&folded, place, aim);
        self.open.truncate(depth);
        said
    }

    fn plain_words(&mut self, map: &Map<String, Value>, place: &str, aim: Aim) -> Said {
        let mut out = Map::new();
        for (key, value) in map {
            let below = format!("{place}/{key}");
            match key.as_str() {
                "$ref" => {
                    if let Some(name) = reference(map) {
                        self.want(name);
                    }
                    out.insert(key.clone(), value.clone());
                }
                "unevaluatedItems" | "unevaluatedProperties" if self.deaf => {
                    self.lose(place, key, "it depends on words that were left out", aim)?;
                }
                "oneOf" if !self.rules.one_of => {
                    let branches = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    if !self.all_disjoint(branches) {
                        self.lose(&below, "oneOf", "more than one of the forms may hold", aim)?;
                    }
                    let said = self.each(branches, &below, aim)?;
                    match out.contains_key("anyOf") || map.contains_key("anyOf") {
                        true => push(&mut out, "allOf", json!({"anyOf": said})),
                        false => out.insert("anyOf".into(), Value::Array(said)).map_or((), |_| ()),
                    }
                }
                // A list of further schemas may have been begun by what came before.
                "allOf" => {
                    let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    for said in self.each(parts, &below, aim)? {
                        push(&mut out, "allOf", said);
                    }
                }
                "then" | "else" if map.contains_key("if") && !out.contains_key("if") => {
                    // Its condition was given up, or stands further on; see below.
                    continue;
                }
                key if TURNED.contains(&key) => {
                    self.turned(&mut out, map, key, place, aim)?;
                }
                key if keywords::ONES.contains(&key) => {
                    let said = self.say(value, &below, aim)?;
                    out.insert(key.to_owned(), said);
                }
                key if keywords::LISTS.contains(&key) => {
                    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    out.insert(key.to_owned(), Value::Array(self.each(list, &below, aim)?));
                }
                key if keywords::MAPS.contains(&key) => {
                    let mut said = Map::new();
                    for (name, child) in value.as_object().into_iter().flatten() {
                        let below = format!("{below}/{}", keywords::escape(name));
                        said.insert(name.clone(), self.say(child, &below, aim)?);
                    }
                    out.insert(key.to_owned(), Value::Object(said));
                }
                key if keywords::restricts(key) || NOTES.contains(&key) => {
                    out.insert(key.to_owned(), value.clone());
                }
                key if self.rules.strangers || key == "minContains" || key == "maxContains" => {
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
            if mentions(self.document, &["unevaluatedItems"]) {
                self.lose(place, "unevaluatedItems", "every item counts as looked at", aim)?;
            }
            out.insert("items".into(), json!({}));
        }
        Ok(Value::Object(out))
    }

    /// Keeps a word that turns things round exactly, or gives it up.
    fn turned(
        &mut self,
        out: &mut Map<String, Value>,
        map: &Map<String, Value>,
        key: &str,
        place: &str,
        aim: Aim,
    ) -> Result<(), Unfit> {
        let before = self.losses.len();
        let below = format!("{place}/{key}");
        let said = match map.get(key) {
            Some(Value::Array(list)) => self.each(list, &below, Aim::Exactly).map(Value::Array),
            Some(one) => self.say(one, &below, Aim::Exactly),
            None => return Ok(()),
        };
        match said {
            Ok(said) => {
                out.insert(key.to_owned(), said);
                if key == "if" {
                    for next in ["then", "else"] {
                        if let Some(schema) = map.get(next) {
                            let said = self.say(schema, &format!("{place}/{next}"), aim)?;
                            out.insert(next.to_owned(), said);
                        }
                    }
                }
                Ok(())
            }
            Err(unfit) if unfit.large || unfit.deaf => Err(unfit),
            Err(_) => {
                self.losses.truncate(before);
                if !self.deaf
                    && mentions(self.document, &["unevaluatedItems", "unevaluatedProperties"])
                {
                    return Err(Unfit { deaf: true, ..self.unfit(place, key, "") });
                }
                self.lose(place, key, "what stands below it cannot be said exactly", aim)
            }
        }
    }

    fn each(&mut self, list: &[Value], place: &str, aim: Aim) -> Result<Vec<Value>, Unfit> {
        list.iter()
            .enumerate()
            .map(|(n, item)| self.say(item, &format!("{place}/{n}"), aim))
            .collect()
    }

    /// Replaces references and puts `allOf` together, as far as that is exact; keeps the rest
    /// under `allOf`.
    fn fold(&mut self, map: &Map<String, Value>, place: &str) -> Result<Map<String, Value>, Unfit> {
        let (mut folded, rest) = self.flatten(map, place, &mut 0)?;
        for (_, part) in rest {
            push(&mut folded, "allOf", part);
        }
        Ok(folded)
    }

    /// Replaces the references of one place, and puts `allOf` together. Returns what could not be
    /// put together with where it stands. The definitions that were replaced stay open.
    pub(super) fn flatten(
        &mut self,
        map: &Map<String, Value>,
        place: &str,
        folded: &mut usize,
    ) -> Result<(Map<String, Value>, Vec<(String, Value)>), Unfit> {
        let mut rest = Vec::new();
        let mut parts: Vec<(String, Value)> = Vec::new();
        let mut out = map.clone();
        *folded += 1;
        if let Some(name) = reference(map)
            && self.may_replace(name)
            && *folded < FOLDED
        {
            out.shift_remove("$ref");
            self.open.push(name.to_owned());
            if let Some(body) = self.document.definitions.get(name) {
                parts.push((self.place(name), body.clone()));
            }
        } else if reference(map).is_some() && !self.unfold {
            // The reference itself cannot be followed any further.
            out.shift_remove("$ref");
            rest.push((place.to_owned(), json!({"$ref": map["$ref"]})));
        }
        if let Some(Value::Array(all)) = out.shift_remove("allOf") {
            let below = |n| format!("{place}/allOf/{n}");
            parts.extend(all.into_iter().enumerate().map(|(n, part)| (below(n), part)));
        }
        for (place, part) in parts {
            match part {
                Value::Bool(true) => {}
                Value::Bool(false) => return Ok((nothing(), Vec::new())),
                Value::Object(part) => {
                    let (part, more) = self.flatten(&part, &place, folded)?;
                    rest.extend(more);
                    match merge(&out, &part) {
                        Some(merged) => out = merged,
                        None => rest.push((place, Value::Object(part))),
                    }
                }
                other => rest.push((place, other)),
            }
        }
        Ok((out, rest))
    }

    /// Whether a reference at this place may be replaced by what it means.
    fn may_replace(&self, name: &str) -> bool {
        let circles = self.open.iter().filter(|open| *open == name).count();
        let ends = circles < self.reach.circles && self.open.len() < self.reach.levels;
        match self.rules.references {
            References::Unfold => self.replaced.contains(name),
            _ => ends,
        }
    }

    fn want(&mut self, name: &str) {
        if !self.wanted.iter().any(|wanted| wanted == name) {
            self.wanted.push(name.to_owned());
        }
    }

    /// How many definitions stand open; `close_definitions` goes back to that.
    pub(super) fn open_definitions(&self) -> usize {
        self.open.len()
    }

    pub(super) fn close_definitions(&mut self, depth: usize) {
        self.open.truncate(depth);
    }

    pub(super) fn place(&self, name: &str) -> String {
        self.document.places.get(name).cloned().unwrap_or_default()
    }

    pub(super) fn unfit(&self, place: &str, keyword: &str, why: impl Into<String>) -> Unfit {
        Unfit {
            pointer: place.to_owned(),
            keyword: keyword.to_owned(),
            why: why.into(),
            deaf: false,
            large: false,
        }
    }

    /// Notes that something becomes wider, where it may.
    pub(super) fn lose(
        &mut self,
        place: &str,
        keyword: &str,
        note: impl Into<String>,
        aim: Aim,
    ) -> Result<(), Unfit> {
        match aim {
            Aim::Wider => {
                self.losses.push(Loss::new(LossKind::Widened, place, keyword, note));
                Ok(())
            }
            Aim::Exactly => Err(self.unfit(place, keyword, note)),
        }
    }

    fn narrow(&mut self, place: &str, keyword: &str, note: &str, aim: Aim) -> Result<(), Unfit> {
        if aim == Aim::Exactly {
            return Err(self.unfit(place, keyword, note));
        }
        self.losses.push(Loss::new(LossKind::Narrowed, place, keyword, note));
        Ok(())
    }

    pub(super) fn all_disjoint(&self, branches: &[Value]) -> bool {
        branches.len() <= COMPARED
            && branches.iter().enumerate().all(|(n, one)| {
                branches[n + 1..].iter().all(|other| disjoint(self.document, one, other))
            })
    }

    // ---- dialects that understand a part of the words -------------------------------------------

    /// Says one schema in a dialect that understands a part of the words.
    fn reduce(&mut self, subset: &'a Subset, node: &Value, place: &str, aim: Aim) -> Said {
        let map = match node {
            Value::Object(map) => map,
            Value::Bool(false) => return Ok(Value::Bool(false)),
            _ => return self.anything(subset, place, aim),
        };
        if let Some(name) = reference(map)
            && self.rules.references != References::Replace
            && !self.replaced.contains(name)
            && !map.keys().any(|key| key != "$ref" && keywords::restricts(key))
        {
            return Ok(self.lone_reference(subset, name, map));
        }
        let depth = self.open.len();
        let said = self.reduce_open(subset, map, place, aim);
        self.open.truncate(depth);
        said
    }

    /// A reference that stays; what is said about it stands around it.
    fn lone_reference(&mut self, subset: &Subset, name: &str, map: &Map<String, Value>) -> Value {
        self.want(name);
        let lone = json!({"$ref": map["$ref"]});
        let mut out = Map::new();
        let mut told = Vec::new();
        notes(subset, map, &mut out, &mut told);
        text::append(&mut out, &told);
        if out.is_empty() {
            return lone;
        }
        let mut around = Map::new();
        around.insert("anyOf".into(), json!([lone]));
        around.extend(out);
        Value::Object(around)
    }

    fn reduce_open(
        &mut self,
        subset: &'a Subset,
        map: &Map<String, Value>,
        place: &str,
        aim: Aim,
    ) -> Said {
        let (mut own, rest) = self.flatten(map, place, &mut 0)?;
        if own.get("not").is_some_and(|not| *not == json!({}) || *not == json!(true)) {
            return Ok(Value::Bool(false));
        }
        let mut told = Vec::new();
        let mut stays = None;
        let lost_parts = !rest.is_empty();
        for (at, part) in rest {
            if let Some(name) = part.as_object().and_then(reference) {
                if self.rules.references == References::Replace
                    || self.replaced.contains(name)
                    || stays.is_some()
                {
                    self.lose(&at, "$ref", "it leads back to itself and was cut here", aim)?;
                    let only_objects = kinds(self.document, &part) == query::OBJECT;
                    if only_objects && !own.contains_key("type") {
                        own.insert("type".into(), json!("object"));
                    }
                } else {
                    stays = Some(part);
                }
                continue;
            }
            self.lose(&at, "allOf", "it cannot be put together with the rest", aim)?;
            told.push(text::tell("allOf", &part));
        }
        if let Some(lone) = stays {
            // Beside a reference that stays, nothing else can stand.
            let other: Vec<&String> = own.keys().filter(|key| keywords::restricts(key)).collect();
            if let Some(first) = other.first() {
                let note = "it stands beside a reference that leads back to itself";
                self.lose(place, first, note, aim)?;
            }
            let mut around = own.clone();
            around.retain(|key, _| !keywords::restricts(key));
            around.insert("$ref".into(), lone["$ref"].clone());
            let name = reference(&around).map(str::to_owned).unwrap_or_default();
            return Ok(self.lone_reference(subset, &name, &around));
        }
        let has_union = own.contains_key("anyOf") || own.contains_key("oneOf");
        let looks_around = ["unevaluatedProperties", "unevaluatedItems"];
        for word in looks_around {
            let Some(value) = own.get(word).cloned() else { continue };
            let same = if word == "unevaluatedItems" { "items" } else { "additionalProperties" };
            let in_place = ["if", "dependentSchemas"];
            let simple = !lost_parts
                && !in_place.iter().any(|w| own.contains_key(*w))
                && !(word == "unevaluatedItems" && own.contains_key("contains"))
                && (!has_union || self.union_is_disjoint(&own));
            own.shift_remove(word);
            if own.contains_key(same) || value == json!(true) {
                // Everything has been looked at already, or everything goes.
            } else if simple && !has_union {
                own.insert(same.into(), value);
            } else if simple && subset.lone_unions {
                // Exactly one branch holds, so each can be closed by itself.
                own.insert(word.into(), value);
            } else if subset.closed && value == json!(false) && word == "unevaluatedProperties" {
                return Err(self.unfit(
                    place,
                    word,
                    "which keys are allowed depends on the values",
                ));
            } else {
                self.lose(place, word, "it cannot be said", aim)?;
                told.push(text::tell(word, &value));
            }
        }
        if has_union {
            self.union(subset, own, place, aim, told)
        } else {
            self.typed(subset, own, place, aim, told)
        }
    }

    fn union_is_disjoint(&self, own: &Map<String, Value>) -> bool {
        let list = |key: &str| own.get(key).and_then(Value::as_array);
        match (list("anyOf"), list("oneOf")) {
            (Some(_), Some(_)) => false,
            (Some(branches), None) | (None, Some(branches)) => self.all_disjoint(branches),
            (None, None) => true,
        }
    }

    /// Says `anyOf` and `oneOf`.
    fn union(
        &mut self,
        subset: &'a Subset,
        mut own: Map<String, Value>,
        place: &str,
        aim: Aim,
        mut told: Vec<String>,
    ) -> Said {
        if let Some(one) = own.shift_remove("oneOf") {
            let below = format!("{place}/oneOf");
            let branches = one.as_array().map(Vec::as_slice).unwrap_or_default();
            if own.contains_key("anyOf") {
                self.lose(&below, "oneOf", "it stands beside `anyOf`", aim)?;
                told.push(text::tell("oneOf", &one));
            } else {
                if !self.all_disjoint(branches) {
                    self.lose(&below, "oneOf", "more than one of the forms may hold", aim)?;
                }
                own.insert("anyOf".into(), one);
            }
        }
        let Some(Value::Array(branches)) = own.shift_remove("anyOf") else {
            return self.typed(subset, own, place, aim, told);
        };
        let mut beside = own.clone();
        beside.retain(|key, _| keywords::restricts(key));
        let mut around = Map::new();
        notes(subset, &own, &mut around, &mut told);
        if !beside.is_empty() && !subset.lone_unions {
            // The union may stand beside other words.
            let mut branches_said = Vec::new();
            for (n, branch) in branches.iter().enumerate() {
                match self.say(branch, &format!("{place}/anyOf/{n}"), aim)? {
                    Value::Bool(false) => {}
                    said => branches_said.push(said),
                }
            }
            let Value::Object(mut out) = self.typed(subset, own, place, aim, told)? else {
                return Ok(Value::Bool(false));
            };
            return Ok(match branches_said.is_empty() {
                true => Value::Bool(false),
                false => {
                    out.insert("anyOf".into(), Value::Array(branches_said));
                    Value::Object(out)
                }
            });
        }
        let mut said: Vec<Value> = Vec::new();
        let mut nullable = false;
        for (n, branch) in branches.iter().enumerate() {
            let below = format!("{place}/anyOf/{n}");
            let depth = self.open.len();
            let branch = match branch {
                Value::Object(map) if !beside.is_empty() => {
                    let (map, rest) = self.flatten(map, &below, &mut 0)?;
                    let mut merged = match rest.is_empty().then(|| merge_beside(&map, &beside)) {
                        Some(Some(merged)) => merged,
                        _ => {
                            let note = "it cannot be put together with a branch of the union";
                            self.lose(place, "anyOf", note, aim)?;
                            told.push(text::tell("allOf", &Value::Object(beside.clone())));
                            let mut alone = map;
                            alone.extend(rest.iter().find_map(|(_, part)| {
                                Some(("$ref".to_owned(), part.get("$ref")?.clone()))
                            }));
                            alone
                        }
                    };
                    merged.shift_remove("$defs");
                    Value::Object(merged)
                }
                Value::Bool(true) if !beside.is_empty() => Value::Object(beside.clone()),
                other => other.clone(),
            };
            let branch = self.say(&branch, &below, aim)?;
            self.open.truncate(depth);
            match branch {
                Value::Bool(false) => {}
                Value::Object(map)
                    if subset.typing == Typing::Single
                        && map.get("type") == Some(&json!("null")) =>
                {
                    nullable = true;
                }
                // A union in a union is one union.
                Value::Object(mut map)
                    if map.contains_key("anyOf")
                        && map.keys().all(|key| key == "anyOf" || key == "nullable") =>
                {
                    nullable |= map.contains_key("nullable");
                    if let Some(Value::Array(inner)) = map.shift_remove("anyOf") {
                        said.extend(inner);
                    }
                }
                other => said.push(other),
            }
        }
        let mut kept: Vec<Value> = Vec::new();
        for branch in said {
            if !kept.contains(&branch) {
                kept.push(branch);
            }
        }
        text::append(&mut around, &told);
        if nullable && kept.is_empty() {
            around.insert("type".into(), json!("null"));
            return Ok(Value::Object(around));
        }
        if kept.is_empty() {
            return Ok(Value::Bool(false));
        }
        let mut out = Map::new();
        let is_lone = kept.len() == 1
            && kept[0].as_object().is_some_and(|only| {
                !only.contains_key("$ref")
                    && !(only.contains_key("description") && around.contains_key("description"))
            });
        match is_lone.then(|| kept.remove(0)) {
            Some(Value::Object(only)) => out.extend(only),
            _ => {
                out.insert("anyOf".into(), Value::Array(kept));
            }
        }
        out.extend(around);
        if nullable {
            out.insert("nullable".into(), json!(true));
        }
        Ok(Value::Object(out))
    }

    /// Says a schema without references, `allOf` and unions.
    fn typed(
        &mut self,
        subset: &'a Subset,
        own: Map<String, Value>,
        place: &str,
        aim: Aim,
        told: Vec<String>,
    ) -> Said {
        let says_values = own.contains_key("enum") || own.contains_key("const");
        let restricts = own.iter().any(|(key, _)| key != "type" && keywords::restricts(key));
        match subset.typing {
            Typing::Single => return self.single(subset, own, place, aim, told),
            Typing::Needed if !own.contains_key("type") && !says_values => {
                let why = match restricts {
                    true => "it does not say its type",
                    false => "anything is accepted here",
                };
                return Err(self.unfit(place, "type", why));
            }
            _ => {}
        }
        self.fields(subset, &own, place, aim, told)
    }

    /// Says a schema as one type, or as a union of one type each.
    fn single(
        &mut self,
        subset: &'a Subset,
        own: Map<String, Value>,
        place: &str,
        aim: Aim,
        told: Vec<String>,
    ) -> Said {
        let mut wanted = match own.get("type") {
            Some(named) => types(named).into_iter().map(kind).fold(0, |a, b| a | b),
            None => query::ALL,
        };
        if let Some(values) = query::own_values(&own) {
            wanted &= values.iter().map(|v| kind(type_of(v))).fold(0, |a, b| a | b);
        }
        let free = !own.keys().any(|key| keywords::restricts(key));
        if free {
            let mut out = self.anything(subset, place, aim)?;
            if let Some(out) = out.as_object_mut() {
                let mut told = told;
                notes(subset, &own, out, &mut told);
                text::append(out, &told);
            }
            return Ok(out);
        }
        let names: Vec<&str> = [
            ("string", query::STRING),
            ("integer", query::INTEGER),
            ("number", query::NUMBER),
            ("boolean", query::BOOLEAN),
            ("array", query::ARRAY),
            ("object", query::OBJECT),
        ]
        .into_iter()
        .filter(|(name, bits)| match *name {
            "integer" => wanted & query::NUMBER == query::INTEGER,
            "number" => wanted & query::FRACTION != 0,
            _ => wanted & bits != 0,
        })
        .map(|(name, _)| name)
        .collect();
        let nullable = wanted & query::NULL != 0;
        let apart = names.len() > 1;
        let mut said = Vec::new();
        for name in &names {
            let mut one = own.clone();
            one.insert("type".into(), json!(name));
            if let Some(values) = query::own_values(&own) {
                let fits = |v: &&&Value| {
                    kind(type_of(v)) & kind(name) != 0 || (*name == "number" && v.is_number())
                };
                let values: Vec<&Value> = values.iter().filter(fits).copied().collect();
                one.shift_remove("const");
                one.insert("enum".into(), json!(values));
            }
            if apart {
                one.retain(|key, _| keywords::restricts(key));
            }
            let told = if apart { Vec::new() } else { told.clone() };
            said.push(self.fields(subset, &one, place, aim, told)?);
        }
        let mut out = Map::new();
        match said.len() {
            0 if nullable => {
                out.insert("type".into(), json!("null"));
                let mut told = told;
                notes(subset, &own, &mut out, &mut told);
                text::append(&mut out, &told);
                return Ok(Value::Object(out));
            }
            0 => return Ok(Value::Bool(false)),
            1 => match said.remove(0) {
                Value::Object(only) => out = only,
                other => return Ok(other),
            },
            _ => {
                out.insert("anyOf".into(), Value::Array(said));
                let mut told = told;
                notes(subset, &own, &mut out, &mut told);
                text::append(&mut out, &told);
            }
        }
        if nullable {
            out.insert("nullable".into(), json!(true));
        }
        Ok(Value::Object(out))
    }

    /// Says every word of a schema that has no unions any more.
    fn fields(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        place: &str,
        aim: Aim,
        mut told: Vec<String>,
    ) -> Said {
        let wanted = match own.get("type") {
            Some(named) => types(named).into_iter().map(kind).fold(0, |a, b| a | b),
            None => query::ALL,
        };
        let mut out = Map::new();
        let mut objects_done = false;
        let mut arrays_done = false;
        for (key, value) in own {
            let key = key.as_str();
            let spoken_of = [
                (&keywords::TEXT[..], query::STRING),
                (&keywords::NUMBER[..], query::NUMBER),
                (&keywords::ARRAY[..], query::ARRAY),
                (&keywords::OBJECT[..], query::OBJECT),
            ];
            // A word about another type says nothing here.
            if spoken_of.iter().any(|(words, bits)| words.contains(&key) && wanted & bits == 0) {
                continue;
            }
            match key {
                "type" => {
                    out.insert(key.into(), value.clone());
                }
                "enum" | "const" => self.values(subset, own, &mut out, &mut told, place, aim)?,
                "then" | "else" => {}
                "if" => {
                    let mut whole = own.clone();
                    whole.retain(|key, _| ["if", "then", "else"].contains(&key.as_str()));
                    self.lose(place, "if", "conditions cannot be said", aim)?;
                    told.push(text::tell("allOf", &Value::Object(whole)));
                }
                "format" => {
                    let name = value.as_str().unwrap_or_default();
                    let taken = subset.taken.contains(&"format")
                        && subset.formats.is_none_or(|list| list.contains(&name))
                        && wanted & query::NUMBER == 0;
                    let numeric = ["float", "double", "int32", "int64"].contains(&name)
                        && wanted & query::STRING == 0
                        && subset.formats.is_none();
                    if taken || numeric {
                        out.insert(key.into(), value.clone());
                    } else {
                        self.lose(place, key, format!("the format `{name}` is not taken"), aim)?;
                        told.push(text::tell(key, value));
                    }
                }
                "pattern" => {
                    let pattern = value.as_str().unwrap_or_default();
                    if subset.taken.contains(&key) && (subset.pattern)(pattern) {
                        out.insert(key.into(), value.clone());
                    } else {
                        self.lose(place, key, "this pattern is not taken", aim)?;
                        told.push(text::tell(key, value));
                    }
                }
                key if keywords::ARRAY.contains(&key) => {
                    if !std::mem::replace(&mut arrays_done, true) {
                        self.array(subset, own, &mut out, &mut told, place, aim)?;
                    }
                }
                key if keywords::OBJECT.contains(&key) => {
                    if !std::mem::replace(&mut objects_done, true)
                        && !self.object(subset, own, &mut out, &mut told, place, aim)?
                    {
                        return Ok(Value::Bool(false));
                    }
                }
                key if keywords::restricts(key) => {
                    if subset.taken.contains(&key) {
                        out.insert(key.into(), value.clone());
                    } else {
                        self.lose(place, key, "it cannot be said", aim)?;
                        told.push(text::tell(key, value));
                    }
                }
                _ => {}
            }
        }
        // An array or an object of which nothing was said still has a form.
        if !arrays_done && own.contains_key("type") && wanted & query::ARRAY != 0 {
            self.array(subset, own, &mut out, &mut told, place, aim)?;
        }
        if !objects_done && own.contains_key("type") && wanted & query::OBJECT != 0 {
            self.object(subset, own, &mut out, &mut told, place, aim)?;
        }
        notes(subset, own, &mut out, &mut told);
        text::append(&mut out, &told);
        Ok(Value::Object(out))
    }

    /// Says which values there are.
    fn values(
        &mut self,
        subset: &Subset,
        own: &Map<String, Value>,
        out: &mut Map<String, Value>,
        told: &mut Vec<String>,
        place: &str,
        aim: Aim,
    ) -> Result<(), Unfit> {
        let Some(values) = query::own_values(own) else { return Ok(()) };
        let word = if own.contains_key("const") { "const" } else { "enum" };
        // What the type excludes cannot be chosen anyway.
        let wanted = own
            .get("type")
            .map_or(query::ALL, |named| types(named).into_iter().map(kind).fold(0, |a, b| a | b));
        let values: Vec<&Value> =
            values.into_iter().filter(|v| kind(type_of(v)) & wanted != 0).collect();
        let complex = values.iter().any(|v| v.is_object() || v.is_array());
        let fits = match subset.values {
            Values::Scalars => !complex,
            Values::TextsAndNumbers => values.iter().all(|v| v.is_string() || v.is_number()),
            Values::Texts => values.iter().all(|v| v.as_str().is_some_and(|t| !t.is_empty())),
        } && !values.is_empty();
        if fits {
            match own.get("const") {
                Some(value) if subset.taken.contains(&"const") => {
                    out.insert("const".into(), value.clone());
                }
                _ => {
                    out.insert("enum".into(), json!(values));
                }
            }
            if subset.values == Values::TextsAndNumbers || subset.typing != Typing::Free {
                typed_by(&values, out);
            }
            return Ok(());
        }
        if subset.closed {
            return Err(self.unfit(
                place,
                word,
                "listed values must be texts, numbers or booleans",
            ));
        }
        typed_by(&values, out);
        let exact = match out.get("type").and_then(Value::as_str) {
            Some("null") => true,
            Some("boolean") => values.len() == 2,
            Some("integer") => bounds(&values, out),
            _ => false,
        };
        if !exact {
            self.lose(place, word, "these values cannot be listed", aim)?;
            told.push(text::tell(word, &own[word]));
        }
        Ok(())
    }

    /// Says what an array holds.
    fn array(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        out: &mut Map<String, Value>,
        told: &mut Vec<String>,
        place: &str,
        aim: Aim,
    ) -> Result<(), Unfit> {
        let first = own.get("prefixItems").and_then(Value::as_array);
        let first = first.map(Vec::as_slice).unwrap_or_default();
        let mut most = own.get("maxItems").and_then(Value::as_u64);
        let mut said = Vec::new();
        for (n, item) in first.iter().enumerate() {
            match self.say(item, &format!("{place}/prefixItems/{n}"), aim)? {
                Value::Bool(false) => {
                    let here = u64::try_from(n).unwrap_or(u64::MAX);
                    most = Some(most.map_or(here, |most| most.min(here)));
                    break;
                }
                item => said.push(item),
            }
        }
        let all_said = said.len() == first.len();
        let rest = match own.get("items") {
            _ if !all_said => Value::Bool(false),
            Some(items) => match items {
                Value::Bool(true) => Value::Null,
                items => self.say(items, &format!("{place}/items"), aim)?,
            },
            None => Value::Null,
        };
        if rest == json!(false) {
            let here = u64::try_from(said.len()).unwrap_or(u64::MAX);
            most = Some(most.map_or(here, |most| most.min(here)));
        }
        let tuples = subset.taken.contains(&"prefixItems");
        if tuples && !said.is_empty() {
            out.insert("prefixItems".into(), Value::Array(said));
            if rest.is_object() {
                out.insert("items".into(), rest);
            }
        } else {
            if !said.is_empty() {
                self.lose(place, "prefixItems", "items have no places of their own", aim)?;
                told.push(text::tell("prefixItems", &Value::Array(first.to_vec())));
            }
            let open = rest.is_null();
            if rest.is_object() && !said.contains(&rest) {
                said.push(rest);
            }
            let mut kinds_of_items: Vec<Value> = Vec::new();
            for item in said {
                if !kinds_of_items.contains(&item) {
                    kinds_of_items.push(item);
                }
            }
            let items = match (open, kinds_of_items.len()) {
                (true, _) if subset.typing == Typing::Free => None,
                (true, _) => Some(self.anything(subset, &format!("{place}/items"), aim)?),
                (false, 0) if subset.typing == Typing::Free => None,
                // No item can stand there; something must be said all the same.
                (false, 0) => Some(json!({"type": "string"})),
                (false, 1) => kinds_of_items.pop(),
                (false, _) => Some(json!({"anyOf": kinds_of_items})),
            };
            if let Some(items) = items {
                out.insert("items".into(), items);
            }
        }
        if let Some(most) = most {
            if subset.taken.contains(&"maxItems") {
                out.insert("maxItems".into(), json!(most));
            } else {
                self.lose(place, "maxItems", "it cannot be said", aim)?;
                told.push(text::tell("maxItems", &json!(most)));
            }
        }
        if let Some(least) = own.get("minItems") {
            let limit = subset.min_items.unwrap_or(u64::MAX);
            if least.as_u64().is_some_and(|n| n <= limit) {
                out.insert("minItems".into(), least.clone());
            } else {
                self.lose(place, "minItems", format!("at most {limit} can be said"), aim)?;
                told.push(text::tell("minItems", least));
                out.insert("minItems".into(), json!(limit));
            }
        }
        for word in ["uniqueItems", "contains", "unevaluatedItems"] {
            let Some(value) = own.get(word) else { continue };
            let nothing_said = (word == "uniqueItems" && *value == json!(false))
                || (word == "unevaluatedItems" && *value == json!(true))
                || (word == "contains"
                    && own.get("minContains") == Some(&json!(0))
                    && !own.contains_key("maxContains"));
            if !nothing_said {
                self.lose(place, word, "it cannot be said", aim)?;
                let mut whole = Map::new();
                whole.insert(word.into(), value.clone());
                for more in ["minContains", "maxContains"] {
                    if let Some(value) = own.get(more).filter(|_| word == "contains") {
                        whole.insert(more.into(), value.clone());
                    }
                }
                told.push(text::tell("allOf", &Value::Object(whole)));
            }
        }
        Ok(())
    }

    /// Says what an object holds. Returns whether there is such an object at all.
    fn object(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        out: &mut Map<String, Value>,
        told: &mut Vec<String>,
        place: &str,
        aim: Aim,
    ) -> Result<bool, Unfit> {
        let named = own.get("properties").and_then(Value::as_object);
        let is_required = |name: &str| {
            let list = own.get("required").and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(|n| n == name))
        };
        let patterns = own.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.filter(|p| !p.is_empty());
        let rest =
            own.get("additionalProperties").filter(|v| **v != json!(true) && **v != json!({}));
        let is_closed = rest == Some(&json!(false)) && patterns.is_none();
        if subset.closed && !is_closed {
            let says_open = own.contains_key("additionalProperties");
            if patterns.is_some() || says_open || named.is_none_or(Map::is_empty) {
                let why = "an object with keys of the model's choice cannot be said";
                return Err(self.unfit(place, "additionalProperties", why));
            }
            let note = "keys that the schema does not name can no longer be sent";
            self.narrow(place, "additionalProperties", note, aim)?;
        }
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, child) in named.into_iter().flatten() {
            let below = format!("{place}/properties/{}", keywords::escape(name));
            let said = self.say(child, &below, aim)?;
            if said == json!(false) {
                if is_required(name) {
                    return Ok(false);
                }
                if !is_closed && !subset.closed {
                    self.lose(&below, "", "that it must not be there cannot be said", aim)?;
                }
                continue;
            }
            let said = match subset.all_required && !is_required(name) {
                true => self.optional(child, said, &below, aim)?,
                false => said,
            };
            if subset.all_required || is_required(name) {
                required.push(json!(name));
            }
            properties.insert(name.clone(), said);
        }
        for name in own.get("required").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = name.as_str().filter(|name| !properties.contains_key(*name)) else {
                continue;
            };
            if is_closed {
                return Ok(false);
            }
            if subset.closed {
                return Err(self.unfit(place, "required", format!("`{name}` is not described")));
            }
            if subset.typing == Typing::Single {
                self.lose(place, "required", format!("`{name}` is not described"), aim)?;
                told.push(format!("`{name}` is required"));
            } else {
                required.push(json!(name));
            }
        }
        if !properties.is_empty() || subset.closed {
            out.insert("properties".into(), Value::Object(properties));
        }
        if !required.is_empty() || (subset.closed && subset.all_required) {
            out.insert("required".into(), Value::Array(required));
        }
        if subset.closed {
            out.insert("additionalProperties".into(), json!(false));
        } else if let Some(rest) = rest {
            let below = format!("{place}/additionalProperties");
            if subset.taken.contains(&"additionalProperties") && patterns.is_none() {
                let said = self.say(rest, &below, aim)?;
                out.insert("additionalProperties".into(), said);
            } else {
                self.lose(place, "additionalProperties", "it cannot be said", aim)?;
                if *rest != json!(false) || patterns.is_some() {
                    told.push(text::tell("additionalProperties", rest));
                }
            }
        }
        for word in [
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
        ] {
            let Some(value) = own.get(word) else { continue };
            let nothing_said = *value == json!(true) || *value == json!({});
            if nothing_said {
                continue;
            }
            if subset.taken.contains(&word) {
                out.insert(word.into(), value.clone());
            } else {
                self.lose(place, word, "it cannot be said", aim)?;
                told.push(text::tell(word, value));
            }
        }
        Ok(true)
    }

    /// Makes an optional property one that is always there and may be null. The null is taken out
    /// again on the way in.
    fn optional(&mut self, source: &Value, said: Value, place: &str, aim: Aim) -> Said {
        if takes_null(self.document, source) == Some(true) {
            let left_out_is_null = source.get("default") == Some(&Value::Null);
            if !left_out_is_null {
                let note = "leaving it out can no longer be told from null";
                if !self.insist {
                    return Err(self.unfit(place, "required", note));
                }
                self.narrow(place, "required", note, aim)?;
            }
            return Ok(said);
        }
        Ok(with_null(said))
    }

    /// Says that anything goes.
    fn anything(&mut self, subset: &Subset, place: &str, aim: Aim) -> Said {
        match subset.typing {
            Typing::Free => Ok(json!({})),
            Typing::Needed => Err(self.unfit(place, "type", "anything is accepted here")),
            Typing::Single => {
                self.narrow(place, "items", "lists in lists in lists cannot be said", aim)?;
                let mut any: Option<Value> = None;
                for _ in 0..3 {
                    let mut kinds: Vec<Value> = ["string", "number", "boolean", "object"]
                        .iter()
                        .map(|name| json!({"type": name}))
                        .collect();
                    kinds.extend(any.map(|items| json!({"type": "array", "items": items})));
                    any = Some(json!({"anyOf": kinds, "nullable": true}));
                }
                Ok(any.unwrap_or_default())
            }
        }
    }
}

/// Puts what stands beside a union into one of its branches.
fn merge_beside(
    branch: &Map<String, Value>,
    beside: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut beside = beside.clone();
    let mut looks_around = Map::new();
    for word in ["unevaluatedProperties", "unevaluatedItems"] {
        if let Some(value) = beside.shift_remove(word) {
            looks_around.insert(word.to_owned(), value);
        }
    }
    let mut merged = merge(branch, &beside)?;
    merged.extend(looks_around);
    Some(merged)
}

/// Carries what is said for readers.
fn notes(
    subset: &Subset,
    own: &Map<String, Value>,
    out: &mut Map<String, Value>,
    told: &mut Vec<String>,
) {
    for word in ["title", "description"] {
        if let Some(value) = own.get(word).filter(|_| subset.taken.contains(&word)) {
            out.insert(word.into(), value.clone());
        }
    }
    for word in ["default", "examples", "deprecated"] {
        let Some(value) = own.get(word) else { continue };
        if *value == json!(false) && word == "deprecated" {
            continue;
        }
        let fits = subset.typing != Typing::Single
            || out
                .get("type")
                .and_then(Value::as_str)
                .is_some_and(|t| kind(type_of(value)) & kind(t) != 0);
        if subset.taken.contains(&word) && fits {
            out.insert(word.into(), value.clone());
        } else if !(word == "default" && value.is_null()) {
            told.push(text::tell(word, value));
        }
    }
}

/// Says the type of listed values, when the schema has not.
fn typed_by(values: &[&Value], out: &mut Map<String, Value>) {
    if out.contains_key("type") {
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for value in values {
        let name = type_of(value);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names[..] {
        [] => {}
        [one] => {
            out.insert("type".into(), json!(one));
        }
        _ => {
            out.insert("type".into(), json!(names));
        }
    }
}

/// Bounds whole numbers; returns whether that says all there is to say.
fn bounds(values: &[&Value], out: &mut Map<String, Value>) -> bool {
    let numbers: Option<Vec<i64>> = values.iter().map(|v| v.as_i64()).collect();
    let Some(mut numbers) = numbers else { return false };
    numbers.sort_unstable();
    numbers.dedup();
    let (Some(low), Some(high)) = (numbers.first(), numbers.last()) else { return false };
    let at = |word: &str| out.get(word).and_then(Value::as_i64);
    let (low, high) = (
        at("minimum").map_or(*low, |m| m.max(*low)),
        at("maximum").map_or(*high, |m| m.min(*high)),
    );
    out.insert("minimum".into(), json!(low));
    out.insert("maximum".into(), json!(high));
    i64::try_from(numbers.len()).ok().zip(high.checked_sub(low)).is_some_and(|(n, d)| d == n - 1)
}

/// Lets a schema also accept null.
fn with_null(said: Value) -> Value {
    let Value::Object(mut map) = said else { return said };
    if let Some(Value::Array(branches)) = map.get_mut("anyOf") {
        branches.push(json!({"type": "null"}));
        return Value::Object(map);
    }
    let listed = map.contains_key("enum");
    match map.get("type") {
        Some(kinds) if !map.contains_key("const") && !map.contains_key("$ref") => {
            let mut names: Vec<Value> = types(kinds).into_iter().map(|name| json!(name)).collect();
            names.push(json!("null"));
            map.insert("type".into(), Value::Array(names));
            if let Some(Value::Array(values)) = map.get_mut("enum").filter(|_| listed)
                && !values.iter().any(|v| equal(v, &Value::Null))
            {
                values.push(Value::Null);
            }
            Value::Object(map)
        }
        _ => {
            let mut around = Map::new();
            let description = map.shift_remove("description");
            around.insert("anyOf".into(), json!([Value::Object(map), {"type": "null"}]));
            around.extend(description.map(|text| ("description".to_owned(), text)));
            Value::Object(around)
        }
    }
}

fn push(out: &mut Map<String, Value>, key: &str, value: Value) {
    match out.get_mut(key) {
        Some(Value::Array(list)) => list.push(value),
        _ => {
            out.insert(key.to_owned(), json!([value]));
        }
    }
}

/// Leaves only the definitions that something refers to.
fn prune(schema: &Map<String, Value>, definitions: &mut Map<String, Value>) {
    let mut reached: HashSet<String> = HashSet::new();
    let mut waiting = super::circles::references(&Value::Object(schema.clone()));
    while let Some(name) = waiting.pop() {
        if reached.insert(name.clone())
            && let Some(body) = definitions.get(&name)
        {
            waiting.extend(super::circles::references(body));
        }
    }
    definitions.retain(|name, _| reached.contains(name));
}
