//! `SIGKILL` at any time to any process of a sandbox: nothing is left, and the next command works.

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

/// Which process is killed.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Command,
    Helper,
    /// The first process of the namespace, or the watcher.
    Below,
}

/// Returns the temporary directories of commands.
fn temporary_directories() -> BTreeSet<String> {
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

/// Returns whether a process is a shell with the marker, `None` if its command line is not
/// readable now.
fn is_shell_of(marker: &str, pid: i32) -> Option<bool> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|line| !line.is_empty())?;
    let line = String::from_utf8_lossy(&line).into_owned();
    Some(line.contains(marker) && line.contains("while"))
}

fn parent(pid: i32) -> Option<i32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status).into_owned();
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Returns the shells with the marker, without the processes that they left. Empty if the first of
/// them is not among them: one reading of `/proc` may miss a process.
fn commands_of(marker: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    let shells: Vec<i32> = pids.filter(|pid| is_shell_of(marker, *pid) == Some(true)).collect();
    let is_first = |pid: &i32| parent(*pid).and_then(|it| is_shell_of(marker, it)) == Some(false);
    if shells.iter().any(is_first) { shells } else { Vec::new() }
}

/// Kills the processes that a function finds, once, as soon as it finds any.
async fn kill_found(find: impl Fn() -> Vec<i32>, what: &str) {
    for _ in 0..1_000 {
        let found = find();
        if !found.is_empty() {
            return found.into_iter().for_each(kill);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}: no process to kill");
}

fn kill(pid: i32) {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return };
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Returns a command that creates, moves and removes names forever, and leaves a background
/// process. The marker is in the command line of each.
fn endless(marker: &str) -> Command {
    let script = format!(
        "i=0; echo ready; while :; do echo $i > sub/f; mv sub/f sub/g; rm sub/g; i=$((i+1)); \
         [ $i = 5 ] && (sleep 1000.{marker} &); :; done # {marker}"
    );
    Command::shell(script).deadline(Duration::from_secs(30))
}

/// Kills one process while the command runs, and checks that nothing is left.
async fn kill_once(sandbox: &Sandbox, fixture: &Fixture, victim: Victim, after: Duration) {
    let marker = marker();
    let mut running = sandbox.start(endless(&marker), fixture.profile()).await.unwrap();
    assert_eq!(running.next().await.unwrap().bytes, b"ready\n");
    tokio::time::sleep(after).await;
    let helper = i32::try_from(running.helper_id().unwrap()).unwrap();
    let what = format!("{}, {victim:?} after {after:?}", sandbox.tier().level);
    match victim {
        Victim::Command => kill_found(|| commands_of(&marker), &what).await,
        Victim::Helper => kill(helper),
        Victim::Below => kill_found(|| children(helper), &what).await,
    }
    let ended = tokio::time::timeout(Duration::from_secs(20), running.wait()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{what}: it never ended"));
    assert!(!ended.is_success(), "{what}");
    assert_nothing_is_left(sandbox, fixture, &marker, &what).await;
}

/// Asserts that no process and no name is left, and that the next command works.
async fn assert_nothing_is_left(sandbox: &Sandbox, fixture: &Fixture, marker: &str, what: &str) {
    assert_eq!(wait_for_survivors(marker, 0).await, 0, "{what}");
    for name in ["f", "g"] {
        let _ = fs::remove_file(fixture.inside.join("sub").join(name));
    }
    let left: Vec<_> = snapshot(&fixture.inside).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [fixture.inside.join("notes.txt"), fixture.inside.join("sub")], "{what}");
    let next = sh(sandbox, fixture.profile(), "echo next > n && cat n && rm n").await;
    assert_eq!(out(&next), "next\n", "{what}: {}", err(&next));
}

/// Asserts that the temporary directories of killed commands are removed. Other tests have
/// temporary directories too, for a while.
async fn assert_temporary_directories_are_removed(before: &BTreeSet<String>, level: Level) {
    let mut left = BTreeSet::new();
    for _ in 0..200 {
        left = temporary_directories().difference(before).cloned().collect();
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
async fn nothing_is_left_after_a_process_of_the_sandbox_is_killed() {
    let rounds: u64 = if is_long() { 34 } else { 3 };
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let before = temporary_directories();
        for round in 0..rounds {
            for victim in [Victim::Command, Victim::Helper, Victim::Below] {
                kill_once(&sandbox, &fixture, victim, Duration::from_millis(round * 3)).await;
            }
        }
        assert_temporary_directories_are_removed(&before, sandbox.tier().level).await;
    }
}

/// The file that enables [`host_that_is_to_be_killed`]: a level, a marker and a workspace.
const NOTE: &str = "haft-host-note";

/// Inner part of the test below: a process that runs a sandbox as `haft` does.
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

/// Starts the host, kills it after a delay, and returns whether its command was running.
async fn kill_host(level: Level, marker: &str, fixture: &Fixture, after: Duration) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let note = format!("{level}\n{marker}\n{}", fixture.inside.display());
    put(&directory.path().join(NOTE), &note);
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::host_that_is_to_be_killed"])
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..2_000 {
        if directory.path().join("begun").exists() {
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
async fn nothing_is_left_after_the_host_is_killed_at_random_times() {
    let rounds: u32 = if is_long() { 50 } else { 10 };
    for sandbox in sandboxes().await {
        let (fixture, before) = (Fixture::new(), temporary_directories());
        let level = sandbox.tier().level;
        let mut running = 0;
        for round in 0..rounds * 5 {
            // On a busy machine it takes more rounds until a command was running.
            if round >= rounds && running > 0 {
                break;
            }
            let marker = marker();
            // Mostly the command is running, sometimes it is being started.
            let after = Duration::from_micros(RandomState::new().hash_one(round) % 120_000);
            running += u32::from(kill_host(level, &marker, &fixture, after).await);
            let what = format!("{level}, the host after {after:?}");
            assert_nothing_is_left(&sandbox, &fixture, &marker, &what).await;
        }
        assert!(running > 0, "{level}: no command was running before any kill");
        assert_temporary_directories_are_removed(&before, level).await;
    }
}
