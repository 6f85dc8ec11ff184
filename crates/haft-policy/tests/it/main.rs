//! Integration tests: configuration files and rules that are reloaded, without a runtime.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod files;
mod reloadable_rules;
