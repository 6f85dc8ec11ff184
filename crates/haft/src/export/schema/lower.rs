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
    inline::{BOOLEANS, anything_as_object, as_object},
    keywords::{self, NOTES, TURNED},
    merge::{merge, nothing, types},
    query::{disjoint, mentions, reference},
    resolve::Document,
    rules::{References, Rules, Typing},
};
use crate::export::report::{Loss, LossKind};

/// More branches than this are not compared with each other.
const COMPARED: usize = 60;
/// More is not put together for one tool; an honest one needs a thousandth.
const MOST_WORK: usize = 400_000;
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
    /// The definition that was needed exactly and cannot be.
    inexact: Option<String>,
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
    let mut inexact = HashSet::new();
    loop {
        let mut lowering = Lowering::new(document, rules, reach, insist, deaf, unfold);
        lowering.inexact = inexact.clone();
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
            // Each definition is given up once, so this ends.
            Err(Unfit { inexact: Some(name), .. }) if !inexact.contains(&name) => {
                inexact.insert(name);
            }
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
    pub(super) insist: bool,
    deaf: bool,
    unfold: bool,
    /// Definitions that are always replaced by what they say.
    pub(super) replaced: HashSet<String>,
    /// Definitions that stand open around the current place, from the outermost.
    pub(super) open: Vec<String>,
    /// Definitions that are referred to in what is sent.
    wanted: Vec<String>,
    /// Those of them that are needed exactly.
    exactly: HashSet<String>,
    /// Those that cannot be said exactly.
    inexact: HashSet<String>,
    parts: usize,
    /// How much was put together so far.
    work: usize,
    /// Where the root's words stand, when it only refers to them.
    pub(super) root_place: String,
    /// Whether the document looks at which items were looked at; asked at every list.
    watches_items: bool,
}

/// What could not be put together, with where it stands.
pub(super) type Rest = Vec<(String, Value)>;

