//! Call ids: the echoed message and the result message carry the same ids, whatever the provider
//! sent as an id.

use haft::{Dialect, history::LastTurn};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{
    kit::*,
    script::{call, complete, endings, events},
};

/// What the provider sent as the id of a call.
#[derive(Debug, Clone, PartialEq)]
enum Id {
    Absent,
    Null,
    Empty,
    Number,
    Given(&'static str),
}

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        3 => Just(Id::Absent),
        1 => Just(Id::Null),
        1 => Just(Id::Empty),
        1 => Just(Id::Number),
        1 => Just(Id::Given("aaaaaaaa1")),
        1 => Just(Id::Given("bbbbbbbb2")),
        1 => Just(Id::Given("haft-2")),
    ]
}

/// Replaces the marker of each call's id.
fn with_ids(value: &mut Value, ids: &[Id]) {
    match value {
        Value::Object(map) => {
            let marked = |value: &Value| {
                let n = value.as_str()?.strip_prefix("ID")?.parse::<usize>().ok()?;
                ids.get(n)
            };
            let keys: Vec<(String, Id)> = map
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), marked(value)?.clone())))
                .collect();
            for (key, id) in keys {
                let value = match id {
                    Id::Absent => {
                        map.shift_remove(&key);
                        continue;
                    }
                    Id::Null => Value::Null,
                    Id::Empty => json!(""),
                    Id::Number => json!(7),
                    Id::Given(id) => json!(id),
                };
                map.insert(key, value);
            }
            map.values_mut().for_each(|value| with_ids(value, ids));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| with_ids(value, ids)),
        _ => {}
    }
}

/// The ids of the calls in an echoed message; `None` where there is none.
fn echoed(dialect: Dialect, message: &Value) -> Vec<Option<String>> {
    let (list, id) = match dialect {
        Dialect::Anthropic => (&message["content"], "/id"),
        Dialect::OpenAiResponses => (message, "/call_id"),
        Dialect::Bedrock => (&message["content"], "/toolUse/toolUseId"),
        Dialect::Gemini | Dialect::GeminiJson => (&message["parts"], "/functionCall/id"),
        _ => (&message["tool_calls"], "/id"),
    };
    ids(list, id)
}

/// The ids of the results.
fn answered(dialect: Dialect, answer: &Value) -> Vec<Option<String>> {
    let (list, id) = match dialect {
        Dialect::Anthropic => (&answer["content"], "/tool_use_id"),
        Dialect::OpenAiResponses => (answer, "/call_id"),
        Dialect::Bedrock => (&answer["content"], "/toolResult/toolUseId"),
        Dialect::Gemini | Dialect::GeminiJson => (&answer["parts"], "/functionResponse/id"),
        _ => (answer, "/tool_call_id"),
    };
    ids(list, id)
}

fn ids(list: &Value, id: &str) -> Vec<Option<String>> {
    let text = |value: &Value| value.as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    list.as_array().unwrap().iter().map(|one| one.pointer(id).and_then(text)).collect()
}

/// A request with one question, the assistant message and the results.
fn history(dialect: Dialect, message: Value, answer: Value) -> Value {
    let (key, question) = match dialect {
        Dialect::OpenAiResponses => ("input", json!({"role": "user", "content": "Go."})),
        Dialect::Gemini | Dialect::GeminiJson => {
            ("contents", json!({"role": "user", "parts": [{"text": "Go."}]}))
        }
        Dialect::Bedrock => ("messages", json!({"role": "user", "content": [{"text": "Go."}]})),
        _ => ("messages", json!({"role": "user", "content": "Go."})),
    };
    let mut list = vec![question];
    for message in [message, answer] {
        match message {
            Value::Array(several) => list.extend(several),
            one => list.push(one),
        }
    }
    Value::Object(Map::from_iter([(key.to_owned(), Value::Array(list))]))
}

fn pairs_by_id(dialect: Dialect) -> bool {
    use Dialect::{Anthropic, Bedrock, Mistral, OpenAiChat, OpenAiResponses};
    matches!(dialect, Anthropic | OpenAiResponses | OpenAiChat | Bedrock | Mistral)
}

