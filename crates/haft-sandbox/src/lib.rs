//! Confined processes and files: the hands of haft.
//!
//! x
#![cfg_attr(not(unix), allow(unused))]

#[cfg(not(unix))]
compile_error!("haft-sandbox knows files by Unix handles; there is no form for this system yet");

mod error;
mod tier;
mod workspace;
mod profile;
mod environment;
mod command;
mod orders;
mod sandbox;
mod running;
mod doctor;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod helper;

pub use self::{
    command::Command,
    doctor::{Expected, Finding, Findings, Observed},
    environment::Environment,
    error::{Error, ErrorKind},
    profile::{Limits, Network, Profile, Reads, Root},
    running::{Ended, Exit, Facts, How, Piece, Running, Stream},
    sandbox::{Helper, Sandbox},
    tier::{Level, Strength, Tier},
    workspace::{
        Access, Bounds, Cause, Done, Draft, Entry, Extent, Kind, Meta, Opened, PROTECTED, Place,
        Refusal, Replace, Stamp, Walk, Workspace, WorkspaceBuilder,
    },
};

/// Makes this program able to be the sandbox's helper. Call it first in `main`, before threads,
/// before arguments are read.
///
/// When the program was started as the helper, this call does the helper's work and never returns.
/// Otherwise it costs a comparison.
pub fn init() {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|first| first == orders::MARK) {
        helper::main();
    }
    sandbox::ready();
}
