//! Waits for the end of a command, or kills it: on timeout, out of memory, cancellation, or if the
//! runtime is gone. The last two are the same event, a closed control socket.

use std::{
    io::Read as _,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    Control,
    memory::{self, Memory},
    sys::{self, Reaped},
};
use crate::{
    Exit, ExitReason,
    protocol::{Report, TERMINATE},
};

/// What is watched.
pub(super) struct Watch<'a> {
    pub(super) control: &'a mut Control,
    /// The signalfd for ended children.
    pub(super) children: OwnedFd,
    /// A pidfd of the parent, if its end must end us.
    pub(super) above: Option<OwnedFd>,
    pub(super) command: i32,
    pub(super) deadline: Option<Duration>,
    /// The memory limit of all processes together.
    pub(super) memory: Option<Memory>,
}

/// How the command ended and what it used.
pub(super) struct WatchOutcome {
    pub(super) exit_reason: ExitReason,
    pub(super) exit: Exit,
    pub(super) cpu: Duration,
    pub(super) memory: u64,
    pub(super) wall: Duration,
}

impl WatchOutcome {
    pub(super) fn report(&self, refused: Vec<crate::RefusedChange>) -> Report {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Report::Ended {
            exit: self.exit,
            exit_reason: self.exit_reason,
            cpu_us: micros(self.cpu),
            wall_us: micros(self.wall),
            memory: self.memory,
            refused,
        }
    }

    fn set_exit(&mut self, reaped: &Reaped) {
        self.exit = if libc::WIFSIGNALED(reaped.status) {
            Exit::Signal(libc::WTERMSIG(reaped.status))
        } else {
            Exit::Code(libc::WEXITSTATUS(reaped.status))
        };
    }
}

/// Watches a command until it has ended or must be killed. `finish` then kills all processes that
/// are left and reports the resource usage of each.
pub(super) fn wait_for_exit(
    mut what: Watch<'_>,
    finish: impl FnOnce(&mut dyn FnMut(Reaped)),
) -> WatchOutcome {
    let began = sys::now();
    let mut outcome = WatchOutcome {
        exit_reason: ExitReason::Exited,
        exit: Exit::Unknown,
        cpu: Duration::ZERO,
        memory: 0,
        wall: Duration::ZERO,
    };
    let command = what.command;
    let count = |outcome: &mut WatchOutcome, reaped: Reaped| {
        outcome.cpu += reaped.cpu;
        outcome.memory = outcome.memory.max(reaped.memory);
        if reaped.pid == command {
            outcome.set_exit(&reaped);
        }
        reaped.pid == command
    };
    loop {
        let mut is_ended = false;
        while let Ok(Some(reaped)) = sys::reap(None, false) {
            is_ended |= count(&mut outcome, reaped);
        }
        if is_ended {
            if what.memory.as_ref().is_some_and(Memory::has_killed) {
                outcome.exit_reason = ExitReason::OutOfMemory;
            }
            break;
        }
        let left = what.deadline.map(|deadline| deadline.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) {
            outcome.exit_reason = ExitReason::TimedOut;
            break;
        }
        if what.memory.as_ref().is_some_and(Memory::is_exceeded) {
            outcome.exit_reason = ExitReason::OutOfMemory;
            break;
        }
        let left = match what.memory {
            Some(_) => {
                Some(left.map_or(memory::SAMPLE_INTERVAL, |left| left.min(memory::SAMPLE_INTERVAL)))
            }
            None => left,
        };
        if let Some(reason) = wait(&mut what, left) {
            outcome.exit_reason = reason;
            break;
        }
    }
    finish(&mut |reaped| {
        count(&mut outcome, reaped);
    });
    outcome.wall = began.elapsed();
    outcome
}

/// Waits for the next event. Returns why the command must be killed, if it must.
fn wait(what: &mut Watch<'_>, left: Option<Duration>) -> Option<ExitReason> {
    let (has_message, is_orphan) = {
        let mut all = vec![
            PollFd::new(&what.control.0, PollFlags::IN | PollFlags::RDHUP),
            PollFd::new(&what.children, PollFlags::IN),
        ];
        if let Some(above) = &what.above {
            all.push(PollFd::new(above, PollFlags::IN));
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut all, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // FAIL CLOSED: without a watch no process may run.
            Err(_) => return Some(ExitReason::Stopped),
        }
        (!all[0].revents().is_empty(), all.get(2).is_some_and(|fd| !fd.revents().is_empty()))
    };
    let mut discarded = [0; 256];
    while rustix::io::read(&what.children, &mut discarded).is_ok_and(|n| n > 0) {}
    if is_orphan {
        return Some(ExitReason::HelperDied);
    }
    if has_message {
        let mut message = [0];
        return match what.control.0.read(&mut message) {
            Ok(1) if message[0] == TERMINATE => {
                // The command is the leader of its own session and process group.
                sys::signal(-what.command, libc::SIGTERM);
                None
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => None,
            _ => Some(ExitReason::Stopped),
        };
    }
    None
}

/// Closes our copies of the command's output pipes, so that readers see the end of file.
pub(super) fn release_output() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = sys::dup_to(null.as_fd(), 1);
        let _ = sys::dup_to(null.as_fd(), 2);
    }
}
