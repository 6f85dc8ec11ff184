//! What a hook is told: one JSON object, with the fields of the protocol.

use haft::{Output, Scope};
use serde_json::{Map, Value, json};

use crate::{names::Names, place::ProjectDir};

/// Returns what every event tells.
pub(crate) fn base(place: &ProjectDir, scope: &Scope, event: &str) -> Map<String, Value> {
    let run = scope.run.as_str();
    let mut told = Map::new();
    let mut put = |key: &str, value: Value| told.insert(key.to_owned(), value);
    put("session_id", json!(scope.session.as_deref().unwrap_or(run)));
    put("prompt_id", json!(scope.request.as_deref().unwrap_or(run)));
    let transcript = place.transcript.as_ref().map(|path| path.to_string_lossy().into_owned());
    put("transcript_path", json!(transcript.unwrap_or_default()));
    // A folder is told whole, so that a hook need not know where it stands.
    put("cwd", json!(place.path.join(&*scope.working_directory).to_string_lossy()));
    put("permission_mode", json!(place.mode()));
    put("hook_event_name", json!(event));
    if let Some(agent) = &scope.agent {
        put("agent_id", json!(agent));
        put("agent_type", json!(agent));
    }
    told
}

/// Adds what every event about a tool tells.
pub(crate) fn tool(
    mut told: Map<String, Value>,
    names: &Names,
    arguments: &Value,
    id: &str,
) -> Map<String, Value> {
    told.insert("tool_name".to_owned(), json!(names.shown));
    told.insert("tool_input".to_owned(), arguments.clone());
    told.insert("tool_use_id".to_owned(), json!(id));
    told
}

/// Returns an output as a hook is told it: the data where the tool has some, the text otherwise.
pub(crate) fn response(output: &Output) -> Value {
    match &output.structured {
        Some(data) => data.clone(),
        None => Value::String(output.to_text()),
    }
}
