//! `--json` in every command, when it succeeds and in each way it can fail: stdout is JSON and
//! nothing else, and the exit code is the documented one.

use serde_json::{Value, json};

use crate::{Ran, TempDir, command, lines};

/// What stdout must hold.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Data {
    /// One line: the data of the command.
    One,
    /// One object per line: the command reads lines or prints one per tool.
    Lines,
    /// One line: `{"error": {"message", "hints"}}`.
    Error,
    /// One line: a failed call, with the code of its failure.
    Failure(&'static str),
}
use Data::{Error, Failure, Lines, One};

/// Each command with arguments (without `--json`), the exit code, and what stdout must hold.
const CASES: &[(&str, i32, Data)] = &[
    // Agents.
    ("demo", 0, Lines),
    ("demo extra", 1, Error),
    ("run --model script:agent.jsonl", 0, Lines),
    ("run x --model script:writes.jsonl", 6, Lines),
    ("run x --model script:fails.jsonl", 5, Lines),
    ("run x", 1, Error),
    ("run x --model script:half.json", 1, Error),
    ("run x --model script:nowhere", 1, Error),
    ("run x --model nosuch", 1, Error),
    ("run x --model script:agent.jsonl --resume r1", 1, Error),
    ("run --model script:agent.jsonl --resume nosuch", 1, Error),
    ("run --model script:agent.jsonl --approve a", 1, Error),
    ("run --model script:agent.jsonl --max-cost x", 1, Error),
    ("run --model script:agent.jsonl --record nowhere/x", 1, Error),
    ("chat --model script:nowhere", 1, Error),
    ("chat", 1, Error),
    ("runs list", 0, One),
    ("runs list --workspace nowhere", 1, Error),
    ("runs show r1", 0, One),
    ("runs show nosuch", 1, Error),
    ("runs show broken", 1, Error),
    ("runs", 1, Error),
    // Tools.
    ("tools list", 0, One),
    ("tools list --workspace nowhere", 1, Error),
    ("tools list --config broken.toml", 1, Error),
    ("tools show shell", 0, One),
    ("tools show", 1, Error),
    ("tools show nosuch", 1, Error),
    ("tools export --dialect anthropic", 0, Lines),
    ("tools export --dialect anthropic --request --choice any", 0, One),
    ("tools export --dialect anthropic --request --choice nosuch", 1, Error),
    ("tools export --dialect anthropic --tools half.json", 0, Lines),
    ("tools export --dialect anthropic --tools nowhere", 1, Error),
    ("tools export --dialect anthropic --tools .", 1, Error),
    ("tools export --dialect nosuch", 1, Error),
    ("tools export", 1, Error),
    ("tools check --tools tools.jsonl --calls calls.jsonl", 0, Lines),
    ("tools check --tools half.json --calls calls.jsonl", 0, Lines),
    ("tools check --tools tools.jsonl --calls half.json", 0, Lines),
    ("tools check --tools tools.jsonl --calls nowhere", 1, Error),
    ("tools check --tools tools.jsonl", 1, Error),
    ("tools lint", 0, One),
    ("tools lint --tools tools.jsonl", 0, One),
    ("tools lint --tools tools.jsonl --deny", 1, One),
    ("tools lint --tools half.json", 0, One),
    ("tools lint --tools nowhere", 1, Error),
    ("tools", 1, Error),
    ("tools nosuch", 1, Error),
    // One call.
    ("call read_file file_path=a.txt", 0, One),
    ("call read_file file_path=a.txt --trace", 0, One),
    ("call nosuch", 1, Failure("unknown_tool")),
    ("call read_file", 1, Failure("bad_arguments")),
    ("call read_file --args-json []", 1, Failure("unparseable_arguments")),
    ("call read_file file_path=nowhere", 1, Failure("invalid_value")),
    ("call read_file file_path=/etc/passwd", 2, Failure("outside_workspace")),
    ("call write_file file_path=b.txt content=x", 2, Failure("denied")),
    ("call read_file file_path=a.txt --config deny.toml", 2, Failure("not_offered")),
    ("call", 1, Error),
    ("call read_file nosuch=1", 1, Error),
    ("call read_file file_path", 1, Error),
    ("call read_file file_path=@nowhere", 1, Error),
    ("call read_file file_path:={", 1, Error),
    ("call read_file --args-json {", 1, Error),
    ("call read_file --args-json @nowhere", 1, Error),
    ("call read_file --args-json @bytes", 1, Error),
    ("call read_file file_path=a.txt --workspace nowhere", 1, Error),
    ("call read_file file_path=a.txt --config broken.toml", 1, Error),
    ("call read_file file_path=a.txt --config unknown-key.toml", 1, Error),
    ("call read_file file_path=a.txt --config nowhere", 1, Error),
    ("call read_file file_path=a.txt --decisions nowhere/d.jsonl", 1, Error),
    ("call read_file file_path=a.txt --artifacts a.txt", 1, Error),
    // Responses.
    ("plan response.json", 0, One),
    ("plan truncated.json", 0, One),
    ("plan nowhere", 1, Error),
    ("plan .", 1, Error),
    ("plan bytes", 1, Error),
    ("plan half.json", 1, Error),
    ("plan other.json", 1, Error),
    ("plan response.json --dialect gemini", 1, Error),
    ("plan response.json --dialect nosuch", 1, Error),
    ("dispatch response.json", 0, One),
    ("dispatch response.json --echo", 0, One),
    ("dispatch truncated.json", 0, One),
    ("dispatch nowhere", 1, Error),
    ("dispatch .", 1, Error),
    ("dispatch bytes", 1, Error),
    ("dispatch half.json", 1, Error),
    ("dispatch other.json", 1, Error),
    ("dispatch response.json --dialect gemini", 1, Error),
    ("dispatch response.json --stream", 1, Error),
    ("dispatch response.json --stream --dialect anthropic", 1, Error),
    ("dispatch response.json --workspace nowhere", 1, Error),
    // The audit file.
    ("audit tail --file agent.jsonl", 0, Lines),
    ("audit tail --file nowhere", 1, Error),
    ("audit tail", 1, Error),
    // Stored results.
    ("result list", 0, One),
    ("result list --artifacts nowhere", 0, One),
    ("result", 1, Error),
    ("result nosuch", 1, Error),
    ("result 00000000000000000000000000", 1, Error),
    ("result 00000000000000000000000000 --range x", 1, Error),
    ("result 00000000000000000000000000 --context 2", 1, Error),
    // Rules.
    ("explain shell command=ls", 0, One),
    ("explain read_file file_path=/etc/passwd", 0, One),
    ("explain shell", 0, One),
    ("explain", 1, Error),
    ("explain nosuch", 1, Error),
    ("explain shell command", 1, Error),
    ("explain shell command=ls --config broken.toml", 1, Error),
    ("policy check", 0, One),
    ("policy check --config shadowed.toml", 0, One),
    ("policy check --config shadowed.toml --deny", 1, One),
    ("policy check --config broken.toml", 1, Error),
    ("policy check --config unknown-key.toml", 1, Error),
    ("policy check --config bytes", 1, Error),
    ("policy check --config nowhere", 1, Error),
    ("policy test", 0, One),
    ("policy test --config failing-example.toml", 1, One),
    ("policy test --config broken.toml", 1, Error),
    ("policy suggest --from empty.jsonl", 0, One),
    ("policy suggest --from half.json", 1, Error),
    ("policy suggest --from other.json", 1, Error),
    ("policy suggest --from nowhere", 1, Error),
    ("policy suggest", 1, Error),
    ("policy", 1, Error),
    // Trust: the order matters.
    ("trust --list", 0, One),
    ("trust", 1, Error),
    ("trust nowhere", 1, Error),
    ("trust --list --revoke", 1, Error),
    ("trust --yes", 0, One),
    ("trust --revoke", 0, One),
    // Hooks.
    ("hooks list", 0, One),
    ("hooks list --config broken.toml", 1, Error),
    ("hooks test PreToolUse --tool Bash", 0, One),
    ("hooks test PreToolUse --tool Bash --config blocking-hook.toml", 2, One),
    ("hooks test Nosuch", 1, Error),
    ("hooks test PreToolUse --config broken.toml", 1, Error),
    ("hooks test", 1, Error),
    ("hooks", 1, Error),
    // MCP servers.
    ("install cursor --file clients.json --dry-run", 0, One),
    ("install cursor --file clients.json", 0, One),
    ("install cursor --file clients.json --undo", 0, One),
    ("install cursor --file clients.json --undo", 1, Error),
    ("install cursor --file half.json", 1, Error),
    ("install cursor --file nowhere.json", 1, Error),
    ("install nosuch", 1, Error),
    ("mcp list", 0, One),
    ("mcp list --config mcp.toml --no-start", 0, One),
    ("mcp list --config broken.toml", 1, Error),
    ("mcp get notes --config mcp.toml", 0, One),
    ("mcp get nosuch --config mcp.toml", 1, Error),
    ("mcp get missing --config mcp.toml", 4, One),
    ("mcp pin notes --config mcp.toml", 0, One),
    ("mcp pin missing --config mcp.toml", 1, Error),
    ("mcp pin notes nosuch --config mcp.toml", 1, Error),
    ("mcp diff notes --config mcp.toml", 0, One),
    ("mcp diff nosuch --config mcp.toml", 1, Error),
    ("mcp diff missing --config mcp.toml", 1, Error),
    ("mcp login hub --out --config mcp.toml", 0, One),
    ("mcp login notes --config mcp.toml", 1, Error),
    ("mcp login nosuch --config mcp.toml", 1, Error),
    ("mcp add hub --url http://127.0.0.1:1/ --to added.toml", 0, One),
    ("mcp add hub --url http://127.0.0.1:1/ --to added.toml", 1, Error),
    ("mcp add a__b --url http://127.0.0.1:1/ --to added.toml", 1, Error),
    ("mcp add x", 1, Error),
    ("mcp remove hub --from added.toml", 0, One),
    ("mcp remove hub --from added.toml", 1, Error),
    ("mcp remove hub --from half.json", 1, Error),
    ("mcp", 1, Error),
    // The rest.
    ("shell explain ls", 0, One),
    ("shell explain ls pwd", 0, Lines),
    ("shell explain ((", 0, One),
    ("shell explain -x", 1, Error),
    ("shell", 1, Error),
    ("doctor --nosuch", 1, Error),
    ("exit-codes", 0, One),
    ("exit-codes nosuch", 1, Error),
    ("completions bash", 1, Error),
    ("nosuch", 1, Error),
    ("", 1, Error),
];

