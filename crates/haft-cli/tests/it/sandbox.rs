//! What sandboxed commands can access besides the workspace: `[sandbox]` of `haft.toml`, and
//! toolchains in the home directory. With the real `cargo`, `node` and `python3` where they are
//! installed.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "the tests make the home directory they look at")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use crate::{Ran, TempDir, host_git::host_git};

const WORKSPACE: [&str; 2] = ["--workspace", "."];

/// A home directory with a toolchain and with secrets, inside the toolchain and outside of it.
fn at_home(name: &str, files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::trusted(name, files);
    let home = dir.0.join("home");
    for (file, text) in [
        (".cargo/bin/tool", "#!/bin/sh\ncat \"$RUSTUP_HOME/name.txt\"\n"),
        (".cargo/credentials.toml", "token = \"s3cret\"\n"),
        (".rustup/name.txt", "a toolchain\n"),
        (".ssh/id", "a private key\n"),
        (".extra/x.txt", "extra\n"),
    ] {
        let path = home.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let tool = home.join(".cargo/bin/tool");
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Runs a command of the shell tool with the toolchain in `PATH`.
fn shell(dir: &TempDir, command: &str, more: &[&str]) -> Ran {
    let path = format!("{}:/usr/bin:/bin", dir.0.join("home/.cargo/bin").display());
    let mut haft = dir.command();
    haft.env("PATH", path).env_remove("CARGO_HOME").env_remove("RUSTUP_HOME");
    haft.args(["call", "shell", &format!("command={command}")]).args(WORKSPACE).args(more);
    Ran::of(haft.output().unwrap())
}

#[test]
fn toolchain_in_path_is_readable_and_its_secrets_are_not() {
    let dir = at_home("sandbox-toolchain", &[]);
    let ran = shell(&dir, "tool", &[]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "a toolchain\n"), "{ran:?}");
    let home = dir.0.join("home");
    for secret in [".cargo/credentials.toml", ".ssh/id", ".extra/x.txt"] {
        let file = home.join(secret);
        let ran = shell(&dir, &format!("X={}; cat $X", file.display()), &[]);
        let text = format!("{}{}", ran.out, ran.err);
        for part in ["s3cret", "private key", "extra\n"] {
            assert!(!text.contains(part), "{secret}: {ran:?}");
        }
    }
    // Also if the command is approved.
    let ran = shell(&dir, "sh -c 'cat $CARGO_HOME/credentials.toml; touch made'", &["--yes"]);
    assert!(dir.work().join("made").exists(), "{ran:?}");
    assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
}

#[test]
fn toolchains_and_confinement_can_be_switched_off() {
    let off = &[("haft.toml", "[sandbox]\ntoolchains = false\n")];
    let dir = at_home("sandbox-no-toolchain", off);
    let ran = shell(&dir, "tool", &[]);
    assert!(!ran.out.contains("a toolchain"), "{ran:?}");
    let off = &[("haft.toml", "[sandbox]\nconfine_unasked = false\n")];
    let dir = at_home("sandbox-not-confined", off);
    let ran = shell(&dir, "tool", &[]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let why = dir.run(["explain", "shell", "command=tool", "--workspace", "."]);
    assert!(why.out.contains("`[sandbox] confine_unasked` is off"), "{why:?}");
}

#[test]
fn configured_roots_are_readable_and_writable() {
    let text = "[sandbox]\nread_only_roots = [\"~/.extra\"]\nwritable_roots = [\"~/.rustup\"]\n\
        pass_env = [\"SOME_SETTING\", \"SOME_TOKEN\"]\n";
    let dir = at_home("sandbox-roots", &[("haft.toml", text)]);
    let home = dir.0.join("home");
    let ran = shell(&dir, &format!("X={}; cat $X/x.txt", home.join(".extra").display()), &[]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "extra\n"), "{ran:?}");
    assert!(ran.err.contains("`SOME_TOKEN` is not passed to commands"), "{ran:?}");
    // A sandboxed command writes nowhere; an approved one writes to the configured roots.
    let write = |name: &str| format!("sh -c 'echo x > {}/{name}/new'", home.display());
    let ran = shell(&dir, &write(".rustup"), &["--yes"]);
    assert!(home.join(".rustup/new").exists(), "{ran:?}");
    let ran = shell(&dir, &write(".extra"), &["--yes"]);
    assert!(!home.join(".extra/new").exists(), "{ran:?}");
}

#[test]
fn roots_with_secrets_are_refused_and_missing_ones_are_noted() {
    let text = "[sandbox]\nread_only_roots = [\"~/keys\", \"~/.none\"]\n";
    let dir = at_home("sandbox-refused", &[("haft.toml", text)]);
    let home = dir.0.join("home");
    let ran = shell(&dir, "tool", &[]);
    assert!(ran.err.contains("commands have no access to") && ran.code == Some(0), "{ran:?}");
    symlink(home.join(".ssh"), home.join("keys")).unwrap();
    let ran = shell(&dir, "tool", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("commands cannot get access to `"), "{ran:?}");
    assert!(ran.err.contains("`: it contains secrets"), "{ran:?}");
}

#[test]
fn untrusted_project_gives_commands_no_roots() {
    let text = "[sandbox]\nread_only_roots = [\"~/.extra\"]\n";
    let dir = at_home("sandbox-untrusted", &[]);
    dir.put("haft.toml", text);
    let file = dir.0.join("home/.extra/x.txt");
    let ran = shell(&dir, &format!("X={}; cat $X", file.display()), &[]);
    assert!(!ran.out.contains("extra\n"), "{ran:?}");
    assert!(ran.err.contains("1 root of commands"), "{ran:?}");
}

/// Runs a command of the shell tool with the home directory as its workspace.
fn shell_at_home(dir: &TempDir, command: &str) -> Ran {
    let home = dir.0.join("home");
    let mut haft = dir.command();
    haft.current_dir(&home).env("XDG_CONFIG_HOME", home.join(".config"));
    haft.args(["call", "shell", &format!("command={command}")]).args(WORKSPACE).arg("--yes");
    Ran::of(haft.output().unwrap())
}

#[test]
fn home_directory_as_workspace_protects_startup_files() {
    const KEPT: [&str; 10] = [
        ".bashrc",
        ".profile",
        ".config/fish/config.fish",
        ".config/systemd/user/a.service",
        ".config/haft/haft.toml",
        ".ssh/authorized_keys",
        ".gitconfig",
        ".cargo/config.toml",
        ".cargo/bin/tool",
        ".local/bin/tool",
    ];
    let dir = at_home("sandbox-home-workspace", &[]);
    let home = dir.0.join("home");
    let before: Vec<Option<Vec<u8>>> =
        KEPT.iter().map(|name| fs::read(home.join(name)).ok()).collect();
    for name in KEPT {
        let parent = Path::new(name).parent().unwrap().display();
        let write = format!("sh -c 'mkdir -p ./{parent}; echo bad > {name}'");
        let ran = shell_at_home(&dir, &write);
        assert!(format!("{ran:?}").contains("denied"), "{name}: {ran:?}");
    }
    let after: Vec<Option<Vec<u8>>> =
        KEPT.iter().map(|name| fs::read(home.join(name)).ok()).collect();
    assert_eq!(before, after);
    let work = "sh -c 'mkdir -p Documents .config/app; echo text > Documents/a; \
        echo s > .config/app/settings; cat Documents/a .config/app/settings'";
    let ran = shell_at_home(&dir, work);
    assert_eq!((ran.code, &*ran.out), (Some(0), "text\ns\n"), "{ran:?}");
}

#[test]
fn git_works_in_a_home_directory_that_is_the_workspace() {
    let dir = at_home("sandbox-home-git", &[]);
    let home = dir.0.join("home");
    let config = "[user]\n\tname = A\n\temail = a@example.com\n[safe]\n\tdirectory = *\n";
    fs::write(home.join(".gitconfig"), config).unwrap();
    if host_git(&home, &["init", "-q"]).is_none() {
        return;
    }
    fs::write(home.join("notes.txt"), "text").unwrap();
    let commit = "sh -c 'git add notes.txt && git commit -q -m first && git log --format=%an:%s'";
    let ran = shell_at_home(&dir, commit);
    assert_eq!((ran.code, &*ran.out), (Some(0), "A:first\n"), "{ran:?}");
    let kept = fs::read(home.join(".gitconfig")).unwrap();
    assert_eq!(String::from_utf8_lossy(&kept), config);
}

/// Runs a command with the home directory and the `PATH` of the person who runs the tests.
fn with_real_home(dir: &TempDir, words: &[&str]) -> Ran {
    let mut haft = dir.command();
    haft.env("HOME", std::env::var_os("HOME").unwrap_or_default());
    haft.args(words).args(WORKSPACE);
    Ran::of(haft.output().unwrap())
}

/// Where a program is found, if it is installed.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|at| at.join(program)).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: `{program}` is not installed");
    }
    found
}