pub(super) type Said = Result<Value, Unfit>;

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
            exactly: HashSet::new(),
            inexact: HashSet::new(),
            parts: 0,
            work: 0,
            root_place: String::new(),
            watches_items: rules.items && mentions(document, &["unevaluatedItems"]),
        }
    }

    fn document(&mut self) -> Result<Map<String, Value>, Unfit> {
        if self.rules.references == References::NoCircle
            && let Some(name) = super::circles::first(self.document)
        {
            return Err(self.unfit(&self.place(&name), "$ref", "it leads back to itself"));
        }
        let root = self.root()?;
        let place = std::mem::take(&mut self.root_place);
        let said = self.say(&Value::Object(root), &place, Aim::Wider)?;
        let Value::Object(mut schema) = said else {
            return Err(self.unfit("", "", "no arguments at all would be accepted"));
        };
        let mut definitions = Map::new();
        let mut said_so_far: HashSet<(String, bool)> = HashSet::new();
        loop {
            let next = self.wanted.iter().find(|name| {
                !said_so_far.contains(&((*name).clone(), self.exactly.contains(*name)))
            });
            let Some(name) = next.cloned() else { break };
            let exactly = self.exactly.contains(&name);
            said_so_far.insert((name.clone(), exactly));
            let said = self.definition(&name, exactly)?;
            definitions.insert(name, said);
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

    /// Says one definition.
    fn definition(&mut self, name: &str, exactly: bool) -> Said {
        let Some(body) = self.document.definitions.get(name) else { return Ok(json!({})) };
        let place = self.place(name);
        self.open.clear();
        self.open.push(name.to_owned());
        let aim = if exactly { Aim::Exactly } else { Aim::Wider };
        let said = match self.say(body, &place, aim) {
            Err(unfit) if exactly && !unfit.large && !unfit.deaf => {
                return Err(Unfit { inexact: Some(name.to_owned()), ..unfit });
            }
            said => said?,
        };
        match (said, self.rules.subset()) {
            (Value::Bool(_), Some(subset)) if subset.typing == Typing::Needed => {
                Err(self.unfit(&place, "", "it accepts nothing"))
            }
            (Value::Bool(false), Some(_)) => {
                self.lose(&place, "", "it accepts nothing, which cannot be said", aim)?;
                Ok(json!({}))
            }
            (said, _) => Ok(as_object(said)),
        }
    }

    /// Says one schema. `false` means that it accepts nothing.
    pub(super) fn say(&mut self, node: &Value, place: &str, aim: Aim) -> Said {
        self.parts += 1;
        // What is passed on as it is does not grow.
        let grows = self.unfold || self.rules.subset().is_some() || self.rules.inlines_plainly();
        if grows && self.parts > self.rules.limits.parts {
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
        if self.rules.inlines_plainly() && (map.contains_key("$ref") || map.contains_key("allOf")) {
            return self.inlined(map, place, aim);
        }
        // What needs no folding is not copied; it would be, again on every level.
        if !self.unfold || !(map.contains_key("$ref") || map.contains_key("allOf")) {
            return self.plain_words(map, place, aim);
        }
        let depth = self.open.len();
        let folded = self.fold(map, place)?;
        let said = self.plain_words(&folded, place, aim);
        self.open.truncate(depth);
        said
    }

    pub(super) fn plain_words(&mut self, map: &Map<String, Value>, place: &str, aim: Aim) -> Said {
        let mut out = Map::new();
        for (key, value) in map {
            let below = || format!("{place}/{key}");
            match key.as_str() {
                "$ref" => {
                    if let Some(name) = reference(map) {
                        self.want(name);
                        if aim == Aim::Exactly {
                            self.want_exactly(name, place)?;
                        }
                    }
                    out.insert(key.clone(), value.clone());
                }
                "unevaluatedItems" | "unevaluatedProperties" if self.deaf => {
                    self.lose(place, key, "it depends on words that were left out", aim)?;
                }
                "oneOf" if !self.rules.one_of => {
                    let branches = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    self.exclusive(branches, &below(), aim)?;
                    let said = self.each(branches, &below(), aim)?;
                    match out.contains_key("anyOf") || map.contains_key("anyOf") {
                        true if self.rules.inlines_plainly() => {
                            self.stop_looking_around(place, "oneOf")?;
                            self.lose(&below(), "oneOf", "it stands beside `anyOf`", aim)?;
                        }
                        true => push(&mut out, "allOf", json!({"anyOf": said})),
                        false => out.insert("anyOf".into(), Value::Array(said)).map_or((), |_| ()),
                    }
                }
                // A list of further schemas may have been begun by what came before.
                "allOf" => {
                    let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    for said in self.each(parts, &below(), aim)? {
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
                    let said = self.say(value, &below(), aim)?;
                    let said =
                        if BOOLEANS.contains(&key) { said } else { anything_as_object(said) };
                    out.insert(key.to_owned(), said);
                }
                key if keywords::LISTS.contains(&key) => {
                    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    out.insert(key.to_owned(), Value::Array(self.each(list, &below(), aim)?));
                }
                key if keywords::MAPS.contains(&key) => {
                    let mut said = Map::new();
                    for (name, child) in value.as_object().into_iter().flatten() {
                        let below = format!("{place}/{key}/{}", keywords::escape(name));
                        said.insert(name.clone(), as_object(self.say(child, &below, aim)?));
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
            if self.watches_items {
                self.lose(place, "unevaluatedItems", "every item counts as looked at", aim)?;
            }
            out.insert("items".into(), json!({}));
        }
        let is_object = out.get("type").is_some_and(|t| types(t).contains(&"object"));
        if self.rules.properties && is_object && !out.contains_key("properties") {
            out.insert("properties".into(), json!({}));
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
            Some(one) => self.say(one, &below, Aim::Exactly).map(anything_as_object),
            None => return Ok(()),
        };
        match said {
            Ok(said) => {
                out.insert(key.to_owned(), said);
                if key == "if" {
                    for next in ["then", "else"] {
                        if let Some(schema) = map.get(next) {
                            let said = self.say(schema, &format!("{place}/{next}"), aim)?;
                            out.insert(next.to_owned(), as_object(said));
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
            .map(|(n, item)| Ok(as_object(self.say(item, &format!("{place}/{n}"), aim)?)))
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
    ) -> Result<(Map<String, Value>, Rest), Unfit> {
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
                    // Each merge copies what was merged before.
                    self.work += 1 + size(&out) + size(&part);
                    if self.work > MOST_WORK {
                        let unfit = self.unfit(&place, "allOf", "it has too many parts");
                        let large = self.unfold || self.rules.references == References::Replace;
                        return Err(Unfit { large, ..unfit });
                    }
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

    /// Asks for another try without the words that look at their neighbours, before one of these is
    /// left out: what it described would count as unknown, and be refused.
    pub(super) fn stop_looking_around(&self, place: &str, keyword: &str) -> Result<(), Unfit> {
        let looks = ["unevaluatedItems", "unevaluatedProperties"];
        if !self.deaf && mentions(self.document, &looks) {
            return Err(Unfit { deaf: true, ..self.unfit(place, keyword, "") });
        }
        Ok(())
    }

    pub(super) fn want(&mut self, name: &str) {
        if !self.wanted.iter().any(|wanted| wanted == name) {
            self.wanted.push(name.to_owned());
        }
    }

    /// Asks for a definition at a place where a wider one would be wrong.
    fn want_exactly(&mut self, name: &str, place: &str) -> Result<(), Unfit> {
        if self.inexact.contains(name) {
            return Err(self.unfit(place, "$ref", "its definition cannot be said exactly"));
        }
        if self.exactly.insert(name.to_owned()) {
            // It may have been said already, less exactly.
            self.wanted.retain(|wanted| wanted != name);
            self.wanted.push(name.to_owned());
        }
        Ok(())
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
            inexact: None,
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

    pub(super) fn narrow(
        &mut self,
        place: &str,
        keyword: &str,
        note: &str,
        aim: Aim,
    ) -> Result<(), Unfit> {
        if aim == Aim::Exactly {
            return Err(self.unfit(place, keyword, note));
        }
        self.losses.push(Loss::new(LossKind::Narrowed, place, keyword, note));
        Ok(())
    }

    /// Notes that something is said elsewhere or otherwise, and means the same.
    pub(super) fn same(&mut self, place: &str, keyword: &str, note: &str) {
        self.losses.push(Loss::new(LossKind::Exact, place, keyword, note));
    }

    /// Says what becomes of the "exactly one" of `oneOf` when it turns into `anyOf`.
    pub(super) fn exclusive(
        &mut self,
        branches: &[Value],
        place: &str,
        aim: Aim,
    ) -> Result<(), Unfit> {
        if self.all_disjoint(branches) {
            self.same(place, "oneOf", "its forms exclude each other, so `anyOf` says the same");
            return Ok(());
        }
        self.lose(place, "oneOf", "more than one of the forms may hold", aim)
    }

    pub(super) fn all_disjoint(&self, branches: &[Value]) -> bool {
        branches.len() <= COMPARED
            && branches.iter().enumerate().all(|(n, one)| {
                branches[n + 1..].iter().all(|other| disjoint(self.document, one, other))
            })
    }
}

/// How much a schema holds at its own level.
fn size(map: &Map<String, Value>) -> usize {
    map.values()
        .map(|value| match value {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 1,
        })
        .sum()
}

fn push(out: &mut Map<String, Value>, key: &str, value: Value) {
    match out.get_mut(key) {
        Some(Value::Array(list)) => list.push(value),
        _ => {
            out.insert(key.to_owned(), Value::Array(vec![value]));
        }
    }
}

/// Leaves only the definitions that something refers to.
fn prune(schema: &Map<String, Value>, definitions: &mut Map<String, Value>) {
    let mut reached: HashSet<String> = HashSet::new();
    if definitions.is_empty() {
        return;
    }
    let mut waiting = Vec::new();
    super::circles::refers(schema, &mut waiting);
    while let Some(name) = waiting.pop() {
        if reached.insert(name.clone())
            && let Some(body) = definitions.get(&name)
        {
            waiting.extend(super::circles::references(body));
        }
    }
    definitions.retain(|name, _| reached.contains(name));
}
