//! Confined processes and files: the hands of haft.
//!
//! Two things, which share their roots so that they cannot disagree:
//!
//! - A [`Workspace`] is a set of folders, held by handles. Paths lead to a [`ResolvedPath`] inside
//!   it or are refused; what is done at a place follows no link and touches nothing outside.
//! - A [`Sandbox`] starts commands that can do what their [`Profile`] says: write in the workspace but
//!   for its protected names, read the rest, reach no network unless it is named, use so much and no
//!   more. Nothing they start outlives them. What is in force is a value, the [`Tier`].
//!
//! The confinement is set up by a second process, the helper: this same program, started again.
//! So [`init`] comes first in `main`:
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
//!     let folder = tempfile::tempdir()?;
//!     let workspace = Workspace::builder().root(folder.path(), Access::Write).build()?;
//!     let sandbox = match Sandbox::detect(Helper::ThisProgram).await {
//!         Ok(sandbox) => sandbox,
//!         Err(missing) => return Ok(println!("no commands here: {missing}")),
//!     };
//!     let profile = Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
//!     std::fs::create_dir(folder.path().join("notes"))?;
//!     let command = Command::shell("echo hello > notes/greeting; cat notes/greeting; echo x > /etc/passwd")
//!         .deadline(Duration::from_secs(10));
//!     let ended = sandbox.run(command, profile).await?;
//!     assert_eq!(ended.stdout.bytes(), b"hello\n");
//!     assert!(!ended.is_success(), "the last one was refused");
//!     Ok(())
//! }
//! ```
//!
//! Only Linux can confine processes. Elsewhere [`Sandbox::detect`] is an error that says what is
//! missing; workspaces work on every Unix.
//!
//! This is the only crate of the project with `unsafe` in it, all of it in one file,
//! `helper/sys.rs`, with a reason at each block.

#[cfg(not(unix))]
compile_error!("haft-sandbox holds folders by Unix handles; there is no form for this system yet");

mod error;
mod exhausted;
mod workspace;
mod tier;
mod profile;
mod environment;
mod command;
mod sandbox;
mod running;
mod orders;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod seccomp;
mod doctor;

pub use haft_core::protected_names::Refused;

pub use self::{
    command::Command,
    doctor::{DoctorFinding, Expected, Findings, Observed, Obstacle, ObstacleCause},
    environment::Environment,
    error::{Error, ErrorKind},
    profile::{Denied, Network, ProcessLimits, Profile, Reads, Root},
    running::{
        Exit, ExitReason, ProcessChunk, ProcessFacts, ProcessResult, ProcessStream, Running,
    },
    sandbox::{Helper, Sandbox},
    tier::{Level, Strength, Tier},
    workspace::{
        Access, AtomicWrite, Bounds, DeniedNames, Done, Entry, Extent, FileKind, GitDirectory,
        Meta, OpenFile, PROTECTED, PathError, PathErrorKind, ProtectedName, Replace, ResolvedPath,
        Stamp, Walk, Workspace, WorkspaceBuilder,
    },
};

/// Makes this program able to be the sandbox's helper. Call it first in `main`, before threads,
/// before arguments are read.
///
/// When the program was started as the helper, this call does the helper's work and never returns.
/// Otherwise it costs a comparison and one call: `SIGXFSZ` is ignored from here on, so that a write
/// beyond `ulimit -f` is an error (`EFBIG`) and not the end of the program. Commands get the default.
pub fn init() {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|first| first == orders::MARK) {
        helper::main();
    }
    #[cfg(target_os = "linux")]
    helper::sys::ignore_file_size_signal();
    sandbox::ready();
}

// The programs of the page about the sandbox run as doc tests here.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../docs/guide/sandbox.md")]
    pub struct Guide;
}
