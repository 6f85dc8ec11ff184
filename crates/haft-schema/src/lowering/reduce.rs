//! Lowers a schema for a dialect that supports a subset of the keywords: unions, types, then
//! keyword by keyword.

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Map, Value, json};

use super::{
    keywords,
    lower::{LowerResult, Lowering, Precision},
    merge::{merge, type_of, types},
    query::{self, kind, kinds, reference},
    rules::{References, Subset, Typing},
    text,
};

impl<'a> Lowering<'a> {
    /// Lowers one schema for a dialect that supports a subset of the keywords.
    pub(super) fn reduce(
        &mut self,
        subset: &'a Subset,
        node: &Value,
        path: &str,
        precision: Precision,
    ) -> LowerResult {
        let map = match node {
            Value::Object(map) => map,
            Value::Bool(false) => return Ok(Value::Bool(false)),
            _ => return self.anything(subset, path, precision),
        };
        if let Some(name) = reference(map)
            && self.rules.references != References::Inline
            && !self.replaced.contains(name)
            && !map.keys().any(|key| key != "$ref" && keywords::restricts(key))
        {
            return Ok(self.lone_reference(subset, name, map, path));
        }
        let depth = self.open.len();
        let lowered = self.reduce_open(subset, map, path, precision);
        self.open.truncate(depth);
        lowered
    }

