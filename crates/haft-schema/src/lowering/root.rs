//! Makes the root of a schema one plain object, which every provider requires.
//!
//! Arguments are always an object. Where a union is not allowed at the root, its branches are
//! merged into one object: every property of any branch; required is only what all require.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    keywords,
    lower::{Lowering, Precision},
    merge::{both, merge, types},
    text,
    unsupported::UnsupportedSchema,
};
use crate::loss::{Loss, LossKind};

impl Lowering<'_> {
    /// Returns the root in the document's own keywords, without those that are banned there.
    pub(super) fn root(&mut self) -> Result<Map<String, Value>, UnsupportedSchema> {
        let mut own = match &self.document.root {
            Value::Object(map) => map.clone(),
            Value::Bool(true) => Map::new(),
            _ => return Err(self.unfit("", "", "it accepts no value")),
        };
        let all_words = self.rules.subset().is_none();
        let bans = |word: &str| self.rules.banned_at_root.contains(&word) || !all_words;
        let (bans_all, bans_unions) =
            (bans("allOf") || self.rules.inlines_plainly(), [bans("anyOf"), bans("oneOf")]);
        let mut lost = false;
        if own.contains_key("$ref") || (bans_all && own.contains_key("allOf")) {
            let alone =
                !own.keys().any(|key| key != "$ref" && keywords::restricts(key) && key != "type");
            self.root_place = super::query::reference(&own)
                .filter(|_| alone)
                .map(|name| self.path(name))
                .unwrap_or_default();
            let (flat, rest) = self.flatten(&own, "", &mut 0)?;
            own = flat;
            for (pointer, part) in rest {
                if !bans_all {
                    match own.get_mut("allOf") {
                        Some(Value::Array(all)) => all.push(part),
                        _ => {
                            own.insert("allOf".into(), json!([part]));
                        }
                    }
                    continue;
                }
                lost = true;
                self.lose(
                    &pointer,
                    "allOf",
                    "it cannot be merged with the other keywords",
                    Precision::MayWiden,
                )?;
                self.notes.push(text::describe("allOf", &part));
            }
        }
        if own.get("not").is_some_and(|not| *not == json!({}) || *not == json!(true)) {
            return Err(self.unfit("", "", "it accepts no arguments"));
        }
        if own.get("type").is_some_and(|named| !types(named).contains(&"object")) {
            return Err(self.unfit("", "type", "arguments are always an object"));
        }
        // First by convention.
        own.shift_remove("type");
        own.shift_insert(0, "type".into(), json!("object"));
        for (word, banned) in ["anyOf", "oneOf"].into_iter().zip(bans_unions) {
            if banned && own.contains_key(word) {
                lost |= self.one_object(&mut own, word, "")?;
            }
        }
        for word in ["not", "enum", "const"] {
            if self.rules.banned_at_root.contains(&word)
                && let Some(value) = own.shift_remove(word)
            {
                self.lose("", word, "it is not allowed at the root", Precision::MayWiden)?;
                self.notes.push(text::describe(word, &value));
            }
        }
        if let Some(rest) = own.get("unevaluatedProperties").cloned() {
            let in_place = ["anyOf", "oneOf", "allOf", "$ref", "if", "dependentSchemas"];
            let alone = !in_place.iter().any(|w| own.contains_key(*w));
            if lost {
                own.shift_remove("unevaluatedProperties");
                self.lose(
                    "",
                    "unevaluatedProperties",
                    "the branches are merged into one object",
                    Precision::MayWiden,
                )?;
            } else if alone {
                own.shift_remove("unevaluatedProperties");
                own.entry("additionalProperties").or_insert(rest);
            }
        }
        Ok(own)
    }

    /// Merges the branches of a root union into one object. Returns whether that lost something.
    fn one_object(
        &mut self,
        own: &mut Map<String, Value>,
        word: &str,
        pointer: &str,
    ) -> Result<bool, UnsupportedSchema> {
        let below = format!("{pointer}/{word}");
        let Some(Value::Array(branches)) = own.shift_remove(word) else { return Ok(false) };
        // If so, a key that no branch names is refused, whatever the branches declare.
        let sealed = own.get("unevaluatedProperties") == Some(&json!(false));
        let mut forms: Vec<Form> = Vec::new();
        for (n, branch) in branches.iter().enumerate() {
            let at = format!("{below}/{n}");
            let (mut map, whole) = match branch {
                Value::Bool(false) => continue,
                Value::Object(map) => {
                    let depth = self.open_definitions();
                    let (mut flat, rest) = self.flatten(map, &at, &mut 0)?;
                    // Checked first, because `one_object` below adds the type.
                    if !takes_objects(&flat) {
                        self.close_definitions(depth);
                        continue;
                    }
                    let mut whole = rest.is_empty();
                    let in_place = ["anyOf", "oneOf", "if", "dependentSchemas"];
                    if let Some(others) = flat.shift_remove("unevaluatedProperties") {
                        if whole && !in_place.iter().any(|w| flat.contains_key(*w)) {
                            flat.entry("additionalProperties").or_insert(others);
                        } else {
                            whole = false;
                        }
                    }
                    for inner in ["anyOf", "oneOf"] {
                        if flat.contains_key(inner) {
                            if sealed {
                                flat.insert("unevaluatedProperties".into(), json!(false));
                            }
                            whole &= !self.one_object(&mut flat, inner, &at)?;
                        }
                    }
                    self.close_definitions(depth);
                    (flat, whole)
                }
                _ => (Map::new(), true),
            };
            if takes_objects(&map) {
                map.shift_remove("unevaluatedProperties");
                forms.push(Form { map, whole });
            }
        }
        if forms.len() > MAX_FORMS {
            let note = format!("more than {MAX_FORMS} branches are not merged into one object");
            self.lose(&below, word, note, Precision::MayWiden)?;
            own.shift_remove("unevaluatedProperties");
            return Ok(true);
        }
        if forms.is_empty() {
            return Err(self.unfit(&below, word, "none of its branches can match"));
        }
        if let [only] = &forms[..]
            && only.whole
            && let Some(merged) = merge(own, &only.map)
        {
            if !takes_objects(&merged) {
                return Err(self.unfit(&below, word, "none of its branches can match"));
            }
            *own = merged;
            own.entry("type").or_insert_with(|| json!("object"));
            return Ok(false);
        }
        self.lose(&below, word, "its branches are merged into one object", Precision::MayWiden)?;
        self.notes.push(describe_forms(&forms));
        let closed = forms.iter().all(|form| form.is_closed(sealed));
        let named = own.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let only_named = own.get("additionalProperties") == Some(&json!(false))
            && !own.contains_key("patternProperties");
        let mut properties = named.clone();
        let mut names: Vec<&String> = Vec::new();
        for form in &forms {
            names.extend(
                form.properties()
                    .map(|(name, _)| name)
                    .filter(|n| !names.contains(n))
                    .collect::<Vec<_>>(),
            );
        }
        for name in names {
            let mut versions: Vec<Value> = Vec::new();
            let mut open = false;
            for form in &forms {
                match form.properties().find(|(n, _)| *n == name) {
                    Some((_, schema)) => {
                        if !versions.contains(schema) {
                            versions.push(schema.clone());
                        }
                    }
                    None => open |= !form.is_closed(sealed),
                }
            }
            let mut schema = one_version(versions);
            if open {
                // A branch that does not name the key accepts any value for it. The model still
                // sees the usual schema.
                schema = json!({"anyOf": [schema, {}]});
            }
            match named.get(name) {
                Some(ours) => {
                    properties.insert(name.clone(), both(ours, &schema));
                }
                None if only_named => {}
                None => {
                    properties.insert(name.clone(), schema);
                }
            }
        }
        let mut required =
            own.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for name in forms[0].required() {
            let everywhere = forms.iter().all(|form| form.required().any(|n| n == name));
            if everywhere && !required.contains(name) {
                required.push(name.clone());
            }
        }
        if !properties.is_empty() {
            own.insert("properties".into(), Value::Object(properties));
        }
        if !required.is_empty() {
            own.insert("required".into(), Value::Array(required));
        }
        if closed && !own.contains_key("additionalProperties") {
            own.insert("additionalProperties".into(), json!(false));
            own.shift_remove("unevaluatedProperties");
        }
        Ok(true)
    }

    /// Renames properties to names that the dialect accepts. A renamed property is no longer
    /// required and the object is open, so that the tool's own name is accepted too.
    pub(super) fn rename_keys(
        &mut self,
        own: &mut Map<String, Value>,
    ) -> Result<(), UnsupportedSchema> {
        let Some(Value::Object(properties)) = own.get("properties") else { return Ok(()) };
        if properties.keys().all(|name| (self.rules.key)(name)) {
            return Ok(());
        }
        if self.rules.subset().is_some_and(|subset| subset.closed) {
            let odd = properties.keys().find(|name| !(self.rules.key)(name));
            let odd = odd.map(String::as_str).unwrap_or_default();
            let why = format!("the key `{odd}` must be renamed, which requires an open object");
            return Err(self.unfit("", "properties", why));
        }
        let properties = properties.clone();
        let mut shown = Map::new();
        let mut notes = Vec::new();
        for (name, schema) in &properties {
            if (self.rules.key)(name) {
                shown.insert(name.clone(), schema.clone());
                continue;
            }
            let new =
                other_key(name, |key| properties.contains_key(key) || shown.contains_key(key));
            let pointer = format!("/properties/{}", keywords::escape(name));
            let note = format!("shown as `{new}`");
            self.losses.push(Loss::new(LossKind::Renamed, pointer, "properties", note));
            let was_required =
                own.get_mut("required").and_then(Value::as_array_mut).is_some_and(|list| {
                    let before = list.len();
                    list.retain(|n| n != name);
                    list.len() < before
                });
            if was_required {
                let note = format!("`{new}` replaces a key with another name");
                self.lose("", "required", note, Precision::MayWiden)?;
                notes.push(format!("`{new}` is required"));
            }
            shown.insert(new.clone(), schema.clone());
            self.renamed.push((name.clone(), new));
        }
        own.insert("properties".into(), Value::Object(shown));
        for word in [
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
            "if",
            "not",
            "allOf",
            "anyOf",
            "oneOf",
            "enum",
            "const",
        ] {
            if let Some(value) = own.shift_remove(word) {
                let says_nothing =
                    ["additionalProperties", "unevaluatedProperties", "propertyNames"];
                if value == json!(true) && says_nothing.contains(&word) {
                    continue;
                }
                self.lose("", word, "it names a key that is renamed here", Precision::MayWiden)?;
                if value != json!(false) {
                    notes.push(text::describe(word, &value));
                }
            }
        }
        own.shift_remove("then");
        own.shift_remove("else");
        self.notes.extend(notes);
        Ok(())
    }
}

