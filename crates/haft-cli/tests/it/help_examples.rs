//! Runs every example line of the help texts.
#![cfg(target_os = "linux")]

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::json;

use crate::{Ran, TempDir, haft, usage::COMMANDS};

/// The example lines of a help text, without the remark behind two blanks.
fn examples(help: &str) -> Vec<String> {
    let Some((_, examples)) = help.split_once("\nExamples:\n") else { return Vec::new() };
    let lines = examples.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim().split("  ").next().unwrap().to_owned()).collect()
}

/// The exit code that an example has by design.
fn expected_code(line: &str) -> i32 {
    match line {
        // It lists the configuration and would ask, but there is no terminal.
        "haft trust" => 1,
        "haft tools lint --tools tools.jsonl --deny" => 1,
        // The home directory of the test has no MCP client.
        line if line.starts_with("haft install ") => 1,
        // The server is in a file of the directory, which trust does not cover yet.
        "haft mcp login hub" | "haft mcp login hub --out" => 1,
        _ => 0,
    }
}

/// A script of two messages.
const AGENT: &str = r#"{"script": 1, "task": "Say hello."}
{"text": "Hello."}
{"text": "Hello again."}
"#;

#[expect(clippy::disallowed_methods, reason = "the test makes the files that examples name")]
fn directory() -> TempDir {
    let response = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "list_files", "input": {}},
    ]});
    let stream = include_str!("../wire/anthropic.stream");
    let rules = "[[rule]]\nmatch = \"Bash(git push *)\"\ndecision = \"deny\"\n\
                 test.deny = [\"git push\"]\n\n\
                 [[hooks.PreToolUse]]\ncommand = \"true\"\n";
    let tools = json!({"id": "t", "name": "run", "input_schema": {"type": "object"}}).to_string();
    let rows: Vec<_> = (0..9_000).map(|n| json!({"n": n, "text": "error"})).collect();
    let files = [
        ("README.md", "# Title\nTODO\n"),
        ("notes.txt", "one\n"),
        ("src/main.txt", "TODO\n"),
        ("haft.toml", rules),
        ("draft.toml", rules),
        ("response.json", &response.to_string()),
        ("response.sse", stream),
        ("tools.jsonl", &tools),
        ("calls.jsonl", "{\"schema_ref\": \"t\", \"arguments\": {}}\n"),
        ("decisions.jsonl", "{\"tool\": \"x\", \"arguments\": {}, \"decision\": \"allow\"}\n"),
        ("fixture.json", "{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"ls\"}}"),
        ("commands.jsonl", "{\"command\": \"ls\"}\n"),
        ("rows.json", &json!({"rows": rows}).to_string()),
        ("agent.jsonl", AGENT),
        ("task.md", "Fix the failing test.\n"),
    ];
    let dir = TempDir::new("help-examples", &files);
    let home = dir.0.join("home");
    for below in [".local/share/bash-completion/completions", ".config/fish/completions", "bin"] {
        std::fs::create_dir_all(home.join(below)).unwrap();
    }
    // Examples show how to use `jq`; they are tested without it.
    let jq = home.join("bin/jq");
    std::fs::write(&jq, "#!/bin/sh\nexec cat\n").unwrap();
    std::fs::set_permissions(&jq, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The server that `npx` would download.
    let npx = home.join("bin/npx");
    let guide = include_str!("../../../../docs/guide/mcp-tools.md");
    let server = guide.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let server = server.replace("read_note", "read_file");
    std::fs::write(&npx, format!("#!/bin/sh\n{server}")).unwrap();
    std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn run(dir: &TempDir, line: &str) -> Ran {
    let own = dir.command();
    let bin = Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap().display();
    let home = dir.0.join("home");
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &format!("set -o pipefail; {line}")])
        .current_dir(dir.work())
        .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", format!("{bin}:{}:/usr/bin:/bin", home.join("bin").display()))
        .env_remove("XDG_STATE_HOME")
        .stdin(std::process::Stdio::null());
    Ran::of(shell.output().unwrap())
}

/// The id of a stored run, behind a blank; `RUN` while there is none.
fn run_id(dir: &TempDir) -> String {
    let list = run(dir, "haft runs list --json");
    let list: serde_json::Value = serde_json::from_str(&list.out).unwrap();
    format!(" {}", list[0]["run"].as_str().unwrap_or("RUN"))
}

#[test]
fn every_example_of_the_help_texts_runs() {
    let dir = directory();
    let store = "haft call shell command='cat rows.json' --json";
    let stored = run(&dir, store);
    let (_, rest) = stored.err.split_once("`haft result ").expect("it is too large to show");
    let id = rest.split('`').next().unwrap();
    let mut count = 0;
    for command in COMMANDS {
        let help = haft(&format!("{command} --help")).out;
        let lines = examples(&help);
        assert!(!lines.is_empty(), "{command} has no examples: {help}");
        for line in lines {
            if line.starts_with("haft serve --http") {
                continue; // runs until it is stopped; `serve.rs` tests it
            }
            let line = line.replace(" ID", &format!(" {id}")).replace(" RUN", &run_id(&dir));
            let ran = run(&dir, &line);
            assert_eq!(ran.code, Some(expected_code(&line)), "{command}: `{line}`: {ran:?}");
            count += 1;
        }
    }
    assert!(count > 60, "{count} examples");
}
