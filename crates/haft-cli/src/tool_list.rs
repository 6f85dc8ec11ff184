//! The tools of a command: from a file with one tool per line, or from the registry.
//!
//! A line may have the format of haft, MCP or a provider. An invalid line is kept with the reason,
//! and the other lines are still read.

use std::{borrow::Cow, collections::HashMap, path::Path, sync::Arc};

use haft::{
    dialect::{ToolAnnotations, ToolDefinition},
    registry::RegisteredTool,
    schema::{Formats, Schema},
};
use serde_json::{Value, json};

use crate::{
    error::Problem,
    input::{Line, Lines},
    style,
};

/// One tool, or one invalid line.
pub(crate) struct Item {
    /// Its `id` in the file, else its name, else the line number.
    pub(crate) id: Value,
    /// Its name; empty if it has none.
    pub(crate) name: String,
    pub(crate) description: String,
    /// Its schema, or why it cannot be used.
    pub(crate) schema: Result<Schema, InvalidTool>,
    /// The entry of the registry, if it comes from there.
    pub(crate) entry: Option<Arc<RegisteredTool>>,
    title: Option<String>,
    output: Option<Value>,
    examples: Vec<Value>,
    deferred: bool,
    hints: Option<ToolAnnotations>,
}

/// Why a line is not a valid tool.
#[derive(Debug, Clone)]
pub(crate) struct InvalidTool {
    /// The key that is missing or wrong; empty for the whole line.
    pub(crate) keyword: &'static str,
    pub(crate) note: String,
}

impl InvalidTool {
    fn new(keyword: &'static str, note: impl Into<String>) -> Self {
        Self { keyword, note: note.into() }
    }
}

/// The tools of a command, in order.
pub(crate) struct ToolList {
    pub(crate) items: Vec<Item>,
}

impl ToolList {
    /// Reads the tools of a file, or takes these.
    pub(crate) fn open(
        file: Option<&Path>,
        tools: &[Arc<RegisteredTool>],
        formats: Formats,
    ) -> Result<Self, Problem> {
        let Some(path) = file else {
            return Ok(Self::of(tools, formats));
        };
        let items = Lines::open(path)?.map(|line| line.map(|line| line_of(line, formats)));
        Ok(Self { items: items.collect::<Result<_, _>>()? })
    }

    /// Takes registered tools.
    pub(crate) fn of(tools: &[Arc<RegisteredTool>], formats: Formats) -> Self {
        Self { items: tools.iter().map(|entry| Item::of(entry, formats)).collect() }
    }

    /// The definitions for an export. An unusable tool is included without a schema, so that the
    /// export refuses it under its name.
    pub(crate) fn definitions(&self) -> Vec<ToolDefinition<'_>> {
        self.items.iter().map(Item::definition).collect()
    }

    /// An index of the tools by id, then by name.
    pub(crate) fn index(&self) -> HashMap<String, &Item> {
        let mut index = HashMap::new();
        for item in &self.items {
            index.entry(key(&item.id)).or_insert(item);
        }
        for item in self.items.iter().filter(|item| !item.name.is_empty()) {
            index.entry(item.name.clone()).or_insert(item);
        }
        index
    }
}

/// An id as text, so that `7` and `"7"` are one.
pub(crate) fn key(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

impl Item {
    fn of(entry: &Arc<RegisteredTool>, formats: Formats) -> Self {
        Self {
            id: json!(entry.name().as_str()),
            name: entry.name().to_string(),
            description: entry.spec().description.clone(),
            schema: compile(entry.input_schema(), formats),
            entry: Some(Arc::clone(entry)),
            title: None,
            output: None,
            examples: Vec::new(),
            deferred: false,
            hints: None,
        }
    }

    fn broken(at: usize, invalid: InvalidTool) -> Self {
        Self {
            id: json!(at),
            name: String::new(),
            description: String::new(),
            schema: Err(invalid),
            entry: None,
            title: None,
            output: None,
            examples: Vec::new(),
            deferred: false,
            hints: None,
        }
    }

    fn definition(&self) -> ToolDefinition<'_> {
        match (&self.entry, &self.schema) {
            (Some(entry), Ok(_)) => ToolDefinition::from(&**entry),
            (_, schema) => {
                let input = schema.as_ref().map_or(&Value::Null, Schema::source);
                let mut definition = ToolDefinition::new(&self.name, &self.description, input);
                definition.title = self.title.as_deref();
                definition.output = self.output.as_ref();
                definition.examples = &self.examples;
                definition.deferred = self.deferred;
                definition.hints = self.hints;
                definition
            }
        }
    }

    /// Whether it is declared destructive; then fewer repairs are allowed.
    pub(crate) fn is_careful(&self) -> bool {
        match &self.entry {
            Some(entry) => entry.spec().may_destroy(),
            None => self.hints.is_some_and(|hints| hints.destructive && !hints.read_only),
        }
    }

    /// Its name, else its id.
    pub(crate) fn display_name(&self) -> String {
        if self.name.is_empty() { key(&self.id) } else { self.name.clone() }
    }

    /// The same for a column of a table.
    pub(crate) fn label(&self) -> String {
        if self.name.is_empty() {
            format!("({})", style::cell(&key(&self.id)))
        } else {
            style::cell(&self.name)
        }
    }
}

