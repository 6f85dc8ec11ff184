//! The built-in tools through the whole call pipeline.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot go on should stop where it is"
)]

#[path = "../../../haft-sandbox/tests/it/host_git.rs"]
mod host_git;
mod project;
mod files;
mod process;
mod git;
mod live_events;
mod git_exceptions;
mod without_approval;
mod confined;
mod hard_links;
mod denied_paths;
mod denied_names;
mod fetch;
mod network;
mod ask;
mod server;
mod regressions;
mod hostile_calls;
mod skills;
mod everyday;
mod examples;
