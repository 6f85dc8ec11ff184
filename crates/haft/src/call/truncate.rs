//! Truncates results that are too large: the whole is stored as an artifact, and the model sees a
//! head, a tail and where the rest is.
//!
//! In: a sanitized and redacted output, and the tool's limit. Out: an output whose text, including
//! the notice, is within the limit. If the store is full or fails, the rest is lost, and the notice
//! says so. Most results are small and skip this.

use std::sync::Arc;

use haft_core::{Block, Label, Output, ResultLimit, ToolContext};
use serde_json::Value;
use tokio::sync::oneshot;

use super::sanitize::{chars, sanitize_data, weight};
use crate::{
    artifact::{self, ArtifactMeta, Draft, Ends, Items, NotKept, Owner, READER},
    call::Inner,
    call::TurnCore,
    config::Config,
    host_code::timed,
    outcome::Outcome,
    text::{head, json_size, nth_char},
    tool_result::Truncation,
};

/// How many images of one result are stored. Each one adds a note to the result.
const MAX_STORED_MEDIA: usize = 8;

/// Structured data up to this fraction of the limit is kept next to a truncated text. Small data is
/// not a copy of the text but describes it, as the exit code of a command does.
const BESIDE: usize = 8;

/// Returns the limit of a result in characters.
pub(super) fn limit_of(bound: ResultLimit, hard: usize) -> usize {
    match bound {
        ResultLimit::Chars(chars) => chars,
        ResultLimit::Unbounded => hard,
    }
}

/// Returns whether a result is over its limit. A small result is not counted.
#[inline(always)]
pub(super) fn is_over(outcome: &Outcome, bound: Option<ResultLimit>, config: &Config) -> bool {
    let Ok(output) = outcome else { return false };
    let hard = config.max_result;
    let limit = limit_of(bound.unwrap_or_default(), hard);
    // Structured data repeats the text, so it has the same limit. It cannot be truncated.
    if output.structured.as_ref().is_some_and(|data| json_size(data) > limit.min(hard)) {
        return true;
    }
    // A text never has more characters than bytes.
    let between = output.blocks.len().saturating_sub(1);
    let bytes = output.blocks.iter().map(weight).sum::<usize>() + between;
    bytes > hard
        || bytes > limit && output.blocks.iter().map(chars).sum::<usize>() + between > limit
}

/// A truncated result.
pub(super) struct TruncatedOutput {
    pub(super) output: Output,
    pub(super) truncation: Truncation,
    /// The artifacts, and how many characters of each are shown.
    pub(super) stored: Vec<(ArtifactMeta, usize)>,
}

