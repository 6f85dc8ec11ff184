//! Keeps a waiting caller and the supervisor on one CPU while a file descriptor is passed.
//!
//! The kernel wakes both for that, on an idle CPU if there is one. Waking an idle CPU costs up to
//! 40 µs in a virtual machine, a switch on the same CPU 2 µs.
//!
//! INVARIANT: the CPU affinity of a caller is restored before its syscall returns.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
};

/// Syscalls of one thread in a row after which the supervisor stays on its CPU between them.
const MIN_STREAK: u32 = 8;
/// Syscalls after which it is released once, so that the scheduler can move both.
const MAX_STREAK: u32 = 64;

/// The CPU affinity of the supervisor.
///
/// Pinning and releasing it for each syscall takes 6 µs. So it stays pinned while one thread makes
/// all syscalls. If two threads take turns, it is released after each: unpinned, the kernel wakes
/// it on the CPU of the caller.
pub(super) struct CpuAffinity {
    /// The affinity that is restored. `None`: there is only one CPU.
    own: Option<CpuSet>,
    is_pinned: bool,
    /// The last caller, and how many syscalls it made in a row.
    caller: u32,
    streak: u32,
}

impl CpuAffinity {
    pub(super) fn new() -> Self {
        let own = sched_getaffinity(None).ok().filter(|own| own.count() > 1);
        Self { own, is_pinned: false, caller: 0, streak: 0 }
    }

    /// Counts a syscall.
    pub(super) fn begin(&mut self, tid: u32) {
        let is_same = self.caller == tid && self.streak < MAX_STREAK;
        self.streak = if is_same { self.streak + 1 } else { 0 };
        self.caller = tid;
        if !is_same {
            self.release();
        }
    }

    /// Pins a waiting caller to the CPU of the supervisor. Returns `None` if it is useless, or if
    /// the kernel does not allow it.
    pub(super) fn pin(&mut self, tid: u32) -> Option<PinnedCaller<'_>> {
        self.own?;
        let caller = Pid::from_raw(tid.cast_signed())?;
        let affinity = sched_getaffinity(Some(caller)).ok()?;
        let here = sched_getcpu();
        if here >= CpuSet::MAX_CPU || !affinity.is_set(here) || affinity.count() < 2 {
            return None;
        }
        let mut only = CpuSet::new();
        only.set(here);
        sched_setaffinity(Some(caller), &only).ok()?;
        let pinned = PinnedCaller { caller, affinity, supervisor: self };
        if !pinned.supervisor.is_pinned {
            sched_setaffinity(None, &only).ok()?;
            pinned.supervisor.is_pinned = true;
        }
        Some(pinned)
    }

    fn release(&mut self) {
        if self.is_pinned
            && let Some(own) = &self.own
        {
            let _ = sched_setaffinity(None, own);
            self.is_pinned = false;
        }
    }
}

/// A pinned caller, released when dropped.
pub(super) struct PinnedCaller<'a> {
    caller: Pid,
    affinity: CpuSet,
    supervisor: &'a mut CpuAffinity,
}

impl Drop for PinnedCaller<'_> {
    fn drop(&mut self) {
        let _ = sched_setaffinity(Some(self.caller), &self.affinity);
        if self.supervisor.streak < MIN_STREAK {
            self.supervisor.release();
        }
    }
}
