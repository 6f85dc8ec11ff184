//! Protected names on other file systems, in directories with unusual names, and in deep
//! directories.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
};

use haft_core::{Capabilities, Capability};
use haft_sandbox::{Access, Command, Profile, Sandbox, Workspace};

use crate::kit::*;

/// Performs allowed and refused operations, and prints the results.
const SCRIPT: &str = r#"
    echo fine > a && mkdir -p d/e && mv a d/e/b && ln d/e/b c && cat c
    for name in haft.toml d/haft.toml .git/config d/e/.envrc; do
        mkdir -p "$(dirname $name)"; (echo bad > $name) 2>/dev/null && echo "made $name"
        (mv c $name) 2>/dev/null && echo "moved to $name"
    done
    rm -r d .git; ls -A
"#;

async fn check_protection(sandbox: &Sandbox, root: &Path) {
    let workspace = Workspace::builder().root(root, Access::Write).build().unwrap();
    let profile = Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
    let ended = sandbox.run(Command::shell(SCRIPT), profile).await.unwrap();
    assert_eq!(out(&ended), "fine\nc\n", "{}: {root:?}: {}", sandbox.tier().level, err(&ended));
    assert!(!ended.refused.is_empty(), "{root:?}");
    fs::remove_file(root.join("c")).unwrap();
    assert_eq!(fs::read_dir(root).unwrap().count(), 0, "{root:?}");
}

#[tokio::test]
async fn protected_names_are_refused_in_directories_with_unusual_names() {
    let names: [&[u8]; 4] = [b"with space", b"quo'te\"", b"-rf", &[b'n'; 200]];
    let deep = vec!["level"; 100].join("/");
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        for name in names.into_iter().chain([deep.as_bytes()]) {
            let root = fixture.inside.join(OsStr::from_bytes(name));
            fs::create_dir_all(&root).unwrap();
            check_protection(&sandbox, &root).await;
        }
    }
}

#[tokio::test]
async fn non_utf8_directories_work_and_are_protected() {
    const BYTES: &str = r#"
        d=$(printf 'new\nline \377'); mkdir "$d" && cd "$d" && echo fine > a && cat a
        (echo bad > haft.toml) 2>/dev/null && echo made; cd .. && rm -r "$d"
    "#;
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let ended = sandbox.run(Command::shell(BYTES), fixture.profile()).await.unwrap();
        assert_eq!(out(&ended), "fine\n", "{}", err(&ended));
        assert_eq!(ended.refused.len(), 1);
    }
}

#[tokio::test]
async fn protected_names_are_refused_on_tmpfs() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return eprintln!("NOT TESTED: /dev/shm takes no files here");
    };
    for sandbox in sandboxes().await {
        check_protection(&sandbox, &directory.path().canonicalize().unwrap()).await;
    }
}

/// The file that enables [`on_an_overlay`].
const NOTE: &str = "haft-overlay-note";

/// Inner part of the test below: runs where an overlay is mounted.
#[tokio::test]
async fn on_an_overlay() {
    if !Path::new(NOTE).exists() {
        return;
    }
    let root = Path::new("merged").canonicalize().unwrap();
    for sandbox in sandboxes().await {
        check_protection(&sandbox, &root).await;
    }
    put(Path::new("done"), "");
}

#[test]
fn protected_names_are_refused_on_overlayfs() {
    const MOUNT: &str = "mount -t tmpfs none layers && mkdir layers/up layers/work layers/low && \
        mount -t overlay none -o lowerdir=layers/low,upperdir=layers/up,workdir=layers/work merged";
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return eprintln!("NOT TESTED: only root mounts an overlay here");
    }
    let directory = tempfile::tempdir().unwrap();
    put(&directory.path().join(NOTE), "");
    for name in ["layers", "merged"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    let script = format!("{MOUNT} || exit 77; exec \"$0\" --exact places::on_an_overlay");
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .current_dir(directory.path())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            assert!(directory.path().join("done").exists(), "{output:?}");
        }
        Ok(output) if output.status.code() == Some(77) => {
            eprintln!("NOT TESTED: no overlay can be mounted here: {output:?}");
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(e) => eprintln!("NOT TESTED: no `unshare` is here: {e}"),
    }
}
