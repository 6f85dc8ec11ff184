//! The finished content of a result, and the content types that each provider supports.
//!
//! A host passes text that is already safe for a model: escaped, and with the markers that it
//! wants around it. Where a provider does not support images or audio, a line of text replaces
//! them, so that the model knows there was something it cannot see.
//!
//! INVARIANT: a length limit truncates the body, never the markers.

use std::borrow::Cow;

use haft_core::{Block, Output};
use serde_json::Value;

/// A result that can be written into a provider's message.
pub trait RenderResult {
    /// Returns the id of the call.
    fn call_id(&self) -> &str;

    /// Returns the name that the model called.
    fn name(&self) -> &str;

    /// Returns what the model reads.
    fn content(&self) -> ResultContent<'_>;
}

/// What a model reads about one call. Its text is written as it is: escape it before.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ResultContent<'a> {
    /// The id of the call.
    pub call_id: &'a str,
    /// The name that the model called.
    pub name: &'a str,
    /// Whether the call failed.
    pub is_error: bool,
    /// The name to report when there is no such tool. MCP has an error of its own for that.
    pub unknown_tool: Option<Cow<'a, str>>,
    /// The content, or the text of the failure.
    pub blocks: Vec<ResultBlock<'a>>,
    /// The same as data, for programs. Only MCP has a place for it.
    pub structured: Option<&'a Value>,
    /// A line before the content.
    pub opening: Option<OpeningMarker>,
    /// Lines after the content.
    pub closing: Option<String>,
}

/// One block of a result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ResultBlock<'a> {
    /// The block as text, for a provider that has no such block.
    pub text: Cow<'a, str>,
    /// The block itself; `None` for text.
    pub native: Option<Cow<'a, Block>>,
}

/// A line before the content. The number of characters of the content goes between the two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the type says it")]
pub struct OpeningMarker {
    pub before_count: String,
    pub after_count: String,
}

impl<'a> ResultBlock<'a> {
    /// Makes a block of text.
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), native: None }
    }

    /// Makes a block of a given text form.
    #[must_use]
    pub fn with_native(text: impl Into<Cow<'a, str>>, block: Cow<'a, Block>) -> Self {
        Self { text: text.into(), native: Some(block) }
    }

    fn is(&self, kind: impl Fn(&Block) -> bool) -> bool {
        self.native.as_deref().is_some_and(kind)
    }
}

impl<'a> From<&'a str> for ResultBlock<'a> {
    fn from(text: &'a str) -> Self {
        Self::text(text)
    }
}

impl<'a> From<&'a Block> for ResultBlock<'a> {
    fn from(block: &'a Block) -> Self {
        match block {
            Block::Text { text } => Self::text(text),
            other => Self::with_native(block_text(other), Cow::Borrowed(other)),
        }
    }
}

impl<'a> ResultContent<'a> {
    /// Makes an empty result.
    #[must_use]
    pub fn new(call_id: &'a str, name: &'a str) -> Self {
        Self {
            call_id,
            name,
            is_error: false,
            unknown_tool: None,
            blocks: Vec::new(),
            structured: None,
            opening: None,
            closing: None,
        }
    }

    /// Makes the result of a call that returned this output.
    #[must_use]
    pub fn output(call_id: &'a str, name: &'a str, output: &'a Output) -> Self {
        let blocks = output.blocks.iter().map(ResultBlock::from).collect();
        Self { blocks, structured: output.structured.as_deref(), ..Self::new(call_id, name) }
    }

    /// Makes the result of a call that failed.
    #[must_use]
    pub fn failure(call_id: &'a str, name: &'a str, message: impl Into<Cow<'a, str>>) -> Self {
        let blocks = vec![ResultBlock::text(message)];
        Self { is_error: true, blocks, ..Self::new(call_id, name) }
    }

    /// Whether there is nothing before or after the content.
    pub(super) fn is_bare(&self) -> bool {
        self.opening.is_none() && self.closing.is_none()
    }

    /// Whether some block is a supported image.
    pub(super) fn has_image(&self) -> bool {
        self.blocks.iter().any(|block| block.is(is_image))
    }

    /// Whether some block is one of these.
    pub(super) fn has(&self, kind: impl Fn(&Block) -> bool) -> bool {
        self.blocks.iter().any(|block| block.is(&kind))
    }

    /// Returns the whole result as one text of at most `limit` characters.
    #[must_use]
    pub fn to_text(&self, limit: usize) -> String {
        match self.blocks.as_slice() {
            [one] => self.enclosed(&one.text, limit),
            many => self.enclosed(&joined(many.iter()), limit),
        }
    }

    /// Returns the text of all blocks that are not in `shown`.
    pub(super) fn text_except(&self, shown: impl Fn(&Block) -> bool) -> String {
        self.enclosed(&joined(self.blocks.iter().filter(|block| !block.is(&shown))), usize::MAX)
    }

    /// Encloses a body in its markers. The result has at most `limit` characters.
    fn enclosed(&self, body: &str, limit: usize) -> String {
        let total = body.chars().count();
        let out = self.between_markers(body, total);
        // There are at most as many characters as bytes, so short text is not counted.
        if out.len() <= limit {
            return out;
        }
        let length = out.chars().count();
        if length <= limit {
            return out;
        }
        let body = clip(body, limit.saturating_sub(length - total));
        self.between_markers(&body, body.chars().count())
    }

