//! The sandbox inside a user namespace of an ordinary user (`unshare -Ur`): uid 0, one user, and
//! groups that cannot be dropped.

use std::{fs, path::Path, process::Command as Host};

use haft_sandbox::{Command, Helper, Sandbox};

use crate::kit::*;

/// The file that enables [`in_a_user_namespace`].
const NOTE: &str = "haft-user-namespace-note";

/// Inner part of the tests below.
#[tokio::test]
async fn in_a_user_namespace() {
    if !Path::new(NOTE).exists() {
        return;
    }
    assert_eq!(get(Path::new("/proc/self/setgroups")).trim(), "deny");
    let fixture = Fixture::new();
    let found = Sandbox::detect(Helper::At(helper())).await.unwrap();
    for sandbox in sandboxes().await.into_iter().chain([found]) {
        let level = sandbox.tier().level;
        let script = "echo text > f && cat f; echo bad > haft.toml; grep CapEff /proc/self/status; \
            cat ../outside/secret.txt > copy; echo x > ../outside/new; exit 0";
        let ended = sh(&sandbox, fixture.profile(), script).await;
        let wanted = "text\nCapEff:\t0000000000000000\n";
        assert_eq!(out(&ended), wanted, "{level}: {}", err(&ended));
        assert_eq!(ended.refused.len(), 1, "{level}");
        assert!(!fixture.inside.join("haft.toml").exists(), "{level}");
        assert!(!fixture.outside.join("new").exists(), "{level}");
        let read_only =
            sh(&sandbox, fixture.profile().read_only(), "cat f; echo x > f; exit 0").await;
        assert_eq!(out(&read_only), "text\n", "{level}: {}", err(&read_only));
        let failing = sandbox.run(Command::new("./none"), fixture.profile()).await;
        assert!(failing.is_err(), "{level}");
    }
    put(Path::new("done"), "");
}

/// Runs the test above inside a new user namespace, after a preparation.
fn run_in_user_namespace(preparation: &str) {
    let directory = tempfile::tempdir().unwrap();
    put(&directory.path().join(NOTE), "");
    let script = format!("{preparation} exec \"$@\"");
    let output = Host::new("unshare")
        .args(["-Ur", "sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "user_namespace::in_a_user_namespace"])
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(e) => return eprintln!("NOT TESTED: no `unshare` is here: {e}"),
    };
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) || errors.starts_with("unshare:") {
        return eprintln!("NOT TESTED: no user namespace can be made or limited here: {errors}");
    }
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(&output.stdout));
    assert!(fs::exists(directory.path().join("done")).unwrap(), "{errors}");
}

#[test]
fn sandbox_works_inside_a_user_namespace() {
    run_in_user_namespace("");
}

#[test]
fn sandbox_works_where_no_nested_user_namespace_is_allowed() {
    run_in_user_namespace("echo 0 > /proc/sys/user/max_user_namespaces || exit 77;");
}
