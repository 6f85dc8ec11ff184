//! Inside of a user namespace that an ordinary user made (`unshare -Ur`): root by number, one user, groups
//! that cannot be changed.

use std::{fs, path::Path, process::Command as Host};

use haft_sandbox::{Command, Helper, Sandbox};

use crate::kit::*;

/// The file that makes [`in_a_user_namespace`] do something. Its text is what `id -u` says there.
const NOTE: &str = "haft-user-namespace-note";

/// No test of its own: started by the tests below.
#[tokio::test]
async fn in_a_user_namespace() {
    if !Path::new(NOTE).exists() {
        return;
    }
    assert_eq!(get(Path::new("/proc/self/setgroups")).trim(), "deny");
    let room = Room::new();
    let found = Sandbox::detect(Helper::At(helper())).await.unwrap();
    for sandbox in sandboxes().await.into_iter().chain([found]) {
        let level = sandbox.tier().level;
        let script = "echo text > f && cat f; echo bad > haft.toml; grep CapEff /proc/self/status; \
            cat ../outside/secret.txt > copy; echo x > ../outside/new; exit 0";
        let ended = sh(&sandbox, room.profile(), script).await;
        let wanted = "text\nCapEff:\t0000000000000000\n";
        assert_eq!(out(&ended), wanted, "{level}: {}", err(&ended));
        assert_eq!(ended.refused.len(), 1, "{level}");
        assert!(!room.inside.join("haft.toml").exists(), "{level}");
        assert!(!room.outside.join("new").exists(), "{level}");
        let read_only = sh(&sandbox, room.profile().read_only(), "cat f; echo x > f; exit 0").await;
        assert_eq!(out(&read_only), "text\n", "{level}: {}", err(&read_only));
        let failing = sandbox.run(Command::new("./none"), room.profile()).await;
        assert!(failing.is_err(), "{level}");
    }
    put(Path::new("done"), "");
}

/// Runs the test above after some preparation inside of the namespace.
fn unshared(preparation: &str) {
    let folder = tempfile::tempdir().unwrap();
    put(&folder.path().join(NOTE), "");
    let script = format!("{preparation} exec \"$@\"");
    let output = Host::new("unshare")
        .args(["-Ur", "sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "user_namespace::in_a_user_namespace"])
        .current_dir(folder.path())
        .env("TMPDIR", folder.path())
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
    assert!(fs::exists(folder.path().join("done")).unwrap(), "{errors}");
}

#[test]
fn commands_are_confined_inside_of_a_user_namespace() {
    unshared("");
}

#[test]
fn commands_are_confined_where_no_further_user_namespace_can_be_made() {
    unshared("echo 0 > /proc/sys/user/max_user_namespaces || exit 77;");
}
