//! `haft dispatch` and `haft plan` for every dialect, complete and streamed, from recorded bodies.

use std::{
    io::Write as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{DIALECTS, Ran, command, haft, haft_fed, read, unframed, unnumbered};

fn body(dialect: &str, kind: &str) -> String {
    format!("{}/tests/wire/{dialect}.{kind}", env!("CARGO_MANIFEST_DIR"))
}

/// The JSON pointers of two results in a dialect's message.
fn places(dialect: &str) -> [&'static str; 2] {
    match dialect {
        "anthropic" => ["/content/0/content", "/content/1/content"],
        "openai-responses" => ["/0/output", "/1/output"],
        "gemini" | "gemini-json" => [
            "/parts/0/functionResponse/response/output",
            "/parts/1/functionResponse/response/output",
        ],
        "bedrock" => {
            ["/content/0/toolResult/content/0/text", "/content/1/toolResult/content/0/text"]
        }
        "mcp" => ["/0/result/content/1/text", "/1/result/content/1/text"],
        _ => ["/0/content", "/1/content"],
    }
}

#[test]
fn complete_and_streamed_responses_have_the_same_results() {
    for dialect in DIALECTS {
        let whole = haft(&format!("dispatch {} --dialect {dialect}", body(dialect, "json")));
        assert_eq!((whole.code, whole.err.as_str()), (Some(0), ""), "{dialect}");
        let answer = whole.json();
        let echoed =
            haft(&format!("dispatch {} --dialect {dialect} --echo", body(dialect, "json")));
        let echoed = echoed.json();
        assert_eq!(
            unnumbered(&echoed["answer"].to_string()),
            unnumbered(&answer.to_string()),
            "{dialect}"
        );
        let has_message = echoed["message"].to_string().contains("read_file");
        assert_eq!(has_message, dialect != "mcp", "{dialect}: {echoed}");
        let [first, second] = places(dialect).map(|place| answer.pointer(place).unwrap().clone());
        // A client of MCP gets a list with the markers as separate items.
        let inside = |shown: &Value| match dialect {
            "mcp" => shown.as_str().unwrap().to_owned(),
            _ => unframed(shown),
        };
        assert!(inside(&first).starts_with("notes/garden.txt"), "{dialect}: {answer}");
        assert!(inside(&second).starts_with("1\tWater the beans"), "{dialect}: {answer}");
        let path = body(dialect, "stream");
        let streamed = haft(&format!("dispatch {path} --dialect {dialect} --stream"));
        assert_eq!((streamed.code, streamed.err.as_str()), (Some(0), ""), "{dialect}");
        assert_eq!(unnumbered(&streamed.out), unnumbered(&whole.out), "{dialect}");
        let piped = haft_fed(
            &format!("dispatch --stream --echo --dialect {dialect}"),
            read(Path::new(&path)).as_bytes(),
        )
        .json();
        assert_eq!(
            unnumbered(&piped["answer"].to_string()),
            unnumbered(&answer.to_string()),
            "{dialect}"
        );
        assert!(piped["message"].to_string().contains("read_file"), "{dialect}: {piped}");
    }
}

#[test]
fn bare_message_of_every_dialect_is_dispatched_and_its_dialect_is_detected() {
    for dialect in DIALECTS {
        let path = format!("{}/tests/wire/{dialect}.json", env!("CARGO_MANIFEST_DIR"));
        let whole: Value = serde_json::from_str(&crate::read(path.as_ref())).unwrap();
        let bare = match dialect {
            "anthropic" => json!({"role": "assistant", "content": whole["content"]}),
            "openai-responses" => whole["output"].clone(),
            "openai-chat" | "mistral" => whole["choices"][0]["message"].clone(),
            "gemini" | "gemini-json" => whole["candidates"][0]["content"].clone(),
            "bedrock" => whole["output"]["message"].clone(),
            "ollama" => whole["message"].clone(),
            _ => whole.clone(),
        };
        assert!(bare.to_string().contains("read_file"), "{dialect}: {bare}");
        let run = |line: &str, body: &Value| haft_fed(line, body.to_string().as_bytes());
        let wanted = run(&format!("dispatch --dialect {dialect}"), &whole);
        let named = run(&format!("dispatch --dialect {dialect}"), &bare);
        assert_eq!(named.code, Some(0), "{dialect}");
        let note = "note: a message without a stop reason counts as complete";
        assert_eq!(named.err.starts_with(note), dialect != "mcp", "{dialect}: {named:?}");
        assert_eq!(unnumbered(&named.out), unnumbered(&wanted.out), "{dialect}");
        // A bare message of Mistral looks like one of OpenAI.
        if dialect != "mistral" {
            let detected = run("dispatch", &bare);
            assert_eq!(unnumbered(&detected.out), unnumbered(&wanted.out), "{dialect}");
        }
        let planned = run(&format!("plan --json --dialect {dialect}"), &bare).json();
        assert_eq!(planned.as_array().map(Vec::len), Some(2), "{dialect}: {planned}");
    }
    let call = haft_fed(
        "dispatch",
        br#"{"name": "read_file", "arguments": {"file_path": "notes/garden.txt"}}"#,
    );
    assert!(call.out.contains("Water the beans"), "{call:?}");
}

#[test]
fn every_dialect_is_planned() {
    for dialect in DIALECTS {
        let ran = haft(&format!("plan {} --dialect {dialect} --json", body(dialect, "json")));
        let plan = ran.json();
        assert_eq!(json!([plan[0]["tool"], plan[1]["tool"]]), json!(["list_files", "read_file"]));
        assert_eq!(
            (&plan[1]["batch"], &plan[1]["refused"]),
            (&json!(0), &Value::Null),
            "{dialect}"
        );
        let guessed = haft(&format!("plan {} --json", body(dialect, "json")));
        assert_eq!(guessed.out, ran.out, "{dialect}");
    }
}

#[test]
fn truncated_stream_has_results_and_runs_no_write() {
    let whole = read(Path::new(&body("anthropic", "stream")));
    let whole = whole
        .replace("read_file", "write_file")
        .replace(r#"\"notes/garden.txt\""#, r#"\"made-by-a-stream\", \"content\": \"y\""#);
    let cut = whole.split("event: message_delta").next().unwrap();
    let ran = haft_fed("dispatch --stream --dialect anthropic --yes", cut.as_bytes());
    assert_eq!(ran.code, Some(0));
    assert_eq!(
        ran.err,
        "note: the stream was truncated; only read-only calls that had already started ran\n"
    );
    let answer = ran.json();
    assert!(unframed(&answer["content"][1]["content"]).starts_with("not_run: "), "{answer}");
    let done = haft_fed("dispatch --stream --dialect anthropic --yes", whole.as_bytes()).json();
    let written = unframed(&done["content"][1]["content"]);
    assert!(written.contains("`made-by-a-stream`: 1 line"), "{written}");
}

#[test]
fn input_that_is_not_a_stream_is_reported() {
    let whole = read(Path::new(&body("anthropic", "json")));
    assert_snapshot!(haft_fed("dispatch --stream --dialect anthropic", whole.as_bytes()).page(), @r"
    exit 1
    --- stderr
    error: cannot decode this anthropic stream: it is a complete response; use `Dialect::parse`
    hint: to read a complete response, leave out `--stream`
    ");
    assert_snapshot!(haft_fed("dispatch --stream --dialect gemini", b"garbage").page(), @r"
    exit 1
    --- stderr
    error: cannot decode this gemini stream: it starts neither with server-sent events nor with JSON
    hint: pass the body without compression and without HTTP chunk sizes
    hint: to read a complete response, leave out `--stream`
    ");
    assert_snapshot!(haft_fed("dispatch --stream --dialect gemini", b"data: {}\n\n").page(), @r"
    exit 1
    --- stderr
    error: this is not a complete gemini stream: it has no call and no end marker
    ");
    assert_snapshot!(haft_fed("dispatch --stream", b"").page(), @r"
    exit 1
    --- stderr
    error: `--dialect` is missing
    hint: name it with `--dialect`: anthropic, openai-responses, openai-chat, gemini, gemini-json, bedrock, mistral, ollama or mcp
    ");
    assert_eq!(haft("dispatch --echo --dialect mcp").code, Some(1));
    assert_eq!(haft("dispatch nowhere.stream --stream --dialect mcp").code, Some(1));
}

#[expect(clippy::disallowed_methods, reason = "the command runs on the clock of the wall")]
#[test]
fn calls_start_while_the_stream_arrives() {
    let mut child = command()
        .args(["dispatch", "--dialect", "ollama", "--stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let call = json!({"message": {"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "shell", "arguments": {"command": "sleep 2; echo woke"}}}]}, "done": false});
    writeln!(stdin, "{call}").unwrap();
    stdin.flush().unwrap();
    std::thread::sleep(Duration::from_millis(2_500));
    let end = Instant::now();
    writeln!(stdin, "{}", json!({"message": {"content": ""}, "done": true, "done_reason": "stop"}))
        .unwrap();
    drop(stdin);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(end.elapsed() < Duration::from_millis(1_800), "it waited only after the end");
    assert!(unframed(&ran.json()[0]["content"]).starts_with("woke"), "{ran:?}");
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the command runs on the clock of the wall")]
#[test]
fn ctrl_c_ends_an_endless_stream() {
    for wait in [200, 800, 3_200] {
        let mut child = command()
            .args(["dispatch", "--dialect", "ollama", "--stream"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let call = json!({"message": {"role": "assistant", "tool_calls": [
            {"function": {"name": "shell", "arguments": {"command": "sleep 60"}}}]}, "done": false});
        writeln!(stdin, "{call}").unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        let id = child.id().to_string();
        std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        drop(stdin);
        // Without a code the signal came before the handler was installed: wait longer.
        if ran.code.is_some() {
            assert_eq!(ran.code, Some(130), "{ran:?}");
            assert_eq!(ran.json().as_array().map(Vec::len), Some(1), "{ran:?}");
            return;
        }
    }
    panic!("the program never listened");
}
