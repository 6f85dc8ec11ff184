//! Makes an outcome fit to be shown: secrets out, control characters visible, size bounded.
//!
//! In: the outcome and the tool's bound. Out: the same, cut to the bound as a whole, with a line
//! that says how much is missing. Cuts keep head and tail and fall between characters. Where the
//! run's bytes are counted, the result is no larger than what is left for it. A failure's words take
//! the same way as a result's.

use std::{borrow::Cow, cell::Cell};

use haft_core::{Block, Bound, Context, Failure, Output, Ran};
use serde_json::Value;

use crate::{
    envelope::{Answer, Cut},
    hygiene,
    policy::Held,
    redact::Redactor,
    runtime::Inner,
};

/// Shapes an outcome, and says how many spots of it were cleaned.
pub(super) fn shape(
    outcome: Result<Output, Failure>,
    bound: Option<Bound>,
    held: Option<&mut Held>,
    cx: &Context,
    inner: &Inner,
) -> (Answer, Option<Cut>, usize) {
    let config = &inner.config;
    match outcome {
        Ok(mut output) => {
            let altered = Cell::new(0);
            each_text(&mut output, &inner.redactor, &|text| washed(inner, text, &altered));
            let mut cut = bound_output(&mut output, bound.unwrap_or_default(), config.max_result);
            if let Some(held) = held
                && let Some(room) = held.room(bytes(&output))
            {
                cut = squeeze(&mut output, room, cut);
            }
            (Answer::Output(output), cut, altered.get())
        }
        Err(failure) => {
            let mut interrupted_output = String::new();
            // However it ended, what had come is worth having: a stream may stop, fail or break.
            if failure.ran() != Ran::No {
                interrupted_output = partial(inner, cx);
                let limit = limit_of(bound.unwrap_or_default(), config.max_result);
                interrupted_output.truncate(nth_char(&interrupted_output, limit));
                if let Some(room) = held.and_then(|held| held.room(interrupted_output.len())) {
                    interrupted_output.truncate(interrupted_output.floor_char_boundary(room));
                }
            }
            let failure = inner.redactor.failure(failure);
            (Answer::Failure { failure, interrupted_output }, None, 0)
        }
    }
}

/// Returns the text as it may be shown; nothing when it may stay as it is. Counts the spots that were
/// cleaned.
fn washed(inner: &Inner, text: &str, altered: &Cell<usize>) -> Option<String> {
    // Hygiene first: a secret must not hide behind characters that nobody sees.
    let cleaned = hygiene::clean(text);
    altered.set(altered.get() + cleaned.stripped + cleaned.made_visible);
    match cleaned.text {
        Cow::Borrowed(text) => match inner.redactor.text(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        },
        Cow::Owned(text) => match inner.redactor.text(&text) {
            Cow::Borrowed(_) => Some(text),
            Cow::Owned(text) => Some(text),
        },
    }
}

/// Changes every text of an output, whether it stands in a block, in data or in a key.
fn each_text(output: &mut Output, redactor: &Redactor, change: &impl Fn(&str) -> Option<String>) {
    let replace = |text: &mut String| {
        if let Some(changed) = change(text) {
            *text = changed;
        }
    };
    for block in &mut output.blocks {
        match block {
            Block::Text { text } => replace(text),
            Block::Json { json } => each_leaf(json, redactor, change),
            Block::Image { media_type, .. } | Block::Audio { media_type, .. } => {
                replace(media_type);
            }
            Block::Link { uri, name, media_type } => {
                replace(uri);
                replace(name);
                media_type.iter_mut().for_each(replace);
            }
        }
    }
    if let Some(data) = &mut output.structured {
        each_leaf(data, redactor, change);
    }
}

