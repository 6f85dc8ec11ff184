//! Rules from files: they apply to calls, are checked and tested, and a mistake stops the command.

use insta::assert_snapshot;

use crate::{Folder, Ran, lines, read};

const ASKS: &str = r#"
[[rule]]
match = "read_note"
decision = "deny"
reason = "notes are private"
test.deny = ["read_note"]
test.skip = ["add"]

[[rule]]
match = "write_note"
decision = "allow"
"#;

#[test]
fn rule_of_the_directory_applies_to_a_call() {
    let folder = Folder::new("policy-call", &[("haft.toml", ASKS)]);
    let ran = folder.run(["call", "read_note", "name=garden", "--quiet"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("notes are private"), "{}", ran.err);
    assert_eq!(folder.run(["call", "add", "a=2", "b=40", "--quiet"]).out, "42\n");
}

#[test]
fn allow_rule_of_a_directory_needs_trust() {
    let folder = Folder::new("policy-trust", &[("haft.toml", ASKS)]);
    let call = ["call", "write_note", "name=x", "text=y"];
    let ran = folder.run(call);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.starts_with("note: haft.toml:10: "), "{}", ran.err);
    assert!(ran.err.contains("haft trust"), "{}", ran.err);
    assert_eq!(folder.run(["trust", "--yes"]).code, Some(0));
    let ran = folder.run(call);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "`x` is new and has 1 character\n"));
    assert_eq!(folder.run(["trust", "--revoke"]).code, Some(0));
    assert_eq!(folder.run(call).code, Some(2));
}

