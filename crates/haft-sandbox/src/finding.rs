//! One act of the self-test: what was tried, what was expected, what happened. The helper writes
//! findings as lines of JSON.

use serde::{Deserialize, Serialize};

/// The expected result of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedResult {
    /// It must not succeed.
    Refused,
    /// It must succeed, or commands cannot work.
    Allowed,
}

/// The observed result of an act.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservedResult {
    /// It succeeded.
    Allowed,
    /// The system refused it with this errno.
    Refused(i32),
    /// The process was killed by this signal.
    Killed(i32),
    /// It cannot be tried here. The text says why.
    Skipped(String),
}

/// One act and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorFinding {
    /// A short name.
    pub name: String,
    /// What it is about: `files`, `network`, `processes` and so on.
    pub group: String,
    /// What was tried.
    pub tried: String,
    /// The expected result.
    pub expected: ExpectedResult,
    /// The observed result.
    pub observed: ObservedResult,
}

impl DoctorFinding {
    /// Returns whether the result is the expected one.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match (&self.expected, &self.observed) {
            (_, ObservedResult::Skipped(_))
            | (ExpectedResult::Allowed, ObservedResult::Allowed) => true,
            (ExpectedResult::Refused, ObservedResult::Refused(_) | ObservedResult::Killed(_)) => {
                true
            }
            (ExpectedResult::Refused, ObservedResult::Allowed)
            | (ExpectedResult::Allowed, ObservedResult::Refused(_) | ObservedResult::Killed(_)) => {
                false
            }
        }
    }
}
