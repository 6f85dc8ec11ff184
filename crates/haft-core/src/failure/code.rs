//! The codes of failures, each with its default retry hint, execution state and exit code.

use std::fmt;

use serde::{Serialize, Serializer};

/// Whether and when the same call may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryHint {
    /// With other arguments or another tool.
    Fix,
    /// The same call, after a while.
    Later,
    /// Not at all.
    Never,
}

/// Whether the tool's body had started when the call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Nothing of the body ran.
    NotStarted,
    /// The body ran, and its end was observed.
    Completed,
    /// The body may still be running, or its end was not observed.
    Unknown,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $text:literal $retry:ident $ran:ident $exit:literal;)*) => {
        /// The stable code of a failure. Codes are API: programs branch on them, and each has a
        /// page in `docs/errors/`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FailureCode { $($(#[$doc])* $variant,)* }

        impl FailureCode {
            /// Every code, in the order of the pipeline.
            pub const ALL: &'static [FailureCode] = &[$(FailureCode::$variant,)*];

            /// Returns the code as text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(FailureCode::$variant => $text,)* }
            }

            /// Returns the default retry hint of this code.
            #[must_use]
            pub const fn retry(self) -> RetryHint {
                match self { $(FailureCode::$variant => RetryHint::$retry,)* }
            }

            /// Returns the default execution state of this code.
            #[must_use]
            pub const fn execution(self) -> Execution {
                match self { $(FailureCode::$variant => Execution::$ran,)* }
            }

            /// Returns the exit code of the `haft` command for this failure.
            #[must_use]
            pub const fn exit_code(self) -> u8 {
                match self { $(FailureCode::$variant => $exit,)* }
            }
        }
    };
}

codes! {
    /// The arguments are not one JSON object.
    UnparseableArguments "unparseable_arguments" Fix NotStarted 1;
    /// The arguments have the wrong shape.
    BadArguments "bad_arguments" Fix NotStarted 1;
    /// The arguments have the right shape and the wrong meaning.
    InvalidValue "invalid_value" Fix NotStarted 1;
    /// No tool has this name.
    UnknownTool "unknown_tool" Fix NotStarted 1;
    /// The tool exists and is not offered in this turn.
    NotOffered "not_offered" Fix NotStarted 2;
    /// A rule, a guard or the default denied the call.
    Denied "denied" Never NotStarted 2;
    /// A person declined the call.
    Declined "declined" Never NotStarted 2;
    /// The approval request was not answered in time.
    ApprovalExpired "approval_expired" Later NotStarted 6;
    /// A guard could not decide.
    GuardFailed "guard_failed" Never NotStarted 2;
    /// A hook stopped the call.
    BlockedByHook "blocked_by_hook" Fix NotStarted 2;
    /// A hook failed.
    HookFailed "hook_failed" Never NotStarted 2;
    /// The tool needs a person, and none is available.
    NeedsInteraction "needs_interaction" Never NotStarted 2;
    /// The run has used up its budget.
    BudgetExhausted "budget_exhausted" Never NotStarted 2;
    /// The tool is called more often than its rate allows.
    RateLimited "rate_limited" Later NotStarted 4;
    /// The circuit breaker is open: the tool failed too often.
    CircuitOpen "circuit_open" Later NotStarted 4;
    /// One attempt exceeded its timeout and was stopped.
    TimedOut "timed_out" Later Completed 7;
    /// The call exceeded its deadline.
    DeadlinePassed "deadline_passed" Later NotStarted 7;
    /// The call was cancelled and its end observed.
    Cancelled "cancelled" Later Completed 130;
    /// A sibling in the same batch failed, and that cancelled this call.
    SiblingAborted "sibling_aborted" Later NotStarted 130;
    /// The body panicked.
    Panicked "panicked" Never Completed 5;
    /// The body returned an error.
    ToolFailed "tool_failed" Fix Completed 5;
    /// The body returned something that does not match its own output schema.
    BadOutput "bad_output" Never Completed 5;
    /// The call was never started.
    NotRun "not_run" Later NotStarted 5;
    /// It is unknown how the call ended.
    UnknownOutcome "unknown_outcome" Never Unknown 8;
    /// The call ended, but its outcome could not be written to the journal.
    Unrecorded "unrecorded" Never Unknown 8;
    /// A path or resource is outside the workspace (path traversal, symlink escape).
    OutsideWorkspace "outside_workspace" Fix NotStarted 2;
    /// The body requires a sandbox that this machine cannot provide.
    SandboxUnavailable "sandbox_unavailable" Never NotStarted 2;
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FailureCode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}
