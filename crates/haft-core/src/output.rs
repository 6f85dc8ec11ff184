//! `Output`: what a successful call returns.
//!
//! An output is a list of content blocks, and structured data if the tool declares an output
//! schema. Bodies rarely build one: text, `()`, `Json<T>`, `Raw<T>` and streams convert into it.

use std::{borrow::Cow, future::ready, pin::pin};

use futures_core::Stream;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{BoundedBuffer, Failure, FailureCode, ToolContext, schema, stream::Paced};

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
    /// The same as data, if the tool declares an output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
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

/// What a body may return. Implemented for text, `()`, [`Output`], blocks, [`Value`], [`Json`],
/// [`Raw`] and [`StreamOutput`].
pub trait IntoOutput: Send {
    /// Returns the schema of the structured part, if there is one.
    #[must_use]
    fn schema() -> Option<Value> {
        None
    }

    /// Converts the value into an output. Streams are read to the end here, and each chunk is sent.
    fn into_output(self, cx: &ToolContext) -> impl Future<Output = Result<Output, Failure>> + Send;
}

macro_rules! into_output {
    ($($(#[$doc:meta])* $type:ty: |$value:ident| $make:expr;)*) => {$(
        impl IntoOutput for $type {
            fn into_output(
                self,
                _: &ToolContext,
            ) -> impl Future<Output = Result<Output, Failure>> + Send {
                let $value = self;
                ready(Ok($make))
            }
        }
    )*};
}

into_output! {
    Output: |output| output;
    Block: |block| block.into();
    Vec<Block>: |blocks| Output { blocks, structured: None };
    String: |text| Output::text(text);
    Box<str>: |text| Output::text(text);
    &str: |text| Output::text(text);
    Cow<'_, str>: |text| Output::text(text);
    Value: |json| Output::json(json);
    (): |_unit| Output::text("done");
}

/// Data with a schema: the schema is exported, and the data is validated against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send> IntoOutput for Json<T> {
    fn schema() -> Option<Value> {
        Some(schema::of::<T>())
    }

    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        let json = to_value(&self.0)?;
        Ok(Output { blocks: vec![Block::Json { json: json.clone() }], structured: Some(json) })
    }
}

/// Data without a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<T>(pub T);

impl<T: Serialize + Send> IntoOutput for Raw<T> {
    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        Ok(Output::json(to_value(&self.0)?))
    }
}

fn to_value(data: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(data).map_err(|e| {
        Failure::new(FailureCode::BadOutput, "the tool's result cannot be serialized as JSON")
            .with_source(e)
    })
}

/// Streamed text: each chunk is sent at once, and all of them are the result.
#[derive(Debug, Clone, Copy)]
pub struct StreamOutput<S>(pub S);

/// One chunk of a stream: text, or a failure that ends it.
pub trait OutputChunk: Send {
    /// Converts it into text.
    fn into_piece(self) -> Result<String, Failure>;
}

impl OutputChunk for String {
    fn into_piece(self) -> Result<String, Failure> {
        Ok(self)
    }
}

impl OutputChunk for &str {
    fn into_piece(self) -> Result<String, Failure> {
        Ok(self.to_owned())
    }
}

impl<T: Into<String> + Send, E: Into<Failure> + Send> OutputChunk for Result<T, E> {
    fn into_piece(self) -> Result<String, Failure> {
        self.map(Into::into).map_err(Into::into)
    }
}

impl<S: Stream<Item: OutputChunk> + Send> IntoOutput for StreamOutput<S> {
    async fn into_output(self, cx: &ToolContext) -> Result<Output, Failure> {
        // A stream may be endless, so only a bounded part is kept.
        let mut all = BoundedBuffer::new(cx.max_result_bytes());
        let stream = pin!(self.0);
        let mut stream = Paced::new(stream);
        while let Some(piece) = stream.next().await {
            let text = piece.into_piece()?;
            all.push(text.as_bytes());
            cx.partial(text);
        }
        Ok(Output::text(all.into_text()))
    }
}
