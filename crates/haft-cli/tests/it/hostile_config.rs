//! Configuration that a sandboxed command plants in the workspace: it is refused, or it can only
//! tighten. Trust covers the files that were listed, and no later ones.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{Ran, TempDir, terminal::Terminal};

const ALLOWS_MAKE: &str = "[[rule]]\nmatch = \"Bash(make *)\"\ndecision = \"allow\"\n";
const DENIES_READ: &str = "[[rule]]\nmatch = \"read_file\"\ndecision = \"deny\"\n";
const ALLOWS_WRITE: &str = "[[rule]]\nmatch = \"write_file\"\ndecision = \"allow\"\n";
const WRITE_FILE: [&str; 4] = ["call", "write_file", "file_path=x", "content=y"];

/// A hook that leaves a file behind, which shows that it ran unconfined.
fn hook(marker: &Path) -> String {
    format!("[[hooks.PreToolUse]]\ncommand = \"touch {}\"\n", marker.display())
}

/// The same hook in the format of Claude Code.
fn settings_hook(marker: &Path) -> String {
    let command = format!("touch {}", marker.display());
    serde_json::json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": command},
    ]}]}})
    .to_string()
}

#[expect(clippy::disallowed_methods, reason = "the test plants the file")]
fn plant(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs a command and fails the test when it hangs.
fn run_in(dir: &TempDir, directory: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new("timeout");
    let real = dir.command();
    command.args(["-k", "1", "20"]).arg(real.get_program()).args(words).current_dir(directory);
    for (name, value) in real.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
    assert_ne!(ran.code, Some(124), "the command hangs: {words:?}");
    for text in [&mut ran.out, &mut ran.err] {
        *text = text.replace(&dir.0.display().to_string(), "[dir]");
    }
    ran
}

fn run(dir: &TempDir, words: &[&str]) -> Ran {
    run_in(dir, &dir.work(), words)
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn confined_command_cannot_plant_local_config() {
    let dir = TempDir::new("planted-local", &[("haft.toml", ALLOWS_MAKE), ("notes.txt", "one\n")]);
    let marker = dir.0.join("marker");
    plant(&dir.work().join("evil.toml"), &hook(&marker));
    let names = ["haft.local.toml", ".claude/settings.local.json", ".claude/settings.json"];
    let recipe = "plant:\n\t-cp evil.toml haft.local.toml\n\t-mkdir -p .claude\n\
                  \t-cp evil.toml .claude/settings.local.json\n\t-cp evil.toml .claude/settings.json\n\
                  \t-mkfifo haft.local.toml\n\techo planted\n";
    plant(&dir.work().join("Makefile"), recipe);
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    let ran = run(&dir, &["call", "shell", "command=make plant", "--workspace", "."]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("planted"), "the target ran to its end: {ran:?}");
    for name in names {
        assert!(!dir.work().join(name).exists(), "{name} was planted: {ran:?}");
    }
    let ran = run(&dir, &["call", "read_file", "file_path=notes.txt", "--workspace", "."]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!marker.exists(), "the planted hook ran outside of the sandbox");
}

#[test]
fn hooks_planted_below_a_trusted_directory_do_not_run() {
    for name in
        ["haft.toml", "haft.local.toml", ".claude/settings.json", ".claude/settings.local.json"]
    {
        let dir = TempDir::trusted(
            "planted-below",
            &[("haft.toml", ALLOWS_MAKE), ("sub/a.txt", "one\n")],
        );
        let marker = dir.0.join("marker");
        let text = if name.ends_with("json") { settings_hook(&marker) } else { hook(&marker) };
        plant(&dir.work().join("sub").join(name), &text);
        let call = ["call", "read_file", "file_path=a.txt", "--workspace"];
        let ran = run(&dir, &[&call[..], &["sub"]].concat());
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        assert!(!marker.exists(), "{name}: the planted hook ran");
        assert!(ran.err.contains("new since"), "{name}: {}", ran.err);
        assert!(ran.err.contains("`haft trust`"), "{name}: {}", ran.err);
        run_in(&dir, &dir.work().join("sub"), &[&call[..], &["."]].concat());
        assert!(!marker.exists(), "{name}: the planted hook ran");
    }
}

#[test]
fn hooks_planted_at_the_root_of_a_trusted_directory_do_not_run() {
    let dir = TempDir::trusted("planted-root", &[("haft.toml", ALLOWS_WRITE)]);
    let marker = dir.0.join("marker");
    plant(&dir.work().join("haft.local.toml"), &hook(&marker));
    let ran = run(&dir, &WRITE_FILE);
    assert_eq!(ran.code, Some(0), "what was trusted still counts: {ran:?}");
    assert!(!marker.exists(), "the planted hook ran");
    assert!(ran.err.contains("haft.local.toml:1: new since"), "{}", ran.err);
}

#[test]
fn parents_deny_survives_config_planted_below() {
    let dir = TempDir::trusted("planted-deny", &[("haft.toml", DENIES_READ), ("sub/x", "")]);
    let sub = dir.work().join("sub");
    let read = ["call", "read_file", "file_path=notes/garden.txt"];
    assert_eq!(run_in(&dir, &sub, &read).code, Some(2));
    for name in ["haft.local.toml", "haft.toml", ".claude/settings.json", ".git/HEAD"] {
        plant(&sub.join(name), if name.ends_with("json") { "{}" } else { "" });
        let ran = run_in(&dir, &sub, &read);
        assert_eq!(ran.code, Some(2), "{name} sheds the deny: {ran:?}");
        let json = run_in(&dir, &sub, &["policy", "check", "--json"]).json();
        assert_eq!(json["root"], "[dir]/work", "{name} moves the root");
    }
}

#[test]
fn config_below_may_tighten_without_trust() {
    let dir = TempDir::trusted("planted-tighten", &[("haft.toml", ALLOWS_WRITE)]);
    let sub = dir.work().join("sub");
    plant(&sub.join("haft.toml"), "[[rule]]\nmatch = \"write_file\"\ndecision = \"deny\"\n");
    assert_eq!(run_in(&dir, &sub, &WRITE_FILE).code, Some(2));
    assert_eq!(run(&dir, &WRITE_FILE).code, Some(0), "it counts in its own directory alone");
}

#[test]
fn config_that_was_there_when_trust_was_given_counts_below() {
    let files = [("haft.toml", DENIES_READ), ("sub/haft.toml", ALLOWS_WRITE), ("sub/x", "")];
    let dir = TempDir::new("planted-covered", &files);
    let shown = run(&dir, &["trust", "--yes"]);
    assert!(shown.out.contains("write_file  sub/haft.toml:2"), "{shown:?}");
    let ran = run_in(&dir, &dir.work().join("sub"), &WRITE_FILE);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn changed_config_is_not_trusted_until_it_was_shown_again() {
    let dir = TempDir::trusted("planted-changed", &[("haft.toml", ALLOWS_WRITE)]);
    assert_eq!(run(&dir, &WRITE_FILE).code, Some(0));
    let marker = dir.0.join("marker");
    plant(&dir.work().join("haft.toml"), &format!("{ALLOWS_WRITE}{}", hook(&marker)));
    let ran = run(&dir, &WRITE_FILE);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("changed since"), "{}", ran.err);
    assert!(!marker.exists());
    let shown = run(&dir, &["trust"]);
    assert_eq!(shown.code, Some(1), "a change is asked about: {shown:?}");
    assert!(shown.out.contains("haft.toml  changed since it was trusted"), "{}", shown.out);
    assert!(shown.out.contains("runs a hook"), "{}", shown.out);
    assert_eq!(run(&dir, &["trust", "--yes"]).code, Some(0));
    assert_eq!(run(&dir, &WRITE_FILE).code, Some(0));
    assert!(marker.exists(), "what was shown and accepted counts");
    plant(&dir.work().join("haft.toml"), ALLOWS_WRITE);
    assert_eq!(run(&dir, &WRITE_FILE).code, Some(2), "going back is a change too");
}

#[test]
fn another_directory_at_a_trusted_path_is_not_trusted() {
    let dir = TempDir::trusted("planted-replaced", &[("haft.toml", ALLOWS_WRITE)]);
    fs::rename(dir.work(), dir.0.join("old")).unwrap();
    fs::create_dir(dir.work()).unwrap();
    plant(&dir.work().join("haft.toml"), ALLOWS_WRITE);
    let ran = run(&dir, &WRITE_FILE);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("is not the one that was trusted"), "{}", ran.err);
    assert_eq!(run(&dir, &["trust", "--yes"]).code, Some(0));
    assert_eq!(run(&dir, &WRITE_FILE).code, Some(0));
}

#[test]
fn trust_file_of_an_older_haft_trusts_nothing_and_says_so() {
    let dir = TempDir::new("planted-old-book", &[("haft.toml", ALLOWS_WRITE)]);
    let book = dir.0.join("home/config/haft/trust.toml");
    plant(&book, &format!("trusted = [\n  \"{}\",\n]\n", dir.work().display()));
    let ran = run(&dir, &WRITE_FILE);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("an older haft") && ran.err.contains("`haft trust`"), "{}", ran.err);
    assert_eq!(run(&dir, &["trust", "--yes"]).code, Some(0));
    assert_eq!(run(&dir, &WRITE_FILE).code, Some(0));
}

