//! Prepares an outcome for the model: redacts secrets, sanitizes control characters, bounds the
//! size.
//!
//! In: the outcome, already within the tool's limit (see `bound`). Out: the same, ready to show. If
//! the run has a byte budget, the result is no larger than what is left of it. Failure messages are
//! treated like results.

use std::{cell::Cell, sync::Arc};

use haft_core::{
    Block, Execution, Failure, FailureCode, Output, ResultLimit, ToolContext, host::HostContext,
};
use serde_json::Value;

use super::truncate::limit_of;
use crate::{
    budget::BudgetReservation,
    call::Inner,
    frame::Keys,
    outcome::Outcome,
    secrets::RuntimeRedactor,
    text::{json_size, nth_char},
    tool_result::{Answer, Truncation},
};

/// Redacts and sanitizes an outcome in place. Returns how many places were sanitized.
#[inline(always)]
pub(super) fn sanitize(outcome: &mut Outcome, inner: &Inner) -> usize {
    let altered = Cell::new(0);
    let sanitizer = Sanitizer { redactor: &inner.redactor, altered: &altered };
    match outcome {
        Ok(output) => sanitizer.output(output),
        Err(failure) => sanitizer.failure(failure),
    }
    altered.get()
}

/// Outcomes of this size are sanitized on a blocking thread: a hostile text of this size takes some
/// milliseconds, in which an executor could serve many other calls.
const LARGE_OUTCOME_BYTES: usize = 64 << 10;

/// Sanitizes an outcome on a blocking thread.
pub(super) async fn sanitized_off_executor(
    mut outcome: Outcome,
    inner: &Arc<Inner>,
) -> (Outcome, usize) {
    let inner = Arc::clone(inner);
    let work = move || {
        let altered = sanitize(&mut outcome, &inner);
        (outcome, altered)
    };
    let Ok(executor) = tokio::runtime::Handle::try_current() else { return work() };
    // FAIL CLOSED: a result that was not redacted is not shown.
    let lost = |_| {
        let failure = Failure::new(FailureCode::UnknownOutcome, "the result could not be redacted");
        (Err(failure), 0)
    };
    executor.spawn_blocking(work).await.unwrap_or_else(lost)
}

/// Whether an outcome is so large that it is sanitized on another thread.
#[inline(always)]
pub(super) fn is_large(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(output) if is_large_output(output))
}

