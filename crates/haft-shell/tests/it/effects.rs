//! Runs every command of the corpus that is called read-only, and looks whether anything changed.
//!
//! The folder is full of traps: files named like options, programs named like commands. The home and
//! the place for temporary files are in it too.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use haft_shell::{Kind, classify};

/// Everything in a folder: what kind of file it is, its rights, its bytes.
type Tree = BTreeMap<String, (u32, Vec<u8>)>;

fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            let mut bytes = Vec::new();
            if kind.is_dir() {
                folders.push(path.clone());
            } else if kind.is_file() {
                fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
            } else {
                bytes = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
            }
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            found.insert(name, (kind.permissions().mode(), bytes));
        }
    }
    found
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Fills a folder with files to read, and with traps.
fn fill(folder: &Path) {
    for (name, text) in [
        ("notes.txt", "alpha beta\ngamma\n\nalpha\n"),
        ("data.csv", "1,a,x\n2,b,y\n"),
        ("data.json", "{\"a\": {\"b\": 1}, \"list\": [1, 2]}"),
        ("b64.txt", "YWxwaGE=\n"),
        ("src/main.rs", "fn main() {} // TODO\n"),
        ("home/.keep", ""),
        ("temporary/.keep", ""),
        // Names that would be options, if a command took them for such.
        ("-oevil.txt", "x\n"),
        ("-o", "x\n"),
        ("-delete", "x\n"),
        ("-i", "x\n"),
        ("--output=evil", "x\n"),
        ("-fprint", "x\n"),
    ] {
        write(&folder.join(name), text);
    }
    // Programs that would be started, if the way to programs were changed.
    for place in ["", "5/", "bin/"] {
        for name in ["ls", "cat", "wc", "sort", "grep", "head", "evil"] {
            let path = folder.join(format!("{place}{name}"));
            write(&path, "#!/bin/sh\necho x > \"$HOME/started\"\n");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let pack = Command::new("tar").args(["-cf", "a.tar", "src"]).current_dir(folder).status();
    assert!(pack.is_ok_and(|status| status.success()));
    let packed = Command::new("gzip").arg("-c").arg(folder.join("notes.txt")).output().unwrap();
    fs::File::create(folder.join("notes.gz")).unwrap().write_all(&packed.stdout).unwrap();
}

/// Runs a text in a fresh shell with a fixed environment, for five seconds at most.
fn run(text: &str, folder: &Path) {
    let _ = Command::new("timeout")
        .args(["-k", "1", "5", "bash", "--noprofile", "--norc", "-c", text])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folder.join("home"))
        .env("TMPDIR", folder.join("temporary"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn is_there(program: &str) -> bool {
    let asked = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

#[test]
fn what_is_called_read_only_changes_nothing_when_it_runs() {
    if !["bash", "timeout", "tar", "gzip"].into_iter().all(is_there) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let before = tree(folder.path());
    let mut ran = 0;
    for case in crate::kinds::cases() {
        if classify(&case.command).kind != Kind::ReadOnly {
            continue;
        }
        run(&case.command, folder.path());
        ran += 1;
        let after = tree(folder.path());
        let changed: Vec<_> = after
            .iter()
            .filter(|(name, file)| before.get(*name) != Some(file))
            .map(|(name, _)| name)
            .chain(before.keys().filter(|name| !after.contains_key(*name)))
            .collect();
        assert!(changed.is_empty(), "{:?} changed {changed:?}", case.command);
    }
    assert!(ran > 150, "only {ran} ran");
}

#[test]
fn the_traps_of_that_folder_do_catch() {
    if !["bash", "timeout", "tar", "gzip"].into_iter().all(is_there) {
        return;
    }
    // Each is refused by the classification, and each does change something.
    for text in [
        "sort *.txt",
        "echo $((PATH=5)); ls",
        "for PATH in bin; do ls; done",
        "cat < notes.txt > /dev/stdin",
        "find -d*",
        "echo $(( $(echo 'a[$(./evil)]') ))",
        "awk '{print > \"out\"}' notes.txt",
        "sed -n '1w out' notes.txt",
    ] {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let before = tree(folder.path());
        run(text, folder.path());
        assert_ne!(classify(text).kind, Kind::ReadOnly, "{text}");
        assert!(before != tree(folder.path()), "nothing came of {text}");
    }
}
