//! Namespaces that the system's bubblewrap creates, if the helper may not.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use haft_sandbox::{Access, ExitReason, Helper, Level, Network, Sandbox, SandboxErrorKind};

use crate::kit::*;

/// Returns the bubblewrap of this machine. Root needs none: it can create namespaces itself.
fn bubblewrap() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        eprintln!("run by root: `as_ordinary_user` tests bubblewrap");
        return None;
    }
    let program = PathBuf::from("/usr/bin/bwrap");
    if !program.is_file() {
        eprintln!("NOT TESTED: there is no bubblewrap here");
        return None;
    }
    Some(program)
}

async fn sandbox() -> Option<Sandbox> {
    let program = bubblewrap()?;
    let args =
        ["--unshare-all", "--size", "4096", "--tmpfs", "/tmp", "--ro-bind", "/", "/", "true"];
    let plain = std::process::Command::new(&program).args(args).status();
    if !plain.is_ok_and(|status| status.success()) {
        eprintln!("NOT TESTED: bubblewrap cannot create namespaces here");
        return None;
    }
    Some(Sandbox::at_through_bubblewrap(Helper::At(helper()), &program).await.unwrap())
}

#[tokio::test]
async fn bubblewrap_gives_the_same_self_test_results() {
    let Some(sandbox) = sandbox().await else { return };
    let own = Sandbox::at(Helper::At(helper()), Level::Namespaces).await.unwrap();
    assert_eq!(sandbox.tier().level, Level::Namespaces);
    assert!(sandbox.tier().is_full(), "{:?}", sandbox.tier());
    let notes = &sandbox.tier().notes;
    assert!(notes.iter().any(|note| note == "bubblewrap created the namespaces"), "{notes:?}");
    let directory = tempfile::tempdir().unwrap();
    let (through, without) = (
        sandbox.self_test(directory.path()).await.unwrap(),
        own.self_test(directory.path()).await.unwrap(),
    );
    // They refuse and allow the same as namespaces that the helper creates.
    for (one, other) in through.findings.iter().zip(&without.findings) {
        assert_eq!(
            (&one.name, one.is_good()),
            (&other.name, other.is_good()),
            "{one:?}\n{other:?}"
        );
    }
    assert_eq!(through.findings.len(), without.findings.len());
}

#[tokio::test]
async fn bubblewrap_confines_commands() {
    let Some(sandbox) = sandbox().await else { return };
    let fixture = Fixture::new();
    let script = "echo made > sub/made; cat notes.txt; cat -; echo x > ../outside/new; ls /proc | \
                  grep -c '^[0-9]'; echo x > /tmp/x && cat /tmp/x";
    let command = haft_sandbox::Command::shell(script).input("input\n");
    let ended = sandbox.run(command, fixture.profile()).await.unwrap();
    assert_eq!(get(&fixture.inside.join("sub/made")), "made\n", "{}", err(&ended));
    assert!(out(&ended).starts_with("insideinput\n"), "{}", out(&ended));
    assert!(out(&ended).ends_with("x\n"), "{}", out(&ended));
    assert!(!fixture.outside.join("new").exists());
    assert!(ended.is_success(), "{ended:?}");

    let ended = sh(&sandbox, fixture.profile().read_only(), "echo x > sub/other").await;
    assert!(!ended.is_success() && !fixture.inside.join("sub/other").exists());

    let mut profile = fixture.profile();
    profile.network = Network::Host;
    let ended = sh(&sandbox, profile, "cat /proc/net/dev | wc -l").await;
    assert!(ended.is_success(), "{}", err(&ended));
}

#[tokio::test]
async fn bubblewrap_masks_denied_paths() {
    let Some(sandbox) = sandbox().await else { return };
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside.join("keys")).unwrap();
    put(&fixture.inside.join("keys/one"), "key");
    put(&fixture.inside.join("secret.env"), "key");
    put(&fixture.inside.join("fixed.txt"), "fixed");
    let mut profile = fixture.profile();
    profile.denied.read = vec![
        fixture.outside.clone(),
        fixture.inside.join("keys"),
        fixture.inside.join("secret.env"),
    ];
    profile.denied.edit = vec![fixture.inside.join("fixed.txt")];
    let script = format!(
        "cat fixed.txt; for f in keys/one secret.env {}/secret.txt; do cat $f; done; ls keys; \
         echo x > fixed.txt; echo x > secret.env; rm secret.env; mv keys other",
        fixture.outside.display()
    );
    let ended = sh(&sandbox, profile, script).await;
    assert_eq!(out(&ended), "fixed", "{}", err(&ended));
    assert!(err(&ended).matches("Permission denied").count() >= 4, "{}", err(&ended));
    assert_eq!(get(&fixture.inside.join("secret.env")), "key");
    assert_eq!(get(&fixture.inside.join("keys/one")), "key");
    assert_eq!(get(&fixture.inside.join("fixed.txt")), "fixed");
}

