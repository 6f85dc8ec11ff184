//! Nothing outlives its command, however it ends. Survivors are counted by a marker in their command
//! lines.

use std::{path::Path, time::Duration};

use haft_sandbox::{Command, Exit, ExitReason, Helper, Level, Running, Sandbox};

use crate::kit::*;

/// Leaves behind everything a command can: children, grandchildren, sessions of their own, daemons
/// that forked twice, some that ignore signals, some that hold the pipes open.
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

async fn begin(sandbox: &Sandbox, room: &Room, marker: &str) -> Running {
    let script = format!("{}; sleep 1000.{marker}", daemons(marker));
    let mut running = sandbox.start(Command::shell(script), room.profile()).await.unwrap();
    assert_eq!(running.next().await.unwrap().bytes, b"ready\n");
    assert!(survivors(marker) >= 6, "they live: {}", survivors(marker));
    running
}

#[tokio::test]
async fn daemons_end_with_a_command_that_ends_by_itself() {
    for sandbox in sandboxes().await {
        let (room, marker) = (Room::new(), marker());
        let ended = sh(&sandbox, room.profile(), format!("{}; exit 7", daemons(&marker))).await;
        assert_eq!((ended.exit, ended.how), (Exit::Code(7), ExitReason::Itself), "{}", err(&ended));
        assert_eq!(survivors(&marker), 0, "{}", sandbox.tier().level);
        assert!(ended.wall < Duration::from_secs(20), "nobody waited for the pipes");
    }
}

