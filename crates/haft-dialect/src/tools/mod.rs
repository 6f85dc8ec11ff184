//! Exports each tool as JSON of a provider.
//!
//! One file per provider: its schema rules as data, and the fields around the schema. A tool is
//! exported in strict mode if wanted, else in plain mode, else as an object with any properties. A
//! tool whose own schema is invalid is left out.
//! INVARIANT: a failure of one tool does not affect the others.

mod anthropic;
mod bedrock;
mod gemini;
mod mcp;
mod mistral;
mod names;
mod ollama;
mod openai;

use haft_core::text::shortened_bytes;
use haft_schema::{
    Formats, Loss, LossKind, Schema,
    lowering::{self, Document, LoweredSchema, LoweringRules},
};
use serde_json::{Map, Value, json};

pub(super) use self::names::Names;
use super::{
    Dialect,
    options::{ExportOptions, StrictMode},
};

/// The part of a tool's spec that providers receive.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolDefinition<'a> {
    /// Its own name.
    pub name: &'a str,
    /// A name for people.
    pub title: Option<&'a str>,
    /// What it does.
    pub description: &'a str,
    /// The schema of its arguments.
    pub input: &'a Value,
    /// The schema of its structured results.
    pub output: Option<&'a Value>,
    /// Example arguments.
    pub examples: &'a [Value],
    /// Whether it is found by tool search instead of always being loaded.
    pub deferred: bool,
    /// Its side effects, if they are known.
    pub hints: Option<ToolAnnotations>,
}

/// The side effects that a tool declares (MCP tool annotations).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the option of the same name, see `ToolSpec`")]
pub struct ToolAnnotations {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
}

impl<'a> ToolDefinition<'a> {
    /// Describes a tool by name, description and input schema.
    #[must_use]
    pub fn new(name: &'a str, description: &'a str, input: &'a Value) -> Self {
        Self {
            name,
            title: None,
            description,
            input,
            output: None,
            examples: &[],
            deferred: false,
            hints: None,
        }
    }
}

/// One exported tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExportedTool {
    /// The tool's own name.
    pub tool_name: String,
    /// The exported name.
    pub name: String,
    /// The tool exactly as it appears in the request; `None` when it was left out.
    pub tool: Option<Value>,
    /// Whether the provider enforces the schema.
    pub strict: bool,
    /// Why it is not strict although strict mode was requested.
    pub not_strict: Option<String>,
    /// Where the exported schema differs from the tool's own.
    pub report: Vec<Loss>,
    /// Renamed properties, as (own name, exported name).
    pub(crate) renamed: Vec<(String, String)>,
}

impl ExportedTool {
    /// Returns whether the exported schema accepts exactly what the tool's own accepts.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.tool.is_some()
            && self
                .report
                .iter()
                .all(|loss| matches!(loss.kind, LossKind::Exact | LossKind::Renamed))
    }

    /// Iterates over renamed properties, as (own name, exported name).
    pub fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.renamed.iter().map(|(own, here)| (own.as_str(), here.as_str()))
    }

    fn refused(original: &str, name: String, loss: Loss) -> Self {
        Self {
            tool_name: original.to_owned(),
            name,
            tool: None,
            strict: false,
            not_strict: None,
            report: vec![loss],
            renamed: Vec::new(),
        }
    }
}

/// A lowered schema and the other parts of a tool definition.
pub(super) struct ToolParts<'a> {
    pub(super) definition: &'a ToolDefinition<'a>,
    pub(super) name: &'a str,
    pub(super) description: String,
    pub(super) schema: Map<String, Value>,
    pub(super) strict: bool,
}