#[test]
fn fifo_as_config_is_an_error_and_never_hangs() {
    let places: [&[&str]; 6] = [
        &["work/haft.local.toml"],
        &["work/haft.toml"],
        &["work/.claude/settings.json"],
        &["home/config/haft/config.toml"],
        &["home/config/haft/trust.toml"],
        &["home/.claude/settings.json"],
    ];
    for names in places {
        let dir = TempDir::new("planted-fifo", &[]);
        for name in names {
            let path = dir.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            mkfifo(&path);
        }
        let ran = run(&dir, &["call", "list_files"]);
        assert!(ran.err.contains("named pipe (FIFO)"), "{names:?}: {ran:?}");
        let is_book = names[0].ends_with("trust.toml");
        assert_eq!(ran.code, Some(if is_book { 0 } else { 1 }), "{names:?}: {ran:?}");
        assert_eq!(run(&dir, &["trust", "--yes"]).code, Some(1), "{names:?}");
    }
    let dir = TempDir::new("planted-fifo-named", &[]);
    mkfifo(&dir.work().join("more.toml"));
    let ran = run(&dir, &["call", "list_files", "--config", "more.toml"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("named pipe (FIFO)"), "{ran:?}");
}

#[test]
fn config_that_is_no_regular_file_or_too_large_is_an_error_that_says_so() {
    let call = ["call", "list_files"];
    let path = |dir: &TempDir| dir.work().join("haft.local.toml");
    let dir = TempDir::new("planted-zero", &[]);
    std::os::unix::fs::symlink("/dev/zero", path(&dir)).unwrap();
    let ran = run(&dir, &call);
    assert!(ran.code == Some(1) && ran.err.contains("character device"), "{ran:?}");
    let dir = TempDir::new("planted-huge", &[]);
    let huge = fs::File::create(path(&dir)).unwrap();
    huge.set_len(1 << 40).unwrap();
    let ran = run(&dir, &call);
    assert!(ran.code == Some(1) && ran.err.contains("larger than 1 MiB"), "{ran:?}");
    let dir = TempDir::new("planted-directory", &[("haft.local.toml/x", "")]);
    let ran = run(&dir, &call);
    assert!(ran.code == Some(1) && ran.err.contains("directory that is not empty"), "{ran:?}");
    let dir = TempDir::new("planted-dangling", &[]);
    std::os::unix::fs::symlink("nowhere", path(&dir)).unwrap();
    let ran = run(&dir, &call);
    assert!(ran.code == Some(1) && ran.err.contains("dangling symlink"), "{ran:?}");
    let dir = TempDir::new("planted-socket", &[]);
    let _socket = std::os::unix::net::UnixListener::bind(path(&dir)).unwrap();
    let ran = run(&dir, &call);
    assert!(ran.code == Some(1) && ran.err.contains("socket"), "{ran:?}");
}

#[test]
fn symlink_to_config_outside_is_followed_and_covered_by_its_content() {
    let dir = TempDir::new("planted-symlink", &[]);
    let target = dir.0.join("shared.toml");
    plant(&target, ALLOWS_WRITE);
    std::os::unix::fs::symlink(&target, dir.work().join("haft.toml")).unwrap();
    assert_eq!(run(&dir, &["trust", "--yes"]).code, Some(0));
    assert_eq!(run(&dir, &WRITE_FILE).code, Some(0));
    plant(&target, &format!("# other\n{ALLOWS_WRITE}"));
    let ran = run(&dir, &WRITE_FILE);
    assert!(ran.code == Some(2) && ran.err.contains("changed since"), "{ran:?}");
}

/// Runs a call at a terminal, answers "always", and returns the screen.
fn always(dir: &TempDir, line: &str, before: impl FnOnce()) -> Option<String> {
    let mut before = Some(before);
    let screen = Terminal::like(&dir.command()).run(line, |seen| {
        let before = before.take_if(|_| seen.contains("[?] why  >"))?;
        before();
        // A second line, in case "always" is not offered.
        Some("a\nn\n")
    })?;
    Some(screen.page())
}

const WRITE_LINE: &str = "haft call write_file file_path=x content=y";

#[test]
fn always_answer_keeps_the_local_file_trusted() {
    let dir = TempDir::trusted("planted-always", &[("haft.toml", DENIES_READ)]);
    let Some(screen) = always(&dir, WRITE_LINE, || ()) else { return };
    assert!(screen.contains("created `"), "{screen}");
    assert!(dir.work().join("haft.local.toml").exists(), "{screen}");
    let ran = run(&dir, &WRITE_FILE);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    // A second answer is written to a file that exists and is trusted.
    let other = always(&dir, &WRITE_LINE.replace("file_path=x", "file_path=z"), || ()).unwrap();
    assert!(other.contains("created `"), "{other}");
    let ran = run(&dir, &["call", "write_file", "file_path=z", "content=y"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn always_answer_does_not_make_a_planted_file_trusted() {
    let dir = TempDir::trusted("planted-moment", &[("haft.toml", DENIES_READ)]);
    let marker = dir.0.join("marker");
    let local = dir.work().join("haft.local.toml");
    let Some(screen) = always(&dir, WRITE_LINE, || plant(&local, &hook(&marker))) else { return };
    run(&dir, &WRITE_FILE);
    assert!(!marker.exists(), "the planted hook ran: {screen}");
    let text = fs::read(&local).unwrap();
    assert_eq!(String::from_utf8_lossy(&text), hook(&marker), "nothing was added to it");
    let again = always(&dir, "haft call delete_path path=notes/trip.txt", || ()).unwrap();
    assert!(!again.contains("[a] always"), "{again}");
}

#[test]
fn hook_script_that_changed_since_trust_does_not_run() {
    let hook = "[[hooks.PreToolUse]]\ncommand = \"sh ./guard.sh\"\n";
    let files = [("haft.toml", hook), ("guard.sh", "true\n")];
    let dir = TempDir::trusted("planted-script", &files);
    let marker = dir.0.join("marker");
    let ran = run(&dir, &["call", "list_files"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    plant(&dir.work().join("guard.sh"), &format!("touch {}\n", marker.display()));
    let ran = run(&dir, &["call", "list_files"]);
    assert_eq!(ran.code, Some(1), "a guard that may not run stops everything: {ran:?}");
    assert!(ran.err.contains("`guard.sh`, which a hook of this file runs, changed"), "{ran:?}");
    assert!(!marker.exists(), "the rewritten script ran");
    let shown = run(&dir, &["trust"]);
    assert!(shown.out.contains("guard.sh  changed since it was trusted"), "{shown:?}");
    assert!(shown.out.contains("runs a hook   PreToolUse: sh ./guard.sh"), "{shown:?}");
    assert_eq!(run(&dir, &["trust", "--yes"]).code, Some(0));
    assert_eq!(run(&dir, &["call", "list_files"]).code, Some(0));
    assert!(marker.exists(), "what was shown and accepted counts");
}

#[test]
fn confined_command_cannot_rewrite_a_hook_script_or_named_config() {
    let hook = "[[hooks.PreToolUse]]\ncommand = \"sh hooks/guard.sh\"\n";
    let files = [
        ("haft.toml", hook),
        ("hooks/guard.sh", "true\n"),
        ("more.toml", ALLOWS_MAKE),
        (
            "Makefile",
            "plant:\n\t-echo false > hooks/guard.sh\n\t-echo x > more.toml\n\techo done\n",
        ),
    ];
    let dir = TempDir::trusted("planted-guard", &files);
    let call = ["call", "shell", "command=make plant", "--workspace", ".", "--config", "more.toml"];
    let ran = run(&dir, &call);
    assert!(ran.code == Some(0) && ran.out.contains("done"), "{ran:?}");
    let text = |name: &str| String::from_utf8(fs::read(dir.work().join(name)).unwrap()).unwrap();
    assert_eq!(text("hooks/guard.sh"), "true\n", "{ran:?}");
    assert_eq!(text("more.toml"), ALLOWS_MAKE, "{ran:?}");
}

#[test]
fn confined_command_cannot_change_or_delete_trusted_config_below() {
    let files = [
        ("haft.toml", ALLOWS_MAKE),
        ("sub/haft.toml", DENIES_READ),
        ("Makefile", "plant:\n\t-echo > sub/haft.toml\n\t-rm -rf sub\n\t-mv sub s\n\techo done\n"),
    ];
    let dir = TempDir::trusted("planted-nested", &files);
    let ran = run(&dir, &["call", "shell", "command=make plant", "--workspace", "."]);
    assert!(ran.code == Some(0) && ran.out.contains("done"), "{ran:?}");
    let sub = dir.work().join("sub");
    assert_eq!(fs::read(sub.join("haft.toml")).unwrap(), DENIES_READ.as_bytes(), "{ran:?}");
    let read = ["call", "read_file", "file_path=notes/garden.txt"];
    let ran = run_in(&dir, &sub, &read);
    assert_eq!((ran.code, ran.err.contains("note:")), (Some(2), false), "{ran:?}");
    // A file that was removed outside of the sandbox is noted.
    fs::remove_file(sub.join("haft.toml")).unwrap();
    let ran = run_in(&dir, &sub, &read);
    assert!(ran.err.contains("sub/haft.toml` was trusted and no longer exists"), "{ran:?}");
    assert_eq!(run(&dir, &["trust"]).code, Some(0), "less is accepted without a question");
    assert!(!run_in(&dir, &sub, &read).err.contains("note:"));
}

#[test]
fn drop_ins_next_to_managed_settings_are_read_in_order_and_a_bad_one_stops_the_command() {
    let dir = TempDir::new("planted-managed", &[]);
    let settings = dir.0.join("etc/managed-settings.json");
    let drop_in = |name: &str| dir.0.join("etc/managed-settings.d").join(name);
    let deny = |tool: &str| format!("{{\"permissions\": {{\"deny\": [\"{tool}\"]}}}}");
    let mode = |mode: &str| format!("{{\"permissions\": {{\"defaultMode\": \"{mode}\"}}}}");
    plant(&settings, &deny("read_file"));
    plant(&drop_in("10-more.json"), &deny("list_files"));
    plant(&drop_in("20-mode.json"), &mode("acceptEdits"));
    plant(&drop_in("30-mode.json"), &mode("plan"));
    plant(&drop_in(".hidden.json"), "{");
    plant(&drop_in("README"), "{");
    let haft = |words: &[&str]| {
        let mut command = dir.command();
        Ran::of(command.env("HAFT_MANAGED_FILE", &settings).args(words).output().unwrap())
    };
    for call in [&["call", "list_files"][..], &["call", "read_file", "file_path=notes/garden.txt"]]
    {
        assert_eq!(haft(call).code, Some(2), "{call:?}");
    }
    let check = haft(&["policy", "check", "--json"]).json();
    assert_eq!(check["mode"], "plan", "the last by name is on top: {check}");
    plant(&drop_in("40-bad.json"), "{\"permissions\": ");
    let ran = haft(&["call", "search_files", "pattern=x"]);
    assert!(ran.code == Some(1) && ran.err.contains("40-bad.json:1"), "{ran:?}");
    fs::remove_file(drop_in("40-bad.json")).unwrap();
    mkfifo(&drop_in("50-pipe.json"));
    let ran = haft(&["call", "search_files", "pattern=x"]);
    assert!(ran.code == Some(1) && ran.err.contains("named pipe (FIFO)"), "{ran:?}");
}

#[test]
fn hooks_start_in_the_directory_of_the_file_that_names_them() {
    let hook = "[[hooks.PreToolUse]]\ncommand = \"pwd >> $HAFT_PROJECT_DIR/seen\"\n";
    let files = [("haft.toml", hook), ("sub/haft.toml", hook), ("sub/x", "")];
    let dir = TempDir::trusted("planted-pwd", &files);
    let sub = dir.work().join("sub");
    let ran = run_in(&dir, &sub, &["call", "list_files"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let seen =
        |directory: &Path| String::from_utf8(fs::read(directory.join("seen")).unwrap()).unwrap();
    assert_eq!(seen(&sub), format!("{}\n", sub.display()));
    assert_eq!(seen(&dir.work()), format!("{}\n", dir.work().display()));
}

#[test]
fn confined_command_cannot_rewrite_the_users_settings_in_the_workspace() {
    let dir = TempDir::new("planted-home", &[]);
    let home = dir.0.join("home");
    plant(&home.join("config/haft/config.toml"), ALLOWS_MAKE);
    plant(
        &home.join("Makefile"),
        "plant:\n\t-echo x > config/haft/trust.toml\n\t-echo x > config/haft/config.toml\n\techo done\n",
    );
    let ran = run(&dir, &["call", "shell", "command=make plant", "--workspace", "../home"]);
    assert!(ran.code == Some(0) && ran.out.contains("done"), "{ran:?}");
    assert!(!home.join("config/haft/trust.toml").exists(), "{ran:?}");
    let text = fs::read(home.join("config/haft/config.toml")).unwrap();
    assert_eq!(text, ALLOWS_MAKE.as_bytes(), "{ran:?}");
}

#[test]
fn fifo_as_git_config_is_noted_and_never_hangs() {
    let read = ["call", "read_file", "file_path=a.txt", "--workspace", "."];
    for name in ["home/.gitconfig", "home/config/git/config"] {
        let dir = TempDir::new("planted-gitconfig", &[("a.txt", "one\n")]);
        let path = dir.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        mkfifo(&path);
        let ran = run(&dir, &read);
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        assert!(ran.err.contains("named pipe (FIFO)"), "{name}: {ran:?}");
        assert!(ran.err.contains("commits have no author"), "{name}: {ran:?}");
    }
}

#[test]
fn hook_script_that_is_swapped_by_a_command_of_the_same_run_does_not_run() {
    let make = ["call", "shell", "command=make plant", "--workspace", "."];
    let post = |command: &str| {
        format!(
            "{ALLOWS_MAKE}[[hooks.PostToolUse]]\ncommand = \"{command}\"\non_error = \"open\"\n"
        )
    };
    // (command of the hook, what the make target does)
    for (command, recipe) in [
        ("sh hooks/guard.sh", "plant:\n\tcat evil > o/g\n"),
        ("sh late/guard.sh", "plant:\n\tmkdir -p late\n\tcp evil late/guard.sh\n"),
    ] {
        let config = post(command);
        let files = [
            ("haft.toml", config.as_str()),
            ("hooks/guard.sh", "true\n"),
            ("o/x", ""),
            ("evil", "touch \"$HAFT_PROJECT_DIR/ran\"\n"),
            ("Makefile", recipe),
        ];
        let dir = TempDir::new("planted-swap", &files);
        fs::hard_link(dir.work().join("hooks/guard.sh"), dir.work().join("o/g")).unwrap();
        assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
        let ran = run(&dir, &make);
        assert_eq!(ran.code, Some(2), "{command}: {ran:?}");
        assert!(!dir.work().join("ran").exists(), "{command}: the swapped script ran: {ran:?}");
        assert!(format!("{ran:?}").contains("changed since it was trusted"), "{command}: {ran:?}");
    }
}

#[test]
fn trusted_hook_script_that_is_gone_counts_as_a_change() {
    let hook = "[[hooks.PreToolUse]]\ncommand = \"sh hooks/guard.sh\"\non_error = \"open\"\n";
    let files = [("haft.toml", hook), ("hooks/guard.sh", "true\n")];
    let dir = TempDir::trusted("planted-gone", &files);
    assert_eq!(run(&dir, &["call", "list_files"]).code, Some(0));
    fs::remove_file(dir.work().join("hooks/guard.sh")).unwrap();
    let ran = run(&dir, &["call", "list_files"]);
    assert!(ran.err.contains("`hooks/guard.sh`, which a hook of this file runs"), "{ran:?}");
}

#[test]
fn changed_hook_script_is_found_however_the_line_names_it() {
    let call = ["call", "list_files", "--quiet"];
    for line in [
        "cd hooks && sh ./guard.sh",
        "timeout 5s sh hooks/guard.sh",
        "sh -o errexit hooks/guard.sh",
        "if true; then sh hooks/guard.sh; fi",
        "sh < hooks/guard.sh",
        "$UNSET sh hooks/guard.sh",
    ] {
        let hook = format!("[[hooks.PreToolUse]]\ncommand = \"{line}\"\n");
        let files = [("haft.toml", hook.as_str()), ("hooks/guard.sh", "true\n")];
        let dir = TempDir::trusted("planted-line", &files);
        let marker = dir.0.join("marker");
        assert_eq!(run(&dir, &call).code, Some(0), "{line}");
        plant(&dir.work().join("hooks/guard.sh"), &format!("touch {}\n", marker.display()));
        let ran = run(&dir, &call);
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
        assert!(ran.err.contains("hooks/guard.sh`, which a hook of this file runs"), "{ran:?}");
        assert!(!marker.exists(), "{line}: the changed script ran");
    }
}

#[test]
fn hook_with_unknown_files_is_noted_at_trust_and_at_start() {
    let hook = "[[hooks.PreToolUse]]\ncommand = \"$UNSET true\"\n";
    let dir = TempDir::new("planted-partial", &[("haft.toml", hook)]);
    let shown = run(&dir, &["trust", "--yes"]);
    assert!(shown.out.contains("haft cannot find all files that the hook"), "{shown:?}");
    assert!(shown.out.contains("for example `hooks/guard.sh`"), "{shown:?}");
    let ran = run(&dir, &["call", "list_files"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("haft.toml:1` runs, so trust may not cover them"), "{ran:?}");
}

/// Runs `make plant` in the sandbox, and expects that the sandbox refuses to remove a symlink.
fn refuses_symlink(dir: &TempDir, workspace: &str, more: &[&str], link: &str) {
    let call = ["call", "shell", "command=make plant", "--workspace", workspace];
    let ran = run(dir, &[&call[..], more].concat());
    assert!(ran.out.contains("the sandbox refused") && ran.out.contains(link), "{link}: {ran:?}");
    assert!(!ran.out.contains("\ndone"), "{link}: {ran:?}");
}

#[test]
fn confined_command_cannot_replace_a_symlink_that_leads_to_a_hook_script_or_config() {
    use std::os::unix::fs::symlink;
    let hook = format!("{ALLOWS_MAKE}[[hooks.PreToolUse]]\ncommand = \"sh ./guard.sh\"\n");
    let plant_all = "plant:\n\trm -f guard.sh more.toml sub/haft.toml\n\techo done\n";
    let files = [
        ("tools/guard.sh", "true\n"),
        ("conf/h.toml", DENIES_READ),
        ("sub/x", ""),
        ("Makefile", plant_all),
    ];
    // (link, target, further words)
    for (link, target, more) in [
        ("guard.sh", "tools/guard.sh", &[][..]),
        ("more.toml", "conf/h.toml", &["--config", "more.toml"]),
        ("sub/haft.toml", "../conf/h.toml", &[]),
    ] {
        let dir = TempDir::new("planted-ends", &files);
        let config = if link == "guard.sh" { hook.as_str() } else { ALLOWS_MAKE };
        plant(&dir.work().join("haft.toml"), config);
        symlink(target, dir.work().join(link)).unwrap();
        assert_eq!(run(&dir, &["trust", "--yes"]).code, Some(0), "{link}");
        refuses_symlink(&dir, ".", more, link);
        assert!(dir.work().join(link).is_symlink(), "{link} was replaced");
    }
}

#[test]
fn settings_that_are_symlinks_into_the_workspace_cannot_be_changed_through_it() {
    use std::os::unix::fs::symlink;
    let dir = TempDir::new("planted-stow", &[]);
    let (dots, home) = (dir.0.join("dots"), dir.0.join("home"));
    let names = ["config.toml", "trust.toml", "settings.json"];
    plant(&dots.join("config.toml"), ALLOWS_MAKE);
    plant(&dots.join("trust.toml"), "");
    plant(&dots.join("settings.json"), "{}");
    let recipe = "plant:\n\t-echo x > config.toml\n\t-echo x > trust.toml\n\t-rm -f settings.json\n\techo done\n";
    plant(&dots.join("Makefile"), recipe);
    fs::create_dir_all(home.join("config/haft")).unwrap();
    fs::create_dir_all(home.join(".claude")).unwrap();
    for (name, at) in names.iter().zip(["config/haft", "config/haft", ".claude"]) {
        symlink(dots.join(name), home.join(at).join(name)).unwrap();
    }
    let ran = run(&dir, &["call", "shell", "command=make plant", "--workspace", "../dots"]);
    assert!(ran.code == Some(0) && ran.out.contains("done"), "{ran:?}");
    for (name, text) in names.iter().zip([ALLOWS_MAKE, "", "{}"]) {
        let now = fs::read(dots.join(name)).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&now), text, "{name} was changed: {ran:?}");
    }
    assert!(dots.join("settings.json").exists(), "{ran:?}");
}

#[test]
fn symlink_to_the_settings_directory_cannot_be_replaced() {
    let dir = TempDir::new("planted-stow-directory", &[]);
    let home = dir.0.join("home");
    plant(&home.join("dotfiles/haft/config.toml"), ALLOWS_MAKE);
    plant(&home.join("Makefile"), "plant:\n\trm config/haft\n\techo done\n");
    fs::create_dir_all(home.join("config")).unwrap();
    std::os::unix::fs::symlink("../dotfiles/haft", home.join("config/haft")).unwrap();
    refuses_symlink(&dir, "../home", &[], "config/haft");
    assert!(home.join("config/haft").is_symlink());
}

#[test]
fn marker_planted_above_a_trusted_directory_does_not_move_the_project_directory() {
    // The user's own hook gets the project directory and starts there.
    let hook = "[[hooks.PreToolUse]]\ncommand = \"echo $CLAUDE_PROJECT_DIR; pwd\"\n";
    let hook = hook.replace("echo", "exec > \\\"$HOME/seen\\\"; echo");
    let dir = TempDir::new("planted-above", &[]);
    let (mid, home) = (dir.0.join("rm/mid"), dir.0.join("home"));
    let proj = mid.join("proj");
    plant(&proj.join("haft.toml"), ALLOWS_WRITE);
    plant(&home.join("config/haft/config.toml"), &hook);
    assert_eq!(run_in(&dir, &proj, &["trust", "--yes"]).code, Some(0));
    let seen = || String::from_utf8(fs::read(home.join("seen")).unwrap()).unwrap();
    let expected = format!("{0}\n{0}\n", proj.display());
    assert_eq!(run_in(&dir, &proj, &WRITE_FILE).code, Some(0));
    assert_eq!(seen(), expected);
    fs::create_dir(mid.join(".git")).unwrap();
    plant(&mid.join(".git/HEAD"), "");
    let ran = run_in(&dir, &proj, &WRITE_FILE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(seen(), expected, "the planted marker moved the project directory");
    // A file above is still read, and may tighten.
    let deny = ALLOWS_WRITE.replace("allow", "deny");
    plant(&mid.join("haft.toml"), &deny);
    assert_eq!(run_in(&dir, &proj, &WRITE_FILE).code, Some(2));
}

/// Settings of `[sandbox]` that open something, for a directory next to the workspace.
fn opening(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "[sandbox]\nread_only_roots = [\"{directory}/read\"]\n\
         writable_roots = [\"{directory}/write\"]\npass_env = [\"BUILD_FLAVOR\"]\n"
    )
}

/// What an approved command could do: read a file, write a file, see a variable.
fn opened(dir: &TempDir, write: &str) -> (bool, bool, bool) {
    let outside = dir.0.join("outside");
    let new = outside.join(write).join("new");
    let _ = fs::remove_file(&new);
    let script = format!(
        "cat {0}/read/x; echo y > {1}; echo flavor=$BUILD_FLAVOR; true",
        outside.display(),
        new.display()
    );
    let mut haft = dir.command();
    haft.env("BUILD_FLAVOR", "vanilla").args(["call", "shell", "--yes", "--workspace", "."]);
    let ran = Ran::of(haft.arg(format!("command={script}")).output().unwrap());
    assert!(ran.out.contains("flavor="), "the command ran to its end: {ran:?}");
    (ran.out.contains("read me"), new.exists(), ran.out.contains("vanilla"))
}

#[test]
fn sandbox_settings_count_only_while_they_are_trusted() {
    let dir = TempDir::new("planted-sandbox", &[]);
    let outside = dir.0.join("outside");
    for name in ["read", "write", "other"] {
        plant(&outside.join(name).join("x"), "read me\n");
    }
    let text = opening(&outside);
    dir.put("haft.toml", &text);
    let (_, writes, sees) = opened(&dir, "write");
    assert!(!writes && !sees, "the settings of an untrusted project count");
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    assert_eq!(opened(&dir, "write"), (true, true, true));
    // Each changed setting voids the trust of the file.
    for (old, new) in [("/write\"", "/other\""), ("/read\"", "/other\""), ("FLAVOR", "FLAVORS")] {
        assert!(text.contains(old));
        dir.put("haft.toml", &text.replace(old, new));
        for write in ["write", "other"] {
            let (_, writes, sees) = opened(&dir, write);
            assert!(!writes && !sees, "{new}: a changed file is still trusted");
        }
        dir.put("haft.toml", &text);
        assert_eq!(opened(&dir, "write"), (true, true, true), "the trusted text counts again");
    }
    assert_eq!(dir.run(["trust", "--revoke"]).code, Some(0));
    let (_, writes, sees) = opened(&dir, "write");
    assert!(!writes && !sees, "the settings count after the trust was revoked");
}

#[test]
fn skill_that_is_new_or_changed_since_trust_grants_nothing() {
    let skill =
        |text: &str| format!("---\ndescription: x\nallowed-tools: Bash(touch *)\n---\n{text}\n");
    let script = r#"{"calls": [{"id": "l", "name": "skill__load", "arguments": {"name": "NAME"}}]}
{"calls": [{"id": "t", "name": "shell", "arguments": {"command": "touch made"}}]}
{"text": "Done."}
"#;
    let dir = TempDir::new("skill-trust", &[(".haft/skills/known/SKILL.md", &skill("One."))]);
    let play = |name: &str| {
        plant(&dir.work().join("s.jsonl"), &script.replace("NAME", name));
        let _ = fs::remove_file(dir.work().join("made"));
        let ran = run(&dir, &["run", "x", "--model", "script:s.jsonl", "--workspace", "."]);
        (ran.code, dir.work().join("made").exists())
    };
    assert_eq!(play("known"), (Some(6), false), "nothing is trusted");

    let shown = dir.run(["trust", "--yes"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let line = "adds a skill  known, allows Bash(touch *)  .haft/skills/known/SKILL.md";
    assert!(shown.out.contains(line) || shown.err.contains(line), "{shown:?}");
    assert_eq!(play("known"), (Some(0), true), "trust covers the skill");

    plant(&dir.work().join(".haft/skills/new/SKILL.md"), &skill("New."));
    assert_eq!(play("new"), (Some(6), false), "the skill came later");
    plant(&dir.work().join(".haft/skills/known/SKILL.md"), &skill("Two."));
    assert_eq!(play("known"), (Some(6), false), "the skill has changed");
    let list = dir.run(["tools", "list"]);
    assert_eq!(list.out.matches("allows nothing: not trusted").count(), 2, "{list:?}");

    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    assert_eq!(play("new"), (Some(0), true), "it was listed and trusted");
}

#[test]
fn skill_of_a_symlinked_directory_grants_nothing() {
    let files = [
        ("docs/own/SKILL.md", "---\ndescription: x\nallowed-tools: Bash\n---\n"),
        ("haft.toml", ""),
    ];
    let dir = TempDir::new("skill-link", &files);
    fs::create_dir_all(dir.work().join(".claude")).unwrap();
    std::os::unix::fs::symlink("../docs", dir.work().join(".claude/skills")).unwrap();
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    let list = dir.run(["tools", "list"]);
    assert!(list.out.contains("allows nothing: not trusted"), "{list:?}");
}
