//! Tool sources: where tools come from that are not this program's own, such as MCP servers.
//!
//! A source is opened once, queried for its tools between turns, and closed. Sources open in order
//! and close in reverse order on every path: also if a later one fails to open, and if the runtime
//! is dropped.

use std::{fmt, time::Duration};

use haft_core::{BoxError, BoxFuture, DynTool};

/// An external set of tools.
///
/// The model sees its tools as `name__tool`, so they cannot shadow our own.
pub trait ToolSource: Send + Sync + 'static {
    /// Returns its name, the prefix of its tools' names.
    fn name(&self) -> &str;

    /// Opens the source. Called once, before anything else.
    fn open(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }

    /// Lists its tools. Called between turns, never within one.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>>;

    /// Returns how long listing may take if that is more than `policy_timeout`, for a source that
    /// is slow the first time. Asked before every list.
    fn list_timeout(&self) -> Option<Duration> {
        None
    }

    /// Closes the source. Called once, if `open` succeeded.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl fmt::Debug for dyn ToolSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolSource({})", self.name())
    }
}
