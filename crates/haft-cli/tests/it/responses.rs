//! `haft plan` and `haft dispatch`: with complete responses.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{GARDEN, file, haft, haft_fed, unframed};

fn anthropic() -> Value {
    let call = |n: u32, name: &str, input: Value| json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": name, "input": input});
    json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "Looking."},
        call(1, "read_file", json!({"file_path": "notes/garden.txt"})),
        call(2, "list_files", json!({})),
        call(3, "write_file", json!({"file_path": "x", "content": "y"})),
        call(4, "red_file", json!({"file_path": "x"})),
        call(5, "delete_path", json!({"path": ".git"})),
    ]})
}

fn openai() -> Value {
    let call = |n: u32, name: &str, arguments: &str| {
        json!({"type": "function_call", "call_id": format!("call_{n}"), "name": name,
               "arguments": arguments, "status": "completed"})
    };
    json!({"status": "completed", "output": [
        call(1, "read_file", r#"{"file_path": "notes/garden.txt"}"#),
        call(2, "read_file", r#"{"file_path": "#),
        call(3, "read_file", r#"{"file_path": "attic"}"#),
    ]})
}

#[test]
fn plan_shows_batches_and_reasons() {
    let text = anthropic().to_string();
    assert_snapshot!(haft_fed("plan", text.as_bytes()).page(), @r"
    exit 0
    --- stdout
    batch 1  toolu_1  read_file    read_only        first call
             toolu_2  list_files   read_only        reads run concurrently
    batch 2  toolu_3  write_file   write_exclusive  needs a resource that the previous batch uses
    batch 3  toolu_4  red_file     -                invalid: runs alone
                                                    unknown_tool: there is no tool called `red_file`
    batch 4  toolu_5  delete_path  write_exclusive  waits for the previous call, which runs alone
    ");
    let json = haft_fed("plan - --dialect anthropic --json", text.as_bytes()).json();
    let batches: Vec<&Value> = json.as_array().unwrap().iter().map(|c| &c["batch"]).collect();
    assert_eq!(batches, [0, 0, 1, 2, 3]);
    assert_eq!(haft_fed("plan", openai().to_string().as_bytes()).code, Some(0));
}

#[test]
fn plan_says_when_nothing_would_run() {
    let mut cut = anthropic();
    cut["stop_reason"] = json!("max_tokens");
    let ran = haft_fed("plan", cut.to_string().as_bytes());
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.err, "note: the message was truncated, so none of its calls is run\n");
    let ran = haft_fed("plan", br#"{"content": [], "stop_reason": "end_turn"}"#);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", "the response calls no tool\n"));
}

#[test]
fn every_anthropic_call_has_one_result_in_order() {
    let path = file("anthropic.json", anthropic().to_string());
    let ran = haft(&format!("dispatch {path} --dialect anthropic"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let message = ran.json();
    assert_eq!(message["role"], "user");
    let blocks = message["content"].as_array().unwrap();
    let ids: Vec<&Value> = blocks.iter().map(|b| &b["tool_use_id"]).collect();
    assert_eq!(ids, ["toolu_1", "toolu_2", "toolu_3", "toolu_4", "toolu_5"]);
    let wrong: Vec<bool> = blocks.iter().map(|b| b["is_error"] == true).collect();
    assert_eq!(wrong, [false, false, true, true, true], "no person was asked");
}

#[test]
fn yes_approves_asks_and_never_a_deny() {
    let text = anthropic().to_string();
    let message = haft_fed("dispatch --dialect anthropic --yes --json", text.as_bytes()).json();
    let blocks = message["content"].as_array().unwrap();
    let wrong: Vec<bool> = blocks.iter().map(|b| b["is_error"] == true).collect();
    assert_eq!(wrong, [false, false, false, true, true]);
    assert!(unframed(&blocks[4]["content"]).starts_with("denied: "), "{message}");
}

#[test]
fn every_openai_call_has_one_result_in_order() {
    let text = openai().to_string();
    let ran = haft_fed("dispatch - --dialect openai-responses", text.as_bytes());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let items = ran.json();
    let items = items.as_array().unwrap();
    let ids: Vec<&Value> = items.iter().map(|b| &b["call_id"]).collect();
    assert_eq!(ids, ["call_1", "call_2", "call_3"]);
    assert_eq!(unframed(&items[0]["output"]).trim_end(), GARDEN.trim_end());
    assert!(unframed(&items[1]["output"]).starts_with("unparseable_arguments: "));
    assert!(unframed(&items[2]["output"]).starts_with("invalid_value: "));
}

#[test]
fn truncated_response_is_not_run_and_has_results() {
    let mut cut = anthropic();
    cut["stop_reason"] = json!("max_tokens");
    let ran = haft_fed("dispatch --dialect anthropic --yes", cut.to_string().as_bytes());
    assert_eq!(ran.code, Some(0));
    for block in ran.json()["content"].as_array().unwrap() {
        assert!(unframed(&block["content"]).starts_with("not_run: "), "{block}");
    }
}

#[test]
fn response_of_another_dialect_is_reported() {
    let text = openai().to_string();
    assert_snapshot!(haft_fed("dispatch --dialect anthropic", text.as_bytes()).page(), @r"
    exit 1
    --- stderr
    error: not a valid anthropic response: it has no `content` array
    hint: it looks like openai-responses
    ");
    let detected = haft_fed("dispatch", text.as_bytes());
    assert_eq!(detected.json()[0]["call_id"], "call_1", "{detected:?}");
    assert_snapshot!(haft_fed("plan", b"{}").page(), @r"
    exit 1
    --- stderr
    error: cannot detect the provider of this response
    hint: name it with `--dialect`: anthropic, openai-responses, openai-chat, gemini, gemini-json, bedrock, mistral, ollama or mcp
    ");
    assert_snapshot!(haft("dispatch x.json --dialect antropic").page(), @r"
    exit 1
    --- stderr
    error: invalid value 'antropic' for '--dialect <DIALECT>'
      [possible values: anthropic, openai-responses, openai-chat, gemini, gemini-json, bedrock, mistral, ollama, mcp]
    hint: a similar value exists: 'anthropic'
    ");
}

#[test]
fn input_that_is_not_a_response_is_reported() {
    assert_snapshot!(haft_fed("dispatch --dialect anthropic", b"{\"content\":").page(), @r"
    exit 1
    --- stderr
    error: stdin is not JSON: EOF while parsing a value at line 1 column 11
    hint: give the complete response, as one JSON object
    ");
    let stream = haft_fed("dispatch --dialect anthropic", b"event: message_start\n");
    let hint = "hint: this looks like a stream; read it with `haft dispatch --stream`";
    assert!(stream.err.contains(hint), "{stream:?}");
    assert_snapshot!(haft_fed("plan", b"\xff{}").page(), @r"
    exit 1
    --- stderr
    error: stdin is not UTF-8: invalid byte at offset 0
    ");
    assert_eq!(haft("plan").err.lines().next(), Some("error: stdin is empty"));
    file("response-a.json", "{}");
    assert_snapshot!(haft("plan respons-a.json").page(), @r"
    exit 1
    --- stderr
    error: there is no file `respons-a.json`
    hint: did you mean `response-a.json`?
    ");
}

#[cfg(target_os = "linux")]
#[test]
fn endless_file_is_not_read_forever() {
    assert_snapshot!(haft("plan /dev/zero").page(), @r"
    exit 1
    --- stderr
    error: `/dev/zero` is larger than 64 MiB
    ");
}
