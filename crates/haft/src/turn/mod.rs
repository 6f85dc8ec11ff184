//! All calls of one model response: validate, plan, run the batches, return the results in order.
//!
//! A turn holds one snapshot from export to results. `run` takes a complete response; `schedule`
//! takes calls one by one while the model is still writing. Both use the same scheduler.
//!
//! INVARIANT: every call gets exactly one result, and results keep the model's order.

#[cfg(test)]
pub(crate) use self::scheduler::validate_call;
mod host;
mod nested;
mod turn_hooks;
mod batch_hooks;
mod call_ids;
mod row;
mod scheduler;
mod streaming;
mod waiting_calls;

pub use crate::{
    call::AuthorizedCall,
    concurrency::{BatchReason, BatchSlot, THREAD_NAME},
    parked::{ParkedCall, ParkedPhase},
    tool_result::{Origin, Truncation},
    validate::ValidatedCall,
};
use std::{fmt, sync::Arc};

use haft_core::{ConcurrencyClass, Error};
use haft_dialect::{Dialect, ToolExport};
use haft_policy::Explanation;
use haft_schema::Unexplained;
use serde_json::Value;

pub use self::{
    scheduler::CallScheduler,
    streaming::{StreamingTurn, TurnOutput},
};
use crate::{
    call::{self, TurnCore},
    concurrency::Planner,
    registry::ToolSnapshot,
    tool_result::ToolResult,
};
pub use haft_core::{Arguments, StopReason, ToolCall};

/// The calls of one model response.
pub struct Turn {
    core: Arc<TurnCore>,
    abort_siblings: bool,
}

impl Turn {
    pub(crate) fn new(core: Arc<TurnCore>) -> Self {
        Self { core, abort_siblings: false }
    }

    /// Returns the shared state, for tests that drive machines by hand.
    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<TurnCore> {
        &self.core
    }

    /// Makes every failed body of this turn cancel the rest of its batch.
    #[must_use]
    pub fn abort_siblings(mut self) -> Self {
        self.abort_siblings = true;
        self
    }

    /// Returns the tools this turn offers.
    #[must_use]
    pub fn snapshot(&self) -> &ToolSnapshot {
        &self.core.snapshot
    }

    /// Returns a handle that can stop the turn or one of its calls from elsewhere.
    #[must_use]
    pub fn handle(&self) -> TurnHandle {
        TurnHandle(Arc::clone(&self.core))
    }

    /// Runs the calls of a complete response and answers each, in order.
    ///
    /// Dropping the future cancels the turn; its calls still end and are still recorded.
    pub fn run(
        self,
        calls: impl IntoIterator<Item = ToolCall>,
    ) -> impl Future<Output = Vec<ToolResult>> {
        self.run_with_stop_reason(calls, StopReason::Done)
    }

    /// Runs the calls of a response with this stop reason. Unless it ended normally, no call runs
    /// and every call gets a failure.
    pub fn run_with_stop_reason(
        self,
        calls: impl IntoIterator<Item = ToolCall>,
        stop: StopReason,
    ) -> impl Future<Output = Vec<ToolResult>> {
        let calls = calls.into_iter();
        async move {
            let mut scheduler = self.schedule();
            scheduler.expect(stop, calls.size_hint().0);
            for call in calls {
                scheduler.push(call);
            }
            scheduler.run_to_end(stop).await
        }
    }

    /// Finishes calls that were parked, perhaps by another process, and returns their results in
    /// this order. The run must have the id of the run in which they were parked.
    ///
    /// Each call is validated and authorized again. A call that was approved before it was parked
    /// is not asked about again, unless something has changed that the approval depends on.
    pub fn resume(
        self,
        parked: impl IntoIterator<Item = ParkedCall>,
    ) -> impl Future<Output = Vec<ToolResult>> {
        let parked = parked.into_iter();
        async move {
            let mut scheduler = self.schedule();
            scheduler.expect(StopReason::Done, parked.size_hint().0);
            for call in parked {
                scheduler.push_parked(call);
            }
            scheduler.run_to_end(StopReason::Done).await
        }
    }

    /// Parses a provider's complete response, runs its calls, and returns the message to append.
    /// Calls are mapped back with the last export of this turn in that dialect.
    ///
    /// # Errors
    /// Fails if the response is not of this dialect. Mistakes of the model are answered inside the
    /// message.
    pub async fn dispatch(self, dialect: Dialect, response: &Value) -> Result<Value, Error> {
        let export = self.snapshot().last_export(dialect);
        self.dispatch_as(&export, response).await
    }

