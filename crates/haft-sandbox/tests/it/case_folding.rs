//! Protected names in other spellings, on file systems with and without case folding.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Output,
};

use haft_core::{Capabilities, Capability};
use haft_sandbox::{Access, Command, Profile, Sandbox, Workspace};

use crate::{kit::*, twin::compiled};

const FOLDING: &str = include_str!("../data/folding.c");

/// Spellings of protected files. With case folding, each of the first five is one of [`KEPT`].
const SPELLINGS: &[&str] = &[
    ".GIT/CONFIG",
    ".git/Config",
    ".Git/Hooks/pre-commit",
    "Haft.TOML",
    "SUB/.gIT/hOOKS/Pre-Commit",
    "HAFT.LOCAL.toml",
    ".ENVRC",
    "sub/.BashRC",
    ".Claude/settings.json",
    ".SSH/authorized_keys",
    ".MCP.json",
    ".GitHub/Workflows/ci.yml",
    ".Cargo/Config.TOML",
    "sub/.V\u{17f}code/x",
    ".\u{200c}haft/rules",
];

/// Protected files that exist.
const KEPT: &[&str] =
    &[".git/config", ".git/hooks/pre-commit", "haft.toml", "sub/.git/hooks/pre-commit"];

/// Attempts with each name, as `$n`.
const ATTEMPTS: &str = r#"
    mkdir -p "$(dirname "$n")"
    echo bad > "$n"; echo bad >> "$n"; cp plain "$n"; ln plain "$n"; ln -s plain "$n"
    cp plain p; mv -f p "$n"; mv -T p "$n"; truncate -s 0 "$n"; mkdir "$n"
    rm -f "$n"; mv -f "$n" stolen; chmod 777 "$n"
"#;

/// Removes the contents of a directory.
fn clear(root: &Path) {
    for entry in fs::read_dir(root).unwrap().flatten() {
        let is_directory = entry.file_type().unwrap().is_dir();
        let path = entry.path();
        if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
}

fn profile(root: &Path) -> Profile {
    let workspace = Workspace::builder().root(root, Access::Write).build().unwrap();
    Profile::of(Capabilities::from([Capability::Filesystem]), &workspace)
}

/// Asserts that every spelling is refused, with and without existing files.
async fn assert_spellings_are_refused(sandbox: &Sandbox, root: &Path) {
    let level = sandbox.tier().level;
    for exist in [true, false] {
        clear(root);
        put(&root.join("plain"), "plain");
        fs::create_dir(root.join("sub")).unwrap();
        if exist {
            for name in KEPT {
                fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                put(&root.join(name), "good");
            }
        }
        let before: Vec<PathBuf> = files(root);
        let names: Vec<String> = SPELLINGS.iter().map(|name| format!("'{name}'")).collect();
        let script = format!(
            "exec 2>/dev/null; for n in {}; do {ATTEMPTS} rm -rf p stolen; done; \
             echo text > Fine && mv Fine other && cat other && rm other; echo x > \"$TMPDIR/ok\"",
            names.join(" ")
        );
        let ended = sandbox.run(Command::shell(script), profile(root)).await.unwrap();
        assert_eq!(out(&ended), "text\n", "{level}: ordinary files work: {}", err(&ended));
        assert!(!ended.refused.is_empty(), "{level}");
        assert_eq!(files(root), before, "{level}: existed before: {exist}");
        for name in KEPT.iter().filter(|_| exist) {
            assert_eq!(get(&root.join(name)), "good", "{level}: {name}");
        }
        assert_eq!(get(&root.join("plain")), "plain");
    }
}

/// Returns the files below a directory, without directories.
fn files(root: &Path) -> Vec<PathBuf> {
    let all = snapshot(root).into_iter();
    all.filter(|(_, what)| what != "directory").map(|(path, _)| path).collect()
}

/// Asserts that a repository cannot be created from parts in other spellings, in several orders.
async fn assert_no_repository_is_created(sandbox: &Sandbox, root: &Path) {
    const ORDERS: &[&[&str]] = &[
        &["head", "objects/", "refs/", "config"],
        &["Config", "Objects/", "Refs/", "Head"],
        &["config", "objects/", "refs/", "he\u{200c}ad"],
        &["config", "head", "objects/", "ref\u{17f}/"],
        &["hooks/", "refs/", "head", "object\u{17f}/"],
        &["head", "objects/", "refs/", "hook\u{17f}/"],
        &["HE\u{200c}AD", "common\u{200c}dir"],
        &["common\u{200c}dir", "he\u{200c}ad"],
    ];
    clear(root);
    let places = || ["bare", ".git/refs/x"].into_iter();
    let all =
        || places().flat_map(|resolved| ORDERS.iter().enumerate().map(move |o| (resolved, o)));
    let mut script = "exec 2>/dev/null; top=$PWD\n".to_owned();
    for (resolved, (number, order)) in all() {
        script += &format!("cd $top; mkdir -p {resolved}/{number} && cd {resolved}/{number}\n");
        for name in *order {
            script += &match name.strip_suffix('/') {
                Some(name) => format!("mkdir {name}\n"),
                None => format!("echo x > {name}\n"),
            };
        }
    }
    let command = Command::shell(script + "echo done");
    let ended = sandbox.run(command, profile(root)).await.unwrap();
    assert_eq!(out(&ended), "done\n");
    for (resolved, (number, order)) in all() {
        let directory = root.join(resolved).join(number.to_string());
        let has = |name: &str| directory.join(name).symlink_metadata().is_ok();
        let is_repository = has("HEAD") && (has("commondir") || has("objects") && has("refs"));
        let is_obeyed = ["config", "hooks", "commondir"].into_iter().any(has);
        let level = sandbox.tier().level;
        assert!(directory.exists(), "{level}: {resolved}: {order:?}");
        assert!(!(is_repository && is_obeyed), "{level}: {resolved}: {order:?}");
    }
}

#[tokio::test]
async fn protected_names_are_refused_in_every_spelling() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        assert_spellings_are_refused(&sandbox, &fixture.inside).await;
    }
}

