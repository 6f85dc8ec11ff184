//! Hooks that are real processes and real endpoints, around a real runtime.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod kit;
mod commands;
mod http;
mod after;
mod asked;
mod trial;
mod examples;
