//! No process outlives its command, however it ends. Survivors are counted by a marker in their
//! command lines.

use std::{path::Path, time::Duration};

use haft_sandbox::{Command, Exit, ExitReason, Helper, Level, RunningProcess, Sandbox};

use crate::kit::*;

/// Returns a script that leaves all kinds of processes: children, grandchildren, own sessions,
/// daemons by double fork, some that ignore signals, some that keep the pipes open.
fn daemons(marker: &str) -> String {
    format!(
        "sleep 1000.{marker} &
         (sleep 1000.{marker} &) &
         setsid sleep 1000.{marker} &
         setsid sh -c 'trap \"\" TERM HUP INT; (setsid sh -c \"sleep 1000.{marker}; :\" &) & sleep 1000.{marker}; :' &
         (setsid sh -c 'cd /; exec sleep 1000.{marker}' </dev/null >/dev/null 2>&1 &) &
         nohup sh -c 'while :; do sleep 1000.{marker}; done' >/dev/null 2>&1 &
         sleep 0.2; echo ready"
    )
}

async fn begin(sandbox: &Sandbox, fixture: &Fixture, marker: &str) -> RunningProcess {
    let script = format!("{}; sleep 1000.{marker}", daemons(marker));
    let mut running = sandbox.start(Command::shell(script), fixture.profile()).await.unwrap();
    assert_eq!(running.next().await.unwrap().bytes, b"ready\n");
    assert!(survivors(marker) >= 6, "not all are running: {}", survivors(marker));
    running
}

#[tokio::test]
async fn daemons_are_killed_when_the_command_exits() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        let ended = sh(&sandbox, fixture.profile(), format!("{}; exit 7", daemons(&marker))).await;
        assert_eq!(
            (ended.exit, ended.exit_reason),
            (Exit::Code(7), ExitReason::Exited),
            "{}",
            err(&ended)
        );
        assert_eq!(survivors(&marker), 0, "{}", sandbox.tier().level);
        assert!(ended.wall < Duration::from_secs(20), "the open pipes delayed the result");
    }
}

#[tokio::test]
async fn no_process_survives_the_timeout() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        let script = format!("{}; sleep 1000.{marker}", daemons(&marker));
        let command = Command::shell(script).deadline(Duration::from_millis(900));
        let ended = sandbox.run(command, fixture.profile()).await.unwrap();
        assert_eq!((ended.exit_reason, out(&ended).as_str()), (ExitReason::TimedOut, "ready\n"));
        assert_eq!(ended.exit, Exit::Signal(9));
        assert_eq!(survivors(&marker), 0, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn no_process_survives_a_stop() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        let mut running = begin(&sandbox, &fixture, &marker).await;
        // A cancelled wait loses nothing.
        assert!(tokio::time::timeout(Duration::from_millis(50), running.wait()).await.is_err());
        let ended = running.stop().await;
        assert_eq!((ended.exit_reason, ended.exit), (ExitReason::Stopped, Exit::Signal(9)));
        assert_eq!(out(&ended), "ready\n");
        assert_eq!(survivors(&marker), 0);
    }
}

#[tokio::test]
async fn sigterm_allows_cleanup_and_a_command_that_ignores_it_is_killed() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        let script =
            format!("trap 'echo bye; exit 5' TERM; echo ready; sleep 1000.{marker} & wait");
        let mut running = sandbox.start(Command::shell(script), fixture.profile()).await.unwrap();
        running.next().await.unwrap();
        let ended = running.terminate(Duration::from_secs(10)).await;
        assert_eq!((out(&ended).as_str(), ended.exit), ("ready\nbye\n", Exit::Code(5)));
        assert_eq!(survivors(&marker), 0);

        let ignores_sigterm =
            format!("trap '' TERM; echo ready; while :; do sleep 1000.{marker}; done");
        let mut running =
            sandbox.start(Command::shell(ignores_sigterm), fixture.profile()).await.unwrap();
        running.next().await.unwrap();
        let ended = running.terminate(Duration::from_millis(300)).await;
        assert_eq!((ended.exit_reason, ended.exit), (ExitReason::Stopped, Exit::Signal(9)));
        assert_eq!(survivors(&marker), 0);
    }
}

#[tokio::test]
async fn no_process_survives_a_drop() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        drop(begin(&sandbox, &fixture, &marker).await);
        assert_eq!(wait_for_survivors(&marker, 0).await, 0, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn no_process_survives_a_panic_of_the_owner() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        let running = begin(&sandbox, &fixture, &marker).await;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = running;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(wait_for_survivors(&marker, 0).await, 0);
    }
}

/// The file that enables [`a_runtime_that_is_to_be_killed`].
const NOTE: &str = "haft-runtime-note";

