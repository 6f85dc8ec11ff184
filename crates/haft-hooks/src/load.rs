//! Sets up all hooks that files name, and notes what is never called.

use std::sync::Arc;

use haft::{Approver, Handler, HookSpec, RuntimeBuilder};

use crate::{
    approver::ExternalApprover, error::Error, hook::ExternalHook, line::Line,
    observer::ExternalObserver, place::ProjectDir,
};

/// The hooks that files name, set up.
#[derive(Debug)]
pub struct Hooks {
    hooks: Vec<ExternalHook>,
    asked: Vec<Line>,
    told: Vec<Line>,
    notes: Vec<String>,
}

impl Hooks {
    /// Sets hooks up, in order.
    ///
    /// # Errors
    /// Fails for an event, a matcher or a condition that means nothing here, for an empty command
    /// ([`Handler::mistake`]), and for a hook that is meant to guard and cannot be called: a guard
    /// that is left out would be a way round it.
    pub fn load(specs: &[HookSpec], place: ProjectDir) -> Result<Self, Error> {
        let place = Arc::new(place);
        let mut all =
            Self { hooks: Vec::new(), asked: Vec::new(), told: Vec::new(), notes: Vec::new() };
        for (at, spec) in specs.iter().enumerate() {
            let name = Line::name_of(spec);
            let event = spec.event.as_str();
            if HookSpec::PROTOCOL.contains(&event) && !HookSpec::EVENTS.contains(&event) {
                all.note(format!("`{}` is never called here; its hooks do nothing", spec.event));
                continue;
            }
            if !matches!(spec.handler, Handler::Command { .. } | Handler::Http { .. }) {
                if spec.fails_closed {
                    return Err(Error::new(&name, "this kind of hook cannot be called here")
                        .hint("make it a `command` or an `http` hook"));
                }
                all.note(format!("hook `{name}` is of a kind that is never called here"));
                continue;
            }
            let line = Line::new(spec, &place, &specs[..at])?;
            let has_tool =
                !matches!(&*spec.event, "SessionStart" | "PostToolBatch" | "Notification");
            if spec.only_if.is_some() && !has_tool {
                all.note(format!("hook `{name}` has an `if`, and its event no tool: never called"));
                continue;
            }
            match spec.event.as_str() {
                "PermissionRequest" => all.asked.push(line),
                "PermissionDenied" | "Notification" => all.told.push(line),
                event => match ExternalHook::new(line) {
                    Some(hook) => all.hooks.push(hook),
                    None => {
                        return Err(Error::new(&name, format!("there is no event `{event}`"))
                            .hint("the words are those of the protocol, such as `PreToolUse`"));
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

    /// Returns what a person should know: hooks that are never called, each once.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Takes out who answers instead of a person, if a hook wants to.
    #[must_use]
    pub fn take_approver(&mut self) -> Option<ExternalApprover> {
        let lines = std::mem::take(&mut self.asked);
        (!lines.is_empty()).then(|| ExternalApprover::new(lines))
    }

    /// Adds everything to a runtime. Hooks that answer instead of a person become its approver,
    /// unless they were taken out before.
    pub fn add_to(mut self, mut builder: RuntimeBuilder) -> RuntimeBuilder {
        if let Some(approver) = self.take_approver() {
            builder = builder.approver(approver);
        }
        self.add_hooks(builder)
    }

    /// Adds everything to a runtime that asks this approver where no hook decides.
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
        match self.told.is_empty() {
            true => builder,
            false => builder.observer(ExternalObserver::new(self.told)),
        }
    }
}
