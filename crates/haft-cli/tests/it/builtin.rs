//! The built-in tools with `--workspace`, tools that files declare, and `haft doctor`.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use crate::{Folder, Ran, haft};

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
    let folder = Folder::trusted("hands-declared", &files);
    let list = folder.run(["tools", "list"]);
    assert!(list.out.contains("count_lines") && list.out.contains("Counts the lines"), "{list:?}");
    let show = folder.run(["tools", "show", "count_lines", "--json"]).json();
    assert_eq!(show["isolation"], "required");
    let ran = folder.run(["call", "count_lines", "file=notes.txt"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "2 notes.txt\n"), "{ran:?}");
    let plan = folder.run(["plan", "response.json", "--json"]).json();
    assert_eq!(plan[0]["class"], "read_only");
    let answer = folder.run(["dispatch", "response.json", "--dialect", "anthropic"]);
    assert!(answer.out.contains("2 notes.txt"), "{answer:?}");
    let why = folder.run(["explain", "count_lines", "file=/etc/passwd", "--json"]).json();
    assert_eq!(why["verdict"]["decision"], "ask", "{why}");
    let missing = folder.run(["call", "count_lines", "file=nothing.txt"]);
    assert_eq!(missing.code, Some(5), "{missing:?}");
    assert!(missing.err.contains("exit code 1"), "{missing:?}");
}

#[test]
fn search_does_not_find_files_that_a_rule_denies() {
    let rule = "[[rule]]\nmatch = \"Read(./secrets/**)\"\ndecision = \"deny\"\n";
    let files = &[("haft.toml", rule), ("open.txt", "key = 1\n"), ("secrets/k.txt", "key = 2\n")];
    let folder = Folder::trusted("hands-kept", files);
    let search = folder.run(["call", "search_files", "pattern=key", "--workspace", ".", "--yes"]);
    assert_eq!(search.code, Some(0), "{search:?}");
    assert!(search.out.contains("key = 1") && !search.out.contains("key = 2"), "{search:?}");
    assert!(!search.out.contains("k.txt") && search.out.contains("could not be"), "{search:?}");
    let read = folder.run(["call", "read_file", "file_path=secrets/k.txt", "--workspace", "."]);
    assert_eq!(read.code, Some(2), "{read:?}");
}

#[test]
fn explain_says_how_many_files_would_be_masked() {
    let rule =
        "[[rule]]\nmatch = [\"Read(./secrets/**)\", \"Edit(*.lock)\"]\ndecision = \"deny\"\n";
    let files = &[("haft.toml", rule), ("secrets/k.txt", "key\n"), ("a/b.lock", "1\n")];
    let folder = Folder::trusted("hands-masked", files);
    let why = ["explain", "shell", "command=make", "--workspace", ".", "--json"];
    let json = folder.run(why).json();
    let checks = json["checks"].as_array().unwrap();
    let masked = checks.iter().find(|check| check["what"] == "denied paths").unwrap();
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
    let folder = Folder::trusted("hands-looked-at", &files);
    let here = ["--workspace", "."];
    let export = ["tools", "export", "--dialect", "anthropic"];
    let own = folder.run(export);
    assert!(own.out.contains("count_lines") && !own.out.contains("read_file"), "{own:?}");
    let all = folder.run(export.into_iter().chain(here));
    for name in ["count_lines", "read_file", "shell", "fetch_url", "ask_user"] {
        assert!(all.out.contains(&format!("\"{name}\"")), "{name} {all:?}");
    }
    let check = ["tools", "check", "--calls", "calls.jsonl", "--json"];
    let checked = folder.run(check.into_iter().chain(here));
    let lines: Vec<Value> =
        checked.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["valid"], &lines[1]["valid"]), (&json!(true), &json!(false)));
    assert_eq!(lines[1]["problems"][0]["pointer"], "/file_path", "{checked:?}");
    let lint = folder.run(["tools", "lint", "--workspace", ".", "--json"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");
    assert!(lint.out.contains("count_lines"), "it has no description of success: {lint:?}");
    // A tool file does not depend on the directory.
    let listed = folder.run(export.into_iter().chain(["--tools", "tools.jsonl"]));
    assert!(listed.out.contains("lonely") && !listed.out.contains("count_lines"), "{listed:?}");
    let both = folder.run(export.into_iter().chain(["--tools", "tools.jsonl"]).chain(here));
    assert_eq!(both.code, Some(1), "{both:?}");
}

#[test]
fn ask_user_fails_at_once_without_a_terminal() {
    let folder = Folder::new("hands-ask", &[]);
    let ask = ["call", "ask_user", "question=Which one?", "--workspace", "."];
    for more in [&[][..], &["--yes"]] {
        let ran = folder.run(ask.into_iter().chain(more.iter().copied()));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("needs_interaction: `ask_user` needs "), "{ran:?}");
        assert!(ran.err.contains("hint: run the command at a terminal"), "{ran:?}");
    }
}

