//! Whole exchanges with every provider: responses, complete and streamed, and the result messages.

use haft::{
    Dialect, ErrorKind, Output, ToolCall, ToolResult,
    journal::MemoryJournal,
    tool::{Block, DynTool},
    turn::StopReason,
};
use serde_json::{Value, json};

use crate::{
    kit::*,
    script::{ScriptPart, body, call, complete, endings, events, text},
};

fn runtime() -> haft::Runtime {
    tools().build().unwrap()
}

fn tools() -> haft::RuntimeBuilder {
    let rich = DynTool::new(read("rich"), open_schema(), |_, _| async {
        let mut output = Output::text("see")
            .and(Block::Image { data: "AAAA".into(), media_type: "image/png".into() })
            .and(Block::Audio { data: "BBBB".into(), media_type: "audio/wav".into() })
            .and(Block::Json { json: json!({"n": 1}) })
            .and(Block::Link { uri: "file:///a".into(), name: "a".into(), media_type: None });
        output.structured = Some(Box::new(json!({"n": 1})));
        output
    });
    let data = DynTool::new(read("data"), open_schema(), |_, _| async { json!({"n": 1}) });
    let blank = DynTool::new(read("blank"), open_schema(), |_, _| async { "" });
    let tools = vec![
        quick(read("search")),
        failing(read("fails")),
        quick(write("write")),
        rich,
        data,
        blank,
    ];
    permissive(tools)
}

/// Answers a scripted message, complete and streamed; both must give the same.
async fn exchange(dialect: Dialect, script: &[ScriptPart]) -> (Value, Value) {
    let ending = endings(dialect)[0];
    let turn = runtime().run().turn().await.unwrap();
    let answer = turn.dispatch(dialect, &complete(dialect, script, ending)).await.unwrap();

    let mut listening = runtime().run().turn().await.unwrap().stream(dialect);
    for chunk in body(dialect, &events(dialect, script, ending, 5)).chunks(7) {
        listening.feed(chunk);
    }
    let decoded = listening.finish().await;
    assert_eq!(decoded.answer, answer, "{dialect}: the stream is answered as the response is");
    assert_eq!(decoded.stop, StopReason::Done);
    assert!(decoded.problem.is_none());
    (decoded.message, answer)
}

fn two_calls() -> [ScriptPart; 3] {
    [text("Let me look."), call("a", "search", json!({"x": "é"})), call("b", "fails", json!({}))]
}

#[tokio::test]
async fn anthropic() {
    let (message, answer) = exchange(Dialect::Anthropic, &two_calls()).await;
    assert_eq!(
        message,
        json!({"role": "assistant", "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "a", "name": "search", "input": {"x": "é"}},
            {"type": "tool_use", "id": "b", "name": "fails", "input": {}},
        ]})
    );
    assert_eq!(
        answer,
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": framed(0, "search", "search(é)")},
            {"type": "tool_result", "tool_use_id": "b", "content": framed_failure(1, "fails", "tool_failed: no luck"), "is_error": true},
        ]})
    );
}

#[tokio::test]
async fn openai_responses() {
    let (message, answer) = exchange(Dialect::OpenAiResponses, &two_calls()).await;
    let whole = complete(Dialect::OpenAiResponses, &two_calls(), "completed");
    assert_eq!(message, whole["output"]);
    assert_eq!(
        answer,
        json!([
            {"type": "function_call_output", "call_id": "a", "output": framed(0, "search", "search(é)")},
            {"type": "function_call_output", "call_id": "b", "output": framed_failure(1, "fails", "tool_failed: no luck")},
        ])
    );
}

#[tokio::test]
async fn openai_chat() {
    let (message, answer) = exchange(Dialect::OpenAiChat, &two_calls()).await;
    let whole = complete(Dialect::OpenAiChat, &two_calls(), "tool_calls");
    assert_eq!(message, whole["choices"][0]["message"]);
    assert_eq!(
        answer,
        json!([
            {"role": "tool", "tool_call_id": "a", "content": framed(0, "search", "search(é)")},
            {"role": "tool", "tool_call_id": "b", "content": framed_failure(1, "fails", "tool_failed: no luck")},
        ])
    );
}

