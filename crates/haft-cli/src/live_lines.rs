//! The text of live output: lines with a prefix, and the status line. Writes nothing itself.
//!
//! In: pieces of output and the time. Out: whole lines that fit the terminal. Output that a result
//! repeats can be left out of it, because `Shown` keeps what was shown.
//!
//! INVARIANT: each line of output begins with a prefix that no message and no question of ours has:
//! a label of its stream and a bar. Output cannot imitate a question, a message or the status line.
//! INVARIANT: memory is bounded for each call and each stream, however much is printed.

use std::{collections::VecDeque, time::Duration};

use haft::{
    Output,
    tool::{Block, CallId},
};
use tokio::time::Instant;

use crate::{
    escape,
    style::{self, BOLD, DIM},
};

/// A call that ends sooner shows its result alone, as one text without prefixes.
const SHOW_AFTER: Duration = Duration::from_millis(500);
/// The status line appears after this time.
const STATUS_AFTER: Duration = Duration::from_secs(2);
/// A half line is shown when its end has not come within this time.
const HALF_LINE_AFTER: Duration = Duration::from_secs(1);
/// How much output of a call is kept before it is shown. The newest counts.
const MAX_EARLY_BYTES: usize = 64 << 10;
/// How much output is shown within a second. A person reads far less; the result has the rest.
const MAX_BYTES_PER_SECOND: usize = 256 << 10;
/// A line that is longer is shown in parts.
const MAX_LINE_BYTES: usize = 4 << 10;
/// How much text of a stream is kept to compare a result with it.
const MAX_KEPT_BYTES: usize = 256 << 10;
/// How many streams of a call, and how many calls, have a state of their own.
const MAX_STREAMS: usize = 16;
const MAX_CALLS: usize = 256;
/// Labels of streams have this width, and longer ones are cut.
const LABEL_COLUMNS: usize = 3;
/// A terminal needs this many columns for labels; a narrower one has a bar alone.
const MIN_LABEL_WIDTH: usize = 24;

/// What is to be written to the terminal.
pub(crate) struct Page {
    now: Instant,
    width: usize,
    text: String,
    calls: Vec<CallState>,
    /// The call whose output was shown last.
    last: Option<CallId>,
    second: Instant,
    bytes_in_second: usize,
}

struct CallState {
    call: CallId,
    tool: String,
    /// When its body began; `None` before that.
    since: Option<Instant>,
    is_over: bool,
    /// Whether its output is shown. Before that it waits in `early`.
    is_shown: bool,
    /// Whether all its output was shown.
    is_whole: bool,
    /// Output is missing here, and no line says so yet.
    has_gap: bool,
    early: VecDeque<(String, String)>,
    early_bytes: usize,
    streams: Vec<OutputStream>,
}

struct OutputStream {
    key: String,
    /// The line without its end.
    line: String,
    /// When the line began.
    since: Instant,
    /// Whether a part of the line was shown already.
    is_continued: bool,
    /// All text of the stream, as long as it is short enough.
    kept: String,
    is_kept_whole: bool,
}

impl Page {
    pub(crate) fn new(now: Instant, width: usize) -> Self {
        Self {
            now,
            width,
            text: String::new(),
            calls: Vec::new(),
            last: None,
            second: now,
            bytes_in_second: 0,
        }
    }

    /// Sets how many columns a line may use.
    pub(crate) fn set_width(&mut self, width: usize) {
        self.width = width;
    }

    /// The lines to write.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Forgets the lines, because they were written.
    pub(crate) fn clear_text(&mut self) {
        self.text.clear();
    }