#[test]
fn quiet_silences_notes_and_never_errors() {
    let folder = Folder::new("policy-quiet", &[("haft.toml", ASKS)]);
    assert_eq!(folder.run(["call", "add", "a=1", "b=2", "--quiet"]).err, "");
    let folder = Folder::new("policy-quiet-bad", &[("haft.toml", "[[rule]]\nmatch = 1\n")]);
    let ran = folder.run(["call", "add", "a=1", "b=2", "--quiet"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("haft.toml:2:9"), "{}", ran.err);
}

#[test]
fn invalid_file_stops_every_command_before_anything_runs() {
    let bad = "[[rule]]\nmatch = \"add\"\ndecison = \"deny\"\n\n[defaults]\ntimeout = \"soon\"\n";
    let folder = Folder::new("policy-bad", &[("haft.toml", bad)]);
    for command in [
        &["call", "add", "a=1", "b=2"][..],
        &["explain", "add", "a=1", "b=2"],
        &["policy", "check"],
        &["policy", "test"],
        &["hooks", "list"],
        &["trust", "--yes"],
    ] {
        let ran = folder.run(command.iter().copied());
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{command:?}: {ran:?}");
        assert!(ran.err.contains("haft.toml:3:1"), "{command:?}: {}", ran.err);
        assert!(ran.err.contains("`decison`") && ran.err.contains("haft.toml:6:"), "{}", ran.err);
    }
}

#[test]
fn unreadable_file_stops_the_command() {
    let folder = Folder::new("policy-folder", &[("haft.toml/x", "")]);
    let ran = folder.run(["call", "add", "a=1", "b=2"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    let folder = Folder::new("policy-named", &[]);
    assert_eq!(folder.run(["call", "add", "a=1", "b=2", "--config", "nowhere.toml"]).code, Some(1));
    let mut managed = folder.command();
    managed.env("HAFT_MANAGED_FILE", "/nowhere/haft.toml").args(["call", "add", "a=1", "b=2"]);
    let ran = Ran::of(managed.output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
}

#[test]
fn named_rule_files_apply_in_addition_to_those_of_the_directory() {
    let more = "[[rule]]\nmatch = \"add\"\ndecision = \"deny\"\nreason = \"no sums\"\n";
    let folder = Folder::new("policy-config", &[("more.toml", more)]);
    assert_eq!(folder.run(["call", "add", "a=1", "b=2"]).out, "3\n");
    let ran = folder.run(["call", "add", "a=1", "b=2", "--config", "more.toml"]);
    assert!(ran.code != Some(0) && ran.err.contains("no sums"), "{ran:?}");
    let mut managed = folder.command();
    managed.env("HAFT_MANAGED_FILE", folder.work().join("more.toml"));
    let ran = Ran::of(managed.args(["call", "add", "a=1", "b=2"]).output().unwrap());
    assert!(ran.code != Some(0) && ran.err.contains("no sums"), "{ran:?}");
}

#[test]
fn claude_code_settings_are_read() {
    let settings = r#"{"permissions": {"deny": ["mcp__mail__send", "Bash(rm *)"]}}"#;
    let folder = Folder::new("policy-claude", &[(".claude/settings.json", settings)]);
    let ran = folder.run(["explain", "Bash", "command=rm -rf x"]);
    assert!(ran.out.contains("deny"), "{}", ran.out);
    assert!(ran.out.contains(".claude/settings.json:1"), "{}", ran.out);
}

#[test]
fn check_counts_rules_by_file_and_decision() {
    let folder = Folder::new("policy-check", &[("haft.toml", ASKS)]);
    let ran = folder.run(["policy", "check", "--quiet"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("haft.toml  1 deny\n"), "{}", ran.out);
    assert!(ran.out.contains("directory not trusted"), "{}", ran.out);
    let json = folder.run(["policy", "check", "--json"]).json();
    assert_eq!(json["files"][0]["deny"], 1);
    assert_eq!(json["trusted"], false);
    assert_eq!(json["notes"].as_array().unwrap().len(), 1);
}

#[test]
fn policy_test_reports_every_example() {
    let folder = Folder::new("policy-test", &[("haft.toml", ASKS)]);
    let ran = folder.run(["policy", "test", "--quiet"]);
    assert_snapshot!(ran.page(), @r"
    exit 0
    --- stdout
    ✓  haft.toml:6  read_note  matches         all rules: deny
    ✓  haft.toml:7  add        does not match  all rules: ask
    2 examples, 0 failed; 0 rules without an example
    ");
    let wrong = ASKS.replace("test.skip = [\"add\"]", "test.skip = [\"read_note\"]");
    let folder = Folder::new("policy-test-wrong", &[("haft.toml", &wrong)]);
    let ran = folder.run(["policy", "test", "--quiet"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("✗  haft.toml:7  read_note  matches, but should not"), "{}", ran.out);
    let json = folder.run(["policy", "test", "--json"]).json();
    assert_eq!((&json["failed"], &json["held"]), (&1.into(), &1.into()), "{json}");
    let call = folder.run(["call", "add", "a=1", "b=2"]);
    assert_eq!((call.code, call.out.as_str()), (Some(1), ""), "a broken promise stops everything");
}

#[test]
fn logged_decisions_become_suggestions() {
    let folder = Folder::new("policy-suggest", &[]);
    let call = |name: &str| {
        let name = format!("name={name}");
        let words = ["call", "write_note", &name, "text=y", "--yes", "--decisions", "d.jsonl"];
        assert_eq!(folder.run(words).code, Some(0));
    };
    call("a");
    call("a");
    let written = lines(&read(&folder.work().join("d.jsonl")));
    assert_eq!(written.len(), 2);
    assert_eq!(written[0]["tool"], "write_note");
    assert_eq!(written[0]["arguments"]["name"], "a");
    assert_eq!(written[0]["decision"], "allow");
    assert_eq!((&written[0]["answer"], &written[0]["by"]), (&"once".into(), &"--yes".into()));
    assert_eq!(written[0]["source"], "the default");
    let ran = folder.run(["policy", "suggest", "--from", "d.jsonl", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let json = ran.json();
    assert_eq!(json["decisions"], 2);
    assert_eq!(json["suggestions"][0]["covers"], 2, "{json}");
    let page = folder.run(["policy", "suggest", "--from", "d.jsonl"]);
    assert!(page.out.contains("[[rule]]\nmatch = \"write_note"), "{page:?}");
    std::fs::rename(folder.work().join("d.jsonl"), folder.work().join("e.jsonl")).unwrap();
    assert!(folder.run(["policy", "suggest", "--from", "d.jsonl"]).err.contains("e.jsonl"));
}

#[test]
fn invalid_decision_line_is_reported_with_its_number() {
    let line = "{\"tool\": \"x\", \"arguments\": {}, \"decision\": \"maybe\"}\n";
    let folder = Folder::new("policy-suggest-bad", &[("d.jsonl", line)]);
    let ran = folder.run(["policy", "suggest", "--from", "d.jsonl"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("line 1 of `d.jsonl` is not a decision"), "{}", ran.err);
}
