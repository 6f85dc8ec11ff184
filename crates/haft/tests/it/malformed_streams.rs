//! Malformed streams, from faulty servers and networks: a partial call never runs, nothing runs
//! twice, and the worst stop reason wins.

use haft::{
    Dialect, ToolCall,
    turn::{StopReason, TurnOutput},
};
use serde_json::{Value, json};

use crate::kit::*;

fn runtime() -> haft::Runtime {
    permissive(vec![quick(read("get")), quick(write("put")), quick(write("rm"))]).build().unwrap()
}

async fn decoded(dialect: Dialect, events: &[Value]) -> TurnOutput {
    let mut listening = runtime().run().turn().await.unwrap().stream(dialect);
    for event in events {
        listening.event(event);
    }
    listening.finish().await
}

async fn fed(dialect: Dialect, body: &[u8]) -> TurnOutput {
    let mut listening = runtime().run().turn().await.unwrap().stream(dialect);
    listening.feed(body);
    listening.finish().await
}

/// The result of each call: the text of a success, the code of a failure.
fn outcomes(decoded: &TurnOutput) -> Vec<String> {
    let one = |answer: &haft::ToolResult| match answer.failure() {
        Some(failure) => failure.code().as_str().to_owned(),
        None => answer.text().into_owned(),
    };
    decoded.results.iter().map(one).collect()
}

/// Chunks of chat, one per list of deltas, and the given finish reasons.
fn chat(pieces: &[Value], ends: &[&str]) -> Vec<Value> {
    let chunk =
        |piece: &Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]});
    let end = |reason: &&str| json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    pieces.iter().map(chunk).chain(ends.iter().map(end)).collect()
}

fn piece(index: Option<u64>, id: &str, name: &str, arguments: Value) -> Value {
    let mut piece = json!({"function": {"arguments": arguments}});
    if let Some(index) = index {
        piece["index"] = index.into();
    }
    if !id.is_empty() {
        piece["id"] = id.into();
    }
    if !name.is_empty() {
        piece["function"]["name"] = name.into();
    }
    piece
}

async fn chatted(pieces: &[Value]) -> TurnOutput {
    decoded(Dialect::OpenAiChat, &chat(pieces, &["tool_calls"])).await
}

#[tokio::test]
async fn id_in_every_chunk_does_not_split_a_call() {
    for index in [Some(0), None] {
        let decoded = chatted(&[
            piece(index, "aaa", "rm", json!("")),
            piece(index, "bbb", "", json!("{\"x\": \"")),
            piece(index, "ccc", "", json!("tmp\"}")),
        ])
        .await;
        assert_eq!(outcomes(&decoded), ["rm(tmp)"], "{index:?}");
        assert_eq!(decoded.message["tool_calls"][0]["id"], "aaa");
    }
    let decoded = chatted(&[
        piece(Some(0), "aaa", "rm", json!("")),
        piece(Some(0), "bbb", "rm", json!("{\"x\":\"tmp\"}")),
    ])
    .await;
    assert_eq!(outcomes(&decoded), ["not_run"], "ambiguous: one call or two");
    assert!(decoded.problem.unwrap().message().contains("changes its id"));
}

#[tokio::test]
async fn same_id_under_another_index_is_the_same_call() {
    let decoded = chatted(&[
        piece(Some(0), "a", "put", json!("")),
        piece(Some(1), "a", "", json!("{\"x\":\"1\"}")),
    ])
    .await;
    assert_eq!(outcomes(&decoded), ["put(1)"]);
}

#[tokio::test]
async fn repeated_name_is_not_a_second_call() {
    for (index, more) in [(Some(0), json!(null)), (Some(0), json!("")), (None, json!("\n"))] {
        let decoded = chatted(&[
            piece(index, "", "put", json!("{\"x\":\"a\"}")),
            piece(index, "", "put", more.clone()),
        ])
        .await;
        assert_eq!(outcomes(&decoded), ["put(a)"], "{index:?} {more}");
    }
    let mut bare = piece(Some(0), "", "put", json!(null));
    bare["function"] = json!({"name": "put"});
    let decoded = chatted(&[piece(Some(0), "", "put", json!("{\"x\":\"a\"}")), bare]).await;
    assert_eq!(outcomes(&decoded), ["put(a)"]);
}

