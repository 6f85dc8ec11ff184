//! Integration tests: tools, responses, streams and histories in every dialect.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod suite;
mod schemas;
mod script;
mod wire_streams;
mod history;