#[test]
fn real_toolchains_print_their_version_without_approval() {
    let dir = TempDir::new("sandbox-versions", &[]);
    for (program, command, printed) in [
        ("cargo", "cargo --version", "cargo 1."),
        ("rustc", "rustc -V", "rustc 1."),
        ("node", "node -v", "v"),
        ("python3", "python3 -c 'print(6 * 7)'", "42"),
    ] {
        if installed(program).is_none() {
            continue;
        }
        let ran = with_real_home(&dir, &["call", "shell", &format!("command={command}")]);
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
        assert!(ran.out.contains(printed), "{command}: {ran:?}");
    }
}

#[test]
fn cargo_build_and_python_venv_work_once_allowed() {
    let files = [
        ("Cargo.toml", "[package]\nname = \"small\"\nedition = \"2021\"\n[workspace]\n"),
        ("src/main.rs", "fn main() { println!(\"built\") }\n"),
    ];
    let dir = TempDir::new("sandbox-builds", &files);
    for (program, command, made) in [
        ("cargo", "cargo build -q && ./target/debug/small", "target/debug/small"),
        ("python3", "python3 -m venv --without-pip .venv", ".venv/bin/python3"),
    ] {
        if installed(program).is_none() {
            continue;
        }
        let words = ["call", "shell", &format!("command={command}")];
        let asked = with_real_home(&dir, &words);
        assert_eq!(asked.code, Some(2), "it is known to write: {asked:?}");
        let ran = with_real_home(&dir, &[&words[..], &["--yes"]].concat());
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
        assert!(dir.work().join(Path::new(made)).exists(), "{command}: {ran:?}");
    }
    if installed("cargo").is_some() {
        let ran = with_real_home(&dir, &["call", "shell", "command=cargo tree --offline"]);
        assert!(ran.code == Some(0) && ran.out.contains("small v0.0.0"), "{ran:?}");
    }
}

#[test]
fn doctor_suggests_lines_for_toolchains() {
    let dir = at_home("sandbox-doctor", &[]);
    fs::create_dir_all(dir.0.join("home/.nvm")).unwrap();
    fs::create_dir_all(dir.0.join("home/.npm")).unwrap();
    let path = format!("{}:/usr/bin:/bin", dir.0.join("home/.cargo/bin").display());
    let mut haft = dir.command();
    haft.env("PATH", path).env_remove("CARGO_HOME").env_remove("RUSTUP_HOME").arg("doctor");
    let ran = Ran::of(haft.output().unwrap());
    assert!(ran.out.contains("\"~/.cargo\", \"~/.rustup\""), "{ran:?}");
    assert!(ran.out.contains("read_only_roots = [\"~/.nvm\"]"), "{ran:?}");
    assert!(ran.out.contains("writable_roots = [\"~/.npm\"]"), "{ran:?}");
    assert!(!ran.out.contains(".ssh"), "{ran:?}");
}