/// More branches are not merged.
const MAX_FORMS: usize = 256;

/// Whether the schema's own keywords allow an object.
fn takes_objects(map: &Map<String, Value>) -> bool {
    map.get("type").is_none_or(|named| types(named).contains(&"object"))
        && map.get("not").is_none_or(|not| *not != json!({}) && *not != json!(true))
}

/// One branch of a root union, as an object.
struct Form {
    map: Map<String, Value>,
    /// Whether the map is complete.
    whole: bool,
}

impl Form {
    fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.map.get("properties").and_then(Value::as_object).into_iter().flatten()
    }

    fn required(&self) -> impl Iterator<Item = &Value> {
        self.map.get("required").and_then(Value::as_array).into_iter().flatten()
    }

    /// Whether it names every key that it accepts.
    fn is_closed(&self, sealed: bool) -> bool {
        let has = |word: &str| self.map.contains_key(word);
        if !self.whole || has("patternProperties") {
            return false;
        }
        match self.map.get("additionalProperties") {
            Some(rest) => *rest == json!(false),
            None => sealed && !["if", "dependentSchemas"].iter().any(|w| has(w)),
        }
    }
}

/// One schema for the versions of a property. Single values become one list.
fn one_version(mut versions: Vec<Value>) -> Value {
    if versions.len() == 1 {
        return versions.remove(0);
    }
    let mut values = Vec::new();
    let mut kind = None;
    let plain = versions.iter().all(|version| {
        let Some(map) = version.as_object() else { return false };
        let known = ["type", "const", "enum", "description", "title", "default"];
        let Some(own) = super::query::own_values(map) else { return false };
        values.extend(own.into_iter().cloned());
        let same = kind.is_none() || kind == map.get("type");
        kind = map.get("type");
        same && kind.is_some() && map.keys().all(|key| known.contains(&key.as_str()))
    });
    match (plain, kind) {
        (true, Some(kind)) => json!({"type": kind, "enum": values}),
        _ => json!({"anyOf": versions}),
    }
}

