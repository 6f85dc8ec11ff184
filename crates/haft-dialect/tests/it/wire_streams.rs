//! Streams: however a body is chunked, it decodes like the complete response; whatever it contains,
//! decoding ends.

use std::collections::VecDeque;

use haft_core::{Arguments, StopReason, ToolCall};
use haft_dialect::Dialect;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::script::{ScriptPart, body, call, complete, endings, events, text};

/// Calls with their arguments as JSON values.
fn plain(calls: &[ToolCall]) -> Vec<(String, String, Value)> {
    let data = |arguments: &Arguments| match arguments {
        Arguments::Json(data) => data.clone(),
        Arguments::Text(text) if text.is_empty() => json!({}),
        Arguments::Text(text) => serde_json::from_str(text).unwrap(),
    };
    calls.iter().map(|c| (c.id.to_string(), c.name.to_string(), data(&c.arguments))).collect()
}

/// Puts an echoed message back into a response, to decode it again.
fn wrapped(dialect: Dialect, message: Value) -> Value {
    match dialect {
        Dialect::OpenAiResponses => json!({"output": message}),
        Dialect::OpenAiChat | Dialect::Mistral => json!({"choices": [{"message": message}]}),
        Dialect::Gemini | Dialect::GeminiJson => json!({"candidates": [{"content": message}]}),
        Dialect::Bedrock => json!({"output": {"message": message}}),
        Dialect::Ollama => json!({"message": message}),
        _ => message,
    }
}

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|pairs| Value::Object(Map::from_iter(pairs))),
        ]
    })
}