#[tokio::test]
async fn ids_separate_calls_without_an_index() {
    let decoded = chatted(&[
        piece(None, "A", "put", json!("{\"x\"")),
        piece(None, "B", "put", json!("{\"x\"")),
        piece(None, "A", "", json!(":\"1\"}")),
        piece(None, "B", "", json!(":\"2\"}")),
    ])
    .await;
    assert_eq!(outcomes(&decoded), ["put(1)", "put(2)"]);
    assert_eq!(decoded.stop, StopReason::Done);
}

#[tokio::test]
async fn name_arrives_whole_repeated_cumulative_or_in_chunks() {
    let x = json!("{\"x\":\"1\"}");
    for names in [["put", "put"], ["pu", "put"], ["pu", "t"]] {
        for index in [Some(0), None] {
            let first = piece(index, "", names[0], json!(""));
            let decoded = chatted(&[first, piece(index, "", names[1], x.clone())]).await;
            assert_eq!(outcomes(&decoded), ["put(1)"], "{names:?} {index:?}");
        }
        let chunk = |name: &str, arguments: &Value| {
            let call = json!({"name": name, "arguments": arguments});
            json!({"choices": [{"delta": {"function_call": call}}]})
        };
        let mut events = vec![chunk(names[0], &json!("")), chunk(names[1], &x)];
        events.extend(chat(&[], &["function_call"]));
        assert_eq!(outcomes(&decoded(Dialect::OpenAiChat, &events).await), ["put(1)"], "{names:?}");
    }
}

#[tokio::test]
async fn arguments_as_json_and_text_must_agree() {
    let decoded = chatted(&[
        piece(Some(0), "a", "put", json!({})),
        piece(Some(0), "", "", json!("{\"x\":\"1\"}")),
    ])
    .await;
    assert_eq!(outcomes(&decoded), ["put(1)"]);
    assert_eq!(decoded.message["tool_calls"][0]["function"]["arguments"], "{\"x\":\"1\"}");
    let decoded = chatted(&[
        piece(Some(0), "a", "put", json!({"x": "0"})),
        piece(Some(0), "", "", json!("{\"x\":\"1\"}")),
    ])
    .await;
    assert_eq!(outcomes(&decoded), ["not_run"]);
    let decoded = chatted(&[
        piece(Some(0), "a", "get", json!("{\"x\":\"0\"}")),
        piece(Some(1), "b", "put", json!("{}")),
        piece(Some(0), "", "", json!({"x": "1"})),
    ])
    .await;
    assert_eq!(outcomes(&decoded), ["get(0)", "not_run"]);
    assert!(decoded.problem.unwrap().message().contains("continues"));
}

#[tokio::test]
async fn echoed_chat_call_has_a_type_and_text_arguments() {
    let mut first = piece(Some(0), "a", "put", json!({"x": "1"}));
    first["type"] = json!("function");
    let mut second = piece(Some(0), "", "", json!(null));
    second["type"] = json!("");
    let decoded = chatted(&[first, second]).await;
    let call = &decoded.message["tool_calls"][0];
    assert_eq!(call["type"], "function");
    assert_eq!(call["function"]["arguments"], "{\"x\":\"1\"}");

    let call = json!({"id": "a", "function": {"name": "put", "arguments": {"x": "1"}}});
    let message = json!({"role": "assistant", "tool_calls": [call]});
    let whole = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    let echo = Dialect::OpenAiChat
        .parse(&whole)
        .unwrap()
        .assistant_message::<haft::ToolResult>(&whole, &[]);
    assert_eq!(echo["tool_calls"][0]["function"]["arguments"], "{\"x\":\"1\"}");
}

#[tokio::test]
async fn finish_reason_in_every_chunk_ends_only_at_the_last() {
    let pieces = [
        piece(Some(0), "a", "get", json!("")),
        piece(Some(0), "", "", json!("{\"x\"")),
        piece(Some(0), "", "", json!(":\"1\"}")),
        piece(Some(1), "b", "put", json!("{\"x\":\"2\"}")),
    ];
    let mut events = chat(&pieces, &[]);
    for event in &mut events {
        event["choices"][0]["finish_reason"] = json!("stop");
    }
    let response = decoded(Dialect::OpenAiChat, &events).await;
    assert_eq!(
        (outcomes(&response), response.stop),
        (vec!["get(1)".into(), "put(2)".into()], StopReason::Done)
    );
    events[3]["choices"][0]["finish_reason"] = json!(null);
    assert_eq!(outcomes(&decoded(Dialect::OpenAiChat, &events).await)[1], "not_run");
}

