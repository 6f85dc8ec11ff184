//! What an answer says, in the kinds of content that a provider takes.
//!
//! Where a provider takes no picture or no sound, a line of text stands for it and says so: the
//! model should know that there was something it cannot see.

use std::borrow::Cow;

use haft_core::{Block, Output};

use crate::envelope::Envelope;

/// Returns the short name of a kind of picture that every provider with eyes takes.
pub(super) fn picture(media_type: &str) -> Option<&'static str> {
    Some(match media_type {
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    })
}

/// Returns the blocks of a success; a failure has none.
pub(super) fn blocks(answer: &Envelope) -> &[Block] {
    answer.output().map(|output| output.blocks.as_slice()).unwrap_or_default()
}

/// Whether the answer holds a picture that can be shown.
pub(super) fn has_picture(answer: &Envelope) -> bool {
    blocks(answer)
        .iter()
        .any(|b| matches!(b, Block::Image { media_type, .. } if picture(media_type).is_some()))
}

/// Returns a block as text; what cannot be shown is described.
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

/// Returns the whole answer as text. A failure's code opens its text, so that a provider without
/// an error flag hears of it too.
pub(super) fn plain(answer: &Envelope) -> Cow<'_, str> {
    match blocks(answer) {
        [] => answer.text(),
        [one] => described(one),
        many => many.iter().map(described).collect::<Vec<_>>().join("\n").into(),
    }
}

/// Returns the text of all blocks that are not in `shown`.
pub(super) fn text_beside(answer: &Envelope, shown: impl Fn(&Block) -> bool) -> String {
    let texts = blocks(answer).iter().filter(|block| !shown(block)).map(described);
    texts.collect::<Vec<_>>().join("\n")
}

/// Cuts text to so many characters, and says in it how many are missing.
pub(super) fn clip(text: Cow<'_, str>, limit: usize) -> String {
    // Bytes are never fewer than characters, and counting them costs nothing.
    let total = if text.len() <= limit { text.len() } else { text.chars().count() };
    if total <= limit {
        return text.into_owned();
    }
    let note = format!("\n[{total} characters in all; the rest cannot be sent]");
    let room = limit.saturating_sub(note.chars().count());
    text.chars().take(room).chain(note.chars()).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipped_text_fits_and_says_so() {
        assert_eq!(clip("ééé".into(), 3), "ééé");
        let cut = clip("é".repeat(200).into(), 100);
        assert_eq!(cut.chars().count(), 100);
        assert!(cut.ends_with("[200 characters in all; the rest cannot be sent]"), "{cut}");
        assert_eq!(clip("abcdef".into(), 2).chars().count(), 2);
    }

    #[test]
    fn what_cannot_be_shown_is_said_to_be_so() {
        let picture = Block::Image { data: "AAAA".into(), media_type: "image/tiff".into() };
        assert_eq!(
            described(&picture),
            "[image image/tiff, 4 base64 bytes; it cannot be shown here]"
        );
        let link = Block::Link { uri: "file:///a".into(), name: "a".into(), media_type: None };
        assert_eq!(described(&link), "[link a: file:///a]");
    }
}
