//! The input of a hook: one JSON object with the fields of the protocol.

use haft::{Output, tool::Scope};
use serde_json::{Map, Value, json};

use crate::{names::Names, project_dir::ProjectDir};

/// Returns the fields that all events have.
pub(crate) fn base(project_dir: &ProjectDir, scope: &Scope, event: &str) -> Map<String, Value> {
    let run = scope.run.as_str();
    let mut input = Map::new();
    let mut put = |key: &str, value: Value| input.insert(key.to_owned(), value);
    let session = scope.session.as_deref().or(project_dir.session.as_deref());
    put("session_id", json!(session.unwrap_or(run)));
    put("prompt_id", json!(scope.request.as_deref().unwrap_or(run)));
    let transcript =
        project_dir.transcript.as_ref().map(|path| path.to_string_lossy().into_owned());
    put("transcript_path", json!(transcript.unwrap_or_default()));
    // An absolute path, so that it does not depend on the hook's working directory.
    put("cwd", json!(project_dir.path.join(&*scope.working_directory).to_string_lossy()));
    put("permission_mode", json!(project_dir.mode()));
    put("hook_event_name", json!(event));
    if let Some(agent) = &scope.agent {
        put("agent_id", json!(agent));
        put("agent_type", json!(agent));
    }
    input
}

/// Adds the fields that all events about a tool have.
pub(crate) fn tool(
    mut input: Map<String, Value>,
    names: &Names,
    arguments: &Value,
    id: &str,
) -> Map<String, Value> {
    input.insert("tool_name".to_owned(), json!(names.protocol));
    input.insert("tool_input".to_owned(), arguments.clone());
    input.insert("tool_use_id".to_owned(), json!(id));
    input
}

/// Returns an output for a hook: the structured data if there is some, the text otherwise.
pub(crate) fn response(output: &Output) -> Value {
    match &output.structured {
        Some(data) => Value::clone(data),
        None => Value::String(output.to_text()),
    }
}

/// Restores secrets that were redacted before the hook got the arguments: a value that comes back
/// unchanged is replaced by the original.
pub(crate) fn restored(edited: Value, sent: &Value, own: &Value) -> Value {
    if edited == *sent {
        return own.clone();
    }
    match (edited, sent, own) {
        (Value::Object(edited), Value::Object(sent), Value::Object(own)) => edited
            .into_iter()
            .map(|(key, value)| {
                let value = match (sent.get(&key), own.get(&key)) {
                    (Some(sent), Some(own)) => restored(value, sent, own),
                    _ => value,
                };
                (key, value)
            })
            .collect(),
        (Value::Array(edited), Value::Array(sent), Value::Array(own))
            if edited.len() == sent.len() && sent.len() == own.len() =>
        {
            let pairs = sent.iter().zip(own);
            edited
                .into_iter()
                .zip(pairs)
                .map(|(value, (sent, own))| restored(value, sent, own))
                .collect()
        }
        (edited, _, _) => edited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_values_that_come_back_unchanged_are_restored() {
        let own = json!({"key": "k1", "to": "ada", "list": [{"pin": 1}, 2]});
        let sent = json!({"key": "[hidden]", "to": "ada", "list": [{"pin": "[hidden]"}, 2]});
        assert_eq!(restored(sent.clone(), &sent, &own), own);
        let edited = json!({"key": "[hidden]", "to": "bob", "list": [{"pin": "[hidden]"}, 3]});
        let wanted = json!({"key": "k1", "to": "bob", "list": [{"pin": 1}, 3]});
        assert_eq!(restored(edited, &sent, &own), wanted);
        assert_eq!(restored(json!({"key": "new"}), &sent, &own), json!({"key": "new"}));
    }
}
