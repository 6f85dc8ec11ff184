//! The helper: this program, started again to set up a confinement and to end it.
//!
//! In: orders on the connection that is its standard input. Out: reports on the same connection, and
//! a command that can do what its profile says. The helper starts nothing heavy. It has one thread, and
//! a second one where the names of a command are supervised. When the connection ends, everything ends: the runtime is gone, or wants it so.
//!
//! FAIL CLOSED: a step that fails ends the helper before the command has begun.

pub(crate) mod sys;
mod bubblewrap;
mod cgroup;
mod identity;
mod limits;
mod denied;
mod memory;
mod mounts;
mod confine;
mod watch;
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
    Level, exhausted,
    orders::{Fault, LONG_INPUT, LONG_ORDERS, Orders, Report, VERSION},
};

/// Why nothing ran: the step, the words, and whose fault it is.
#[derive(Debug)]
pub(crate) struct Trouble {
    step: &'static str,
    message: String,
    fault: Fault,
}

impl Trouble {
    fn machine(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |e| match exhausted::limit_of(&e) {
            Some(limit) => Self::transient(step, limit),
            None => Self { step, message: e.to_string(), fault: Fault::Machine },
        }
    }

    fn os(step: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |e| Self::machine(step)(e.into())
    }

    /// A limit was reached, which may be otherwise later.
    fn transient(step: &'static str, message: String) -> Self {
        Self { step, message, fault: Fault::Transient }
    }

    fn words(step: &'static str) -> impl FnOnce(String) -> Self {
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
    fn say(&mut self, report: &Report) {
        if let Ok(mut line) = serde_json::to_vec(report) {
            line.push(b'\n');
            // Whoever should hear it may be gone; then everything ends anyway.
            let _ = self.0.write_all(&line);
        }
    }

    fn refuse(&mut self, trouble: Trouble) {
        let Trouble { step, message, fault } = trouble;
        self.say(&Report::Refused { step: step.to_owned(), message, fault });
    }
}

/// What every part of the helper works on.
pub(crate) struct Job {
    task: Arc<Task>,
    control: Control,
}

/// What is to be run, shared with the thread that starts and supervises it.
pub(crate) struct Task {
    orders: Orders,
    input: OwnedFd,
}

/// Does the helper's work and ends the process.
pub(crate) fn main() -> ! {
    if std::env::args_os().nth(2).is_some_and(|second| second == bubblewrap::INSIDE) {
        bubblewrap::inside();
    }
    // Only the three streams are ours; what a careless host left open is not the command's to see.
    let _ = sys::close_from(3);
    limits::raise_open_files();
    let (mut control, input) = match streams() {
        Ok(streams) => streams,
        Err(_) => sys::exit(2),
    };
    match orders(&mut control, input) {
        Err(trouble) => {
            control.refuse(trouble);
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
                Level::None => Err(Trouble::profile("no level to run at")),
            };
            if let Err(trouble) = result {
                job.control.refuse(trouble);
                sys::exit(1);
            }
            sys::exit(0)
        }
    }
}

/// Moves the connection away from standard input and puts an empty one there.
fn streams() -> io::Result<(Control, File)> {
    let given = sys::inherited(0)?;
    let control = rustix::io::fcntl_dupfd_cloexec(&given, 3)?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    sys::put(nothing.as_fd(), 0)?;
    // It owns the number, not the connection any more; the number stays open to the end.
    std::mem::forget(given);
    Ok((Control(control.into()), nothing))
}

fn orders(control: &mut Control, nothing: File) -> Result<(Orders, OwnedFd), Trouble> {
    let mut number = || {
        let mut bytes = [0; 8];
        control.0.read_exact(&mut bytes).map_err(Trouble::machine("orders"))?;
        Ok(usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX))
    };
    let (text_len, input_len) = (number()?, number()?);
    if text_len > LONG_ORDERS || input_len > LONG_INPUT {
        return Err(Trouble::profile("the orders are too long"));
    }
    let mut text = vec![0; text_len];
    control.0.read_exact(&mut text).map_err(Trouble::machine("orders"))?;
    let orders: Orders =
        serde_json::from_slice(&text).map_err(|e| Trouble::profile(format!("orders: {e}")))?;
    if orders.version != VERSION {
        return Err(Trouble::profile("the helper is of another version than the runtime"));
    }
    let input = if input_len == 0 {
        nothing.into()
    } else {
        input_file(control, input_len).map_err(Trouble::machine("input"))?
    };
    Ok((orders, input))
}

/// Puts the input into memory that nobody can change any more. A pipe would need somebody to feed it.
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
