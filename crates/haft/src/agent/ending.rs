//! The end of a run, and its state after each turn.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::{
    conversation::Conversation,
    event::AgentEvent,
    result::{EndReason, RunResult, RunStatus},
    run_loop::Loop,
    saved::SavedRun,
};
use crate::host_code::panic_message;

impl Loop<'_> {
    fn save(&self, conversation: &Conversation, state: Option<RunStatus>) -> SavedRun {
        conversation.save(&self.agent.name, &self.info, state, self.usage(conversation))
    }

    /// Stores the state of the run after a turn.
    pub(super) async fn checkpoint(&self, conversation: &Conversation) {
        if self.runner.saved_runs().is_some() {
            self.store(&self.save(conversation, None)).await;
        }
    }

    /// Stores a state. One that cannot be stored is a warning: the run itself is not in doubt.
    async fn store(&self, saved: &SavedRun) {
        let Some(store) = self.runner.saved_runs() else { return };
        let stored = AssertUnwindSafe(async { store.save(saved).await }).catch_unwind().await;
        let problem = match stored {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic_message(panic),
        };
        let problem = self.runner.redact(&problem);
        let message = format!("the state of the run could not be stored: {problem}");
        self.events.emit(|| AgentEvent::Warning { message });
    }

    pub(super) async fn end(
        &self,
        conversation: &mut Conversation,
        state: RunStatus,
        reason: EndReason,
    ) -> RunResult {
        conversation.end_work(self.runner.now());
        let waits = state == RunStatus::Waiting;
        let mut saved = None;
        if waits || self.runner.saved_runs().is_some() {
            let state = Box::new(self.save(conversation, Some(state)));
            self.store(&state).await;
            saved = waits.then_some(state);
        }
        let pending = conversation.open.as_ref().map(|open| open.pending.clone());
        RunResult {
            run: conversation.id().clone(),
            text: conversation.text.clone(),
            state,
            reason,
            executions: std::mem::take(&mut conversation.executions),
            usage: self.usage(conversation),
            pending: pending.unwrap_or_default(),
            history: conversation.history.clone(),
            saved,
        }
    }
}
