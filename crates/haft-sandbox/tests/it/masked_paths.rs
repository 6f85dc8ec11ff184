//! Paths that rules deny: masked by mounts in tier `namespaces`, a launch error elsewhere.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command as Host, Stdio},
};

use haft_sandbox::{Command, DeniedFiles, Level, Profile, Sandbox, SandboxErrorKind};

use crate::kit::*;

/// Returns the sandbox that can mask paths, `None` if this machine has none.
async fn namespace_sandbox() -> Option<Sandbox> {
    let mut all = sandboxes().await.into_iter();
    all.find(|sandbox| sandbox.tier().level == Level::Namespaces)
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside.join("keys")).unwrap();
    put(&fixture.inside.join("keys/id"), "private");
    put(&fixture.inside.join(".env"), "TOKEN=1");
    fixture
}

fn profile(fixture: &Fixture, read: &[&str], edit: &[&str], new: &[&str]) -> Profile {
    let mut profile = fixture.profile();
    let paths = |names: &[&str]| -> Vec<PathBuf> {
        names.iter().map(|name| fixture.inside.join(name)).collect()
    };
    let pattern = |name: &&str| format!("{}/{name}", fixture.inside.display());
    profile.denied = DeniedFiles {
        read: paths(read),
        edit: paths(edit),
        new: new.iter().map(pattern).collect(),
    };
    profile
}

#[tokio::test]
async fn denied_path_gives_eacces_and_never_looks_empty_or_missing() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    let profile = profile(&fixture, &["keys", ".env"], &[], &["keys/**", ".env"]);
    let script = "exec 2>&1
        for f in .env keys/id; do cat $f; done
        ls keys; ls -a . | grep -cx -e keys -e .env
        for f in .env keys; do [ -e $f ] && echo there; done
        echo x > .env; echo x > keys/new; chmod 777 .env keys; rm -rf .env keys; mv .env e; mv keys k
        mv notes.txt .env; ln .env hard; cat hard; umount .env; cat < notes.txt";
    let ended = sh(&sandbox, profile, script).await;
    let text = out(&ended);
    assert!(!text.contains("private") && !text.contains("TOKEN"), "{text}");
    for line in
        ["cat: .env: Permission denied", "cat: keys/id: Permission denied", "there\nthere\n"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.ends_with("inside"), "{text}");
    assert!(text.lines().any(|line| line == "2"), "both names are listed: {text}");
    assert_eq!(get(&fixture.inside.join(".env")), "TOKEN=1");
    assert_eq!(get(&fixture.inside.join("keys/id")), "private");
    assert!(!fixture.inside.join("hard").exists());
}

#[tokio::test]
async fn denied_path_that_was_moved_before_launch_is_an_error() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    let profile = profile(&fixture, &["keys", "moved"], &[], &[]);
    let error = sandbox.start(Command::shell("true"), profile).await.unwrap_err();
    assert_eq!(error.kind(), haft_sandbox::SandboxErrorKind::Transient, "{error}");
    assert!(error.to_string().contains("moved"), "{error}");
}

#[tokio::test]
async fn denied_paths_are_masked_in_read_only_profiles() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    let profile = profile(&fixture, &["keys", ".env"], &[], &[]).read_only();
    let ended = sh(&sandbox, profile, "cat .env keys/id; ls keys; cat notes.txt").await;
    assert_eq!(out(&ended), "inside");
}

/// Returns whether this process is root of a user namespace with no other user.
fn is_lone_root() -> bool {
    let map = get(Path::new("/proc/self/uid_map"));
    let numbers: Vec<&str> = map.split_ascii_whitespace().collect();
    matches!(numbers.as_slice(), ["0", _, "1"])
}

/// Runs one test as root of a user namespace with no other user.
async fn as_lone_root(test: &str) -> Option<(String, bool)> {
    let own = fs::read_link("/proc/self/ns/user").unwrap();
    let mut child = Host::new("unshare")
        .args(["-U", "sh", "-c", "read go; exec \"$@\" 2>&1", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let at = |name: &str| format!("/proc/{}/{name}", child.id());
    for _ in 0..400 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        if fs::read_link(at("ns/user")).is_ok_and(|there| there != own) {
            break;
        }
    }
    let map = |name: &str| {
        let mut file = fs::File::options().write(true).open(at(name))?;
        file.write_all(b"0 0 1")
    };
    if map("uid_map").and_then(|()| map("gid_map")).is_err() {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()))
}

