//! Configures all hooks of the files, and notes those that are never called.

use std::sync::Arc;

use haft::{
    RuntimeBuilder,
    approval::Approver,
    policy::{Handler, HookSpec},
};

use crate::{
    approver::ExternalApprover, configured::ConfiguredHook, error::HookError, hook::ExternalHook,
    observer::ExternalObserver, project_dir::ProjectDir,
};

/// The configured hooks.
#[derive(Debug)]
pub struct Hooks {
    hooks: Vec<ExternalHook>,
    approvers: Vec<ConfiguredHook>,
    observers: Vec<ConfiguredHook>,
    notes: Vec<String>,
}

impl Hooks {
    /// Configures hooks, in order.
    ///
    /// # Errors
    /// Fails for an unknown event, an invalid matcher or condition, an empty command
    /// ([`Handler::mistake`]), and for a hook that fails closed and cannot be called: skipping such
    /// a hook would bypass it.
    pub fn load(specs: &[HookSpec], project_dir: ProjectDir) -> Result<Self, HookError> {
        let project_dir = Arc::new(project_dir);
        let mut all = Self {
            hooks: Vec::new(),
            approvers: Vec::new(),
            observers: Vec::new(),
            notes: Vec::new(),
        };
        for (at, spec) in specs.iter().enumerate() {
            let name = ConfiguredHook::name_of(spec);
            let event = spec.event.as_str();
            if HookSpec::PROTOCOL.contains(&event) && !HookSpec::EVENTS.contains(&event) {
                all.note(format!(
                    "haft does not support the event `{}`; its hooks are never called",
                    spec.event
                ));
                continue;
            }
            if !matches!(spec.handler, Handler::Command { .. } | Handler::Http { .. }) {
                if spec.fails_closed {
                    return Err(HookError::new(&name, "this kind of hook is not supported")
                        .hint("make it a `command` or an `http` hook"));
                }
                all.note(format!(
                    "hook `{name}` has a kind that is not supported; it is never called"
                ));
                continue;
            }
            let configured = ConfiguredHook::new(spec, &project_dir, &specs[..at])?;
            let has_tool =
                !matches!(&*spec.event, "SessionStart" | "PostToolBatch" | "Notification");
            if spec.only_if.is_some() && !has_tool {
                all.note(format!(
                    "hook `{name}` has an `if`, but its event has no tool; it is never called"
                ));
                continue;
            }
            match spec.event.as_str() {
                "PermissionRequest" => all.approvers.push(configured),
                "PermissionDenied" | "Notification" => all.observers.push(configured),
                event => match ExternalHook::new(configured) {
                    Some(hook) => all.hooks.push(hook),
                    None => {
                        return Err(HookError::new(&name, format!("unknown event `{event}`"))
                            .hint("use an event of the protocol, such as `PreToolUse`"));
                    }
                },
            }
        }
        Ok(all)
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns notes for a person about hooks that are never called.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Takes the approver that asks `PermissionRequest` hooks, if there are any.
    #[must_use]
    pub fn take_approver(&mut self) -> Option<ExternalApprover> {
        let hooks = std::mem::take(&mut self.approvers);
        (!hooks.is_empty()).then(|| ExternalApprover::new(hooks))
    }

    /// Adds everything to a runtime. `PermissionRequest` hooks become an approver, unless
    /// `take_approver` was called before.
    pub fn add_to(mut self, mut builder: RuntimeBuilder) -> RuntimeBuilder {
        if let Some(approver) = self.take_approver() {
            builder = builder.approver(approver);
        }
        self.add_hooks(builder)
    }

    /// Adds everything to a runtime that asks this approver if no hook decides.
    pub fn add_with(mut self, mut builder: RuntimeBuilder, next: impl Approver) -> RuntimeBuilder {
        builder = match self.take_approver() {
            Some(approver) => builder.approver(approver.or_ask(next)),
            None => builder.approver(next),
        };
        self.add_hooks(builder)
    }

    fn add_hooks(self, mut builder: RuntimeBuilder) -> RuntimeBuilder {
        for hook in self.hooks {
            builder = builder.hook(hook);
        }
        if self.observers.is_empty() {
            builder
        } else {
            builder.observer(ExternalObserver::new(self.observers))
        }
    }
}
