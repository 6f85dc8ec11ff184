//! Streamed results: text, chunks under keys, or content blocks.
//!
//! Each chunk is sent to the observers when it arrives, and all of them become the result. If the
//! stream is interrupted or fails, its partial output stays in the result. The collected result is
//! bounded: later chunks are still sent, and the result says how many bytes were dropped.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};

use futures_core::Stream;

use crate::{Block, BoundedBuffer, Failure, IntoOutput, Output, ToolContext, ToolError};

/// How many bytes of a stream are collected for the result, to bound memory.
const MAX_STREAM_BYTES: usize = 16 << 20;
/// What a key or a block costs beyond its text.
const ITEM_OVERHEAD_BYTES: usize = 128;

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

impl<T: Into<String> + Send, E: Into<ToolError> + Send> OutputChunk for Result<T, E> {
    fn into_piece(self) -> Result<String, Failure> {
        self.map(Into::into).map_err(|error| error.into().into())
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

impl<S> StreamOutput<S> {
    /// Makes a result of chunks under keys, such as the lines of several jobs. Each key becomes a
    /// paragraph, in the order of first appearance.
    pub fn keyed(stream: S) -> KeyedStream<S> {
        KeyedStream { stream, fold: paragraphs }
    }

    /// Makes a result of chunks under keys with a custom formatter. The formatter gets each key
    /// with all its text, in the order of first appearance.
    pub fn fold<T, F>(stream: S, fold: F) -> KeyedStream<S, F>
    where
        T: IntoOutput,
        F: FnOnce(Vec<(String, String)>) -> T + Send,
    {
        KeyedStream { stream, fold }
    }

    /// Makes a result of content blocks: text, images, data. Adjacent texts are merged.
    pub fn blocks(stream: S) -> Blocks<S> {
        Blocks(stream)
    }
}

/// A stream of chunks under keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyedStream<S, F = fn(Vec<(String, String)>) -> String> {
    stream: S,
    fold: F,
}

/// A stream of content blocks.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<S>(S);

/// One chunk under a key, or a failure that ends the stream.
pub trait KeyedChunk: Send {
    /// Turns it into a key and a text.
    ///
    /// # Errors
    /// Returns the failure that ends the stream.
    fn into_keyed(self) -> Result<(String, String), Failure>;
}

impl<K: Into<String> + Send, T: Into<String> + Send> KeyedChunk for (K, T) {
    fn into_keyed(self) -> Result<(String, String), Failure> {
        Ok((self.0.into(), self.1.into()))
    }
}

impl<K: Into<String> + Send, T: Into<String> + Send, E: Into<ToolError> + Send> KeyedChunk
    for Result<(K, T), E>
{
    fn into_keyed(self) -> Result<(String, String), Failure> {
        let (key, text) = self.map_err(Into::<ToolError>::into)?;
        Ok((key.into(), text.into()))
    }
}

impl<S, F, T> IntoOutput for KeyedStream<S, F>
where
    S: Stream<Item: KeyedChunk> + Send,
    F: FnOnce(Vec<(String, String)>) -> T + Send,
    T: IntoOutput,
{
    fn schema() -> Option<serde_json::Value> {
        T::schema()
    }

    async fn into_output(self, cx: &ToolContext) -> Result<Output, Failure> {
        let mut all: Vec<(String, String)> = Vec::new();
        let mut indexes: HashMap<String, usize> = HashMap::new();
        let mut budget = ByteBudget::new();
        {
            let stream = pin!(self.stream);
            let mut stream = Paced::new(stream);
            while let Some(chunk) = stream.next().await {
                let (key, text) = chunk.into_keyed()?;
                let index = indexes.get(&key).copied();
                let extra = if index.is_some() { 0 } else { key.len() * 2 + ITEM_OVERHEAD_BYTES };
                let kept = budget.take(&text, extra);
                match index.and_then(|at| all.get_mut(at)) {
                    Some((_, whole)) => whole.push_str(kept),
                    None if kept.is_empty() && !text.is_empty() => {}
                    None => {
                        indexes.insert(key.clone(), all.len());
                        all.push((key.clone(), kept.to_owned()));
                    }
                }
                cx.partial_of(key, text);
            }
        }
        let output = (self.fold)(all).into_output(cx).await?;
        Ok(budget.note_dropped(output))
    }
}

/// Writes each key as a paragraph.
fn paragraphs(all: Vec<(String, String)>) -> String {
    let mut out = String::new();
    for (key, text) in all {
        if !out.is_empty() {
            out.push_str(if out.ends_with('\n') { "\n" } else { "\n\n" });
        }
        out.push_str(&key);
        out.push_str(":\n");
        out.push_str(&text);
    }
    out
}

/// One block of a stream, or a failure that ends it.
pub trait BlockChunk: Send {
    /// Turns it into a block.
    ///
    /// # Errors
    /// Returns the failure that ends the stream.
    fn into_block(self) -> Result<Block, Failure>;
}

impl BlockChunk for Block {
    fn into_block(self) -> Result<Block, Failure> {
        Ok(self)
    }
}

impl<E: Into<ToolError> + Send> BlockChunk for Result<Block, E> {
    fn into_block(self) -> Result<Block, Failure> {
        self.map_err(|error| error.into().into())
    }
}

impl<S: Stream<Item: BlockChunk> + Send> IntoOutput for Blocks<S> {
    async fn into_output(self, cx: &ToolContext) -> Result<Output, Failure> {
        let mut output = Output::default();
        let mut budget = ByteBudget::new();
        let stream = pin!(self.0);
        let mut stream = Paced::new(stream);
        while let Some(chunk) = stream.next().await {
            match (chunk.into_block()?, output.blocks.last_mut()) {
                (Block::Text { text }, Some(Block::Text { text: whole })) => {
                    whole.push_str(budget.take(&text, 0));
                    cx.partial(text);
                }
                (Block::Text { text }, _) => {
                    let kept = budget.take(&text, ITEM_OVERHEAD_BYTES).to_owned();
                    output.blocks.push(Block::text(kept));
                    cx.partial(text);
                }
                (block, _) => {
                    let line = Output::from(block.clone()).to_text();
                    if budget.fits(size(&block) + ITEM_OVERHEAD_BYTES) {
                        output.blocks.push(block);
                    }
                    cx.partial(format!("{line}\n"));
                }
            }
        }
        Ok(budget.note_dropped(output))
    }
}

fn size(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.len(),
        Block::Json { json } => json.to_string().len(),
        Block::Image { data, .. } | Block::Audio { data, .. } => data.len(),
        Block::Link { uri, name, .. } => uri.len() + name.len(),
    }
}

