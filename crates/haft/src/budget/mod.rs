//! Limits of a run, and the ledger that counts what it uses.

mod ledger;
mod tool_globs;

pub use haft_core::RemainingBudget;

pub(crate) use self::ledger::{BudgetReservation, Ledger, too_deep};
pub use haft_policy::Budget;
pub use haft_policy::BudgetKey;
