//! Tests with real processes and real HTTP endpoints as hooks of a real runtime.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod kit;
mod commands;
mod http;
mod after;
mod approvals;
mod trial;
mod examples;
