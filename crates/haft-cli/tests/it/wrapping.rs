//! Pages, tables, messages and help texts fit the terminal, and a pipe gets unwrapped lines.
#![cfg(unix)]

use serde_json::json;

use crate::{TempDir, terminal::Terminal};

/// Rules, hooks and a declared tool, with texts that are longer than a narrow terminal.
const CONFIG: &str = r#"
[[rule]]
match = "Bash(git push --force-with-lease --set-upstream origin *)"
decision = "deny"
reason = "a push is made by a person who has read the whole change, 漢字漢字漢字漢字漢字漢字"
test.deny = ["git push --force-with-lease --set-upstream origin a-very-long-name-of-a-branch"]

[[hooks.PreToolUse]]
matcher = "Bash|read_file|write_file"
command = "sh hooks/a-script-with-a-long-name-that-checks-every-call.sh --strict --verbose"

[tool.count_lines]
description = "Counts the lines of a file, and returns the number and the name of the file."
command = ["wc", "-l", "--", "{file}"]
read_only = true
capabilities = ["filesystem"]

[tool.count_lines.parameters.file]
description = "Which file, named from the first directory of the workspace."
about = "read_path"
"#;

fn fixture(name: &str) -> TempDir {
    let call = |n: u32, tool: &str, input: serde_json::Value| json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": tool, "input": input});
    let response = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        call(1, "read_file", json!({"file_path": "notes/garden.txt"})),
        call(2, "list_files", json!({"path": "notes"})),
        call(3, "a_tool_that_does_not_exist_and_has_a_long_name", json!({})),
    ]})
    .to_string();
    let tools = json!({"name": "run", "input_schema": {"type": "object", "properties": {"a_long_name_of_an_argument": {"type": "string"}}}});
    let calls = json!({"schema_ref": "read_file", "arguments": {"file_path": 7}});
    let files = [
        ("haft.toml", CONFIG),
        ("hooks/a-script-with-a-long-name-that-checks-every-call.sh", "true\n"),
        ("response.json", &response),
        ("tools.jsonl", &tools.to_string()),
        ("calls.jsonl", &calls.to_string()),
    ];
    TempDir::trusted(name, &files)
}

/// Every command that prints a page, a table or a message.
const COMMANDS: [&str; 28] = [
    "",
    "--help",
    "call --help",
    "dispatch --help",
    "explain --help",
    "tools --help",
    "tools export --help",
    "policy check --help",
    "trust --help",
    "help exit-codes",
    "run --help",
    "tools list",
    "tools show shell",
    "tools show count_lines",
    "tools lint",
    "tools lint --tools tools.jsonl",
    "tools check --calls calls.jsonl",
    "plan response.json",
    "explain shell command='git push --force-with-lease --set-upstream origin a-branch'",
    "explain nosuch",
    "policy check",
    "policy test",
    "hooks list",
    "hooks test PreToolUse --tool Bash",
    "shell explain 'cat a-file-with-a-long-name.txt | sort --output=another-file && sudo rm x'",
    "exit-codes",
    "call read_file file_path=nothing-has-this-name-in-this-directory.txt",
    "trust",
];

/// How many columns a text takes; wide characters take two.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if ('\u{2e80}'..'\u{a000}').contains(&c) { 2 } else { 1 }).sum()
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let dir = fixture("wrapping-widths");
    for width in [40, 80, 120] {
        for command in COMMANDS {
            let line = format!("stty cols {width} rows 60; haft {command}");
            let Some(screen) = Terminal::like(&dir.command()).run(&line, |_| None) else { return };
            let page = screen.page();
            assert!(page.lines().count() > 1, "{command}: {page}");
            for line in page.lines() {
                assert!(columns(line) <= width, "`haft {command}` at {width}: {line:?}\n{page}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn doctor_fits_the_terminal() {
    let dir = fixture("wrapping-doctor");
    for width in [40, 80] {
        let line = format!("stty cols {width} rows 60; haft doctor");
        let Some(screen) = Terminal::like(&dir.command()).run(&line, |_| None) else { return };
        let page = screen.page();
        let (_, tests) = page.split_once("tests inside the sandbox").expect("there is a sandbox");
        for line in tests.lines() {
            assert!(columns(line) <= width, "{width}: {line:?}\n{page}");
        }
    }
}

#[test]
fn wrapping_loses_no_word() {
    let dir = fixture("wrapping-words");
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    for command in ["tools list", "tools show shell", "policy test", "hooks list", "exit-codes"] {
        let piped = dir.run(command.split(' '));
        assert_eq!(piped.code, Some(0), "{piped:?}");
        let line = format!("stty cols 200 rows 60; haft {command}");
        let Some(screen) = Terminal::like(&dir.command()).run(&line, |_| None) else { return };
        let wide = screen.raw.replace('\r', "").replace(&dir.0.display().to_string(), "[dir]");
        assert_eq!(squeeze(&wide).len(), squeeze(&piped.out).len(), "{command}: {wide}");
        let line = format!("stty cols 40 rows 60; haft {command}");
        let narrow = Terminal::like(&dir.command()).run(&line, |_| None).unwrap();
        let mut words: Vec<char> = squeeze(&narrow.raw).chars().collect();
        let mut expected: Vec<char> = squeeze(&wide).chars().collect();
        words.sort_unstable();
        expected.sort_unstable();
        assert_eq!(words, expected, "{command}: {}", narrow.page());
    }
}

#[test]
fn columns_variable_sets_the_width_of_a_terminal_and_never_of_a_pipe() {
    let dir = fixture("wrapping-variable");
    let line = "stty cols 120 rows 60; COLUMNS=40 haft tools list";
    let Some(screen) = Terminal::like(&dir.command()).run(line, |_| None) else { return };
    let page = screen.page();
    assert!(page.lines().all(|line| columns(line) <= 40), "{page}");
    let plain = dir.run(["tools", "list"]);
    let mut named = dir.command();
    let named =
        crate::Ran::of(named.env("COLUMNS", "40").args(["tools", "list"]).output().unwrap());
    assert_eq!(named.out, plain.out);
    assert_eq!(plain.out.lines().count(), 12, "one line for each tool");
    for odd in ["0", "-3", "x", ""] {
        let line = format!("stty cols 80 rows 60; COLUMNS='{odd}' haft exit-codes");
        let screen = Terminal::like(&dir.command()).run(&line, |_| None).unwrap();
        assert_eq!(screen.code, Some(0), "{odd}");
    }
}

#[test]
fn help_in_a_pipe_is_at_most_100_columns_wide() {
    for command in ["--help", "call --help", "dispatch --help", "tools export --help"] {
        let help = crate::haft(command).out;
        let is_example = |line: &&str| line.starts_with("  ");
        for line in help.lines().filter(|line| !is_example(line)) {
            assert!(columns(line) <= 100, "{command}: {line}");
        }
    }
}
