//! Limits of a run, and the ledger that counts what it uses.

mod ledger;

pub use haft_core::RemainingBudget;

pub(crate) use self::ledger::{BudgetReservation, Ledger, too_deep};
pub use crate::policy::{Budget, BudgetKey};