#[tokio::test]
async fn worst_stop_reason_wins() {
    let put = piece(Some(0), "a", "put", json!("{}"));
    for (ends, wanted) in [
        (["tool_calls", "content_filter"], StopReason::Refused),
        (["tool_calls", "length"], StopReason::Truncated),
        (["length", "tool_calls"], StopReason::Truncated),
        (["tool_calls", "stop"], StopReason::Done),
    ] {
        let decoded = decoded(Dialect::OpenAiChat, &chat(std::slice::from_ref(&put), &ends)).await;
        assert_eq!(decoded.stop, wanted, "{ends:?}");
        assert_eq!(outcomes(&decoded)[0] == "put()", wanted == StopReason::Done);
    }
    for (ends, wanted) in [
        (["SAFETY", "STOP"], StopReason::Refused),
        (["MAX_TOKENS", "STOP"], StopReason::Truncated),
        (["STOP", "MAX_TOKENS"], StopReason::Truncated),
        (["FINISH_REASON_UNSPECIFIED", "STOP"], StopReason::Done),
    ] {
        let chunk = |reason: &str| {
            json!({"candidates": [{"finishReason": reason, "content":
            {"parts": [{"functionCall": {"name": "put", "args": {}}}]}}]})
        };
        assert_eq!(decoded(Dialect::Gemini, &ends.map(chunk)).await.stop, wanted, "{ends:?}");
    }
    let anthropic = |ends: [&str; 2]| {
        let end = |why| json!({"type": "message_delta", "delta": {"stop_reason": why}});
        let mut events = anthropic_call(0, "A", "put", json!("{}"));
        events.extend(ends.map(end));
        events.push(json!({"type": "message_stop"}));
        events
    };
    for ends in [["max_tokens", "tool_use"], ["tool_use", "max_tokens"]] {
        let decoded = decoded(Dialect::Anthropic, &anthropic(ends)).await;
        assert_eq!(
            (decoded.stop, outcomes(&decoded)),
            (StopReason::Truncated, vec!["not_run".into()])
        );
    }
    let mut events = bedrock_call(0, "A", "put", json!("{}"));
    events.push(json!({"messageStop": {"stopReason": "tool_use"}}));
    for last in [
        json!({"modelStreamErrorException": {"message": "broken"}}),
        json!({"messageStop": {"stopReason": "max_tokens"}}),
    ] {
        let events: Vec<Value> = events.iter().cloned().chain([last]).collect();
        assert_eq!(outcomes(&decoded(Dialect::Bedrock, &events).await), ["not_run"]);
    }
    let block = json!({"contentBlockStart": {"contentBlockIndex": 1, "start": {}}});
    let events: Vec<Value> = events.into_iter().chain([block]).collect();
    assert_eq!(
        outcomes(&decoded(Dialect::Bedrock, &events).await),
        ["not_run"],
        "it has not ended"
    );
    let mut events = anthropic(["tool_use", "tool_use"]);
    events.extend(anthropic_call(1, "B", "rm", json!("{}")));
    assert_eq!(
        outcomes(&decoded(Dialect::Anthropic, &events).await),
        ["not_run"],
        "it has not ended"
    );
    let line = |why: &str| json!({"message": {}, "done": true, "done_reason": why});
    let call = json!({"message": {"tool_calls": [{"function": {"name": "put"}}]}, "done": false});
    let decoded = decoded(Dialect::Ollama, &[call, line("stop"), line("length")]).await;
    assert_eq!(outcomes(&decoded), ["not_run"]);
}

