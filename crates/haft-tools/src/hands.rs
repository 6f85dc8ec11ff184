//! All built-in tools of one workspace, to be added to a catalog.

use std::sync::Arc;

use haft_core::{DynTool, IntoTools};
use haft_sandbox::{Sandbox, Workspace};

use crate::{AskUser, Fetch, ask, fetch, files, process};

/// The built-in tools of one workspace. Add it to a catalog like a tool.
#[derive(Debug, Clone)]
#[must_use]
pub struct Hands {
    pub(crate) workspace: Arc<Workspace>,
    /// What confines processes; nothing means that tools which start processes are refused.
    pub(crate) sandbox: Option<Sandbox>,
    /// How pages are fetched; nothing means that they are not.
    pub(crate) fetch: Option<Fetch>,
    /// How the user is asked; nothing means that nobody is.
    pub(crate) ask: Option<AskUser>,
}

impl Hands {
    /// Works in a workspace, with files alone.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace: Arc::new(workspace), sandbox: None, fetch: None, ask: None }
    }

    /// Starts processes in a sandbox.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Fetches pages.
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// Asks the user.
    pub fn ask(mut self, ask: AskUser) -> Self {
        self.ask = Some(ask);
        self
    }
}

impl IntoTools for Hands {
    fn into_tools(self) -> Vec<DynTool> {
        let mut tools = files::tools(&self);
        tools.extend(process::tools(&self));
        tools.extend(fetch::tools(&self));
        tools.extend(ask::tools(&self));
        tools
    }
}
