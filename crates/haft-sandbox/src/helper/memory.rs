//! The memory limit of a process tree: enforced by a cgroup, or sampled from `/proc`.
//!
//! Sampling counts anonymous and shared memory. Mapped files are left out, because the kernel can
//! reclaim their pages. Shared pages count once if the kernel reports `Pss`, otherwise once per
//! process. Memory that no process has mapped (a memfd, a pipe) is not counted.

use std::{fs::File, io::Read as _, path::Path, time::Duration};

use super::cgroup;

/// Sampling interval. A process can touch about 100 MiB in this time.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// Note of the tier if the process tree cannot be read.
pub(super) const NOT_COUNTED: &str =
    "the memory of all processes together is not limited: there is no private `/proc`";

/// Which processes belong to the command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tree {
    /// All of `/proc` except pid 1.
    Namespace,
    /// The descendants of this process, which adopts every orphan.
    Descendants,
}

/// A limit on resident memory.
#[derive(Debug)]
pub(super) enum Memory {
    /// This process samples it.
    Sampled(u64, Tree),
    /// The kernel enforces it and counts OOM kills in this file.
    Cgroup(File),
}

impl Memory {
    /// `u64::MAX` means no limit; then nothing is sampled.
    pub(super) fn of(limit: u64, tree: Tree) -> Option<Self> {
        (limit != u64::MAX).then_some(Self::Sampled(limit, tree))
    }

    /// Returns whether the tree exceeds the limit. Cheap while it uses much less.
    pub(super) fn is_exceeded(&self) -> bool {
        let (limit, pids) = match self {
            Self::Cgroup(events) => {
                return cgroup::oom_kills(events).is_some_and(|count| count > 0);
            }
            Self::Sampled(limit, Tree::Namespace) => (*limit, namespace()),
            Self::Sampled(limit, Tree::Descendants) => (*limit, descendants()),
        };
        let sum =
            |of: fn(i32) -> u64| pids.iter().fold(0, |sum: u64, pid| sum.saturating_add(of(*pid)));
        sum(resident) > limit && sum(unreclaimable) > limit
    }

    /// Returns whether the kernel has killed a process for it. Works after the end too.
    pub(super) fn has_killed(&self) -> bool {
        matches!(self, Self::Cgroup(_)) && self.is_exceeded()
    }
}

fn namespace() -> Vec<i32> {
    super::reaper::all_processes().filter(|pid| *pid != 1).collect()
}

fn descendants() -> Vec<i32> {
    if !Path::new("/proc/thread-self/children").exists() {
        return descendants_by_parent();
    }
    let mut all = super::reaper::children();
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        next += 1;
        let threads = Path::new("/proc").join(pid.to_string()).join("task").read_dir();
        for thread in threads.into_iter().flatten().flatten() {
            let Some(text) = read(&thread.path().join("children")) else { continue };
            all.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    all
}

/// Like [`descendants`], for kernels that do not list children: scans all processes.
fn descendants_by_parent() -> Vec<i32> {
    let parents: Vec<(i32, u32)> = super::reaper::all_processes()
        .filter_map(|pid| Some((pid, super::reaper::parent_of(pid)?)))
        .collect();
    let mut all: Vec<i32> = Vec::new();
    let mut above = vec![std::process::id()];
    while let Some(parent) = above.pop() {
        let below = parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid);
        let below: Vec<i32> = below.filter(|pid| !all.contains(pid)).collect();
        above.extend(below.iter().map(|pid| pid.unsigned_abs()));
        all.extend(below);
    }
    all
}

/// Returns all resident memory with mapped files: a cheap upper bound.
fn resident(pid: i32) -> u64 {
    let pages = read(Path::new(&format!("/proc/{pid}/statm")))
        .and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or_default().saturating_mul(rustix::param::page_size() as u64)
}

/// Returns anonymous and shared memory; shared pages count in proportion.
fn unreclaimable(pid: i32) -> u64 {
    let lines = |file: &str, names: [&str; 2]| {
        let text = read(Path::new(&format!("/proc/{pid}/{file}")))?;
        let values = names.map(|name| kilobytes(&text, name));
        values.iter().any(Option::is_some).then(|| values.into_iter().flatten().sum::<u64>())
    };
    lines("smaps_rollup", ["Pss_Anon:", "Pss_Shmem:"])
        .or_else(|| lines("status", ["RssAnon:", "RssShmem:"]))
        .unwrap_or_default()
}

/// Returns the bytes of a line such as `RssAnon:   1024 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_on_kernels_that_do_not_list_children() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 2"]).spawn().unwrap();
        let shell = i32::try_from(child.id()).unwrap();
        let is_there = |all: Vec<i32>| all.contains(&shell);
        assert!(is_there(descendants_by_parent()));
        assert!(resident(shell) > 0 && unreclaimable(shell) > 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn proc_status_values_are_parsed_as_bytes() {
        let text = "Name:\tx\nRssAnon:\t    1024 kB\nRssFile:\t 9 kB\nRssShmem:\t       2 kB\n";
        assert_eq!(kilobytes(text, "RssAnon:"), Some(1 << 20));
        assert_eq!(kilobytes(text, "RssShmem:"), Some(2048));
        assert_eq!(kilobytes(text, "Pss_Anon:"), None);
    }
}
