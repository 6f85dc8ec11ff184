//! SIGKILL at any moment to any process of a sandbox: nothing is left, and the next command works.

use std::{
    collections::BTreeSet,
    fs,
    hash::{BuildHasher as _, RandomState},
    path::Path,
    process::Stdio,
    time::Duration,
};

use haft_sandbox::{Access, Command, Helper, Level, Profile, Sandbox, Workspace};

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

pub(crate) fn children(pid: i32) -> Vec<i32> {
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

/// A command that creates, moves and removes names without end, and leaves a process behind. The marker
/// is in the command line of each.
fn endless(marker: &str) -> Command {
    let script = format!(
        "i=0; echo ready; while :; do echo $i > sub/f; mv sub/f sub/g; rm sub/g; i=$((i+1)); \
         [ $i = 5 ] && (sleep 1000.{marker} &); :; done # {marker}"
    );
    Command::shell(script).deadline(Duration::from_secs(30))
}

/// Kills once, in the middle of creates, and looks at what is left.
async fn kill_once(sandbox: &Sandbox, room: &Room, victim: Victim, after: Duration) {
    let marker = marker();
    let mut running = sandbox.start(endless(&marker), room.profile()).await.unwrap();
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
    nothing_is_left(sandbox, room, &marker, &what).await;
}

/// Asserts that no process and no name is left, and that the next command works.
async fn nothing_is_left(sandbox: &Sandbox, room: &Room, marker: &str, what: &str) {
    assert_eq!(settle(marker, 0).await, 0, "{what}");
    for name in ["f", "g"] {
        let _ = fs::remove_file(room.inside.join("sub").join(name));
    }
    let left: Vec<_> = picture(&room.inside).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [room.inside.join("notes.txt"), room.inside.join("sub")], "{what}");
    let next = sh(sandbox, room.profile(), "echo next > n && cat n && rm n").await;
    assert_eq!(out(&next), "next\n", "{what}: {}", err(&next));
}

/// Asserts that the temporary directories of killed commands are gone. Other tests have temporary
/// directories of their own for a while.
async fn scratches_are_removed(before: &BTreeSet<String>, level: Level) {
    let mut left = BTreeSet::new();
    for _ in 0..200 {
        left = scratches().difference(before).cloned().collect();
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(left.is_empty(), "{level}: {left:?}");
}

fn is_long() -> bool {
    std::env::var_os("HAFT_LONG_TESTS").is_some()
}

#[tokio::test]
async fn nothing_is_left_after_a_kill_at_any_moment_and_the_next_command_works() {
    let rounds: u64 = if is_long() { 34 } else { 3 };
    for sandbox in sandboxes().await {
        let room = Room::new();
        let before = scratches();
        for round in 0..rounds {
            for victim in [Victim::Command, Victim::Helper, Victim::Below] {
                kill_once(&sandbox, &room, victim, Duration::from_millis(round * 3)).await;
            }
        }
        scratches_are_removed(&before, sandbox.tier().level).await;
    }
}

/// The file that makes [`host_that_is_to_be_killed`] do something: a level, a marker and a workspace.
const NOTE: &str = "haft-host-note";

/// No test of its own: a process that runs a sandbox as `haft` does, started by the test below.
#[tokio::test]
async fn host_that_is_to_be_killed() {
    if !Path::new(NOTE).exists() {
        return;
    }
    let note = get(Path::new(NOTE));
    let [level, marker, inside] = *note.split('\n').collect::<Vec<_>>() else { panic!("{note}") };
    let level = if level == "namespaces" { Level::Namespaces } else { Level::Landlock };
    put(Path::new("begun"), "");
    let sandbox = Sandbox::at(Helper::At(helper()), level).await.unwrap();
    let workspace = Workspace::builder().root(inside, Access::Write).build().unwrap();
    let capabilities = haft_core::Capabilities::from([haft_core::Capability::Filesystem]);
    let profile = Profile::of(capabilities, &workspace);
    let mut running = sandbox.start(endless(marker), profile).await.unwrap();
    running.wait().await;
}

/// Starts such a process, kills it some time after it began, and returns whether its command ran.
async fn kill_host(level: Level, marker: &str, room: &Room, after: Duration) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let note = format!("{level}\n{marker}\n{}", room.inside.display());
    put(&folder.path().join(NOTE), &note);
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::host_that_is_to_be_killed"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..2_000 {
        if folder.path().join("begun").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(after).await;
    let is_running = survivors(marker) > 0;
    host.kill().unwrap();
    host.wait().unwrap();
    is_running
}

#[tokio::test]
async fn nothing_is_left_after_a_kill_of_the_host_at_random_moments() {
    let rounds: u32 = if is_long() { 50 } else { 25 };
    for sandbox in sandboxes().await {
        let (room, before) = (Room::new(), scratches());
        let level = sandbox.tier().level;
        let mut running = 0;
        for round in 0..rounds {
            let marker = marker();
            // Most of the time the command runs, and now and then it is being started.
            let after = Duration::from_micros(RandomState::new().hash_one(round) % 120_000);
            running += u32::from(kill_host(level, &marker, &room, after).await);
            let what = format!("{level}, the host after {after:?}");
            nothing_is_left(&sandbox, &room, &marker, &what).await;
        }
        assert!(running > 0, "{level}: no command had begun before any kill");
        scratches_are_removed(&before, level).await;
    }
}
