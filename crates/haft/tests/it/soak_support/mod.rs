//! Random calls through all features at once. Here a few thousand; `benches` runs a million of them
//! and measures the memory too.

mod chance;
mod ledger;
mod drive;
mod tools;

pub(crate) use self::{
    drive::{MAX_ARTIFACT_BYTES, Plan, Report, soak},
    tools::quiet_panics,
};
