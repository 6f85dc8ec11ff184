//! Lowers values, arrays, objects and annotations for a dialect that supports a subset of the
//! keywords.

use serde_json::{Map, Value, json};

use super::{
    keywords,
    lower::{LowerResult, Lowering, Precision},
    merge::{equal, type_of, types},
    query::{self, kind, takes_null},
    rules::{Subset, Typing, Values},
    text,
    unsupported::UnsupportedSchema,
};

impl<'a> Lowering<'a> {
    /// Lowers `enum` and `const`.
    pub(super) fn values(
        &mut self,
        subset: &Subset,
        own: &Map<String, Value>,
        out: &mut Map<String, Value>,
        notes: &mut Vec<String>,
        pointer: &str,
        precision: Precision,
    ) -> Result<(), UnsupportedSchema> {
        let Some(values) = query::own_values(own) else { return Ok(()) };
        let word = if own.contains_key("const") { "const" } else { "enum" };
        // Values that the type excludes are never valid.
        let wanted = own
            .get("type")
            .map_or(query::ALL, |named| types(named).into_iter().map(kind).fold(0, |a, b| a | b));
        let values: Vec<&Value> =
            values.into_iter().filter(|v| kind(type_of(v)) & wanted != 0).collect();
        let complex = values.iter().any(|v| v.is_object() || v.is_array());
        let fits = match subset.values {
            Values::Scalars => !complex,
            Values::StringsAndNumbers => values.iter().all(|v| v.is_string() || v.is_number()),
            Values::Strings => values.iter().all(|v| v.as_str().is_some_and(|t| !t.is_empty())),
        } && !values.is_empty();
        if fits {
            match own.get("const") {
                Some(value) if subset.keywords.contains(&"const") => {
                    out.insert("const".into(), value.clone());
                }
                _ => {
                    out.insert("enum".into(), json!(values));
                }
            }
            if subset.values == Values::StringsAndNumbers || subset.typing != Typing::Free {
                typed_by(&values, out);
            }
            return Ok(());
        }
        if subset.closed {
            return Err(self.unfit(
                pointer,
                word,
                "listed values must be strings, numbers or booleans",
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
            self.lose(pointer, word, "these values cannot be listed", precision)?;
            notes.push(text::describe(word, &own[word]));
        }
        Ok(())
    }

    /// Lowers the keywords of arrays.
    pub(super) fn array(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        out: &mut Map<String, Value>,
        notes: &mut Vec<String>,
        pointer: &str,
        precision: Precision,
    ) -> Result<(), UnsupportedSchema> {
        let first = own.get("prefixItems").and_then(Value::as_array);
        let first = first.map(Vec::as_slice).unwrap_or_default();
        let mut most = own.get("maxItems").and_then(Value::as_u64);
        let mut lowered = Vec::new();
        for (n, item) in first.iter().enumerate() {
            match self.lower_node(item, &format!("{pointer}/prefixItems/{n}"), precision)? {
                Value::Bool(false) => {
                    let here = u64::try_from(n).unwrap_or(u64::MAX);
                    most = Some(most.map_or(here, |most| most.min(here)));
                    break;
                }
                item => lowered.push(item),
            }
        }
        let all_lowered = lowered.len() == first.len();
        let rest = match own.get("items") {
            _ if !all_lowered => Value::Bool(false),
            Some(items) => match items {
                Value::Bool(true) => Value::Null,
                items => self.lower_node(items, &format!("{pointer}/items"), precision)?,
            },
            None => Value::Null,
        };
        if rest == json!(false) {
            let here = u64::try_from(lowered.len()).unwrap_or(u64::MAX);
            most = Some(most.map_or(here, |most| most.min(here)));
        }
        let tuples = subset.keywords.contains(&"prefixItems");
        if tuples && !lowered.is_empty() {
            out.insert("prefixItems".into(), Value::Array(lowered));
            if rest.is_object() {
                out.insert("items".into(), rest);
            }
        } else {
            if !lowered.is_empty() {
                self.lose(
                    pointer,
                    "prefixItems",
                    "items at fixed positions are not supported",
                    precision,
                )?;
                notes.push(text::describe("prefixItems", &Value::Array(first.to_vec())));
            }
            let open = rest.is_null();
            if rest.is_object() && !lowered.contains(&rest) {
                lowered.push(rest);
            }
            let mut kinds_of_items: Vec<Value> = Vec::new();
            for item in lowered {
                if !kinds_of_items.contains(&item) {
                    kinds_of_items.push(item);
                }
            }
            let items = match (open, kinds_of_items.len()) {
                (true, _) if subset.typing == Typing::Free => None,
                (true, _) => Some(self.anything(subset, pointer, precision)?),
                (false, 0) if subset.typing == Typing::Free => None,
                // No item is valid, but the dialect requires `items`.
                (false, 0) => Some(json!({"type": "string"})),
                (false, 1) => kinds_of_items.pop(),
                (false, _) => Some(json!({"anyOf": kinds_of_items})),
            };
            if let Some(items) = items {
                out.insert("items".into(), items);
            }
        }
        if let Some(most) = most {
            if subset.keywords.contains(&"maxItems") {
                out.insert("maxItems".into(), json!(most));
            } else {
                self.lose(
                    pointer,
                    "maxItems",
                    "this keyword is not supported; moved to the description",
                    precision,
                )?;
                notes.push(text::describe("maxItems", &json!(most)));
            }
        }
        if let Some(least) = own.get("minItems") {
            let limit = subset.min_items.unwrap_or(u64::MAX);
            if least.as_u64().is_some_and(|n| n <= limit) {
                out.insert("minItems".into(), least.clone());
            } else {
                self.lose(pointer, "minItems", format!("at most {limit} is supported"), precision)?;
                notes.push(text::describe("minItems", least));
                out.insert("minItems".into(), json!(limit));
            }
        }
        for word in ["uniqueItems", "contains", "unevaluatedItems"] {
            let Some(value) = own.get(word) else { continue };
            let is_trivial = (word == "uniqueItems" && *value == json!(false))
                || (word == "unevaluatedItems" && *value == json!(true))
                || (word == "contains"
                    && own.get("minContains") == Some(&json!(0))
                    && !own.contains_key("maxContains"));
            if !is_trivial {
                self.lose(
                    pointer,
                    word,
                    "this keyword is not supported; moved to the description",
                    precision,
                )?;
                let mut whole = Map::new();
                whole.insert(word.into(), value.clone());
                for more in ["minContains", "maxContains"] {
                    if let Some(value) = own.get(more).filter(|_| word == "contains") {
                        whole.insert(more.into(), value.clone());
                    }
                }
                notes.push(text::describe("allOf", &Value::Object(whole)));
            }
        }
        Ok(())
    }

    /// Lowers the keywords of objects. Returns whether any object is valid at all.
    pub(super) fn object(
        &mut self,
        subset: &'a Subset,
        own: &Map<String, Value>,
        out: &mut Map<String, Value>,
        notes: &mut Vec<String>,
        pointer: &str,
        precision: Precision,
    ) -> Result<bool, UnsupportedSchema> {
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
            let explicitly_open = own.contains_key("additionalProperties");
            if patterns.is_some() || explicitly_open || named.is_none_or(Map::is_empty) {
                let why = "objects with arbitrary keys are not supported";
                return Err(self.unfit(pointer, "additionalProperties", why));
            }
            let note = "keys that the schema does not name can no longer be sent";
            self.narrow(pointer, "additionalProperties", note, precision)?;
        }
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, child) in named.into_iter().flatten() {
            let below = format!("{pointer}/properties/{}", keywords::escape(name));
            let lowered = self.lower_node(child, &below, precision)?;
            if lowered == json!(false) {
                if is_required(name) {
                    return Ok(false);
                }
                if !is_closed && !subset.closed {
                    self.lose(&below, "", "a forbidden property cannot be expressed", precision)?;
                }
                continue;
            }
            let lowered = if subset.all_required && !is_required(name) {
                self.optional(child, lowered, &below, precision)?
            } else {
                lowered
            };
            if subset.all_required || is_required(name) {
                required.push(json!(name));
            }
            properties.insert(name.clone(), lowered);
        }
        for name in own.get("required").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = name.as_str().filter(|name| !properties.contains_key(*name)) else {
                continue;
            };
            if is_closed {
                return Ok(false);
            }
            if subset.closed {
                return Err(self.unfit(pointer, "required", format!("`{name}` is not described")));
            }
            if subset.typing == Typing::Single {
                self.lose(pointer, "required", format!("`{name}` is not described"), precision)?;
                notes.push(format!("`{name}` is required"));
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
            let below = format!("{pointer}/additionalProperties");
            if subset.keywords.contains(&"additionalProperties") && patterns.is_none() {
                let lowered = self.lower_node(rest, &below, precision)?;
                out.insert("additionalProperties".into(), lowered);
            } else {
                let note = if *rest == json!(false) {
                    "forbidding other keys is not supported"
                } else {
                    "a schema for other keys is not supported"
                };
                self.lose(pointer, "additionalProperties", note, precision)?;
                if *rest != json!(false) || patterns.is_some() {
                    notes.push(text::describe("additionalProperties", rest));
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
            let is_trivial = *value == json!(true) || *value == json!({});
            if is_trivial {
                continue;
            }
            if subset.keywords.contains(&word) {
                out.insert(word.into(), value.clone());
            } else {
                self.lose(
                    pointer,
                    word,
                    "this keyword is not supported; moved to the description",
                    precision,
                )?;
                notes.push(text::describe(word, value));
            }
        }
        Ok(true)
    }

    /// Makes an optional property required and nullable. `nulls` removes the null from calls.
    pub(super) fn optional(
        &mut self,
        source: &Value,
        lowered: Value,
        pointer: &str,
        precision: Precision,
    ) -> LowerResult {
        if takes_null(self.document, source) == Some(true) {
            let left_out_is_null = source.get("default") == Some(&Value::Null);
            if !left_out_is_null {
                let note = "a missing value can no longer be distinguished from null";
                if !self.insist {
                    return Err(self.unfit(pointer, "required", note));
                }
                self.narrow(pointer, "required", note, precision)?;
            }
            return Ok(lowered);
        }
        Ok(with_null(lowered))
    }

    /// A schema that accepts any value.
    pub(super) fn anything(
        &mut self,
        subset: &Subset,
        pointer: &str,
        precision: Precision,
    ) -> LowerResult {
        match subset.typing {
            Typing::Free => Ok(json!({})),
            Typing::Needed => Err(self.unfit(pointer, "type", "anything is accepted here")),
            Typing::Single => {
                self.narrow(
                    pointer,
                    "items",
                    "any value is shown as a union of types; lists nested four levels deep cannot be expressed",
                    precision,
                )?;
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
    /// Copies annotations.
    pub(super) fn annotations(
        &mut self,
        subset: &Subset,
        own: &Map<String, Value>,
        out: &mut Map<String, Value>,
        notes: &mut Vec<String>,
        pointer: &str,
    ) {
        for word in ["title", "description"] {
            if let Some(value) = own.get(word).filter(|_| subset.keywords.contains(&word)) {
                out.insert(word.into(), value.clone());
            }
        }
        for word in ["default", "examples", "deprecated"] {
            let Some(value) = own.get(word) else { continue };
            if *value == json!(false) && word == "deprecated" {
                continue;
            }
            let named = out.get("type").and_then(Value::as_str);
            let fits = subset.typing != Typing::Single
                || named.is_some_and(|name| kind(type_of(value)) & kind(name) != 0);
            if subset.keywords.contains(&word) && fits {
                out.insert(word.into(), value.clone());
            } else if !(word == "default" && value.is_null()) {
                self.exact(pointer, word, "moved to the description");
                notes.push(text::describe(word, value));
            }
        }
    }
}

/// Adds the type of listed values, unless the schema declares one.
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
    if names.contains(&"number") {
        names.retain(|name| *name != "integer");
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

/// Adds bounds for integers. Returns whether these are equivalent to the list.
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
fn with_null(lowered: Value) -> Value {
    let Value::Object(mut map) = lowered else { return lowered };
    if let Some(Value::Array(branches)) = map.get_mut("anyOf") {
        branches.push(json!({"type": "null"}));
        return Value::Object(map);
    }
    let listed = map.contains_key("enum");
    match map.get("type") {
        Some(kinds) if !map.contains_key("const") && !map.contains_key("$ref") => {
            let mut names: Vec<Value> = types(kinds).into_iter().map(|name| json!(name)).collect();
            if !names.contains(&json!("null")) {
                names.push(json!("null"));
            }
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
