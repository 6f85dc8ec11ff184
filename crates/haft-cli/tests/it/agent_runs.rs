//! `haft run`, `haft chat` and `haft runs` with scripted models.

use std::{
    io::Write as _,
    process::{Child, Stdio},
};

use serde_json::Value;

use crate::{Ran, TempDir, lines, read};

/// Reads a note and answers.
const READS: &str = r#"{"script": 1, "task": "What is in the garden note?", "price": {"input": 3000000, "output": 15000000}}
{"text": "I look.", "calls": [{"id": "a", "name": "read_file", "arguments": {"file_path": "notes/garden.txt"}}], "usage": {"input_tokens": 1000, "output_tokens": 10}}
{"expect": {"results": [{"id": "a", "is_error": false}]}, "text": "Beans before nine.", "usage": {"input_tokens": 1100, "output_tokens": 5}}
"#;

/// Makes a call that needs approval.
const WRITES: &str = r#"{"text": "I write.", "calls": [{"id": "w", "name": "write_file", "arguments": {"file_path": "new.txt", "content": "new"}}]}
{"text": "It said: {{result:w}}"}
"#;

/// A model that never answers.
const STALLS: &str = r#"{"text": "I think.", "fault": "stall"}"#;

/// Answers each message.
const ECHOES: &str = "{\"text\": \"First: {{user}}\"}\n{\"text\": \"Second: {{user}}\"}\n";

fn dir(name: &str) -> TempDir {
    let files = [
        ("reads.jsonl", READS),
        ("writes.jsonl", WRITES),
        ("stalls.jsonl", STALLS),
        ("echoes.jsonl", ECHOES),
    ];
    TempDir::new(&format!("agent-{name}"), &files)
}

/// The id of the newest run.
fn newest(dir: &TempDir) -> String {
    let list = dir.run(["runs", "list", "--json"]).json();
    list[0]["run"].as_str().unwrap().to_owned()
}