fn script() -> impl Strategy<Value = Vec<ScriptPart>> {
    let arguments = prop::collection::vec((any::<String>(), data()), 0..4)
        .prop_map(|pairs| Value::Object(Map::from_iter(pairs)));
    let one = prop_oneof![
        any::<String>().prop_map(|script| text(&script)),
        ("[a-z_]{1,12}", arguments).prop_map(|(name, arguments)| call("?", &name, arguments)),
    ];
    prop::collection::vec(one, 0..6).prop_map(|mut script| {
        for (at, one) in script.iter_mut().enumerate() {
            if let ScriptPart::Call { id, .. } = one {
                *id = format!("toolid00{at}");
            }
        }
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn stream_decodes_like_the_complete_response(
        script in script(),
        ending in 0_usize..4,
        size in 1_usize..12,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        has_ids: bool,
    ) {
        for dialect in Dialect::ALL.iter().copied() {
            let mut script = script.clone();
            let needs_none = matches!(
                dialect, Dialect::Gemini | Dialect::GeminiJson | Dialect::Ollama);
            if needs_none && !has_ids {
                for one in &mut script {
                    if let ScriptPart::Call { id, .. } = one {
                        id.clear();
                    }
                }
            }
            if dialect == Dialect::Mcp && !script.iter().any(|s| matches!(s, ScriptPart::Call { .. })) {
                continue;
            }
            let ending = endings(dialect)[ending];
            let whole = dialect.parse(&complete(dialect, &script, ending)).unwrap();
            let events = events(dialect, &script, ending, size);
            let bytes = body(dialect, &events);

            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let mut stream = dialect.stream();
            let mut calls = Vec::new();
            for pair in at.windows(2) {
                calls.extend(stream.feed(&bytes[pair[0]..pair[1]]));
            }
            let ended = stream.finish();
            prop_assert!(ended.problem.is_none(), "{dialect}: {:?}", ended.problem);
            prop_assert_eq!(ended.calls.len(), 0, "{}: all are complete before the end", dialect);
            prop_assert_eq!(plain(&calls), plain(&whole.calls), "{}", dialect);
            prop_assert_eq!(ended.stop, whole.stop, "{}", dialect);
            let mut decoded = dialect.stream();
            let decoded_calls: Vec<ToolCall> = events.iter().flat_map(|event| decoded.event(event)).collect();
            prop_assert_eq!(&decoded_calls, &calls, "{}: events say what bytes say", dialect);
            prop_assert_eq!(&decoded.finish().message, &ended.message, "{}", dialect);

            let again = dialect.parse(&wrapped(dialect, ended.message)).unwrap();
            prop_assert_eq!(plain(&again.calls), plain(&calls), "{}: the echo", dialect);
        }
    }

    #[test]
    fn interleaved_stream_decodes_like_the_complete_response(
        script in script(),
        ending in 0_usize..4,
        size in 1_usize..12,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        for (dialect, any_start) in [
            (Dialect::Anthropic, false),
            (Dialect::Bedrock, false),
            (Dialect::OpenAiChat, false),
            (Dialect::OpenAiResponses, true),
        ] {
            let ending = endings(dialect)[ending];
            let whole = dialect.parse(&complete(dialect, &script, ending)).unwrap();
            let events = mixed(events(dialect, &script, ending, size), &picks, any_start);
            let mut stream = dialect.stream();
            let calls: Vec<ToolCall> = events.iter().flat_map(|event| stream.event(event)).collect();
            let ended = stream.finish();
            prop_assert!(ended.problem.is_none(), "{dialect}: {:?}", ended.problem);
            prop_assert_eq!(plain(&calls), plain(&whole.calls), "{}", dialect);
            prop_assert_eq!(ended.calls.len(), 0, "{}", dialect);
            prop_assert_eq!(ended.stop, whole.stop, "{}", dialect);
            let again = dialect.parse(&wrapped(dialect, ended.message)).unwrap();
            prop_assert_eq!(plain(&again.calls), plain(&calls), "{}: the echo", dialect);
        }
    }

    #[test]
    fn any_bytes_decode_without_panic_and_never_as_done(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        start in prop::sample::select(vec!["", "data: ", "{", "[{", "event: error\ndata: "]),
    ) {
        for dialect in Dialect::ALL {
            let mut stream = dialect.stream();
            let mut calls = stream.feed(start.as_bytes());
            calls.extend(stream.feed(&bytes));
            let ended = stream.finish();
            prop_assert_eq!(calls.len() + ended.calls.len(), 0);
            prop_assert!(ended.stop != StopReason::Done || *dialect == Dialect::Mcp);
        }
    }

    #[test]
    fn arbitrary_events_do_not_panic(
        place in any::<prop::sample::Index>(),
        which in any::<prop::sample::Index>(),
        anything in data(),
        twice: bool,
    ) {
        let script = [text("hi"), call("a", "x", json!({"a": [1]})), call("b", "y", json!({}))];
        for dialect in Dialect::ALL.iter().copied() {
            let mut events = events(dialect, &script, endings(dialect)[0], 3);
            let which = which.index(events.len());
            let mut places = Vec::new();
            pointers(&events[which], String::new(), &mut places);
            let place = &places[place.index(places.len())];
            *events[which].pointer_mut(place).unwrap() = anything.clone();
            if twice {
                let event = events[which].clone();
                events.insert(which, event);
            }
            let mut stream = dialect.stream();
            let mut given = 0;
            for event in &events {
                given += stream.event(event).len();
            }
            let ended = stream.finish();
            // In chat only the end shows that a call with invalid arguments is complete.
            let is_chat = matches!(dialect, Dialect::OpenAiChat | Dialect::Mistral);
            if ended.stop == StopReason::Done && !is_chat {
                prop_assert!(ended.calls.is_empty(), "{dialect}: an open call is no good end");
            }
            prop_assert!(given + ended.calls.len() <= 2 * events.len());
        }
    }
}

/// Interleaves the events of a message's items; those of one item keep their order. Items start in
/// order, unless `any_start`.
fn mixed(events: Vec<Value>, picks: &[prop::sample::Index], any_start: bool) -> Vec<Value> {
    let index = |event: &Value| {
        let block = event.as_object()?.values().next()?;
        let piece = event.pointer("/choices/0/delta/tool_calls/0/index");
        let index = event.get("index").or(event.get("output_index")).or(piece);
        index.or(block.get("contentBlockIndex"))?.as_u64()
    };
    let mut lines: Vec<(u64, VecDeque<Value>, bool)> = Vec::new();
    let (mut mixed, mut tail) = (Vec::new(), Vec::new());
    for event in events {
        match index(&event) {
            Some(index) => match lines.iter_mut().find(|line| line.0 == index) {
                Some(line) => line.1.push_back(event),
                None => lines.push((index, VecDeque::from([event]), false)),
            },
            None if lines.is_empty() => mixed.push(event),
            None => tail.push(event),
        }
    }
    for pick in picks.iter().cycle() {
        let begun = lines.iter().filter(|line| line.2).count();
        let open = if any_start { lines.len() } else { (begun + 1).min(lines.len()) };
        let left: Vec<usize> = (0..open).filter(|at| !lines[*at].1.is_empty()).collect();
        let Some(at) = left.get(pick.index(left.len().max(1))) else { break };
        let line = &mut lines[*at];
        line.2 = true;
        mixed.extend(line.1.pop_front());
    }
    mixed.extend(tail);
    mixed
}

fn pointers(value: &Value, here: String, all: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            for (at, item) in list.iter().enumerate() {
                pointers(item, format!("{here}/{at}"), all);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                pointers(item, format!("{here}/{key}"), all);
            }
        }
        _ => {}
    }
    all.push(here);
}

