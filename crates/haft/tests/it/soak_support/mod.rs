//! Calls by chance through everything at once. Here a few thousand; `benches` makes a million of them
//! and looks at the memory too.

mod chance;
mod ledger;
mod drive;
mod tools;

pub(crate) use self::{
    drive::{Plan, QUOTA, Report, soak},
    tools::quiet_panics,
};