fn anthropic_call(index: usize, id: &str, name: &str, input: Value) -> Vec<Value> {
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": input});
    vec![
        json!({"type": "content_block_start", "index": index, "content_block": block}),
        json!({"type": "content_block_delta", "index": index, "delta": delta}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

fn anthropic_end() -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]
}

fn bedrock_call(index: usize, id: &str, name: &str, input: Value) -> Vec<Value> {
    let start = json!({"toolUse": {"toolUseId": id, "name": name}});
    let delta = json!({"toolUse": {"input": input}});
    vec![
        json!({"contentBlockStart": {"contentBlockIndex": index, "start": start}}),
        json!({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}),
        json!({"contentBlockStop": {"contentBlockIndex": index}}),
    ]
}

#[tokio::test]
async fn body_that_ends_inside_an_event_is_truncated() {
    let chunk = |name: &str| {
        json!({"candidates": [{"finishReason": "STOP", "content":
            {"parts": [{"functionCall": {"name": name, "args": {}}}]}}]})
        .to_string()
    };
    let (put, rm) = (chunk("put"), chunk("rm"));
    let half = &rm[..rm.len() / 2];
    let whole = format!("data: {put}\n\ndata: {rm}\n\n");
    assert_eq!(outcomes(&fed(Dialect::Gemini, whole.as_bytes()).await), ["put()", "rm()"]);
    for body in [
        format!("data: {put}\n\ndata: {half}"),
        format!("data: {put}\n\nda"),
        format!("data: {put}\n\ndata: "),
        format!("[{put},{half}"),
        format!("[{put},"),
        format!("[{put}"),
    ] {
        let decoded = fed(Dialect::Gemini, body.as_bytes()).await;
        assert_eq!(
            (outcomes(&decoded), decoded.stop),
            (vec!["not_run".into()], StopReason::Truncated),
            "{body}"
        );
    }
    let decoded = fed(Dialect::Gemini, format!("data: {put}\n\n: ali").as_bytes()).await;
    assert_eq!(decoded.stop, StopReason::Done, "a comment holds no call");
}

#[tokio::test]
async fn generated_call_id_never_collides_with_a_given_one() {
    for given in ["call-1", "haft-1"] {
        let pieces =
            [piece(Some(0), "", "get", json!("{}")), piece(Some(1), given, "put", json!("{}"))];
        let decoded = chatted(&pieces).await;
        let ids = |of: &Value, key: &str| -> Vec<Value> {
            of.as_array().unwrap().iter().map(|one| one[key].clone()).collect()
        };
        let echoed = ids(&decoded.message["tool_calls"], "id");
        assert_eq!(echoed, ids(&decoded.answer, "tool_call_id"));
        assert_eq!(echoed[1], given);
        assert_ne!(echoed[0], echoed[1]);
        if given == "call-1" {
            assert_eq!(outcomes(&decoded), ["get()", "put()"]);
        }
    }
    let mut events = Vec::new();
    for (index, id) in ["A", "A", "A-2", "haft-2"].into_iter().enumerate() {
        events.extend(anthropic_call(index, id, "put", json!("{}")));
    }
    events.extend(anthropic_end());
    let decoded = decoded(Dialect::Anthropic, &events).await;
    let id = |of: &Value, n: usize, key: &str| of["content"][n][key].as_str().unwrap().to_owned();
    let echoed: Vec<_> = (0..4).map(|n| id(&decoded.message, n, "id")).collect();
    let answered: Vec<_> = (0..4).map(|n| id(&decoded.answer, n, "tool_use_id")).collect();
    assert_eq!(echoed, answered);
    assert_eq!((&*echoed[0], &*echoed[2], &*echoed[3]), ("A", "A-2", "haft-2"));
    assert!(!["A", "A-2", "haft-2"].contains(&&*echoed[1]), "{echoed:?}");
    assert_eq!(outcomes(&decoded)[2], "put()", "an id of its own is not a second one");
}

#[tokio::test]
async fn generated_call_id_is_valid_for_the_provider() {
    let long = "x".repeat(64);
    for (dialect, limit) in [(Dialect::OpenAiChat, 40), (Dialect::OpenAiResponses, 64)] {
        let response = match dialect {
            Dialect::OpenAiChat => {
                let call = json!({"id": long, "function": {"name": "get", "arguments": "{}"}});
                json!({"choices": [{"finish_reason": "stop", "message": {"tool_calls": [call, call]}}]})
            }
            _ => {
                let call = json!({"type": "function_call", "call_id": long, "name": "get",
                                  "arguments": "{}"});
                json!({"status": "completed", "output": [call, call]})
            }
        };
        let turn = runtime().run().turn().await.unwrap();
        let answer = turn.dispatch(dialect, &response).await.unwrap();
        let id = answer[1].get("tool_call_id").or(answer[1].get("call_id")).unwrap();
        assert!(id.as_str().unwrap().len() <= limit, "{dialect}: {id}");
        // The shorthand has only the results; their ids may be anything.
        let turn = runtime().run().turn().await.unwrap();
        let id = "y z".repeat(30);
        let answers = turn.run([ToolCall::new(&*id, "get", json!({}))]).await;
        assert_eq!(dialect.render_results(&answers).to_string().matches(&*id).count(), 1);
    }
}

#[tokio::test]
async fn a_message_with_too_many_calls_runs_none_of_them() {
    let many = |n: usize| vec![json!({"function": {"name": "put"}}); n];
    let whole = |n: usize| {
        json!({"message": {"tool_calls": many(n)}, "done": true,
                                  "done_reason": "stop"})
    };
    assert_eq!(Dialect::Ollama.parse(&whole(4_096)).unwrap().calls.len(), 4_096);
    let error = Dialect::Ollama.parse(&whole(4_097)).unwrap_err();
    assert!(error.to_string().contains("more than 4096 calls"), "{error}");
    let mut stream = Dialect::Ollama.stream();
    assert!(stream.event(&whole(200_000)).is_empty());
    let ended = stream.finish();
    assert_eq!((ended.calls.len(), ended.stop), (0, StopReason::Unknown));
    assert!(ended.problem.unwrap().message().contains("more than 4096 calls"));

    let chat =
        json!({"choices": [{"message": {"tool_calls": many(4_097)}, "finish_reason": "stop"}]});
    assert!(Dialect::OpenAiChat.parse(&chat).is_err());
    let mut stream = Dialect::Anthropic.stream();
    let mut given = 0;
    for n in 0..5_000 {
        let block = json!({"type": "tool_use", "id": format!("t{n}"), "name": "put", "input": {}});
        let start = json!({"type": "content_block_start", "index": n, "content_block": block});
        given += stream.event(&start).len();
    }
    let ended = stream.finish();
    assert_eq!((given, ended.calls.len(), ended.stop), (0, 4_096, StopReason::Unknown));
}

#[tokio::test]
async fn arguments_in_unusual_fields_are_not_lost() {
    let end = json!({"messageStop": {"stopReason": "tool_use"}});
    for (input, wanted) in
        [(json!({"x": "a"}), "put(a)"), (json!("{\"x\":\"a\"}"), "put(a)"), (json!([1]), "not_run")]
    {
        let mut events = bedrock_call(0, "A", "put", input.clone());
        events.push(end.clone());
        assert_eq!(outcomes(&decoded(Dialect::Bedrock, &events).await), [wanted], "{input}");
        let mut events = anthropic_call(0, "A", "put", input.clone());
        events.extend(anthropic_end());
        let decoded = decoded(Dialect::Anthropic, &events).await;
        assert_eq!(outcomes(&decoded), [wanted], "{input}");
        if wanted != "not_run" {
            assert_eq!(decoded.message["content"][0]["input"], json!({"x": "a"}));
        }
    }
    let start = json!({"toolUse": {"toolUseId": "A", "name": "put", "input": {"x": "a"}}});
    let mut events = bedrock_call(0, "A", "put", json!(null));
    events[0]["contentBlockStart"]["start"] = start.clone();
    events.push(end.clone());
    let decoded1 = decoded(Dialect::Bedrock, &events).await;
    assert_eq!(outcomes(&decoded1), ["put(a)"]);
    assert_eq!(decoded1.message["content"][0]["toolUse"]["input"], json!({"x": "a"}));
    let mut events = bedrock_call(0, "A", "put", json!("{\"x\":\"b\"}"));
    events[0]["contentBlockStart"]["start"] = start;
    events.push(end);
    assert_eq!(
        outcomes(&decoded(Dialect::Bedrock, &events).await),
        ["not_run"],
        "ambiguous arguments"
    );
}

#[tokio::test]
async fn only_the_first_choice_is_decoded() {
    let call =
        |name: &str| json!({"index": 0, "id": name, "function": {"name": name, "arguments": "{}"}});
    let event = json!({"choices": [
        {"delta": {"tool_calls": [call("put")]}, "finish_reason": "tool_calls"},
        {"delta": {"tool_calls": [call("rm")]}, "finish_reason": "length"},
    ]});
    assert_eq!(outcomes(&decoded(Dialect::OpenAiChat, &[event]).await), ["put()"]);
    let candidate = |name: &str| {
        json!({"finishReason": "STOP", "content":
        {"parts": [{"functionCall": {"name": name, "args": {}}}]}})
    };
    let event = json!({"candidates": [candidate("put"), candidate("rm")]});
    assert_eq!(outcomes(&decoded(Dialect::Gemini, &[event]).await), ["put()"]);
}

#[tokio::test]
async fn duplicate_id_in_nested_form_is_replaced() {
    let turn = runtime().run().turn().await.unwrap();
    let calls = ["a>1", "a>1", "a>2"].map(|id| ToolCall::new(id, "put", json!({})));
    let answers = turn.run(calls).await;
    assert_eq!(ends(&answers), ["haft-1 ok", "haft-2 not_run", "haft-3 ok"]);
}

#[tokio::test]
async fn json_rpc_number_id_and_text_id_are_different() {
    let request = |id: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                                     "params": {"name": "put", "arguments": {}}})
    };
    let batch = json!([request(json!(7)), request(json!("7")), request(json!("\"7\""))]);
    let turn = runtime().run().turn().await.unwrap();
    let answer = turn.dispatch(Dialect::Mcp, &batch).await.unwrap();
    for (n, id) in [json!(7), json!("7"), json!("\"7\"")].iter().enumerate() {
        assert_eq!(answer[n]["id"], *id);
        assert_eq!(answer[n]["result"]["isError"], false, "{id}");
    }
}