    /// Does the same for a given export, such as one with options of the host.
    ///
    /// # Errors
    /// Fails if the response is not of the export's dialect.
    pub async fn dispatch_as(
        self,
        export: &Arc<ToolExport>,
        response: &Value,
    ) -> Result<Value, Error> {
        let mut parsed = export.dialect().parse(response)?;
        let calls =
            std::mem::take(&mut parsed.calls).into_iter().map(|call| export.receive_call(call));
        let answers = self.run_with_stop_reason(calls, parsed.stop).await;
        Ok(parsed.render_results(&answers))
    }

    /// Parses a provider's complete response, runs its calls, and returns both messages to append:
    /// the model's own and the one with the results. Without calls, append only the first.
    ///
    /// # Errors
    /// Fails if the response is not of this dialect.
    pub async fn respond(self, dialect: Dialect, response: &Value) -> Result<TurnOutput, Error> {
        let export = self.snapshot().last_export(dialect);
        let mut parsed = dialect.parse(response)?;
        let calls =
            std::mem::take(&mut parsed.calls).into_iter().map(|call| export.receive_call(call));
        let results = self.run_with_stop_reason(calls, parsed.stop).await;
        Ok(TurnOutput {
            message: parsed.assistant_message(response, &results),
            answer: parsed.render_results(&results),
            results,
            stop: parsed.stop,
            problem: None,
        })
    }

    /// Parses a provider's response while it is streamed, and runs its calls as they arrive.
    #[must_use]
    pub fn stream(self, dialect: Dialect) -> StreamingTurn {
        let export = self.snapshot().last_export(dialect);
        self.stream_as(export)
    }

    /// Does the same for a given export, such as one with options of the host.
    #[must_use]
    pub fn stream_as(self, export: Arc<ToolExport>) -> StreamingTurn {
        StreamingTurn::new(export, self.schedule())
    }

    /// Takes calls one by one while the model is still writing.
    #[must_use]
    pub fn schedule(self) -> CallScheduler {
        CallScheduler::new(self.core, self.abort_siblings)
    }

    /// Explains what would happen to a call and why, step by step, without an approval request and
    /// without running it. Guards and the tool's own check run; hooks are listed but not called.
    pub async fn explain(&self, mut call: ToolCall) -> Explanation {
        let (_, validated) = scheduler::validate_call(&self.core, &mut call);
        call::explain(&self.core, validated).await
    }

    /// Returns the batch of each call, and why, without running anything.
    #[must_use]
    pub fn plan(&self, calls: impl IntoIterator<Item = ToolCall>) -> Vec<PlannedCall> {
        let mut planner = Planner::default();
        calls
            .into_iter()
            .map(|mut call| {
                let validated = scheduler::validate_call(&self.core, &mut call);
                let profile = validated.1.as_ref().ok().map(ValidatedCall::profile);
                let place = planner.place(profile);
                PlannedCall {
                    id: call.id.to_string(),
                    tool: call.name.to_string(),
                    batch: place.batch,
                    why: place.why.to_string(),
                    class: profile.map(|c| c.class),
                    keys: profile.map(|c| c.keys.iter().map(|k| k.as_str().to_owned()).collect()),
                    refused: validated.1.err().map(Unexplained::complete_now).map(|failure| {
                        self.core.run.inner.redactor.text(&failure.to_string()).into_owned()
                    }),
                }
            })
            .collect()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("scope", &self.core.scope).finish_non_exhaustive()
    }
}

/// The plan of one call.
#[derive(Debug, Clone, serde::Serialize)]
#[non_exhaustive]
pub struct PlannedCall {
    /// The call's id.
    pub id: String,
    /// The name the model wrote.
    pub tool: String,
    /// Its batch, from 0.
    pub batch: usize,
    /// Why it is there.
    pub why: String,
    /// How it may run concurrently; `None` if it is invalid.
    pub class: Option<ConcurrencyClass>,
    /// Its resource keys; `None` if it is invalid.
    pub keys: Option<Vec<String>>,
    /// Why it is invalid.
    pub refused: Option<String>,
}

/// Cancels a turn, or one of its calls, from elsewhere.
#[derive(Clone)]
pub struct TurnHandle(Arc<TurnCore>);

impl TurnHandle {
    /// Interrupts the turn: calls that yield stop at once, calls that block finish, and no further
    /// calls start.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// Cancels every call of the turn, regardless of the tool.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Parks the turn: calls that wait for an approval or for their locks, and calls that have not
    /// begun, end with a result whose [`ToolResult::parked`] is the call as data. Calls whose body
    /// runs finish as usual.
    pub fn park(&self) {
        self.0.park();
    }

    /// Cancels one call, and returns whether there was such a call.
    pub fn cancel_call(&self, id: &str) -> bool {
        self.0.stop_call(id)
    }
}

impl fmt::Debug for TurnHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TurnHandle")
    }
}
