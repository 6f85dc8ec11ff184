//! Says a schema in a dialect that understands a part of the words: unions, types, and one word
//! after the other.

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Map, Value, json};

use super::{
    keywords,
    lower::{Aim, Lowering, Said},
    merge::{merge, type_of, types},
    query::{self, kind, kinds, reference},
    rules::{References, Subset, Typing},
    text,
};

impl<'a> Lowering<'a> {
    /// Says one schema in a dialect that understands a part of the words.
    pub(super) fn reduce(
        &mut self,
        subset: &'a Subset,
        node: &Value,
        place: &str,
        aim: Aim,
    ) -> Said {
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
            return Ok(self.lone_reference(subset, name, map, place));
        }
        let depth = self.open.len();
        let said = self.reduce_open(subset, map, place, aim);
        self.open.truncate(depth);
        said
    }

    /// A reference that stays; what is said about it stands around it.
    fn lone_reference(
        &mut self,
        subset: &Subset,
        name: &str,
        map: &Map<String, Value>,
        place: &str,
    ) -> Value {
        self.want(name);
        let lone = json!({"$ref": map["$ref"]});
        let mut out = Map::new();
        let mut told = Vec::new();
        self.notes(subset, map, &mut out, &mut told, place);
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
        // What stands for a reference alone is told with the place of what it means.
        let alone = !map.keys().any(|key| key != "$ref" && keywords::restricts(key));
        let meant = reference(map).filter(|_| alone).map(|name| self.place(name));
        let place = meant.as_deref().unwrap_or(place);
        // What needs no flattening is borrowed; a copy on every level is what an export would cost most.
        let (mut own, rest) = match map.contains_key("$ref") || map.contains_key("allOf") {
            true => {
                let (own, rest) = self.flatten(map, place, &mut 0)?;
                (Cow::Owned(own), rest)
            }
            false => (Cow::Borrowed(map), Vec::new()),
        };
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
                        own.to_mut().insert("type".into(), json!("object"));
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
            let mut around = own.into_owned();
            around.retain(|key, _| !keywords::restricts(key));
            around.insert("$ref".into(), lone["$ref"].clone());
            let name = reference(&around).map(str::to_owned).unwrap_or_default();
            return Ok(self.lone_reference(subset, &name, &around, place));
        }
        let has_union = own.contains_key("anyOf") || own.contains_key("oneOf");
        let looks_around = ["unevaluatedProperties", "unevaluatedItems"];
        for word in looks_around {
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
                // Everything has been looked at already, or everything goes.
            } else if simple && !has_union {
                own.to_mut().insert(same.into(), value);
            } else if simple && subset.lone_unions {
                // Exactly one branch holds, so each can be closed by itself.
                own.to_mut().insert(word.into(), value);
            } else if subset.closed && value == json!(false) && word == "unevaluatedProperties" {
                return Err(self.unfit(
                    place,
                    word,
                    "which keys are allowed depends on the values",
                ));
            } else {
                self.lose(
                    place,
                    word,
                    "there is no word for it here; told in the description",
                    aim,
                )?;
                told.push(text::tell(word, &value));
            }
        }
        if has_union {
            self.union(subset, own.into_owned(), place, aim, told)
        } else {
            self.typed(subset, &own, place, aim, told)
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
    pub(super) fn union(
        &mut self,
        subset: &'a Subset,
        mut own: Map<String, Value>,
        place: &str,
        aim: Aim,
        mut told: Vec<String>,
    ) -> Said {
        let word = if own.contains_key("anyOf") { "anyOf" } else { "oneOf" };
        if let Some(one) = own.shift_remove("oneOf") {
            let below = format!("{place}/oneOf");
            let branches = one.as_array().map(Vec::as_slice).unwrap_or_default();
            if own.contains_key("anyOf") {
                self.lose(&below, "oneOf", "it stands beside `anyOf`", aim)?;
                told.push(text::tell("oneOf", &one));
            } else {
                self.exclusive(branches, &below, aim)?;
                own.insert("anyOf".into(), one);
            }
        }
        let Some(Value::Array(branches)) = own.shift_remove("anyOf") else {
            return self.typed(subset, &own, place, aim, told);
        };
        let restricts = own.iter().filter(|(key, _)| keywords::restricts(key));
        let beside: Map<String, Value> =
            restricts.map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut around = Map::new();
        self.notes(subset, &own, &mut around, &mut told, place);
        if !beside.is_empty() && !subset.lone_unions {
            // The union may stand beside other words.
            let mut branches_said = Vec::new();
            for (n, branch) in branches.iter().enumerate() {
                match self.say(branch, &format!("{place}/{word}/{n}"), aim)? {
                    Value::Bool(false) => {}
                    said => branches_said.push(said),
                }
            }
            let Value::Object(mut out) = self.typed(subset, &own, place, aim, told)? else {
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
            let below = format!("{place}/{word}/{n}");
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
        let mut seen = HashSet::new();
        let mut kept: Vec<Value> =
            said.into_iter().filter(|branch| seen.insert(branch.to_string())).collect();
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

    /// Says a schema without references, `allOf` and unions.
    pub(super) fn typed(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
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
        self.fields(subset, own, place, aim, told)
    }

    /// Says a schema as one type, or as a union of one type each.
    pub(super) fn single(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        place: &str,
        aim: Aim,
        told: Vec<String>,
    ) -> Said {
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
            let mut out = self.anything(subset, place, aim)?;
            if let Some(out) = out.as_object_mut() {
                let mut told = told;
                self.notes(subset, own, out, &mut told, place);
                text::append(out, &told);
            }
            return Ok(out);
        }
        let names = query::names(wanted & !query::NULL);
        let nullable = wanted & query::NULL != 0;
        let apart = names.len() > 1;
        let mut said = Vec::new();
        for name in &names {
            let is_said = own.get("type").is_some_and(|named| named == name);
            if is_said && !apart && own_values.is_none() {
                said.push(self.fields(subset, own, place, aim, told.clone())?);
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
            let told = if apart { Vec::new() } else { told.clone() };
            said.push(self.fields(subset, &one, place, aim, told)?);
        }
        // A type of which no value fits is not shown.
        said.retain(|one| *one != json!(false));
        let mut out = Map::new();
        match said.len() {
            0 if nullable => {
                out.insert("type".into(), json!("null"));
                let mut told = told;
                self.notes(subset, own, &mut out, &mut told, place);
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
                self.notes(subset, own, &mut out, &mut told, place);
                text::append(&mut out, &told);
            }
        }
        if nullable {
            out.insert("nullable".into(), json!(true));
        }
        Ok(Value::Object(out))
    }

    /// Says every word of a schema that has no unions any more.
    pub(super) fn fields(
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
        // First, because the other words are said as the type allows.
        out.extend(own.get("type").map(|named| ("type".to_owned(), named.clone())));
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
                "type" => {}
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
                        && subset.formats.is_none_or(|list| list.contains(&name));
                    if wanted & query::STRING == 0 {
                        // The formats of numbers are for programs; nobody checks them.
                        if subset.number_formats.contains(&name) {
                            out.insert(key.into(), value.clone());
                        }
                    } else if taken {
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
                    let first = !std::mem::replace(&mut arrays_done, true);
                    if first {
                        self.array(subset, own, &mut out, &mut told, place, aim)?;
                    }
                }
                key if keywords::OBJECT.contains(&key) => {
                    let first = !std::mem::replace(&mut objects_done, true);
                    if first && !self.object(subset, own, &mut out, &mut told, place, aim)? {
                        // No object fits; other values still may.
                        let others = query::names(wanted & !query::OBJECT);
                        if others.is_empty() {
                            return Ok(Value::Bool(false));
                        }
                        out.insert("type".into(), json!(others));
                    }
                }
                key if keywords::NUMBER.contains(&key) && is_beyond_reason(value) => {
                    self.lose(place, key, "the bound is larger than grammars can count", aim)?;
                    told.push(text::tell(key, value));
                }
                key if keywords::restricts(key) => {
                    if subset.taken.contains(&key) {
                        out.insert(key.into(), value.clone());
                    } else {
                        self.lose(
                            place,
                            key,
                            "there is no word for it here; told in the description",
                            aim,
                        )?;
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
        self.notes(subset, own, &mut out, &mut told, place);
        text::append(&mut out, &told);
        Ok(Value::Object(out))
    }
}

/// Bounds of 64 bits come from generators; grammars for numbers do not reach that far.
fn is_beyond_reason(bound: &Value) -> bool {
    bound.as_f64().is_some_and(|bound| bound.abs() > 9_007_199_254_740_991.0)
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