#[tokio::test]
async fn mistral() {
    let (message, answer) = exchange(Dialect::Mistral, &two_calls()).await;
    let whole = complete(Dialect::Mistral, &two_calls(), "tool_calls");
    assert_eq!(message, whole["choices"][0]["message"]);
    assert_eq!(
        answer,
        json!([
            {"role": "tool", "name": "search", "content": framed(0, "search", "search(é)"), "tool_call_id": "a"},
            {"role": "tool", "name": "fails", "content": framed_failure(1, "fails", "tool_failed: no luck"), "tool_call_id": "b"},
        ])
    );
}

#[tokio::test]
async fn gemini() {
    for dialect in [Dialect::Gemini, Dialect::GeminiJson] {
        let script = [
            text("Let me look."),
            call("", "search", json!({"x": "é"})),
            call("g2", "fails", json!({})),
        ];
        let (message, answer) = exchange(dialect, &script).await;
        assert_eq!(
            message,
            json!({"role": "model", "parts": [
                {"text": "Let me look."},
                {"functionCall": {"name": "search", "args": {"x": "é"}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "g2", "name": "fails", "args": {}}, "thoughtSignature": "c2ln"},
            ]})
        );
        assert_eq!(
            answer,
            json!({"role": "user", "parts": [
                {"functionResponse": {"name": "search", "response": {"output": framed(0, "search", "search(é)")}}},
                {"functionResponse": {"name": "fails", "id": "g2",
                                      "response": {"error": framed_failure(1, "fails", "tool_failed: no luck")}}},
            ]})
        );
    }
}

#[tokio::test]
async fn bedrock() {
    let (message, answer) = exchange(Dialect::Bedrock, &two_calls()).await;
    let whole = complete(Dialect::Bedrock, &two_calls(), "tool_use");
    assert_eq!(message, whole["output"]["message"]);
    assert_eq!(
        answer,
        json!({"role": "user", "content": [
            {"toolResult": {"toolUseId": "a", "content": [{"text": framed(0, "search", "search(é)")}]}},
            {"toolResult": {"toolUseId": "b", "content": [{"text": framed_failure(1, "fails", "tool_failed: no luck")}],
                            "status": "error"}},
        ]})
    );
}

#[tokio::test]
async fn ollama() {
    let script =
        [text("Let me look."), call("", "search", json!({"x": "é"})), call("", "fails", json!({}))];
    let (message, answer) = exchange(Dialect::Ollama, &script).await;
    assert_eq!(message, complete(Dialect::Ollama, &script, "stop")["message"]);
    assert_eq!(
        answer,
        json!([
            {"role": "tool", "tool_name": "search", "content": framed(0, "search", "search(é)")},
            {"role": "tool", "tool_name": "fails", "content": framed_failure(1, "fails", "tool_failed: no luck")},
        ])
    );
}

#[tokio::test]
async fn mcp() {
    let mut script = two_calls().to_vec();
    script.push(call("c", "serch", json!({})));
    let (_, answer) = exchange(Dialect::Mcp, &script).await;
    let text = |(opening, closing): (String, String), body: &str| {
        json!([{"type": "text", "text": opening}, {"type": "text", "text": body},
               {"type": "text", "text": closing}])
    };
    assert_eq!(
        answer[0],
        json!({"jsonrpc": "2.0", "id": "a", "result": {
        "content": text(marks(0, "search", "", 9), "search(é)"), "isError": false, "resultType": "complete"}})
    );
    assert_eq!(
        answer[1],
        json!({"jsonrpc": "2.0", "id": "b", "result": {
        "content": text(marks(1, "fails", " error=tool_failed", 20), "tool_failed: no luck"), "isError": true, "resultType": "complete"}})
    );
    assert_eq!(answer[2]["error"]["code"], -32602);
    assert_eq!(answer[2]["error"]["message"], "Unknown tool: serch");
    assert!(answer[2]["error"]["data"].as_str().unwrap().contains("did you mean `search`"));
    assert!(
        answer[2]["error"]["data"].as_str().unwrap().starts_with("[haft 0000000002 tool=serch ")
    );

    let one = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                     "params": {"name": "search"}});
    let turn = runtime().run().turn().await.unwrap();
    let answer = turn.dispatch(Dialect::Mcp, &one).await.unwrap();
    assert_eq!(answer["id"], 7, "a number stays a number, and one request gets one response");
}

