//! The built-in tools through the whole walk of a call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot go on should stop where it is"
)]

mod files;
mod process;
mod git;
mod live_events;
mod git_exceptions;
mod unasked;
mod confined;
mod hard_links;
mod denied;
mod denied_names;
mod fetch;
mod ask;
mod server;
mod regressions;
mod storm;
mod examples;
