//! If user namespaces are forbidden, the sandbox reports the cause and a remedy.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, chown},
        process::CommandExt as _,
    },
    process::Command as Host,
};

use haft_sandbox::{Helper, Level, ObstacleCause, Sandbox, SandboxErrorKind};

use crate::kit::*;

/// The user `nobody`, which owns no files.
const NOBODY: u32 = 65_534;
/// The file that enables [`a_process_without_user_namespaces`].
const NOTE: &str = "haft-no-namespaces-note";

/// Inner part of the test below: runs where no user namespace can be created.
#[tokio::test]
async fn a_process_without_user_namespaces() {
    if !std::path::Path::new(NOTE).exists() {
        return;
    }
    let error = Sandbox::at(Helper::At(helper()), Level::Namespaces).await.unwrap_err();
    assert_eq!(error.kind(), SandboxErrorKind::TierMissing, "{error}");
    let hint = error.hint_text().unwrap();
    assert!(hint.contains("`user.max_user_namespaces` is 0"), "{hint}");
    assert!(hint.contains("haft doctor"), "{hint}");

    let sandbox = Sandbox::detect(Helper::At(helper())).await.unwrap();
    assert_eq!(sandbox.tier().level, Level::Landlock);
    let [obstacle] = sandbox.obstacles() else { panic!("{:?}", sandbox.obstacles()) };
    assert_eq!(obstacle.cause, ObstacleCause::NamespaceLimit);
    assert!(obstacle.remedy.contains("sysctl -w user.max_user_namespaces="), "{obstacle:?}");

    let directory = tempfile::tempdir().unwrap();
    let findings = sandbox.self_test(directory.path()).await.unwrap();
    assert_eq!(findings.obstacles, sandbox.obstacles());
    let json = serde_json::to_value(&findings).unwrap();
    assert_eq!(json["obstacles"][0]["cause"], "namespace_limit");
    put(std::path::Path::new("inner-done"), "");
}

#[tokio::test]
async fn required_level_reports_no_obstacles() {
    for sandbox in sandboxes().await {
        // A required level is not a fallback.
        assert_eq!(sandbox.obstacles(), []);
    }
}

#[test]
fn namespace_limit_of_zero_is_reported_with_its_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let test = directory.path().join("it");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    fs::copy(helper(), directory.path().join("haft-sandbox-helper")).unwrap();
    let own = directory.path().join("tmp");
    fs::create_dir(&own).unwrap();
    put(&own.join(NOTE), "");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        for path in [directory.path(), &own] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    // The setting applies only to the new user namespace.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 9
        exec \"$0\" --exact obstacles::a_process_without_user_namespaces --test-threads 1";
    let mut command = Host::new("unshare");
    command
        .args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script])
        .arg(&test)
        .current_dir(&own)
        .env("TMPDIR", &own);
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let Ok(output) = command.output() else {
        eprintln!("NOT TESTED: there is no `unshare` here");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(9) || text.contains("unshare failed") {
        eprintln!("NOT TESTED: no user namespace with a limit of its own can be made: {text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    assert!(own.join("inner-done").exists(), "{text}");
}