    fn between_markers(&self, body: &str, chars: usize) -> String {
        let opening = self.opening.as_ref().map(|opening| opening.line(chars)).unwrap_or_default();
        let closing = self.closing.as_deref().unwrap_or_default();
        let mut out = String::with_capacity(opening.len() + body.len() + closing.len() + 2);
        out.push_str(&opening);
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(body);
        if !out.is_empty() && !closing.is_empty() {
            out.push('\n');
        }
        out.push_str(closing);
        out
    }

    /// Returns the result as a list: marker, blocks, marker. Blocks that are not `own` become text
    /// of at most `limit` characters.
    pub(super) fn pieces(&self, limit: usize, own: impl Fn(&Block) -> bool) -> Vec<Piece<'_>> {
        let mut chars = 0;
        let mut body: Vec<Piece<'_>> = Vec::with_capacity(self.blocks.len() + 2);
        for block in &self.blocks {
            match block.native.as_deref().filter(|native| own(native)) {
                Some(native) => {
                    if matches!(native, Block::Json { .. } | Block::Link { .. }) {
                        chars += block.text.chars().count();
                    }
                    body.push(Piece::Own(native));
                }
                None => {
                    let text = clip(&block.text, limit);
                    chars += text.chars().count();
                    body.push(Piece::Text(text));
                }
            }
        }
        if let Some(opening) = &self.opening {
            body.insert(0, Piece::Text(opening.line(chars)));
        }
        body.extend(self.closing.clone().map(Piece::Text));
        body
    }
}

impl RenderResult for ResultContent<'_> {
    fn call_id(&self) -> &str {
        self.call_id
    }

    fn name(&self) -> &str {
        self.name
    }

    fn content(&self) -> ResultContent<'_> {
        self.clone()
    }
}

impl OpeningMarker {
    /// Returns the line for content with this many characters.
    #[must_use]
    pub fn line(&self, chars: usize) -> String {
        format!("{}{chars}{}", self.before_count, self.after_count)
    }
}

/// One element of a content list.
pub(super) enum Piece<'a> {
    /// A marker, or text.
    Text(String),
    /// A block that the provider supports natively.
    Own(&'a Block),
}

/// Returns the short name of an image type that every provider with vision supports.
pub(super) fn image_format(media_type: &str) -> Option<&'static str> {
    Some(match media_type {
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    })
}

/// Whether a block is a supported image.
pub(super) fn is_image(block: &Block) -> bool {
    matches!(block, Block::Image { media_type, .. } if image_format(media_type).is_some())
}

/// Returns a block as text, for a provider that has no such block.
#[must_use]
pub fn block_text(block: &Block) -> Cow<'_, str> {
    let unseen = |kind: &str, media_type: &str, data: &str| {
        format!("[{kind} {media_type}, {} base64 bytes; it cannot be shown here]", data.len())
    };
    match block {
        Block::Text { text } => Cow::Borrowed(text),
        Block::Image { data, media_type } => unseen("image", media_type, data).into(),
        Block::Audio { data, media_type } => unseen("audio", media_type, data).into(),
        Block::Json { .. } | Block::Link { .. } => Output::from(block.clone()).to_text().into(),
    }
}

fn joined<'b>(blocks: impl Iterator<Item = &'b ResultBlock<'b>>) -> String {
    blocks.map(|block| &*block.text).collect::<Vec<_>>().join("\n")
}

/// Truncates text to `limit` characters, with a note about its full length.
fn clip(text: &str, limit: usize) -> String {
    let total = text.chars().count();
    if total <= limit {
        return text.to_owned();
    }
    let note = format!("\n[{total} characters in all; the rest cannot be sent]");
    let capacity = limit.saturating_sub(note.chars().count());
    text.chars().take(capacity).chain(note.chars()).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_content_is_described_in_text() {
        let picture = Block::Image { data: "AAAA".into(), media_type: "image/tiff".into() };
        assert_eq!(
            block_text(&picture),
            "[image image/tiff, 4 base64 bytes; it cannot be shown here]"
        );
        let link = Block::Link { uri: "file:///a".into(), name: "a".into(), media_type: None };
        assert_eq!(block_text(&link), "[link a: file:///a]");
    }

    #[test]
    fn clipped_text_is_within_the_limit_and_says_so() {
        assert_eq!(clip("ééé", 3), "ééé");
        let cut = clip(&"é".repeat(200), 100);
        assert_eq!(cut.chars().count(), 100);
        assert!(cut.ends_with("[200 characters in all; the rest cannot be sent]"), "{cut}");
        assert_eq!(clip("abcdef", 2).chars().count(), 2);
    }

    #[test]
    fn limit_truncates_the_body_and_never_the_markers() {
        let text = "<s>".repeat(1_000);
        let mut content = ResultContent::new("a", "t");
        content.blocks.push(ResultBlock::text(&text));
        content.opening = Some(OpeningMarker {
            before_count: "[haft 0000000000 tool=t from=host chars=".into(),
            after_count: "]".into(),
        });
        content.closing = Some("[/haft 0000000000]".into());
        let whole = content.to_text(usize::MAX);
        for limit in [200, 1_000, whole.len() - 1, whole.len()] {
            let shown = content.to_text(limit);
            assert!(shown.chars().count() <= limit, "{limit}");
            assert!(shown.ends_with("\n[/haft 0000000000]"), "{shown}");
            let body = shown.split_once('\n').unwrap().1.rsplit_once('\n').unwrap().0;
            let opening = shown.lines().next().unwrap();
            assert!(opening.ends_with(&format!("chars={}]", body.chars().count())), "{shown}");
            assert_eq!(body.contains("cannot be sent"), limit < whole.len(), "{limit}");
        }
    }
}