#[tokio::test]
async fn denied_paths_are_masked_for_uid_0_without_capabilities() {
    const DONE: &str = "uid 0 was denied";
    if !is_lone_root() {
        match as_lone_root("masked_paths::denied_paths_are_masked_for_uid_0_without_capabilities")
            .await
        {
            Some((text, is_success)) => assert!(is_success && text.contains(DONE), "{text}"),
            None => eprintln!("NOT TESTED: only root can map one user to a new namespace"),
        }
        return;
    }
    let Some(sandbox) = namespace_sandbox().await else {
        return eprintln!("{DONE}, or there is no tier A");
    };
    let fixture = fixture();
    let profile = profile(&fixture, &["keys", ".env"], &[], &["keys/**", ".env"]);
    let script = "id -u; cat .env keys/id; ls keys; chmod 777 .env keys; cat .env; exit 0";
    let ended = sh(&sandbox, profile, script).await;
    assert_eq!(out(&ended), "0\n", "{}", err(&ended));
    assert_eq!(get(&fixture.inside.join(".env")), "TOKEN=1");
    eprintln!("{DONE}");
}

#[tokio::test]
async fn path_denied_for_edits_is_read_only() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    let before = snapshot(&fixture.inside);
    let profile = profile(&fixture, &[], &["keys", ".env"], &["keys/**", ".env"]);
    let script = "cat keys/id .env
        echo x > .env; echo x >> keys/id; echo x > keys/new; rm -rf keys .env; mv keys k; mv .env e
        chmod 777 .env; truncate -s 0 keys/id; exit 0";
    let ended = sh(&sandbox, profile, script).await;
    assert_eq!(out(&ended), "privateTOKEN=1");
    assert_eq!(snapshot(&fixture.inside), before);
}

#[tokio::test]
async fn symlink_and_hard_link_cannot_bypass_a_mask() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    symlink(".env", fixture.inside.join("to-env")).unwrap();
    symlink("keys", fixture.inside.join("to-keys")).unwrap();
    symlink("notes.txt", fixture.inside.join("denied-link")).unwrap();
    fs::hard_link(fixture.inside.join(".env"), fixture.inside.join("same")).unwrap();
    let profile = profile(&fixture, &["keys", ".env", "same", "denied-link"], &[], &[]);
    let script = "cat to-env to-keys/id same denied-link; echo x > to-env; cat notes.txt";
    let ended = sh(&sandbox, profile, script).await;
    assert_eq!(out(&ended), "inside", "{}", err(&ended));
    assert_eq!(get(&fixture.inside.join(".env")), "TOKEN=1");
}

#[tokio::test]
async fn renaming_a_parent_directory_cannot_bypass_a_mask() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    fs::create_dir_all(fixture.inside.join("conf/prod")).unwrap();
    fs::create_dir_all(fixture.inside.join("app/src")).unwrap();
    put(&fixture.inside.join("conf/prod/key"), "anchored");
    put(&fixture.inside.join("app/src/.env"), "floating");
    let denied = ["conf/prod/key", "app/src/.env"];
    let profile = profile(&fixture, &denied, &[], &["conf/prod/key", "**/.env"]);
    let script = "mv conf conf2 && echo moved-conf; mv conf/prod p && echo moved-prod
        mv app app2 && cat app2/src/.env
        cat conf/prod/key conf2/prod/key p/key; exit 0";
    let ended = sh(&sandbox, profile, script).await;
    assert_eq!(out(&ended), "", "{}", err(&ended));
    assert_eq!(get(&fixture.inside.join("conf/prod/key")), "anchored", "it keeps its denied name");
    // The pattern applies to the new name as to the old one.
    assert_eq!(get(&fixture.inside.join("app2/src/.env")), "floating");
}

#[tokio::test]
async fn mask_ends_with_its_command_and_leaves_no_files() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    let before = snapshot(&fixture.inside);
    let denied = profile(&fixture, &["keys", ".env"], &[], &["keys/**", ".env"]);
    let ended = sh(&sandbox, denied, "ls -a /tmp; cat .env").await;
    assert!(!out(&ended).contains("haft"), "{}", out(&ended));
    assert_eq!(snapshot(&fixture.inside), before);
    let ended = sh(&sandbox, fixture.profile(), "cat .env").await;
    assert_eq!(out(&ended), "TOKEN=1");
}

