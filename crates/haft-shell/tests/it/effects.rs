//! Runs every command of the corpus that is classified read-only, and checks that nothing changed.
//!
//! The directory is full of traps: files named like options, programs named like commands. The home
//! directory and `TMPDIR` are inside it too.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use haft_shell::{Kind, classify};

/// Everything in a directory: mode and bytes of each file.
type Tree = BTreeMap<String, (u32, Vec<u8>)>;

fn tree(directory: &Path) -> Tree {
    let mut found = Tree::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            let mut bytes = Vec::new();
            if kind.is_dir() {
                directories.push(path.clone());
            } else if kind.is_file() {
                fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
            } else {
                bytes = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
            }
            let name = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
            found.insert(name, (kind.permissions().mode(), bytes));
        }
    }
    found
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Fills a directory with files to read, and with traps.
fn fill(directory: &Path) {
    for (name, text) in [
        ("notes.txt", "alpha beta\ngamma\n\nalpha\n"),
        ("data.csv", "1,a,x\n2,b,y\n"),
        ("data.json", "{\"a\": {\"b\": 1}, \"list\": [1, 2]}"),
        ("b64.txt", "YWxwaGE=\n"),
        ("src/main.rs", "fn main() {} // TODO\n"),
        ("home/.keep", ""),
        ("temporary/.keep", ""),
        // Names that a command could mistake for options.
        ("-oevil.txt", "x\n"),
        ("-o", "x\n"),
        ("-delete", "x\n"),
        ("-i", "x\n"),
        ("--output=evil", "x\n"),
        ("-fprint", "x\n"),
    ] {
        write(&directory.join(name), text);
    }
    // Programs that would run if `PATH` were changed.
    for place in ["", "5/", "bin/"] {
        for name in ["ls", "cat", "wc", "sort", "grep", "head", "evil"] {
            let path = directory.join(format!("{place}{name}"));
            write(&path, "#!/bin/sh\necho x > \"$HOME/started\"\n");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let pack = Command::new("tar").args(["-cf", "a.tar", "src"]).current_dir(directory).status();
    assert!(pack.is_ok_and(|status| status.success()));
    let packed = Command::new("gzip").arg("-c").arg(directory.join("notes.txt")).output().unwrap();
    fs::File::create(directory.join("notes.gz")).unwrap().write_all(&packed.stdout).unwrap();
}

/// Runs a text in a new shell with a fixed environment, for at most five seconds.
fn run(text: &str, directory: &Path) {
    let _ = Command::new("timeout")
        .args(["-k", "1", "5", "bash", "--noprofile", "--norc", "-c", text])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", directory.join("home"))
        .env("TMPDIR", directory.join("temporary"))
        .current_dir(directory)
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
fn read_only_commands_change_nothing_when_they_run() {
    if !["bash", "timeout", "tar", "gzip"].into_iter().all(is_there) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    let before = tree(directory.path());
    let mut ran = 0;
    for case in crate::kinds::cases() {
        if classify(&case.command).kind != Kind::ReadOnly {
            continue;
        }
        run(&case.command, directory.path());
        ran += 1;
        let after = tree(directory.path());
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
fn traps_do_change_the_directory() {
    if !["bash", "timeout", "tar", "gzip"].into_iter().all(is_there) {
        return;
    }
    // Each is refused by the classifier, and each does change something.
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
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let before = tree(directory.path());
        run(text, directory.path());
        assert_ne!(classify(text).kind, Kind::ReadOnly, "{text}");
        assert!(before != tree(directory.path()), "nothing came of {text}");
    }
}
