//! Where tools come from when they are not this program's own.
//!
//! A source is opened once, asked for its tools between turns, and closed. Sources open in order
//! and close in reverse, on every path: also when a later one does not open, and when the runtime
//! is dropped.

use std::fmt;

use haft_core::{BoxError, BoxFuture, DynTool};

/// A set of tools somebody else brings.
///
/// Its tools are shown to the model as `name__tool`, so they can never pass for our own.
pub trait ToolSource: Send + Sync + 'static {
    /// Returns its name, the first half of its tools' names.
    fn name(&self) -> &str;

    /// Gets ready. Called once, before anything else.
    fn open(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }

    /// Lists its tools. Asked between turns, never within one.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>>;

    /// Lets go. Called once, if `open` succeeded.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl fmt::Debug for dyn ToolSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolSource({})", self.name())
    }
}
