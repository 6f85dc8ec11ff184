//! One call: the phases of its pipeline, one file each, and the machine that puts them in order.
//!
//! `machine` is the pipeline, `driver` runs it in the async runtime, `record` collects the facts.

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
mod explain;
mod explain_invalid;
#[cfg(test)]
mod tests;

pub use self::authorize::AuthorizedCall;
pub(crate) use self::{
    driver::RunningCall,
    explain::explain,
    machine::{CallMachine, Restored, Resume, not_run, restore},
    record::{CallRecord, Parent, add_notes},
    sanitize::most_bytes,
    step::Step,
};
pub(crate) use crate::validate::{self, Terms, ValidatedCall};
