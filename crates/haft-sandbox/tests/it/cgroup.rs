//! A memory limit that the kernel enforces, in a delegated cgroup.

use std::{
    fs::{self, File},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use haft_sandbox::{Exit, ExitReason, Level, Sandbox, SandboxErrorKind};
use rustix::fs::FlockOperation;

use crate::kit::*;

/// A directory in which cgroups may be created. Dropping it removes it.
struct Delegated(PathBuf);

impl Delegated {
    /// Root can create one if the machine has a memory controller. An ordinary user gets one.
    fn create() -> Option<Self> {
        let name = format!("test-of-haft-{}", marker());
        if Path::new(NOTE).exists() {
            let directory = Path::new(&get(Path::new(NOTE))).join(name);
            fs::create_dir(&directory).unwrap();
            return Some(Self(directory));
        }
        for parent in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"] {
            let (parent, directory) = (Path::new(parent), Path::new(parent).join(&name));
            let has_memory = parent.join("memory.limit_in_bytes").exists()
                || lists_memory(&parent.join("cgroup.subtree_control"));
            if has_memory && fs::create_dir(&directory).is_ok() {
                return Some(Self(directory));
            }
        }
        eprintln!("NOT TESTED: no control group with a memory limit can be made here");
        None
    }

    fn groups(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        let directories = entries.filter(|entry| entry.file_type().unwrap().is_dir());
        directories.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        for group in self.groups() {
            let _ = fs::remove_dir(self.0.join(group));
        }
        let _ = fs::remove_dir(&self.0);
    }
}

fn lists_memory(path: &Path) -> bool {
    path.exists() && get(path).split_whitespace().any(|word| word == "memory")
}

async fn delegated_sandboxes(delegated: &Delegated) -> Vec<Sandbox> {
    let mut all = Vec::new();
    for sandbox in sandboxes().await {
        all.push(sandbox.with_cgroup(&delegated.0).await.unwrap());
    }
    all
}

const LIMIT: u64 = 100 << 20;
/// An ordinary user that owns no files.
const ORDINARY_USER: u32 = 65_534;
/// The file with the directory that root delegated.
const NOTE: &str = "haft-delegated-note";

#[test]
fn ordinary_user_can_use_a_delegated_cgroup() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run by root: nothing can be delegated");
        return;
    }
    let Some(delegated) = Delegated::create() else { return };
    if !delegated.0.starts_with("/sys/fs/cgroup/memory") {
        eprintln!("NOT TESTED: with cgroup v2 the user must be below the delegated directory");
        return;
    }
    chown(&delegated.0, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let test = directory.path().join("it");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    fs::copy(helper(), directory.path().join("haft-sandbox-helper")).unwrap();
    let own = directory.path().join("tmp");
    fs::create_dir(&own).unwrap();
    put(&own.join(NOTE), delegated.0.to_str().unwrap());
    for path in [directory.path(), &own] {
        chown(path, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
    }
    let output = std::process::Command::new(&test)
        .args(["cgroup::", "--skip", "ordinary_user", "--nocapture", "--test-threads", "1"])
        .current_dir(&own)
        .env("TMPDIR", &own)
        .uid(ORDINARY_USER)
        .gid(ORDINARY_USER)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("NOT TESTED"), "{text}");
}