#[tokio::test]
async fn cancelled_mcp_request_does_not_run() {
    let request = |id: u64, name: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                                               "params": {"name": name, "arguments": {}}})
    };
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": 1}});
    let batch = json!([request(1, "put"), request(2, "rm"), cancel]);
    let turn = runtime().run().turn().await.unwrap();
    let answer = turn.dispatch(Dialect::Mcp, &batch).await.unwrap();
    assert_eq!((answer.as_array().unwrap().len(), &answer[0]["id"]), (1, &json!(2)));
    let decoded = decoded(Dialect::Mcp, &[request(1, "put"), request(2, "get"), cancel]).await;
    assert_eq!(outcomes(&decoded)[0], "not_run");
}

/// Events of Responses for calls `(position, id, name, arguments)`, up to `output_item.added`.
fn item(id: &str, name: &str, arguments: &str, status: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
           "arguments": arguments, "status": status})
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed",
           "response": {"object": "response", "status": "completed", "output": output}})
}

fn a() -> Value {
    item("A", "put", "{\"x\":\"a\"}", "completed")
}

fn b() -> Value {
    item("B", "rm", "{\"x\":\"b\"}", "completed")
}

#[tokio::test]
async fn calls_keep_message_order_whatever_order_they_complete_in() {
    let wanted = ["put(a)", "rm(b)"];
    let (a_starts, b_starts) =
        (added(0, item("A", "put", "", "")), added(1, item("B", "rm", "", "")));
    for events in [
        vec![
            a_starts.clone(),
            b_starts.clone(),
            done(1, b()),
            done(0, a()),
            completed(&[a(), b()]),
        ],
        vec![b_starts, done(1, b()), a_starts.clone(), done(0, a()), completed(&[])],
        vec![done(1, b()), done(0, a()), completed(&[a(), b()])],
        vec![done(1, b()), completed(&[a(), b()])],
        vec![done(3, a()), done(5, b()), completed(&[])],
    ] {
        let decoded = decoded(Dialect::OpenAiResponses, &events).await;
        assert_eq!(
            (outcomes(&decoded), decoded.stop),
            (wanted.map(String::from).to_vec(), StopReason::Done)
        );
        let ids = |of: &Value| [of[0]["call_id"].clone(), of[1]["call_id"].clone()];
        assert_eq!(ids(&decoded.message), ids(&decoded.answer));
        assert_eq!(ids(&decoded.answer), [json!("A"), json!("B")]);
    }
    let open = decoded(Dialect::OpenAiResponses, &[a_starts, done(1, b()), completed(&[])]).await;
    assert_eq!((outcomes(&open), open.stop), (vec!["not_run".into(); 2], StopReason::Truncated));

    for dialect in [Dialect::Anthropic, Dialect::Bedrock] {
        let (mut events, end) = match dialect {
            Dialect::Anthropic => (
                [
                    anthropic_call(0, "A", "put", json!("{}")),
                    anthropic_call(1, "B", "rm", json!("{}")),
                ],
                anthropic_end().to_vec(),
            ),
            _ => (
                [bedrock_call(0, "A", "put", json!("{}")), bedrock_call(1, "B", "rm", json!("{}"))],
                vec![json!({"messageStop": {"stopReason": "tool_use"}})],
            ),
        };
        let late = events[0].pop().unwrap();
        let events: Vec<Value> = events.concat();
        let swapped: Vec<Value> = events.iter().cloned().chain([late]).chain(end.clone()).collect();
        assert_eq!(outcomes(&decoded(dialect, &swapped).await), ["put()", "rm()"], "{dialect}");
        let open: Vec<Value> = events.into_iter().chain(end).collect();
        let open = decoded(dialect, &open).await;
        let ids: Vec<_> = open.results.iter().map(|answer| answer.id().to_string()).collect();
        assert_eq!(
            (ids, open.stop),
            (vec!["A".into(), "B".into()], StopReason::Truncated),
            "{dialect}"
        );
        assert_eq!(outcomes(&open), ["not_run", "not_run"]);
    }
}

