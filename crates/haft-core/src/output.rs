//! `Output`: what a successful call returns.
//!
//! An output is a list of content blocks, and structured data if the tool declares an output
//! schema. Bodies rarely build one: text, `()`, `Json<T>`, `UncheckedJson<T>` and streams convert
//! into it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

/// One content block.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Data.
    Json {
        /// The data.
        json: Value,
    },
    /// An image.
    Image {
        /// The bytes, in base64.
        data: String,
        /// The media type, e.g. `image/png`.
        media_type: String,
    },
    /// Audio.
    Audio {
        /// The bytes, in base64.
        data: String,
        /// The media type, e.g. `audio/wav`.
        media_type: String,
    },
    /// A reference to content stored elsewhere.
    Link {
        /// The URI.
        uri: String,
        /// The name.
        name: String,
        /// The media type.
        media_type: Option<String>,
    },
}

impl Block {
    /// Makes a text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// What a successful call returns.
///
/// ```
/// use haft_core::{Block, Output};
///
/// let names = Block::Json { json: ["a", "b"].into_iter().collect() };
/// let output = Output::text("two files").and(names);
/// assert_eq!(output.to_text(), "two files\n[\"a\",\"b\"]");
/// assert_eq!(output.to_string(), output.to_text());
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Output {
    /// The content, in order.
    pub blocks: Vec<Block>,
    /// The same as data, if the tool declares an output schema. Boxed, because most outputs have
    /// none and every output is moved often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<Value>>,
}

impl Output {
    /// Makes an output of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { blocks: vec![Block::text(text)], structured: None }
    }

    /// Makes an output of one JSON value.
    #[must_use]
    pub fn json(json: Value) -> Self {
        Self { blocks: vec![Block::Json { json }], structured: None }
    }

    /// Adds a block.
    #[must_use]
    pub fn and(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    /// Returns the content as text. A single text block is borrowed.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        match self.blocks.as_slice() {
            [Block::Text { text }] => Cow::Borrowed(text),
            _ => Cow::Owned(self.to_text()),
        }
    }

    /// Returns the content as text. Media and links become one line each.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for block in &self.blocks {
            if !out.is_empty() {
                out.push('\n');
            }
            match block {
                Block::Text { text } => out.push_str(text),
                Block::Json { json } => out.push_str(&json.to_string()),
                Block::Image { media_type, data } => {
                    out.push_str(&format!("[image {media_type}, {} base64 bytes]", data.len()));
                }
                Block::Audio { media_type, data } => {
                    out.push_str(&format!("[audio {media_type}, {} base64 bytes]", data.len()));
                }
                Block::Link { uri, name, .. } => out.push_str(&format!("[link {name}: {uri}]")),
            }
        }
        out
    }
}

/// Writes the content as text, as [`Output::to_text`] does.
impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.as_text())
    }
}

impl From<Block> for Output {
    fn from(block: Block) -> Self {
        Self { blocks: vec![block], structured: None }
    }
}
