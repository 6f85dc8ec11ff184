//! The question at a real terminal. The pages and keys have their tests beside the code.

#![cfg(unix)]

use std::{
    io::{Read as _, Write as _},
    process::{Command, Stdio},
};

use crate::at_home_nowhere;

/// Runs a command at a terminal, types an answer once the keys are there, and gives the screen.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn at_a_terminal(line: &str, answer: &str) -> Option<String> {
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap();
    let mut script = Command::new("script");
    let child = at_home_nowhere(&mut script)
        .args(["-qec", line, "/dev/null"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no `script` here");
        return None;
    };
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let mut typed = false;
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = screen.read(&mut piece) {
        seen.extend_from_slice(&piece[..length]);
        if !typed && String::from_utf8_lossy(&seen).contains("[?] why  >") {
            typed = true;
            keys.write_all(answer.as_bytes()).unwrap();
        }
    }
    let status = child.wait().unwrap();
    let seen = String::from_utf8_lossy(&seen).replace('\r', "");
    if !typed && !seen.contains("may destroy") {
        // Some versions of `script` know no `-c`.
        eprintln!("skipped: `script` does not run commands here: {seen}");
        return None;
    }
    Some(format!("{seen}\nexit {}", status.code().unwrap_or(-1)))
}

#[test]
fn a_yes_at_a_terminal_runs_the_call_and_a_no_does_not() {
    let Some(yes) = at_a_terminal("haft call delete_note name=trip", "y\n") else { return };
    assert!(yes.contains("delete_note"), "{yes}");
    assert!(yes.contains("    name: \"trip\""), "{yes}");
    assert!(yes.contains("`trip` is gone") && yes.ends_with("exit 0"), "{yes}");
    assert!(!yes.contains("[s] this session"), "one call is no session: {yes}");
    let no = at_a_terminal("haft call delete_note name=trip", "n keep it\n").unwrap();
    assert!(no.contains("declined: a person said no: keep it"), "{no}");
    assert!(!no.contains("is gone") && no.ends_with("exit 2"), "{no}");
    let why = at_a_terminal("haft call delete_note name=trip", "?\n\n").unwrap();
    assert!(why.contains("check       the default"), "{why}");
    assert!(why.ends_with("exit 2"), "{why}");
}
