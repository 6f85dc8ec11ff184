//! Acts of the self-test that are checked from outside: a command that exceeds its memory limit,
//! and a helper that is killed.

use std::{path::Path, time::Duration};

use crate::{Command, DoctorFinding, ExitReason, ExpectedResult, ObservedResult, Profile, Sandbox};

/// Timeout of each command.
const DEADLINE: Duration = Duration::from_secs(20);
/// Time in which a live command has added to its file.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
/// Memory limit of the command that exceeds it threefold.
const MEMORY_LIMIT: u64 = 64 << 20;

/// Runs these acts in a workspace. `inside` is its root.
pub(super) async fn run(sandbox: &Sandbox, profile: &Profile, inside: &Path) -> Vec<DoctorFinding> {
    let finding = |name: &str, group: &str, tried: &str, observed| DoctorFinding {
        name: name.to_owned(),
        group: group.to_owned(),
        tried: tried.to_owned(),
        expected: ExpectedResult::Refused,
        observed,
    };
    // In this order: the second launch removes the cgroup that the killed helper left.
    vec![
        finding(
            "outlive-helper",
            "processes",
            "survive a killed helper",
            outlive_helper(sandbox, profile.clone(), inside).await,
        ),
        finding(
            "tree-memory",
            "limits",
            "exceed the memory limit of all processes together",
            take_memory(sandbox, profile.clone()).await,
        ),
    ]
}

fn skipped(why: impl ToString) -> ObservedResult {
    ObservedResult::Skipped(why.to_string())
}

async fn take_memory(sandbox: &Sandbox, mut profile: Profile) -> ObservedResult {
    profile.limits.resident = MEMORY_LIMIT;
    // Without a line break `tail` buffers everything.
    let script = format!("head -c {} /dev/zero | tail -n 1 | wc -c", 3 * MEMORY_LIMIT);
    match sandbox.run(Command::shell(script).deadline(DEADLINE), profile).await {
        Ok(ended) if ended.exit_reason == ExitReason::OutOfMemory => ObservedResult::Killed(9),
        Ok(ended) if ended.is_success() && ended.stderr.seen() == 0 => ObservedResult::Allowed,
        Ok(ended) => skipped(String::from_utf8_lossy(ended.stderr.bytes())),
        Err(error) => skipped(error),
    }
}

/// Starts a child in its own session, which writes as long as it lives, and kills the helper.
async fn outlive_helper(sandbox: &Sandbox, profile: Profile, inside: &Path) -> ObservedResult {
    let alive = inside.join("sub/alive");
    let script = "(while :; do echo x >> sub/alive; sleep 0.02; done) </dev/null >/dev/null 2>&1 &
        while [ ! -s sub/alive ]; do sleep 0.02; done; echo ready; wait";
    let command = Command::shell(script).deadline(DEADLINE);
    let mut running = match sandbox.start(command, profile).await {
        Ok(running) => running,
        Err(error) => return skipped(error),
    };
    if running.next().await.is_none() {
        return skipped("the command did not start");
    }
    running.kill_helper();
    running.wait().await;
    let size = || alive.metadata().map_or(0, |meta| meta.len());
    let mut before = size();
    for _ in 0..4 {
        tokio::time::sleep(WRITE_INTERVAL).await;
        let now = size();
        if now == before {
            return ObservedResult::Killed(9);
        }
        before = now;
    }
    ObservedResult::Allowed
}