/// Answers one call of the tool `rich` in every dialect.
async fn shown(dialect: Dialect, name: &str) -> Value {
    let script = [call("a", name, json!({}))];
    exchange(dialect, &script).await.1
}

#[tokio::test]
async fn every_content_type_is_rendered_or_described() {
    let sound = "[audio audio/wav, 4 base64 bytes; it cannot be shown here]";
    let picture = "[image image/png, 4 base64 bytes; it cannot be shown here]";
    let (data, link) = ("{\"n\":1}", "[link a: file:///a]");
    let length = |texts: &[&str]| texts.iter().map(|text| text.chars().count()).sum();
    let (opening, closing) = marks(0, "rich", "", length(&["see", sound, data, link]));
    let answer = shown(Dialect::Anthropic, "rich").await;
    assert_eq!(
        answer["content"][0]["content"],
        json!([
            {"type": "text", "text": opening},
            {"type": "text", "text": "see"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "text", "text": sound},
            {"type": "text", "text": data},
            {"type": "text", "text": link},
            {"type": "text", "text": closing},
        ])
    );
    let answer = shown(Dialect::OpenAiResponses, "rich").await;
    assert_eq!(
        answer[0]["output"],
        json!([
            {"type": "input_text", "text": opening},
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            {"type": "input_text", "text": sound},
            {"type": "input_text", "text": data},
            {"type": "input_text", "text": link},
            {"type": "input_text", "text": closing},
        ])
    );
    for dialect in [Dialect::OpenAiChat, Dialect::Mistral, Dialect::Ollama] {
        let answer = shown(dialect, "rich").await;
        let all = format!("see\n{picture}\n{sound}\n{data}\n{link}");
        assert_eq!(answer[0]["content"], framed(0, "rich", &all), "{dialect}");
    }
    let answer = shown(Dialect::Gemini, "rich").await;
    let response = &answer["parts"][0]["functionResponse"];
    let all_text = format!("see\n{sound}\n{data}\n{link}");
    assert_eq!(response["response"], json!({"output": framed(0, "rich", &all_text)}));
    let parts = json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]);
    assert_eq!(response["parts"], parts);
    let answer = shown(Dialect::Bedrock, "rich").await;
    assert_eq!(
        answer["content"][0]["toolResult"]["content"],
        json!([
            {"text": opening},
            {"text": "see"},
            {"image": {"format": "png", "source": {"bytes": "AAAA"}}},
            {"text": sound},
            {"json": {"n": 1}},
            {"text": link},
            {"text": closing},
        ])
    );
    let (opening, closing) = marks(0, "rich", "", length(&["see", data, link]));
    let answer = shown(Dialect::Mcp, "rich").await;
    let result = &answer[0]["result"];
    assert_eq!(result["structuredContent"], json!({"n": 1}));
    assert_eq!(
        result["content"],
        json!([
            {"type": "text", "text": opening},
            {"type": "text", "text": "see"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "BBBB", "mimeType": "audio/wav"},
            {"type": "text", "text": data},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "text", "text": closing},
        ])
    );
}

#[tokio::test]
async fn json_and_empty_results_are_rendered_in_each_providers_form() {
    let answer = shown(Dialect::Gemini, "data").await;
    let response = &answer["parts"][0]["functionResponse"]["response"];
    let text = framed(0, "data", "{\"n\":1}");
    assert_eq!(*response, json!({"output": text}), "there is no place for marks around data");
    let answer = shown(Dialect::Bedrock, "data").await;
    let (opening, closing) = marks(0, "data", "", 7);
    assert_eq!(
        answer["content"][0]["toolResult"]["content"],
        json!([{"text": opening}, {"json": {"n": 1}}, {"text": closing}]),
    );
    let nothing = framed(0, "blank", "");
    let answer = shown(Dialect::Bedrock, "blank").await;
    assert_eq!(answer["content"][0]["toolResult"]["content"], json!([{"text": nothing}]));
    assert_eq!(shown(Dialect::Anthropic, "blank").await["content"][0]["content"], nothing);
}