fn fed(dir: &TempDir, words: &[&str], stdin: &str) -> Ran {
    let mut child = dir
        .command()
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn answer_is_the_only_text_on_stdout() {
    let dir = dir("answer");
    let ran = dir.run(["run", "--model", "script:reads.jsonl"]);
    assert_eq!(ran.page(), "exit 0\n--- stdout\nBeans before nine.\n");
    let ran = dir.run(["run", "Another task", "--model", "script:reads.jsonl", "--quiet"]);
    assert_eq!(ran.page(), "exit 0\n--- stdout\nBeans before nine.\n");
}

#[test]
fn json_is_one_event_per_line_and_ends_with_the_result() {
    let dir = dir("json");
    let ran = dir.run(["run", "--model", "script:reads.jsonl", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let events = lines(&ran.out);
    let types: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .filter(|t| *t != "call")
        .collect();
    let wanted = [
        "run_started",
        "model_called",
        "text",
        "call_started",
        "arguments",
        "call_requested",
        "model_finished",
        "call_finished",
        "model_called",
        "text",
        "model_finished",
        "run_finished",
    ];
    assert_eq!(types, wanted);
    let last = events.last().unwrap();
    assert_eq!((&last["state"], &last["usage"]["calls"]), (&"completed".into(), &1.into()));
    assert_eq!(last["usage"]["micros"], 6525);
}

#[test]
fn task_is_read_from_stdin() {
    let dir = dir("stdin-task");
    let ran = fed(&dir, &["run", "-", "--model", "script:echoes.jsonl"], "Fix the test.\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "First: Fix the test.\n"), "{ran:?}");
    let ran = fed(&dir, &["run", "-", "--model", "script:echoes.jsonl"], "\n");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("the task is empty"), "{ran:?}");
}

#[test]
fn denied_model_call_exits_with_2() {
    let dir = dir("denied");
    let rule = "[[rule]]\nmatch = \"model_call arg.model=script\"\nsubject = \"llm_call\"\n\
                decision = \"deny\"\nreason = \"no model today\"\n";
    dir.put("haft.toml", rule);
    let ran = dir.run(["run", "x", "--model", "script:echoes.jsonl"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.contains("the policy denies the model call: no model today"), "{ran:?}");
    let ran = dir.run(["run", "x", "--model", "script:echoes.jsonl", "--json"]);
    let last = lines(&ran.out).pop().unwrap();
    assert_eq!((ran.code, &last["reason"]["end"]), (Some(2), &"denied".into()), "{ran:?}");
}

#[test]
fn errors_are_json_too() {
    let dir = dir("json-errors");
    dir.put("bad.jsonl", "{\"txt\": 1}\n");
    for words in [
        ["run", "x", "--json", "--model", "script:bad.jsonl"],
        ["run", "x", "--json", "--model", "script:missing.jsonl"],
        ["chat", "--quiet", "--json", "--resume", "nothing"],
    ] {
        let ran = dir.run(words);
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.json()["error"]["message"].is_string(), "{ran:?}");
    }
}

#[test]
fn setup_mistakes_are_explained() {
    let dir = dir("mistakes");
    dir.put("bad.jsonl", "{\"text\": \"a\"}\nnot json\n");
    let message_of = |words: &[&str]| {
        let ran = dir.run(words.to_vec());
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        ran.err
    };
    let none = message_of(&["run", "x"]);
    assert!(none.contains("no model is configured") && none.contains("`--model anthropic:NAME`"));
    assert!(none.contains("`[model]` of haft.toml") && none.contains("`haft demo`"), "{none}");
    let wrong = message_of(&["run", "x", "--model", "reads.jsonl"]);
    assert!(wrong.contains("did you mean `--model script:reads.jsonl`?"), "{wrong}");
    let missing = message_of(&["run", "x", "--model", "script:read.jsonl"]);
    assert!(missing.contains("there is no file `read.jsonl`"), "{missing}");
    assert!(missing.contains("did you mean `reads.jsonl`?"), "{missing}");
    let bad = message_of(&["run", "x", "--model", "script:bad.jsonl"]);
    assert!(bad.contains("`bad.jsonl` is not a script: line 2"), "{bad}");
    let unknown = message_of(&["run", "--resume", "nope", "--model", "script:reads.jsonl"]);
    assert!(unknown.contains("there is no run `nope` in this workspace"), "{unknown}");
    let task = message_of(&["run", "--model", "script:writes.jsonl"]);
    assert!(task.contains("the task is missing, and the script names none"), "{task}");
    let price = message_of(&["run", "x", "--model", "script:writes.jsonl", "--max-cost", "0.5"]);
    assert!(price.contains("the script names no price"), "{price}");
    let empty = message_of(&["run", " ", "--model", "script:writes.jsonl"]);
    assert!(empty.contains("the task is empty"), "{empty}");
    let show = message_of(&["runs", "show"]);
    assert!(show.contains("hint: `haft runs list` shows the ids"), "{show}");
    assert!(!dir.work().join(".haft").exists(), "nothing was stored");
}

#[test]
fn run_waits_without_a_terminal_and_is_resumed_with_an_answer() {
    let dir = dir("waits");
    let ran = dir.run(["run", "x", "--model", "script:writes.jsonl"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{ran:?}");
    let run = newest(&dir);
    assert!(ran.err.contains("error: waiting: a call waits for approval"), "{}", ran.err);
    assert!(ran.err.contains(&format!("`haft run --resume {run} --model script:writes.jsonl`")));
    assert!(ran.err.contains("`--approve w` or `--deny w`"), "{}", ran.err);
    assert!(!dir.work().join("new.txt").exists());
    let shown = dir.run(["runs", "show", &run]);
    assert!(shown.out.contains("waits w write_file("), "{}", shown.out);

    let resume = |more: &[&str]| {
        let words = ["run", "--resume", &run, "--model", "script:writes.jsonl"];
        dir.run(words.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let again = resume(&[]);
    assert_eq!(again.code, Some(6), "{again:?}");
    let wrong = resume(&["--approve", "z"]);
    assert!(wrong.err.contains("no call `z` of the run"), "{wrong:?}");
    assert!(wrong.err.contains("these calls wait: `w`"), "{wrong:?}");
    let done = resume(&["--approve", "w"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.starts_with("It said: created `new.txt`"), "{done:?}");
    assert_eq!(read(&dir.work().join("new.txt")), "new");
    let late = resume(&["--approve", "w"]);
    assert_eq!(late.code, Some(1), "an answer counts once: {late:?}");
    let over = resume(&[]);
    assert!(over.err.contains("has completed"), "{over:?}");
}

#[test]
fn denied_answer_and_yes_end_the_run() {
    let dir = dir("answers");
    let ran = dir.run(["run", "x", "--model", "script:writes.jsonl"]);
    assert_eq!(ran.code, Some(6));
    let run = newest(&dir);
    let words = ["run", "--resume", &run, "--model", "script:writes.jsonl", "--deny", "w"];
    let ran = dir.run(words);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("It said: ") && ran.out.contains("denied"), "{ran:?}");
    assert!(!dir.work().join("new.txt").exists());
    let ran = dir.run(["run", "x", "--model", "script:writes.jsonl", "--yes", "--quiet"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(dir.work().join("new.txt").exists());
}

#[test]
fn recorded_run_replays_byte_for_byte_without_secrets() {
    let dir = dir("record");
    let secret = "AKIAIOSFODNN7EXAMPLE";
    dir.put("notes/key.txt", secret);
    dir.put("secret.jsonl", &format!(
        "{}\n{}\n",
        r#"{"calls": [{"id": "a", "name": "read_file", "arguments": {"file_path": "notes/key.txt"}}]}"#,
        format_args!("{{\"text\": \"It is {secret}.\"}}"),
    ));
    let ran = dir.run(["run", "x", "--model", "script:secret.jsonl", "--record", "one.jsonl"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let one = read(&dir.work().join("one.jsonl"));
    assert!(!one.contains(secret) && one.contains("REDACTED"), "{one}");
    let ran = dir.run(["run", "--model", "script:one.jsonl", "--record", "two.jsonl"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(one, read(&dir.work().join("two.jsonl")));
}

#[test]
fn limits_stop_the_run() {
    let dir = dir("limits");
    let ran = dir.run(["run", "--model", "script:reads.jsonl", "--max-turns", "1"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), ""), "{ran:?}");
    assert!(ran.err.contains("error: failed: a limit was reached"), "{}", ran.err);
    assert!(ran.err.contains("with a higher limit continues it"), "{}", ran.err);
    let run = newest(&dir);
    let words = ["run", "--resume", &run, "--model", "script:reads.jsonl", "--max-turns", "2"];
    let ran = dir.run(words);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Beans before nine.\n"), "{ran:?}");
    let again = dir.run(words);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("has completed") && again.err.contains("haft chat --resume"));
    let ran = dir.run(["run", "--model", "script:reads.jsonl", "--max-cost", "0.000001"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let ran = dir.run(["run", "--model", "script:reads.jsonl", "--max-tokens", "10"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let ran = dir.run(["run", "x", "--model", "script:stalls.jsonl", "--max-time", "1s"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let wrong = dir.run(["run", "x", "--model", "script:reads.jsonl", "--max-time", "soon"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.err.contains("write it as in 90s, 10m or 1h"), "{}", wrong.err);
}

#[test]
fn failed_tool_ends_the_run_where_that_was_asked_for() {
    let dir = dir("tool-failure");
    dir.put(
        "fails.jsonl",
        "{\"calls\": [{\"name\": \"read_file\", \"arguments\": {\"file_path\": \"nothing\"}}]}\n\
         {\"text\": \"There is no such file.\"}\n",
    );
    let run = |how: &str| {
        let words = ["run", "x", "--model", "script:fails.jsonl", "--on-tool-failure", how];
        let ran = dir.run(words);
        (ran.code, ran.out)
    };
    let answer = "There is no such file.\n".to_owned();
    assert_eq!(run("continue"), (Some(0), answer.clone()));
    assert_eq!(run("degrade"), (Some(5), answer), "the model answers with what it has");
    assert_eq!(run("fail"), (Some(5), String::new()));
    assert_eq!(run("sometimes").0, Some(1));
}

#[test]
fn failed_model_keeps_the_run() {
    let dir = dir("failed");
    dir.put("cut.jsonl", "{\"text\": \"I begin.\", \"fault\": \"cut\"}\n");
    let ran = dir.run(["run", "x", "--model", "script:cut.jsonl"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), ""), "{ran:?}");
    assert!(ran.err.contains("the model failed: the connection was closed"), "{}", ran.err);
    let list = dir.run(["runs", "list"]);
    assert!(list.out.contains("failed"), "{list:?}");
}

#[test]
fn stored_runs_are_private_and_hidden_from_git() {
    let dir = dir("stored");
    let none = dir.run(["runs", "list"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert!(none.err.contains("no run is stored here yet"), "{none:?}");
    for _ in 0..3 {
        assert_eq!(dir.run(["run", "--model", "script:reads.jsonl"]).code, Some(0));
    }
    let list = dir.run(["runs", "list", "--json"]).json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 3);
    let ids: std::collections::HashSet<&str> =
        list.iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3, "ids are unique");
    assert_eq!(list[0]["task"], "What is in the garden note?");
    assert_eq!(read(&dir.work().join(".haft/.gitignore")), "*\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = dir.work().join(".haft").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
    let shown = dir.run(["runs", "show", &newest(&dir)]);
    for text in
        ["you   │ What is in the garden note?", "→ read_file(", "model │ Beans before nine."]
    {
        assert!(shown.out.contains(text), "{text}: {}", shown.out);
    }
    let unknown = dir.run(["runs", "show", "20"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
}

#[cfg(unix)]
#[test]
fn symlink_in_place_of_the_store_is_refused() {
    let dir = dir("symlink");
    std::os::unix::fs::symlink(&dir.0, dir.work().join(".haft")).unwrap();
    let ran = dir.run(["run", "--model", "script:reads.jsonl"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains(".haft` is not a directory"), "{ran:?}");
    assert!(!dir.0.join("runs").exists());
}

#[test]
fn chat_answers_each_line() {
    let dir = dir("chat");
    let ran = fed(&dir, &["chat", "--model", "script:echoes.jsonl"], "one\n\ntwo\n");
    assert_eq!(ran.page(), "exit 0\n--- stdout\nFirst: one\nSecond: two\n");
    let list = dir.run(["runs", "list", "--json"]).json();
    assert_eq!(list.as_array().unwrap().len(), 1, "a chat is one run");
    // The script has no third message.
    let run = newest(&dir);
    let words = ["chat", "--resume", &run, "--model", "script:echoes.jsonl"];
    let ran = fed(&dir, &words, "three\nfour\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), ""), "{ran:?}");
    assert!(ran.err.contains("the script has 2 messages"), "{}", ran.err);
    assert!(ran.err.contains(&format!("`haft chat --resume {run}")), "{}", ran.err);
}

#[test]
fn chat_with_a_waiting_call_is_continued_by_run() {
    let dir = dir("chat-waits");
    let ran = fed(&dir, &["chat", "--model", "script:writes.jsonl"], "one\ntwo\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{ran:?}");
    let run = newest(&dir);
    let words = ["chat", "--resume", &run, "--model", "script:writes.jsonl"];
    let ran = fed(&dir, &words, "two\n");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains(&format!("`haft run --resume {run} --model …` answers it first")));
}

#[test]
fn chat_is_resumed_where_it_ended() {
    let dir = dir("chat-resume");
    let ran = fed(&dir, &["chat", "--model", "script:echoes.jsonl"], "one\n");
    assert_eq!(ran.out, "First: one\n");
    let run = newest(&dir);
    let words = ["chat", "--resume", &run, "--model", "script:echoes.jsonl", "--json"];
    let ran = fed(&dir, &words, "two\n");
    let last: Value = lines(&ran.out).pop().unwrap();
    assert_eq!((ran.code, &last["text"]), (Some(0), &"Second: two".into()), "{ran:?}");
}

#[cfg(target_os = "linux")]
mod at_a_terminal {
    use super::*;
    use crate::terminal::{Terminal, once};

    #[test]
    fn progress_fits_the_terminal() {
        let dir = dir("progress");
        for columns in [80, 40] {
            let line = format!(
                "stty cols {columns}; haft run --model script:reads.jsonl --max-cost 1 --max-time 5m"
            );
            let Some(screen) = Terminal::like(&dir.command()).run(&line, |_| None) else { return };
            let lines = screen.lines();
            assert!(lines.iter().all(|line| line.chars().count() < columns), "{lines:#?}");
            let page = lines.join("\n");
            assert!(page.contains("turn 2  1010 tokens, cost 0.0031"), "{page}");
            assert!(page.contains("model │ I look."), "{page}");
            assert!(page.contains("✓ read_file("), "{page}");
            assert_eq!(page.matches("Beans before nine.").count(), 1, "{page}");
            assert!(page.contains("completed  2 turns, 1 call,"), "{page}");
        }
    }

    #[test]
    fn approval_is_asked_in_place() {
        let dir = dir("asks");
        let line = "haft run x --model script:writes.jsonl --workspace .";
        let terminal = Terminal::like(&dir.command());
        let Some(screen) = terminal.run(line, once("[?] why  >", "y\n")) else { return };
        assert_eq!(screen.code, Some(0), "{}", screen.page());
        assert!(dir.work().join("new.txt").exists());
        let page = screen.page();
        assert!(page.contains("→ allow by the terminal"), "{page}");
    }

    #[test]
    fn chat_takes_messages_from_the_keyboard() {
        let dir = dir("keys");
        let mut typed = 0;
        let keys = move |seen: &str| {
            let prompts = seen.matches("you > ").count();
            let is_due = prompts > typed;
            typed += usize::from(is_due);
            is_due.then_some(match prompts {
                1 => "hello\n",
                2 => "more\n",
                _ => "\u{4}",
            })
        };
        let line = "haft chat --model script:echoes.jsonl";
        let Some(screen) = Terminal::like(&dir.command()).run(line, keys) else { return };
        let page = screen.page();
        assert_eq!(screen.code, Some(0), "{page}");
        assert!(page.contains("First: hello") && page.contains("Second: more"), "{page}");
        assert_eq!(page.matches("model script").count(), 1, "the run is named once: {page}");
    }

    #[test]
    fn chat_goes_on_after_ctrl_c() {
        let dir = dir("chat-ctrl-c");
        dir.put("both.jsonl", &format!("{STALLS}\n{{\"text\": \"Second: {{{{user}}}}\"}}\n"));
        let mut typed = 0;
        let keys = move |seen: &str| {
            let keys = ["hello\n", "\u{3}", "more\n", "\u{4}"];
            let prompts = seen.matches("you > ").count();
            let is_due = match typed {
                0 => prompts >= 1,
                1 => seen.contains("I think."),
                2 => prompts >= 2,
                3 => prompts >= 3,
                _ => false,
            };
            let typing = is_due.then(|| keys[typed]);
            typed += usize::from(is_due);
            typing
        };
        let line = "haft chat --model script:both.jsonl";
        let Some(screen) = Terminal::like(&dir.command()).run(line, keys) else { return };
        let page = screen.page();
        assert_eq!(screen.code, Some(0), "{page}");
        assert!(page.contains("the run was interrupted"), "{page}");
        assert!(!page.contains("--resume"), "the chat itself goes on: {page}");
        assert!(page.contains("Second: more"), "{page}");
    }

    #[test]
    fn ctrl_c_interrupts_the_run() {
        let dir = dir("ctrl-c");
        let line = "haft run x --model script:stalls.jsonl";
        let terminal = Terminal::like(&dir.command());
        let Some(screen) = terminal.run(line, once("I think.", "\u{3}")) else { return };
        let page = screen.page();
        assert_eq!(screen.code, Some(130), "{page}");
        assert!(page.contains("error: cancelled: the run was interrupted"), "{page}");
        assert!(page.contains("haft run --resume"), "{page}");
    }
}

#[cfg(target_os = "linux")]
mod signals {
    use super::*;
    use crate::signals::{runs, send, wait_for};

    fn start(dir: &TempDir, seconds: &str) -> Child {
        let script = format!(
            "{{\"calls\": [{{\"id\": \"a\", \"name\": \"shell\", \"arguments\": {{\"command\": \
             \"sleep {seconds}\"}}}}]}}\n{{\"text\": \"Done.\"}}\n"
        );
        dir.put("sleeps.jsonl", &script);
        let mut haft = dir.command();
        haft.args(["run", "x", "--model", "script:sleeps.jsonl", "--json"]);
        haft.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn run_that_another_process_works_on_is_not_resumed() {
        let dir = dir("locked");
        let seconds = format!("{}.7", 2_000_000 + std::process::id());
        let child = start(&dir, &seconds);
        wait_for("the command's start", || runs(&seconds));
        let run = std::fs::read_dir(dir.work().join(".haft/runs")).unwrap().flatten();
        let names = run.map(|entry| entry.file_name().into_string().unwrap());
        let locks: Vec<String> = names.filter(|name| name.ends_with(".lock")).collect();
        let [lock] = locks.as_slice() else { panic!("{locks:?}") };
        let run = lock.strip_suffix(".lock").unwrap();
        // It is stored after its first turn; until then there is nothing to resume.
        dir.put(&format!(".haft/runs/{run}.json"), "{}");
        let ran = dir.run(["run", "--resume", run, "--model", "script:sleeps.jsonl"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains("another process works on the run"), "{ran:?}");
        send("-TERM", &child);
        assert_eq!(Ran::of(child.wait_with_output().unwrap()).code, Some(130));
        assert!(!dir.work().join(".haft/runs").join(lock).exists(), "the lock is gone");
    }

    #[test]
    fn signals_cancel_the_run_and_kill_its_processes() {
        for (at, signal) in ["-INT", "-TERM"].into_iter().enumerate() {
            let dir = dir(&format!("signal{signal}"));
            // An unusual duration, which identifies the process.
            let seconds = format!("{}.{at}", 2_000_000 + std::process::id());
            let child = start(&dir, &seconds);
            wait_for("the command's start", || runs(&seconds));
            send(signal, &child);
            let ran = Ran::of(child.wait_with_output().unwrap());
            assert_eq!(ran.code, Some(130), "{signal}: {ran:?}");
            let events = lines(&ran.out);
            let last = events.last().unwrap();
            assert_eq!(last["state"], "cancelled", "{signal}: {last}");
            let ended = events.iter().filter(|event| event["type"] == "call_finished").count();
            assert_eq!(ended, 1, "the call has a result");
            wait_for("the end of the process", || !runs(&seconds));
            let list = dir.run(["runs", "list", "--json"]).json();
            assert_eq!(list[0]["state"], "cancelled", "{list}");
        }
    }
}
