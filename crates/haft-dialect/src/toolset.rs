//! Exports a set of tools as one provider request.
//!
//! It also maps calls back: exported tool name to own name, exported property name to own name, and
//! it removes the nulls that a model only sends because strict mode requires every property.
//! INVARIANT: equal tool sets and options give equal bytes, so the provider's prompt cache stays
//! valid.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use haft_core::{
    Arguments, ToolCall,
    host::{ArgumentMapping, RestoreArguments},
};
use haft_schema::{
    Loss, LossKind,
    lowering::{self, Document},
    parse,
};
use serde_json::{Map, Value};

use super::{
    Dialect,
    options::{ExportOptions, PromptCacheTtl},
    tools::{ExportedTool, Names, ToolDefinition},
};

/// A set of tools, exported for one provider request.
pub struct ToolExport {
    dialect: Dialect,
    shown: Vec<ExportedTool>,
    by_name: HashMap<String, usize>,
    /// The schemas of strict tools, by index. They decide which nulls strict mode added.
    documents: HashMap<usize, Document>,
    request: Map<String, Value>,
    /// The `tools` value alone, and as text. Made on first use, because most hosts use only one
    /// form.
    tools: OnceLock<Arc<Value>>,
    text: OnceLock<String>,
    prompt_bytes: OnceLock<usize>,
    unsupported_options: Vec<&'static str>,
    cache: Option<PromptCacheTtl>,
}

impl ToolExport {
    /// Exports tools under the limits of one request and with unique names.
    #[must_use]
    pub fn of(
        dialect: Dialect,
        definitions: &[ToolDefinition<'_>],
        options: &ExportOptions,
    ) -> Self {
        let mut names = Names::new(dialect).reserve(definitions.iter().map(|d| d.name));
        let mut limits = Limits::of(dialect);
        let mut shown: Vec<ExportedTool> = definitions
            .iter()
            .map(|definition| {
                let name = names.assign(definition.name);
                let shown = dialect.show_as(definition, &name, options);
                limits.admit(dialect, definition, shown, options)
            })
            .collect();
        keep_one_loaded(&mut shown);
        let documents = shown
            .iter()
            .zip(definitions)
            .enumerate()
            .filter(|(_, (shown, _))| shown.strict && dialect.fills_with_null())
            .filter_map(|(n, (_, definition))| Some((n, lowering::resolve(definition.input).ok()?)))
            .collect();
        let present: Vec<&ExportedTool> = shown.iter().filter(|s| s.tool.is_some()).collect();
        let request = dialect.request(&present, options);
        let mut by_name = HashMap::new();
        for (n, shown) in shown.iter().enumerate() {
            by_name.insert(shown.name.clone(), n);
        }
        for (n, shown) in shown.iter().enumerate() {
            // A model may also use a tool's own name, taken from older history.
            by_name.entry(shown.tool_name.clone()).or_insert(n);
        }
        let (tools, text, prompt_bytes) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let unsupported_options = dialect.unsupported_options(options);
        let cache = options.cache;
        Self {
            dialect,
            shown,
            by_name,
            documents,
            request,
            tools,
            text,
            prompt_bytes,
            unsupported_options,
            cache,
        }
    }

    /// Returns the dialect.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the tools as they appear in the request.
    #[must_use]
    pub fn tools(&self) -> &Arc<Value> {
        self.tools.get_or_init(|| Arc::new(self.listed().clone()))
    }

    /// Returns the same as text; equal sets of tools give equal bytes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get_or_init(|| self.listed().to_string())
    }

    /// Returns how many bytes of definitions the model reads: all but those that the provider
    /// defers.
    #[must_use]
    pub fn prompt_bytes(&self) -> usize {
        *self.prompt_bytes.get_or_init(|| {
            let deferred = self.listed().as_array().into_iter().flatten();
            let deferred = deferred.filter(|tool| tool.get("defer_loading").is_some());
            let left_out: usize = deferred.map(|tool| tool.to_string().len() + 1).sum();
            self.as_str().len().saturating_sub(left_out)
        })
    }

    /// The tools inside the request.
    fn listed(&self) -> &Value {
        match self.dialect {
            Dialect::Bedrock => &self.request["toolConfig"]["tools"],
            _ => &self.request["tools"],
        }
    }

    /// Returns the request fields about tools: the tools, the tool choice, parallel calls.
    #[must_use]
    pub fn request(&self) -> &Map<String, Value> {
        &self.request
    }

    /// Returns how long the provider's prompt cache is to keep the tools; `None` if they are not
    /// marked for it.
    #[must_use]
    pub fn prompt_cache(&self) -> Option<PromptCacheTtl> {
        self.cache
    }

    /// Returns the options that were set but that this dialect does not support.
    #[must_use]
    pub fn unsupported_options(&self) -> &[&'static str] {
        &self.unsupported_options
    }

    /// Returns each tool with its exported name and its report.
    #[must_use]
    pub fn exported_tools(&self) -> &[ExportedTool] {
        &self.shown
    }

    /// Iterates over all losses, each with the tool's own name.
    pub fn report(&self) -> impl Iterator<Item = (&str, &Loss)> {
        self.shown
            .iter()
            .flat_map(|s| s.report.iter().map(move |loss| (s.tool_name.as_str(), loss)))
    }

    /// Returns the tool's own name for a name that a model used.
    #[must_use]
    pub fn tool_name(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(|n| self.shown[*n].tool_name.as_str())
    }