#[tokio::test]
async fn unframed_json_stays_json_and_blank_text_is_not_sent_where_refused() {
    let config = || {
        let mut config = haft::Config::default();
        config.frame = haft::host::Frame::Never;
        config
    };
    let script =
        |dialect, name| complete(dialect, &[call("a", name, json!({}))], endings(dialect)[0]);
    let answer = async |dialect, name| {
        let turn = tools().config(config()).build().unwrap().run().turn().await.unwrap();
        turn.dispatch(dialect, &script(dialect, name)).await.unwrap()
    };
    let answered = answer(Dialect::Gemini, "data").await;
    assert_eq!(answered["parts"][0]["functionResponse"]["response"], json!({"output": {"n": 1}}));
    let answered = answer(Dialect::Bedrock, "blank").await;
    let content = &answered["content"][0]["toolResult"]["content"];
    assert_eq!(*content, json!([{"text": "(empty)"}]), "blank text would be refused");
    assert_eq!(answer(Dialect::Anthropic, "blank").await["content"][0]["content"], "");
    assert_eq!(answer(Dialect::OpenAiChat, "search").await[0]["content"], "search()");
}

#[tokio::test]
async fn truncated_calls_are_answered_and_not_run() {
    let script = [call("a", "write", json!({"x": "1"})), call("b", "write", json!({"x": "2"}))];
    for dialect in Dialect::ALL.iter().copied().filter(|d| *d != Dialect::Mcp) {
        let journal = MemoryJournal::new(100);
        let tools = vec![quick(write("write"))];
        let runtime = permissive(tools).journal(journal.clone()).build().unwrap();
        let mut listening = runtime.run().turn().await.unwrap().stream(dialect);
        let mut events = events(dialect, &script, endings(dialect)[0], 4);
        // Without what follows the last call: its end marker.
        let is_end = |event: &Value| {
            let text = event.to_string();
            ["message_delta", "message_stop", "response.completed", "messageStop", "\"done\":true"]
                .iter()
                .any(|mark| text.contains(mark))
                || text.contains("\"finishReason\":\"STOP\"")
                || text.contains("\"finish_reason\":\"tool_calls\"")
        };
        events.retain(|event| !is_end(event));
        for event in &events {
            listening.event(event);
        }
        let decoded = listening.finish().await;
        assert_eq!(decoded.stop, StopReason::Truncated, "{dialect}");
        assert_eq!(ends(&decoded.results).len(), 2, "{dialect}: both are answered");
        assert!(decoded.results.iter().all(|e| e.text().starts_with("not_run")), "{dialect}");
        assert_eq!(intents(&journal).len(), 0, "{dialect}: nothing was run");
    }
}

