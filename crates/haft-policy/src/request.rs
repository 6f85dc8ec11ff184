//! What a policy decides about: one call of one tool, borrowed.
//!
//! A request has no JSON of its own and allocates nothing, so the runtime makes one for every
//! decision. It names neither the registry nor the runtime: a program without them can make one
//! too.

pub(crate) mod traits;

use std::{
    path::PathBuf,
    sync::{Arc, LazyLock, OnceLock},
};

use haft_core::{
    CallProfile, Confinement, Effects, Operation, Scope, ToolContext, ToolName, ToolSpec, Verdict,
    host::HostContext,
};
use serde::Serialize;
use serde_json::Value;

use self::traits::Traits;
use super::taint::TaintTracker;

/// One call that a policy decides about.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PolicyRequest<'a> {
    /// The tool that is called.
    pub tool: PolicyTool<'a>,
    /// The validated arguments, with defaults filled in.
    pub arguments: &'a Value,
    /// What the call would do.
    pub profile: &'a CallProfile,
    /// The run that it belongs to, its user and its working directory.
    pub scope: &'a Scope,
    /// What the run has read.
    pub taint: &'a Arc<TaintTracker>,
    /// The arguments that a person supplied because a policy required them.
    pub supplied: &'a [String],
    /// The allow of a hook. It replaces a missing rule; it overrides no ask and no deny.
    pub hook_allow: Option<&'a Verdict>,
    /// The context of the call; `None` outside a runtime. It knows whether the call can be
    /// confined.
    pub context: Option<&'a ToolContext>,
}

/// The kind of call a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Every kind.
    #[default]
    Any,
    /// An ordinary tool.
    ToolCall,
    /// A tool that delegates to another agent.
    SubagentCall,
    /// A tool that needs a person.
    Interaction,
    /// A request to the model itself.
    ModelCall,
}

/// A tool as policies see it: its names and what it declares.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PolicyTool<'a> {
    /// The name that the model calls it by. A view may have renamed the tool.
    pub name: &'a ToolName,
    /// The name that it was registered by. Rules use this name.
    pub registered: &'a ToolName,
    /// The source that it comes from and its name there; `None` for a tool of this program.
    pub remote: Option<(&'a str, &'a str)>,
    /// What it declares.
    pub spec: &'a ToolSpec,
    /// The schema of its arguments.
    pub input_schema: &'a Value,
    /// The directories that its calls are limited to; empty if it declares none.
    pub roots: &'a [PathBuf],
    /// Whether its body runs in a sandbox.
    pub is_isolated: bool,
    /// What rules derive from its schema.
    traits: &'a ToolTraits,
}

/// What rules derive from the schema of a tool. It is computed when a rule first needs it, and then
/// kept: store it with the definition, and make a new one when the definition changes.
#[derive(Debug, Clone, Default)]
pub struct ToolTraits(OnceLock<Traits>);

/// The tracker of a run that has read no result.
static UNTAINTED: LazyLock<Arc<TaintTracker>> = LazyLock::new(Arc::default);

impl<'a> PolicyRequest<'a> {
    /// Makes a request in a run that has read nothing.
    #[must_use]
    pub fn new(
        tool: PolicyTool<'a>,
        arguments: &'a Value,
        profile: &'a CallProfile,
        scope: &'a Scope,
    ) -> Self {
        Self {
            tool,
            arguments,
            profile,
            scope,
            taint: &UNTAINTED,
            supplied: &[],
            hook_allow: None,
            context: None,
        }
    }

    /// Sets what the run has read.
    #[must_use]
    pub fn with_taint(mut self, taint: &'a Arc<TaintTracker>) -> Self {
        self.taint = taint;
        self
    }

    /// Sets the arguments that a person supplied, and the allow of a hook.
    #[must_use]
    pub fn with_answers(mut self, supplied: &'a [String], hook_allow: Option<&'a Verdict>) -> Self {
        self.supplied = supplied;
        self.hook_allow = hook_allow;
        self
    }

    /// Sets the context of the call.
    #[must_use]
    pub fn with_context(mut self, context: &'a ToolContext) -> Self {
        self.context = Some(context);
        self
    }

    /// Returns how the call can be confined, or why not; `None` if its tool does not support it.
    pub(crate) fn confinement(&self) -> Option<Result<Confinement, String>> {
        self.context?.confinement()
    }

    /// Returns whether a call runs a command in a sandbox and declares all that it reads there.
    ///
    /// It must be declared for this call. A tool that is read-only for every call has declared
    /// nothing about what a command or the network may do in it.
    pub(crate) fn declares_reads(&self) -> bool {
        self.tool.is_isolated
            && self.tool.spec.read_only.is_none()
            && self.profile.read_only
            && matches!(&self.profile.effects, Effects::Declared(list)
                if list.iter().all(|e| e.operation == Operation::Read && e.target.is_some()))
    }
}

impl<'a> PolicyTool<'a> {
    /// Describes a tool of this program under the name that it was registered by.
    #[must_use]
    pub fn new(
        name: &'a ToolName,
        spec: &'a ToolSpec,
        input_schema: &'a Value,
        traits: &'a ToolTraits,
    ) -> Self {
        Self {
            name,
            registered: name,
            remote: None,
            spec,
            input_schema,
            roots: &[],
            is_isolated: false,
            traits,
        }
    }

    /// Returns the names of equivalent tools in other programs, such as `Bash`; rules for those
    /// names apply to it.
    #[must_use]
    pub fn known_as(&self) -> &'a [&'static str] {
        &self.traits().known_as
    }

    /// Returns what rules derive from its schema.
    pub(crate) fn traits(&self) -> &'a Traits {
        self.traits.0.get_or_init(|| Traits::of(self))
    }
}