/// Yields to the executor after a number of ready items. Without it, an endless stream that is
/// always ready could be neither cancelled nor timed out.
struct Paced<'a, S> {
    stream: Pin<&'a mut S>,
    in_a_row: u32,
}

/// How many ready items are taken before yielding.
const MAX_ITEMS_IN_A_ROW: u32 = 64;

impl<'a, S: Stream> Paced<'a, S> {
    fn new(stream: Pin<&'a mut S>) -> Self {
        Self { stream, in_a_row: 0 }
    }

    async fn next(&mut self) -> Option<S::Item> {
        poll_fn(|task| {
            if self.in_a_row >= MAX_ITEMS_IN_A_ROW {
                self.in_a_row = 0;
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            let item = self.stream.as_mut().poll_next(task);
            self.in_a_row = if item.is_ready() { self.in_a_row + 1 } else { 0 };
            item
        })
        .await
    }
}

/// The bytes that may still be collected, and the count of those that were dropped.
struct ByteBudget {
    left: usize,
    dropped: usize,
}

impl ByteBudget {
    fn new() -> Self {
        Self { left: MAX_STREAM_BYTES, dropped: 0 }
    }

    /// Returns the prefix of a text that fits.
    fn take<'t>(&mut self, text: &'t str, extra: usize) -> &'t str {
        self.left = self.left.saturating_sub(extra);
        let kept = &text[..text.floor_char_boundary(self.left)];
        self.left -= kept.len();
        self.dropped += text.len() - kept.len();
        kept
    }

    /// Returns whether an item that cannot be truncated fits.
    fn fits(&mut self, size: usize) -> bool {
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => self.dropped += size,
        }
        self.dropped == 0
    }

    /// Adds a note about dropped bytes to the result, if there are any.
    fn note_dropped(&self, output: Output) -> Output {
        match self.dropped {
            0 => output,
            dropped => output.and(Block::text(format!(
                "[… {dropped} more bytes were dropped and are not part of this result …]"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_paragraphs_in_order_of_first_appearance() {
        let all = [("b", "one\n"), ("a", "two"), ("c", "")];
        let all = all.map(|(key, text)| (key.to_owned(), text.to_owned())).to_vec();
        assert_eq!(paragraphs(all), "b:\none\n\na:\ntwo\n\nc:\n");
    }

    #[test]
    fn text_is_truncated_on_a_character_boundary_and_the_rest_is_counted() {
        let mut budget = ByteBudget { left: 5, dropped: 0 };
        assert_eq!(budget.take("éé", 0), "éé");
        assert_eq!(budget.take("é", 0), "");
        assert!(!budget.fits(1));
        let text = budget.note_dropped(Output::text("x")).to_text();
        assert_eq!(text, "x\n[… 2 more bytes were dropped and are not part of this result …]");
    }
}
