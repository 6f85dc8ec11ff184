//! The inputs that a VS Code file declares under `inputs` and uses as `${input:id}`.

use serde_json::Value;

use super::jsonc;

/// A value that a file asks its user for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigInput {
    /// Its name in the file.
    pub id: String,
    /// What the user is asked.
    pub description: Option<String>,
    /// Whether it must not be shown.
    pub is_secret: bool,
    /// What it is if the user types nothing.
    pub default: Option<String>,
    /// What it can be; empty if it can be anything.
    pub options: Vec<String>,
}

impl ConfigInput {
    /// Returns how the file refers to it.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("${{input:{}}}", self.id)
    }
}

/// Lists the inputs that a file declares and uses. An input of type `command` would run a program,
/// and is left out. A text that is not such a file has none.
///
/// ```
/// let text = r#"{"inputs": [{"type": "promptString", "id": "key", "password": true}],
///     "servers": {"s": {"command": "x", "env": {"KEY": "${input:key}"}}}}"#;
/// let inputs = haft_mcp::config::inputs(text);
/// assert_eq!((inputs[0].id.as_str(), inputs[0].is_secret), ("key", true));
/// ```
#[must_use]
pub fn inputs(text: &str) -> Vec<ConfigInput> {
    // Most files have none, and some are large.
    if !text.contains("${input:") {
        return Vec::new();
    }
    let Ok(file) = jsonc::parse(text) else { return Vec::new() };
    let declared = file.get("inputs").and_then(Value::as_array);
    let mut found: Vec<ConfigInput> = Vec::new();
    for input in declared.into_iter().flatten().filter_map(input) {
        let is_new = found.iter().all(|known| known.id != input.id);
        if is_new && text.contains(&input.reference()) {
            found.push(input);
        }
    }
    found
}

fn input(declared: &Value) -> Option<ConfigInput> {
    let text = |key: &str| declared.get(key).and_then(Value::as_str);
    let options = match text("type")? {
        "promptString" => Vec::new(),
        "pickString" => {
            let options = declared.get("options")?.as_array()?.iter();
            // Each is a text, or a table with a label and a value.
            options
                .filter_map(|option| option.as_str().or_else(|| option.get("value")?.as_str()))
                .map(str::to_owned)
                .collect()
        }
        _ => return None,
    };
    Some(ConfigInput {
        id: text("id")?.to_owned(),
        description: text("description").map(str::to_owned),
        is_secret: declared.get("password").and_then(Value::as_bool) == Some(true),
        default: text("default").map(str::to_owned),
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_that_are_declared_and_used_are_listed_once() {
        let text = r#"{ // VS Code
            "inputs": [{"type": "promptString", "id": "key"}, {"type": "promptString", "id": "key"},
                {"type": "pickString", "id": "zone",
                 "options": ["a", {"label": "B", "value": "b"}]},
                {"type": "command", "id": "run", "command": "x"},
                {"type": "promptString", "id": "unused"}],
            "servers": {"s": {"command": "${input:key}${input:zone}${input:run}"}}}"#;
        let found = inputs(text);
        let ids: Vec<&str> = found.iter().map(|input| &*input.id).collect();
        assert_eq!(ids, ["key", "zone"]);
        assert_eq!(found[1].options, ["a", "b"]);
        assert!(inputs("{").is_empty() && inputs("${input:x}").is_empty());
    }
}