impl Dialect {
    fn plain(self) -> &'static LoweringRules {
        match self {
            Self::Anthropic => &anthropic::PLAIN,
            Self::OpenAiResponses => &openai::RESPONSES,
            Self::OpenAiChat => &openai::CHAT,
            Self::Gemini => &gemini::PARAMETERS,
            Self::GeminiJson => &gemini::JSON_SCHEMA,
            Self::Bedrock => &bedrock::PLAIN,
            Self::Mistral => &mistral::PLAIN,
            Self::Ollama => &ollama::PLAIN,
            Self::Mcp => &mcp::PLAIN,
        }
    }

    fn strict(self) -> Option<&'static LoweringRules> {
        match self {
            Self::Anthropic | Self::Bedrock => Some(&anthropic::STRICT),
            Self::OpenAiResponses | Self::OpenAiChat => Some(&openai::STRICT),
            _ => None,
        }
    }

    /// Returns whether the provider can enforce a schema, tool by tool.
    #[must_use]
    pub fn has_strict(self) -> bool {
        self.strict().is_some()
    }

    /// Whether strict mode requires every property, so that the model sends null for an absent one.
    pub(super) fn fills_with_null(self) -> bool {
        self.strict().and_then(LoweringRules::subset).is_some_and(|subset| subset.all_required)
    }

    /// Strict mode costs Anthropic a grammar per request, so it is only used there on request.
    fn prefers_strict(self) -> bool {
        matches!(self, Self::OpenAiResponses | Self::OpenAiChat)
    }

    fn tool_json(self, parts: ToolParts<'_>, options: &ExportOptions) -> Value {
        match self {
            Self::Anthropic => anthropic::tool(parts, options),
            Self::OpenAiResponses => openai::responses(parts, options),
            Self::OpenAiChat => openai::chat(parts),
            Self::Gemini => gemini::parameters(parts),
            Self::GeminiJson => gemini::json_schema(parts),
            Self::Bedrock => bedrock::tool(parts),
            Self::Mistral => mistral::tool(parts),
            Self::Ollama => ollama::tool(parts),
            Self::Mcp => mcp::tool(parts),
        }
    }

    /// Puts the tools into the fields of a request.
    pub(super) fn request(
        self,
        shown: &[&ExportedTool],
        options: &ExportOptions,
    ) -> Map<String, Value> {
        let tools: Vec<Value> = shown.iter().filter_map(|s| s.tool.clone()).collect();
        let named = |name: &str| {
            let found = shown.iter().find(|s| s.tool_name == name || s.name == name);
            found.map_or_else(|| name.to_owned(), |s| s.name.clone())
        };
        match self {
            Self::Anthropic => anthropic::request(tools, options, &named),
            Self::OpenAiResponses => openai::request(tools, options, &named, true),
            Self::OpenAiChat => openai::request(tools, options, &named, false),
            Self::Gemini | Self::GeminiJson => gemini::request(tools, options, &named),
            Self::Bedrock => bedrock::request(tools, options, &named),
            Self::Mistral => mistral::request(tools, options, &named),
            Self::Ollama => ollama::request(tools),
            Self::Mcp => mcp::request(tools),
        }
    }

    /// Exports one tool alone. Refuses a schema that no call could be validated against.
    #[must_use]
    pub fn export_tool(
        self,
        definition: &ToolDefinition<'_>,
        options: &ExportOptions,
    ) -> ExportedTool {
        let name = Names::new(self).assign(definition.name);
        let shown = self.show_as(definition, &name, options);
        match Schema::compile_with(definition.input, Formats::Annotation) {
            Err(e) if shown.tool.is_some() => {
                let loss = Loss::new(LossKind::Refused, "", "", e.to_string());
                ExportedTool::refused(definition.name, name, loss)
            }
            _ => shown,
        }
    }

    /// Exports tools with unique names, each alone. The limits of a whole request are not applied;
    /// [`ToolExport::of`] does that.
    ///
    /// [`ToolExport::of`]: crate::ToolExport::of
    pub fn export_tools<'a>(
        self,
        definitions: &'a [ToolDefinition<'a>],
        options: &'a ExportOptions,
    ) -> impl Iterator<Item = ExportedTool> + 'a {
        let mut names = Names::new(self).reserve(definitions.iter().map(|d| d.name));
        definitions.iter().map(move |definition| {
            self.show_as(definition, &names.assign(definition.name), options)
        })
    }

    /// Exports one tool under an assigned name.
    pub(super) fn show_as(
        self,
        definition: &ToolDefinition<'_>,
        name: &str,
        options: &ExportOptions,
    ) -> ExportedTool {
        let refused = |pointer: &str, keyword: &str, why: &str| {
            let loss = Loss::new(LossKind::Refused, pointer, keyword, why);
            ExportedTool::refused(definition.name, name.to_owned(), loss)
        };
        if !definition.input.is_object() {
            return refused("", "", "a tool's schema must be a JSON object");
        }
        let document = match lowering::resolve(definition.input) {
            Ok(document) => document,
            Err(e) => return refused(&e.pointer, e.keyword, &e.why),
        };
        let mut not_strict = None;
        let wants = match options.strict {
            StrictMode::On => true,
            StrictMode::Auto => self.prefers_strict(),
            StrictMode::Off => false,
        };
        if wants {
            match self.strict() {
                None => not_strict = Some("this dialect has no strict mode".to_owned()),
                Some(rules) => {
                    let rules = with_options(rules, options);
                    match lowering::lower(&document, &rules, options.strict == StrictMode::On) {
                        Ok(lowered) => {
                            return self.shown(definition, name, lowered, true, None, options);
                        }
                        Err(e) => {
                            let place = if e.pointer.is_empty() { "/" } else { &e.pointer };
                            not_strict = Some(format!("{place}: {}", e.why));
                        }
                    }
                }
            }
        }
        let plain = with_options(self.plain(), options);
        let lowered = match lowering::lower(&document, &plain, false) {
            Ok(lowered) => lowered,
            Err(e) if accepts_nothing(&document) => return refused(&e.pointer, &e.keyword, &e.why),
            Err(e) => any_object(&e.pointer, &e.keyword, &e.why, definition.input),
        };
        self.shown(definition, name, lowered, false, not_strict, options)
    }

    fn shown(
        self,
        definition: &ToolDefinition<'_>,
        name: &str,
        lowered: LoweredSchema,
        strict: bool,
        not_strict: Option<String>,
        options: &ExportOptions,
    ) -> ExportedTool {
        let LoweredSchema { schema, losses, notes, renamed } = lowered;
        let mut report = losses;
        if name != definition.name {
            let note = format!("`{}` is called `{name}` here", definition.name);
            report.insert(0, Loss::new(LossKind::Renamed, "", "name", note));
        }
        let mut description = definition.description.trim().to_owned();
        if !notes.is_empty() {
            let gap = if description.is_empty() { "" } else { "\n\n" };
            description = format!("{description}{gap}Arguments: {}.", notes.join("; "));
        }
        let mut own = definition.clone();
        let inlined = definition.output.filter(|_| options.inline).map(inlined_output);
        if let Some((output, losses)) = &inlined {
            own.output = output.as_ref();
            report.extend(losses.iter().cloned());
        }
        let parts = ToolParts { definition: &own, name, description, schema, strict };
        let tool = self.tool_json(parts, options);
        ExportedTool {
            tool_name: definition.name.to_owned(),
            name: name.to_owned(),
            tool: Some(tool),
            strict,
            not_strict,
            report,
            renamed,
        }
    }
}