#[tokio::test(start_paused = true)]
async fn read_only_call_runs_before_the_message_ends() {
    let transcript = Transcript::default();
    let tools = vec![slow(read("read"), 10), quick(write("write"))];
    let runtime = permissive(tools).observer(transcript.observer()).build().unwrap();
    let mut listening = runtime.run().turn().await.unwrap().stream(Dialect::Anthropic);
    let script = [call("c1", "read", json!({})), call("c2", "write", json!({}))];
    let events = events(Dialect::Anthropic, &script, "tool_use", 4);
    let (last, before) = events.split_last().unwrap();
    for event in before {
        listening.event(event);
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(transcript.ends_of("c1"), 1, "the read is done");
    assert_eq!(transcript.ends_of("c2"), 0, "the write waits for the end");
    listening.event(last);
    let decoded = listening.finish().await;
    assert_eq!(ends(&decoded.results), ["c1 ok", "c2 ok"]);
}

#[tokio::test]
async fn missing_or_duplicate_ids_are_equal_in_echo_and_result() {
    let script = [
        call("a", "search", json!({})),
        call("a", "search", json!({})),
        call("", "search", json!({})),
    ];
    for (dialect, echo, answer) in [
        (Dialect::Anthropic, "/content/{}/id", "/content/{}/tool_use_id"),
        (Dialect::OpenAiResponses, "/{}/call_id", "/{}/call_id"),
        (Dialect::OpenAiChat, "/tool_calls/{}/id", "/{}/tool_call_id"),
        (Dialect::Bedrock, "/content/{}/toolUse/toolUseId", "/content/{}/toolResult/toolUseId"),
    ] {
        let (message, answers) = exchange(dialect, &script).await;
        let at = |of: &Value, path: &str, n: usize| {
            of.pointer(&path.replace("{}", &n.to_string())).cloned()
        };
        let echoed: Vec<_> = (0..3).map(|n| at(&message, echo, n)).collect();
        let answered: Vec<_> = (0..3).map(|n| at(&answers, answer, n)).collect();
        let wanted = ["a", "haft-2", "haft-3"].map(|id| Some(json!(id)));
        assert_eq!(echoed, wanted, "{dialect}");
        assert_eq!(answered, wanted, "{dialect}");
    }
    // Mistral requires nine letters and digits.
    let (message, answers) = exchange(Dialect::Mistral, &script).await;
    let ids: Vec<_> = (0..3).map(|n| answers[n]["tool_call_id"].as_str().unwrap()).collect();
    let echoed: Vec<_> = (0..3).map(|n| message["tool_calls"][n]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, echoed);
    assert_eq!(ids[0], "a");
    assert!(ids[1] != ids[2] && ids[1..].iter().all(|id| id.len() == 9), "{ids:?}");
    // Where order decides, a given id is repeated, and none is generated.
    let (_, answers) = exchange(Dialect::Gemini, &script).await;
    let parts = answers["parts"].as_array().unwrap();
    let ids: Vec<_> = parts.iter().map(|p| p["functionResponse"].get("id").cloned()).collect();
    assert_eq!(ids, [Some(json!("a")), Some(json!("a")), None]);
}

#[tokio::test]
async fn render_results_hides_generated_ids_where_none_is_needed() {
    let turn = runtime().run().turn().await.unwrap();
    let calls = [ToolCall::new("", "search", json!({})), ToolCall::new("g", "search", json!({}))];
    let answers: Vec<ToolResult> = turn.run(calls).await;
    let message = Dialect::Gemini.render_results(&answers);
    assert_eq!(message["parts"][0]["functionResponse"].get("id"), None);
    assert_eq!(message["parts"][1]["functionResponse"]["id"], "g");
    assert_eq!(Dialect::OpenAiChat.render_results(&answers)[0]["tool_call_id"], "haft-1");
    assert_eq!(Dialect::Ollama.render_results(&answers)[0].get("tool_call_id"), None);
}

#[tokio::test]
async fn result_has_the_kind_of_its_call() {
    let response = json!({"status": "completed", "output": [
        {"type": "custom_tool_call", "call_id": "c", "name": "search", "input": "free"},
        {"type": "function_call", "call_id": "f", "name": "search", "arguments": "{}",
         "caller": {"type": "program", "caller_id": "p"}},
    ]});
    let turn = runtime().run().turn().await.unwrap();
    let items = turn.dispatch(Dialect::OpenAiResponses, &response).await.unwrap();
    assert_eq!(items[0]["type"], "custom_tool_call_output");
    assert_eq!(items[1]["type"], "function_call_output");
    assert_eq!(items[1]["caller"], json!({"type": "program", "caller_id": "p"}));

    let response = json!({"choices": [{"finish_reason": "function_call", "message": {
        "content": null, "function_call": {"name": "search", "arguments": "{\"x\":\"a\"}"}}}]});
    let turn = runtime().run().turn().await.unwrap();
    let messages = turn.dispatch(Dialect::OpenAiChat, &response).await.unwrap();
    let wanted = json!([{"role": "function", "name": "search", "content": framed(0, "search", "search(a)")}]);
    assert_eq!(messages, wanted);

    let response = json!({"stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "k", "name": "key", "input": {}, "toolset_name": "computer"},
    ]});
    let turn = runtime().run().turn().await.unwrap();
    let message = turn.dispatch(Dialect::Anthropic, &response).await.unwrap();
    assert_eq!(message["content"][0]["toolset_name"], "computer");
}