/// Changes every text in data, keys included.
fn each_leaf(data: &mut Value, redactor: &Redactor, change: &impl Fn(&str) -> Option<String>) {
    match data {
        Value::String(text) => {
            if let Some(changed) = change(text) {
                *text = changed;
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| each_leaf(item, redactor, change));
        }
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match redactor.under(key, value) {
                    Some(shown) => *value = shown,
                    None => each_leaf(value, redactor, change),
                }
            }
            if map.keys().any(|key| change(key).is_some()) {
                let old = std::mem::take(map);
                map.extend(
                    old.into_iter().map(|(key, value)| (change(&key).unwrap_or(key), value)),
                );
            }
        }
        Value::Number(number) => {
            if let Some(shown) = redactor.number(number) {
                *data = Value::String(shown);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Returns what a body had told, as it may be shown. Where it was cut because it grew too long, what
/// could be the beginning of a secret is left out.
fn partial(inner: &Inner, cx: &Context) -> String {
    let told = cx.partial_so_far();
    let text = hygiene::clean(&told).text;
    match cx.partial_is_full() {
        true => inner.redactor.cut_text(&text),
        false => inner.redactor.text(&text).into_owned(),
    }
}

/// Cuts an output so that the whole of it stays within the bound.
fn bound_output(output: &mut Output, bound: Bound, hard: usize) -> Option<Cut> {
    let limit = limit_of(bound, hard);
    // Structured data repeats the text, so it gets as much room, and cannot be cut and stay true.
    if output.structured.as_ref().is_some_and(|data| json_size(data) > limit.min(hard)) {
        output.structured = None;
    }
    // Bytes bound characters from above, so the common case counts nothing.
    let bytes: usize = output.blocks.iter().map(weight).sum();
    if bytes <= limit && bytes <= hard {
        return None;
    }
    let of: usize = output.blocks.iter().map(chars).sum();
    if of <= limit && bytes <= hard {
        return None;
    }
    output.structured = None;
    // Where bytes are the bound, a character may be four of them.
    let mut room = if bytes > hard { limit.min(hard / 4) } else { limit };
    let mut shown = 0;
    let mut kept = Vec::new();
    for block in output.blocks.drain(..) {
        let size = chars(&block);
        if size <= room && weight(&block) <= hard {
            room -= size;
            shown += size;
            kept.push(block);
            continue;
        }
        let text = match block {
            Block::Text { text } => text,
            Block::Json { json } => json.to_string(),
            // Half a picture is no picture.
            Block::Image { .. } => "[a picture is left out: too large]".to_owned(),
            Block::Audio { .. } => "[sound is left out: too large]".to_owned(),
            Block::Link { uri, .. } => uri,
        };
        let (head, tail) = head_and_tail(&text, room);
        shown += head.chars().count() + tail.chars().count();
        kept.push(Block::text(format!(
            "{head}\n[… cut: {shown} of {of} characters are shown …]\n{tail}"
        )));
        break;
    }
    output.blocks = kept;
    Some(Cut { of, shown })
}

/// Returns the most bytes that a result with this bound can have.
pub(crate) fn most_bytes(bound: Bound, hard: usize) -> usize {
    // A character has up to four, and a cut adds a line.
    limit_of(bound, hard).saturating_mul(4).saturating_add(128).min(hard)
}

/// Returns how many bytes of results an outcome shows.
pub(super) fn bytes_shown(outcome: &Answer) -> usize {
    match outcome {
        Answer::Output(output) => bytes(output),
        Answer::Failure { interrupted_output, .. } => interrupted_output.len(),
    }
}

/// The bytes of an output: of its blocks with a line between them, or of the same as data.
fn bytes(output: &Output) -> usize {
    let size = |block: &Block| match block {
        Block::Text { text } => text.len(),
        other => weight(other),
    };
    let blocks: usize = output.blocks.iter().map(size).sum();
    let between = output.blocks.len().saturating_sub(1);
    (blocks + between).max(output.structured.as_ref().map_or(0, json_size))
}

const NO_ROOM: &str = "\n[… cut: this run has no room for more …]\n";

/// Cuts an output to so many bytes, with the line that says so where it fits.
fn squeeze(output: &mut Output, room: usize, cut: Option<Cut>) -> Option<Cut> {
    if output.structured.as_ref().is_some_and(|data| json_size(data) > room) {
        output.structured = None;
    }
    if bytes(output) <= room {
        return cut;
    }
    let of = cut.map_or_else(|| output.blocks.iter().map(chars).sum(), |cut| cut.of);
    output.structured = None;
    let (mut left, mut shown, mut kept) = (room, 0, Vec::new());
    for block in output.blocks.drain(..) {
        let between = usize::from(!kept.is_empty());
        let size = weight(&block) + between;
        if size + NO_ROOM.len() < left {
            left -= size;
            shown += chars(&block);
            kept.push(block);
            continue;
        }
        let text = match block {
            Block::Text { text } => text,
            Block::Json { json } => json.to_string(),
            Block::Image { .. } | Block::Audio { .. } => String::new(),
            Block::Link { uri, .. } => uri,
        };
        left = left.saturating_sub(between);
        let (marked, room) = match left.checked_sub(NO_ROOM.len()) {
            Some(room) => (true, room),
            None => (false, left),
        };
        let tail = if marked { room / 4 } else { 0 };
        let head_end = text.floor_char_boundary(room - tail);
        let tail_start = text.ceil_char_boundary(text.len().saturating_sub(tail)).max(head_end);
        let (head, tail) = (&text[..head_end], &text[tail_start..]);
        shown += head.chars().count() + tail.chars().count();
        let text = if marked { format!("{head}{NO_ROOM}{tail}") } else { head.to_owned() };
        if !text.is_empty() {
            kept.push(Block::text(text));
        }
        break;
    }
    output.blocks = kept;
    Some(Cut { of, shown })
}

fn limit_of(bound: Bound, hard: usize) -> usize {
    match bound {
        Bound::Chars(chars) => chars,
        Bound::Unbounded => hard,
    }
}

/// Keeps three quarters of the room for the head and a quarter for the tail.
fn head_and_tail(text: &str, room: usize) -> (&str, &str) {
    let tail_room = room / 4;
    let head_end = nth_char(text, room - tail_room);
    let tail_start = match tail_room {
        0 => text.len(),
        n => text.char_indices().rev().nth(n - 1).map_or(0, |(at, _)| at),
    };
    (&text[..head_end], &text[tail_start.max(head_end)..])
}

fn nth_char(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

fn chars(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.chars().count().max(1),
        other => weight(other),
    }
}

fn weight(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.len().max(1),
        Block::Json { json } => json_size(json),
        Block::Image { data, media_type } | Block::Audio { data, media_type } => {
            data.len() + media_type.len()
        }
        Block::Link { uri, name, media_type } => {
            uri.len() + name.len() + media_type.as_ref().map_or(0, String::len)
        }
    }
}

/// The length of the compact text, without writing it.
fn json_size(json: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, json);
    count.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_small_result_is_left_alone() {
        let mut output = Output::text("é".repeat(10));
        assert_eq!(bound_output(&mut output, Bound::Chars(10), 1_000), None);
        assert_eq!(output.to_text().chars().count(), 10);
    }

    #[test]
    fn the_bound_holds_for_all_blocks_together() {
        let many = vec![Block::text("x".repeat(100)); 50];
        let mut output = Output { blocks: many, structured: Some(json!(1)) };
        let cut = bound_output(&mut output, Bound::Chars(1_000), 1 << 20).unwrap();
        assert_eq!(cut.of, 5_000);
        assert!(cut.shown <= 1_000);
        assert!(output.to_text().len() < 1_200);
        assert_eq!(output.structured, None);
    }

    #[test]
    fn unbounded_is_still_capped() {
        let mut output = Output::text("x".repeat(10_000));
        let cut = bound_output(&mut output, Bound::Unbounded, 1_000).unwrap();
        assert!(cut.shown <= 1_000);
    }

    proptest! {
        #[test]
        fn a_squeezed_output_has_room(
            texts in prop::collection::vec("(é|a|漢|🦀|\n){0,60}", 0..5),
            data in any::<bool>(),
            room in 1usize..200,
        ) {
            let blocks: Vec<Block> = texts.iter().map(|text| Block::text(text.clone())).collect();
            let structured = data.then(|| json!(texts));
            let mut output = Output { blocks, structured };
            let before = output.clone();
            match squeeze(&mut output, room, None) {
                None => prop_assert_eq!(output.blocks, before.blocks),
                Some(cut) => {
                    prop_assert!(bytes(&output) <= room);
                    prop_assert!(output.to_text().len() <= room);
                    prop_assert!(cut.shown <= cut.of);
                    prop_assert!(bytes(&before) > room);
                }
            }
        }

        #[test]
        fn cuts_fall_between_characters_and_keep_head_and_tail(
            text in "(é|a|漢|🦀|\n){0,60}", limit in 1usize..40,
        ) {
            let mut output = Output::text(text.clone());
            let of = text.chars().count();
            match bound_output(&mut output, Bound::Chars(limit), 1 << 20) {
                None => prop_assert!(of <= limit),
                Some(cut) => {
                    prop_assert_eq!(cut.of, of);
                    prop_assert_eq!(cut.shown, limit);
                    let shown = output.to_text();
                    let (head, rest) = shown.split_once("\n[… cut").unwrap();
                    let tail = rest.split_once("shown …]\n").unwrap().1;
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                }
            }
        }
    }
}