#[tokio::test]
async fn kernel_kills_a_program_that_exceeds_the_memory_limit() {
    let Some(delegated) = Delegated::create() else { return };
    for sandbox in delegated_sandboxes(&delegated).await {
        let level = sandbox.tier().level;
        let kept = "the memory limit is enforced by the kernel (cgroup v";
        assert!(sandbox.tier().notes.iter().any(|note| note.starts_with(kept)), "{level}");
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.resident = LIMIT;
        let hungry = "perl -e 'my $x = \"a\" x (600 << 20); print length $x; sleep 20'";
        let ended = sh(&sandbox, profile.clone(), hungry).await;
        assert_eq!(
            (ended.exit_reason, ended.stdout.seen()),
            (ExitReason::OutOfMemory, 0),
            "{level}: {ended:?}"
        );
        // Pages of libraries are charged to other cgroups. Sampling would let it grow far beyond.
        assert!(ended.memory < LIMIT + (40 << 20), "{level}: {}", ended.memory);
        assert!(ended.wall < Duration::from_secs(15), "{level}: {:?}", ended.wall);
        // A shell that continues after its child was killed is killed too.
        let ended = sh(&sandbox, profile.clone(), format!("{hungry}; sleep 20")).await;
        assert_eq!(ended.exit_reason, ExitReason::OutOfMemory, "{level}: {ended:?}");
        assert!(ended.wall < Duration::from_secs(15), "{level}: {:?}", ended.wall);

        let modest = "perl -e 'my $x = \"a\" x (20 << 20); print length $x'";
        let ended = sh(&sandbox, profile.clone(), modest).await;
        assert_eq!(
            (ended.exit_reason, ended.exit),
            (ExitReason::Exited, Exit::Code(0)),
            "{level}: {ended:?}"
        );
        assert_eq!(out(&ended), (20 << 20).to_string());
        assert_eq!(delegated.groups(), Vec::<String>::new(), "{level}: groups are removed");
    }
}

#[tokio::test]
async fn unmapped_memory_counts_in_a_cgroup() {
    let Some(delegated) = Delegated::create() else { return };
    for sandbox in delegated_sandboxes(&delegated).await {
        if sandbox.tier().level != Level::Namespaces {
            continue; // the temporary directory is on disk there
        }
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.resident = LIMIT;
        let ended =
            sh(&sandbox, profile, "head -c 300000000 /dev/zero > /tmp/large; sleep 2").await;
        assert_eq!(ended.exit_reason, ExitReason::OutOfMemory, "{ended:?}");
    }
}

#[tokio::test]
async fn stale_cgroups_are_removed_and_used_ones_stay() {
    let Some(delegated) = Delegated::create() else { return };
    for sandbox in delegated_sandboxes(&delegated).await {
        let (stale, used) = (delegated.0.join("haft-1-stale"), delegated.0.join("haft-1-used"));
        let other = delegated.0.join("other");
        for group in [&stale, &used, &other] {
            fs::create_dir(group).unwrap();
        }
        let lock = File::open(&used).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).unwrap();
        let fixture = Fixture::new();
        let command = haft_sandbox::Command::shell("echo ready; sleep 20");
        let mut running = sandbox.start(command, fixture.profile()).await.unwrap();
        assert!(running.next().await.is_some());
        assert!(!stale.exists() && used.exists() && other.exists());
        assert_eq!(delegated.groups().len(), 3, "one is the command's");
        running.kill_helper();
        running.wait().await;
        // The processes of the command are gone, and the next command removes the cgroup.
        let mut left = Vec::new();
        for _ in 0..100 {
            let ended = sh(&sandbox, fixture.profile(), "echo x").await;
            assert_eq!(out(&ended), "x\n", "{ended:?}");
            left = delegated.groups();
            if left.len() == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        left.sort();
        assert_eq!(left, ["haft-1-used", "other"]);
        fs::remove_dir(&used).unwrap();
        fs::remove_dir(&other).unwrap();
    }
}

#[tokio::test]
async fn unusable_cgroup_directory_is_an_error() {
    for sandbox in sandboxes().await {
        let directory = tempfile::tempdir().unwrap();
        let error = sandbox.clone().with_cgroup(directory.path()).await.unwrap_err();
        assert_eq!(error.kind(), SandboxErrorKind::BadProfile, "{error}");
        assert!(error.to_string().contains("not in a cgroup file system"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let error = sandbox.with_cgroup("/sys/fs/cgroup/of-haft/missing").await.unwrap_err();
        assert_eq!(error.kind(), SandboxErrorKind::BadProfile, "{error}");
    }
}

#[tokio::test]
async fn tier_without_a_cgroup_says_that_memory_is_sampled() {
    for sandbox in sandboxes().await {
        let is_about_memory = |note: &&String| note.starts_with("the memory limit is ");
        assert_eq!(sandbox.tier().notes.iter().filter(is_about_memory).count(), 1);
        let fixture = Fixture::new();
        let mut profile = fixture.profile();
        profile.limits.resident = u64::MAX;
        let ended = sh(&sandbox, profile, "echo x").await;
        assert_eq!(ended.tier.notes.iter().filter(is_about_memory).count(), 0, "no limit");
    }
}
