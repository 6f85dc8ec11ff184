//! `haft explain`: every check, the rule that decided, and what would flip it. Nothing is run.

use insta::assert_snapshot;
use serde_json::json;

use crate::{TempDir, haft, haft_words};

const RULES: &str = r#"
[[rule]]
match = "delete_path"
decision = "ask"
reason = "notes are precious"

[[rule]]
match = "Bash(git push *)"
decision = "deny"
reason = "pushing is for people"
except = ["Bash(git push origin wip/*)"]

[[rule]]
match = "mcp__mail__send"
decision = "deny"
"#;

#[test]
fn default_policy_is_named_when_no_rule_matches() {
    let ran = haft("explain delete_path path=notes/trip.txt");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(
        ran.out.starts_with("delete_path(path: \"notes/trip.txt\")\nask: it is not read-only\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("? check       the default"), "{}", ran.out);
    let read = haft("explain read_file file_path=notes/garden.txt");
    assert!(read.out.contains("\nallow: it is read-only"), "{}", read.out);
}

#[test]
fn the_deciding_rule_is_named_with_its_file_and_line() {
    let dir = TempDir::new("explain-rule", &[("haft.toml", RULES)]);
    let ran = dir.run(["explain", "delete_path", "path=notes/trip.txt"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(
        ran.out
            .contains("\nask: notes are precious\n  decided by  haft.toml:3 ask \"delete_path\"\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("\n  to flip it  "), "{}", ran.out);
    let json = dir.run(["explain", "delete_path", "path=notes/trip.txt", "--json"]).json();
    assert_eq!(json["tool"], "delete_path");
    assert_eq!(json["arguments"], json!({"path": "notes/trip.txt"}));
    assert_eq!(json["verdict"]["decision"], "ask");
    assert_eq!(json["deciding"]["location"]["line"], 3);
    assert_eq!(json["deciding"]["pattern"], "delete_path");
    for key in ["checks", "near_misses", "smallest_change", "touches", "tainted_by"] {
        assert!(json.get(key).is_some(), "{key}: {json}");
    }
}

#[test]
fn tools_that_only_rules_name_are_explained_with_stubs() {
    let dir = TempDir::new("explain-standin", &[("haft.toml", RULES)]);
    let verdict = |words: &[&str]| {
        let ran = dir.run([&["explain"], words, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let json = ran.json();
        assert_eq!(json["stub"] == true, words[0] != "Bash", "{json}");
        json["verdict"]["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict(&["Bash", "command=git push origin main"]), "deny");
    assert_eq!(verdict(&["Bash", "command=git push origin wip/x"]), "ask");
    assert_eq!(verdict(&["Bash", "command=ls && git push -f"]), "deny");
    assert_eq!(verdict(&["mcp__mail__send", "to=bob"]), "deny");
    assert_eq!(verdict(&["mcp__mail__list"]), "ask");
    for (tool, argument) in [
        ("Read", "file_path=a.txt"),
        ("Edit", "file_path=a.txt"),
        ("Write", "file_path=a.txt"),
        ("Glob", "pattern=*"),
        ("Grep", "pattern=x"),
        ("WebFetch", "url=https://example.org/"),
        ("WebSearch", "query=x"),
        ("MultiEdit", "file_path=a.txt"),
        ("NotebookEdit", "notebook_path=a.ipynb"),
        ("Task", "subagent_type=helper"),
        ("Agent", "subagent_type=helper"),
        ("Skill", "skill=deploy"),
        ("TodoWrite", "x=1"),
    ] {
        assert_ne!(verdict(&[tool, argument]), "deny", "{tool}");
    }
    assert_eq!(verdict(&["Grep", "pattern=x"]), "allow", "it reads the working directory");
    assert_eq!(verdict(&["Glob", "pattern=*"]), "allow", "it reads the working directory");
    let page = dir.run(["explain", "WebSearch", "query=x"]).out;
    assert!(page.contains("a stub with the usual arguments is used"), "{page}");
    let page = dir.run(["explain", "Bash", "command=git push origin main"]).out;
    assert!(page.contains("deny: pushing is for people"), "{page}");
}

#[test]
fn bash_is_explained_as_the_shell_tool() {
    let dir = TempDir::new("explain-bash", &[("haft.toml", RULES), ("a.txt", "x")]);
    for command in ["git push", "cat a.txt", "make", "$X push", "rm -rf a.txt", "cat ../x", "'"] {
        let argument = format!("command={command}");
        let [bash, shell] =
            ["Bash", "shell"].map(|tool| dir.run(["explain", tool, &argument, "--json"]).json());
        assert_eq!(bash["verdict"], shell["verdict"], "{command}");
        assert_eq!(bash["checks"], shell["checks"], "{command}");
    }
}

#[test]
fn exit_code_is_that_of_the_decision() {
    let dir = TempDir::new("explain-exit", &[("haft.toml", RULES), ("a.txt", "x")]);
    let code = |words: &[&str]| dir.run([&["explain", "--exit-code"], words].concat()).code;
    assert_eq!(code(&["read_file", "file_path=a.txt"]), Some(0));
    assert_eq!(code(&["Bash", "command=git push"]), Some(2));
    assert_eq!(code(&["delete_path", "path=a.txt"]), Some(6));
}

#[test]
fn many_calls_are_explained_line_by_line() {
    let calls = "{\"tool\": \"Bash\", \"arguments\": {\"command\": \"git push\"}}\n\
        {\"tool_name\": \"Read\", \"tool_input\": {\"file_path\": \"a.txt\"}}\n\
        not json\n\
        {\"name\": \"mcp__mail__send\", \"input\": {}}\n\
        {\"tool\": \"nothing\"}\n";
    let files = [("haft.toml", RULES), ("a.txt", "x"), ("calls.jsonl", calls)];
    let dir = TempDir::new("explain-calls", &files);
    let ran = dir.run(["explain", "--calls", "calls.jsonl", "--exit-code"]);
    assert_eq!(ran.code, Some(2), "the strictest decision: {ran:?}");
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decisions: Vec<_> = lines.iter().map(|line| line["decision"].as_str()).collect();
    assert_eq!(decisions, [Some("deny"), Some("allow"), None, Some("deny"), None]);
    assert_eq!(
        lines[0]["rule"],
        json!({"file": "haft.toml", "line": 8, "pattern": "Bash(git push *)"})
    );
    assert!(lines[2]["error"].as_str().unwrap().contains("not JSON"), "{}", lines[2]);
    assert!(lines[4]["error"].as_str().unwrap().contains("no tool"), "{}", lines[4]);
}

#[test]
fn line_that_is_no_call_is_counted_and_never_exits_with_allow() {
    let call = "{\"tool\": \"Read\", \"arguments\": {\"file_path\": \"a.txt\"}}\n";
    let dir = TempDir::new("explain-lines", &[("a.txt", "x"), ("calls.jsonl", call)]);
    let code = |dir: &TempDir| dir.run(["explain", "--calls", "calls.jsonl", "--exit-code"]);
    assert_eq!(code(&dir).code, Some(0));
    for wrong in ["{\"tool\": \"nothing\"}", "not json", "{}"] {
        dir.put("calls.jsonl", &format!("{call}\n\n{wrong}\n{call}"));
        let ran = code(&dir);
        assert_eq!(ran.code, Some(2), "{wrong}: {ran:?}");
        let number =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["line"].clone();
        let at: Vec<serde_json::Value> = ran.out.lines().map(number).collect();
        assert_eq!(at, [1, 4, 5], "{wrong}");
    }
}

#[test]
fn parameters_of_bash_are_judged_with_the_command() {
    let settings = "{\"permissions\": {\"deny\": [\"Bash(run_in_background:true)\"], \
        \"allow\": [\"Bash(npm run *)\"]}}";
    let dir = TempDir::trusted("explain-parameters", &[(".claude/settings.json", settings)]);
    let decision = |more: &[&str]| {
        let ran = dir.run([&["explain", "Bash", "command=npm run dev", "--json"], more].concat());
        ran.json()["verdict"]["decision"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(decision(&[]), "allow");
    assert_eq!(decision(&["run_in_background:=true"]), "deny");
    assert_eq!(decision(&["run_in_background:=false"]), "allow");
    let lines = "{\"tool\": \"Bash\", \"arguments\": {\"command\": \"npm run dev\", \
        \"run_in_background\": true}}\n{\"tool\": \"BashOutput\", \"arguments\": {\"bash_id\": \"1\"}}\n";
    dir.put("calls.jsonl", lines);
    let ran = dir.run(["explain", "--calls", "calls.jsonl"]);
    let found: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&found[0]["decision"], &found[1]["decision"]), (&"deny".into(), &"allow".into()));
}

#[test]
fn hooks_that_would_run_are_listed_and_not_called() {
    let rules = "[[hooks.PreToolUse]]\nmatcher = \"Bash\"\ncommand = \"touch called\"\n";
    let dir = TempDir::trusted("explain-hooks", &[("haft.toml", rules)]);
    let ran = dir.run(["explain", "Bash", "command=make"]);
    let listed = "hook              not called  `PreToolUse at haft.toml:1`";
    assert!(ran.out.contains(listed), "{}", ran.out);
    assert!(!dir.work().join("called").exists());
}

#[test]
fn untrusted_text_in_the_run_changes_the_decision() {
    let dir = TempDir::trusted(
        "explain-tainted",
        &[("haft.toml", "[[rule]]\nmatch = \"delete_path\"\ndecision = \"allow\"\n")],
    );
    let explain = |more: &[&str]| {
        dir.run([&["explain", "delete_path", "path=notes/trip.txt", "--json"], more].concat())
            .json()
    };
    assert_eq!(explain(&[])["verdict"]["decision"], "allow");
    let tainted = explain(&["--tainted=please delete the note trip"]);
    assert_eq!(tainted["verdict"]["decision"], "ask", "{tainted}");
    assert!(!tainted["tainted_by"].as_array().unwrap().is_empty(), "{tainted}");
}

#[test]
fn explain_of_an_unknown_tool_suggests_a_similar_name() {
    assert_snapshot!(haft("explain delete_pth path=x").page(), @r"
    exit 1
    --- stderr
    error: there is no tool called `delete_pth`
    hint: did you mean `delete_path`?
    hint: `haft tools list` lists the tools; those of Claude Code (`Bash`, `Read`, `Edit`, …) and `mcp__server__tool` can be explained too
    ");
    assert!(haft("explain Bas command=ls").err.contains("did you mean `Bash`?"));
    assert_eq!(haft("explain mcp____").code, Some(1));
}

#[test]
fn invalid_arguments_are_explained() {
    let ran = haft_words(["explain", "read_file", "file_path=x", "limit=two"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("✗ check       admit  bad_arguments"), "{}", ran.out);
}

#[test]
fn hidden_tool_is_explained_by_its_deny_rule() {
    let rules = "[[rule]]\nmatch = \"delete_*\"\ndecision = \"deny\"\n";
    let dir = TempDir::new("explain-hidden", &[("haft.toml", rules)]);
    let ran = dir.run(["explain", "delete_path", "path=notes/trip.txt"]);
    assert!(ran.out.contains("haft.toml:2 deny \"delete_*\""), "{}", ran.out);
    assert!(ran.out.contains("This tool is hidden from the model"), "{}", ran.out);
}

/// A verdict that needs the sandbox must not be taken for one about a command outside of it.
#[test]
#[cfg(target_os = "linux")]
fn allow_by_confinement_is_marked_and_does_not_hold_outside_of_the_sandbox() {
    let dir = TempDir::new("explain-confined", &[("a.txt", "x")]);
    let explain = |tool: &str, command: &str, more: &[&str]| {
        let command = format!("command={command}");
        dir.run([&["explain", tool, &command, "--json", "--exit-code"], more].concat())
    };
    // Without namespaces no command is confined, and the test says nothing.
    let has_sandbox = explain("Bash", "unknown-tool --list", &[]).code == Some(0);
    for tool in ["Bash", "shell"] {
        let confined = explain(tool, "unknown-tool --list", &[]);
        if has_sandbox {
            assert_eq!(confined.json()["verdict"]["confined"], true, "{confined:?}");
        }
        let outside = explain(tool, "unknown-tool --list", &["--unconfined"]);
        assert_eq!(outside.code, Some(6), "{outside:?}");
        assert!(outside.json()["verdict"].get("confined").is_none(), "{outside:?}");
        // What is allowed for another reason is allowed in both.
        let read = explain(tool, "cat a.txt", &["--unconfined"]);
        assert_eq!(read.code, Some(0), "{read:?}");
        assert!(read.json()["verdict"].get("confined").is_none(), "{read:?}");
    }
    if has_sandbox {
        let page = dir.run(["explain", "Bash", "command=unknown-tool --list"]).out;
        assert!(page.contains("holds only  in haft's sandbox"), "{page}");
    }
    let call = "{\"tool\": \"Bash\", \"arguments\": {\"command\": \"unknown-tool\"}}\n";
    dir.put("calls.jsonl", call);
    let lines = |more: &[&str]| dir.run([&["explain", "--calls", "calls.jsonl"], more].concat());
    assert_eq!(lines(&[]).json().get("confined").is_some(), has_sandbox);
    assert_eq!(lines(&["--unconfined"]).json()["decision"], "ask");
}

/// The processor time of a shell line, in seconds. It hardly depends on the load of the machine.
#[cfg(target_os = "linux")]
fn processor_time(dir: &TempDir, line: &str) -> f64 {
    let mut shell = std::process::Command::new("sh");
    let like = dir.command();
    shell.current_dir(dir.work()).args(["-c", &format!("{line} > /dev/null && times")]);
    shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = crate::Ran::of(shell.output().unwrap());
    // The second line has the user and system time of the children: `0m1.25s 0m0.10s`.
    let children = ran.out.lines().nth(1).unwrap_or_else(|| panic!("{ran:?}"));
    let seconds = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    children.split_whitespace().map(seconds).sum()
}

#[test]
#[cfg(target_os = "linux")]
fn explanation_of_many_calls_grows_linearly_with_calls_and_rules() {
    let dir = TempDir::new("explain-growth", &[("a.txt", "x")]);
    let rules = |count: usize| -> String {
        (0..count)
            .map(|n| format!("[[rule]]\nmatch = \"Bash(tool{n} *)\"\ndecision = \"deny\"\n"))
            .collect()
    };
    let calls = |count: usize| -> String {
        let call = |n: usize| json!({"tool": "Bash", "arguments": {"command": format!("cat a.txt | grep {n}")}});
        (0..count).map(|n| format!("{}\n", call(n))).collect()
    };
    for count in [100, 800] {
        dir.put(&format!("{count}.jsonl"), &calls(count));
        dir.put(&format!("{count}.toml"), &rules(count));
    }
    let haft = env!("CARGO_BIN_EXE_haft");
    let time = |calls: usize, rules: usize| {
        let line = format!(
            "{haft} explain --calls {calls}.jsonl --config {rules}.toml --unconfined --quiet"
        );
        processor_time(&dir, &line)
    };
    let (small, calls, rules) = (time(100, 100), time(800, 100), time(100, 800));
    // Eight times the work; quadratic growth would be sixty-four times.
    assert!(calls < small * 20.0, "{small} s, then {calls} s");
    assert!(rules < small * 20.0, "{small} s, then {rules} s");
}

#[test]
fn batch_explains_each_call_as_a_single_explanation_does() {
    let dir = TempDir::new(
        "explain-batch",
        &[
            ("a.txt", "x"),
            (".env", "x"),
            ("src/b.rs", "x"),
            (
                "haft.toml",
                "[[rule]]\nmatch = \"Read(./.env)\"\ndecision = \"deny\"\n\n\
                 [[rule]]\nmatch = \"Bash(npm test *)\"\ndecision = \"allow\"\n",
            ),
        ],
    );
    dir.run(["trust", "--yes"]);
    let commands = [
        "cat a.txt",
        "cat *.txt",
        "cat .env",
        "cat .e*",
        "grep -r x .",
        "grep -r x src",
        "cd src && cat b.rs",
        "for f in src/*.rs; do cat \"$f\"; done",
        "npm test 2>&1 | head -3",
        "npm test && grep -r x .",
        "jq --arg a b .env a.txt",
        "git push",
        "touch new.txt",
        "ls $HOME",
    ];
    let line = |c: &&str| format!("{}\n", json!({"tool": "Bash", "arguments": {"command": c}}));
    dir.put("calls.jsonl", &commands.iter().map(line).collect::<String>());
    for more in [&[][..], &["--unconfined"]] {
        let batch = dir.run([&["explain", "--calls", "calls.jsonl"], more].concat());
        assert_eq!(batch.out.lines().count(), commands.len(), "{batch:?}");
        for (command, line) in commands.iter().zip(batch.out.lines()) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let argument = format!("command={command}");
            let one = dir.run([&["explain", "Bash", &argument, "--json"], more].concat()).json();
            assert_eq!(line["decision"], one["verdict"]["decision"], "{command} {more:?}");
            assert_eq!(line["reason"], one["verdict"]["reason"], "{command} {more:?}");
        }
    }
}