#[tokio::test]
async fn file_that_the_host_creates_during_the_run_is_not_masked() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    let profile = profile(&fixture, &["keys"], &[], &["keys/**", "late.env"]);
    let script = "echo ready; while [ ! -e late.env ]; do sleep 0.02; done; cat late.env";
    let command = Command::shell(script).deadline(std::time::Duration::from_secs(20));
    let mut running = sandbox.start(command, profile).await.unwrap();
    running.next().await.unwrap();
    put(&fixture.inside.join("late.env"), "from the host");
    let ended = running.wait().await;
    // Documented: masks are created at launch. Files that other programs create later have none.
    assert!(out(&ended).ends_with("from the host"), "{}", out(&ended));
}

#[tokio::test]
async fn too_many_denied_files_are_masked_by_their_directory() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let fixture = fixture();
    let many = fixture.inside.join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..1_500 {
        put(&many.join(format!("{n}.pem")), "secret");
    }
    let mut profile = profile(&fixture, &[".env"], &[], &["**/*.pem", ".env"]);
    let paths = (0..900).map(|n| many.join(format!("{n}.pem")));
    profile.denied.read.extend(paths);
    let ended = sh(&sandbox, profile.clone(), "cat many/*.pem .env 2>/dev/null | wc -c").await;
    assert_eq!(out(&ended).trim(), "3600", "600 files of 6 bytes have no mask");
    assert_eq!(ended.tier.notes.iter().filter(|note| note.contains("denied")).count(), 0);
    profile.denied.read.extend((900..1_500).map(|n| many.join(format!("{n}.pem"))));
    let ended = sh(&sandbox, profile, "cat many/*.pem many/0.pem .env; cat notes.txt").await;
    assert_eq!(out(&ended), "inside");
    assert!(
        ended.tier.notes.iter().any(|note| note.contains("1501 paths are denied")),
        "{:?}",
        ended.tier.notes
    );
}

#[tokio::test]
async fn denied_path_that_cannot_be_masked_is_a_launch_error() {
    for sandbox in sandboxes().await {
        let fixture = fixture();
        let mut all = vec![];
        if sandbox.tier().level == Level::Landlock {
            all.push(profile(&fixture, &[".env"], &[], &[]));
            all.push(profile(&fixture, &[], &[".env"], &[]));
        } else {
            let mut relative = fixture.profile();
            relative.denied.read.push("relative".into());
            all.push(relative);
            let mut bad = fixture.profile();
            bad.denied.new.push("no/root".to_owned());
            all.push(bad);
        }
        for profile in all {
            let command = Command::shell("echo ran > ran");
            let error = sandbox.run(command, profile).await.unwrap_err();
            assert_eq!(error.kind(), SandboxErrorKind::BadProfile);
            assert!(!fixture.inside.join("ran").exists());
        }
    }
}

#[tokio::test]
async fn git_never_commits_a_masked_file_as_deleted_or_empty() {
    let Some(sandbox) = namespace_sandbox().await else { return };
    let config = "[user]\n\tname = A\n\temail = a@example.com\n[safe]\n\tdirectory = *\n";
    for script in [
        "git add -A; git commit -q -m next",
        "git commit -q -a -m next",
        "git add .; git commit -q -m next",
        "git add -u; git commit -q -m next",
        "git add notes.txt && git commit -q -m next",
        "git stash; git stash pop",
        "git status --porcelain; git diff; git commit -q --amend --no-edit -a",
    ] {
        let fixture = fixture();
        if repository(&fixture).is_none() {
            return;
        }
        put(&fixture.inside.join("notes.txt"), "changed");
        let profile = profile(&fixture, &["keys", ".env"], &[], &["keys/**", ".env"]);
        let command =
            Command::shell(format!("exec 2>&1; {script}")).home_file(".gitconfig", config);
        let ended = sandbox.run(command, profile).await.unwrap();
        for (name, text) in [(".env", "TOKEN=1"), ("keys/id", "private")] {
            let shown = host_git(&fixture.inside, &["show", &format!("HEAD:{name}")]).unwrap();
            assert_eq!(shown, text, "{script}: {}", out(&ended));
            assert_eq!(get(&fixture.inside.join(name)), text, "{script}: {}", out(&ended));
            let staged = host_git(&fixture.inside, &["show", &format!(":{name}")]).unwrap();
            assert_eq!(staged, text, "{script}: {}", out(&ended));
        }
        if script.starts_with("git add notes.txt") {
            assert!(ended.is_success(), "{}", out(&ended));
            let last = host_git(&fixture.inside, &["log", "--format=%s", "-1"]).unwrap();
            assert_eq!(last, "next\n");
        }
    }
}
