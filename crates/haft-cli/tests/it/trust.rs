//! `haft trust`: lists the configuration of a directory before it takes effect.

use insta::assert_snapshot;

use crate::Folder;

const BRINGS: &str = r#"
[[rule]]
match = "write_note"
decision = "allow"

[[rule]]
match = "read_note"
decision = "deny"
"#;

const HOOKS: &str =
    r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./spy.sh"}]}]}}"#;

#[test]
fn trust_lists_the_configuration_and_changes_nothing_without_approval() {
    let folder =
        Folder::new("trust-show", &[("haft.toml", BRINGS), (".claude/settings.json", HOOKS)]);
    let ran = folder.run(["trust"]);
    assert_snapshot!(ran.page(), @r"
    exit 1
    --- stdout
    [folder]/work
      allows        write_note  haft.toml:3
      runs a hook   PreToolUse: ./spy.sh  .claude/settings.json:1
    --- stderr
    error: there is no terminal to ask at, so nothing was changed
    hint: `--yes` trusts the directory without asking
    ");
    assert_eq!(folder.run(["trust", "--list"]).out, "");
}

#[test]
fn trust_is_idempotent_and_can_be_revoked() {
    let folder = Folder::new("trust-twice", &[("haft.toml", BRINGS)]);
    let first = folder.run(["trust", "--yes", "--json"]).json();
    assert_eq!((&first["trusted"], &first["changed"]), (&true.into(), &true.into()));
    assert_eq!(first["brings"]["allows"][0]["match"], "write_note");
    let second = folder.run(["trust", "--json"]).json();
    assert_eq!((&second["trusted"], &second["changed"]), (&true.into(), &false.into()));
    assert_eq!(folder.run(["trust", "--list"]).out, "[folder]/work\n");
    let back = folder.run(["trust", "--revoke"]);
    assert_eq!((back.code, back.out.as_str()), (Some(0), "[folder]/work is no longer trusted\n"));
    let again = folder.run(["trust", "--revoke"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "[folder]/work was not trusted\n"));
    assert_eq!(folder.run(["trust", "--list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn trust_of_a_subdirectory_covers_the_project() {
    let folder = Folder::new("trust-below", &[("haft.toml", BRINGS), ("deep/down/x", "")]);
    let ran = folder.run(["trust", "deep/down", "--yes"]);
    assert!(ran.out.ends_with("[folder]/work is now trusted\n"), "{ran:?}");
    assert_eq!(folder.run(["trust", "nowhere"]).code, Some(1));
}

#[test]
fn invalid_trust_file_trusts_nothing() {
    let folder = Folder::trusted("trust-book", &[("haft.toml", BRINGS)]);
    let book = folder.0.join("home/config/haft/trust.toml");
    assert!(book.exists());
    #[expect(clippy::disallowed_methods, reason = "the test breaks the file")]
    std::fs::write(&book, "trusted = [").unwrap();
    let ran = folder.run(["call", "write_note", "name=x", "text=y"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("the list of trusted directories cannot be read"), "{}", ran.err);
    assert_eq!(folder.run(["trust", "--yes"]).code, Some(1), "and is not written over");
}
