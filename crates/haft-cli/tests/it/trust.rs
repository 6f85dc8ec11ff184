//! `haft trust`: lists the configuration of a directory before it takes effect.

use insta::assert_snapshot;

use crate::TempDir;

const BRINGS: &str = r#"
[[rule]]
match = "write_file"
decision = "allow"

[[rule]]
match = "read_file"
decision = "deny"
"#;

const HOOKS: &str =
    r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./spy.sh"}]}]}}"#;

#[test]
fn trust_lists_the_configuration_and_changes_nothing_without_approval() {
    let dir =
        TempDir::new("trust-show", &[("haft.toml", BRINGS), (".claude/settings.json", HOOKS)]);
    let ran = dir.run(["trust"]);
    assert_snapshot!(ran.page(), @r"
    exit 1
    --- stdout
    [dir]/work
      allows        write_file  haft.toml:3
      runs a hook   PreToolUse: ./spy.sh  .claude/settings.json:1
    --- stderr
    error: there is no terminal to ask at, so nothing was changed
    hint: `--yes` trusts the directory without asking
    ");
    assert_eq!(dir.run(["trust", "--list"]).out, "");
}

const SANDBOX: &str = "[sandbox]\nread_only_roots = [\"/opt/sdk\"]\nwritable_roots = \
                       [\"/var/cache/x\"]\npass_env = [\"BUILD_FLAVOR\"]\ncgroup = \"/sys/fs/cgroup/x\"\n";

#[test]
fn trust_lists_the_sandbox_settings() {
    let project = TempDir::new("trust-sandbox", &[("haft.toml", SANDBOX)]);
    let ran = project.run(["trust"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let wanted = [
        "reads /opt/sdk",
        "writes /var/cache/x",
        "gets variable BUILD_FLAVOR",
        "runs in /sys/fs/cgroup/x",
    ];
    for setting in wanted {
        let line = format!("  for commands  {setting}  haft.toml:");
        assert!(ran.out.contains(&line), "{line:?}: {ran:?}");
    }
    let json = project.run(["trust", "--yes", "--json"]).json();
    let listed = json["brings"]["sandbox"].as_array().unwrap();
    let listed: Vec<&str> = listed.iter().filter_map(|line| line["opens"].as_str()).collect();
    assert_eq!(listed, wanted);
    // A changed setting is listed again, and is not trusted until then.
    project.put("haft.toml", &SANDBOX.replace("/var/cache/x", "/srv"));
    let ran = project.run(["trust"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("changed since it was trusted"), "{ran:?}");
    assert!(ran.out.contains("for commands  writes /srv"), "{ran:?}");
}

#[test]
fn trust_is_idempotent_and_can_be_revoked() {
    let dir = TempDir::new("trust-twice", &[("haft.toml", BRINGS)]);
    let first = dir.run(["trust", "--yes", "--json"]).json();
    assert_eq!((&first["trusted"], &first["changed"]), (&true.into(), &true.into()));
    assert_eq!(first["brings"]["allows"][0]["match"], "write_file");
    let second = dir.run(["trust", "--json"]).json();
    assert_eq!((&second["trusted"], &second["changed"]), (&true.into(), &false.into()));
    assert_eq!(dir.run(["trust", "--list"]).out, "[dir]/work\n");
    let back = dir.run(["trust", "--revoke"]);
    assert_eq!((back.code, back.out.as_str()), (Some(0), "[dir]/work is no longer trusted\n"));
    let again = dir.run(["trust", "--revoke"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "[dir]/work was not trusted\n"));
    assert_eq!(dir.run(["trust", "--list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn trust_of_a_subdirectory_covers_the_project() {
    let dir = TempDir::new("trust-below", &[("haft.toml", BRINGS), ("deep/down/x", "")]);
    let ran = dir.run(["trust", "deep/down", "--yes"]);
    assert!(ran.out.ends_with("[dir]/work is now trusted\n"), "{ran:?}");
    assert_eq!(dir.run(["trust", "nowhere"]).code, Some(1));
}

#[test]
fn invalid_trust_file_trusts_nothing() {
    let dir = TempDir::trusted("trust-book", &[("haft.toml", BRINGS)]);
    let book = dir.0.join("home/config/haft/trust.toml");
    assert!(book.exists());
    #[expect(clippy::disallowed_methods, reason = "the test breaks the file")]
    std::fs::write(&book, "trusted = [").unwrap();
    let ran = dir.run(["call", "write_file", "file_path=x", "content=y"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("the list of trusted directories cannot be read"), "{}", ran.err);
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(1), "and is not written over");
}
