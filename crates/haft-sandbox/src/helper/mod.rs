//! The helper process: this program, started again to set up the sandbox and to kill the command.
//!
//! In: orders on the control socket, which is its standard input. Out: reports on the same socket,
//! and a command that is confined to its profile. It has one thread, and a second one if the
//! command is supervised. When the socket closes, it kills the command: the runtime is gone or
//! stopped it.
//!
//! FAIL CLOSED: if a step fails, the helper exits before the command has started.

pub(crate) mod sys;
mod bubblewrap;
mod cgroup;
mod identity;
mod limits;
mod landlock;
mod seccomp;
mod mask_mounts;
mod memory;
mod mounts;
mod confine;
mod self_test;
mod wait_for_exit;
mod network;
mod namespaces;
mod reaper;
mod supervisor;

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
};

use crate::{
    Level, Tier, exhausted,
    protocol::{
        Fault, HelperRequest, MAX_INPUT_BYTES, MAX_REQUEST_BYTES, PIPED_INPUT, Report, VERSION,
    },
};

/// Why nothing ran: the step, the message, and the cause.
#[derive(Debug)]
pub(crate) struct SetupError {
    step: &'static str,
    message: String,
    fault: Fault,
}

impl SetupError {
    fn machine(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |e| match exhausted::limit_of(&e) {
            Some(limit) => Self::transient(step, limit),
            None => Self { step, message: e.to_string(), fault: Fault::Machine },
        }
    }

    fn os(step: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |e| Self::machine(step)(e.into())
    }

    /// A limit was reached; a retry may work.
    fn transient(step: &'static str, message: String) -> Self {
        Self { step, message, fault: Fault::Transient }
    }

    fn message(step: &'static str) -> impl FnOnce(String) -> Self {
        move |message| Self { step, message, fault: Fault::Machine }
    }

    fn profile(message: impl Into<String>) -> Self {
        Self { step: "profile", message: message.into(), fault: Fault::Profile }
    }
}

/// The connection to the runtime.
#[derive(Debug)]
pub(crate) struct Control(File);

impl Control {
    fn send(&mut self, report: &Report) {
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            // The runtime may be gone; then the closed socket ends everything anyway.
            let _ = self.0.write_all(&line);
        }
    }

    /// Reports that the command runs, and sends the listening socket of its proxy with it.
    fn send_started(&mut self, tier: Tier, listener: Option<OwnedFd>) {
        let report = Report::Started(tier);
        match (listener, serde_json::to_vec(&report)) {
            (Some(listener), Ok(mut line)) => {
                line.push(b'\n');
                // The runtime may be gone; then the closed socket ends everything anyway.
                let _ = network::send_line(&mut self.0, &line, listener.as_fd());
            }
            _ => self.send(&report),
        }
    }

    fn refuse(&mut self, error: SetupError) {
        let SetupError { step, message, fault } = error;
        self.send(&Report::Refused { step: step.to_owned(), message, fault });
    }
}

/// The state that all parts of the helper share.
pub(crate) struct Job {
    task: Arc<Task>,
    control: Control,
}

/// What to run, shared with the thread that starts and supervises it.
pub(crate) struct Task {
    orders: HelperRequest,
    input: OwnedFd,
}

/// Does the helper's work and exits.
pub(crate) fn main() -> ! {
    if std::env::args_os().nth(2).is_some_and(|second| second == bubblewrap::INSIDE) {
        bubblewrap::inside();
    }
    // Close every file descriptor that the host leaked, so that the command does not inherit it.
    let _ = sys::close_from(3);
    limits::raise_open_files();
    let (mut control, input) = match streams() {
        Ok(streams) => streams,
        Err(_) => sys::exit(2),
    };
    match orders(&mut control, input) {
        Err(error) => {
            control.refuse(error);
            sys::exit(1)
        }
        Ok((orders, input)) => {
            let mut job = Job { task: Arc::new(Task { orders, input }), control };
            let result = match job.task.orders.level {
                Level::Namespaces => match job.task.orders.bubblewrap.clone() {
                    Some(program) => bubblewrap::run(&mut job, &program),
                    None => namespaces::run(&mut job),
                },
                Level::Landlock => reaper::run(&mut job),
                Level::None => Err(SetupError::profile("no sandbox level")),
            };
            if let Err(error) = result {
                job.control.refuse(error);
                sys::exit(1);
            }
            sys::exit(0)
        }
    }
}

/// Moves the control socket away from standard input and puts `/dev/null` there.
fn streams() -> io::Result<(Control, File)> {
    let given = sys::inherited(0)?;
    let control = rustix::io::fcntl_dupfd_cloexec(&given, 3)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    sys::dup_to(null.as_fd(), 0)?;
    // It owns only file descriptor 0 now, which must stay open.
    std::mem::forget(given);
    Ok((Control(control.into()), null))
}

fn orders(control: &mut Control, null: File) -> Result<(HelperRequest, OwnedFd), SetupError> {
    let mut number = || {
        let mut bytes = [0; 8];
        control.0.read_exact(&mut bytes).map_err(SetupError::machine("orders"))?;
        Ok(u64::from_le_bytes(bytes))
    };
    let (text_len, input_len) = (number()?, number()?);
    let text_len = usize::try_from(text_len).unwrap_or(usize::MAX);
    let input = match input_len {
        PIPED_INPUT => None,
        length => Some(usize::try_from(length).unwrap_or(usize::MAX)),
    };
    if text_len > MAX_REQUEST_BYTES || input.is_some_and(|length| length > MAX_INPUT_BYTES) {
        return Err(SetupError::profile("the orders are too long"));
    }
    let mut text = vec![0; text_len];
    control.0.read_exact(&mut text).map_err(SetupError::machine("orders"))?;
    let orders: HelperRequest =
        serde_json::from_slice(&text).map_err(|e| SetupError::profile(format!("orders: {e}")))?;
    if orders.version != VERSION {
        return Err(SetupError::profile("the helper has another version than the runtime"));
    }
    let input = match input {
        Some(0) => Ok(null.into()),
        Some(length) => input_file(control, length),
        None => input_pipe(control),
    };
    Ok((orders, input.map_err(SetupError::machine("input"))?))
}

/// Receives the reading end of a pipe.
fn input_pipe(control: &Control) -> io::Result<OwnedFd> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let data = &mut [io::IoSliceMut::new(&mut byte)];
    recvmsg(&control.0, data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Puts the input into a sealed memfd, which cannot change. A pipe would need a writer.
fn input_file(control: &mut Control, len: usize) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags};
    use std::io::Seek as _;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("input", flags)?);
    let copied = io::copy(&mut (&mut control.0).take(len as u64), &mut file)?;
    if copied != len as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.rewind()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}