#[test]
fn body_truncated_before_its_end_marker_is_not_done() {
    let script = [text("hé"), call("a", "x", json!({"k": "v"})), call("b", "y", json!({}))];
    for dialect in Dialect::ALL.iter().copied().filter(|d| *d != Dialect::Mcp) {
        let events = events(dialect, &script, endings(dialect)[0], 4);
        let bytes = body(dialect, &events);
        let mut first_done = None;
        for at in 0..=bytes.len() {
            let mut stream = dialect.stream();
            let calls = stream.feed(&bytes[..at]);
            let ended = stream.finish();
            assert!(ended.problem.is_none(), "{dialect} at {at}: {:?}", ended.problem);
            if ended.stop == StopReason::Done {
                first_done.get_or_insert(at);
                assert_eq!(calls.len() + ended.calls.len(), 2, "{dialect} at {at}");
            } else {
                // Inside a later event it is unknown whether it brings a call.
                let is_between = bytes[..at].ends_with(b"\n");
                let is_open = first_done.is_none() || !is_between;
                assert!(is_open, "{dialect} at {at}: the end does not go away");
            }
        }
        let first_done = first_done.unwrap();
        assert!(first_done > bytes.len() / 2, "{dialect} is done only near its end");
    }
}

#[test]
fn stop_reason_is_not_the_end_marker() {
    let script = [call("a", "x", json!({}))];
    let mut events = events(Dialect::Anthropic, &script, "tool_use", 4);
    assert_eq!(events.pop().unwrap()["type"], "message_stop");
    let mut stream = Dialect::Anthropic.stream();
    let calls: Vec<ToolCall> = events.iter().flat_map(|event| stream.event(event)).collect();
    assert_eq!((calls.len(), stream.finish().stop), (1, StopReason::Truncated));
}

#[test]
fn unclosed_call_makes_a_done_stream_truncated() {
    let script = [call("a", "x", json!({})), call("b", "y", json!({}))];
    for (dialect, mark) in [
        (Dialect::Anthropic, "content_block_stop"),
        (Dialect::Bedrock, "contentBlockStop"),
        (Dialect::OpenAiResponses, ".done"),
    ] {
        let mut events = events(dialect, &script, endings(dialect)[0], 4);
        events.retain(|event| {
            let text = event.to_string();
            !(text.contains(mark) && text.contains("ndex\":1"))
        });
        if let Some(end) = events.iter_mut().find(|event| event["type"] == "response.completed") {
            end["response"]["output"] = json!([]);
        }
        let mut stream = dialect.stream();
        let calls: Vec<ToolCall> = events.iter().flat_map(|event| stream.event(event)).collect();
        let ended = stream.finish();
        assert_eq!((calls.len(), ended.calls.len()), (1, 1), "{dialect}");
        assert_eq!(ended.stop, StopReason::Truncated, "{dialect}");
    }
}