/// Stores a result as an artifact, and returns what is shown of it.
pub(super) async fn truncate(
    turn: &TurnCore,
    cx: &ToolContext,
    label: Label,
    output: Output,
    bound: ResultLimit,
) -> TruncatedOutput {
    let hard = turn.run.inner.config.max_result;
    let bytes = output.blocks.iter().map(weight).sum::<usize>() + output.blocks.len();
    let limit = limit_of(bound, hard);
    // If the limit is in bytes, a character can be four of them.
    let limit = if bytes > hard { limit.min(hard / 4) } else { limit };
    let Output { blocks, structured } = output;
    let keeper = Keeper { turn, cx, label };
    let mut out = TruncatedOutput {
        output: Output::default(),
        truncation: Truncation { total_chars: 0, shown_chars: 0, artifact: None },
        stored: Vec::new(),
    };
    let (media, words): (Vec<Block>, Vec<Block>) = blocks
        .into_iter()
        .partition(|block| matches!(block, Block::Image { .. } | Block::Audio { .. }));
    let text_size = words.iter().map(chars).sum::<usize>() + words.len();
    // Text has priority: it may use half of the limit before an image is left out for it.
    let mut media_room = limit - text_size.min(limit / 2);
    let (mut pictures, mut notes) = (Vec::new(), Vec::new());
    for block in media {
        let size = weight(&block);
        out.truncation.total_chars += size;
        if size <= media_room {
            media_room -= size;
            out.truncation.shown_chars += size;
            pictures.push(block);
        } else {
            let kept = match notes.len() {
                n if n < MAX_STORED_MEDIA => keeper.keep_media(&block).await,
                _ => Err(NotKept::Full),
            };
            notes.push(media_note(&block, size, &kept));
            out.stored.extend(kept.ok().map(|facts| (facts, 0)));
        }
    }
    let used: usize = pictures.iter().map(weight).sum();
    let mut room = limit.saturating_sub(used);
    // Data that is larger than its text is an artifact of its own.
    let repeats = |data: &Value| matches!(words.as_slice(), [Block::Json { json }] if json == data);
    let data = structured.filter(|data| !repeats(data));
    if let Some(data) = &data {
        let size = json_size(data);
        if size > limit.min(hard) || text_size > room && size > limit / BESIDE {
            let body = artifact::spread(data).into();
            let kept = keeper.keep(body, artifact::JSON, Items::of(data)).await;
            notes.push(data_note(size, &kept, keeper.reader()));
            out.truncation.total_chars += size;
            out.stored.extend(kept.ok().map(|facts| (facts, 0)));
        } else {
            out.output.structured = Some(data.clone());
        }
    }
    let notes = fitting(notes, room / 2);
    room = room.saturating_sub(notes.as_ref().map_or(0, |note| note.chars().count() + 1));
    if text_size.saturating_sub(1) <= room {
        out.truncation.total_chars += text_size.saturating_sub(1);
        out.truncation.shown_chars += text_size.saturating_sub(1);
        out.output.blocks = words;
    } else {
        out.output.structured.take_if(|data| json_size(data) > limit / BESIDE);
        let whole = Whole::of(words, hard, &turn.run.inner);
        let kept = keeper.keep(Arc::clone(&whole.body), whole.media, whole.items).await;
        let (shown, blocks) = whole.shown(room, &kept, keeper.reader());
        out.truncation.total_chars += whole.chars;
        out.truncation.shown_chars += shown;
        out.output.blocks = blocks;
        if let Ok(facts) = kept {
            out.stored.insert(0, (facts, shown));
        }
    }
    out.output.blocks.extend(notes.map(Block::text));
    out.output.blocks.extend(pictures);
    out.truncation.artifact = out.stored.first().map(|(facts, _)| facts.id);
    out
}

/// Stores artifacts of one call.
struct Keeper<'a> {
    turn: &'a TurnCore,
    cx: &'a ToolContext,
    label: Label,
}

impl Keeper<'_> {
    async fn keep(
        &self,
        body: Arc<[u8]>,
        media: &str,
        items: Option<u64>,
    ) -> Result<ArtifactMeta, NotKept> {
        let is_text = media == artifact::TEXT || media == artifact::JSON;
        let inner = &self.turn.run.inner;
        let draft = Draft {
            tool: self.cx.tool_name().clone(),
            run: self.cx.run_id().clone(),
            owner: Owner::of(self.cx.scope(), &inner.artifacts.mark, &self.turn.run.line),
            label: self.label,
            media: media.chars().take(100).collect(),
            items,
            body,
            is_text,
        };
        let store = inner.artifacts.store.clone();
        if !store.is_blocking() {
            return store.put(draft);
        }
        let (send, receive) = oneshot::channel();
        let job = move || {
            let _ = send.send(store.put(draft));
        };
        let trouble = |why: &str| Err(NotKept::Trouble(why.to_owned()));
        if inner.threads.run(Box::new(job)).is_err() {
            return trouble("there is no thread to write it");
        }
        // Another process may have locked the store, or the disk may hang. The result is not held
        // up by that.
        match timed(&*inner.clock, inner.config.policy_timeout, receive).await {
            Some(Ok(kept)) => kept,
            Some(Err(_)) => trouble("writing it failed"),
            None => trouble("writing it took too long"),
        }
    }

    async fn keep_media(&self, block: &Block) -> Result<ArtifactMeta, NotKept> {
        let (Block::Image { data, media_type } | Block::Audio { data, media_type }) = block else {
            return Err(NotKept::Full);
        };
        // Stored as decoded bytes, so that the file can be opened. Invalid base64 is stored as it is.
        let bytes = data_encoding::BASE64.decode(data.as_bytes());
        let bytes = bytes.unwrap_or_else(|_| data.clone().into_bytes());
        // The MIME type comes from the tool; an image is never stored as text.
        let media = if media_type.starts_with("text/") || media_type == artifact::JSON {
            "application/octet-stream"
        } else {
            media_type
        };
        self.keep(bytes.into(), media, None).await
    }

    /// The name of `read_result` in this turn, if the model can call it.
    fn reader(&self) -> Option<&str> {
        let mut offered = self.turn.snapshot.entries();
        let found = offered.find(|entry| entry.registered().as_str() == READER);
        found.map(|entry| entry.name().as_str())
    }
}

