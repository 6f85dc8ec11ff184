//! How a command ended, and why. The helper reports it; the runtime returns it.

use serde::{Deserialize, Serialize};

/// How a command's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// No process observed it.
    Unknown,
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// Its process exited, or a limit that the kernel enforces killed it.
    Exited,
    /// Its timeout expired.
    TimedOut,
    /// The runtime stopped it.
    Stopped,
    /// It wrote more output than allowed.
    OutputLimit,
    /// All its processes together used more memory than allowed.
    OutOfMemory,
    /// The helper died, and all processes of the command were killed.
    HelperDied,
    /// The helper and its second process both died without a report. Processes of the command may
    /// still run. Only possible without a pid namespace.
    Abandoned,
}
