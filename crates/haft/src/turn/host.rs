//! What a turn does for the bodies of its calls: nested calls, threads, progress, secrets, tasks.

use std::{
    any::{Any, TypeId},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use haft_core::{
    BoxFuture, CallId, DeniedPaths, DeniedPathsUnknown, DynTool, Failure, HardLinkedFile,
    Operation, OtherNames, Output, Progress, RemainingBudget, Scope, Secret, ToolCall, ToolContext,
    ToolSpec,
    host::{Host, HostContext, PathRules, TaskSlot},
};
use serde_json::Value;

use super::nested::nested;
use crate::{call::TurnCore, registry::RegisteredTool, secrets};

impl Host for TurnCore {
    fn now(&self) -> Instant {
        self.run.inner.clock.now()
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn call(
        self: Arc<Self>,
        cx: ToolContext,
        id: CallId,
        name: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>> {
        Box::pin(nested(self, cx, ToolCall::new(id, name, arguments), None))
    }

    fn authorize_step(
        self: Arc<Self>,
        cx: ToolContext,
        id: CallId,
        step: ToolSpec,
        input_schema: Value,
        arguments: Value,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        Box::pin(async move {
            let call = ToolCall::new(id, &*step.name, arguments);
            let tool = DynTool::new(step, input_schema, |_, _| async {
                Ok::<Output, Failure>(Output::default())
            });
            let entry = RegisteredTool::freeze_step(call.name.clone(), &tool)
                .map_err(|error| Failure::hidden(error.to_string()))?;
            nested(self, cx, call, Some(Arc::new(entry))).await.map(drop)
        })
    }

    fn spawn_blocking(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
        self.run.inner.threads.run(job)
    }

    fn report(&self, cx: &ToolContext, note: Progress) {
        // A body that could not be stopped may still report; its call has had its last event.
        if cx.is_closed() {
            return;
        }
        if !self.run.inner.events.has_observer() {
            return;
        }
        let note = match note {
            Progress::Partial(chunk) => match self.sanitize_chunk(cx, None, &chunk) {
                Some(shown) => Progress::Partial(shown),
                None => return,
            },
            Progress::Keyed(key, chunk) => match self.sanitize_chunk(cx, Some(&key), &chunk) {
                Some(shown) => {
                    Progress::Keyed(self.run.inner.redactor.text(&key).into_owned(), shown)
                }
                None => return,
            },
            // Its text is redacted like that of any other event.
            Progress::Progress(..) => note,
        };
        self.emit_progress(cx.call_id().clone(), note);
    }

    fn secret(&self, cx: &ToolContext, name: &str) -> Result<Secret, Failure> {
        secrets::secret_for_body(
            &self.run.inner.redactor,
            self.snapshot.get(cx.tool_name().as_str()).map(|tool| tool.secret_user()),
            cx,
            name,
        )
    }

    fn progress_interval(&self) -> std::time::Duration {
        self.run.inner.config.progress_every
    }

    fn defer(&self, cx: &ToolContext, summary: &str) -> Result<Option<TaskSlot>, Failure> {
        let task = self.task(cx, summary)?;
        Ok(task.map(|(task, place)| TaskSlot { task, reservation: Box::new(place) }))
    }

    fn remaining_budget(&self, cx: &ToolContext) -> RemainingBudget {
        let tool = self.snapshot.get(cx.tool_name().as_str()).map(|entry| entry.registered());
        self.run.remaining(cx.depth(), Some(tool.unwrap_or(cx.tool_name())))
    }

    fn charge(&self, _: &ToolContext, tokens: u64, micros: u64) -> Result<(), Failure> {
        match &self.run.ledger {
            Some(ledger) => ledger.charge(tokens, micros, &self.run.inner.events),
            None => Ok(()),
        }
    }

    fn path_rules(&self) -> &dyn PathRules {
        self
    }

    fn max_result_bytes(&self) -> usize {
        self.run.inner.config.max_result
    }

    fn is_cancelled(&self, cx: &ToolContext) -> bool {
        self.run.is_cancelled() || self.is_turn_cancelled(cx)
    }

    fn watch(self: Arc<Self>) {
        self.key.get_or_init(|| self.run.watch(&self));
        // The run may have been cancelled or halted before it knew this turn.
        self.apply_stop_of_run();
    }

    fn any(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self)
    }

    fn service(&self, kind: TypeId) -> Option<&dyn Any> {
        if kind == TypeId::of::<Self>() {
            return Some(self);
        }
        let services: [&dyn Any; 3] =
            [&self.run.seen, &self.run.inner.redactor, &self.run.inner.clock];
        services.into_iter().find(|service| (**service).type_id() == kind)
    }
}

impl PathRules for TurnCore {
    fn is_path_denied(&self, _cx: &ToolContext, doing: Operation, file: &Path) -> bool {
        let rules = self.run.inner.policy.file_rules();
        rules.is_some_and(|rules| rules.is_path_denied(doing, file, &self.scope))
    }

    fn asks_about_protected(&self, _cx: &ToolContext) -> bool {
        self.run.inner.policy.file_rules().is_some_and(|rules| rules.asks_about_protected())
    }

    fn other_names(
        &self,
        _cx: &ToolContext,
        doing: Operation,
        path: &Path,
        file: &HardLinkedFile,
    ) -> OtherNames {
        let rules = self.run.inner.policy.file_rules();
        rules.map_or(OtherNames::Allowed, |r| r.other_names(doing, path, file, &self.scope))
    }

    fn denied_paths(
        &self,
        _cx: &ToolContext,
        roots: &[PathBuf],
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        let now = || self.run.inner.clock.now();
        match self.run.inner.policy.file_rules() {
            Some(rules) => rules.denied_paths(roots, &self.scope, &now),
            None => Ok(DeniedPaths::default()),
        }
    }

    fn is_host_restricted(&self, _cx: &ToolContext, host: &str) -> bool {
        let rules = self.run.inner.policy.file_rules();
        rules.is_some_and(|rules| rules.is_host_restricted(host, &self.scope))
    }
}
