//! The lines of a script as data. Unknown keys are errors, so that a typing mistake is found.

use haft_core::{CallId, Error, ErrorKind, StopReason, ToolName};
use haft_dialect::Dialect;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::model::{Price, Usage};

/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// The maximum size of a script.
const MAX_SCRIPT_BYTES: usize = 64 << 20;
/// The maximum number of calls that one entry repeats.
const MAX_REPEAT: usize = 10_000;

/// The optional first line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// The version of the format.
    pub(super) script: u32,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// The format in which tools are offered, and of raw bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dialect: Option<Dialect>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) price: Option<Price>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context_tokens: Option<u64>,
    /// The message of the user that the script answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<String>,
}

/// One message of the model: what it expects to be shown, then the pieces, the text, the calls, and
/// how it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptTurn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expect: Option<Expect>,
    /// Pieces in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) pieces: Vec<ScriptPiece>,
    /// Text, after the pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// Calls, after the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<ScriptCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    /// How long the model takes before each piece.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) piece_ms: u64,
    #[serde(default = "done", skip_serializing_if = "is_done")]
    pub(super) stop: StopReason,
    /// What goes wrong at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<Fault>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScriptPiece {
    Text(String),
    Call(ScriptCall),
    CallStart {
        id: CallId,
        name: ToolName,
    },
    Arguments {
        id: CallId,
        text: String,
    },
    CallEnd {
        id: CallId,
    },
    Usage(Usage),
    WaitMs(u64),
    /// Bytes of a response in the header's dialect.
    Bytes(String),
    /// The model fails here, with this message.
    Error(String),
}

/// A call. Arguments that are a string are sent as raw text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptCall {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) name: String,
    #[serde(default = "no_arguments")]
    pub(super) arguments: Value,
    /// How often the call is made; ids are numbered then.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub(super) repeat: usize,
}

/// What goes wrong at the end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    /// The stream ends in the middle.
    Cut,
    /// The response is binary data.
    Garbage,
    /// The response has bytes that are not UTF-8.
    InvalidUtf8,
    /// The id of a call changes while it is written.
    ChangedId,
    /// The model never ends its message.
    Stall,
}

/// What the model must have been shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Expect {
    /// Texts that are part of what was added since the model's last message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) shown: Vec<String>,
    /// Texts that are not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_shown: Vec<String>,
    /// Tools that are offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<String>,
    /// Tools that are not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_tools: Vec<String>,
    /// Results that were added since the model's last message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) results: Vec<ExpectResult>,
    /// Texts that are part of the system prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) instructions: Vec<String>,
}

/// What is expected of one result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectResult {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) is_error: Option<bool>,
    /// A text that is part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) contains: Option<String>,
}

/// Reads a script.
pub(super) fn parse(script: &str) -> Result<(Header, Vec<ScriptTurn>), Error> {
    if script.len() > MAX_SCRIPT_BYTES {
        let why = format!("the script is longer than {MAX_SCRIPT_BYTES} bytes");
        return Err(Error::new(ErrorKind::BadConfig, why));
    }
    let mut header = Header { script: VERSION, ..Header::default() };
    let mut turns = Vec::new();
    for (number, line) in script.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let bad = |error: &dyn std::fmt::Display| {
            let why = format!("line {} of the script: {error}", number + 1);
            Error::new(ErrorKind::BadConfig, why)
        };
        let value: Value = serde_json::from_str(line).map_err(|error| bad(&error))?;
        if turns.is_empty() && value.get("script").is_some() {
            header = serde_json::from_value(value).map_err(|error| bad(&error))?;
            if header.script != VERSION {
                return Err(bad(&format!("version {} is not {VERSION}", header.script)));
            }
            continue;
        }
        let turn: ScriptTurn = serde_json::from_value(value).map_err(|error| bad(&error))?;
        let pieces = turn.pieces.iter().filter_map(|piece| match piece {
            ScriptPiece::Call(call) => Some(call),
            _ => None,
        });
        if let Some(call) = pieces.chain(&turn.calls).find(|call| call.repeat > MAX_REPEAT) {
            return Err(bad(&format!("`{}` repeats more than {MAX_REPEAT} times", call.name)));
        }
        turns.push(turn);
    }
    Ok((header, turns))
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

fn once() -> usize {
    1
}

fn is_once(n: &usize) -> bool {
    *n == 1
}

fn done() -> StopReason {
    StopReason::Done
}

fn is_done(stop: &StopReason) -> bool {
    *stop == StopReason::Done
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_key_is_an_error_that_names_its_line() {
        let error = parse("{\"text\": \"a\"}\n\n{\"txt\": \"b\"}").unwrap_err();
        assert!(
            error.message().starts_with("line 3 of the script: unknown field `txt`"),
            "{error}"
        );
        assert!(parse("{\"script\": 2}").is_err());
        assert!(parse("nonsense").is_err());
    }

    #[test]
    fn header_and_comments_are_not_messages() {
        let script = "// a comment\n{\"script\": 1, \"task\": \"do it\"}\n{\"text\": \"done\"}\n";
        let (header, turns) = parse(script).unwrap();
        assert_eq!((header.task.as_deref(), turns.len()), (Some("do it"), 1));
    }
}