/// Whether the texts of an output, together, are large.
#[inline(always)]
fn is_large_output(output: &Output) -> bool {
    // Deeper data is removed later, so it is not counted.
    fn take(left: &mut usize, value: &Value, depth: usize) {
        match value {
            _ if depth == 0 => {}
            Value::String(text) => *left = left.saturating_sub(text.len()),
            Value::Array(items) => {
                for item in items {
                    if *left == 0 {
                        return;
                    }
                    take(left, item, depth - 1);
                }
            }
            Value::Object(map) => {
                for (key, item) in map {
                    if *left == 0 {
                        return;
                    }
                    *left = left.saturating_sub(key.len());
                    take(left, item, depth - 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => *left = left.saturating_sub(1),
        }
    }
    let mut left = LARGE_OUTCOME_BYTES;
    for block in &output.blocks {
        match block {
            Block::Json { json } => take(&mut left, json, MAX_DEPTH),
            other => left = left.saturating_sub(weight(other)),
        }
    }
    output.structured.iter().for_each(|data| take(&mut left, data, MAX_DEPTH));
    left == 0
}

/// Sanitizes data that was parsed from a text: the escapes of the text are resolved only now.
pub(super) fn sanitize_data(data: &mut Value, inner: &Inner) {
    Sanitizer { redactor: &inner.redactor, altered: &Cell::new(0) }.data(data, MAX_DEPTH);
}

/// Bounds a sanitized outcome by what is left of the byte budget, and adds what a failed body had
/// streamed.
#[inline(always)]
pub(super) fn within_budget(
    outcome: Outcome,
    mut cut: Option<Box<Truncation>>,
    bound: Option<ResultLimit>,
    reservation: Option<&mut BudgetReservation>,
    cx: &ToolContext,
    inner: &Inner,
) -> (Answer, Option<Box<Truncation>>) {
    let config = &inner.config;
    match outcome {
        Ok(mut output) => {
            if let Some(reservation) = reservation
                && let Some(room) = reservation.room(bytes(&output))
            {
                cut = squeeze(&mut output, room, cut.map(|cut| *cut)).map(Box::new);
            }
            (Answer::Output(output), cut)
        }
        Err(failure) => {
            let mut interrupted_output = String::new();
            // The output that was streamed before the failure is useful to the model.
            if failure.execution() != Execution::NotStarted {
                let told = partial(inner, cx);
                let chars = limit_of(bound.unwrap_or_default(), config.max_result);
                let room = reservation.and_then(|own| own.room(told.len())).unwrap_or(usize::MAX);
                let of = cx.partial_is_full().then(|| cx.partial_size());
                interrupted_output = told_within(told, chars, room, of);
            }
            (Answer::Failure { failure, interrupted_output }, None)
        }
    }
}

/// Redacts and sanitizes texts, and counts the places that were changed.
struct Sanitizer<'a> {
    redactor: &'a RuntimeRedactor,
    altered: &'a Cell<usize>,
}

/// The depth to which data is sanitized; deeper data is removed. No parser goes deeper, so only a
/// tool that builds its data in code reaches this limit.
const MAX_DEPTH: usize = 128;

/// The maximum length of a failure message after sanitizing, which can make it longer.
const MAX_MESSAGE_BYTES: usize = 8_000;

impl Sanitizer<'_> {
    /// Returns the sanitized text; `None` if nothing had to change.
    fn changed(&self, text: &str) -> Option<String> {
        let (changed, altered) = self.redactor.sanitize_and_redact(text);
        self.altered.set(self.altered.get() + altered);
        changed
    }

    fn text(&self, text: &mut String) {
        if let Some(changed) = self.changed(text) {
            *text = changed;
        }
    }

    /// Redacts and sanitizes the message of a failure, as for a result.
    #[cold]
    fn failure(&self, failure: &mut Failure) {
        // The count is for the model; texts for the operator are not in it.
        let read: usize = [Some(failure.message()), failure.next()]
            .into_iter()
            .flatten()
            .map(|text| haft_sanitize::sanitize(text))
            .map(|cleaned| cleaned.stripped + cleaned.made_visible)
            .sum();
        self.altered.set(self.altered.get() + read);
        // FAIL CLOSED: if this panics, no text is left that was not redacted.
        let lost = Failure::new(FailureCode::UnknownOutcome, "the failure could not be redacted");
        let whole = std::mem::replace(failure, lost);
        let whole = self.redactor.failure(whole).reworded(|text| {
            let (changed, _) = self.redactor.sanitize_and_redact(text);
            let long = changed.as_deref().unwrap_or(text);
            match long.len() > MAX_MESSAGE_BYTES {
                true => Some(format!(
                    "{} … ({} bytes in all)",
                    &long[..long.floor_char_boundary(MAX_MESSAGE_BYTES)],
                    long.len()
                )),
                false => changed,
            }
        });
        // A truncated text may end in a part of a secret, also after sanitizing.
        *failure = self.redactor.failure(whole);
    }

    /// Sanitizes every text of an output: blocks, data and keys.
    fn output(&self, output: &mut Output) {
        for block in &mut output.blocks {
            match block {
                Block::Text { text } => self.text(text),
                Block::Json { json } => self.data(json, MAX_DEPTH),
                Block::Image { data, media_type } | Block::Audio { data, media_type } => {
                    self.text(media_type);
                    // FAIL CLOSED: a text in an image cannot be redacted.
                    if self.redactor.holds_known_secret(data) {
                        *block = Block::text(SECRET_MEDIA);
                    }
                }
                Block::Link { uri, name, media_type } => {
                    self.text(uri);
                    self.text(name);
                    media_type.iter_mut().for_each(|text| self.text(text));
                }
            }
        }
        if let Some(data) = &mut output.structured {
            self.data(data, MAX_DEPTH);
        }
    }

    /// Sanitizes every text in data, including keys.
    fn data(&self, data: &mut Value, depth: usize) {
        match data {
            Value::String(text) => self.text(text),
            Value::Number(number) => {
                if let Some(shown) = self.redactor.number(number) {
                    *data = Value::String(shown);
                }
            }
            Value::Null | Value::Bool(_) => {}
            // FAIL CLOSED: data that was not sanitized is not shown.
            Value::Array(_) | Value::Object(_) if depth == 0 => {
                take_apart(std::mem::replace(data, Value::String(TOO_DEEP.to_owned())));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.data(item, depth - 1)),
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    match self.redactor.secret_field(key, value) {
                        Some(shown) => *value = shown,
                        None => self.data(value, depth - 1),
                    }
                }
                if map.keys().any(|key| self.redactor.sanitize_and_redact(key).0.is_some()) {
                    let mut keys = Keys::default();
                    let old = std::mem::take(map).into_iter();
                    *map = old
                        .map(|(key, value)| (keys.own(self.changed(&key).unwrap_or(key)), value))
                        .collect();
                }
            }
        }
    }
}

const TOO_DEEP: &str = "[REDACTED:too-deep:0]";
const SECRET_MEDIA: &str = "[an image or audio is omitted: it contains a secret]";