const FILES: &[(&str, &str)] = &[
    ("a.txt", "hello\n"),
    ("agent.jsonl", "{\"script\": 1, \"task\": \"Say hello.\"}\n{\"text\": \"Hello.\"}\n"),
    (
        "writes.jsonl",
        "{\"calls\": [{\"name\": \"write_file\", \"arguments\": {\"file_path\": \"b\", \
         \"content\": \"b\"}}]}\n{\"text\": \"Done.\"}\n",
    ),
    ("fails.jsonl", "{\"text\": \"Hello.\", \"fault\": \"cut\"}\n"),
    (
        ".haft/runs/r1.json",
        "{\"version\": 1, \"run\": \"r1\", \"agent\": \"haft\", \"model\": \"script\", \
         \"state\": \"completed\", \"text\": \"Hello.\", \"tools\": \"\", \
         \"history\": {\"messages\": []}, \"usage\": {}}",
    ),
    (".haft/runs/broken.json", "{\"version\": 1,"),
    ("half.json", "{\"x\":"),
    ("clients.json", "{\"mcpServers\": {\"notes\": {\"command\": \"notes-server\"}}}"),
    ("other.json", "{\"a\": 1}\n"),
    ("empty.jsonl", ""),
    (
        "tools.jsonl",
        "{\"name\": \"t\", \"description\": \"d\", \"input_schema\": {\"type\": \"object\", \
         \"properties\": {\"a\": {\"type\": \"integer\"}}}}\n",
    ),
    (
        "calls.jsonl",
        "{\"schema_ref\": \"t\", \"arguments\": {\"a\": 1}}\n\
         {\"schema_ref\": \"t\", \"arguments\": {\"a\": \"x\"}}\n\
         {\"schema_ref\": \"u\", \"arguments\": {}}\n",
    ),
    ("broken.toml", "rule = [\n"),
    ("unknown-key.toml", "[rules]\n"),
    ("deny.toml", "[[rule]]\nmatch = \"read_file\"\ndecision = \"deny\"\n"),
    (
        "shadowed.toml",
        "[[rule]]\nmatch = \"Bash(ls *)\"\ndecision = \"deny\"\n\
         [[rule]]\nmatch = \"Bash(ls -l *)\"\ndecision = \"allow\"\n",
    ),
    (
        "failing-example.toml",
        "[[rule]]\nmatch = \"Bash(ls *)\"\ndecision = \"allow\"\ntest.allow = [\"Bash(rm x)\"]\n",
    ),
    ("blocking-hook.toml", "[[hooks.PreToolUse]]\nmatcher = \"*\"\ncommand = \"exit 2\"\n"),
];

