//! The services of a runtime behind a [`ToolContext`].
//!
//! INVARIANT: what a host does not implement is refused: no secret, no spending, no path.

use std::{
    any::{Any, TypeId},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{TaskSlot, ToolContext};
use crate::{
    BoxFuture, CallId, DeniedPaths, DeniedPathsUnknown, Execution, Failure, FailureCode,
    HardLinkedFile, Operation, OtherNames, Output, Progress, RemainingBudget, Scope, Secret,
    ToolSpec,
};

/// What the runtime provides to a body. Authors use it only through [`ToolContext`].
pub trait Host: Send + Sync + 'static {
    /// Returns the current time of the runtime's clock.
    fn now(&self) -> Instant;
    /// Returns what its calls can read about their run. A call may have a scope of its own.
    fn scope(&self) -> &Scope;
    /// Runs a nested call through the whole pipeline, from validation to result.
    fn call(
        self: Arc<Self>,
        cx: ToolContext,
        id: CallId,
        name: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>>;
    /// Authorizes a step of a running body, such as a contact to a host: as a nested call of a tool
    /// that is in no registry and does nothing. It goes through the whole pipeline too. A host that
    /// does not implement it refuses the step.
    fn authorize_step(
        self: Arc<Self>,
        _cx: ToolContext,
        _id: CallId,
        step: ToolSpec,
        _input_schema: Value,
        _arguments: Value,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        let message = format!("this host cannot authorize `{}`", step.name);
        Box::pin(std::future::ready(Err(Failure::new(FailureCode::Denied, message))))
    }
    /// Runs a job on a thread that may block. Fails when no thread is available.
    fn spawn_blocking(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Failure>;
    /// Sends a progress note of a body to the observers.
    fn report(&self, cx: &ToolContext, note: Progress);
    /// Returns the shortest interval between two progress notes of a call. Notes that come sooner
    /// are buffered and merged (backpressure for observers).
    fn progress_interval(&self) -> Duration {
        Duration::ZERO
    }
    /// Reserves a slot for work that continues in the background after the call is answered. `None`
    /// if its result could not be delivered later; then the work runs at once.
    fn defer(&self, _cx: &ToolContext, _summary: &str) -> Result<Option<TaskSlot>, Failure> {
        Ok(None)
    }
    /// Returns what is left of the budget now. By default nothing is limited.
    fn remaining_budget(&self, _cx: &ToolContext) -> RemainingBudget {
        RemainingBudget::default()
    }
    /// Charges tokens and money that a body is about to spend. Fails if that exceeds the budget,
    /// and by default, as no budget is kept then.
    fn charge(&self, _cx: &ToolContext, _tokens: u64, _micros: u64) -> Result<(), Failure> {
        let failure =
            Failure::new(FailureCode::BudgetExhausted, "this runtime has no budget to charge");
        Err(failure.with_execution(Execution::Completed))
    }
    /// Returns a secret that this call may use.
    fn secret(&self, _cx: &ToolContext, _name: &str) -> Result<Secret, Failure> {
        Err(Failure::new(FailureCode::Denied, "no secrets are configured"))
    }
    /// Returns the rules about files that a body finds by itself. By default they deny every path.
    fn path_rules(&self) -> &dyn PathRules {
        &DenyAllPaths
    }
    /// Returns how many bytes of a result are kept at most.
    fn max_result_bytes(&self) -> usize {
        8 << 20
    }
    /// Returns whether something cancels all calls of this host, this one included.
    fn is_cancelled(&self, _cx: &ToolContext) -> bool {
        false
    }
    /// Starts to watch for a cancellation of all calls. It is called before a call waits for its
    /// cancellation; the host then cancels the call's context.
    fn watch(self: Arc<Self>) {}
    /// Returns itself as `Any`, for a runtime that downcasts to its own type.
    fn any(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
    /// Returns a service of the runtime by its type, such as its clock, if it has one.
    fn service(&self, _kind: TypeId) -> Option<&dyn Any> {
        None
    }
}

/// What the policy says about files that a body finds by itself, after authorization.
pub trait PathRules: Send + Sync {
    /// Returns whether a rule denies this call to read or write a file, or requires approval first.
    fn is_path_denied(&self, cx: &ToolContext, doing: Operation, file: &Path) -> bool;
    /// Returns whether an authorized call may change the protected names among its effects. That is
    /// so if the policy requires approval for them unless a rule names them.
    fn asks_about_protected(&self, cx: &ToolContext) -> bool;
    /// Returns whether a rule restricts another name (hard link) of an open file.
    fn other_names(
        &self,
        cx: &ToolContext,
        doing: Operation,
        path: &Path,
        file: &HardLinkedFile,
    ) -> OtherNames;
    /// Returns the paths that deny rules match, below these directories and elsewhere.
    fn denied_paths(
        &self,
        cx: &ToolContext,
        roots: &[PathBuf],
    ) -> Result<DeniedPaths, DeniedPathsUnknown>;
    /// Returns whether a rule that names hosts denies this one or asks about it. By default yes.
    fn is_host_restricted(&self, _cx: &ToolContext, _host: &str) -> bool {
        true
    }
}

/// The rules of a host that has none.
///
/// FAIL CLOSED: without a policy no path is known to be allowed.
struct DenyAllPaths;

impl PathRules for DenyAllPaths {
    fn is_path_denied(&self, _: &ToolContext, _: Operation, _: &Path) -> bool {
        true
    }

    fn asks_about_protected(&self, _: &ToolContext) -> bool {
        false
    }

    fn other_names(
        &self,
        _: &ToolContext,
        _: Operation,
        _: &Path,
        _: &HardLinkedFile,
    ) -> OtherNames {
        OtherNames::Unknown
    }

    fn denied_paths(
        &self,
        _: &ToolContext,
        _: &[PathBuf],
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        Err(DeniedPathsUnknown::new("this host has no rules about paths"))
    }
}
