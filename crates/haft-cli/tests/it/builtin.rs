//! The built-in tools, tools that files declare, and `haft doctor`.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use crate::{
    Ran, TempDir, haft,
    host_git::{commit_all, host_git},
};

const TOOLS: &str = r#"
[tool.count_lines]
description = "Counts the lines of a file. It reads nothing else."
command = ["wc", "-l", "--", "{file}"]
read_only = true
capabilities = ["filesystem"]
trust = "workspace"

[tool.count_lines.parameters.file]
description = "Which file."
about = "read_path"
"#;

const FILES: &[(&str, &str)] = &[("haft.toml", TOOLS), ("notes.txt", "one\ntwo\n")];

fn response(tool: &str, arguments: Value) -> String {
    json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": tool, "input": arguments},
    ]})
    .to_string()
}

#[test]
fn declared_tool_is_known_to_every_command() {
    let call = response("count_lines", json!({"file": "notes.txt"}));
    let mut files = FILES.to_vec();
    files.push(("response.json", &call));
    let dir = TempDir::trusted("tools-declared", &files);
    let list = dir.run(["tools", "list"]);
    assert!(list.out.contains("count_lines") && list.out.contains("Counts the lines"), "{list:?}");
    let show = dir.run(["tools", "show", "count_lines", "--json"]).json();
    assert_eq!(show["isolation"], "required");
    let ran = dir.run(["call", "count_lines", "file=notes.txt"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "2 notes.txt\n"), "{ran:?}");
    let plan = dir.run(["plan", "response.json", "--json"]).json();
    assert_eq!(plan[0]["class"], "read_only");
    let answer = dir.run(["dispatch", "response.json", "--dialect", "anthropic"]);
    assert!(answer.out.contains("2 notes.txt"), "{answer:?}");
    let why = dir.run(["explain", "count_lines", "file=/etc/passwd", "--json"]).json();
    assert_eq!(why["verdict"]["decision"], "ask", "{why}");
    let missing = dir.run(["call", "count_lines", "file=nothing.txt"]);
    assert_eq!(missing.code, Some(5), "{missing:?}");
    assert!(missing.err.contains("exit code 1"), "{missing:?}");
}

#[test]
fn search_does_not_find_files_that_a_rule_denies() {
    let rule = "[[rule]]\nmatch = \"Read(./secrets/**)\"\ndecision = \"deny\"\n";
    let files = &[("haft.toml", rule), ("open.txt", "key = 1\n"), ("secrets/k.txt", "key = 2\n")];
    let dir = TempDir::trusted("tools-kept", files);
    let search = dir.run(["call", "search_files", "pattern=key", "--workspace", ".", "--yes"]);
    assert_eq!(search.code, Some(0), "{search:?}");
    assert!(search.out.contains("key = 1") && !search.out.contains("key = 2"), "{search:?}");
    assert!(!search.out.contains("k.txt") && search.out.contains("could not be"), "{search:?}");
    let read = dir.run(["call", "read_file", "file_path=secrets/k.txt", "--workspace", "."]);
    assert_eq!(read.code, Some(2), "{read:?}");
}

#[test]
fn explain_says_how_many_files_would_be_masked() {
    let rule =
        "[[rule]]\nmatch = [\"Read(./secrets/**)\", \"Edit(*.lock)\"]\ndecision = \"deny\"\n";
    let files = &[("haft.toml", rule), ("secrets/k.txt", "key\n"), ("a/b.lock", "1\n")];
    let dir = TempDir::trusted("tools-masked", files);
    let why = ["explain", "shell", "command=make", "--workspace", ".", "--json"];
    let json = dir.run(why).json();
    let checks = json["checks"].as_array().unwrap();
    let masked = checks.iter().find(|check| check["check"] == "denied paths").unwrap();
    assert_eq!(masked["why"], "2 files would be masked: 1 cannot be read, 1 cannot be changed");
}

