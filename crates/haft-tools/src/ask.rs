//! Asks the user a question.

use haft_core::DynTool;

use crate::Hands;

/// Returns the tools.
pub(crate) fn tools(_hands: &Hands) -> Vec<DynTool> {
    Vec::new()
}