#[tokio::test]
async fn item_that_only_the_final_response_has_keeps_its_position() {
    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": []});
    for index in [json!(1), json!(null)] {
        let mut events = vec![added(1, item("A", "put", "", "in_progress")), done(1, a())];
        for event in &mut events {
            event["output_index"] = index.clone();
        }
        events.push(completed(&[reasoning.clone(), a()]));
        let decoded = decoded(Dialect::OpenAiResponses, &events).await;
        assert_eq!(outcomes(&decoded), ["put(a)"]);
        assert_eq!(decoded.message, json!([reasoning, a()]));
    }
}

#[tokio::test]
async fn responses_items_match_by_id_or_content() {
    let args = |id: &str, kind: &str, text: &str| {
        let key = if kind == "done" { "arguments" } else { "delta" };
        json!({"type": format!("response.function_call_arguments.{kind}"),
               "item_id": format!("fc_{id}"), key: text})
    };
    let mut events = vec![
        added(0, item("A", "put", "", "in_progress")),
        added(1, item("B", "rm", "", "in_progress")),
        args("A", "delta", "{\"x\":\"a\"}"),
        args("B", "delta", "{\"x\":\"b\"}"),
        args("A", "done", "{\"x\": \"a\"}"),
        args("B", "done", "{\"x\":\"b\"}"),
        done(0, a()),
        done(1, b()),
        completed(&[a(), b()]),
    ];
    for event in &mut events {
        event.as_object_mut().unwrap().shift_remove("output_index");
    }
    let response = decoded(Dialect::OpenAiResponses, &events).await;
    assert!(response.problem.is_none(), "{:?}", response.problem);
    assert_eq!(outcomes(&response), ["put(a)", "rm(b)"]);

    events[6]["item"]["arguments"] = json!("{\"x\":\"other\"}");
    assert_eq!(outcomes(&decoded(Dialect::OpenAiResponses, &events).await), ["not_run", "not_run"]);

    let failed = item("A", "get", "{}", "failed");
    let response =
        decoded(Dialect::OpenAiResponses, &[done(0, failed.clone()), completed(&[])]).await;
    assert_eq!(outcomes(&response), ["not_run"]);
    let whole = json!({"status": "completed", "output": [failed]});
    assert_eq!(Dialect::OpenAiResponses.parse(&whole).unwrap().stop, StopReason::Truncated);

    let response = decoded(Dialect::OpenAiResponses, &[done(0, a()), completed(&[b()])]).await;
    assert_eq!(outcomes(&response)[0], "not_run", "the end knows nothing of it");
    let renamed = item("Z", "put", "{\"x\": \"a\"}", "completed");
    let response = decoded(Dialect::OpenAiResponses, &[done(0, a()), completed(&[renamed])]).await;
    assert_eq!(
        (outcomes(&response), &response.message[0]["call_id"]),
        (vec!["put(a)".into()], &json!("A"))
    );

    let late = json!({"type": "response.failed", "response": {"status": "failed"}});
    let response =
        decoded(Dialect::OpenAiResponses, &[done(0, a()), completed(&[a()]), late]).await;
    assert_eq!(outcomes(&response), ["not_run"]);
}