fn response(stop_reason: &str) -> String {
    let input = json!({"file_path": "a.txt"});
    let call = json!({"type": "tool_use", "id": "a", "name": "read_file", "input": input});
    json!({"role": "assistant", "content": [call], "stop_reason": stop_reason}).to_string()
}

/// Checks exit code and stdout of one run.
fn check(line: &str, ran: &Ran, code: i32, data: Data) {
    assert_eq!(ran.code, Some(code), "haft {line}: {ran:?}");
    if data == Lines {
        let lines = lines(&ran.out);
        assert!(!lines.is_empty() && lines.iter().all(Value::is_object), "haft {line}: {ran:?}");
        return;
    }
    let json = ran.json();
    match data {
        Error => {
            let error = &json["error"];
            let message = error["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty() && error["hints"].is_array(), "haft {line}: {ran:?}");
            assert_eq!(ran.err, "", "haft {line}: the error is data, so stderr is empty");
        }
        Failure(code) => assert_eq!(json["failure"]["code"], code, "haft {line}: {ran:?}"),
        _ => assert!(json.get("error").is_none(), "haft {line}: {ran:?}"),
    }
}

#[test]
fn every_command_prints_json_and_the_right_exit_code() {
    let dir = TempDir::new("json-output", FILES);
    dir.put("server.sh", &crate::mcp::server("Returns the note of a day."));
    dir.put(
        "mcp.toml",
        "[mcp.servers.notes]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n\
         [mcp.servers.missing]\ncommand = \"/nonexistent/server\"\n\
         [mcp.servers.hub]\nurl = \"http://127.0.0.1:1/\"\n",
    );
    dir.put("response.json", &response("tool_use"));
    dir.put("truncated.json", &response("max_tokens"));
    #[expect(clippy::disallowed_methods, reason = "the test makes the files it works with")]
    std::fs::write(dir.work().join("bytes"), [b'a', 0xff]).unwrap();
    for (line, code, data) in CASES {
        let ran = dir.run(line.split_whitespace().chain(["--json"]));
        check(line, &ran, *code, *data);
    }
    // The plan of a truncated response says that nothing would run.
    let plan = dir.run(["plan", "truncated.json", "--json"]).json();
    assert!(plan[0]["refused"].as_str().is_some_and(|why| why.contains("truncated")), "{plan}");
    // A result that is stored, and each way to read it.
    let call = dir.run(["call", "shell", "command=seq 90000", "--artifacts", "kept", "--json"]);
    assert_eq!(call.code, Some(0), "{call:?}");
    let list = dir.run(["result", "list", "--artifacts", "kept", "--json"]).json();
    let id = list[0]["id"].as_str().unwrap();
    for (option, code, data) in [
        ("", 0, One),
        ("--range 1:2", 0, One),
        ("--range 99999999", 0, One),
        ("--range x", 1, Error),
        ("--grep 89999", 0, One),
        ("--grep nosuch", 0, One),
        ("--grep (", 1, Error),
        ("--pointer /a", 1, Error),
    ] {
        let line = format!("result {id} --artifacts kept {option} --json");
        check(&line, &dir.run(line.split_whitespace()), code, data);
    }
}

#[test]
fn timed_out_call_is_json_with_exit_code_7() {
    let dir = TempDir::new("json-timeout", &[]);
    let ran = dir.run(["call", "shell", "command=sleep 60", "timeout_ms=100", "--json"]);
    check("call shell", &ran, 7, Failure("timed_out"));
}

#[test]
fn invalid_environment_variable_is_a_json_error_in_every_command() {
    for line in ["demo", "tools list", "call list_files", "plan x", "dispatch x", "result list"]
        .into_iter()
        .chain(["explain shell", "policy check", "trust --list", "hooks list", "doctor"])
    {
        let words = line.split_whitespace().chain(["--json"]);
        let output = command().args(words).env("HAFT_MAX_CONCURRENCY", "many").output().unwrap();
        check(line, &Ran::of(output), 1, Error);
    }
}

/// Returns the names of the subcommands that a help text lists.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| line.starts_with("  "));
    let names = names.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next().map(ToOwned::to_owned)).collect()
}

