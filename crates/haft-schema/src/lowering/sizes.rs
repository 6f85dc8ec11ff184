//! Checks a schema against the size limits of a dialect.

use serde_json::{Map, Value};

use super::{keywords, query::reference, rules::Limits};

/// Checks a whole schema, with its definitions.
pub(super) fn check(schema: &Map<String, Value>, limits: &Limits) -> Result<(), String> {
    let mut sums = Sums::default();
    sums.count(schema, limits)?;
    for (what, sum, most) in [
        ("properties", sums.properties, limits.properties),
        ("listed values", sums.values, limits.values),
        ("characters of names and values", sums.characters, limits.characters),
    ] {
        if sum > most {
            return Err(format!("{sum} {what}; the maximum is {most}"));
        }
    }
    let mut fuel = 50_000;
    if limits.depth != usize::MAX
        && depth(schema, schema, &mut Vec::new(), limits.depth, &mut fuel) > limits.depth
    {
        return Err(format!("more than {} levels of nesting", limits.depth));
    }
    Ok(())
}

/// Counts the optional properties and the unions of a strict tool, as the request limits count
/// them.
pub fn choices(tool: &Value) -> (usize, usize) {
    fn look(node: &Value, sum: &mut (usize, usize)) {
        let Some(map) = node.as_object() else { return };
        for (name, property) in
            map.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let required = map.get("required").and_then(Value::as_array);
            sum.0 += usize::from(!required.is_some_and(|r| r.iter().any(|n| n == name)));
            let is_union = property.get("anyOf").is_some()
                || property.get("type").is_some_and(Value::is_array);
            sum.1 += usize::from(is_union);
        }
        for child in keywords::children(map) {
            look(child.node, sum);
        }
    }
    let schema = tool.get("input_schema").or_else(|| tool.pointer("/toolSpec/inputSchema/json"));
    let mut sum = (0, 0);
    look(schema.unwrap_or(&Value::Null), &mut sum);
    sum
}

#[derive(Default)]
struct Sums {
    properties: usize,
    values: usize,
    characters: usize,
}

impl Sums {
    fn count(&mut self, map: &Map<String, Value>, limits: &Limits) -> Result<(), String> {
        for word in ["properties", "$defs"] {
            let named = map.get(word).and_then(Value::as_object);
            self.characters +=
                named.into_iter().flatten().map(|(name, _)| length(name)).sum::<usize>();
            if word == "properties" {
                self.properties += named.map_or(0, Map::len);
            }
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            let characters: usize = values.iter().filter_map(Value::as_str).map(length).sum();
            self.values += values.len();
            self.characters += characters;
            if values.len() > 250 && characters > limits.list {
                return Err(format!(
                    "a list of values has {characters} characters, which is too long"
                ));
            }
        }
        self.characters += map.get("const").and_then(Value::as_str).map_or(0, length);
        for child in keywords::children(map) {
            if let Some(child) = child.node.as_object() {
                self.count(child, limits)?;
            }
        }
        Ok(())
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The levels of objects and arrays, with references followed. A cycle is followed once.
fn depth<'a>(
    root: &'a Map<String, Value>,
    map: &'a Map<String, Value>,
    open: &mut Vec<&'a str>,
    most: usize,
    fuel: &mut usize,
) -> usize {
    if *fuel == 0 {
        return usize::MAX;
    }
    *fuel -= 1;
    if let Some(name) = reference(map) {
        let target = root.get("$defs").and_then(|d| d.get(name)).and_then(Value::as_object);
        let Some(target) = target.filter(|_| !open.contains(&name)) else { return 0 };
        open.push(name);
        let found = depth(root, target, open, most, fuel);
        open.pop();
        return found;
    }
    let mut deepest = 0;
    for child in keywords::children(map) {
        if child.key != "$defs"
            && deepest <= most
            && let Some(child) = child.node.as_object()
        {
            deepest = deepest.max(depth(root, child, open, most, fuel));
        }
    }
    let types = map.get("type").map(super::merge::types).unwrap_or_default();
    let level =
        types.contains(&"object") || types.contains(&"array") || map.contains_key("properties");
    deepest.saturating_add(usize::from(level))
}

/// The size of a schema at its own level.
pub(super) fn size(map: &Map<String, Value>) -> usize {
    map.values()
        .map(|value| match value {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 1,
        })
        .sum()
}