#[tokio::test]
async fn unterminated_gemini_text_value_makes_no_call() {
    let chunk = |call: Value, end: Value| {
        json!({"candidates": [
        {"content": {"parts": [{"functionCall": call}]}, "finishReason": end}]})
    };
    let half = json!({"jsonPath": "$.x", "stringValue": "a", "willContinue": true});
    let first = json!({"name": "put", "willContinue": true, "partialArgs": [half]});
    let events = [chunk(first, json!(null)), chunk(json!({}), json!("STOP"))];
    let decoded = decoded(Dialect::Gemini, &events).await;
    assert_eq!(outcomes(&decoded), ["not_run"]);
}

#[tokio::test]
async fn duplicate_json_key_runs_nothing() {
    let gemini = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"put","args":{"x":"a","x":"b"}}}]},"finishReason":"STOP"}]}"#;
    let ollama = r#"{"message":{"tool_calls":[{"function":{"name":"put","arguments":{"x":"a","x":"b"}}}]},"done":true,"done_reason":"stop"}"#;
    for (dialect, body) in [
        (Dialect::Gemini, format!("data: {gemini}\n\n")),
        (Dialect::Gemini, format!("data: {gemini}")),
        (Dialect::Gemini, format!("data: [{gemini}]\n\n")),
        (Dialect::GeminiJson, format!("[{gemini}]")),
        (Dialect::Ollama, format!("{ollama}\n")),
    ] {
        let decoded = fed(dialect, body.as_bytes()).await;
        assert_eq!((decoded.results.len(), decoded.stop), (0, StopReason::Unknown), "{body}");
        assert!(decoded.problem.unwrap().message().contains("duplicate key"));
    }
}

