//! Provider formats (dialects): tool definitions out, model responses in, tool results out, and
//! message history between providers.
//!
//! Each directory has one file per provider. `tools` exports the tools of a registry, `wire`
//! decodes responses (whole and streamed) and encodes results, `history` converts a conversation
//! from one provider to another. `schema` lowers JSON Schema to the subset a provider supports.
//! INVARIANT: no module outside `export` knows a provider's JSON.

mod options;
mod report;
mod schema;
mod toolset;
mod tools;
mod wire;
pub mod history;

use std::{fmt, str::FromStr};

pub(crate) use self::toolset::Exports;
pub use self::{
    options::{ExportOptions, PromptCacheTtl, StrictMode, ToolChoice, ToolSearch},
    report::{Loss, LossKind},
    tools::{ExportedTool, ToolAnnotations, ToolDefinition},
    toolset::ToolExport,
    wire::{DecodedResponse, ModelResponse, ReplyContext, ResponseDecoder},
};
use crate::{
    error::{Error, ErrorKind},
    near::nearest,
};

/// The JSON format of a provider's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAiResponses,
    /// OpenAI Chat Completions, and the many servers compatible with it.
    OpenAiChat,
    /// Gemini, with `parameters` (its own subset of OpenAPI).
    Gemini,
    /// Gemini, with `parametersJsonSchema`.
    GeminiJson,
    /// Amazon Bedrock Converse.
    Bedrock,
    /// Mistral chat.
    Mistral,
    /// Ollama's own chat.
    Ollama,
    /// The Model Context Protocol.
    Mcp,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: &'static [Dialect] = &[
        Dialect::Anthropic,
        Dialect::OpenAiResponses,
        Dialect::OpenAiChat,
        Dialect::Gemini,
        Dialect::GeminiJson,
        Dialect::Bedrock,
        Dialect::Mistral,
        Dialect::Ollama,
        Dialect::Mcp,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiChat => "openai-chat",
            Self::Gemini => "gemini",
            Self::GeminiJson => "gemini-json",
            Self::Bedrock => "bedrock",
            Self::Mistral => "mistral",
            Self::Ollama => "ollama",
            Self::Mcp => "mcp",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.iter().copied().find(|d| d.as_str() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|d| d.as_str()).collect();
            let error = Error::new(
                ErrorKind::BadConfig,
                format!("unknown dialect `{text}`; known dialects: {}", names.join(", ")),
            );
            match nearest(text, names) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error,
            }
        })
    }
}
