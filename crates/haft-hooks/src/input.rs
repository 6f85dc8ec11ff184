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

/// Puts back what was taken out of arguments before they were told: wherever a value came back as it
/// was told, the call keeps its own.
pub(crate) fn restored(edited: Value, told: &Value, own: &Value) -> Value {
    if edited == *told {
        return own.clone();
    }
    match (edited, told, own) {
        (Value::Object(edited), Value::Object(told), Value::Object(own)) => edited
            .into_iter()
            .map(|(key, value)| {
                let value = match (told.get(&key), own.get(&key)) {
                    (Some(told), Some(own)) => restored(value, told, own),
                    _ => value,
                };
                (key, value)
            })
            .collect(),
        (Value::Array(edited), Value::Array(told), Value::Array(own))
            if edited.len() == told.len() && told.len() == own.len() =>
        {
            let pairs = told.iter().zip(own);
            edited.into_iter().zip(pairs).map(|(value, (t, o))| restored(value, t, o)).collect()
        }
        (edited, _, _) => edited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_as_it_was_told_is_what_it_was() {
        let own = json!({"key": "k1", "to": "ada", "list": [{"pin": 1}, 2]});
        let told = json!({"key": "[hidden]", "to": "ada", "list": [{"pin": "[hidden]"}, 2]});
        assert_eq!(restored(told.clone(), &told, &own), own);
        let edited = json!({"key": "[hidden]", "to": "bob", "list": [{"pin": "[hidden]"}, 3]});
        let wanted = json!({"key": "k1", "to": "bob", "list": [{"pin": 1}, 3]});
        assert_eq!(restored(edited, &told, &own), wanted);
        assert_eq!(restored(json!({"key": "new"}), &told, &own), json!({"key": "new"}));
    }
}