/// Drops data level by level: a recursive drop could overflow the stack.
fn take_apart(data: Value) {
    let mut open = vec![data];
    while let Some(data) = open.pop() {
        match data {
            Value::Array(items) => open.extend(items),
            Value::Object(map) => open.extend(map.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

/// Returns the streamed output of a body, sanitized. If it was truncated, an end that could be the
/// beginning of a secret is removed.
fn partial(inner: &Inner, cx: &ToolContext) -> String {
    let told = cx.partial_so_far();
    let mut stream = inner.redactor.sanitizing_stream();
    let text = stream.feed(&told);
    match cx.partial_is_full() {
        true => text,
        false => text + &stream.finish(),
    }
}

/// Truncates streamed output to a number of characters and bytes. If something is missing, a line
/// says how much there was: `of` bytes, if they were counted.
fn told_within(text: String, chars: usize, bytes: usize, of: Option<u64>) -> String {
    let fits = text.len() <= bytes && nth_char(&text, chars) == text.len();
    if fits && of.is_none() {
        return text;
    }
    let of = of.unwrap_or(text.len() as u64);
    let notice = format!("\n[… truncated: {of} bytes in total …]");
    let room = (chars.saturating_sub(notice.chars().count()), bytes.saturating_sub(notice.len()));
    let (chars, bytes, notice) = match room {
        // A shorter rest would be all notice.
        (chars, bytes) if chars >= 24 && bytes >= 24 => (chars, bytes, notice.as_str()),
        _ => (chars, bytes, ""),
    };
    let end = nth_char(&text, chars).min(text.floor_char_boundary(bytes));
    format!("{}{notice}", &text[..end])
}

/// Returns the maximum bytes of a result with this limit in characters.
pub(crate) fn most_bytes(bound: ResultLimit, hard: usize) -> usize {
    // A character has up to four bytes, and truncation adds a line.
    limit_of(bound, hard).saturating_mul(4).saturating_add(128).min(hard)
}

/// Returns how many bytes of results an outcome shows.
pub(super) fn bytes_shown(outcome: &Answer) -> usize {
    match outcome {
        Answer::Output(output) => bytes(output),
        Answer::Failure { interrupted_output, .. } => interrupted_output.len(),
    }
}

/// The bytes of an output: its blocks with line breaks between them, or its data.
fn bytes(output: &Output) -> usize {
    let size = |block: &Block| match block {
        Block::Text { text } => text.len(),
        other => weight(other),
    };
    let blocks: usize = output.blocks.iter().map(size).sum();
    let between = output.blocks.len().saturating_sub(1);
    (blocks + between).max(output.structured.as_deref().map_or(0, json_size))
}

const BUDGET_USED_UP: &str = "\n[… truncated: the byte budget of this run is used up …]\n";

/// Truncates an output to a number of bytes, with a notice if it fits.
fn squeeze(output: &mut Output, room: usize, cut: Option<Truncation>) -> Option<Truncation> {
    if output.structured.as_ref().is_some_and(|data| json_size(data) > room) {
        output.structured = None;
    }
    if bytes(output) <= room {
        return cut;
    }
    let of = cut.map_or_else(|| output.blocks.iter().map(chars).sum(), |cut| cut.total_chars);
    output.structured = None;
    let (mut left, mut shown, mut kept) = (room, 0, Vec::new());
    for block in output.blocks.drain(..) {
        let between = usize::from(!kept.is_empty());
        let size = weight(&block) + between;
        if size + BUDGET_USED_UP.len() < left {
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
        let (marked, room) = match left.checked_sub(BUDGET_USED_UP.len()) {
            Some(room) => (true, room),
            None => (false, left),
        };
        let tail = if marked { room / 4 } else { 0 };
        let head_end = text.floor_char_boundary(room - tail);
        let tail_start = text.ceil_char_boundary(text.len().saturating_sub(tail)).max(head_end);
        let (head, tail) = (&text[..head_end], &text[tail_start..]);
        shown += head.chars().count() + tail.chars().count();
        let text = if marked { format!("{head}{BUDGET_USED_UP}{tail}") } else { head.to_owned() };
        if !text.is_empty() {
            kept.push(Block::text(text));
        }
        break;
    }
    output.blocks = kept;
    Some(Truncation {
        total_chars: of,
        shown_chars: shown,
        artifact: cut.and_then(|cut| cut.artifact),
    })
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
            let structured = data.then(|| Box::new(json!(texts)));
            let mut output = Output { blocks, structured };
            let before = output.clone();
            match squeeze(&mut output, room, None) {
                None => prop_assert_eq!(output.blocks, before.blocks),
                Some(cut) => {
                    prop_assert!(bytes(&output) <= room);
                    prop_assert!(output.to_text().len() <= room);
                    prop_assert!(cut.shown_chars <= cut.total_chars);
                    prop_assert!(bytes(&before) > room);
                }
            }
        }
    }
}
