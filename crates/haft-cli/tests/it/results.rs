//! `haft result`: reads results that another process stored.
#![cfg(target_os = "linux")]

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{Ran, TempDir, haft, lines};

/// A call with a large result in JSON.
const STORE: [&str; 3] = ["call", "shell", "command=cat rows.json"];

/// Five thousand rows, each on a line.
fn rows() -> String {
    let rows: Vec<String> =
        (1..=5_000).map(|n| format!("{{\"n\":{n},\"square\":{}}}", n * n)).collect();
    format!("[\n{}\n]", rows.join(",\n"))
}

fn dir_with_rows(name: &str) -> TempDir {
    TempDir::new(name, &[("rows.json", &rows())])
}

/// Calls a tool with a large result and returns its id.
fn store(dir: &TempDir, more: &[&str]) -> (Ran, String) {
    let words = STORE.iter().chain(more);
    let ran = dir.run(words.copied());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (_, rest) = ran.err.split_once("`haft result ").unwrap();
    let id = rest.split_once(['`', ' ']).unwrap().0.to_owned();
    (ran, id)
}

fn page(ran: &Ran, id: &str) -> String {
    ran.page().replace(id, "ID")
}

#[test]
fn large_result_is_stored_and_its_id_is_printed_to_stderr() {
    let dir = dir_with_rows("result-kept");
    let (ran, id) = store(&dir, &[]);
    assert!(ran.out.chars().count() <= 50_001);
    let (data, notice) = ran.out.split_once('\n').unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data[0], json!({"n": 1, "square": 1}));
    assert!(notice.contains(&format!("is stored for the operator as {id}")), "{notice}");
    assert_snapshot!(ran.err.replace(&id, "ID"), @r"
    note: the result was truncated; `haft result ID` prints all of it (144276 characters, 5002 lines)
    ");
    assert_snapshot!(page(&dir.run(["result", "list"]), &id), @r"
    exit 0
    --- stdout
    ID  shell  144276 characters, 5002 lines  application/json
    --- stderr
    1 result stored
    ");
}

#[cfg(unix)]
#[test]
fn printed_command_reads_the_stored_result() {
    let dir = dir_with_rows("result-printed");
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap();
    for more in [&[][..], &["--artifacts", "my results"], &["--json"]] {
        let ran = dir.run(STORE.iter().chain(more).copied());
        let printed = ran.err.split('`').nth(1).unwrap();
        let printed = &printed.replace("[dir]", &dir.0.display().to_string());
        assert!(printed.starts_with("haft result "), "{ran:?}");
        let own = dir.command();
        let output = std::process::Command::new("sh")
            .args(["-c", printed])
            .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env_remove("XDG_STATE_HOME")
            .current_dir(&dir.0)
            .output()
            .unwrap();
        let whole = Ran::of(output);
        assert_eq!(whole.code, Some(0), "from another directory: {printed}: {whole:?}");
        let data: Value = serde_json::from_str(&whole.out).unwrap();
        assert_eq!(data.as_array().map(Vec::len), Some(5_000), "{printed}");
        if more == ["--json"] {
            let id = ran.json()["truncation"]["artifact"].clone();
            assert!(printed.contains(id.as_str().unwrap()), "{id}: {printed}");
        }
    }
}

#[test]
fn stored_result_is_read_by_lines_matches_and_pointers() {
    let dir = dir_with_rows("result-read");
    let (_, id) = store(&dir, &[]);
    let read = |words: &[&str]| {
        let ran = dir.run(["result", &id].iter().chain(words).copied());
        page(&ran, &id)
    };
    assert_snapshot!(read(&["--range", "4999:5000"]), @r#"
    exit 0
    --- stdout
    {"n":4998,"square":24980004},
    {"n":4999,"square":24990001},
    --- stderr
    lines 4999 to 5000 of 5002; more from line 5001
    "#);
    assert_snapshot!(read(&["--grep", "\"n\":500[01]"]), @r#"
    exit 0
    --- stdout
    5001: {"n":5000,"square":25000000}
    --- stderr
    1 of 1 matching lines
    "#);
    assert_snapshot!(read(&["--pointer", "/4998/square"]), @r"
    exit 0
    --- stdout
    24990001
    --- stderr
    `/4998/square`: all of it
    ");
    assert_snapshot!(read(&["--pointer", "/9999"]), @r"
    exit 1
    --- stderr
    error: `ID`: the pointer has no target: the list has 5000 items, so there is no `9999`
    ");
    assert_snapshot!(read(&["--grep", "("]), @r"
    exit 1
    --- stderr
    error: `ID`: the pattern is not a valid regular expression: unclosed group
    ");
    assert_snapshot!(read(&["--range", "9:3"]), @r"
    exit 1
    --- stderr
    error: `9:3` is not a range of lines
    hint: write `10:20`, `10:`, `:20` or `10`; lines are counted from 1
    ");
    let whole = dir.run(["result", &id]);
    let data: Value = serde_json::from_str(&whole.out).unwrap();
    assert_eq!(data.as_array().unwrap().len(), 5_000);
}

#[test]
fn json_has_metadata_text_and_next_position() {
    let dir = dir_with_rows("result-json");
    let (_, id) = store(&dir, &[]);
    let part = dir.run(["result", &id, "--range", "2:2", "--json"]).json();
    assert_eq!(part["text"], "{\"n\":1,\"square\":1},\n");
    assert_eq!((&part["id"], &part["tool"]), (&json!(id), &json!("shell")));
    assert_eq!(part["next"], json!({"line": 3, "column": 1}));
    assert_eq!(part.get("owner"), None);
    let all = dir.run(["result", "list", "--json"]);
    assert_eq!(lines(&all.out)[0][0]["items"], 5_000);
}

#[test]
fn invalid_and_unknown_ids_are_reported() {
    let dir = TempDir::new("result-none", &[]);
    assert_snapshot!(dir.run(["result", "../../etc/passwd"]).page(), @r"
    exit 1
    --- stderr
    error: `../../etc/passwd` is not an id: a result id has 26 characters: digits and lower-case letters without a, e, i, o
    hint: `haft result list` lists the ids
    ");
    assert_snapshot!(dir.run(["result", "0123456789bcdfghjklmnpqrs0"]).page(), @r"
    exit 1
    --- stderr
    error: there is no result `0123456789bcdfghjklmnpqrs0`
    hint: results expire after a while
    ");
    assert_snapshot!(dir.run(["result", "list"]).page(), @r"
    exit 0
    --- stderr
    0 results stored
    ");
    assert_eq!(
        haft("result list --range 1:2 --pointer /3").code,
        Some(1),
        "one question at a time"
    );
}

#[test]
fn named_artifact_directory_must_be_usable() {
    let dir = dir_with_rows("result-named");
    let own = dir.work().join("kept");
    let own = own.to_str().unwrap();
    let (_, id) = store(&dir, &["--artifacts", own]);
    assert_eq!(dir.run(["result", &id]).code, Some(1), "it is not where nothing was put");
    assert_eq!(dir.run(["result", &id, "--artifacts", own, "--range", "1"]).code, Some(0));
    let open = dir.run(["call", "list_files", "--artifacts", "."]);
    assert_eq!(open.code, Some(1), "{open:?}");
    assert!(open.err.contains("other users can access it"), "{open:?}");
}

#[test]
fn processes_share_the_artifact_directory_without_losing_results() {
    let dir = dir_with_rows("result-many");
    let all: Vec<_> = (0..6)
        .map(|_| {
            let mut command = dir.command();
            command.args(STORE);
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    let listed = dir.run(["result", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 6);
}
