//! What all runs of a runtime share: its limits, its tools, its policy and its services.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use haft_core::TypeMap;
use haft_policy::Budget;

use super::{
    background::Background,
    layers::{Around, RuntimeLayers},
    runtime_policy::RuntimePolicy,
};
use crate::{
    approval::ApprovalQueue,
    artifact::RuntimeArtifacts,
    clock::Clock,
    concurrency::{LockTable, Threads},
    config::Config,
    event::Events,
    frame::Nonces,
    guards::NamedGuard,
    hooks::NamedHook,
    journal::RuntimeJournal,
    registry::{RegisteredTool, ToolRegistry},
    secrets::RuntimeRedactor,
};

/// State shared by all runs.
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) budget: Budget,
    pub(crate) registry: ToolRegistry,
    /// Default working directory of a run.
    pub(crate) workspace: Option<Arc<Path>>,
    pub(crate) policy: RuntimePolicy,
    pub(crate) guards: Vec<NamedGuard>,
    pub(crate) hooks: Vec<NamedHook>,
    pub(crate) middleware: Vec<Around>,
    pub(crate) layers: RuntimeLayers,
    pub(crate) redactor: RuntimeRedactor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) nonces: Nonces,
    pub(crate) approvals: ApprovalQueue,
    pub(crate) journal: RuntimeJournal,
    pub(crate) events: Events,
    pub(crate) state: Arc<TypeMap>,
    pub(crate) artifacts: RuntimeArtifacts,
    pub(crate) threads: Threads,
    pub(crate) keys: Arc<LockTable>,
    pub(crate) background: Background,
    pub(crate) runs: AtomicU64,
}

impl Inner {
    /// Returns the names of the hooks that apply to a tool.
    pub(crate) fn hook_names(&self, tool: &RegisteredTool) -> Vec<String> {
        // A hook whose `applies_to` panics stops the call, so it is listed.
        let meets = |hook: &&NamedHook| hook.applies_to(tool).unwrap_or(true);
        self.hooks.iter().filter(meets).map(|hook| hook.name().to_owned()).collect()
    }
}