    /// A reference that is kept. Its annotations go into a union around it.
    fn lone_reference(
        &mut self,
        subset: &Subset,
        name: &str,
        map: &Map<String, Value>,
        path: &str,
    ) -> Value {
        self.refer(name);
        let lone = json!({"$ref": map["$ref"]});
        let mut out = Map::new();
        let mut notes = Vec::new();
        self.annotations(subset, map, &mut out, &mut notes, path);
        text::append(&mut out, &notes);
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
        path: &str,
        precision: Precision,
    ) -> LowerResult {
        // A lone reference is reported with the place of its target.
        let alone = !map.keys().any(|key| key != "$ref" && keywords::restricts(key));
        let target = reference(map).filter(|_| alone).map(|name| self.path(name));
        let path = target.as_deref().unwrap_or(path);
        // Borrowed where there is nothing to flatten. Copying at every level would dominate the
        // cost of an export.
        let (mut own, rest) = if map.contains_key("$ref") || map.contains_key("allOf") {
            let (own, rest) = self.flatten(map, path, &mut 0)?;
            (Cow::Owned(own), rest)
        } else {
            (Cow::Borrowed(map), Vec::new())
        };
        if own.get("not").is_some_and(|not| *not == json!({}) || *not == json!(true)) {
            return Ok(Value::Bool(false));
        }
        let mut notes = Vec::new();
        let mut stays = None;
        let lost_parts = !rest.is_empty();
        for (at, part) in rest {
            if let Some(name) = part.as_object().and_then(reference) {
                if self.rules.references == References::Inline
                    || self.replaced.contains(name)
                    || stays.is_some()
                {
                    self.lose(
                        &at,
                        "$ref",
                        "the reference is recursive and was truncated here",
                        precision,
                    )?;
                    let only_objects = kinds(self.document, &part) == query::OBJECT;
                    if only_objects && !own.contains_key("type") {
                        own.to_mut().insert("type".into(), json!("object"));
                    }
                } else {
                    stays = Some(part);
                }
                continue;
            }
            self.lose(&at, "allOf", "it cannot be merged with the other keywords", precision)?;
            notes.push(text::describe("allOf", &part));
        }
        if let Some(lone) = stays {
            // A reference that is kept allows no sibling keywords.
            let other: Vec<&String> = own.keys().filter(|key| keywords::restricts(key)).collect();
            if let Some(first) = other.first() {
                let note = "it is a sibling of a recursive reference";
                self.lose(path, first, note, precision)?;
            }
            let mut around = own.into_owned();
            around.retain(|key, _| !keywords::restricts(key));
            around.insert("$ref".into(), lone["$ref"].clone());
            let name = reference(&around).map(str::to_owned).unwrap_or_default();
            return Ok(self.lone_reference(subset, &name, &around, path));
        }
        let has_union = own.contains_key("anyOf") || own.contains_key("oneOf");
        let unevaluated = ["unevaluatedProperties", "unevaluatedItems"];
        for word in unevaluated {
            if !own.contains_key(word) {
                continue;
            }
            let same = if word == "unevaluatedItems" { "items" } else { "additionalProperties" };
            let in_place = ["if", "dependentSchemas"];
            let tangled = lost_parts
                || in_place.iter().any(|w| own.contains_key(*w))
                || (word == "unevaluatedItems" && own.contains_key("contains"))
                || (has_union && !self.union_is_disjoint(&own));
            let simple = !tangled;
            let Some(value) = own.to_mut().shift_remove(word) else { continue };
            if own.contains_key(same) || value == json!(true) {
                // Everything is evaluated already, or everything is allowed.
            } else if simple && !has_union {
                own.to_mut().insert(same.into(), value);
            } else if simple && subset.lone_unions {
                // Exactly one branch matches, so each can be closed separately.
                own.to_mut().insert(word.into(), value);
            } else if subset.closed && value == json!(false) && word == "unevaluatedProperties" {
                return Err(self.unfit(path, word, "which keys are allowed depends on the values"));
            } else {
                self.lose(
                    path,
                    word,
                    "this keyword is not supported; moved to the description",
                    precision,
                )?;
                notes.push(text::describe(word, &value));
            }
        }
        if has_union {
            self.union(subset, own.into_owned(), path, precision, notes)
        } else {
            self.typed(subset, &own, path, precision, notes)
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

    /// Lowers `anyOf` and `oneOf`.
    pub(super) fn union(
        &mut self,
        subset: &'a Subset,
        mut own: Map<String, Value>,
        path: &str,
        precision: Precision,
        mut notes: Vec<String>,
    ) -> LowerResult {
        let word = if own.contains_key("anyOf") { "anyOf" } else { "oneOf" };
        if let Some(one) = own.shift_remove("oneOf") {
            let below = format!("{path}/oneOf");
            let branches = one.as_array().map(Vec::as_slice).unwrap_or_default();
            if own.contains_key("anyOf") {
                self.lose(&below, "oneOf", "it is a sibling of `anyOf`", precision)?;
                notes.push(text::describe("oneOf", &one));
            } else {
                self.one_of_to_any_of(branches, &below, precision)?;
                own.insert("anyOf".into(), one);
            }
        }
        let Some(Value::Array(branches)) = own.shift_remove("anyOf") else {
            return self.typed(subset, &own, path, precision, notes);
        };
        let restricts = own.iter().filter(|(key, _)| keywords::restricts(key));
        let siblings: Map<String, Value> =
            restricts.map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut around = Map::new();
        self.annotations(subset, &own, &mut around, &mut notes, path);
        if !siblings.is_empty() && !subset.lone_unions {
            // The union may have sibling keywords.
            let mut lowered_branches = Vec::new();
            for (n, branch) in branches.iter().enumerate() {
                match self.lower_node(branch, &format!("{path}/{word}/{n}"), precision)? {
                    Value::Bool(false) => {}
                    lowered => lowered_branches.push(lowered),
                }
            }
            let Value::Object(mut out) = self.typed(subset, &own, path, precision, notes)? else {
                return Ok(Value::Bool(false));
            };
            return Ok(if lowered_branches.is_empty() {
                Value::Bool(false)
            } else {
                out.insert("anyOf".into(), Value::Array(lowered_branches));
                Value::Object(out)
            });
        }
        let mut lowered: Vec<Value> = Vec::new();
        let mut nullable = false;
        for (n, branch) in branches.iter().enumerate() {
            let below = format!("{path}/{word}/{n}");
            let depth = self.open.len();
            let branch = match branch {
                Value::Object(map) if !siblings.is_empty() => {
                    let (map, rest) = self.flatten(map, &below, &mut 0)?;
                    let mut merged = match rest.is_empty().then(|| merge_siblings(&map, &siblings))
                    {
                        Some(Some(merged)) => merged,
                        _ => {
                            let note = "it cannot be merged into a branch of the union";
                            self.lose(path, "anyOf", note, precision)?;
                            notes.push(text::describe("allOf", &Value::Object(siblings.clone())));
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
                Value::Bool(true) if !siblings.is_empty() => Value::Object(siblings.clone()),
                other => other.clone(),
            };
            let branch = self.lower_node(&branch, &below, precision)?;
            self.open.truncate(depth);
            match branch {
                Value::Bool(false) => {}
                Value::Object(map)
                    if subset.typing == Typing::Single
                        && map.get("type") == Some(&json!("null")) =>
                {
                    nullable = true;
                }
                // A nested union is flattened.
                Value::Object(mut map)
                    if map.contains_key("anyOf")
                        && map.keys().all(|key| key == "anyOf" || key == "nullable") =>
                {
                    nullable |= map.contains_key("nullable");
                    if let Some(Value::Array(inner)) = map.shift_remove("anyOf") {
                        lowered.extend(inner);
                    }
                }
                other => lowered.push(other),
            }
        }
        let mut seen = HashSet::new();
        let mut kept: Vec<Value> =
            lowered.into_iter().filter(|branch| seen.insert(branch.to_string())).collect();
        text::append(&mut around, &notes);
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
                let describes_twice =
                    only.contains_key("description") && around.contains_key("description");
                !(only.contains_key("$ref") || describes_twice)
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

    /// Lowers a schema without references, `allOf` and unions.
    pub(super) fn typed(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        path: &str,
        precision: Precision,
        notes: Vec<String>,
    ) -> LowerResult {
        let lists_values = own.contains_key("enum") || own.contains_key("const");
        let restricts = own.iter().any(|(key, _)| key != "type" && keywords::restricts(key));
        match subset.typing {
            Typing::Single => return self.single(subset, own, path, precision, notes),
            Typing::Needed if !own.contains_key("type") && !lists_values => {
                let why =
                    if restricts { "it declares no type" } else { "anything is accepted here" };
                return Err(self.unfit(path, "type", why));
            }
            _ => {}
        }
        self.fields(subset, own, path, precision, notes)
    }

    /// Lowers a schema to one type, or to a union with one type per branch.
    pub(super) fn single(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        path: &str,
        precision: Precision,
        notes: Vec<String>,
    ) -> LowerResult {
        let mut wanted = match own.get("type") {
            Some(named) => types(named).into_iter().map(kind).fold(0, |a, b| a | b),
            None => query::ALL,
        };
        let own_values = query::own_values(own);
        if let Some(values) = &own_values {
            wanted &= values.iter().map(|v| kind(type_of(v))).fold(0, |a, b| a | b);
        }
        let free = !own.keys().any(|key| keywords::restricts(key));
        if free {
            let mut out = self.anything(subset, path, precision)?;
            if let Some(out) = out.as_object_mut() {
                let mut notes = notes;
                self.annotations(subset, own, out, &mut notes, path);
                text::append(out, &notes);
            }
            return Ok(out);
        }
        let names = query::names(wanted & !query::NULL);
        let nullable = wanted & query::NULL != 0;
        let apart = names.len() > 1;
        let mut lowered = Vec::new();
        for name in &names {
            let is_declared = own.get("type").is_some_and(|named| named == name);
            if is_declared && !apart && own_values.is_none() {
                lowered.push(self.fields(subset, own, path, precision, notes.clone())?);
                continue;
            }
            let mut one = own.clone();
            one.insert("type".into(), json!(name));
            if let Some(values) = &own_values {
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
            let notes = if apart { Vec::new() } else { notes.clone() };
            lowered.push(self.fields(subset, &one, path, precision, notes)?);
        }
        // A type that no value matches is left out.
        lowered.retain(|one| *one != json!(false));
        let mut out = Map::new();
        match lowered.len() {
            0 if nullable => {
                out.insert("type".into(), json!("null"));
                let mut notes = notes;
                self.annotations(subset, own, &mut out, &mut notes, path);
                text::append(&mut out, &notes);
                return Ok(Value::Object(out));
            }
            0 => return Ok(Value::Bool(false)),
            1 => match lowered.remove(0) {
                Value::Object(only) => out = only,
                other => return Ok(other),
            },
            _ => {
                out.insert("anyOf".into(), Value::Array(lowered));
                let mut notes = notes;
                self.annotations(subset, own, &mut out, &mut notes, path);
                text::append(&mut out, &notes);
            }
        }
        if nullable {
            out.insert("nullable".into(), json!(true));
        }
        Ok(Value::Object(out))
    }

    /// Lowers every keyword of a schema that has no unions any more.
    pub(super) fn fields(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        path: &str,
        precision: Precision,
        mut notes: Vec<String>,
    ) -> LowerResult {
        let wanted = match own.get("type") {
            Some(named) => types(named).into_iter().map(kind).fold(0, |a, b| a | b),
            None => query::ALL,
        };
        let mut out = Map::new();
        // First, because the other keywords depend on the type.
        out.extend(own.get("type").map(|named| ("type".to_owned(), named.clone())));
        let mut objects_done = false;
        let mut arrays_done = false;
        for (key, value) in own {
            let key = key.as_str();
            let by_type = [
                (&keywords::TEXT[..], query::STRING),
                (&keywords::NUMBER[..], query::NUMBER),
                (&keywords::ARRAY[..], query::ARRAY),
                (&keywords::OBJECT[..], query::OBJECT),
            ];
            // A keyword for another type has no effect here.
            if by_type.iter().any(|(words, bits)| words.contains(&key) && wanted & bits == 0) {
                continue;
            }
            match key {
                "type" => {}
                "enum" | "const" => {
                    self.values(subset, own, &mut out, &mut notes, path, precision)?
                }
                "then" | "else" => {}
                "if" => {
                    let mut whole = own.clone();
                    whole.retain(|key, _| ["if", "then", "else"].contains(&key.as_str()));
                    self.lose(path, "if", "conditions are not supported", precision)?;
                    notes.push(text::describe("allOf", &Value::Object(whole)));
                }
                "format" => {
                    let name = value.as_str().unwrap_or_default();
                    let taken = subset.keywords.contains(&"format")
                        && subset.formats.is_none_or(|list| list.contains(&name));
                    if wanted & query::STRING == 0 {
                        // Formats of numbers are hints for programs; validators ignore them.
                        if subset.number_formats.contains(&name) {
                            out.insert(key.into(), value.clone());
                        }
                    } else if taken {
                        out.insert(key.into(), value.clone());
                    } else {
                        self.lose(
                            path,
                            key,
                            format!("the format `{name}` is not supported"),
                            precision,
                        )?;
                        notes.push(text::describe(key, value));
                    }
                }
                "pattern" => {
                    let pattern = value.as_str().unwrap_or_default();
                    if subset.keywords.contains(&key) && (subset.pattern)(pattern) {
                        out.insert(key.into(), value.clone());
                    } else {
                        self.lose(path, key, "this pattern is not supported", precision)?;
                        notes.push(text::describe(key, value));
                    }
                }
                key if keywords::ARRAY.contains(&key) => {
                    let first = !std::mem::replace(&mut arrays_done, true);
                    if first {
                        self.array(subset, own, &mut out, &mut notes, path, precision)?;
                    }
                }
                key if keywords::OBJECT.contains(&key) => {
                    let first = !std::mem::replace(&mut objects_done, true);
                    if first && !self.object(subset, own, &mut out, &mut notes, path, precision)? {
                        // No object matches; other values still may.
                        let others = query::names(wanted & !query::OBJECT);
                        if others.is_empty() {
                            return Ok(Value::Bool(false));
                        }
                        out.insert("type".into(), json!(others));
                    }
                }
                key if keywords::NUMBER.contains(&key) && exceeds_safe_integer(value) => {
                    self.lose(
                        path,
                        key,
                        "the bound is larger than a grammar can express",
                        precision,
                    )?;
                    notes.push(text::describe(key, value));
                }
                key if keywords::restricts(key) => {
                    if subset.keywords.contains(&key) {
                        out.insert(key.into(), value.clone());
                    } else {
                        self.lose(
                            path,
                            key,
                            "this keyword is not supported; moved to the description",
                            precision,
                        )?;
                        notes.push(text::describe(key, value));
                    }
                }
                _ => {}
            }
        }
        // An array or object without keywords of its own still needs its required form.
        if !arrays_done && own.contains_key("type") && wanted & query::ARRAY != 0 {
            self.array(subset, own, &mut out, &mut notes, path, precision)?;
        }
        if !objects_done && own.contains_key("type") && wanted & query::OBJECT != 0 {
            self.object(subset, own, &mut out, &mut notes, path, precision)?;
        }
        self.annotations(subset, own, &mut out, &mut notes, path);
        text::append(&mut out, &notes);
        Ok(Value::Object(out))
    }
}

/// Generators emit 64-bit bounds. Grammars for numbers do not support them.
fn exceeds_safe_integer(bound: &Value) -> bool {
    bound.as_f64().is_some_and(|bound| bound.abs() > 9_007_199_254_740_991.0)
}

/// Merges the sibling keywords of a union into one of its branches.
fn merge_siblings(
    branch: &Map<String, Value>,
    siblings: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut siblings = siblings.clone();
    let mut unevaluated = Map::new();
    for word in ["unevaluatedProperties", "unevaluatedItems"] {
        if let Some(value) = siblings.shift_remove(word) {
            unevaluated.insert(word.to_owned(), value);
        }
    }
    let mut merged = merge(branch, &siblings)?;
    merged.extend(unevaluated);
    Some(merged)
}