fn describe_forms(forms: &[Form]) -> String {
    let mut text = "give one of these sets of arguments:".to_owned();
    for (n, form) in forms.iter().take(12).enumerate() {
        let mut words = Vec::new();
        for name in form.required().filter_map(Value::as_str) {
            if !form.properties().any(|(known, _)| known == name) {
                words.push(name.to_owned());
            }
        }
        for (name, schema) in form.properties() {
            let fixed = schema.get("const").map(|value| format!(" = {value}")).unwrap_or_default();
            let needed = form.required().any(|r| r == name);
            words.push(format!("{name}{fixed}{}", if needed { "" } else { " (optional)" }));
        }
        let line = if words.is_empty() { "anything".to_owned() } else { words.join(", ") };
        text.push_str(&format!(" ({}) {line}", n + 1));
    }
    text
}

/// An unused name of letters, digits and `_`.
fn other_key(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.is_empty() || plain.starts_with(|c: char| c.is_ascii_digit()) {
        plain.insert(0, '_');
    }
    if plain.len() <= 64 && !taken(&plain) {
        return plain;
    }
    let digest = Sha256::digest(name.as_bytes());
    let suffix: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    plain.truncate(64 - 9);
    let mut key = format!("{plain}_{suffix}");
    while taken(&key) {
        key.pop();
        key.insert(0, '_');
    }
    key
}