/// Inner part of the test below: a runtime in its own process, started in a directory with that
/// file.
#[tokio::test]
async fn a_runtime_that_is_to_be_killed() {
    if !Path::new(NOTE).exists() {
        return;
    }
    let note = get(Path::new(NOTE));
    let (level, marker) = note.split_once(' ').unwrap();
    let level = if level == "namespaces" { Level::Namespaces } else { Level::Landlock };
    let sandbox = Sandbox::at(Helper::At(helper()), level).await.unwrap();
    let fixture = Fixture::new();
    let mut running = begin(&sandbox, &fixture, marker).await;
    put(Path::new("begun"), "");
    running.wait().await;
}

#[tokio::test]
async fn no_process_survives_a_killed_runtime() {
    for sandbox in sandboxes().await {
        let marker = marker();
        let directory = tempfile::tempdir().unwrap();
        put(&directory.path().join(NOTE), &format!("{} {marker}", sandbox.tier().level));
        let mut runtime = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "orphans::a_runtime_that_is_to_be_killed"])
            .current_dir(directory.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..400 {
            if directory.path().join("begun").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert!(survivors(&marker) >= 6, "not all are running: {}", survivors(&marker));
        runtime.kill().unwrap();
        runtime.wait().unwrap();
        assert_eq!(wait_for_survivors(&marker, 0).await, 0, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn no_process_survives_a_killed_helper_in_tier_namespaces() {
    let Some(sandbox) = sandboxes().await.into_iter().find(|s| s.tier().level == Level::Namespaces)
    else {
        return;
    };
    let (fixture, marker) = (Fixture::new(), marker());
    let mut running = begin(&sandbox, &fixture, &marker).await;
    running.kill_helper();
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await.unwrap();
    assert_eq!((ended.exit_reason, ended.exit), (ExitReason::HelperDied, Exit::Unknown));
    assert_eq!(wait_for_survivors(&marker, 0).await, 0);
}

#[tokio::test]
async fn process_that_forks_continuously_is_killed() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        let mut profile = fixture.profile();
        profile.limits.processes = 60;
        // Each process forks and exits, so that its pid is gone when it is found.
        let script = format!(
            "perl -e 'setpgrp; for (;;) {{ my $p = fork; exit if $p; select undef, undef, undef, 0.0002 }} # {marker}' & echo ready; sleep 0.3"
        );
        let ended = sh(&sandbox, profile, script).await;
        assert_eq!(out(&ended), "ready\n");
        assert_eq!(survivors(&marker), 0, "{}", sandbox.tier().level);
    }
}

/// Returns the children of a process.
fn children(pid: u32) -> Vec<i32> {
    let text = std::fs::read(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

async fn landlock() -> Option<Sandbox> {
    sandboxes().await.into_iter().find(|s| s.tier().level == Level::Landlock)
}

#[tokio::test]
async fn no_process_survives_a_killed_helper_in_tier_landlock() {
    let Some(sandbox) = landlock().await else { return };
    let (fixture, marker) = (Fixture::new(), marker());
    let mut running = begin(&sandbox, &fixture, &marker).await;
    running.kill_helper();
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await.unwrap();
    assert_eq!((ended.exit_reason, ended.exit), (ExitReason::HelperDied, Exit::Signal(9)));
    assert_eq!(survivors(&marker), 0, "`Lost` means that all processes were killed");
}

#[tokio::test]
async fn no_process_survives_a_killed_watcher_in_tier_landlock() {
    let Some(sandbox) = landlock().await else { return };
    let (fixture, marker) = (Fixture::new(), marker());
    let mut running = begin(&sandbox, &fixture, &marker).await;
    let [watcher] = *children(running.helper_id().unwrap()) else { panic!("one watcher") };
    kill(watcher);
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await.unwrap();
    assert_eq!((ended.exit_reason, ended.exit), (ExitReason::HelperDied, Exit::Unknown));
    assert_eq!(survivors(&marker), 0);
}

#[tokio::test]
async fn killing_helper_and_watcher_at_once_is_reported_as_abandoned() {
    let Some(sandbox) = landlock().await else { return };
    let (fixture, marker) = (Fixture::new(), marker());
    let mut running = begin(&sandbox, &fixture, &marker).await;
    let helper = running.helper_id().unwrap();
    let [watcher] = *children(helper) else { panic!("one watcher") };
    // Stopped first, so that neither can act on the death of the other.
    let stop = |pid: i32| {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    };
    let helper = i32::try_from(helper).unwrap();
    stop(helper);
    stop(watcher);
    kill(helper);
    kill(watcher);
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await.unwrap();
    assert_eq!((ended.exit_reason, ended.exit), (ExitReason::Abandoned, Exit::Unknown));
    let pattern = format!("1000.{marker}");
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&pattern) {
            // The test has to kill and remove what is left.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            let scratch =
                environment.split('\0').find_map(|it| it.strip_prefix("TMPDIR=/tmp/haft-"));
            if let Some(scratch) = scratch {
                let _ = std::fs::remove_dir_all(format!("/tmp/haft-{scratch}"));
            }
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}