#[test]
fn read_only_command_runs_sandboxed_without_approval() {
    let folder = Folder::new("hands-unasked", &[("notes.txt", "one\ntwo\n")]);
    let call = |command: &str| {
        folder.run(["call", "shell", &format!("command={command}"), "--workspace", ".", "--json"])
    };
    let ran = call("wc -l notes.txt").json();
    assert_eq!(ran["output"]["blocks"][0]["text"], "2 notes.txt\n", "{ran}");
    assert!(ran["tier"]["level"].is_string(), "{ran}");
    for asks in ["cat ~/.ssh/id_rsa", "cat ../x", "cat $HOME/x"] {
        let ran = call(asks);
        assert_eq!(ran.code, Some(2), "{asks} {ran:?}");
    }
    // The environment of a sandboxed command holds no secret.
    let mut env = folder.command();
    env.args(["call", "shell", "command=env", "--workspace", ".", "--json"]);
    let env = Ran::of(env.env("API_TOKEN", "s3cret").output().unwrap());
    assert!(env.out.contains("PATH=") && !env.out.contains("s3cret"), "{env:?}");
    assert_eq!(env.json()["output"]["structured"]["confined"], true, "{env:?}");
    let mut asks = folder.command();
    asks.args(["call", "shell", "command=env", "--workspace", ".", "--json"]);
    folder.put("haft.toml", "[sandbox]\nconfine_unasked = false\n");
    assert_eq!(Ran::of(asks.output().unwrap()).code, Some(2), "without confinement it asks");
    let why = ["explain", "shell", "command=cat notes.txt", "--workspace", ".", "--json"];
    let why = folder.run(why).json();
    assert_eq!(why["verdict"]["decision"], "allow", "{why}");
    let slow = json!({"argv": ["sleep", "30"], "timeout_ms": 200}).to_string();
    let slow =
        folder.run(["call", "shell", "--args-json", &slow, "--workspace", ".", "--json"]).json();
    assert_eq!(slow["failure"]["code"], "timed_out", "{slow}");
    assert!(slow["tier"]["level"].is_string(), "{slow}");
}

#[test]
fn untrusted_directory_declares_no_tools() {
    let folder = Folder::new("hands-untrusted", FILES);
    let list = folder.run(["tools", "list"]);
    assert!(!list.out.contains("count_lines"), "{list:?}");
    assert!(list.err.contains("1 declared tool of this directory does not apply"), "{list:?}");
    assert_eq!(folder.run(["call", "count_lines", "file=notes.txt"]).code, Some(1));
    let hint = "hint: this directory declares `count_lines`, but is not trusted";
    for named in [&["call", "count_lines"][..], &["tools", "show", "count_lines"]] {
        let ran = folder.run(named.iter().copied());
        assert!(ran.code == Some(1) && ran.err.contains(hint), "{ran:?}");
        assert!(!ran.err.contains("did you mean"), "{ran:?}");
    }
    let trust = folder.run(["trust"]);
    assert!(trust.out.contains("adds a tool   count_lines: wc -l -- {file}"), "{trust:?}");
}

