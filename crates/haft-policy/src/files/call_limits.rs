//! Limits of the runtime in `[defaults]` of a file.

use std::time::Duration;

use super::node::{Fields, Reader};

/// The keys of `[defaults]`: the limits, and the mode.
pub(super) const DEFAULT_KEYS: &[&str] = &[
    "mode",
    "disable_bypass",
    "timeout",
    "deadline",
    "approval_timeout",
    "policy_timeout",
    "max_result",
    "concurrency",
    "max_tool_tokens",
];

/// Limits of the runtime that files set. `None` keeps the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CallLimits {
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long a call may take in all.
    pub deadline: Option<Duration>,
    /// How long an approver may take.
    pub approval_timeout: Option<Duration>,
    /// How long a check, a hook or a guard may take.
    pub policy_timeout: Option<Duration>,
    /// The largest result that is processed, in bytes.
    pub max_result: Option<usize>,
    /// How many calls of one turn run concurrently.
    pub concurrency: Option<usize>,
    /// How many tokens the definitions of tools may take before some are deferred.
    pub max_tool_tokens: Option<u64>,
}

impl CallLimits {
    /// Reads the limits of a table.
    pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Self {
        Self {
            timeout: fields.field(reader, "timeout"),
            deadline: fields.field(reader, "deadline"),
            approval_timeout: fields.field(reader, "approval_timeout"),
            policy_timeout: fields.field(reader, "policy_timeout"),
            max_result: fields.whole(reader, "max_result", 1),
            concurrency: fields.whole(reader, "concurrency", 1),
            max_tool_tokens: fields.whole(reader, "max_tool_tokens", 0),
        }
    }

    /// Returns these limits, with the other's in place of `None`.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            timeout: self.timeout.or(other.timeout),
            deadline: self.deadline.or(other.deadline),
            approval_timeout: self.approval_timeout.or(other.approval_timeout),
            policy_timeout: self.policy_timeout.or(other.policy_timeout),
            max_result: self.max_result.or(other.max_result),
            concurrency: self.concurrency.or(other.concurrency),
            max_tool_tokens: self.max_tool_tokens.or(other.max_tool_tokens),
        }
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        let times = [self.timeout, self.deadline, self.approval_timeout, self.policy_timeout];
        let numbers = [self.max_result, self.concurrency];
        times.iter().flatten().count()
            + numbers.iter().flatten().count()
            + usize::from(self.max_tool_tokens.is_some())
    }
}
