//! Follows a command to its end, and brings the end about when it is time.
//!
//! Ends: the command ends by itself, its time is over, the runtime says so, or the runtime is gone.
//! The last two look the same and are treated the same.

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
    orders::{PLEASE, Report},
};

/// What is watched.
pub(super) struct Watch<'a> {
    pub(super) control: &'a mut Control,
    /// Tells of ended children.
    pub(super) children: OwnedFd,
    /// The process above us, where its end is ours.
    pub(super) above: Option<OwnedFd>,
    pub(super) command: i32,
    pub(super) deadline: Option<Duration>,
    /// The bound on what all processes of the command hold together.
    pub(super) memory: Option<Memory>,
}

/// How it went.
pub(super) struct Course {
    pub(super) how: ExitReason,
    pub(super) exit: Exit,
    pub(super) cpu: Duration,
    pub(super) memory: u64,
    pub(super) wall: Duration,
}

impl Course {
    pub(super) fn report(&self, refused: Vec<crate::Refused>) -> Report {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Report::Ended {
            exit: self.exit,
            how: self.how,
            cpu_us: micros(self.cpu),
            wall_us: micros(self.wall),
            memory: self.memory,
            refused,
        }
    }

    fn take(&mut self, reaped: &Reaped) {
        self.exit = if libc::WIFSIGNALED(reaped.status) {
            Exit::Signal(libc::WTERMSIG(reaped.status))
        } else {
            Exit::Code(libc::WEXITSTATUS(reaped.status))
        };
    }
}

/// Watches a command until it has ended or must be. `finish` then ends everything that is left, and
/// says of each process what it used.
pub(super) fn watch(mut what: Watch<'_>, finish: impl FnOnce(&mut dyn FnMut(Reaped))) -> Course {
    let began = sys::now();
    let mut course = Course {
        how: ExitReason::Itself,
        exit: Exit::Unknown,
        cpu: Duration::ZERO,
        memory: 0,
        wall: Duration::ZERO,
    };
    let command = what.command;
    let count = |course: &mut Course, reaped: Reaped| {
        course.cpu += reaped.cpu;
        course.memory = course.memory.max(reaped.memory);
        if reaped.pid == command {
            course.take(&reaped);
        }
        reaped.pid == command
    };
    loop {
        let mut is_over = false;
        while let Ok(Some(reaped)) = sys::reap(None, false) {
            is_over |= count(&mut course, reaped);
        }
        if is_over {
            if what.memory.as_ref().is_some_and(Memory::has_killed) {
                course.how = ExitReason::OutOfMemory;
            }
            break;
        }
        let left = what.deadline.map(|deadline| deadline.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) {
            course.how = ExitReason::TimedOut;
            break;
        }
        if what.memory.as_ref().is_some_and(Memory::is_exceeded) {
            course.how = ExitReason::OutOfMemory;
            break;
        }
        let left = match what.memory {
            Some(_) => Some(left.map_or(memory::INTERVAL, |left| left.min(memory::INTERVAL))),
            None => left,
        };
        if let Some(how) = wait(&mut what, left) {
            course.how = how;
            break;
        }
    }
    finish(&mut |reaped| {
        count(&mut course, reaped);
    });
    course.wall = began.elapsed();
    course
}

/// Waits for something to happen. Returns why everything should end, if it should.
fn wait(what: &mut Watch<'_>, left: Option<Duration>) -> Option<ExitReason> {
    let (has_word, is_orphan) = {
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
            // FAIL CLOSED: who cannot watch must not let anything run.
            Err(_) => return Some(ExitReason::Stopped),
        }
        (!all[0].revents().is_empty(), all.get(2).is_some_and(|fd| !fd.revents().is_empty()))
    };
    let mut news = [0; 256];
    while rustix::io::read(&what.children, &mut news).is_ok_and(|n| n > 0) {}
    if is_orphan {
        return Some(ExitReason::Lost);
    }
    if has_word {
        let mut word = [0];
        return match what.control.0.read(&mut word) {
            Ok(1) if word[0] == PLEASE => {
                // The command leads a session and a group of its own.
                sys::signal(-what.command, libc::SIGTERM);
                None
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => None,
            _ => Some(ExitReason::Stopped),
        };
    }
    None
}

/// Lets go of the command's output: its end must not wait for us.
pub(super) fn let_go_of_output() {
    if let Ok(nothing) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = sys::put(nothing.as_fd(), 1);
        let _ = sys::put(nothing.as_fd(), 2);
    }
}
