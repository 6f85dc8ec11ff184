//! Turns a run into a script that plays it again.
//!
//! In: the pieces of each message, and what the model was shown before it. Out: lines of a script.
//! Secrets are redacted before a line is kept.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use haft_core::{Error, StopReason, sync::lock};
use haft_dialect::history::Message;
use serde_json::Value;

use super::{
    super::{
        model::{ModelInfo, ModelRequest},
        reply::ModelPiece,
    },
    format::{Expect, ExpectResult, Header, ScriptPiece, ScriptTurn, VERSION},
};
use crate::secrets::Redactor;

/// Records runs as scripts for a [`ScriptedModel`](super::ScriptedModel). Clones are the same
/// recorder; use one for each run.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Default)]
struct Recorded {
    header: Option<Value>,
    lines: Vec<Value>,
}

impl Recorder {
    /// Makes a recorder without lines.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the script so far.
    #[must_use]
    pub fn script(&self) -> String {
        let recorded = lock(&self.0);
        let lines = recorded.header.iter().chain(&recorded.lines);
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Adds one message of the model.
    pub(in super::super) fn add(
        &self,
        shown: ShownRequest,
        info: &ModelInfo,
        pieces: Vec<ModelPiece>,
        ended: Result<StopReason, &Error>,
        redactor: &Redactor,
    ) {
        let mut pieces: Vec<ScriptPiece> = pieces.into_iter().map(ScriptPiece::from).collect();
        let stop = ended.unwrap_or_else(|error| {
            pieces.push(ScriptPiece::Error(error.to_string()));
            StopReason::Unknown
        });
        let turn = ScriptTurn {
            expect: Some(shown.expect),
            pieces,
            text: None,
            calls: Vec::new(),
            usage: None,
            piece_ms: 0,
            stop,
            fault: None,
        };
        let header = Header {
            script: VERSION,
            name: Some(info.name.clone()),
            dialect: Some(info.dialect),
            price: info.price,
            context_tokens: info.context_tokens,
            task: shown.task,
        };
        let redacted = |line: Option<Value>| {
            let line = line?;
            Some(redactor.json(&line).unwrap_or(line))
        };
        let line = redacted(serde_json::to_value(turn).ok());
        let header = redacted(serde_json::to_value(header).ok());
        let mut recorded = lock(&self.0);
        if recorded.header.is_none() {
            recorded.header = header;
        }
        recorded.lines.extend(line);
    }
}

/// What the model was shown, as far as a script expects it: the tools, and which calls failed.
pub(in super::super) struct ShownRequest {
    expect: Expect,
    task: Option<String>,
}

impl ShownRequest {
    pub(in super::super) fn of(request: &ModelRequest<'_>) -> Self {
        let tools = request.tools.exported_tools().iter().map(|tool| tool.tool_name.clone());
        let messages = request.history.messages.iter().rev();
        let new = messages.take_while(|message| !matches!(message, Message::Assistant(_)));
        let results = new.filter_map(|message| match message {
            Message::Results(results) => Some(results),
            _ => None,
        });
        let results = results.flatten().map(|result| ExpectResult {
            id: result.id.to_string(),
            is_error: Some(result.is_error),
            contains: None,
        });
        let (tools, results) = (tools.collect(), results.collect());
        Self {
            expect: Expect { tools, results, ..Expect::default() },
            task: request.last_user_text().map(str::to_owned),
        }
    }
}

impl From<ModelPiece> for ScriptPiece {
    fn from(piece: ModelPiece) -> Self {
        match piece {
            ModelPiece::Text { text } => Self::Text(text),
            ModelPiece::CallStart { id, name } => Self::CallStart { id, name },
            ModelPiece::Arguments { id, text } => Self::Arguments { id, text },
            ModelPiece::CallEnd { id } => Self::CallEnd { id },
            ModelPiece::Usage(usage) => Self::Usage(usage),
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("messages", &lock(&self.0).lines.len()).finish()
    }
}