/// The rules of a dialect, adjusted to the options.
fn with_options(rules: &LoweringRules, options: &ExportOptions) -> LoweringRules {
    if options.inline { rules.inlined() } else { *rules }
}

/// Whether no arguments can ever be valid.
fn accepts_nothing(document: &Document) -> bool {
    let named = document.root.get("type");
    let not_object = named.is_some_and(|named| match named {
        Value::String(one) => one != "object",
        Value::Array(some) => !some.iter().any(|one| one == "object"),
        _ => true,
    });
    document.root == json!(false) || not_object
}

/// The output schema without references and `allOf`; `None` where that cannot be expressed.
fn inlined_output(output: &Value) -> (Option<Value>, Vec<Loss>) {
    let loss = |loss: &Loss| {
        let place = if loss.pointer.is_empty() { "/" } else { &loss.pointer };
        Loss::new(
            loss.kind,
            "",
            "output",
            format!("at {place} of the output schema: {}", loss.note),
        )
    };
    let lowered = lowering::resolve(output).ok().and_then(|document| {
        lowering::lower(&document, &LoweringRules::PLAIN.inlined(), false).ok()
    });
    match lowered {
        Some(lowered) => {
            let losses = lowered.losses.iter().map(loss).collect();
            (Some(Value::Object(lowered.schema)), losses)
        }
        None => {
            let note = "the output schema cannot be inlined and is left out";
            (None, vec![Loss::new(LossKind::Widened, "", "output", note)])
        }
    }
}

/// The last resort: any object, with the schema in the description.
fn any_object(pointer: &str, keyword: &str, why: &str, input: &Value) -> LoweredSchema {
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), json!({}));
    let notes = shortened_bytes(&input.to_string(), 4_000);
    LoweredSchema {
        schema,
        losses: vec![Loss::new(
            LossKind::Widened,
            pointer,
            keyword,
            format!("shown as any object: {why}"),
        )],
        notes: vec![format!("an object that matches this JSON Schema: {notes}")],
        renamed: Vec::new(),
    }
}

/// An object with one member. The `json!` macro would copy the value.
fn single_member(key: &str, value: Value) -> Value {
    let mut map = Map::new();
    map.insert(key.to_owned(), value);
    Value::Object(map)
}

/// Inserts a description unless it is empty.
fn describe(tool: &mut Map<String, Value>, text: &str) {
    if !text.is_empty() {
        tool.insert("description".into(), json!(text));
    }
}

/// Whether Anthropic accepts a property name.
fn is_anthropic_key(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// Whether a pattern has no look-around.
fn has_no_lookaround(pattern: &str) -> bool {
    !["(?=", "(?!", "(?<=", "(?<!"].iter().any(|mark| pattern.contains(mark))
}
