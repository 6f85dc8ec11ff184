//! Resource limits per process (`setrlimit`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ProcessLimits;

/// Sets the limits of this process, for good: the hard limit goes down with the soft one.
pub(super) fn apply(limits: &ProcessLimits, others: u64) -> Result<(), String> {
    let processes = limits.processes.saturating_add(others);
    let wanted = [
        (Resource::Core, 0),
        (Resource::As, limits.memory),
        // The kernel ignores it. Programs such as `sort` read it and use less memory.
        (Resource::Rss, limits.resident),
        (Resource::Fsize, limits.file_size),
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, processes),
        (Resource::Memlock, 64 << 10),
        (Resource::Msgqueue, 64 << 10),
    ];
    for (resource, value) in wanted {
        set(resource, value, value)?;
    }
    // `SIGKILL` comes one second after `SIGXCPU`, so that a program can handle the first signal.
    set(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds.saturating_add(1))
}

/// Raises the soft limit on open files for the helper. The command gets its own limit later.
pub(super) fn raise_open_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn set(resource: Resource, soft: u64, hard: u64) -> Result<(), String> {
    // The hard limit of the host cannot be exceeded.
    let ceiling = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(soft.min(ceiling)), maximum: Some(hard.min(ceiling)) };
    setrlimit(resource, limit).map_err(|e| format!("{resource:?}: {e}"))
}
