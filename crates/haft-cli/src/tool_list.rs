//! The tools a command is about: one per line of a file, or the ones that are there.
//!
//! A line may have any of the shapes in which tools are written down: ours, MCP's, those of the
//! providers. A line that makes no tool is kept with the reason; it never stops the others.

use std::{borrow::Cow, collections::HashMap, path::Path, sync::Arc};

use haft::{Formats, RegisteredTool, Schema, ToolAnnotations, ToolDefinition, ToolRegistry};
use serde_json::{Value, json};

use crate::{
    error::Problem,
    input::{Line, Lines},
    style,
};

/// One tool, or one line that should have been one.
pub(crate) struct Item {
    /// What the file calls it: its `id`, else its name, else the number of its line.
    pub(crate) id: Value,
    /// Its name; empty when it has none.
    pub(crate) name: String,
    pub(crate) description: String,
    /// Its schema, or why it has none that could be used.
    pub(crate) schema: Result<Schema, Trouble>,
    /// The entry of the registry, when it comes from there.
    pub(crate) entry: Option<Arc<RegisteredTool>>,
    title: Option<String>,
    output: Option<Value>,
    examples: Vec<Value>,
    deferred: bool,
    hints: Option<ToolAnnotations>,
}

/// Why a line makes no tool.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// The word of the line that is missing or wrong; empty when it is all of it.
    pub(crate) keyword: &'static str,
    pub(crate) note: String,
}

impl Trouble {
    fn new(keyword: &'static str, note: impl Into<String>) -> Self {
        Self { keyword, note: note.into() }
    }
}

/// All tools a command is about, in their order.
pub(crate) struct Shelf {
    pub(crate) items: Vec<Item>,
}

impl Shelf {
    /// Reads the tools of a file; without one, takes those of the registry.
    pub(crate) fn open(
        file: Option<&Path>,
        registry: &ToolRegistry,
        formats: Formats,
    ) -> Result<Self, Problem> {
        let Some(path) = file else {
            return Ok(Self::of(registry, formats));
        };
        let items = Lines::open(path)?.map(|line| line.map(|line| line_of(line, formats)));
        Ok(Self { items: items.collect::<Result<_, _>>()? })
    }

    /// Takes the tools of a registry.
    pub(crate) fn of(registry: &ToolRegistry, formats: Formats) -> Self {
        Self { items: registry.own().map(|entry| Item::of(entry, formats)).collect() }
    }

    /// What a provider is told of each tool. A tool that cannot be used is among them without a
    /// schema, so that it has a name like the others and is refused.
    pub(crate) fn definitions(&self) -> Vec<ToolDefinition<'_>> {
        self.items.iter().map(Item::definition).collect()
    }

    /// Finds tools by what a call may name them: the id first, else the name.
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

    fn broken(at: usize, trouble: Trouble) -> Self {
        Self {
            id: json!(at),
            name: String::new(),
            description: String::new(),
            schema: Err(trouble),
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
            (Some(entry), Ok(_)) => ToolDefinition::of(entry),
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

    /// Whether it says that it destroys; then less is repaired.
    pub(crate) fn is_careful(&self) -> bool {
        match &self.entry {
            Some(entry) => entry.spec().may_destroy(),
            None => self.hints.is_some_and(|hints| hints.destructive && !hints.read_only),
        }
    }

    /// What it is called: its name, else its id.
    pub(crate) fn called(&self) -> String {
        if self.name.is_empty() { key(&self.id) } else { self.name.clone() }
    }

    /// The same for a column of a table.
    pub(crate) fn label(&self) -> String {
        match self.name.is_empty() {
            true => format!("({})", style::cell(&key(&self.id))),
            false => style::cell(&self.name),
        }
    }
}

/// Compiles a schema as it is: its own draft, not closed, nothing fetched. The one place that says
/// whether a schema can be used.
fn compile(schema: &Value, formats: Formats) -> Result<Schema, Trouble> {
    let unusable = |why: &str| Trouble::new("", format!("the JSON Schema cannot be used: {why}"));
    Schema::compile_with(schema, formats).map_err(|e| unusable(e.message()))
}

/// Reads one line of a file.
fn line_of((at, line): Line, formats: Formats) -> Item {
    let mut value: Value = match serde_json::from_slice(&line) {
        Ok(value) => value,
        Err(e) => {
            return Item::broken(at, Trouble::new("", format!("line {at} is not JSON: {e}")));
        }
    };
    let own_id = match value.get("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => Some(id.clone()),
        _ => None,
    };
    // Chat and Bedrock wrap a tool in an object that says what it is.
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
        return Item::broken(at, Trouble::new("", format!("line {at}: {note}")));
    };
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").unwrap_or_default();
    let description = text("description").unwrap_or_default();
    let title = text("title");
    let is_yes = |key: &str| map.get(key) == Some(&Value::Bool(true));
    let deferred = is_yes("defer_loading") || is_yes("deferred");
    let hints = map.get("annotations").and_then(hints);
    let mut take = |keys: &[&str]| keys.iter().find_map(|key| map.remove(*key));
    let mut input = take(&["input_schema", "inputSchema", "parameters", "parametersJsonSchema"]);
    if let Some(Value::Object(inner)) = &mut input
        && inner.len() == 1
        && let Some(json @ Value::Object(_)) = inner.get_mut("json")
    {
        input = Some(json.take()); // Bedrock wraps the schema as well
    }
    let schema = match input {
        None | Some(Value::Null) => Err(Trouble::new("input_schema", "the tool has no schema")),
        Some(_) if name.is_empty() => Err(Trouble::new("name", "the tool has no name")),
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

/// What a tool of MCP says it does to the world. Silence means what the protocol says it means.
fn hints(annotations: &Value) -> Option<ToolAnnotations> {
    let says =
        |key: &str, silence| annotations.get(key).and_then(Value::as_bool).unwrap_or(silence);
    annotations.is_object().then(|| ToolAnnotations {
        read_only: says("readOnlyHint", false),
        destructive: says("destructiveHint", true),
        idempotent: says("idempotentHint", false),
        open_world: says("openWorldHint", true),
    })
}

/// What a shelf is called in a summary.
pub(crate) fn source(file: Option<&Path>) -> Cow<'static, str> {
    file.map_or(Cow::Borrowed("haft"), |path| {
        Cow::Owned(style::visible(&path.display().to_string()))
    })
}
