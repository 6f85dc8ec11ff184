//! Marks in a request body: the provider keeps the prompt up to a mark in its cache.
//!
//! In: a request body. Out: the same body with a mark behind the system prompt, one behind the last
//! message, and one behind the last message that the user's side wrote before it, where the cache
//! of the request before ends. Together with the mark behind the tools these are four, which is the
//! maximum of the providers that have marks. Other providers cache without marks.

use serde_json::{Map, Value};

use crate::{Dialect, options::PromptCacheTtl};

/// Adds the marks.
pub(super) fn add(body: &mut Map<String, Value>, dialect: Dialect, keep: PromptCacheTtl) {
    if !matches!(dialect, Dialect::Anthropic | Dialect::Bedrock) {
        return;
    }
    let mark = |blocks: &mut Vec<Value>, keep| match dialect {
        Dialect::Bedrock => bedrock(blocks, keep),
        _ => anthropic(blocks, keep),
    };
    if let Some(Value::Array(system)) = body.get_mut("system") {
        mark(system, keep);
    }
    let Some(Value::Array(messages)) = body.get_mut("messages") else { return };
    let mut left = 2;
    for (at, message) in messages.iter_mut().rev().enumerate() {
        let is_due = at == 0 || message.get("role").is_some_and(|role| role == "user");
        if let Some(Value::Array(content)) = message.get_mut("content")
            && is_due
        {
            left -= usize::from(mark(content, keep));
        }
        if left == 0 {
            return;
        }
    }
}

/// Marks the last block that may have a mark. Returns whether there is one.
fn anthropic(blocks: &mut [Value], keep: PromptCacheTtl) -> bool {
    let may = |block: &&mut Value| match block.get("type").and_then(Value::as_str) {
        Some("thinking" | "redacted_thinking") | None => false,
        Some("text") => block.get("text").and_then(Value::as_str).is_some_and(|t| !t.is_empty()),
        Some(_) => true,
    };
    let Some(Value::Object(last)) = blocks.iter_mut().rev().find(may) else { return false };
    last.insert("cache_control".to_owned(), keep.anthropic_mark());
    true
}

/// Adds a mark after the last block. Returns whether there is a block.
fn bedrock(blocks: &mut Vec<Value>, keep: PromptCacheTtl) -> bool {
    let has_content = !blocks.is_empty();
    if has_content {
        blocks.push(keep.bedrock_mark());
    }
    has_content
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn marked(dialect: Dialect, body: &Value) -> Value {
        let Value::Object(mut body) = body.clone() else { panic!("{body}") };
        add(&mut body, dialect, PromptCacheTtl::FiveMinutes);
        Value::Object(body)
    }

    #[test]
    fn system_prompt_and_the_last_two_turns_of_the_user_are_marked() {
        let body = json!({
            "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "one"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "three"}]},
                {"role": "user", "content": [{"type": "text", "text": "four"}]},
            ],
        });
        let marked = marked(Dialect::Anthropic, &body);
        let has = |pointer: &str| {
            marked.pointer(pointer).unwrap()["cache_control"] == json!({"type": "ephemeral"})
        };
        assert!(has("/system/1") && has("/messages/4/content/0") && has("/messages/2/content/0"));
        assert_eq!(marked.to_string().matches("cache_control").count(), 3);
    }

    #[test]
    fn blocks_that_may_not_have_a_mark_have_none() {
        let body = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": ""}, {"type": "thinking", "thinking": "hm"},
            ]},
        ]});
        let marked = marked(Dialect::Anthropic, &body);
        assert_eq!(marked.to_string().matches("cache_control").count(), 1);
        assert!(marked["messages"][0]["content"][0].get("cache_control").is_some());
    }

    #[test]
    fn bedrock_has_marks_of_its_own_and_other_dialects_have_none() {
        let body = json!({
            "system": [{"text": "a"}],
            "messages": [{"role": "user", "content": [{"text": "one"}]}],
        });
        let marked_body = marked(Dialect::Bedrock, &body);
        let mark = json!({"cachePoint": {"type": "default"}});
        assert_eq!(marked_body["system"][1], mark);
        assert_eq!(marked_body["messages"][0]["content"][1], mark);
        for dialect in Dialect::ALL.iter().copied() {
            if !matches!(dialect, Dialect::Anthropic | Dialect::Bedrock) {
                assert_eq!(marked(dialect, &body), body);
            }
        }
    }
}
