//! One call of a turn in its scheduler: its batch, and how far it is.

use haft_core::{CallId, ConcurrencyClass, Failure, ToolContext, ToolName};

use crate::{budget::BudgetReservation, call, tool_result::BoxedResult, validate::ValidatedCall};

/// One call of a turn.
pub(super) struct Row {
    pub(super) id: CallId,
    pub(super) called: ToolName,
    pub(super) batch: usize,
    pub(super) state: State,
    pub(super) reservation: Option<Box<BudgetReservation>>,
    /// How a call that was parked goes on.
    pub(super) resume: Option<Box<call::Resume>>,
}

pub(super) enum State {
    Waiting(Result<ValidatedCall, Failure>, ToolContext),
    Flying,
    Done(BoxedResult),
}

impl Row {
    /// Whether the call may start before the end of the message: a read. What was repaired waits
    /// too: a message that turns out to be cut off must not have run anything that was not written
    /// as it should be.
    pub(super) fn may_start_early(&self) -> bool {
        match &self.state {
            State::Waiting(Ok(call), _) => {
                call.profile().class == ConcurrencyClass::ReadOnly && call.repairs().is_empty()
            }
            State::Waiting(Err(_), _) => true,
            State::Flying | State::Done(_) => false,
        }
    }
}