/// The file that enables [`on_a_file_system_that_folds_case`].
const NOTE: &str = "haft-case-folding-note";

/// Inner part of the test below: runs where such a file system is mounted.
#[tokio::test]
async fn on_a_file_system_that_folds_case() {
    if !Path::new(NOTE).exists() {
        return;
    }
    let root = Path::new("folded").canonicalize().unwrap();
    put(&root.join("Probe"), "");
    assert!(root.join("pROBE").exists(), "it folds case");
    for sandbox in sandboxes().await {
        assert_spellings_are_refused(&sandbox, &root).await;
        assert_no_repository_is_created(&sandbox, &root).await;
    }
    put(Path::new("done"), "");
}

/// File systems with case folding: the name, and a script that mounts it at `folded` and runs
/// `"$@"`.
const FILE_SYSTEMS: &[(&str, &str)] = &[
    (
        "tmpfs",
        "mount -t tmpfs -o casefold none disk && mkdir disk/f && chattr +F disk/f && \
         mount --bind disk/f folded || exit 77; exec \"$@\"",
    ),
    (
        "ext4",
        "truncate -s 16M image && mkfs.ext4 -q -O casefold image && mount -o loop image disk && \
         mkdir disk/f && chattr +F disk/f && mount --bind disk/f folded || exit 77; exec \"$@\"",
    ),
    ("FUSE", "[ -x ./worker ] || exit 77; exec ./worker folded \"$@\""),
];

/// Runs the test above in a mount namespace with one of the file systems.
fn mounted(script: &str) -> std::io::Result<(bool, Output)> {
    let directory = tempfile::tempdir()?;
    put(&directory.path().join(NOTE), "");
    for name in ["folded", "disk"] {
        fs::create_dir(directory.path().join(name))?;
    }
    compiled(FOLDING, directory.path());
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe()?)
        .args(["--exact", "case_folding::on_a_file_system_that_folds_case"])
        .current_dir(directory.path())
        .output()?;
    Ok((directory.path().join("done").exists(), output))
}

#[test]
fn protected_names_are_refused_on_case_folding_file_systems() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return eprintln!("NOT TESTED: only root mounts a file system that folds case");
    }
    for (name, script) in FILE_SYSTEMS {
        match mounted(script) {
            Ok((is_done, output)) if output.status.success() => {
                assert!(is_done, "{name}: {output:?}");
                eprintln!("tested on {name}");
            }
            Ok((_, output)) if output.status.code() == Some(77) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                eprintln!("NOT TESTED: {name} that folds case cannot be mounted here: {why}");
            }
            Ok((_, output)) => panic!(
                "{name}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(e) => eprintln!("NOT TESTED: no `unshare` is here: {e}"),
        }
    }
}
