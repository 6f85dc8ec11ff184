//! Tier A on systems where only the system's bubblewrap may create namespaces.
//!
//! There are three processes. The helper stays outside and starts `bwrap` with arguments that
//! describe the mounts. `bwrap` creates the namespaces and the mounts. The helper's program is the
//! first process inside: it verifies both, and continues as in [`super::namespaces`].
//!
//! FAIL CLOSED: bubblewrap is not trusted. If the verification fails, the command does not start.

mod arguments;
mod check;

use std::{
    collections::BTreeMap,
    ffi::CString,
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use self::{arguments::Arguments, check::check};
use super::{
    Job, SetupError, Task,
    cgroup::{self, Group, Membership},
    namespaces, sys,
    wait_for_exit::release_output,
};
use crate::protocol::{Fault, HELPER_ARGUMENT, HelperRequest, Report};

/// The second argument of the helper if bubblewrap started it.
pub(super) const INSIDE: &str = "inside";
/// Exit code of the first process after a command. Bubblewrap passes it on.
const DONE: i32 = 76;
/// Its exit code after it has reported why nothing ran.
const REFUSED: i32 = 77;
/// Exit code of the helper's child if bubblewrap cannot be started.
const NOT_STARTED: i32 = 127;

// File descriptors of the first process.
const HANDOVER: i32 = 3;
const INPUT: i32 = 4;
const PROGRAM: i32 = 5;
const ENTRY: i32 = 6;
const EVENTS: i32 = 7;
/// From here on: empty files for denied paths.
const FIRST_EMPTY: i32 = 8;
/// Files that are denied one by one.
const MAX_DENIED_FILES: usize = 1_000;

/// What the helper sends to the first process.
#[derive(Serialize, Deserialize)]
struct Handover {
    orders: HelperRequest,
    /// Namespaces of the helper, by kind. The first process must be in other ones.
    namespaces: BTreeMap<String, PathBuf>,
    /// Whether the file descriptors of a cgroup are passed.
    has_group: bool,
    note: Option<String>,
}

const NAMESPACE_KINDS: [&str; 6] = ["mnt", "pid", "ipc", "uts", "cgroup", "net"];

fn error(message: impl Into<String>) -> SetupError {
    SetupError { step: "bubblewrap", message: message.into(), fault: Fault::Machine }
}

/// The work of the helper, outside.
pub(super) fn run(job: &mut Job, program: &Path) -> Result<(), SetupError> {
    let step = "bubblewrap";
    if rustix::process::geteuid().is_root() {
        return Err(error("root needs no bubblewrap"));
    }
    if sys::landlock_version() < 1 {
        return Err(error("this kernel does not have Landlock"));
    }
    let group = Group::of(&job.task.orders)?;
    let membership = group.as_ref().map(Group::membership).transpose()?;
    let mut view = Arguments::default();
    view.build(&job.task.orders.profile)?;
    let handover = Handover {
        orders: job.task.orders.clone(),
        namespaces: namespaces_of_self()?,
        has_group: membership.is_some(),
        note: cgroup::note(group.as_ref(), job.task.orders.profile.limits.resident),
    };
    let handover = in_memory(&serde_json::to_vec(&handover).map_err(|e| error(e.to_string()))?)
        .map_err(SetupError::machine(step))?;
    let own = File::open("/proc/self/exe").map_err(SetupError::machine(step))?;
    match sys::clone(0).map_err(SetupError::machine("fork"))? {
        sys::Side::Child => {
            // The control socket may have another number by now, so the helper reports the failure.
            let _ = execute(job, program, &view, &handover, &own, membership.as_ref());
            sys::exit(NOT_STARTED)
        }
        sys::Side::Parent(first) => {
            release_output();
            let ended = sys::reap(Some(first), true);
            drop(group);
            let code = ended.ok().flatten().map(|reaped| reaped.status);
            let code = code.filter(|status| libc::WIFEXITED(*status)).map(|s| libc::WEXITSTATUS(s));
            if !matches!(code, Some(DONE | REFUSED)) {
                // The runtime ignores it if the command had started.
                let code = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
                job.control.refuse(error(format!("`{}` failed: {code}", program.display())));
            }
            job.control.send(&Report::Gone);
            Ok(())
        }
    }
}

/// Executes bubblewrap in the helper's child. Returns only with an error.
fn execute(
    job: &Job,
    program: &Path,
    view: &Arguments,
    handover: &File,
    own: &File,
    membership: Option<&Membership>,
) -> io::Error {
    let place = || -> io::Result<()> {
        let mut all: Vec<(BorrowedFd<'_>, i32)> = vec![
            (job.control.0.as_fd(), 0),
            (handover.as_fd(), HANDOVER),
            (job.task.input.as_fd(), INPUT),
            (own.as_fd(), PROGRAM),
        ];
        if let Some(membership) = membership {
            all.push((membership.entry.as_fd(), ENTRY));
            all.push((membership.events.as_fd(), EVENTS));
        }
        let null = in_memory(b"")?;
        for index in 0..view.empty_files {
            all.push((null.as_fd(), FIRST_EMPTY + index));
        }
        // Duplicate all of them above these numbers first, because some may be in use.
        let above = FIRST_EMPTY + view.empty_files;
        let copies: Vec<(OwnedFd, i32)> = all
            .into_iter()
            .map(|(fd, at)| Ok((rustix::io::fcntl_dupfd_cloexec(fd, above)?, at)))
            .collect::<io::Result<_>>()?;
        sys::close_on_exec_from(3)?;
        for (fd, at) in &copies {
            sys::dup_to(fd.as_fd(), *at)?;
        }
        // They are closed on exec.
        std::mem::forget(copies);
        Ok(())
    };
    if let Err(error) = place() {
        return error;
    }
    let own = format!("/proc/self/fd/{PROGRAM}");
    let mut argv = vec![c"bwrap".to_owned()];
    argv.extend(view.all.iter().cloned());
    argv.extend(
        ["--", &own, HELPER_ARGUMENT, INSIDE].iter().filter_map(|text| CString::new(*text).ok()),
    );
    sys::exec(program, &argv, &[])
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("haft", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn namespaces_of_self() -> Result<BTreeMap<String, PathBuf>, SetupError> {
    let of = |kind: &str| {
        let link = Path::new("/proc/self/ns").join(kind).read_link();
        link.map(|link| (kind.to_owned(), link)).map_err(SetupError::machine("bubblewrap"))
    };
    NAMESPACE_KINDS.into_iter().map(of).collect()
}

/// The work of the first process, which bubblewrap started.
pub(super) fn inside() -> ! {
    let taken = take();
    let (handover, mut job, membership) = match taken {
        Ok(taken) => taken,
        Err(_) => sys::exit(2),
    };
    let result = check(&job.task.orders.profile, &handover)
        .and_then(|()| namespaces::run_first_process(&mut job, membership, handover.note));
    match result {
        Ok(()) => sys::exit(DONE),
        Err(error) => {
            job.control.refuse(error);
            sys::exit(REFUSED)
        }
    }
}

fn take() -> io::Result<(Handover, Job, Option<Membership>)> {
    sys::close_from(FIRST_EMPTY)?;
    super::limits::raise_open_files();
    // Before other files are opened, which could get one of these numbers.
    let mut bytes = Vec::new();
    File::from(sys::inherited(HANDOVER)?).read_to_end(&mut bytes)?;
    let handover: Handover = serde_json::from_slice(&bytes)?;
    let input = sys::inherited(INPUT)?;
    let own = sys::inherited(PROGRAM)?;
    let mut membership = None;
    if handover.has_group {
        let (entry, events) = (sys::inherited(ENTRY)?.into(), sys::inherited(EVENTS)?.into());
        membership = Some(Membership { entry, events });
    }
    let (control, null) = super::streams()?;
    drop((own, null));
    sys::close_on_exec_from(3)?;
    let orders = handover.orders.clone();
    Ok((handover, Job { task: Arc::new(Task { orders, input }), control }, membership))
}