    /// Sets the time, and shows what has waited long enough.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = now;
        if now.saturating_duration_since(self.second) >= Duration::from_secs(1) {
            self.second = now;
            self.bytes_in_second = 0;
        }
        for at in 0..self.calls.len() {
            let Some(state) = self.calls.get_mut(at).filter(|state| !state.is_over) else {
                continue;
            };
            if !state.is_shown {
                let is_due = state.elapsed(now) >= SHOW_AFTER && !state.early.is_empty();
                if is_due {
                    state.is_shown = true;
                    let early = std::mem::take(&mut state.early);
                    early.into_iter().for_each(|(key, text)| self.show(at, &key, &text));
                }
                continue;
            }
            let is_late = |stream: &OutputStream| {
                let waited = now.saturating_duration_since(stream.since);
                !stream.line.is_empty() && waited >= HALF_LINE_AFTER
            };
            let late: Vec<usize> =
                (0..state.streams.len()).filter(|n| is_late(&state.streams[*n])).collect();
            late.into_iter().for_each(|n| self.end_line(at, n, true));
        }
    }

    /// Learns which tool a call means.
    pub(crate) fn name_call(&mut self, call: &CallId, tool: &str) {
        if let Some(at) = self.position(call) {
            self.calls[at].tool = style::cell(tool);
        }
    }

    /// The body of a call has begun.
    pub(crate) fn start_call(&mut self, call: &CallId, since: Instant) {
        if let Some(at) = self.position(call) {
            self.calls[at].since.get_or_insert(since);
        }
    }

    /// Takes a piece of output.
    pub(crate) fn add(&mut self, call: &CallId, key: &str, text: &str) {
        let Some(at) = self.position(call) else { return };
        let state = &mut self.calls[at];
        state.since.get_or_insert(self.now);
        if state.is_shown {
            return self.show(at, key, text);
        }
        state.early_bytes += text.len();
        state.early.push_back((key.to_owned(), text.to_owned()));
        while state.early_bytes > MAX_EARLY_BYTES
            && let Some((_, text)) = state.early.pop_front()
        {
            state.early_bytes -= text.len();
            state.is_whole = false;
            state.has_gap = true;
        }
    }

    /// Some output was lost before it came here.
    pub(crate) fn miss(&mut self) {
        let running = |at: &usize| !self.calls[*at].is_over;
        let running: Vec<usize> = (0..self.calls.len()).filter(running).collect();
        running.into_iter().for_each(|at| self.leave_gap(at));
    }

    /// Notes that output of a call is missing from here on. Half lines are shown before the gap.
    fn leave_gap(&mut self, at: usize) {
        if self.calls[at].has_gap {
            return;
        }
        self.end_half_lines(at);
        let state = &mut self.calls[at];
        state.is_whole = false;
        state.has_gap = true;
    }

    fn end_half_lines(&mut self, at: usize) {
        for n in 0..self.calls[at].streams.len() {
            if !self.calls[at].streams[n].line.is_empty() {
                self.end_line(at, n, true);
            }
        }
    }

    /// A call has ended: its half lines are shown, and it counts as running no more.
    pub(crate) fn end_call(&mut self, call: &CallId) {
        if let Some(at) = self.calls.iter().position(|state| state.call == *call) {
            self.end_at(at);
        }
    }

    /// The same for every call.
    pub(crate) fn end_calls(&mut self) {
        (0..self.calls.len()).for_each(|at| self.end_at(at));
    }

    fn end_at(&mut self, at: usize) {
        let state = &mut self.calls[at];
        if std::mem::replace(&mut state.is_over, true) {
            return;
        }
        state.early.clear();
        if !state.is_shown {
            return;
        }
        self.end_half_lines(at);
        self.add_gap_line(at);
    }

    /// What the status line says; empty when nothing has run for long.
    pub(crate) fn status(&self) -> String {
        let running = self.calls.iter().filter(|state| state.since.is_some() && !state.is_over);
        let times: Vec<Duration> = running.map(|state| state.elapsed(self.now)).collect();
        let longest = times.iter().max().copied().unwrap_or_default();
        if longest < STATUS_AFTER {
            return String::new();
        }
        let seconds = longest.as_secs();
        let text = match times.len() {
            1 => format!("running {seconds} s, Ctrl-C stops"),
            n => format!("{n} calls running, longest {seconds} s, Ctrl-C stops"),
        };
        let text: String = text.chars().take(self.width).collect();
        style::paint(DIM, text)
    }

    /// Whether output of a call was shown.
    pub(crate) fn has_shown(&self, call: &CallId) -> bool {
        self.calls.iter().any(|state| state.call == *call && state.is_shown)
    }

    /// Returns what was shown.
    pub(crate) fn into_shown(self) -> Shown {
        Shown(self.calls.into_iter().filter(|state| state.is_shown).collect())
    }

    fn position(&mut self, call: &CallId) -> Option<usize> {
        let found = self.calls.iter().position(|state| state.call == *call);
        if found.is_some() {
            return found;
        }
        if self.calls.len() >= MAX_CALLS {
            let over = self.calls.iter().position(|state| state.is_over)?;
            self.calls.remove(over);
        }
        self.calls.push(CallState {
            call: call.clone(),
            tool: String::new(),
            since: None,
            is_over: false,
            is_shown: false,
            is_whole: true,
            has_gap: false,
            early: VecDeque::new(),
            early_bytes: 0,
            streams: Vec::new(),
        });
        Some(self.calls.len() - 1)
    }

    /// Shows a piece of output, or leaves it out when there is too much.
    fn show(&mut self, at: usize, key: &str, text: &str) {
        let state = &mut self.calls[at];
        let n = match state.streams.iter().position(|stream| stream.key == key) {
            Some(n) => n,
            None if state.streams.len() >= MAX_STREAMS => return self.leave_gap(at),
            None => {
                state.streams.push(OutputStream::new(key, self.now));
                state.streams.len() - 1
            }
        };
        if self.bytes_in_second + text.len() > MAX_BYTES_PER_SECOND {
            return self.leave_gap(at);
        }
        self.bytes_in_second += text.len();
        self.calls[at].streams[n].keep(text);
        for part in text.split_inclusive('\n') {
            let (part, is_end) = match part.strip_suffix('\n') {
                Some(part) => (part, true),
                None => (part, false),
            };
            let stream = &mut self.calls[at].streams[n];
            if stream.line.is_empty() {
                stream.since = self.now;
            }
            stream.line.push_str(part);
            let is_long = stream.line.len() > MAX_LINE_BYTES;
            // The end of a line that was shown already shows nothing.
            let is_shown = is_end && stream.is_continued && stream.line.is_empty();
            if is_shown {
                stream.is_continued = false;
            } else if is_end || is_long {
                self.end_line(at, n, !is_end);
            }
        }
    }

    /// Shows the line of a stream. A line that goes on later is continued without a label.
    fn end_line(&mut self, at: usize, n: usize, goes_on: bool) {
        self.add_call_heading(at);
        self.add_gap_line(at);
        let width = self.width;
        let stream = &mut self.calls[at].streams[n];
        let line = std::mem::take(&mut stream.line);
        let label = label(&stream.key);
        let is_error = stream.key == "stderr";
        let mut is_continued = std::mem::replace(&mut stream.is_continued, goes_on);
        let has_label = width >= MIN_LABEL_WIDTH;
        let columns_left =
            if has_label { width - (LABEL_COLUMNS + 5) } else { width.saturating_sub(2) };
        for row in escape::wrap(&escape::visible(&line).replace('\t', "    "), columns_left.max(1))
        {
            let label = if is_continued { "" } else { label.as_str() };
            let prefix = if has_label {
                format!("  {label:LABEL_COLUMNS$} │ ")
            } else {
                format!("{:1}│", label.get(..1).unwrap_or_default())
            };
            self.text += &style::paint(DIM, prefix);
            self.text += &if is_error { style::paint(DIM, row) } else { row };
            self.text.push('\n');
            is_continued = true;
        }
    }

    /// Says that output is missing here.
    fn add_gap_line(&mut self, at: usize) {
        if std::mem::take(&mut self.calls[at].has_gap) {
            let line = "output is left out here: there is more than a terminal shows";
            for row in escape::wrap(line, self.width) {
                self.text += &style::paint(DIM, row.trim_end());
                self.text.push('\n');
            }
        }
    }

    /// Says whose output follows, where there are several calls.
    fn add_call_heading(&mut self, at: usize) {
        let state = &self.calls[at];
        if self.last.as_ref() == Some(&state.call) {
            return;
        }
        let running = self.calls.iter().filter(|state| state.since.is_some() && !state.is_over);
        if self.last.is_some() || running.count() > 1 {
            let line =
                format!("output of {}, call {}", state.tool, style::cell(state.call.as_str()));
            for row in escape::wrap(&line, self.width) {
                self.text += &style::paint(BOLD, row.trim_end());
                self.text.push('\n');
            }
        }
        self.last = Some(self.calls[at].call.clone());
    }
}

