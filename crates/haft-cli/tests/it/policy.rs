//! Rules from files: they apply to calls, are checked and tested, and a mistake stops the command.

use insta::assert_snapshot;

use crate::{Ran, TempDir, lines, read};

const ASKS: &str = r#"
[[rule]]
match = "read_file"
decision = "deny"
reason = "notes are private"
test.deny = ["read_file"]
test.skip = ["list_files"]

[[rule]]
match = "write_file"
decision = "allow"
"#;

#[test]
fn rule_of_the_directory_applies_to_a_call() {
    let dir = TempDir::new("policy-call", &[("haft.toml", ASKS)]);
    let ran = dir.run(["call", "read_file", "file_path=notes/garden.txt", "--quiet"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("notes are private"), "{}", ran.err);
    assert_eq!(dir.run(["call", "list_files", "--quiet"]).code, Some(0));
}

#[test]
fn allow_rule_of_a_directory_needs_trust() {
    let dir = TempDir::new("policy-trust", &[("haft.toml", ASKS)]);
    let call = ["call", "write_file", "file_path=x", "content=y"];
    let ran = dir.run(call);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.starts_with("note: haft.toml:10: "), "{}", ran.err);
    assert!(ran.err.contains("haft trust"), "{}", ran.err);
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    let ran = dir.run(call);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "created `x`: 1 line, 1 byte\n"));
    assert_eq!(dir.run(["trust", "--revoke"]).code, Some(0));
    assert_eq!(dir.run(call).code, Some(2));
}

