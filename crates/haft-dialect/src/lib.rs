#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! Each directory has one file per provider. `tools` exports tool definitions, `wire` decodes
//! responses (whole and streamed) and encodes results, `history` converts a conversation from one
//! provider to another.
//! INVARIANT: no other crate knows a provider's JSON.

mod options;
mod output_format;
mod toolset;
mod tools;
mod wire;
pub mod history;

use std::{fmt, str::FromStr};

use haft_core::{Error, ErrorKind};
use haft_schema::near::nearest;
pub use haft_schema::{Loss, LossKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::{
    options::{ExportOptions, PromptCacheTtl, StrictMode, ToolChoice, ToolSearch},
    tools::{ExportedTool, ToolAnnotations, ToolDefinition},
    toolset::ToolExport,
    wire::{
        DecodedResponse, ModelResponse, OpeningMarker, RenderResult, ReplyContext, ResponseDecoder,
        ResultBlock, ResultContent, StreamPiece, StreamStart, TokenCounts, block_text,
    },
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

impl Serialize for Dialect {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Dialect {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
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