impl CallState {
    fn elapsed(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

impl OutputStream {
    fn new(key: &str, now: Instant) -> Self {
        Self {
            key: key.to_owned(),
            line: String::new(),
            since: now,
            is_continued: false,
            kept: String::new(),
            is_kept_whole: true,
        }
    }

    fn keep(&mut self, text: &str) {
        self.is_kept_whole &= self.kept.len() + text.len() <= MAX_KEPT_BYTES;
        if self.is_kept_whole { self.kept.push_str(text) } else { self.kept = String::new() }
    }
}

/// The label of a stream.
fn label(key: &str) -> String {
    match key {
        "stdout" => "out".to_owned(),
        "stderr" => "err".to_owned(),
        other => style::cell(other).chars().take(LABEL_COLUMNS).collect(),
    }
}

/// What a terminal has shown of the calls.
#[derive(Default)]
pub(crate) struct Shown(Vec<CallState>);

impl Shown {
    /// Whether all output of a call was shown.
    pub(crate) fn is_whole(&self, call: &str) -> bool {
        self.0.iter().any(|state| state.call == *call && state.is_whole)
    }

    /// Returns a result without the parts that were shown already, and whether there were such
    /// parts. A part is left out only where its text and the text shown are the same.
    pub(crate) fn rest_of(&self, call: &str, output: &Output) -> (Output, bool) {
        let mut rest = output.clone();
        if let Some(state) = self.0.iter().find(|state| state.call == *call && state.is_whole) {
            rest.blocks.retain(|block| match block {
                Block::Text { text } => !state.has_shown(text),
                _ => true,
            });
        }
        let is_less = rest.blocks.len() < output.blocks.len();
        (rest, is_less)
    }
}

impl CallState {
    fn has_shown(&self, text: &str) -> bool {
        let same = |key: &str, text: &str| {
            self.streams.iter().any(|stream| {
                let kept = stream.kept.trim_end_matches('\n');
                stream.key == key && stream.is_kept_whole && kept == text.trim_end_matches('\n')
            })
        };
        let labelled = text.strip_prefix("stdout:\n").map(|text| ("stdout", text));
        let labelled = labelled.or_else(|| Some(("stderr", text.strip_prefix("stderr:\n")?)));
        same("stdout", text) || labelled.is_some_and(|(key, text)| same(key, text))
    }
}

#[cfg(test)]
mod tests;