#[tokio::test]
async fn nothing_survives_the_deadline() {
    for sandbox in sandboxes().await {
        let (room, marker) = (Room::new(), marker());
        let script = format!("{}; sleep 1000.{marker}", daemons(&marker));
        let command = Command::shell(script).deadline(Duration::from_millis(900));
        let ended = sandbox.run(command, room.profile()).await.unwrap();
        assert_eq!((ended.how, out(&ended).as_str()), (ExitReason::TimedOut, "ready\n"));
        assert_eq!(ended.exit, Exit::Signal(9));
        assert_eq!(survivors(&marker), 0, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn nothing_survives_being_stopped() {
    for sandbox in sandboxes().await {
        let (room, marker) = (Room::new(), marker());
        let mut running = begin(&sandbox, &room, &marker).await;
        // A wait that is given up loses nothing.
        assert!(tokio::time::timeout(Duration::from_millis(50), running.wait()).await.is_err());
        let ended = running.stop().await;
        assert_eq!((ended.how, ended.exit), (ExitReason::Stopped, Exit::Signal(9)));
        assert_eq!(out(&ended), "ready\n");
        assert_eq!(survivors(&marker), 0);
    }
}

#[tokio::test]
async fn a_command_that_is_asked_may_clean_up_first_and_one_that_does_not_listen_is_ended() {
    for sandbox in sandboxes().await {
        let (room, marker) = (Room::new(), marker());
        let script =
            format!("trap 'echo bye; exit 5' TERM; echo ready; sleep 1000.{marker} & wait");
        let mut running = sandbox.start(Command::shell(script), room.profile()).await.unwrap();
        running.next().await.unwrap();
        let ended = running.stop_gently(Duration::from_secs(10)).await;
        assert_eq!((out(&ended).as_str(), ended.exit), ("ready\nbye\n", Exit::Code(5)));
        assert_eq!(survivors(&marker), 0);

        let deaf = format!("trap '' TERM; echo ready; while :; do sleep 1000.{marker}; done");
        let mut running = sandbox.start(Command::shell(deaf), room.profile()).await.unwrap();
        running.next().await.unwrap();
        let ended = running.stop_gently(Duration::from_millis(300)).await;
        assert_eq!((ended.how, ended.exit), (ExitReason::Stopped, Exit::Signal(9)));
        assert_eq!(survivors(&marker), 0);
    }
}

#[tokio::test]
async fn nothing_survives_being_dropped() {
    for sandbox in sandboxes().await {
        let (room, marker) = (Room::new(), marker());
        drop(begin(&sandbox, &room, &marker).await);
        assert_eq!(settle(&marker, 0).await, 0, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn nothing_survives_a_panic_of_whoever_holds_it() {
    for sandbox in sandboxes().await {
        let (room, marker) = (Room::new(), marker());
        let running = begin(&sandbox, &room, &marker).await;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = running;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(settle(&marker, 0).await, 0);
    }
}

/// The note that makes [`a_runtime_that_is_to_be_killed`] do something.
const NOTE: &str = "haft-runtime-note";

/// No test of its own: a runtime in a process of its own, started by the test below in a directory with
/// a note in it.
#[tokio::test]
async fn a_runtime_that_is_to_be_killed() {
    if !Path::new(NOTE).exists() {
        return;
    }
    let note = get(Path::new(NOTE));
    let (level, marker) = note.split_once(' ').unwrap();
    let level = if level == "namespaces" { Level::Namespaces } else { Level::Landlock };
    let sandbox = Sandbox::at(Helper::At(helper()), level).await.unwrap();
    let room = Room::new();
    let mut running = begin(&sandbox, &room, marker).await;
    put(Path::new("begun"), "");
    running.wait().await;
}

#[tokio::test]
async fn nothing_survives_a_killed_runtime() {
    for sandbox in sandboxes().await {
        let marker = marker();
        let folder = tempfile::tempdir().unwrap();
        put(&folder.path().join(NOTE), &format!("{} {marker}", sandbox.tier().level));
        let mut runtime = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "orphans::a_runtime_that_is_to_be_killed"])
            .current_dir(folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..400 {
            if folder.path().join("begun").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert!(survivors(&marker) >= 6, "they live: {}", survivors(&marker));
        runtime.kill().unwrap();
        runtime.wait().unwrap();
        assert_eq!(settle(&marker, 0).await, 0, "{}", sandbox.tier().level);
    }
}

#[tokio::test]
async fn nothing_survives_a_killed_helper_in_namespaces() {
    let Some(sandbox) = sandboxes().await.into_iter().find(|s| s.tier().level == Level::Namespaces)
    else {
        return;
    };
    let (room, marker) = (Room::new(), marker());
    let mut running = begin(&sandbox, &room, &marker).await;
    running.kill_helper();
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await.unwrap();
    assert_eq!((ended.how, ended.exit), (ExitReason::Lost, Exit::Unknown));
    assert_eq!(settle(&marker, 0).await, 0);
}

#[tokio::test]
async fn one_that_forks_without_pause_is_ended_too() {
    for sandbox in sandboxes().await {
        let (room, marker) = (Room::new(), marker());
        let mut profile = room.profile();
        profile.limits.processes = 60;
        // Each leaves a successor and ends, so that its number is never the one that was seen.
        let script = format!(
            "perl -e 'setpgrp; for (;;) {{ my $p = fork; exit if $p; select undef, undef, undef, 0.0002 }} # {marker}' & echo ready; sleep 0.3"
        );
        let ended = sh(&sandbox, profile, script).await;
        assert_eq!(out(&ended), "ready\n");
        assert_eq!(survivors(&marker), 0, "{}", sandbox.tier().level);
    }
}

/// The children of a process.
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
async fn command_dies_with_a_killed_helper_in_tier_landlock() {
    let Some(sandbox) = landlock().await else { return };
    let (room, marker) = (Room::new(), marker());
    let mut running = begin(&sandbox, &room, &marker).await;
    running.kill_helper();
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await.unwrap();
    assert_eq!((ended.how, ended.exit), (ExitReason::Lost, Exit::Signal(9)));
    assert_eq!(survivors(&marker), 0, "`Lost` says that everything was ended");
}

#[tokio::test]
async fn command_dies_with_a_killed_watcher_in_tier_landlock() {
    let Some(sandbox) = landlock().await else { return };
    let (room, marker) = (Room::new(), marker());
    let mut running = begin(&sandbox, &room, &marker).await;
    let [watcher] = *children(running.helper_id().unwrap()) else { panic!("one watcher") };
    kill(watcher);
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await.unwrap();
    assert_eq!((ended.how, ended.exit), (ExitReason::Lost, Exit::Unknown));
    assert_eq!(survivors(&marker), 0);
}

#[tokio::test]
async fn killing_helper_and_watcher_at_once_is_reported_as_abandoned() {
    let Some(sandbox) = landlock().await else { return };
    let (room, marker) = (Room::new(), marker());
    let mut running = begin(&sandbox, &room, &marker).await;
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
    assert_eq!((ended.how, ended.exit), (ExitReason::Abandoned, Exit::Unknown));
    let pattern = format!("1000.{marker}");
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&pattern) {
            // What is left over is ours to end and to remove.
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
