//! Makes an outcome fit to be shown: secrets out, control characters visible, size bounded.
//!
//! In: the outcome, already within the tool's bound (`bound` sees to that). Out: the same, as it may
//! be told. Where the run's bytes are counted, the result is no larger than what is left for it. A
//! failure's words take the same way as a result's.

use std::{borrow::Cow, cell::Cell};

use haft_core::{Block, Bound, Context, Output, Ran};
use serde_json::Value;

use super::bound::limit_of;
use crate::{
    artifact::nth_char,
    envelope::{Answer, Cut},
    hygiene,
    layers::Outcome,
    policy::Held,
    redact::Redactor,
    runtime::Inner,
};

/// Takes out of an outcome what must not be shown, and says how many spots were cleaned.
pub(super) fn washed(mut outcome: Outcome, inner: &Inner) -> (Outcome, usize) {
    let altered = Cell::new(0);
    // What a failure says takes the same way; here what nobody sees, further on what nobody may see.
    outcome = outcome.map_err(|failure| {
        failure.reworded(|text| match hygiene::clean(text).text {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        })
    });
    if let Ok(output) = &mut outcome {
        each_text(output, &inner.redactor, &|text| clean(inner, text, &altered));
    }
    (outcome, altered.get())
}

/// Shapes an outcome that is washed and within its bound; `cut` is what that took.
pub(super) fn shape(
    outcome: Outcome,
    mut cut: Option<Box<Cut>>,
    bound: Option<Bound>,
    held: Option<&mut Held>,
    cx: &Context,
    inner: &Inner,
) -> (Answer, Option<Box<Cut>>) {
    let config = &inner.config;
    match outcome {
        Ok(mut output) => {
            if let Some(held) = held
                && let Some(room) = held.room(bytes(&output))
            {
                cut = squeeze(&mut output, room, cut.map(|cut| *cut)).map(Box::new);
            }
            (Answer::Output(output), cut)
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
            (Answer::Failure { failure, interrupted_output }, None)
        }
    }
}

/// Returns the text as it may be shown; nothing when it may stay as it is. Counts the spots that were
/// cleaned.
fn clean(inner: &Inner, text: &str, altered: &Cell<usize>) -> Option<String> {
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
    Some(Cut { of, shown, kept: cut.and_then(|cut| cut.kept) })
}

pub(super) fn chars(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.chars().count().max(1),
        other => weight(other),
    }
}

pub(super) fn weight(block: &Block) -> usize {
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
pub(super) fn json_size(json: &Value) -> usize {
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
    }
}