#[test]
fn truncated_mcp_request_is_not_done() {
    let bytes = body(Dialect::Mcp, &events(Dialect::Mcp, &[call("a", "x", json!({}))], "", 1));
    let mut stream = Dialect::Mcp.stream();
    assert!(stream.feed(&bytes[..bytes.len() / 2]).is_empty());
    assert_eq!(stream.finish().stop, StopReason::Truncated);
}

#[test]
fn stream_is_limited_in_bytes() {
    let line = format!(": {}\n", "x".repeat(1 << 20));
    let mut stream = Dialect::OpenAiChat.stream();
    for _ in 0..70 {
        assert!(stream.feed(line.as_bytes()).is_empty());
    }
    let ended = stream.finish();
    assert!(ended.problem.unwrap().message().contains("longer than 67108864 bytes"));

    let mut stream = Dialect::Ollama.stream();
    assert!(stream.feed(format!("{{\"x\":\"{}", "y".repeat(20 << 20)).as_bytes()).is_empty());
    assert!(stream.feed(b"\"}").is_empty());
    let ended = stream.finish();
    assert_eq!(ended.stop, StopReason::Unknown);
    assert!(ended.problem.unwrap().message().contains("one event is longer"));
}

#[test]
fn invalid_input_fails_a_stream_with_a_reason() {
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    let cases: [(&[u8], &str); 4] = [
        (b"data: {\"a\":\n\n", "an event is not valid JSON"),
        (b"data: {\"a\":\"\xff\"}\n\n", "an event is not valid JSON"),
        (deep.as_bytes(), "an event is not valid JSON"),
        (b"{\"a\":1} nonsense", "invalid JSON"),
    ];
    for (bytes, says) in cases {
        for dialect in Dialect::ALL {
            let mut stream = dialect.stream();
            assert!(stream.feed(bytes).is_empty());
            let ended = stream.finish();
            assert_eq!(ended.stop, StopReason::Unknown);
            let problem = ended.problem.unwrap();
            assert!(problem.message().contains(says), "{dialect}: {problem}");
        }
    }
    let nested = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let mut stream = Dialect::Gemini.stream();
    assert!(stream.event(&nested).is_empty());
    assert!(stream.finish().problem.unwrap().message().contains("too deep"));
}

#[test]
fn provider_error_ends_the_stream() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let script = [call("a", "x", json!({})), call("b", "y", json!({}))];
    for dialect in Dialect::ALL.iter().copied().filter(|d| *d != Dialect::Mcp) {
        let events = events(dialect, &script, endings(dialect)[0], 5);
        let mut stream = dialect.stream();
        assert!(stream.event(&error).is_empty());
        let later: Vec<ToolCall> = events.iter().flat_map(|event| stream.event(event)).collect();
        assert_eq!(later, [], "{dialect}: nothing more is given out");
        let ended = stream.finish();
        assert_eq!(ended.stop, StopReason::Unknown, "{dialect}");
        assert!(ended.problem.unwrap().message().ends_with("with an error: busy"), "{dialect}");
    }
    for (dialect, body) in [
        (Dialect::OpenAiChat, "data: {\"error\":{\"message\":\"busy\"}}\n\n"),
        (Dialect::Anthropic, "event: error\ndata: {\"message\":\"busy\"}\n\n"),
        (Dialect::Ollama, "{\"error\":\"busy\"}\n"),
        (Dialect::GeminiJson, "[{\"error\":{\"code\":503,\"message\":\"busy\"}}]"),
        (Dialect::Bedrock, "{\"throttlingException\":{\"message\":\"busy\"}}"),
        (
            Dialect::OpenAiResponses,
            "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\
             \"error\":{\"code\":\"x\",\"message\":\"busy\"}}}\n\n",
        ),
    ] {
        let mut stream = dialect.stream();
        assert!(stream.feed(body.as_bytes()).is_empty());
        let ended = stream.finish();
        assert_eq!(ended.stop, StopReason::Unknown, "{dialect}");
        assert!(ended.problem.unwrap().message().ends_with("busy"), "{dialect}");
    }
}