#[tokio::test]
async fn bubblewrap_leaves_no_process_after_timeout_kill_or_drop() {
    let Some(sandbox) = sandbox().await else { return };
    let fixture = Fixture::new();
    let marker = marker();
    let daemon = format!("setsid sleep 1000.{marker} & echo ready; sleep 1000.{marker}");
    let command = haft_sandbox::Command::shell(&daemon).deadline(Duration::from_millis(700));
    let ended = sandbox.run(command, fixture.profile()).await.unwrap();
    assert_eq!(ended.exit_reason, ExitReason::TimedOut);
    assert_eq!(wait_for_survivors(&marker, 0).await, 0);

    let command = haft_sandbox::Command::shell(&daemon);
    let mut running = sandbox.start(command.clone(), fixture.profile()).await.unwrap();
    assert!(running.next().await.is_some());
    running.kill_helper();
    assert_eq!(running.wait().await.exit_reason, ExitReason::HelperDied);
    assert_eq!(wait_for_survivors(&marker, 0).await, 0);

    let mut running = sandbox.start(command, fixture.profile()).await.unwrap();
    assert!(running.next().await.is_some());
    drop(running);
    assert_eq!(wait_for_survivors(&marker, 0).await, 0);
}

#[tokio::test]
async fn bubblewrap_refuses_a_root_replaced_after_authorization() {
    let Some(sandbox) = sandbox().await else { return };
    let fixture = Fixture::new();
    let profile = fixture.profile();
    assert!(profile.roots.iter().all(|root| root.access == Access::Write));
    fs::rename(&fixture.inside, fixture.inside.with_file_name("before")).unwrap();
    fs::create_dir(&fixture.inside).unwrap();
    let command = haft_sandbox::Command::shell("echo x > sub/made");
    let error = sandbox.run(command, profile).await.unwrap_err();
    assert_eq!(error.kind(), SandboxErrorKind::BadProfile, "{error}");
}

/// Creates a helper that reports that namespaces are forbidden, unless bubblewrap creates them.
fn forbidden_helper(directory: &Path) -> Option<PathBuf> {
    let perl = Path::new("/usr/bin/perl");
    if !perl.is_file() {
        eprintln!("NOT TESTED: there is no perl here");
        return None;
    }
    let script = format!(
        r#"#!/usr/bin/perl
use Socket;
open(my $control, '>&=', 0);
select(undef, undef, undef, 0.05);
recv(STDIN, my $orders, 65536, MSG_PEEK);
if ($orders =~ /"level":"namespaces"/ && $orders =~ /"bubblewrap":null/) {{
    syswrite($control, qq({{"refused":{{"step":"namespaces","message":"Operation not permitted","fault":"machine"}}}}\n));
    exit 1;
}}
exec "{}", @ARGV;
"#,
        helper().display()
    );
    let path = directory.join("forbidden-helper");
    put(&path, &script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Some(path)
}

#[tokio::test]
async fn bubblewrap_is_used_if_the_helper_may_not_create_namespaces() {
    let directory = tempfile::tempdir().unwrap();
    if sandbox().await.is_none() {
        return;
    }
    let Some(helper) = forbidden_helper(directory.path()) else { return };
    let found = Sandbox::detect(Helper::At(helper.clone())).await.unwrap();
    assert_eq!(found.tier().level, Level::Namespaces, "{:?}", found.tier());
    assert!(found.tier().notes.iter().any(|note| note.contains("bubblewrap")));
    let fixture = Fixture::new();
    assert_eq!(out(&sh(&found, fixture.profile(), "echo hello").await), "hello\n");

    // If bubblewrap is missing or broken, the next tier is used.
    for broken in ["/usr/bin/missing-bwrap", "/bin/true", "/bin/false", "/usr/bin/env"] {
        let helper = Helper::At(helper.clone());
        let found = Sandbox::detect_with(helper, Path::new(broken)).await.unwrap();
        assert_eq!(found.tier().level, Level::Landlock, "{broken}");
        assert!(!found.obstacles().is_empty(), "{broken}");
    }
}

#[tokio::test]
async fn bubblewrap_that_omits_a_restriction_is_refused() {
    if sandbox().await.is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (number, (asked, done, named)) in [
        ("--unshare-net", "", "net namespace"),
        ("--unshare-ipc", "", "ipc namespace"),
        ("--unshare-uts", "", "uts namespace"),
        ("--unshare-cgroup", "", "cgroup namespace"),
        ("--ro-bind", "--bind", "the mount `/`"),
    ]
    .into_iter()
    .enumerate()
    {
        let script = format!(
            "#!/bin/sh\nfor a; do shift; [ \"$a\" = {asked} ] && a='{done}'; \
             [ -z \"$a\" ] || set -- \"$@\" \"$a\"; done\nexec /usr/bin/bwrap \"$@\"\n"
        );
        let program = directory.path().join(format!("bwrap-{number}"));
        put(&program, &script);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let result = Sandbox::at_through_bubblewrap(Helper::At(helper()), &program).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), SandboxErrorKind::TierMissing, "{asked}: {error}");
        assert!(error.to_string().contains(named), "{asked}: {error}");
    }
}
