//! What runtime and helper say to each other.
//!
//! The runtime sends one set of orders, then at most single bytes; the helper answers with lines of
//! JSON. Both ends are the same program, so the version only guards against a helper of another build.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Level, Profile, Tier};

/// Changed whenever one end would misunderstand the other.
pub(crate) const VERSION: u32 = 4;
/// The first argument that makes a program the helper.
pub(crate) const MARK: &str = "haft-sandbox-helper-v1";
/// No orders are longer. The system does not take more arguments either.
pub(crate) const LONG_ORDERS: usize = 8 << 20;
/// No more is given to a command on its standard input.
pub(crate) const LONG_INPUT: usize = 64 << 20;
/// The byte that asks the command to end by itself.
pub(crate) const PLEASE: u8 = b't';

/// What the helper is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Orders {
    pub(crate) version: u32,
    pub(crate) level: Level,
    pub(crate) profile: Profile,
    pub(crate) act: Act,
    pub(crate) deadline_ms: Option<u64>,
    /// A directory in which control groups may be made.
    pub(crate) cgroup: Option<PathBuf>,
    /// A bubblewrap that creates the namespaces, where the helper may not.
    pub(crate) bubblewrap: Option<PathBuf>,
}

/// What is done once everything is in force.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// Nothing: only say how strong it is.
    Probe,
    /// Run a program.
    Run(Run),
    /// Try what is forbidden.
    Trial(crate::doctor::Scene),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Files of its private home directory: names and texts.
    pub(crate) home: BTreeMap<String, String>,
    /// A root and the path below it.
    pub(crate) folder: Option<(PathBuf, PathBuf)>,
}

/// What the helper says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The program runs, and this is in force around it.
    Started(Tier),
    /// Nothing ran.
    Refused { step: String, message: String, fault: Fault },
    /// The program and everything it started is gone, or will be before the helper is.
    Ended {
        exit: crate::Exit,
        how: crate::ExitReason,
        cpu_us: u64,
        wall_us: u64,
        memory: u64,
        refused: Vec<crate::Refused>,
    },
    /// Nothing is left of it but the helper, which is about to end. Some disks take their time with
    /// what was deleted, and nobody needs to wait for that.
    Gone,
}

/// Whose fault it is that nothing ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    Machine,
    /// A limit was reached; it may work later.
    Transient,
    Profile,
    Command,
}
