//! Renders a result in the content types that a provider supports.
//!
//! Where a provider does not support images or audio, a line of text replaces them, so that the
//! model knows there was something it cannot see.

use std::borrow::Cow;

use haft_core::{Block, Output};

use crate::{
    frame::{Framed, clip},
    tool_result::ToolResult,
};

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

/// Returns the blocks of a success; empty for a failure.
pub(super) fn blocks(answer: &ToolResult) -> &[Block] {
    answer.output().map(|output| output.blocks.as_slice()).unwrap_or_default()
}

/// Whether a block is a supported image.
pub(super) fn is_image(block: &Block) -> bool {
    matches!(block, Block::Image { media_type, .. } if image_format(media_type).is_some())
}

/// Whether the result has a supported image.
pub(super) fn has_image(answer: &ToolResult) -> bool {
    blocks(answer).iter().any(is_image)
}

/// Returns a block as text. A block that is not supported is described.
pub(super) fn described(block: &Block) -> Cow<'_, str> {
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

/// Returns the whole result as text inside its untrusted-content markers, truncated to `limit`
/// characters. A failure starts with its code, for providers without an error flag.
pub(super) fn plain(answer: &ToolResult, limit: usize) -> String {
    let framed = Framed::new(answer);
    let body = match (framed.failure(), blocks(answer)) {
        (Some(failure), _) => Cow::Owned(failure),
        (None, [one]) => described(one),
        (None, many) => many.iter().map(described).collect::<Vec<_>>().join("\n").into(),
    };
    framed.around(&body, limit)
}

/// Returns the text of all blocks that are not in `shown`, inside its markers.
pub(super) fn text_except(answer: &ToolResult, shown: impl Fn(&Block) -> bool) -> String {
    let texts = blocks(answer).iter().filter(|block| !shown(block)).map(described);
    Framed::new(answer).around(&texts.collect::<Vec<_>>().join("\n"), usize::MAX)
}

/// One element of a content list.
pub(super) enum Piece<'a> {
    /// A marker, or text that is safe between markers.
    Text(String),
    /// A block that the provider supports natively.
    Own(&'a Block),
}

/// Returns the result as a list: marker, blocks, marker. Blocks that are not `own` become text of
/// at most `limit` characters.
pub(super) fn pieces(
    answer: &ToolResult,
    limit: usize,
    own: impl Fn(&Block) -> bool,
) -> Vec<Piece<'_>> {
    let framed = Framed::new(answer);
    let mut body: Vec<Piece<'_>> = match framed.failure() {
        Some(failure) => vec![Piece::Text(clip(&framed.body(&failure), limit))],
        None => {
            let texts = blocks(answer).iter().filter(|block| !own(block)).map(described);
            let mut texts = framed.bodies(texts.collect()).into_iter();
            let piece = |block| {
                if own(block) {
                    Piece::Own(block)
                } else {
                    Piece::Text(clip(&texts.next().unwrap_or_default(), limit))
                }
            };
            blocks(answer).iter().map(piece).collect()
        }
    };
    let chars = body.iter().map(|piece| match piece {
        Piece::Text(text) => text.chars().count(),
        Piece::Own(block @ (Block::Json { .. } | Block::Link { .. })) => {
            described(block).chars().count()
        }
        Piece::Own(_) => 0,
    });
    if let Some(opening) = framed.opening(chars.sum()) {
        body.insert(0, Piece::Text(opening));
    }
    body.extend(framed.closing().map(Piece::Text));
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_content_is_described_in_text() {
        let picture = Block::Image { data: "AAAA".into(), media_type: "image/tiff".into() };
        assert_eq!(
            described(&picture),
            "[image image/tiff, 4 base64 bytes; it cannot be shown here]"
        );
        let link = Block::Link { uri: "file:///a".into(), name: "a".into(), media_type: None };
        assert_eq!(described(&link), "[link a: file:///a]");
    }
}
