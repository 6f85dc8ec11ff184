//! The text of a run's progress: what the model writes, what each call did, what is left.
//! Writes nothing itself.
//!
//! In: the events of a run, and the time. Out: lines that fit the terminal, and a status line.
//!
//! INVARIANT: text of a model, of a tool and of a command begins with a label and a bar. No message
//! and no question of ours does, so that text cannot imitate one.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use anstyle::Style;
use haft::{
    agent::{AgentEvent, CallSummary, RunStatus, RunUsage},
    budget::Budget,
    events::{Event, EventRecord},
    tool::CallId,
};
use haft_core::text::shortened;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    escape, layout, live,
    live_lines::Page,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, WARN},
};

/// A call that runs for longer is announced before it has ended.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(400);
/// The status line appears when nothing has happened for this time.
const STATUS_AFTER: Duration = Duration::from_millis(700);
/// How many lines of a result are shown.
const MAX_RESULT_LINES: usize = 6;
/// How many lines of a diff are shown.
const MAX_DIFF_LINES: usize = 16;
/// How many characters of one value of the arguments are shown.
const MAX_VALUE_CHARS: usize = 60;
/// Lines of a pipe are not wrapped.
const NO_WRAP: usize = 100_000;

/// What is known of a run before it starts.
#[derive(Debug, Clone)]
pub(crate) struct RunAbout {
    pub(crate) limits: Budget,
    /// Whether the price of the model is known.
    pub(crate) has_price: bool,
    /// The workspace.
    pub(crate) here: PathBuf,
    /// What it has used already.
    pub(crate) used: RunUsage,
}

/// The progress of one run.
pub(crate) struct Progress {
    width: usize,
    text: String,
    page: Page,
    now: Instant,
    /// When the last event came.
    last: Instant,
    limits: Budget,
    /// What the run had used when the model was asked last.
    used: RunUsage,
    has_price: bool,
    /// The text of the model that does not fill a row yet.
    row: String,
    is_row_first: bool,
    calls: HashMap<CallId, CallState>,
    is_model_writing: bool,
    has_started: bool,
    /// The workspace; locations inside it are shown relative to it.
    here: String,
}

#[derive(Default)]
struct CallState {
    tool: String,
    arguments: Option<Value>,
    raw: String,
    since: Option<Instant>,
    is_waiting: bool,
    is_announced: bool,
    /// Who decided, where an approver was asked or the call was refused.
    decided: Option<(Style, String)>,
}

impl Progress {
    /// The progress of a run with these limits; without a width no line is wrapped.
    pub(crate) fn new(about: RunAbout, width: Option<usize>, now: Instant) -> Self {
        let width = width.unwrap_or(NO_WRAP);
        let RunAbout { limits, has_price, here, used } = about;
        Self {
            width,
            text: String::new(),
            page: Page::new(now, width),
            now,
            last: now,
            limits,
            used,
            has_price,
            row: String::new(),
            is_row_first: true,
            calls: HashMap::new(),
            is_model_writing: false,
            has_started: used.turns > 0,
            here: format!("{}/", here.display()),
        }
    }

    pub(crate) fn set_width(&mut self, width: usize) {
        self.width = width;
        self.page.set_width(width);
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
        let is_due = |state: &&mut CallState| {
            let since = state.since.filter(|_| !state.is_announced);
            since.is_some_and(|since| now.saturating_duration_since(since) >= ANNOUNCE_AFTER)
        };
        let due: Vec<String> = self
            .calls
            .values_mut()
            .filter(is_due)
            .map(|state| {
                state.is_announced = true;
                format!("  {} {}", style::paint(DIM, "→"), state.shown())
            })
            .collect();
        for line in due {
            self.line(&line);
        }
        self.page.advance(now);
        self.take_page();
    }