#[test]
fn mistake_in_a_declared_tool_is_reported_with_its_location() {
    let slip =
        "[tool.t]\ndescription = \"x\"\ncommand = [\"sh\", \"-c\", \"{a}\"]\nparameters.a = {}\n";
    let folder = Folder::trusted("hands-good", &[]);
    #[expect(clippy::disallowed_methods, reason = "the test makes the file it points at")]
    std::fs::write(folder.work().join("haft.toml"), slip).unwrap();
    let ran = folder.run(["tools", "list"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("haft.toml:3:24: `sh` would execute `{a}`"), "{ran:?}");
}

#[test]
fn ask_is_denied_without_a_terminal_and_yes_approves_it() {
    let folder = Folder::new("hands-shell", &[("notes.txt", "one\n")]);
    let write = ["call", "shell", "command=echo two > made.txt", "--workspace", "."];
    let ran = folder.run(write);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(!folder.work().join("made.txt").exists());
    let ran = folder.run(write.into_iter().chain(["--yes"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(folder.work().join("made.txt").exists());
    let json = folder
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
    // Without a workspace there is no such tool.
    let ran = folder.run(["call", "shell", "command=ls"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("hint: `shell` needs a workspace: add `--workspace DIR`"), "{ran:?}");
    let ran = folder.run(["call", "shell", "command=ls", "--workspace", "nowhere"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("`--workspace nowhere`: there is no such directory"), "{ran:?}");
}

#[test]
fn a_path_outside_is_exit_2_and_nothing_is_touched() {
    let folder = Folder::new("hands-outside", &[("in/x", "")]);
    let ran = folder.run([
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
    assert!(!folder.work().join("y").exists());
}

#[test]
fn workspace_rules_apply_to_both_forms_of_a_command() {
    let rules = "[[rule]]\nmatch = \"Bash(rm *)\"\ndecision = \"deny\"\n";
    let folder = Folder::new("hands-rules", &[("haft.toml", rules), ("x", "")]);
    for arguments in [r#"{"argv": ["rm", "x"]}"#, r#"{"command": "ls; rm x"}"#] {
        let ran =
            folder.run(["call", "shell", "--args-json", arguments, "--workspace", ".", "--yes"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    assert!(folder.work().join("x").exists());
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
    let folder = std::env::temp_dir().join(format!("haft-doctor-test-{}", std::process::id()));
    let (program, own) = (folder.join("haft"), folder.join("tmp"));
    std::fs::create_dir_all(&own).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_haft"), &program).unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        for path in [&folder, &own] {
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
    std::fs::remove_dir_all(&folder).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn builtin_tool_without_workspace_gets_a_hint_in_every_command() {
    let call = response("read_file", json!({"file_path": "notes.txt"}));
    let folder = Folder::new("hands-nowhere", &[("response.json", &call)]);
    let hint = "`read_file` needs a workspace: add `--workspace DIR`";
    for (named, code) in [
        (&["call", "read_file", "file_path=notes.txt"][..], 1),
        (&["tools", "show", "read_file"], 1),
        (&["explain", "read_file", "file_path=notes.txt"], 1),
        (&["plan", "response.json"], 0),
        (&["dispatch", "response.json", "--dialect", "anthropic"], 0),
    ] {
        let ran = folder.run(named.iter().copied());
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.err.contains(hint), "{ran:?}");
        let there = folder.run(named.iter().copied().chain(["--workspace", "."]));
        assert!(!there.err.contains(hint), "{there:?}");
    }
}

#[test]
fn hint_about_a_builtin_tool_works_when_copied() {
    let folder = Folder::new("hands-hint", &[]);
    let ran = folder.run(["call", "read_file", "path=x", "--workspace", "."]);
    assert!(ran.err.contains("hint: did you mean `file_path`?"), "{ran:?}");
    let hint = "hint: `haft tools show read_file --workspace .` lists the arguments";
    assert!(ran.err.contains(hint), "{ran:?}");
    let shown = folder.run(["tools", "show", "read_file", "--workspace", "."]);
    assert!(shown.code == Some(0) && shown.out.contains("file_path"), "{shown:?}");
}

#[test]
fn yes_is_not_suggested_when_it_was_given() {
    let folder = Folder::new("hands-yes", &[]);
    let write = ["call", "write_file", "file_path=.envrc", "content=x", "--workspace", "."];
    let ran = folder.run(write.into_iter().chain(["--yes"]));
    assert!(ran.code == Some(2) && ran.err.contains("`.envrc` is protected"), "{ran:?}");
    assert!(!ran.err.contains("--yes"), "{ran:?}");
    assert!(ran.err.contains("an approval in advance does not cover"), "{ran:?}");
    assert!(ran.err.contains("with the rule `Edit(.envrc)`"), "{ran:?}");
    assert!(!ran.err.contains("a person denied"), "no person was asked: {ran:?}");
}

#[test]
fn missing_program_is_reported_in_one_sentence() {
    let folder = Folder::new("hands-no-program", &[]);
    let ran = folder.run(["call", "shell", "command=nosuchprogram", "--workspace", ".", "--yes"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let said = "error: invalid_value: the program `nosuchprogram` is not installed, or the sandbox \
                does not show it\n";
    assert_eq!(ran.err, said);
}

#[test]
fn large_output_is_stored_once_and_keeps_its_exit_code() {
    let folder = Folder::new("hands-large", &[]);
    let call = ["call", "shell", "command=seq 1 100000", "--workspace", ".", "--yes", "--json"];
    let ran = folder.run(call.into_iter().chain(["--artifacts", "kept"]));
    assert_eq!(ran.err.matches("was truncated").count(), 1, "{}", ran.err);
    assert_eq!(ran.json()["output"]["structured"]["exit"]["code"], 0);
}

#[test]
fn few_open_files_give_an_error_that_names_the_limit_and_no_panic() {
    let folder = Folder::trusted("hands-few-files", FILES);
    for files in [7, 10, 16, 32, 64] {
        let script =
            format!("ulimit -n {files}; exec \"$0\" call shell command=pwd --workspace . --yes");
        let output = std::process::Command::new("bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_haft")])
            .current_dir(&folder.0)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("panicked"), "{files}: {text}");
        assert!(output.status.success() || text.contains("`ulimit -n`"), "{files}: {text}");
    }
}

/// Creates a repository, if git is installed.
fn repository(folder: &Folder) -> Option<()> {
    let mut git = std::process::Command::new("git");
    match git.args(["init", "-q"]).current_dir(folder.work()).status() {
        Ok(status) if status.success() => Some(()),
        _ => {
            eprintln!("NOT TESTED: there is no git here");
            None
        }
    }
}

#[test]
fn git_command_changes_its_configuration_only_where_a_rule_names_it() {
    let allow = |text: &str| format!("[[rule]]\nmatch = \"{text}\"\ndecision = \"allow\"\n");
    let remote = "command=git remote add origin https://host.example/a.git";
    let call = ["call", "shell", remote, "--workspace", "."];

    let broad = allow("Bash(git *)");
    let folder = Folder::trusted("hands-git-broad", &[("haft.toml", &broad)]);
    if repository(&folder).is_none() {
        return;
    }
    let changes =
        "it changes the protected file `.git/config`: git runs the programs that it names";
    for more in [&[][..], &["--yes"]] {
        let ran = folder.run(call.into_iter().chain(more.iter().copied()));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(".git/config") && ran.err.contains("git runs"), "{ran:?}");
    }
    let why = folder.run(["explain", "shell", remote, "--workspace", ".", "--json"]).json();
    assert_eq!(why["verdict"]["decision"], "ask", "{why}");
    assert_eq!(why["verdict"]["reason"], changes, "{why}");
    assert!(why["risk"].as_array().unwrap().contains(&json!(changes)), "{why}");

    let named = broad + &allow("Edit(.git/config)");
    let folder = Folder::trusted("hands-git-named", &[("haft.toml", &named)]);
    repository(&folder).unwrap();
    let ran = folder.run(call);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let config = std::fs::read(folder.work().join(".git/config")).unwrap();
    assert!(String::from_utf8_lossy(&config).contains("host.example"));
}