/// Compiles a schema unchanged: its own draft, open, without network access. The only place that
/// decides whether a schema is usable.
fn compile(schema: &Value, formats: Formats) -> Result<Schema, InvalidTool> {
    let unusable =
        |why: &str| InvalidTool::new("", format!("the JSON Schema cannot be used: {why}"));
    Schema::compile_with(schema, formats).map_err(|e| unusable(e.message()))
}

/// Reads one line of a file.
fn line_of((at, line): Line, formats: Formats) -> Item {
    let mut value: Value = match serde_json::from_slice(&line) {
        Ok(value) => value,
        Err(e) => {
            return Item::broken(at, InvalidTool::new("", format!("line {at} is not JSON: {e}")));
        }
    };
    let own_id = match value.get("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => Some(id.clone()),
        _ => None,
    };
    // Chat Completions and Bedrock wrap a tool in an object.
    for wrap in ["function", "toolSpec"] {
        if let Some(inner @ Value::Object(_)) = value.get_mut(wrap) {
            value = inner.take();
            break;
        }
    }
    let Value::Object(mut map) = value else {
        let note = match value {
            Value::Array(_) => "this is a list; write each tool on its own line",
            _ => "write the tool as a JSON object",
        };
        return Item::broken(at, InvalidTool::new("", format!("line {at}: {note}")));
    };
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").unwrap_or_default();
    let description = text("description").unwrap_or_default();
    let title = text("title");
    let is_yes = |key: &str| map.get(key) == Some(&Value::Bool(true));
    let deferred = is_yes("defer_loading") || is_yes("deferred");
    let hints = map.get("annotations").and_then(annotations_of);
    let mut take = |keys: &[&str]| keys.iter().find_map(|key| map.remove(*key));
    let mut input = take(&["input_schema", "inputSchema", "parameters", "parametersJsonSchema"]);
    if let Some(Value::Object(inner)) = &mut input
        && inner.len() == 1
        && let Some(json @ Value::Object(_)) = inner.get_mut("json")
    {
        input = Some(json.take()); // Bedrock wraps the schema as well
    }
    let schema = match input {
        None | Some(Value::Null) => Err(InvalidTool::new("input_schema", "the tool has no schema")),
        Some(_) if name.is_empty() => Err(InvalidTool::new("name", "the tool has no name")),
        Some(schema) => compile(&schema, formats),
    };
    let output = take(&["output_schema", "outputSchema"]).filter(Value::is_object);
    let examples = match take(&["examples", "input_examples"]) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let named = || if name.is_empty() { json!(at) } else { json!(name) };
    let id = own_id.unwrap_or_else(named);
    Item { id, name, description, schema, entry: None, title, output, examples, deferred, hints }
}

/// The annotations of an MCP tool, with the defaults of the protocol.
fn annotations_of(annotations: &Value) -> Option<ToolAnnotations> {
    let says =
        |key: &str, silence| annotations.get(key).and_then(Value::as_bool).unwrap_or(silence);
    annotations.is_object().then(|| ToolAnnotations {
        read_only: says("readOnlyHint", false),
        destructive: says("destructiveHint", true),
        idempotent: says("idempotentHint", false),
        open_world: says("openWorldHint", true),
    })
}

/// The source of the tools, for a summary.
pub(crate) fn source(file: Option<&Path>) -> Cow<'static, str> {
    file.map_or(Cow::Borrowed("haft"), |path| {
        Cow::Owned(style::visible(&path.display().to_string()))
    })
}
