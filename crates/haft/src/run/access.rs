//! What the agent loop needs to know about a run.

use std::sync::Arc;

use haft_core::{Scope, SharedMap, ToolName};

use super::{Inner, Ledger, Run};

impl Run {
    /// Returns the services of the runtime.
    pub(crate) fn services(&self) -> &Arc<Inner> {
        &self.0.inner
    }

    /// Returns the facts of the run.
    pub(crate) fn scope(&self) -> &Scope {
        &self.0.base
    }

    /// Returns the values that calls of the run share.
    pub(crate) fn shared(&self) -> &SharedMap {
        &self.0.base.shared
    }

    /// Returns the hierarchical number of the run.
    pub(crate) fn line(&self) -> &str {
        &self.0.line
    }

    /// Shows deferred tools from the next turn on.
    pub(crate) fn load_tools(&self, names: &[ToolName]) {
        self.0.load_tools(names.iter());
    }

    /// Returns the deferred tools that were loaded so far.
    pub(crate) fn loaded_tools(&self) -> Vec<ToolName> {
        self.0.loaded_tools().to_vec()
    }

    /// Returns the budget; `None` if nothing is limited.
    pub(crate) fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.0.ledger.as_ref()
    }
}