    /// Restores the tool's own names in a call (tool and properties) and removes the nulls that
    /// strict mode added. Arguments that are not a JSON object stay as they are;
    /// a runtime also handles those that are repaired later.
    #[must_use]
    pub fn restore(&self, mut call: ToolCall) -> ToolCall {
        let Some(tool) = self.rename(&mut call).filter(|tool| self.needs_restore(*tool)) else {
            return call;
        };
        if let Arguments::Text(text) = &call.arguments
            && let Ok(map) = parse::object(text, MAX_ARGUMENT_BYTES)
        {
            call.arguments = Arguments::Json(Value::Object(map));
        }
        if let Arguments::Json(Value::Object(map)) = &mut call.arguments {
            self.restore_arguments(tool, map);
        }
        call
    }

    /// Takes in a call from a model. Restores the tool's own name, and notes whether validation
    /// must restore the arguments once they are parsed.
    #[must_use]
    pub fn receive_call(self: &Arc<Self>, mut call: ToolCall) -> ToolCall {
        let tool = self.rename(&mut call).filter(|tool| self.needs_restore(*tool));
        call.set_restore(tool.map(|tool| ArgumentMapping::new(Arc::clone(self) as _, tool)));
        call
    }

    fn rename(&self, call: &mut ToolCall) -> Option<usize> {
        let tool = *self.by_name.get(call.name.as_str())?;
        let original = self.shown[tool].tool_name.as_str();
        if call.name.as_str() != original {
            call.name = original.into();
        }
        Some(tool)
    }

    /// Whether arguments for this tool need to be restored: renamed properties or strict-mode
    /// nulls.
    fn needs_restore(&self, tool: usize) -> bool {
        !self.shown[tool].renamed.is_empty() || self.documents.contains_key(&tool)
    }
}

impl RestoreArguments for ToolExport {
    /// Restores the property names of arguments and removes the nulls that strict mode added.
    fn restore_arguments(&self, tool: usize, arguments: &mut Map<String, Value>) {
        for (own, here) in &self.shown[tool].renamed {
            if !arguments.contains_key(own)
                && let Some(value) = arguments.shift_remove(here)
            {
                arguments.insert(own.clone(), value);
            }
        }
        if let Some(document) = self.documents.get(&tool) {
            lowering::without_nulls(document, arguments);
        }
    }
}

/// `restore` does not parse arguments longer than this.
const MAX_ARGUMENT_BYTES: usize = 16 << 20;

impl fmt::Debug for ToolExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolExport")
            .field("dialect", &self.dialect)
            .field("tools", &self.shown.len())
            .finish_non_exhaustive()
    }
}

/// What is left of the limits of one request.
struct Limits {
    tools: usize,
    strict: usize,
    optional: usize,
    unions: usize,
}

impl Limits {
    fn of(dialect: Dialect) -> Self {
        let (tools, strict, optional, unions) = match dialect {
            Dialect::OpenAiResponses | Dialect::OpenAiChat => {
                (128, usize::MAX, usize::MAX, usize::MAX)
            }
            Dialect::Anthropic => (10_000, 20, 24, 16),
            Dialect::Bedrock => (usize::MAX, 20, 24, 16),
            _ => (usize::MAX, usize::MAX, usize::MAX, usize::MAX),
        };
        Self { tools, strict, optional, unions }
    }

    /// Counts a tool. Exports it without strict mode if the strict limits are used up, and leaves
    /// it out if the tool limit is. Deferred tools of Responses do not count until they are found.
    fn admit(
        &mut self,
        dialect: Dialect,
        definition: &ToolDefinition<'_>,
        mut shown: ExportedTool,
        options: &ExportOptions,
    ) -> ExportedTool {
        let Some(tool) = &shown.tool else { return shown };
        if shown.strict && self.strict != usize::MAX {
            let (optional, unions) = lowering::choices(tool);
            let fits = self.strict >= 1 && self.optional >= optional && self.unions >= unions;
            if fits {
                self.strict -= 1;
                self.optional -= optional;
                self.unions -= unions;
            } else {
                let plain = options.clone().strict(super::StrictMode::Off);
                let name = shown.name.clone();
                shown = dialect.show_as(definition, &name, &plain);
                let why =
                    "a request allows 20 strict tools with 24 optional properties and 16 unions";
                shown.not_strict = Some(why.to_owned());
            }
        }
        let deferred = shown.tool.as_ref().is_some_and(|tool| tool.get("defer_loading").is_some());
        if deferred && dialect == Dialect::OpenAiResponses {
            return shown;
        }
        match self.tools.checked_sub(1) {
            Some(left) => self.tools = left,
            None => {
                shown.tool = None;
                let note = "the request is at its tool limit; export fewer tools, or defer some";
                shown.report.push(Loss::new(LossKind::Refused, "", "", note));
            }
        }
        shown
    }
}

/// Providers refuse a request in which every tool is deferred, so the first one is loaded.
fn keep_one_loaded(shown: &mut [ExportedTool]) {
    let mut tools = shown.iter_mut().filter_map(|s| s.tool.as_mut()?.as_object_mut()).peekable();
    if tools.peek().is_none() {
        return;
    }
    let mut first = None;
    for tool in tools {
        if !tool.contains_key("defer_loading") {
            return;
        }
        first = first.or(Some(tool));
    }
    if let Some(tool) = first {
        tool.shift_remove("defer_loading");
    }
}
