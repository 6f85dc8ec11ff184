//! Which calls may run at the same time: batches of a turn, locks of a run and of the runtime,
//! slots, and threads for bodies that block. It knows call profiles, and neither calls nor tools.

mod conflict_set;
mod key_set;
mod lock_table;
mod plan;
mod slots;
mod threads;

pub(crate) use self::{
    lock_table::{LockGuard, LockRequest, LockTable},
    plan::Planner,
    slots::Slots,
    threads::Threads,
};
pub use self::{
    plan::{BatchReason, BatchSlot},
    threads::THREAD_NAME,
};
