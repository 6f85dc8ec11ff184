//! Labels of content (trust, confidentiality), and what a run has read so far.

pub use haft_core::{Confidentiality, Label, Trust};

use haft_core::Execution;

use crate::tool_result::ToolResult;
pub use haft_policy::{Provenance, Taint, TaintTracker};

/// Records that the model has read a result. A failure without a body was written by the host; what
/// a middleware returns in place of a body may still be the earlier output of a body.
#[inline(always)]
pub(crate) fn record_read(taint: &TaintTracker, result: &ToolResult) {
    let label = result.label();
    let is_from_host = result.execution() == Execution::NotStarted && result.is_error();
    if is_from_host || label == Label::CLEAN {
        return;
    }
    let origin = result.origin().and_then(|origin| origin.what());
    let record = |text: &str| taint.record(result.id(), result.tool_name(), origin, label, text);
    match label.trust {
        Trust::Untrusted => record(&result.text()),
        Trust::Trusted | Trust::Workspace => record(""),
    }
}