#[test]
fn thinking_signatures_and_citations_are_echoed_as_they_came() {
    let mut stream = Dialect::Anthropic.stream();
    let start = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: u32| json!({"type": "content_block_stop", "index": index});
    let given: Vec<ToolCall> = [
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "thinking_delta", "thinking": "m"})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "x"})),
        stop(1),
        start(2, json!({"type": "text", "text": ""})),
        stop(2),
        start(3, json!({"type": "text", "text": "", "citations": []})),
        delta(3, json!({"type": "citations_delta", "citation": {"type": "char_location"}})),
        delta(3, json!({"type": "text_delta", "text": "so"})),
        stop(3),
        start(4, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        delta(4, json!({"type": "input_json_delta", "partial_json": "{\"q\":1}"})),
        stop(4),
        start(5, json!({"type": "tool_use", "id": "t", "name": "x", "input": {}})),
        delta(5, json!({"type": "input_json_delta", "partial_json": "{\"a\": tru"})),
        stop(5),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .flat_map(|event| stream.event(event))
    .collect();
    assert_eq!(given, [ToolCall::new("t", "x", "{\"a\": tru")]);
    let ended = stream.finish();
    assert_eq!(ended.stop, StopReason::Done);
    assert_eq!(
        ended.message,
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hmm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "so", "citations": [{"type": "char_location"}]},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
            {"type": "tool_use", "id": "t", "name": "x", "input": {"INVALID_JSON": "{\"a\": tru"}},
        ]})
    );
}

#[test]
fn reasoning_of_bedrock_is_echoed_as_it_came() {
    let mut stream = Dialect::Bedrock.stream();
    let delta = |index: u32, delta: Value| json!({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}});
    for event in [
        delta(0, json!({"reasoningContent": {"text": "h"}})),
        delta(0, json!({"reasoningContent": {"text": "m"}})),
        delta(0, json!({"reasoningContent": {"signature": "c2ln"}})),
        json!({"contentBlockStop": {"contentBlockIndex": 0}}),
        delta(1, json!({"reasoningContent": {"redactedContent": "eA=="}})),
        json!({"contentBlockStop": {"contentBlockIndex": 1}}),
        delta(2, json!({"text": "cited"})),
        delta(2, json!({"citation": {"title": "t"}})),
        json!({"contentBlockStop": {"contentBlockIndex": 2}}),
        json!({"messageStop": {"stopReason": "end_turn"}}),
    ] {
        assert!(stream.event(&event).is_empty());
    }
    assert_eq!(
        stream.finish().message,
        json!({"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
            {"reasoningContent": {"redactedContent": "eA=="}},
            {"citationsContent": {"content": [{"text": "cited"}], "citations": [{"title": "t"}]}},
        ]})
    );
}

#[test]
fn reasoning_of_chat_servers_is_echoed_as_it_came() {
    let mut stream = Dialect::OpenAiChat.stream();
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    for delta in [
        json!({"role": "assistant", "reasoning_content": "h"}),
        json!({"reasoning_content": "m", "reasoning_details": [{"type": "t", "data": 1}]}),
        json!({"content": "so", "reasoning_details": [{"type": "t", "data": 2}]}),
    ] {
        assert!(stream.event(&chunk(delta)).is_empty());
    }
    let other = json!({"choices": [{"index": 1, "delta": {"content": "another"}}]});
    assert!(stream.event(&other).is_empty());
    assert_eq!(
        stream.finish().message,
        json!({
            "role": "assistant", "content": "so", "reasoning_content": "hm",
            "reasoning_details": [{"type": "t", "data": 1}, {"type": "t", "data": 2}],
        })
    );
}

#[test]
fn final_arguments_replace_the_deltas() {
    let item = |arguments: &str, status: &str| {
        json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "x",
               "arguments": arguments, "status": status})
    };
    let mut stream = Dialect::OpenAiResponses.stream();
    let given: Vec<ToolCall> = [
        json!({"type": "response.output_item.added", "output_index": 0,
               "item": item("{\"a\":1}", "in_progress")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0,
               "delta": "{\"a\":1}"}),
        json!({"type": "response.function_call_arguments.done", "output_index": 0,
               "arguments": "{\"a\":2}"}),
        json!({"type": "response.output_item.done", "output_index": 0,
               "item": item("{\"a\":2}", "completed")}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
    ]
    .iter()
    .flat_map(|event| stream.event(event))
    .collect();
    assert_eq!(given, [ToolCall::new("c", "x", "{\"a\":2}")]);
    assert_eq!(stream.finish().stop, StopReason::Done);

    // A server that sends nothing before the end.
    let mut stream = Dialect::OpenAiResponses.stream();
    let whole = json!({"status": "completed", "output": [item("{}", "completed")]});
    let given = stream.event(&json!({"type": "response.completed", "response": whole}));
    assert_eq!(given, [ToolCall::new("c", "x", "{}")]);
    assert_eq!(stream.finish().stop, StopReason::Done);
}