/// Every command that has `--json` occurs in the table, with a success and with an error.
#[test]
fn table_covers_every_command() {
    let mut open = vec![Vec::new()];
    let mut leaves = Vec::new();
    while let Some(words) = open.pop() {
        let help = crate::haft_words(words.iter().chain([&"--help".to_owned()])).out;
        let below = subcommands(&help);
        if below.is_empty() && help.contains("--json") {
            leaves.push(words.join(" "));
        }
        open.extend(below.into_iter().filter(|name| name != "help").map(|name| {
            let mut words: Vec<String> = words.clone();
            words.push(name);
            words
        }));
    }
    assert!(leaves.len() >= 18, "{leaves:?}");
    for leaf in leaves {
        let is_of = |line: &&str| **line == leaf || line.starts_with(&format!("{leaf} "));
        let mut codes = CASES.iter().filter(|(line, ..)| is_of(line)).map(|(_, code, _)| *code);
        let has_error = codes.clone().any(|code| code == 1);
        // `doctor` depends on the machine: its success is tested where the sandbox is.
        // `chat` needs lines on stdin: its success is tested with the runs of agents.
        let is_elsewhere = ["doctor", "chat"].contains(&leaf.as_str());
        let has_success = codes.any(|code| code == 0) || is_elsewhere;
        assert!(has_error && has_success, "`haft {leaf} --json` needs a success and an error");
    }
}
