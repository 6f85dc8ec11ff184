//! Results that arrive piece by piece under keys, or block by block.
//!
//! Each piece is told when it comes, and all of them become the result. If the stream is interrupted
//! or fails, what had come stays part of the answer. What is held for the result is bounded; past
//! the bound pieces are still told, and the result says how much it lacks.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};

use futures_core::Stream;

use crate::{Block, Failure, IntoOutput, Output, StreamOutput, ToolContext};

/// So many bytes of a stream are held for the result; more is a mistake, and would hurt the process.
const MOST: usize = 16 << 20;
/// What a key or a block costs beyond its text.
const EACH: usize = 128;

impl<S> StreamOutput<S> {
    /// Makes a result of pieces that come under keys, such as the lines of several jobs. Each key
    /// becomes a paragraph, in the order in which they first came.
    pub fn keyed(stream: S) -> KeyedStream<S> {
        KeyedStream { stream, fold: paragraphs }
    }

    /// Makes a result of pieces that come under keys with a formatter of one's own. It is given each
    /// key with all its text, in the order in which the keys first came.
    pub fn fold<T, F>(stream: S, fold: F) -> KeyedStream<S, F>
    where
        T: IntoOutput,
        F: FnOnce(Vec<(String, String)>) -> T + Send,
    {
        KeyedStream { stream, fold }
    }

    /// Makes a result of blocks that come one by one: text, pictures, data. Texts that follow each
    /// other become one.
    pub fn blocks(stream: S) -> Blocks<S> {
        Blocks(stream)
    }
}

/// Pieces that come under keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyedStream<S, F = fn(Vec<(String, String)>) -> String> {
    stream: S,
    fold: F,
}

/// Blocks that come one by one.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<S>(S);

/// One piece under a key, or a failure that ends the stream.
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

impl<K: Into<String> + Send, T: Into<String> + Send, E: Into<Failure> + Send> KeyedChunk
    for Result<(K, T), E>
{
    fn into_keyed(self) -> Result<(String, String), Failure> {
        let (key, text) = self.map_err(Into::into)?;
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
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut room = Room::new();
        {
            let stream = pin!(self.stream);
            let mut stream = Paced::new(stream);
            while let Some(piece) = stream.next().await {
                let (key, text) = piece.into_keyed()?;
                let place = places.get(&key).copied();
                let extra = if place.is_some() { 0 } else { key.len() * 2 + EACH };
                let kept = room.take(&text, extra);
                match place.and_then(|at| all.get_mut(at)) {
                    Some((_, whole)) => whole.push_str(kept),
                    None if kept.is_empty() && !text.is_empty() => {}
                    None => {
                        places.insert(key.clone(), all.len());
                        all.push((key.clone(), kept.to_owned()));
                    }
                }
                cx.partial_of(key, text);
            }
        }
        let output = (self.fold)(all).into_output(cx).await?;
        Ok(room.say(output))
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

impl<E: Into<Failure> + Send> BlockChunk for Result<Block, E> {
    fn into_block(self) -> Result<Block, Failure> {
        self.map_err(Into::into)
    }
}

impl<S: Stream<Item: BlockChunk> + Send> IntoOutput for Blocks<S> {
    async fn into_output(self, cx: &ToolContext) -> Result<Output, Failure> {
        let mut output = Output::default();
        let mut room = Room::new();
        let stream = pin!(self.0);
        let mut stream = Paced::new(stream);
        while let Some(piece) = stream.next().await {
            match (piece.into_block()?, output.blocks.last_mut()) {
                (Block::Text { text }, Some(Block::Text { text: whole })) => {
                    whole.push_str(room.take(&text, 0));
                    cx.partial(text);
                }
                (Block::Text { text }, _) => {
                    let kept = room.take(&text, EACH).to_owned();
                    output.blocks.push(Block::text(kept));
                    cx.partial(text);
                }
                (block, _) => {
                    let line = Output::from(block.clone()).to_text();
                    if room.has(size(&block) + EACH) {
                        output.blocks.push(block);
                    }
                    cx.partial(format!("{line}\n"));
                }
            }
        }
        Ok(room.say(output))
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

/// A stream that lets others have their turn, also when it is always ready: otherwise one without an
/// end could neither be stopped nor run out of time.
pub(crate) struct Paced<'a, S> {
    stream: Pin<&'a mut S>,
    in_a_row: u32,
}

/// So many pieces are taken in a row.
const IN_A_ROW: u32 = 64;

impl<'a, S: Stream> Paced<'a, S> {
    pub(crate) fn new(stream: Pin<&'a mut S>) -> Self {
        Self { stream, in_a_row: 0 }
    }

    pub(crate) async fn next(&mut self) -> Option<S::Item> {
        poll_fn(|task| {
            if self.in_a_row >= IN_A_ROW {
                self.in_a_row = 0;
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            let piece = self.stream.as_mut().poll_next(task);
            self.in_a_row = if piece.is_ready() { self.in_a_row + 1 } else { 0 };
            piece
        })
        .await
    }
}

/// The room for what is held, and how much had none.
struct Room {
    left: usize,
    lacks: usize,
}

impl Room {
    fn new() -> Self {
        Self { left: MOST, lacks: 0 }
    }

    /// Returns as much of a text as there is room for.
    fn take<'t>(&mut self, text: &'t str, extra: usize) -> &'t str {
        self.left = self.left.saturating_sub(extra);
        let kept = &text[..text.floor_char_boundary(self.left)];
        self.left -= kept.len();
        self.lacks += text.len() - kept.len();
        kept
    }

    /// Returns whether there is room for something that cannot be cut.
    fn has(&mut self, size: usize) -> bool {
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => self.lacks += size,
        }
        self.lacks == 0
    }

    /// Says how much the result lacks, if anything.
    fn say(&self, output: Output) -> Output {
        match self.lacks {
            0 => output,
            lacks => output.and(Block::text(format!(
                "[… {lacks} more bytes came than are kept, and are not part of this result …]"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_paragraphs_in_the_order_they_came() {
        let all = [("b", "one\n"), ("a", "two"), ("c", "")];
        let all = all.map(|(key, text)| (key.to_owned(), text.to_owned())).to_vec();
        assert_eq!(paragraphs(all), "b:\none\n\na:\ntwo\n\nc:\n");
    }

    #[test]
    fn room_is_cut_between_characters_and_what_lacks_is_said() {
        let mut room = Room { left: 5, lacks: 0 };
        assert_eq!(room.take("éé", 0), "éé");
        assert_eq!(room.take("é", 0), "");
        assert!(!room.has(1));
        let said = room.say(Output::text("x")).to_text();
        assert_eq!(
            said,
            "x\n[… 2 more bytes came than are kept, and are not part of this result …]"
        );
    }
}
