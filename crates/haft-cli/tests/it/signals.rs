//! Signals that end the command: every call gets a result, and no child process survives.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "these tests wait for real processes")]

use std::{
    process::{Child, Stdio},
    time::Duration,
};

use crate::{Ran, TempDir};

/// Waits until a condition holds, for at most half a minute.
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} did not happen");
}

pub(crate) fn send(signal: &str, child: &Child) {
    let id = child.id().to_string();
    let status = std::process::Command::new("kill").args([signal, &id]).status().unwrap();
    assert!(status.success());
}

/// Whether a process runs whose command line holds this.
pub(crate) fn runs(what: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).any(
        |own| {
            let line = std::fs::read(own.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).split('\0').any(|word| word == what)
        },
    )
}

/// Whether this process ignores SIGHUP, as under `nohup`. The commands that it starts do so too.
fn ignores_sighup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 != 0
}

#[test]
fn sigterm_and_sighup_cancel_the_call_and_kill_its_process_tree() {
    for (at, signal) in ["-INT", "-TERM", "-HUP"].into_iter().enumerate() {
        if signal == "-HUP" && ignores_sighup() {
            eprintln!("SIGHUP is not tested: the tests run under nohup");
            continue;
        }
        let dir = TempDir::trusted(&format!("signals{signal}"), &[]);
        // An unusual duration, which identifies the process.
        let seconds = format!("{}.{at}", 1_000_000 + std::process::id());
        let line = format!("touch ready; sleep {seconds} & sleep {seconds}");
        let mut haft = dir.command();
        haft.args(["call", "shell", &format!("command={line}"), "--workspace", ".", "--yes"]);
        let child =
            haft.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("the command's start", || dir.work().join("ready").exists() && runs(&seconds));
        send(signal, &child);
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(130), "{signal}: {ran:?}");
        let answer = ran.json();
        assert_eq!(answer["ok"], false, "{signal}: {answer}");
        assert_eq!(answer["failure"]["code"], "cancelled", "{signal}: {answer}");
        wait_for("the end of the process tree", || !runs(&seconds));
    }
}

#[test]
fn sigterm_gives_every_call_of_a_response_a_result() {
    let call = |id: &str| serde_json::json!({"type": "tool_use", "id": id, "name": "shell", "input": {"command": "sleep 60"}});
    let response = serde_json::json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [call("a"), call("b")],
    });
    let dir = TempDir::new("signals-dispatch", &[("response.json", &response.to_string())]);
    for wait in [200, 800, 3_200] {
        let mut haft = dir.command();
        haft.args(["dispatch", "response.json", "--dialect", "anthropic", "--json"]);
        let child = haft.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        send("-TERM", &child);
        let ran = Ran::of(child.wait_with_output().unwrap());
        // Without a code the signal came before the handler was installed: wait longer.
        if ran.code.is_some() {
            assert_eq!(ran.code, Some(130), "{ran:?}");
            assert_eq!(ran.out.matches("error=cancelled").count(), 2, "{ran:?}");
            return;
        }
    }
    panic!("the command never listened");
}

#[test]
fn ignored_sighup_stays_ignored() {
    let mut shell = std::process::Command::new("sh");
    let line = "trap '' HUP; exec \"$0\" call shell \"command=sleep 2\" --json";
    let child = crate::isolated(&mut shell)
        .args(["-c", line, env!("CARGO_BIN_EXE_haft")])
        .current_dir(crate::workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(300));
        send("-HUP", &child);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