#[test]
fn every_tools_command_knows_the_same_tools() {
    let mut files = FILES.to_vec();
    let calls = r#"{"tool": "count_lines", "arguments": {"file": "a"}}
{"tool": "read_file", "arguments": {"file_path": 1}}
"#;
    let tool = r#"{"name": "lonely", "input_schema": {"type": "object"}}"#;
    files.extend([("calls.jsonl", calls), ("tools.jsonl", tool)]);
    let dir = TempDir::trusted("tools-looked-at", &files);
    let here = ["--workspace", "."];
    let export = ["tools", "export", "--dialect", "anthropic"];
    let all = dir.run(export);
    for name in ["count_lines", "read_file", "shell", "fetch_url", "ask_user"] {
        assert!(all.out.contains(&format!("\"{name}\"")), "{name} {all:?}");
    }
    let check = ["tools", "check", "--calls", "calls.jsonl", "--json"];
    let checked = dir.run(check.into_iter().chain(here));
    let lines: Vec<Value> =
        checked.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["valid"], &lines[1]["valid"]), (&json!(true), &json!(false)));
    assert_eq!(lines[1]["problems"][0]["pointer"], "/file_path", "{checked:?}");
    let lint = dir.run(["tools", "lint", "--workspace", ".", "--json"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");
    assert!(lint.out.contains("count_lines"), "{lint:?}");
    // A tool file does not depend on the directory.
    let listed = dir.run(export.into_iter().chain(["--tools", "tools.jsonl"]));
    assert!(listed.out.contains("lonely") && !listed.out.contains("count_lines"), "{listed:?}");
    let both = dir.run(export.into_iter().chain(["--tools", "tools.jsonl"]).chain(here));
    assert_eq!(both.code, Some(1), "{both:?}");
}

#[test]
fn ask_user_fails_at_once_without_a_terminal() {
    let dir = TempDir::new("tools-ask", &[]);
    let ask = ["call", "ask_user", "question=Which one?", "--workspace", "."];
    let needs = ["needs user interaction, and no approver", "needs a person at a terminal"];
    for (more, needs) in [&[][..], &["--yes"]].into_iter().zip(needs) {
        let ran = dir.run(ask.into_iter().chain(more.iter().copied()));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let wanted = format!("needs_interaction: `ask_user` {needs}");
        assert!(ran.err.contains(&wanted), "{ran:?}");
        assert!(ran.err.contains("hint: run the command at a terminal"), "{ran:?}");
    }
}

#[test]
fn read_only_command_runs_sandboxed_without_approval() {
    let dir = TempDir::new("tools-unasked", &[("notes.txt", "one\ntwo\n")]);
    let call = |command: &str| {
        dir.run(["call", "shell", &format!("command={command}"), "--workspace", ".", "--json"])
    };
    let ran = call("wc -l notes.txt").json();
    assert_eq!(ran["output"]["blocks"][0]["text"], "2 notes.txt\n", "{ran}");
    assert!(ran["tier"]["level"].is_string(), "{ran}");
    for asks in ["cat ~/.ssh/id_rsa", "cat ../x", "cat $HOME/x"] {
        let ran = call(asks);
        assert_eq!(ran.code, Some(2), "{asks} {ran:?}");
    }
    // The environment of a sandboxed command holds no secret.
    let mut env = dir.command();
    env.args(["call", "shell", "command=env", "--workspace", ".", "--json"]);
    let env = Ran::of(env.env("API_TOKEN", "s3cret").output().unwrap());
    assert!(env.out.contains("PATH=") && !env.out.contains("s3cret"), "{env:?}");
    assert_eq!(env.json()["output"]["structured"]["confined"], true, "{env:?}");
    let mut asks = dir.command();
    asks.args(["call", "shell", "command=env", "--workspace", ".", "--json"]);
    dir.put("haft.toml", "[sandbox]\nconfine_unasked = false\n");
    assert_eq!(Ran::of(asks.output().unwrap()).code, Some(2), "without confinement it asks");
    let why = ["explain", "shell", "command=cat notes.txt", "--workspace", ".", "--json"];
    let why = dir.run(why).json();
    assert_eq!(why["verdict"]["decision"], "allow", "{why}");
    let slow = json!({"argv": ["sleep", "30"], "timeout_ms": 200}).to_string();
    let slow =
        dir.run(["call", "shell", "--args-json", &slow, "--workspace", ".", "--json"]).json();
    assert_eq!(slow["failure"]["code"], "timed_out", "{slow}");
    assert!(slow["tier"]["level"].is_string(), "{slow}");
}

#[test]
fn untrusted_directory_declares_no_tools() {
    let dir = TempDir::new("tools-untrusted", FILES);
    let list = dir.run(["tools", "list"]);
    assert!(!list.out.contains("count_lines"), "{list:?}");
    assert!(list.err.contains("1 declared tool of this directory does not apply"), "{list:?}");
    assert_eq!(dir.run(["call", "count_lines", "file=notes.txt"]).code, Some(1));
    let hint = "hint: this directory declares `count_lines`, but is not trusted";
    for named in [&["call", "count_lines"][..], &["tools", "show", "count_lines"]] {
        let ran = dir.run(named.iter().copied());
        assert!(ran.code == Some(1) && ran.err.contains(hint), "{ran:?}");
        assert!(!ran.err.contains("did you mean"), "{ran:?}");
    }
    let trust = dir.run(["trust"]);
    assert!(trust.out.contains("adds a tool   count_lines: wc -l -- {file}"), "{trust:?}");
}

#[test]
fn mistake_in_a_declared_tool_is_reported_with_its_location() {
    let slip =
        "[tool.t]\ndescription = \"x\"\ncommand = [\"sh\", \"-c\", \"{a}\"]\nparameters.a = {}\n";
    let dir = TempDir::trusted("tools-good", &[]);
    #[expect(clippy::disallowed_methods, reason = "the test makes the file it points at")]
    std::fs::write(dir.work().join("haft.toml"), slip).unwrap();
    let ran = dir.run(["tools", "list"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("haft.toml:3:24: `sh` would execute `{a}`"), "{ran:?}");
}

#[test]
fn ask_is_denied_without_a_terminal_and_yes_approves_it() {
    let dir = TempDir::new("tools-shell", &[("notes.txt", "one\n")]);
    let write = ["call", "shell", "command=echo two > made.txt", "--workspace", "."];
    let ran = dir.run(write);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(!dir.work().join("made.txt").exists());
    let ran = dir.run(write.into_iter().chain(["--yes"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(dir.work().join("made.txt").exists());
    let json = dir
        .run([
            "call",
            "shell",
            "--args-json",
            r#"{"argv": ["cat", "notes.txt"]}"#,
            "--workspace",
            ".",
            "--yes",
            "--json",
        ])
        .json();
    assert_eq!(json["output"]["blocks"][0]["text"], "one\n");
    assert!(json["output"]["structured"]["tier"]["level"].is_string(), "{json}");
    let ran = dir.run(["call", "shell", "command=ls", "--workspace", "nowhere"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("`--workspace nowhere`: there is no such directory"), "{ran:?}");
}

#[test]
fn a_path_outside_is_exit_2_and_nothing_is_touched() {
    let dir = TempDir::new("tools-outside", &[("in/x", "")]);
    let ran = dir.run([
        "call",
        "shell",
        "command=echo x > y",
        "cwd=..",
        "--workspace",
        "in",
        "--yes",
        "--json",
    ]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.json()["failure"]["code"], "outside_workspace");
    assert!(!dir.work().join("y").exists());
}

#[test]
fn workspace_rules_apply_to_both_forms_of_a_command() {
    let rules = "[[rule]]\nmatch = \"Bash(rm *)\"\ndecision = \"deny\"\n";
    let dir = TempDir::new("tools-rules", &[("haft.toml", rules), ("x", "")]);
    for arguments in [r#"{"argv": ["rm", "x"]}"#, r#"{"command": "ls; rm x"}"#] {
        let ran = dir.run(["call", "shell", "--args-json", arguments, "--workspace", ".", "--yes"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    assert!(dir.work().join("x").exists());
}

#[test]
fn doctor_reports_the_tier_and_that_forbidden_actions_are_refused() {
    let ran = haft("doctor --json");
    let whole = ran.json();
    assert_eq!((ran.code, &whole["ok"]), (Some(0), &Value::Bool(true)), "{whole}");
    assert!(["namespaces", "landlock"].contains(&whole["tier"]["level"].as_str().unwrap()));
    let findings = whole["findings"].as_array().unwrap();
    assert!(findings.len() > 40, "{}", findings.len());
    assert!(findings.iter().all(|finding| finding["ok"] == true));
    let page = haft("doctor");
    assert!(page.out.contains("passed, 0 failed"), "{page:?}");
}

#[test]
fn doctor_reports_what_forbids_namespaces_and_the_fix() {
    use std::os::unix::{fs::MetadataExt as _, process::CommandExt as _};
    // Another user must be able to start the program, wherever the build directory is.
    let dir = std::env::temp_dir().join(format!("haft-doctor-test-{}", std::process::id()));
    let (program, own) = (dir.join("haft"), dir.join("tmp"));
    std::fs::create_dir_all(&own).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_haft"), &program).unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        for path in [&dir, &own] {
            std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
        }
    }
    // The limit is that of the new user namespace. The machine keeps its own.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 9; exec \"$0\" doctor $1";
    for flag in ["--json", ""] {
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script])
            .arg(&program)
            .arg(flag)
            .current_dir(&own)
            .env("TMPDIR", &own)
            .env("HOME", &own);
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        let Ok(output) = command.output() else {
            eprintln!("NOT TESTED: there is no `unshare` here");
            return;
        };
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        if output.status.code() == Some(9) || err.contains("unshare failed") {
            eprintln!("NOT TESTED: no user namespace with a limit of its own can be made: {err}");
            return;
        }
        assert!(out.contains("sysctl -w user.max_user_namespaces="), "{out}{err}");
        if flag == "--json" {
            let whole: Value = serde_json::from_str(&out).unwrap();
            assert_eq!(whole["tier"]["level"], "landlock");
            assert_eq!(whole["obstacles"][0]["cause"], "namespace_limit");
        } else {
            assert!(
                out.contains("namespace_limit: the sysctl `user.max_user_namespaces` is 0"),
                "{out}"
            );
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn current_directory_is_the_workspace_of_every_command() {
    let call = response("read_file", json!({"file_path": "notes/garden.txt"}));
    let dir = TempDir::new("tools-here", &[("response.json", &call)]);
    for line in [
        &["call", "read_file", "file_path=notes/garden.txt"][..],
        &["tools", "show", "read_file"],
        &["tools", "list"],
        &["explain", "read_file", "file_path=notes/garden.txt"],
        &["plan", "response.json"],
    ] {
        let ran = dir.run(line.iter().copied());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
        let named = dir.run(line.iter().copied().chain(["--workspace", "."]));
        assert_eq!(named.out, ran.out, "{line:?}");
    }
    let ran = dir.run(["dispatch", "response.json", "--dialect", "anthropic"]);
    assert!(ran.out.contains("Water the beans"), "{ran:?}");
    let outside = dir.run(["call", "read_file", "file_path=../home/x"]);
    assert_eq!(outside.code, Some(2), "{outside:?}");
}

#[test]
fn hint_about_a_builtin_tool_works_when_copied() {
    let dir = TempDir::new("tools-hint", &[]);
    let ran = dir.run(["call", "read_file", "path=x", "--workspace", "."]);
    assert!(ran.err.contains("hint: did you mean `file_path`?"), "{ran:?}");
    let hint = "hint: `haft tools show read_file` lists the arguments";
    assert!(ran.err.contains(hint), "{ran:?}");
    let shown = dir.run(["tools", "show", "read_file"]);
    assert!(shown.code == Some(0) && shown.out.contains("file_path"), "{shown:?}");
}

#[test]
fn yes_is_not_suggested_when_it_was_given() {
    let dir = TempDir::new("tools-yes", &[]);
    let write = ["call", "write_file", "file_path=.envrc", "content=x", "--workspace", "."];
    let ran = dir.run(write.into_iter().chain(["--yes"]));
    assert!(ran.code == Some(2) && ran.err.contains("`.envrc` is protected"), "{ran:?}");
    assert!(!ran.err.contains("--yes"), "{ran:?}");
    assert!(ran.err.contains("an approval in advance does not cover"), "{ran:?}");
    assert!(ran.err.contains("with the rule `Edit(.envrc)`"), "{ran:?}");
    assert!(!ran.err.contains("a person denied"), "no person was asked: {ran:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn denied_git_command_names_all_rules_that_it_needs() {
    let dir = TempDir::new("tools-git-rules", &[]);
    if commit_all(&dir.work()).is_none() {
        return;
    }
    for command in ["git worktree add wt -b other", "git rebase --force-rebase HEAD"] {
        let call = ["call", "shell", &format!("command={command}"), "--workspace", ".", "--yes"];
        let ran = dir.run(call);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let message = ran.err.lines().next().unwrap();
        let named = message.split('`').filter(|part| part.starts_with("Edit("));
        let rule = |name: &str| format!("[[rule]]\nmatch = \"{name}\"\ndecision = \"allow\"\n");
        let rules: Vec<String> = named.map(rule).collect();
        assert!(rules.len() > 1, "{message}");
        assert!(message.ends_with("and the command with a rule for `Bash`"), "{message}");
        dir.put("haft.toml", &(rules.concat() + &rule("Bash(git *)")));
        assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
        let ran = dir.run(call);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.out.contains("fatal"), "{ran:?}");
    }
    assert!(dir.work().join("wt/.git").is_file());
}

#[test]
fn missing_program_is_reported_in_one_sentence() {
    let dir = TempDir::new("tools-no-program", &[]);
    let ran = dir.run(["call", "shell", "command=nosuchprogram", "--workspace", ".", "--yes"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let message = "error: invalid_value: the program `nosuchprogram` is not installed, or the sandbox \
                does not show it\n";
    assert_eq!(ran.err, message);
}

#[test]
fn large_output_is_stored_once_and_keeps_its_exit_code() {
    let dir = TempDir::new("tools-large", &[]);
    let call = ["call", "shell", "command=seq 1 100000", "--workspace", ".", "--yes", "--json"];
    let ran = dir.run(call.into_iter().chain(["--artifacts", "kept"]));
    assert_eq!(ran.err.matches("was truncated").count(), 1, "{}", ran.err);
    assert_eq!(ran.json()["output"]["structured"]["exit"]["code"], 0);
}

#[test]
fn few_open_files_give_an_error_that_names_the_limit_and_no_panic() {
    let dir = TempDir::trusted("tools-few-files", FILES);
    for files in [7, 10, 16, 32, 64] {
        let script =
            format!("ulimit -n {files}; exec \"$0\" call shell command=pwd --workspace . --yes");
        let output = std::process::Command::new("bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_haft")])
            .current_dir(dir.work())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("panicked"), "{files}: {text}");
        assert!(output.status.success() || text.contains("`ulimit -n`"), "{files}: {text}");
    }
}

/// Creates a repository, if git is installed.
fn repository(dir: &TempDir) -> Option<()> {
    host_git(&dir.work(), &["init", "-q"]).map(drop)
}

#[test]
fn git_command_changes_its_configuration_only_where_a_rule_names_it() {
    let allow = |text: &str| format!("[[rule]]\nmatch = \"{text}\"\ndecision = \"allow\"\n");
    let remote = "command=git remote add origin https://host.example/a.git";
    let call = ["call", "shell", remote, "--workspace", "."];

    let broad = allow("Bash(git *)");
    let dir = TempDir::trusted("tools-git-broad", &[("haft.toml", &broad)]);
    if repository(&dir).is_none() {
        return;
    }
    let changes =
        "it changes the protected file `.git/config`: git runs the programs that it names";
    for more in [&[][..], &["--yes"]] {
        let ran = dir.run(call.into_iter().chain(more.iter().copied()));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(".git/config") && ran.err.contains("git runs"), "{ran:?}");
    }
    let why = dir.run(["explain", "shell", remote, "--workspace", ".", "--json"]).json();
    assert_eq!(why["verdict"]["decision"], "ask", "{why}");
    assert_eq!(why["verdict"]["reason"], changes, "{why}");
    assert!(why["touches"].as_array().unwrap().contains(&json!(changes)), "{why}");

    let named = broad + &allow("Edit(.git/config)");
    let dir = TempDir::trusted("tools-git-named", &[("haft.toml", &named)]);
    repository(&dir).unwrap();
    let ran = dir.run(call);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let config = std::fs::read(dir.work().join(".git/config")).unwrap();
    assert!(String::from_utf8_lossy(&config).contains("host.example"));
}