#[tokio::test]
async fn unfinished_anthropic_blocks_are_not_echoed() {
    let block = |index: usize, block: Value| {
        json!({"type": "content_block_start", "index": index,
                                                    "content_block": block})
    };
    let delta = |index: usize, delta: Value| {
        json!({"type": "content_block_delta", "index": index,
                                                    "delta": delta})
    };
    let events = [
        block(0, json!({"type": "text", "text": "hm"})),
        block(1, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(1, json!({"type": "thinking_delta", "thinking": "so"})),
        block(2, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"q"})),
        block(3, json!({"type": "tool_use", "id": "t", "name": "put", "input": {}})),
    ];
    let decoded = decoded(Dialect::Anthropic, &events).await;
    assert_eq!(
        decoded.message["content"],
        json!([{"type": "text", "text": "hm"},
               {"type": "tool_use", "id": "t", "name": "put", "input": {}}])
    );
    assert_eq!(outcomes(&decoded), ["not_run"]);
}

#[tokio::test]
async fn unknown_framing_is_reported() {
    let page = b"<!DOCTYPE html>\n<html><body>502</body></html>".to_vec();
    let gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0x56];
    let chunks = b"1f\r\n{\"message\":{},\"done\":true}\r\n0\r\n\r\n".to_vec();
    for body in [page, gzip, chunks] {
        for dialect in Dialect::ALL {
            let mut stream = dialect.stream();
            assert!(stream.feed(&body).is_empty());
            let ended = stream.finish();
            assert_eq!(ended.stop, StopReason::Unknown, "{dialect}");
            let problem = ended.problem.unwrap().to_string();
            assert!(problem.contains("neither with server-sent events nor with JSON"), "{problem}");
        }
    }
    let put = piece(Some(0), "a", "put", json!("{}"));
    let events = Value::from(chat(&[put], &["tool_calls"]));
    let decoded = fed(Dialect::OpenAiChat, format!("data: {events}\n\n").as_bytes()).await;
    assert_eq!(outcomes(&decoded), ["put()"], "several events in one are several events");
}