#[test]
fn a_signature_on_an_empty_text_is_echoed() {
    let mut stream = Dialect::Gemini.stream();
    let chunk = |parts: Value| json!({"candidates": [{"content": {"parts": parts}}]});
    for parts in [
        json!([{"text": "h", "thought": true}]),
        json!([{"text": "m", "thought": true}, {"text": "so"}]),
        json!([{"text": ""}]),
        json!([{"text": "", "thoughtSignature": "c2ln"}]),
        json!([{"executableCode": {"code": "1"}}]),
    ] {
        assert!(stream.event(&chunk(parts)).is_empty());
    }
    assert_eq!(
        stream.finish().message["parts"],
        json!([
            {"text": "hm", "thought": true},
            {"text": "so"},
            {"text": "", "thoughtSignature": "c2ln"},
            {"executableCode": {"code": "1"}},
        ])
    );
}

#[test]
fn complete_response_is_refused_as_a_stream() {
    let distinct =
        [Dialect::Anthropic, Dialect::OpenAiResponses, Dialect::OpenAiChat, Dialect::Bedrock];
    for dialect in distinct {
        let whole = complete(dialect, &two_calls(), endings(dialect)[0]).to_string();
        let mut stream = dialect.stream();
        assert!(stream.feed(whole.as_bytes()).is_empty());
        let ended = stream.finish();
        assert!(ended.problem.unwrap().message().contains("`Dialect::parse`"), "{dialect}");
        assert_eq!(ended.stop, StopReason::Unknown);
    }
    let mut stream = Dialect::Bedrock.stream();
    assert!(stream.feed(&[0, 0, 1, 18, 0, 0, 0, 91]).is_empty());
    assert!(stream.finish().problem.unwrap().hints()[0].contains("`ResponseDecoder::event`"));
}

#[test]
fn dialect_is_detected_from_the_response() {
    let script = two_calls();
    for dialect in Dialect::ALL.iter().copied() {
        let response = complete(dialect, &script, endings(dialect)[0]);
        let wanted = match dialect {
            Dialect::GeminiJson => Dialect::Gemini,
            // Only the name of its model distinguishes it from the others.
            Dialect::Mistral => Dialect::OpenAiChat,
            other => other,
        };
        assert_eq!(Dialect::detect(&response), Some(wanted));
    }
    let mut response = complete(Dialect::Mistral, &script, "stop");
    response["model"] = json!("mistral-large-latest");
    assert_eq!(Dialect::detect(&response), Some(Dialect::Mistral));
    for nothing in [
        json!(null),
        json!([]),
        json!({}),
        json!({"message": {}}),
        json!({"content": [], "isError": false}),
        json!({"role": "assistant", "content": [{"toolUse": {}}]}),
    ] {
        assert_eq!(Dialect::detect(&nothing), None, "{nothing}");
    }
}

#[test]
fn invalid_response_is_an_error_with_a_hint() {
    let script = two_calls();
    for dialect in Dialect::ALL.iter().copied() {
        for other in Dialect::ALL.iter().copied() {
            let parsed = dialect.parse(&complete(other, &script, endings(other)[0]));
            let alike = |a: Dialect, b: Dialect| {
                a == b
                    || matches!((a, b), (Dialect::Gemini, Dialect::GeminiJson))
                    || matches!((a, b), (Dialect::OpenAiChat, Dialect::Mistral))
            };
            if alike(dialect, other) || alike(other, dialect) {
                assert!(parsed.is_ok(), "{dialect} reads {other}")
            } else {
                let error = parsed.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BadResponse);
                assert!(error.hints()[0].starts_with("it looks like "), "{error}");
            }
        }
    }
    let failed = json!({"type": "error", "error": {"type": "x", "message": "busy"}});
    let error = Dialect::Anthropic.parse(&failed).unwrap_err();
    assert_eq!(error.hints(), ["the provider returned an error: busy"]);
    let event = json!({"choices": [{"index": 0, "delta": {}}]});
    let error = Dialect::OpenAiChat.parse(&event).unwrap_err();
    assert!(error.hints()[0].starts_with("it is one event of a stream"), "{error}");
}
