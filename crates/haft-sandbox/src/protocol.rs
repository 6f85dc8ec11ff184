//! The protocol between runtime and helper.
//!
//! The runtime sends one set of orders, then at most single bytes. The helper answers with lines of
//! JSON. Both ends are the same program, so the version only guards against a helper of another
//! build.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Exit, ExitReason, Level, ProcessLimits, Profile, RefusedChange, Tier};

/// The protocol version. Increase it with every incompatible change.
pub(crate) const VERSION: u32 = 6;
/// The first argument of a program that is started as the helper.
pub(crate) const HELPER_ARGUMENT: &str = "haft-sandbox-helper-v1";
/// Size limit of the orders. The system does not accept more arguments either.
pub(crate) const MAX_REQUEST_BYTES: usize = 8 << 20;
/// Size limit of the standard input of a command.
pub(crate) const MAX_INPUT_BYTES: usize = 64 << 20;
/// The size of an input that is a pipe: one byte with its file descriptor follows the orders.
pub(crate) const PIPED_INPUT: u64 = u64::MAX;
/// The byte that makes the helper send `SIGTERM` to the command.
pub(crate) const TERMINATE: u8 = b't';

/// What the helper has to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HelperRequest {
    pub(crate) version: u32,
    pub(crate) level: Level,
    pub(crate) profile: Profile,
    pub(crate) act: Act,
    pub(crate) deadline_ms: Option<u64>,
    /// A directory in which cgroups may be created.
    pub(crate) cgroup: Option<PathBuf>,
    /// The bubblewrap that creates the namespaces, if the helper may not.
    pub(crate) bubblewrap: Option<PathBuf>,
}

/// What to do inside the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// Only report the tier.
    Probe,
    /// Run a program.
    Run(Run),
    /// Try forbidden acts and report what succeeded.
    Trial(Scene),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Names and contents of files in its private home directory.
    pub(crate) home: BTreeMap<String, String>,
    /// A root and the path below it.
    pub(crate) directory: Option<(PathBuf, PathBuf)>,
}

/// The targets of the self-test, prepared outside of the sandbox.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Scene {
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) victim: i32,
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    pub(crate) socket: PathBuf,
    pub(crate) abstract_name: String,
    pub(crate) limits: ProcessLimits,
    pub(crate) level: Option<Level>,
}

/// A report of the helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The program runs, and this is enforced. If it has a proxy, the file descriptor of the
    /// listening socket comes with this line.
    Started(Tier),
    /// Nothing ran.
    Refused { step: String, message: String, fault: Fault },
    /// All processes of the program are gone, or will be before the helper is.
    Ended {
        exit: Exit,
        exit_reason: ExitReason,
        cpu_us: u64,
        wall_us: u64,
        memory: u64,
        refused: Vec<RefusedChange>,
    },
    /// Only the helper is left and about to exit. The runtime does not wait for that, because some
    /// disks are slow to delete.
    Gone,
}

/// Why nothing ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    Machine,
    /// A limit was reached; a retry may work.
    Transient,
    Profile,
    Command,
}