/// A complete result as it is stored.
struct Whole {
    body: Arc<[u8]>,
    media: &'static str,
    items: Option<u64>,
    chars: usize,
    form: Form,
}

enum Form {
    /// Text; it is stored.
    Text,
    /// Data of a data block.
    Data(Value),
    /// JSON that a tool returned as text.
    Written(Value),
}

impl Whole {
    fn of(mut blocks: Vec<Block>, hard: usize, inner: &Inner) -> Self {
        let form = match blocks.as_mut_slice() {
            [Block::Json { json }] => Form::Data(json.take()),
            [Block::Text { text }] if text.len() <= hard && text.starts_with(['[', '{']) => {
                match serde_json::from_str(text) {
                    Ok(mut data) => {
                        // The text was sanitized, but not the content of its JSON escapes.
                        sanitize_data(&mut data, inner);
                        Form::Written(data)
                    }
                    Err(_) => Form::Text,
                }
            }
            _ => Form::Text,
        };
        let (body, chars): (Arc<[u8]>, usize) = match &form {
            Form::Data(data) => (artifact::spread(data).into(), artifact::rendered_chars(data)),
            Form::Text | Form::Written(_) => {
                let output = Output { blocks, structured: None };
                let text = output.as_text();
                (text.as_bytes().into(), text.chars().count())
            }
        };
        let (media, items) = match &form {
            Form::Text => (artifact::TEXT, None),
            Form::Data(data) | Form::Written(data) => (artifact::JSON, Items::of(data)),
        };
        Self { body, media, items, chars, form }
    }

    /// Returns a preview of at most this many characters, and how many of them are of the result.
    fn shown(
        &self,
        max_chars: usize,
        kept: &Result<ArtifactMeta, NotKept>,
        reader: Option<&str>,
    ) -> (usize, Vec<Block>) {
        let notice = Notice { of: self.chars, kept, reader };
        match &self.form {
            Form::Text => {
                let text = str::from_utf8(&self.body).unwrap_or_default();
                let (shown, text) = notice.between(text, max_chars);
                (shown, vec![Block::text(text)])
            }
            Form::Data(data) | Form::Written(data) => {
                let Some(below) = notice.below(max_chars) else {
                    // Even `[]` may be too long.
                    let preview = artifact::fit(data, max_chars).to_string();
                    let text = head(&preview, max_chars);
                    return (text.chars().count(), vec![Block::text(text)]);
                };
                let preview = artifact::fit(data, max_chars - below.room);
                let shown = artifact::rendered_chars(&preview);
                let block = match self.form {
                    Form::Written(_) => Block::text(preview.to_string()),
                    _ => Block::Json { json: preview },
                };
                (shown, vec![block, Block::text(notice.say(below.words, shown, 0))])
            }
        }
    }
}

/// The truncation notice.
struct Notice<'a> {
    of: usize,
    kept: &'a Result<ArtifactMeta, NotKept>,
    reader: Option<&'a str>,
}

/// How detailed the notice is.
#[derive(Clone, Copy)]
enum Words {
    Full,
    Short,
    Least,
}

/// A form of the notice that fits, and its maximum length.
struct Fitting {
    words: Words,
    room: usize,
}

/// The minimum preview next to a notice.
const WORTH: usize = 24;

