//! What a host may choose about an export.

use super::Dialect;

/// Whether the provider shall hold the model to the schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum StrictMode {
    /// Where the provider does it well and every meaning is kept. The one thing given up is that a
    /// model could send keys which an object neither names nor explicitly allows; the report says so.
    #[default]
    Auto,
    /// Wherever it can be done.
    On,
    /// Nowhere.
    Off,
}

/// How long a provider shall keep the tools in its prompt cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptCacheTtl {
    /// Five minutes after the last use.
    FiveMinutes,
    /// An hour after the last use.
    OneHour,
}

/// How deferred tools are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolSearch {
    /// By the provider, with regular expressions (Anthropic).
    Regex,
    /// By the provider, with ranked words.
    Ranked,
    /// By the host.
    Own,
}

/// Which tool the model shall call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// Any, but one.
    Any,
    /// None.
    None,
    /// This one, by its own name.
    Tool(String),
}

/// What a host may choose about an export. The default is what a provider handles best.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Whether the provider shall hold the model to the schemas.
    pub strict: StrictMode,
    /// Whether the tools get a mark for the prompt cache (Anthropic, Bedrock).
    pub cache: Option<PromptCacheTtl>,
    /// Whether deferred tools are left to the provider's tool search (Anthropic, Responses).
    pub search: Option<ToolSearch>,
    /// Which tool the model shall call.
    pub choice: Option<ToolChoice>,
    /// Whether the model may call several tools at once.
    pub parallel: Option<bool>,
    /// Whether the tools' examples are shown (Anthropic).
    pub examples: bool,
    /// Whether the schemas of results are shown where that is possible (Responses).
    pub output: bool,
    /// Whether arguments shall be streamed unchecked as they are written (Anthropic).
    pub eager: bool,
    /// Whether schemas are shown without `$ref`, `$defs` and `allOf`, for a server or a model that
    /// does not follow them.
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
    /// Sets whether the provider shall hold the model to the schemas.
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

    /// Sets which tool the model shall call.
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

    /// Shows the schemas of results.
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

    /// Asks for arguments as they are written.
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.eager = true;
        self
    }

    /// Shows schemas without `$ref`, `$defs` and `allOf`: every reference is replaced by what it means,
    /// and the parts of an `allOf` are put together. A reference that leads back to itself is unfolded a
    /// few times and then cut, and the report says `widened`.
    ///
    /// ```
    /// use haft::{ToolDefinition, Dialect, ExportOptions, serde_json::json};
    ///
    /// let input = json!({
    ///     "type": "object",
    ///     "properties": {"to": {"$ref": "#/$defs/place"}},
    ///     "$defs": {"place": {"type": "string", "minLength": 1}},
    /// });
    /// let tool = ToolDefinition::new("go", "Goes there.", &input);
    /// let shown = Dialect::Mcp.show(&tool, &ExportOptions::default().inline());
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
    /// Returns the options that are set and that this dialect has no word for.
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
    fn what_a_dialect_cannot_say_is_told() {
        let options = ExportOptions::default()
            .choice(ToolChoice::None)
            .cache(PromptCacheTtl::OneHour)
            .parallel(false);
        assert_eq!(Dialect::Anthropic.unsupported_options(&options), [""; 0]);
        assert_eq!(Dialect::Bedrock.unsupported_options(&options), ["choice", "parallel"]);
        assert_eq!(Dialect::Ollama.unsupported_options(&options), ["cache", "choice", "parallel"]);
    }
}
