//! Why a tool that exists is not offered in a turn.

use std::fmt;

use haft_core::{DependencyKind, Scope};

use super::RegisteredTool;
use crate::host_code::caught;

/// Why a tool that exists is not offered this turn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HiddenReason {
    /// Its own `enabled` returned false.
    Disabled,
    /// A rule denies every call of it; the rule's reason.
    Denied(String),
    /// The host supplies no value of this type.
    MissingValue(&'static str),
    /// It needs user interaction, and no approver is configured.
    NeedsInteraction,
    /// The selector of the agent did not choose it for this turn.
    NotSelected,
}

impl fmt::Display for HiddenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("it is currently disabled"),
            Self::Denied(reason) => f.write_str(reason),
            Self::MissingValue(_) => f.write_str("the host did not supply what it needs"),
            Self::NeedsInteraction => {
                f.write_str("it needs user interaction, and no approver is configured")
            }
            Self::NotSelected => f.write_str("it was not selected for this turn"),
        }
    }
}

/// Returns why a tool cannot be used in this scope.
pub(super) fn unavailable(
    entry: &RegisteredTool,
    scope: &Scope,
    interactive: bool,
) -> Option<HiddenReason> {
    let spec = entry.spec();
    if let Some(enabled) = &spec.enabled
        // FAIL CLOSED: a panic in `enabled` disables the tool.
        && !caught(|| enabled(scope)).unwrap_or(false)
    {
        return Some(HiddenReason::Disabled);
    }
    if spec.requires_user_interaction && !interactive {
        return Some(HiddenReason::NeedsInteraction);
    }
    let missing = |n: &&haft_core::Dependency| match n.kind {
        DependencyKind::RunState => !scope.run_state.has(n.type_id),
        DependencyKind::State => !scope.state.has(n.type_id),
    };
    if let Some(need) = spec.needs.iter().find(missing) {
        return Some(HiddenReason::MissingValue(need.type_name));
    }
    None
}
