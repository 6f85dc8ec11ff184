//! A self-test: forbidden acts, tried inside the sandbox, and what came of each.
//!
//! The acts are data: a name, a group, what is tried, what is expected. They run where a command
//! would run, after everything is in force. Whoever reads the table sees what this machine really
//! does, not what it should do.

#[cfg(target_os = "linux")]
pub(crate) mod acts;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Tier;

/// What is prepared outside for the acts to be tried on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Scene {
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) victim: i32,
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    pub(crate) socket: PathBuf,
    pub(crate) abstract_name: String,
    pub(crate) limits: crate::Limits,
}

/// What should become of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// It must not succeed.
    Refused,
    /// It must succeed, or commands cannot work.
    Allowed,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// It succeeded.
    Allowed,
    /// The system refused, with this error number.
    Refused(i32),
    /// The process was killed by this signal.
    Killed(i32),
    /// This machine or this program cannot try it, and why.
    Skipped(String),
}

/// One act and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A short name.
    pub name: String,
    /// What it is about: `files`, `network`, `processes` and so on.
    pub group: String,
    /// What was tried.
    pub tried: String,
    /// What should become of it.
    pub expected: Expected,
    /// What became of it.
    pub observed: Observed,
}

impl Finding {
    /// Returns whether it went as it should.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match (&self.expected, &self.observed) {
            (_, Observed::Skipped(_)) | (Expected::Allowed, Observed::Allowed) => true,
            (Expected::Refused, Observed::Refused(_) | Observed::Killed(_)) => true,
            (Expected::Refused, Observed::Allowed)
            | (Expected::Allowed, Observed::Refused(_) | Observed::Killed(_)) => false,
        }
    }
}

/// The table of a self-test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    /// What was in force.
    pub tier: Tier,
    /// One line for each act.
    pub findings: Vec<Finding>,
}

impl Findings {
    /// Goes through what did not go as it should.
    pub fn bad(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.is_good())
    }

    /// Goes through what could not be tried.
    pub fn skipped(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| matches!(finding.observed, Observed::Skipped(_)))
    }
}
