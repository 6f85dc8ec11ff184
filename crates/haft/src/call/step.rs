//! What a call machine waits for, and what its driver reports.

use std::{sync::Arc, time::Instant};

use haft_core::{BoxError, Failure, Label, Output, StopReason, Verdict};

use super::{
    acquire::CallLocks,
    approve::OpenApproval,
    authorize::{AuthorizedCall, GuardId},
    execute::Execution,
    validate::ValidatedCall,
};
use crate::{
    approval::{Answered, QueuePermit},
    hooks::{CompletedCall, PostCallResult, PreCallDecision},
    host_code::Stopped,
    outcome::Outcome,
    tool_result::{BoxedResult, Truncation},
};

/// What the driver does next.
pub(crate) enum Step {
    Done(BoxedResult),
    Wait(Need),
}

/// What a call waits for. A need has the data that its future needs; what a parked call needs is
/// shared with its phase. Needs and inputs are moved
/// several times, so what few calls have is boxed.
pub(crate) enum Need {
    /// The explanation of invalid arguments.
    Explain(Failure),
    /// The tool's own check.
    Check(ValidatedCall),
    /// A hook before authorization.
    PreHook(ValidatedCall, usize),
    /// A guard.
    Guard(ValidatedCall, GuardId),
    /// The end of the model's message.
    MessageEnd,
    /// A permit of the approval queue.
    ApprovalPermit,
    /// The answer of an approver.
    Approval(Arc<OpenApproval>),
    /// Concurrency slot, locks, resource keys, tool slot.
    Acquire(Arc<AuthorizedCall>, Instant),
    /// The intent in the journal: `CallMachine::intent`.
    WriteIntent,
    /// The outcome of the body and the layers: `CallMachine::execution_mut`.
    Execute,
    /// A hook after the body.
    PostHook(Arc<CompletedCall>, usize, Box<Outcome>),
    /// A large outcome, sanitized on another thread.
    Sanitize(Box<Outcome>),
    /// A result that is too large, stored as an artifact.
    Truncate(Box<Output>, Label),
    /// The outcome in the journal: `CallMachine::outcome`.
    WriteOutcome,
}

/// What the driver reports.
pub(crate) enum Input {
    Start,
    Explained(Failure),
    Checked(ValidatedCall, Result<(), Failure>),
    PreHook(ValidatedCall, Box<Result<PreCallDecision, Failure>>),
    Guard(ValidatedCall, Box<Result<Option<Verdict>, Failure>>),
    MessageEnd(StopReason),
    ApprovalPermit(Option<QueuePermit>),
    Answer(Box<Result<Answered, Failure>>),
    Acquired(Box<Result<CallLocks, Failure>>),
    IntentWritten {
        result: Result<(), BoxError>,
        took_time: bool,
    },
    /// The execution has its outcome. One that was taken comes back.
    Executed(Option<Box<Execution>>),
    PostHook(Box<PostCallResult>),
    Sanitized(Box<Outcome>, usize),
    Truncated(Box<Output>, Box<Truncation>),
    OutcomeWritten(Result<(), BoxError>),
    /// The need was not satisfied: a panic, a timeout, a cancellation, or the turn is parked.
    Stopped(Stopped),
}