#[test]
fn quiet_silences_notes_and_never_errors() {
    let dir = TempDir::new("policy-quiet", &[("haft.toml", ASKS)]);
    assert_eq!(dir.run(["call", "list_files", "--quiet"]).err, "");
    let dir = TempDir::new("policy-quiet-bad", &[("haft.toml", "[[rule]]\nmatch = 1\n")]);
    let ran = dir.run(["call", "list_files", "--quiet"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("haft.toml:2:9"), "{}", ran.err);
}

#[test]
fn invalid_file_stops_every_command_before_anything_runs() {
    let bad =
        "[[rule]]\nmatch = \"list_files\"\ndecison = \"deny\"\n\n[defaults]\ntimeout = \"soon\"\n";
    let dir = TempDir::new("policy-bad", &[("haft.toml", bad)]);
    for command in [
        &["call", "list_files"][..],
        &["explain", "list_files"],
        &["policy", "check"],
        &["policy", "test"],
        &["hooks", "list"],
        &["trust", "--yes"],
    ] {
        let ran = dir.run(command.iter().copied());
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{command:?}: {ran:?}");
        assert!(ran.err.contains("haft.toml:3:1"), "{command:?}: {}", ran.err);
        assert!(ran.err.contains("`decison`") && ran.err.contains("haft.toml:6:"), "{}", ran.err);
    }
}

#[test]
fn unreadable_file_stops_the_command() {
    let dir = TempDir::new("policy-dir", &[("haft.toml/x", "")]);
    let ran = dir.run(["call", "list_files"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    let dir = TempDir::new("policy-named", &[]);
    assert_eq!(dir.run(["call", "list_files", "--config", "nowhere.toml"]).code, Some(1));
    let mut managed = dir.command();
    managed.env("HAFT_MANAGED_FILE", "/nowhere/haft.toml").args(["call", "list_files"]);
    let ran = Ran::of(managed.output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
}

#[test]
fn named_rule_files_apply_in_addition_to_those_of_the_directory() {
    let more = "[[rule]]\nmatch = \"list_files\"\ndecision = \"deny\"\nreason = \"no lists\"\n";
    let dir = TempDir::new("policy-config", &[("more.toml", more)]);
    assert_eq!(dir.run(["call", "list_files"]).code, Some(0));
    let ran = dir.run(["call", "list_files", "--config", "more.toml"]);
    assert!(ran.code != Some(0) && ran.err.contains("no lists"), "{ran:?}");
    let mut managed = dir.command();
    managed.env("HAFT_MANAGED_FILE", dir.work().join("more.toml"));
    let ran = Ran::of(managed.args(["call", "list_files"]).output().unwrap());
    assert!(ran.code != Some(0) && ran.err.contains("no lists"), "{ran:?}");
}

#[test]
fn claude_code_settings_are_read() {
    let settings = r#"{"permissions": {"deny": ["mcp__mail__send", "Bash(rm *)"]}}"#;
    let dir = TempDir::new("policy-claude", &[(".claude/settings.json", settings)]);
    let ran = dir.run(["explain", "Bash", "command=rm -rf x"]);
    assert!(ran.out.contains("deny"), "{}", ran.out);
    assert!(ran.out.contains(".claude/settings.json:1"), "{}", ran.out);
}

#[test]
fn check_counts_rules_by_file_and_decision() {
    let dir = TempDir::new("policy-check", &[("haft.toml", ASKS)]);
    let ran = dir.run(["policy", "check", "--quiet"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("haft.toml  1 deny\n"), "{}", ran.out);
    assert!(ran.out.contains("directory not trusted"), "{}", ran.out);
    let json = dir.run(["policy", "check", "--json"]).json();
    assert_eq!(json["files"][0]["deny"], 1);
    assert_eq!(json["trusted"], false);
    assert_eq!(json["notes"].as_array().unwrap().len(), 1);
}

#[test]
fn policy_test_reports_every_example() {
    let dir = TempDir::new("policy-test", &[("haft.toml", ASKS)]);
    let ran = dir.run(["policy", "test", "--quiet"]);
    assert_snapshot!(ran.page(), @r"
    exit 0
    --- stdout
    ✓  haft.toml:6  read_file   matches         all rules: deny
    ✓  haft.toml:7  list_files  does not match  all rules: ask
    2 examples, 0 failed; 0 rules without an example
    ");
    let wrong = ASKS.replace("test.skip = [\"list_files\"]", "test.skip = [\"read_file\"]");
    let dir = TempDir::new("policy-test-wrong", &[("haft.toml", &wrong)]);
    let ran = dir.run(["policy", "test", "--quiet"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("✗  haft.toml:7  read_file  matches, but should not"), "{}", ran.out);
    let json = dir.run(["policy", "test", "--json"]).json();
    assert_eq!((&json["failed"], &json["held"]), (&1.into(), &1.into()), "{json}");
    let call = dir.run(["call", "list_files"]);
    assert_eq!((call.code, call.out.as_str()), (Some(1), ""), "a broken promise stops everything");
}

#[test]
fn logged_decisions_become_suggestions() {
    let dir = TempDir::new("policy-suggest", &[]);
    let call = |name: &str| {
        let name = format!("file_path={name}");
        let words = ["call", "write_file", &name, "content=y", "--yes", "--decisions", "d.jsonl"];
        assert_eq!(dir.run(words).code, Some(0));
    };
    call("a");
    call("a");
    let written = lines(&read(&dir.work().join("d.jsonl")));
    assert_eq!(written.len(), 2);
    assert_eq!(written[0]["tool"], "write_file");
    assert_eq!(written[0]["arguments"]["file_path"], "a");
    assert_eq!(written[0]["decision"], "allow");
    assert_eq!((&written[0]["answer"], &written[0]["by"]), (&"once".into(), &"--yes".into()));
    assert_eq!(written[0]["source"], "the default");
    let ran = dir.run(["policy", "suggest", "--from", "d.jsonl", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let json = ran.json();
    assert_eq!(json["decisions"], 2);
    assert_eq!(json["suggestions"][0]["covers"], 2, "{json}");
    let page = dir.run(["policy", "suggest", "--from", "d.jsonl"]);
    assert!(page.out.contains("[[rule]]\nmatch = \"write_file"), "{page:?}");
    std::fs::rename(dir.work().join("d.jsonl"), dir.work().join("e.jsonl")).unwrap();
    assert!(dir.run(["policy", "suggest", "--from", "d.jsonl"]).err.contains("e.jsonl"));
}

#[test]
fn invalid_decision_line_is_reported_with_its_number() {
    let line = "{\"tool\": \"x\", \"arguments\": {}, \"decision\": \"maybe\"}\n";
    let dir = TempDir::new("policy-suggest-bad", &[("d.jsonl", line)]);
    let ran = dir.run(["policy", "suggest", "--from", "d.jsonl"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("line 1 of `d.jsonl` is not a decision"), "{}", ran.err);
}

#[test]
fn note_about_an_untrusted_file_is_printed_once() {
    let dir = TempDir::new("policy-notes", &[("haft.toml", ASKS)]);
    let call = || dir.run(["call", "list_files"]).err;
    assert!(call().contains("haft trust"), "the first command says so");
    assert_eq!(call(), "");
    assert_eq!(dir.run(["explain", "list_files"]).err, "");
    for words in [&["policy", "check"][..], &["hooks", "list"]] {
        let ran = dir.run(words.iter().copied());
        let all = ran.out + &ran.err;
        assert!(all.contains("haft trust"), "it is about the files: {all}");
    }
    dir.put("haft.toml", &ASKS.replace("private", "secret"));
    assert!(call().contains("haft trust"), "the file has changed");
    assert_eq!(call(), "");
}

#[test]
fn bypass_mode_is_noted_on_every_call() {
    let mode = "[defaults]\nmode = \"bypassPermissions\"\n";
    let dir = TempDir::trusted("policy-bypass", &[("haft.toml", mode)]);
    for _ in 0..2 {
        let ran = dir.run(["call", "list_files"]);
        assert!(ran.err.contains("EVERYTHING THAT NO RULE MATCHES IS ALLOWED"), "{ran:?}");
    }
}

#[test]
fn further_directories_count_for_file_tools_as_for_explain() {
    let settings = r#"{"permissions": {"additionalDirectories": ["../shared"]}}"#;
    let roots = "[workspace]\nroots = [\"../more\"]\n";
    let files = [("haft.toml", roots), (".claude/settings.json", settings)];
    let dir = TempDir::trusted("policy-roots", &files);
    for name in ["shared", "more", "other"] {
        dir.put_in_sibling(name, "note.txt", "text\n");
    }
    let file = |name: &str| format!("file_path=../{name}/note.txt");
    for name in ["shared", "more"] {
        for tool in ["Read", "read_file"] {
            let explained = dir.run(["explain", tool, &file(name), "--exit-code"]);
            assert_eq!(explained.code, Some(0), "{tool} {name}: {explained:?}");
        }
        let command = format!("command=cat ../{name}/note.txt");
        assert_eq!(dir.run(["explain", "Bash", &command, "--exit-code"]).code, Some(0), "{name}");
        let read = dir.run(["call", "read_file", &file(name)]);
        assert!(read.out.contains("text"), "{read:?}");
        let path = format!("path=../{name}");
        let found = dir.run(["call", "search_files", "pattern=text", &path]);
        assert!(found.out.contains("note.txt"), "{found:?}");
        let write = dir.run(["call", "write_file", &file(name), "content=new", "--yes"]);
        assert_eq!(write.code, Some(0), "{write:?}");
    }
    assert_ne!(dir.run(["explain", "Read", &file("other"), "--exit-code"]).code, Some(0));
    assert_ne!(dir.run(["call", "read_file", &file("other")]).code, Some(0));
}

#[test]
fn rule_for_an_unknown_tool_is_a_finding_with_file_and_line() {
    let settings = "{\"permissions\": {\n  \"deny\": [\"Wrtie\", \"Fooo\"],\n  \
                    \"ask\": [\"Write\", \"mcp__a__b\", \"shell\"]\n}}";
    let dir = TempDir::new("policy-unknown-tool", &[(".claude/settings.json", settings)]);
    let json = dir.run(["policy", "check", "--json"]).json();
    let found: Vec<String> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["kind"] == "never_matches")
        .map(|finding| format!("{}: {}; {}", finding["at"], finding["message"], finding["hint"]))
        .collect();
    let [first, second] = &*found else { panic!("{json}") };
    assert!(first.contains("settings.json:2") && first.contains("`Wrtie` is no tool"), "{first}");
    assert!(first.contains("did you mean `Write`?"), "{first}");
    assert!(second.contains("`Fooo` is no tool"), "{second}");
}
