//! One call: the phases of its pipeline, one file each, and the machine that puts them in order.
//!
//! `machine` is the pipeline, `driver` runs it in the async runtime, `record` collects the facts.

mod runtime_policy;
mod services;
mod run_core;
mod turn_core;
mod cancellation;
mod output_relay;
mod invalid_calls;
mod record;
mod check;
mod pre_hooks;
mod authorize;
mod approve;
pub(crate) mod acquire;
mod execute;
mod post_hooks;
mod sanitize;
mod truncate;
mod finish;
mod journal_write;
mod step;
mod machine;
mod machine_execute;
mod driver;
mod watched;
pub(crate) mod launch;
pub(crate) mod layers;
pub(crate) mod background;
mod explain;
mod explain_invalid;
#[cfg(test)]
mod tests;

pub use self::authorize::AuthorizedCall;
pub(crate) use self::{
    driver::{DrivenCall, RunningCall},
    explain::explain,
    invalid_calls::InvalidCallCounts,
    machine::{CallMachine, Restored, Resume, not_run, restore},
    record::{CallRecord, Parent, add_notes},
    run_core::{Handle, RunCore},
    runtime_policy::RuntimePolicy,
    sanitize::most_bytes,
    services::Inner,
    step::Step,
    turn_core::{ConcurrencySlot, TurnCore},
};
pub(crate) use crate::validate::{self, ValidatedCall};
