//! The options of an export.

use serde_json::{Value, json};

use super::Dialect;

/// Whether the provider enforces the schemas while the model generates (constrained decoding).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum StrictMode {
    /// On where the provider supports it well and the schema keeps its meaning. The one exception:
    /// the model can no longer send keys that an object neither names nor explicitly allows. The
    /// report says so.
    #[default]
    Auto,
    /// On wherever the schema can be expressed.
    On,
    /// Off.
    Off,
}

/// How long a provider keeps a prompt in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptCacheTtl {
    /// Five minutes after the last use.
    FiveMinutes,
    /// An hour after the last use.
    OneHour,
}

impl PromptCacheTtl {
    /// The value of Anthropic's `cache_control`.
    pub(crate) fn anthropic_mark(self) -> Value {
        match self {
            Self::FiveMinutes => json!({"type": "ephemeral"}),
            Self::OneHour => json!({"type": "ephemeral", "ttl": "1h"}),
        }
    }

    /// Bedrock's mark, which is a block of its own.
    pub(crate) fn bedrock_mark(self) -> Value {
        match self {
            Self::FiveMinutes => json!({"cachePoint": {"type": "default"}}),
            Self::OneHour => json!({"cachePoint": {"type": "default", "ttl": "1h"}}),
        }
    }
}

/// How deferred tools are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolSearch {
    /// By the provider, with regular expressions (Anthropic).
    Regex,
    /// By the provider, with BM25 ranking.
    Ranked,
    /// By the host. Where a registry has `tool_search`, that is the host's search.
    Own,
}

/// Which tool the model calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// At least one, of the model's choice.
    Any,
    /// None.
    None,
    /// This one, by the tool's own name.
    Tool(String),
}

/// The options of an export. The default is what works best with each provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Whether the provider enforces the schemas.
    pub strict: StrictMode,
    /// Whether the tools get a prompt-cache marker (Anthropic, Bedrock).
    pub cache: Option<PromptCacheTtl>,
    /// Whether deferred tools are left to the provider's tool search (Anthropic, Responses).
    pub search: Option<ToolSearch>,
    /// Which tool the model calls.
    pub choice: Option<ToolChoice>,
    /// Whether the model may call several tools at once.
    pub parallel: Option<bool>,
    /// Whether the tools' examples are exported (Anthropic).
    pub examples: bool,
    /// Whether output schemas are exported where the provider supports them (Responses).
    pub output: bool,
    /// Whether arguments are streamed as they are generated, before validation (Anthropic).
    pub eager: bool,
    /// Whether schemas are exported without `$ref`, `$defs` and `allOf`, for a server or a model
    /// that does not resolve them.
    pub inline: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            strict: StrictMode::Auto,
            cache: None,
            search: None,
            choice: None,
            parallel: None,
            examples: true,
            output: false,
            eager: false,
            inline: false,
        }
    }
}

impl ExportOptions {
    /// Sets whether the provider enforces the schemas.
    #[must_use]
    pub fn strict(mut self, strict: StrictMode) -> Self {
        self.strict = strict;
        self
    }

    /// Marks the tools for the provider's prompt cache.
    #[must_use]
    pub fn cache(mut self, keep: PromptCacheTtl) -> Self {
        self.cache = Some(keep);
        self
    }

    /// Leaves deferred tools to a tool search.
    #[must_use]
    pub fn search(mut self, search: ToolSearch) -> Self {
        self.search = Some(search);
        self
    }

    /// Sets which tool the model calls.
    #[must_use]
    pub fn choice(mut self, choice: ToolChoice) -> Self {
        self.choice = Some(choice);
        self
    }

    /// Sets whether the model may call several tools at once.
    #[must_use]
    pub fn parallel(mut self, parallel: bool) -> Self {
        self.parallel = Some(parallel);
        self
    }

    /// Exports output schemas.
    #[must_use]
    pub fn output(mut self) -> Self {
        self.output = true;
        self
    }

    /// Leaves examples out.
    #[must_use]
    pub fn without_examples(mut self) -> Self {
        self.examples = false;
        self
    }

    /// Streams arguments as they are generated.
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.eager = true;
        self
    }

    /// Exports schemas without `$ref`, `$defs` and `allOf`: every reference is inlined, and the
    /// parts of an `allOf` are merged. A recursive reference is inlined a few times and then
    /// truncated, and the report says `widened`.
    ///
    /// ```
    /// use haft_dialect::Dialect;
    /// use serde_json::json;
    /// use haft_dialect::{ExportOptions, ToolDefinition};
    ///
    /// let input = json!({
    ///     "type": "object",
    ///     "properties": {"to": {"$ref": "#/$defs/place"}},
    ///     "$defs": {"place": {"type": "string", "minLength": 1}},
    /// });
    /// let tool = ToolDefinition::new("go", "Goes there.", &input);
    /// let shown = Dialect::Mcp.export_tool(&tool, &ExportOptions::default().inline());
    /// assert_eq!(
    ///     shown.tool.unwrap()["inputSchema"],
    ///     json!({"type": "object", "properties": {"to": {"type": "string", "minLength": 1}}})
    /// );
    /// ```
    #[must_use]
    pub fn inline(mut self) -> Self {
        self.inline = true;
        self
    }
}

impl Dialect {
    /// Returns the options that are set but that this dialect does not support.
    pub(super) fn unsupported_options(self, options: &ExportOptions) -> Vec<&'static str> {
        let open_ai = matches!(self, Self::OpenAiResponses | Self::OpenAiChat);
        let unable = [
            ("strict", options.strict == StrictMode::On, self.has_strict()),
            ("cache", options.cache.is_some(), matches!(self, Self::Anthropic | Self::Bedrock)),
            (
                "search",
                options.search.is_some(),
                matches!(self, Self::Anthropic | Self::OpenAiResponses),
            ),
            (
                "choice",
                options.choice.is_some(),
                match self {
                    Self::Ollama | Self::Mcp => false,
                    Self::Bedrock => options.choice != Some(ToolChoice::None),
                    _ => true,
                },
            ),
            (
                "parallel",
                options.parallel.is_some(),
                open_ai || matches!(self, Self::Anthropic | Self::Mistral),
            ),
            ("output", options.output, matches!(self, Self::OpenAiResponses | Self::Mcp)),
            ("eager", options.eager, self == Self::Anthropic),
        ];
        unable.into_iter().filter(|(_, set, able)| *set && !able).map(|(name, ..)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_options_are_reported() {
        let options = ExportOptions::default()
            .choice(ToolChoice::None)
            .cache(PromptCacheTtl::OneHour)
            .parallel(false);
        assert_eq!(Dialect::Anthropic.unsupported_options(&options), [""; 0]);
        assert_eq!(Dialect::Bedrock.unsupported_options(&options), ["choice", "parallel"]);
        assert_eq!(Dialect::Ollama.unsupported_options(&options), ["cache", "choice", "parallel"]);
    }
}
