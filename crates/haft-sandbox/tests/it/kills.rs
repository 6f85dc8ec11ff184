//! SIGKILL at any moment to any process of a sandbox: nothing is left, and the next command works.

use std::{collections::BTreeSet, fs, time::Duration};

use haft_sandbox::{Command, Sandbox};

use crate::kit::*;

/// Which process dies.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Command,
    Helper,
    /// The first process of the namespace, or the watcher.
    Below,
}

/// Temporary directories of commands.
fn scratches() -> BTreeSet<String> {
    let names = fs::read_dir("/tmp").unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("haft-")).collect()
}

fn children(pid: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read(task.path().join("children")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        all.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    all
}

/// Finds the shell of the marker and its copies of this moment, without what they left behind.
fn commands_of(marker: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let shells = entries.filter_map(|entry| {
        let pid = entry.file_name().to_string_lossy().parse::<i32>().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        (line.contains(marker) && line.contains("while")).then_some(pid)
    });
    shells.collect()
}

fn kill(pid: i32) {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return };
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Kills once, in the middle of creates, and looks at what is left.
async fn kill_once(sandbox: &Sandbox, room: &Room, victim: Victim, after: Duration) {
    let marker = marker();
    // The marker is an argument, so it is in the command line of each.
    let script = format!(
        "i=0; echo ready; while :; do echo $i > sub/f; mv sub/f sub/g; rm sub/g; i=$((i+1)); \
         [ $i = 5 ] && (sleep 1000.{marker} &); :; done # {marker}"
    );
    let command = Command::shell(script).deadline(Duration::from_secs(30));
    let mut running = sandbox.start(command, room.profile()).await.unwrap();
    assert_eq!(running.next().await.unwrap().bytes, b"ready\n");
    tokio::time::sleep(after).await;
    let helper = i32::try_from(running.helper_id().unwrap()).unwrap();
    match victim {
        Victim::Command => commands_of(&marker).into_iter().for_each(kill),
        Victim::Helper => kill(helper),
        Victim::Below => children(helper).into_iter().for_each(kill),
    }
    let what = format!("{}, {victim:?} after {after:?}", sandbox.tier().level);
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{what}: it never ended"));
    assert!(!ended.is_success(), "{what}");
    assert_eq!(settle(&marker, 0).await, 0, "{what}");
    for name in ["f", "g"] {
        let _ = fs::remove_file(room.inside.join("sub").join(name));
    }
    let left: Vec<_> = picture(&room.inside).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [room.inside.join("notes.txt"), room.inside.join("sub")], "{what}");
    let next = sh(sandbox, room.profile(), "echo next > n && cat n && rm n").await;
    assert_eq!(out(&next), "next\n", "{what}: {}", err(&next));
}

#[tokio::test]
async fn nothing_is_left_after_a_kill_at_any_moment_and_the_next_command_works() {
    let is_long = std::env::var_os("HAFT_LONG_TESTS").is_some();
    let rounds: u64 = if is_long { 34 } else { 3 };
    for sandbox in sandboxes().await {
        let room = Room::new();
        let before = scratches();
        for round in 0..rounds {
            for victim in [Victim::Command, Victim::Helper, Victim::Below] {
                kill_once(&sandbox, &room, victim, Duration::from_millis(round * 3)).await;
            }
        }
        // Other tests have temporary directories of their own for a while.
        let mut left = BTreeSet::new();
        for _ in 0..200 {
            left = scratches().difference(&before).cloned().collect();
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(left.is_empty(), "{}: {left:?}", sandbox.tier().level);
    }
}
