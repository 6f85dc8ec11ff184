//! A sandbox for processes and files.
//!
//! It has two parts. Both use the same roots, so a command and a file tool have the same limits:
//!
//! - A [`Workspace`] is a set of directories, each held by a file descriptor. A path resolves to a
//!   [`ResolvedPath`] inside it or is rejected (path traversal). File operations follow no symlink,
//!   so a symlink that is swapped in later (TOCTOU) cannot escape.
//! - A [`Sandbox`] starts commands with namespaces, Landlock, seccomp and resource limits. A
//!   command writes in the workspace except protected names, reads the rest, and has no network
//!   unless its [`Profile`] allows it. All its processes are killed when it ends. The [`Tier`] says
//!   which of these limits are enforced.
//!
//! A second process, the helper, sets up the sandbox. It is this program, started again. So
//! [`init`] comes first in `main`:
//!
//! ```standalone_crate
//! use std::time::Duration;
//!
//! use haft_core::{Capabilities, Capability};
//! use haft_sandbox::{Access, Command, Helper, Profile, Sandbox, Workspace};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     haft_sandbox::init();
//!     tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
//! }
//!
//! async fn work() -> Result<(), Box<dyn std::error::Error>> {
//!     let directory = tempfile::tempdir()?;
//!     let workspace = Workspace::builder().root(directory.path(), Access::Write).build()?;
//!     let sandbox = match Sandbox::detect(Helper::ThisProgram).await {
//!         Ok(sandbox) => sandbox,
//!         Err(missing) => return Ok(println!("no commands here: {missing}")),
//!     };
//!     let profile = Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
//!     std::fs::create_dir(directory.path().join("notes"))?;
//!     let command = Command::shell("echo hello > notes/greeting; cat notes/greeting; echo x > /etc/passwd")
//!         .deadline(Duration::from_secs(10));
//!     let ended = sandbox.run(command, profile).await?;
//!     assert_eq!(ended.stdout.bytes(), b"hello\n");
//!     assert!(!ended.is_success(), "the write to /etc/passwd was refused");
//!     Ok(())
//! }
//! ```
//!
//! Processes are confined on Linux only. Elsewhere [`Sandbox::detect`] returns an error that says
//! what is missing. Workspaces work on every Unix.
//!
//! This is the only crate of the project with `unsafe` code. All of it is in one file,
//! `helper/sys.rs`, with a reason at each block.

#[cfg(not(unix))]
compile_error!("haft-sandbox needs Unix file descriptors; this system is not supported yet");

mod error;
mod exhausted;
mod workspace;
mod tier;
mod profile;
mod environment;
mod command;
mod exit;
mod finding;
mod helper_program;
mod obstacles;
mod pass_file;
mod sandbox;
mod running;
mod protocol;
#[cfg(target_os = "linux")]
mod helper;
mod doctor;

pub use haft_core::protected_names::RefusedChange;

pub(crate) use self::error::{Error, ErrorKind};

pub use self::{
    command::Command,
    doctor::DoctorReport,
    environment::Environment,
    error::{Error as SandboxError, ErrorKind as SandboxErrorKind},
    exit::{Exit, ExitReason},
    finding::{DoctorFinding, ExpectedResult, ObservedResult},
    helper_program::Helper,
    obstacles::{Obstacle, ObstacleCause},
    profile::{DeniedFiles, Network, PROXY_PORT, ProcessLimits, Profile, ReadableFiles},
    running::{
        ProcessChunk, ProcessFacts, ProcessPipes, ProcessResult, ProcessStream, RunningProcess,
    },
    sandbox::Sandbox,
    tier::{Level, Strength, Tier},
    workspace::{
        Access, AtomicWrite, DeleteScope, DeniedNames, FileKind, FileMeta, FileVersion,
        GitDirectory, OpenFile, PROTECTED, PathError, PathErrorKind, ProtectedName, Replace,
        ResolvedPath, Root, TreeReport, Walk, WalkEntry, WalkLimits, Workspace, WorkspaceBuilder,
    },
};

/// Lets this program be its own sandbox helper. Call it first in `main`, before threads are started
/// and arguments are read.
///
/// If the program was started as the helper, this call does the helper's work and never returns.
/// Otherwise it costs a comparison and one syscall: `SIGXFSZ` is ignored from here on, so that a
/// write beyond `ulimit -f` fails with `EFBIG` and does not kill the program. Commands get the
/// default action.
pub fn init() {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|first| first == protocol::HELPER_ARGUMENT) {
        helper::main();
    }
    #[cfg(target_os = "linux")]
    helper::sys::ignore_file_size_signal();
    helper_program::ready();
}

// Runs the programs of the sandbox guide as doc tests.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../docs/guide/sandbox.md")]
    pub struct Guide;
}