async fn both_messages(dialect: Dialect, wanted: &[Id], streamed: bool) -> (Value, Value) {
    let script: Vec<_> =
        (0..wanted.len()).map(|n| call(&format!("ID{n}"), "search", json!({}))).collect();
    let runtime = permissive(vec![quick(read("search"))]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let ending = endings(dialect)[0];
    let decoded = if streamed {
        let mut listening = turn.stream(dialect);
        for mut event in events(dialect, &script, ending, 4) {
            with_ids(&mut event, wanted);
            listening.event(&event);
        }
        listening.finish().await
    } else {
        let mut response = complete(dialect, &script, ending);
        with_ids(&mut response, wanted);
        turn.respond(dialect, &response).await.unwrap()
    };
    assert!(decoded.problem.is_none(), "{dialect}: {:?}", decoded.problem);
    (decoded.message, decoded.answer)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn echoed_calls_and_results_always_have_the_same_ids(
        wanted in proptest::collection::vec(id(), 1..5),
        streamed in any::<bool>(),
    ) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for dialect in Dialect::ALL.iter().copied().filter(|dialect| *dialect != Dialect::Mcp) {
            let (message, answer) = tokio.block_on(both_messages(dialect, &wanted, streamed));
            let echo = echoed(dialect, &message);
            prop_assert_eq!(&echo, &answered(dialect, &answer), "{} {} {}", dialect, message, answer);
            prop_assert_eq!(echo.len(), wanted.len());
            let twice = echo.iter().enumerate().any(|(n, id)| id.is_some() && echo[..n].contains(id));
            if pairs_by_id(dialect) {
                prop_assert!(echo.iter().all(Option::is_some) && !twice, "{}: {:?}", dialect, echo);
            }
            // A provider that pairs by order repeats an id that it sent twice.
            if !twice {
                let history = history(dialect, message, answer);
                let transcript = dialect.read_history(&history).unwrap();
                prop_assert!(transcript.check(LastTurn::Closed).is_ok(), "{} {}", dialect, history);
            }
        }
    }
}

#[tokio::test]
async fn generated_id_is_echoed_where_the_response_has_no_id_key() {
    for dialect in Dialect::ALL.iter().copied().filter(|dialect| pairs_by_id(*dialect)) {
        for streamed in [false, true] {
            let wanted = [Id::Absent, Id::Given("aaaaaaaa1"), Id::Absent];
            let (message, answer) = both_messages(dialect, &wanted, streamed).await;
            let expected = ["haft-1", "aaaaaaaa1", "haft-3"];
            let expected = expected.map(|id| Some(dialect.call_id(id).into_owned()));
            assert_eq!(echoed(dialect, &message), expected, "{dialect}, streamed: {streamed}");
            assert_eq!(answered(dialect, &answer), expected, "{dialect}, streamed: {streamed}");
        }
    }
}

#[tokio::test]
async fn provider_executed_call_does_not_shift_generated_ids() {
    let response = json!({"stopReason": "tool_use", "output": {"message": {"role": "assistant", "content": [
        {"toolUse": {"toolUseId": "s", "name": "x", "input": {}, "type": "server_tool_use"}},
        {"toolUse": {"name": "search", "input": {}}},
    ]}}});
    let runtime = permissive(vec![quick(read("search"))]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let decoded = turn.respond(Dialect::Bedrock, &response).await.unwrap();
    assert_eq!(decoded.message["content"][0]["toolUse"]["toolUseId"], "s");
    assert_eq!(decoded.message["content"][1]["toolUse"]["toolUseId"], "haft-1");
    assert_eq!(decoded.answer["content"][0]["toolResult"]["toolUseId"], "haft-1");
}

#[tokio::test]
async fn echoed_response_has_arguments_in_request_form() {
    let runtime = permissive(vec![quick(read("search"))]).build().unwrap();
    for (dialect, response, place, wanted) in [
        (
            Dialect::Anthropic,
            json!({"stop_reason": "tool_use", "content": [{"type": "tool_use", "name": "search"}]}),
            "/content/0/input",
            json!({}),
        ),
        (
            Dialect::OpenAiResponses,
            json!({"status": "completed", "output": [
                {"type": "function_call", "name": "search", "arguments": {"x": 1}}]}),
            "/0/arguments",
            json!("{\"x\":1}"),
        ),
        (
            Dialect::OpenAiChat,
            json!({"choices": [{"finish_reason": "tool_calls", "message": {
                "role": "assistant", "tool_calls": [{"function": {"name": "search"}}]}}]}),
            "/tool_calls/0/type",
            json!("function"),
        ),
        (
            Dialect::Bedrock,
            json!({"stopReason": "tool_use", "output": {"message": {"role": "assistant", "content": [
                {"toolUse": {"name": "search", "input": "{\"x\":1}"}}]}}}),
            "/content/0/toolUse/input",
            json!({"x": 1}),
        ),
    ] {
        let turn = runtime.run().turn().await.unwrap();
        let decoded = turn.respond(dialect, &response).await.unwrap();
        assert_eq!(decoded.message.pointer(place), Some(&wanted), "{dialect}: {}", decoded.message);
    }
}
