//! The validator, judged by the official test suite and by another validator.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should stop where it is, and the corpora are files"
)]

mod suite;
mod differential;
