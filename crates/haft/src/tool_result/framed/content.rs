//! What a dialect writes about a result: its blocks as text and as they are, escaped, and the
//! markers around them.
//!
//! A provider may join texts with nothing or a line break between them, and may take some blocks
//! out of the row because it shows them natively.
//! INVARIANT: no such row contains a marker that a tool wrote.

use std::borrow::Cow;

use haft_core::{Block, FailureCode};
use haft_dialect::{RenderResult, ResultBlock, ResultContent, block_text};
use haft_sanitize::escape_invisible;

use super::{Answer, Framed, ToolResult};

impl RenderResult for ToolResult {
    fn call_id(&self) -> &str {
        self.id().as_str()
    }

    fn name(&self) -> &str {
        self.requested_name().as_str()
    }

    fn content(&self) -> ResultContent<'_> {
        let framed = Framed::new(self);
        let mut content = framed.empty_content();
        match &self.outcome {
            Answer::Output(output) => {
                content.structured = output.structured.as_deref();
                content.blocks = framed.escaped(&output.blocks);
            }
            Answer::Failure { failure, .. } => {
                content.is_error = true;
                let text = framed.failure().unwrap_or_default();
                content.blocks.push(ResultBlock::text(framed.body(&text).into_owned()));
                // A tool that is not offered to the client must look like one that does not exist.
                if matches!(failure.code(), FailureCode::UnknownTool | FailureCode::NotOffered) {
                    let name = escape_invisible(self.requested_name().as_str());
                    content.unknown_tool = Some(framed.body(&name).into_owned().into());
                }
            }
        }
        content
    }
}

impl<'a> Framed<'a> {
    /// Returns the markers, without blocks between them.
    pub(super) fn empty_content(&self) -> ResultContent<'a> {
        let mut content =
            ResultContent::new(self.answer.id.as_str(), self.answer.requested_name.as_str());
        content.opening = self.opening();
        content.closing = self.closing();
        content
    }

    /// Escapes the blocks, as text and as they are.
    fn escaped(&self, blocks: &'a [Block]) -> Vec<ResultBlock<'a>> {
        let native = |block: &'a Block| match block {
            Block::Text { .. } => None,
            block if self.answer.seal.is_neutral() => Some(Cow::Owned(self.block(block))),
            block => Some(Cow::Borrowed(block)),
        };
        let texts = self.escaped_texts(blocks);
        let pairs = blocks.iter().zip(texts);
        pairs
            .map(|(block, text)| match native(block) {
                Some(native) => ResultBlock::with_native(text, native),
                None => ResultBlock::text(text),
            })
            .collect()
    }

    fn escaped_texts(&self, blocks: &'a [Block]) -> Vec<Cow<'a, str>> {
        let mut texts: Vec<Cow<'a, str>> = blocks.iter().map(block_text).collect();
        if !self.answer.seal.is_neutral() {
            return texts;
        }
        if let [text] = &mut texts[..] {
            let escaped = match &*text {
                Cow::Borrowed(text) => self.body(text),
                Cow::Owned(text) => self.body(text).into_owned().into(),
            };
            return vec![escaped];
        }
        let kinds: Vec<u8> = blocks.iter().map(kind).collect();
        let present = kinds.iter().fold(0, |all, kind| all | kind);
        // Escaping is idempotent, so each row adds to the one before.
        for native in (0..=ALL_KINDS).filter(|native| native & !present == 0) {
            let row: Vec<usize> = (0..kinds.len()).filter(|n| kinds[*n] & native == 0).collect();
            for separator in ["", "\n"] {
                let parts = row.iter().flat_map(|n| [texts[*n].clone(), Cow::Borrowed(separator)]);
                let escaped = self.bodies(parts.collect());
                for (n, text) in row.iter().zip(escaped.into_iter().step_by(2)) {
                    texts[*n] = Cow::Owned(text);
                }
            }
        }
        texts
    }
}

/// All bits that [`kind`] returns.
const ALL_KINDS: u8 = 0b1111;

/// A bit for the kind of a block that a provider may show natively; 0 for text.
fn kind(block: &Block) -> u8 {
    match block {
        Block::Text { .. } => 0,
        Block::Json { json } if json.is_object() => 0b0001,
        // Providers accept only objects natively.
        Block::Json { .. } => 0,
        Block::Image { .. } => 0b0010,
        Block::Audio { .. } => 0b0100,
        Block::Link { .. } => 0b1000,
    }
}

#[cfg(test)]
mod tests {
    use haft_core::{Label, Output};
    use serde_json::json;

    use super::*;
    use crate::frame::{Frame, Nonces, Seal};

    fn answer(blocks: Vec<Block>) -> ToolResult {
        let mut seal = Seal::draw(Frame::Always, &Nonces::counting(0));
        seal.settle(Label::default(), false, 0);
        ToolResult {
            id: "a".into(),
            requested_name: "t".into(),
            tool_name: "t".into(),
            outcome: Answer::Output(Output { blocks, structured: None }),
            label: Label::default(),
            origin: None,
            truncation: None,
            repairs: None,
            replaced_by: None,
            tier: None,
            left: None,
            elapsed: std::time::Duration::ZERO,
            seal,
        }
    }

    #[test]
    fn marker_across_blocks_is_escaped_in_every_row_that_a_provider_can_make() {
        let image = || Block::Image { data: "AAAA".into(), media_type: "image/png".into() };
        let data = || Block::Json { json: json!({"n": 1}) };
        let (open, name, rest) =
            (|| Block::text("["), || Block::text("haft"), || Block::text("er"));
        for blocks in [
            vec![open(), name()],
            vec![open(), image(), name()],
            vec![open(), data(), name()],
            vec![open(), image(), data(), name()],
            // Only with line breaks between them.
            vec![open(), name(), rest()],
            vec![open(), image(), name(), rest()],
        ] {
            let answer = answer(blocks.clone());
            let content = answer.content();
            assert_eq!(content.blocks[0].text, "<U+005B>", "{blocks:?}");
        }
        let harmless = answer(vec![open(), Block::text("half")]);
        assert_eq!(harmless.content().blocks[0].text, "[");
    }
}
