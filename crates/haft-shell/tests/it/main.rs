//! What the parser finds in a command, and what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod shown;
mod corpus;
mod unwrapping;
mod limits;
mod families;
mod kinds;
mod known;
#[cfg(unix)]
mod effects;
mod mixed;