    /// Takes one event.
    pub(crate) fn take(&mut self, event: &AgentEvent) {
        self.last = self.now;
        match event {
            AgentEvent::RunStarted { run, model, .. } if !self.has_started => {
                self.has_started = true;
                let model = style::cell(model);
                self.line(&style::paint(DIM, format_args!("run {run}, model {model}")));
            }
            AgentEvent::ModelCalled { turn, .. } => {
                self.is_model_writing = true;
                let line = format!("turn {turn}  {}", self.spent());
                self.line(&style::paint(DIM, line));
            }
            AgentEvent::Text { text } => self.add_text(text),
            AgentEvent::CallStarted { call, tool } | AgentEvent::CallRequested { call, tool } => {
                self.state(call).tool = style::cell(tool.as_str());
            }
            AgentEvent::Arguments { call, text } => {
                let state = self.state(call);
                if state.raw.len() < 4 * MAX_VALUE_CHARS {
                    state.raw += text;
                }
            }
            AgentEvent::Call(record) => self.take_call(record),
            AgentEvent::ModelFinished { total, .. } => {
                self.end_row();
                self.is_model_writing = false;
                self.used = *total;
            }
            AgentEvent::CallFinished { summary, text } => self.end_call(summary, text),
            AgentEvent::MessageAdded { text } => self.quote("you", text, Style::new(), usize::MAX),
            AgentEvent::ContextShrunk { results, from_tokens, to_tokens } => {
                let results = style::count(*results, "old result");
                let line = format!(
                    "{results} replaced by references: {from_tokens} to {to_tokens} tokens"
                );
                self.line(&style::paint(DIM, line));
            }
            AgentEvent::Warning { message } => {
                let warning = style::paint(WARN, "warning:");
                self.line(&format!("{warning} {}", style::one_line(message)));
            }
            AgentEvent::Lagged { count } => {
                self.line(&style::paint(DIM, format_args!("{count} events are left out here")));
            }
            AgentEvent::RunFinished { run, state, usage, .. } => {
                self.end_row();
                self.used = *usage;
                self.end(run.as_str(), *state);
            }
            _ => {}
        }
    }

    /// What the status line says; empty while lines come quickly.
    pub(crate) fn status(&self) -> String {
        if !self.row.is_empty() {
            let row = escape::visible(&self.row);
            return format!("{}{row}", self.prefix("model", self.is_row_first));
        }
        if self.now.saturating_duration_since(self.last) < STATUS_AFTER {
            return String::new();
        }
        let waiting = self.calls.values().find(|state| state.is_waiting);
        let running = self.calls.values().filter(|state| state.since.is_some());
        let longest = running.max_by_key(|state| self.elapsed(state));
        let what = match (waiting, longest) {
            (Some(state), _) => format!("{} waits for approval", state.tool),
            (None, Some(state)) => {
                format!("{} runs, {} s", state.tool, self.elapsed(state).as_secs())
            }
            (None, None) if self.is_model_writing => "the model is asked".to_owned(),
            (None, None) => return String::new(),
        };
        let text = format!("{what}; Ctrl-C interrupts");
        style::paint(DIM, text.chars().take(self.width).collect::<String>())
    }

    fn elapsed(&self, state: &CallState) -> Duration {
        state.since.map_or(Duration::ZERO, |since| self.now.saturating_duration_since(since))
    }

    fn state(&mut self, call: &CallId) -> &mut CallState {
        self.calls.entry(call.clone()).or_default()
    }

    fn take_call(&mut self, record: &EventRecord) {
        live::take_event(&mut self.page, record);
        let at = Instant::from_std(record.at.time);
        match &record.event {
            Event::Started { call, tool_name, arguments, .. } => {
                let state = self.state(call);
                state.tool = style::cell(tool_name.as_str());
                state.arguments = arguments.as_deref().cloned();
            }
            Event::Asked { call, verdict, .. } => {
                let reason = format!("{} ({})", verdict.reason, verdict.source);
                let state = self.state(call);
                state.is_waiting = true;
                state.decided = Some((WARN, format!("asked: {reason}")));
            }
            Event::Answered { call, by, answer, comment, .. } => {
                let comment = comment.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
                let state = self.state(call);
                state.is_waiting = false;
                let asked = state.decided.take().map(|(_, asked)| asked).unwrap_or_default();
                state.decided = Some((WARN, format!("{asked} → {answer} by {by}{comment}")));
            }
            Event::Refused { call, verdict, .. } => {
                let text = format!("decided by {}", verdict.source);
                self.state(call).decided.get_or_insert((DIM, text));
            }
            Event::Running { call } => self.state(call).since = Some(at),
            // Its result is shown when all calls of the message have theirs.
            Event::Finished { call, .. } => self.state(call).since = None,
            Event::BudgetLow { what, left, of, .. } => {
                let warning = style::paint(WARN, "budget:");
                self.line(&format!("{warning} {left} of {of} {} left", style::one_line(what)));
            }
            _ => {}
        }
        self.take_page();
    }