impl Notice<'_> {
    /// Puts the head and the tail of a text around a notice.
    fn between(&self, text: &str, room: usize) -> (usize, String) {
        // A line break on each side.
        let Some(fitting) = self.fitting(room, 2) else {
            let Ends { head, .. } = artifact::ends(text, room);
            let head = &head[..nth_char(head, room)];
            return (head.chars().count(), head.to_owned());
        };
        let ends = artifact::ends(text, room - fitting.room);
        let shown = ends.shown();
        let line = memchr::memchr_iter(b'\n', ends.head.as_bytes()).count() + 1;
        let notice = self.say(fitting.words, shown, line);
        let Ends { head, tail } = ends;
        let before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        let after = if tail.is_empty() { "" } else { "\n" };
        (shown, format!("{head}{before}{notice}{after}{tail}"))
    }

    /// The notice below data.
    fn below(&self, room: usize) -> Option<Fitting> {
        self.fitting(room, 1)
    }

    /// Returns the most detailed notice that leaves space for a preview.
    fn fitting(&self, room: usize, breaks: usize) -> Option<Fitting> {
        let most = room.saturating_sub(WORTH);
        let ways = [(Words::Full, room / 2), (Words::Short, most), (Words::Least, most)];
        ways.into_iter().find_map(|(words, most)| {
            // The total count is the longest number in the notice.
            let needed = self.say(words, self.of, self.of).chars().count() + breaks;
            (needed <= most).then_some(Fitting { words, room: needed })
        })
    }

    fn say(&self, words: Words, shown: usize, line: usize) -> String {
        match words {
            Words::Full => self.full(shown, line),
            Words::Short => self.short(shown),
            Words::Least => "[…]".to_owned(),
        }
    }

    fn short(&self, shown: usize) -> String {
        let of = self.of;
        match self.kept {
            Ok(facts) => format!("[… {shown} of {of} characters; all: {} …]", facts.id),
            Err(_) => format!("[… {shown} of {of} characters; the rest is lost …]"),
        }
    }

    /// The detailed notice; `line` is where the head ends, `None` for data.
    fn full(&self, shown: usize, line: usize) -> String {
        let of = self.of;
        let start = format!("[… truncated: {shown} of {of} characters shown");
        let facts = match self.kept {
            Ok(facts) => facts,
            Err(why) => return format!("{start}; the rest is lost, because {why} …]"),
        };
        let id = facts.id;
        let size = size_of(facts);
        let how = match self.reader {
            None => "for the operator".to_owned(),
            Some(reader) if facts.is_json() => {
                format!("; read parts with {reader} {{\"id\": \"{id}\", \"pointer\": \"/…\"}}")
            }
            Some(reader) => {
                format!("; continue with {reader} {{\"id\": \"{id}\", \"offset\": {line}}}")
            }
        };
        match self.reader {
            None => format!("{start}; all ({size}) is stored {how} as {id} …]"),
            Some(_) => format!("{start}; all ({size}) is stored as {id}{how} …]"),
        }
    }
}

/// The size of the artifact, in the unit that `read_result` takes.
fn size_of(facts: &ArtifactMeta) -> String {
    let lines = facts.lines.unwrap_or(0);
    match facts.items {
        Some(items) => format!("{items} items on {lines} lines"),
        None => format!("{lines} lines"),
    }
}

/// The placeholder of an image that is over the limit: an image cannot be truncated.
fn media_note(block: &Block, size: usize, kept: &Result<ArtifactMeta, NotKept>) -> String {
    let what = if matches!(block, Block::Audio { .. }) { "audio" } else { "an image" };
    match kept {
        Ok(facts) => {
            format!(
                "[{what} is omitted: {}, {} bytes, stored as {}]",
                facts.media, facts.bytes, facts.id
            )
        }
        Err(why) => format!("[{what} of {size} characters is omitted; {why}]"),
    }
}

fn data_note(size: usize, kept: &Result<ArtifactMeta, NotKept>, reader: Option<&str>) -> String {
    match (kept, reader) {
        (Ok(facts), Some(reader)) => format!(
            "[the same as data ({size} characters) is stored as {id}; read parts with {reader} \
             {{\"id\": \"{id}\", \"pointer\": \"/…\"}}]",
            id = facts.id
        ),
        (Ok(facts), None) => {
            format!(
                "[the same as data ({size} characters) is stored for the operator as {}]",
                facts.id
            )
        }
        (Err(why), _) => format!("[the same as data ({size} characters) is omitted; {why}]"),
    }
}

/// As many notes as fit, one per line.
fn fitting(notes: Vec<String>, room: usize) -> Option<String> {
    let mut text = String::new();
    let mut left = room;
    for note in notes {
        let size = note.chars().count() + 1;
        if size > left {
            break;
        }
        left -= size;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&note);
    }
    (!text.is_empty()).then_some(text)
}
