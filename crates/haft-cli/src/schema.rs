//! Reads the parts of a JSON Schema that the command line needs: the types of an argument, as text.
//!
//! The runtime validates. This file only decides whether `limit=3` is a number or text. A wrong
//! guess is rejected by the runtime.

use serde_json::Value;

/// One argument of a tool.
#[derive(Debug)]
pub(crate) struct Parameter<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_required: bool,
    node: &'a Value,
    root: &'a Value,
}

/// The limit on nested references; more is a cycle.
const MAX_REF_DEPTH: usize = 16;

/// Lists the arguments of a tool, in the order of its schema.
pub(crate) fn parameters(schema: &Value) -> Vec<Parameter<'_>> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|r| r.iter().any(|n| n == name));
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, node)| Parameter { name, is_required: is_required(name), node, root: schema })
        .collect()
}

/// Returns whether a tool takes arguments that its schema does not name.
pub(crate) fn is_open(schema: &Value) -> bool {
    schema.get("additionalProperties") != Some(&Value::Bool(false))
}

impl Parameter<'_> {
    /// Parses text as this argument: as JSON if the schema does not allow a string, else as text.
    pub(crate) fn read(&self, text: &str) -> Value {
        let types = types(self.node, self.root, MAX_REF_DEPTH);
        if types.is_empty() || types.contains(&"string") {
            return Value::String(text.to_owned());
        }
        // Text that does not parse stays text, so that validation reports the expected type.
        serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
    }

    /// Returns whether it is a URL, by its declaration.
    pub(crate) fn is_url(&self) -> bool {
        self.node.get("x-haft").is_some_and(|about| about == "url")
    }

    /// Returns whether it can be left out, and the schema does not say what happens then.
    pub(crate) fn is_optional_without_default(&self) -> bool {
        !self.is_required && self.node.get("default").is_none()
    }

    /// Returns whether it takes only lists.
    pub(crate) fn is_list(&self) -> bool {
        let types = types(self.node, self.root, MAX_REF_DEPTH);
        types.contains(&"array") && types.iter().all(|kind| ["array", "null"].contains(kind))
    }

    /// Returns its type as text.
    pub(crate) fn kind(&self) -> String {
        let node = resolve(self.node, self.root);
        if let Some(options) = node.get("enum").and_then(Value::as_array) {
            return options.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
        }
        let mut text = match types(node, self.root, MAX_REF_DEPTH).join(" or ") {
            any if any.is_empty() => "anything".to_owned(),
            array if array == "array" => {
                let item = node
                    .get("items")
                    .map(|items| types(items, self.root, MAX_REF_DEPTH).join(" or "));
                format!("array of {}", item.filter(|i| !i.is_empty()).unwrap_or("anything".into()))
            }
            types => types,
        };
        match (node.get("minimum"), node.get("maximum")) {
            (Some(low), Some(high)) => text += &format!(" {low} to {high}"),
            (Some(low), None) => text += &format!(" from {low}"),
            (None, Some(high)) => text += &format!(" up to {high}"),
            (None, None) => {}
        }
        if let Some(pattern) = node.get("pattern").and_then(Value::as_str) {
            text += &format!(" {pattern}");
        }
        text
    }

    /// Returns whether it is required, or its default.
    pub(crate) fn need(&self) -> String {
        match (self.is_required, self.node.get("default")) {
            (true, _) => "required".to_owned(),
            (false, Some(Value::Null) | None) => "optional".to_owned(),
            (false, Some(default)) => format!("default {default}"),
        }
    }

    /// Returns its description.
    pub(crate) fn description(&self) -> &str {
        let own = self.node.get("description").and_then(Value::as_str);
        own.or_else(|| resolve(self.node, self.root).get("description").and_then(Value::as_str))
            .unwrap_or_default()
    }

    /// Returns whether its value is a secret.
    pub(crate) fn is_secret(&self) -> bool {
        ["x-secret", "writeOnly"].iter().any(|key| self.node.get(*key) == Some(&Value::Bool(true)))
    }
}

fn resolve<'a>(mut node: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MAX_REF_DEPTH {
        let target = node.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(found) => node = found,
            None => break,
        }
    }
    node
}

/// The types that a node allows; empty if it has none.
fn types<'a>(node: &'a Value, root: &'a Value, depth: usize) -> Vec<&'a str> {
    let node = resolve(node, root);
    let mut found: Vec<&str> = match node.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if found.is_empty() && depth > 0 {
        let branches = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| node.get(*key));
        for branch in branches.filter_map(Value::as_array).flatten() {
            found.extend(types(branch, root, depth - 1));
        }
    }
    if found.is_empty() {
        let options = node.get("enum").and_then(Value::as_array).into_iter().flatten();
        for value in node.get("const").into_iter().chain(options) {
            found.push(kind_of(value));
        }
    }
    let mut once: Vec<&str> = Vec::new();
    for kind in found {
        if !once.contains(&kind) {
            once.push(kind);
        }
    }
    once
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(node: Value, text: &str) -> Value {
        let schema = json!({"properties": {"x": node}, "$defs": {
            "N": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"},
        }});
        parameters(&schema)[0].read(text)
    }

    #[test]
    fn text_is_read_as_the_schema_says() {
        assert_eq!(read(json!({"type": "integer"}), "3"), json!(3));
        assert_eq!(read(json!({"type": "string"}), "3"), json!("3"));
        assert_eq!(read(json!({"type": ["string", "null"]}), "null"), json!("null"));
        assert_eq!(read(json!({"type": ["integer", "null"]}), "null"), json!(null));
        assert_eq!(read(json!({"type": "boolean"}), "true"), json!(true));
        assert_eq!(read(json!({"type": "array"}), "[1]"), json!([1]));
        assert_eq!(read(json!({"type": "integer"}), "many"), json!("many"));
        assert_eq!(read(json!({}), "3"), json!("3"));
        assert_eq!(read(json!({"$ref": "#/$defs/N"}), "3"), json!(3));
        assert_eq!(read(json!({"$ref": "#/$defs/Loop"}), "3"), json!("3"));
        assert_eq!(
            read(json!({"anyOf": [{"type": "number"}, {"type": "null"}]}), "1.5"),
            json!(1.5)
        );
        assert_eq!(
            read(json!({"anyOf": [{"type": "number"}, {"type": "string"}]}), "1"),
            json!("1")
        );
        assert_eq!(read(json!({"enum": [1, 2]}), "2"), json!(2));
        assert_eq!(read(json!({"enum": ["1", 2]}), "2"), json!("2"));
    }
}