    /// One call has its result.
    fn end_call(&mut self, summary: &CallSummary, text: &str) {
        self.take_page();
        let mut state = self.calls.remove(&summary.call).unwrap_or_default();
        if state.tool.is_empty() {
            state.tool = style::cell(summary.tool.as_str());
        }
        let (colour, mark) = match summary.failed {
            None => (GOOD, "✓"),
            Some(_) => (BAD, "✗"),
        };
        let time = style::paint(DIM, style::time(summary.elapsed));
        self.line(&format!("  {} {}  {time}", style::paint(colour, mark), state.shown()));
        if let Some((colour, decided)) = &state.decided {
            let decided = style::one_line(&decided.replace(&self.here, ""));
            self.line(&format!("    {}", style::paint(*colour, decided)));
        }
        if summary.failed.is_none() && self.diff(&state) {
            return;
        }
        if !self.page.has_shown(&summary.call) {
            self.quote("   ", text, colour, MAX_RESULT_LINES);
        }
    }

    /// Shows what an edit replaced. Returns whether the call was an edit.
    fn diff(&mut self, state: &CallState) -> bool {
        let text = |name: &str| state.arguments.as_ref()?.get(name)?.as_str();
        let (Some(old), Some(new)) = (text("old_text"), text("new_text")) else { return false };
        let old = old.lines().map(|line| (BAD, "-", line.to_owned()));
        let new = new.lines().map(|line| (GOOD, "+", line.to_owned()));
        let mut rows: Vec<(Style, &str, String)> = old.chain(new).collect();
        let left_out = rows.len().saturating_sub(MAX_DIFF_LINES);
        rows.truncate(MAX_DIFF_LINES);
        for (colour, mark, line) in rows {
            self.quote("   ", &format!("{mark} {line}"), colour, 1);
        }
        if left_out > 0 {
            let left_out = style::count(left_out, "more line");
            self.line(&style::paint(DIM, format_args!("    │ … {left_out}")));
        }
        true
    }

    /// Adds text of the model. A row is written as soon as it is full.
    fn add_text(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            let (line, is_end) = match part.strip_suffix('\n') {
                Some(line) => (line, true),
                None => (part, false),
            };
            self.row += &line.replace('\t', "    ");
            let shown = escape::visible(&self.row);
            let width = self.width.saturating_sub(MODEL_COLUMNS).max(1);
            let mut rows = escape::wrap(&shown, width);
            let last = rows.pop().unwrap_or_default();
            for row in rows {
                self.write_row(row.trim_end());
            }
            self.row = last;
            if is_end {
                let row = std::mem::take(&mut self.row);
                self.write_row(&row);
            }
        }
    }

    fn write_row(&mut self, row: &str) {
        let prefix = self.prefix("model", self.is_row_first);
        self.is_row_first = false;
        self.text += &format!("{prefix}{row}\n");
    }

    /// Ends the message of the model.
    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        if !row.is_empty() {
            self.write_row(&row);
        }
        self.is_row_first = true;
    }

    fn prefix(&self, label: &str, is_first: bool) -> String {
        let label = if is_first { label } else { "" };
        style::paint(DIM, format_args!("{label:5} │ "))
    }

    /// Writes text that is not ours, at most so many lines of it.
    fn quote(&mut self, label: &str, text: &str, colour: Style, most: usize) {
        let shown = escape::visible(text.trim_end()).replace('\t', "    ");
        let all = shown.lines().count();
        let bar = style::paint(colour, "│");
        let width = self.width.saturating_sub(escape::columns(label) + 4).max(1);
        for line in shown.lines().take(most) {
            for row in escape::wrap(line, width) {
                self.text += &format!("{label} {bar} {}\n", row.trim_end());
            }
        }
        if all > most {
            let more = style::count(all - most, "more line");
            self.text +=
                &format!("{label} {bar} {}\n", style::paint(DIM, format_args!("… {more}")));
        }
    }

    /// Writes a line of ours, wrapped.
    fn line(&mut self, line: &str) {
        self.text += &layout::page(line, self.width);
        self.text.push('\n');
    }

    fn take_page(&mut self) {
        self.text += self.page.text();
        self.page.clear_text();
    }

    /// What the run has used and what is left of its limits.
    fn spent(&self) -> String {
        let (used, limits) = (&self.used, &self.limits);
        let mut spent = vec![format!("{} tokens", used.tokens.total())];
        if self.has_price {
            spent.push(money(used.micros));
        }
        let mut left = Vec::new();
        if let Some(all) = limits.cycles {
            left.push(style::count(all.saturating_sub(used.turns) as usize, "turn"));
        }
        if let Some(all) = limits.calls {
            let calls = all.saturating_sub(used.calls);
            left.push(style::count(usize::try_from(calls).unwrap_or(usize::MAX), "call"));
        }
        if let Some(all) = limits.wall {
            left.push(rounded(all.saturating_sub(used.elapsed)));
        }
        if let Some(all) = limits.tokens {
            left.push(format!("{} tokens", all.saturating_sub(used.tokens.total())));
        }
        if let Some(all) = limits.micros {
            left.push(money(all.saturating_sub(used.micros)));
        }
        format!("{}  left: {}", spent.join(", "), left.join(", "))
    }

    /// The last line.
    fn end(&mut self, run: &str, state: RunStatus) {
        let colour = match state {
            RunStatus::Completed => GOOD,
            RunStatus::Degraded | RunStatus::Waiting => WARN,
            RunStatus::Failed | RunStatus::Cancelled => BAD,
        };
        let used = self.used;
        let mut parts = vec![
            style::count(used.turns as usize, "turn"),
            style::count(usize::try_from(used.calls).unwrap_or(usize::MAX), "call"),
            format!("{} tokens", used.tokens.total()),
        ];
        if self.has_price {
            parts.push(money(used.micros));
        }
        parts.push(style::time(used.elapsed));
        let state = style::paint(colour.bold(), state);
        let rest = style::paint(DIM, format_args!("{}; run {run}", parts.join(", ")));
        self.line(&format!("{state}  {rest}"));
    }
}

/// How many columns the label of the model takes.
const MODEL_COLUMNS: usize = 8;

/// Millionths of the currency unit, as a person writes them.
fn money(micros: u64) -> String {
    format!("cost {}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

/// A time as a person says it: minutes, or seconds where it is short.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        0..120 => format!("{} s", time.as_secs()),
        seconds => format!("{} min", seconds / 60),
    }
}

impl CallState {
    /// The call as a person writes it, on one line.
    fn shown(&self) -> String {
        let arguments = match &self.arguments {
            Some(Value::Object(map)) => {
                // The diff shows the texts, and defaults say nothing.
                let is_shown = |(name, value): &(&String, &Value)| {
                    let is_default = match value {
                        Value::Null | Value::Bool(false) => true,
                        Value::Array(list) => list.is_empty(),
                        _ => false,
                    };
                    !is_default && !matches!(name.as_str(), "old_text" | "new_text")
                };
                let shown = map.iter().filter(is_shown);
                shown.map(|(name, value)| format!("{name}: {}", short(value))).collect::<Vec<_>>()
            }
            Some(other) => vec![short(other)],
            None => vec![clip(&self.raw)],
        };
        let arguments = style::one_line(&arguments.join(", "));
        format!("{}({arguments})", style::paint(NAME, style::paint(BOLD, &self.tool)))
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() <= MAX_VALUE_CHARS => {
            Value::from(text.as_str()).to_string()
        }
        Value::String(text) => clip(text),
        other => clip(&other.to_string()),
    }
}

fn clip(text: &str) -> String {
    shortened(text, MAX_VALUE_CHARS)
}

#[cfg(test)]
mod tests;
