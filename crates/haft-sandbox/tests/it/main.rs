//! Integration tests with real processes and real files: what the sandbox allows and refuses.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests; what is not tested is printed"
)]

mod host_git;
mod kit;
mod paths;
mod confined;
mod limits;
mod set_id;
mod supervised;
mod twin;
mod race;
mod callers;
mod kills;
mod growth;
mod places;
mod programs;
mod case_folding;
mod home;
mod user_namespace;
mod git;
mod masked_paths;
mod disk;
mod orphans;
mod pipes;
mod proxy_socket;
mod doctor;
mod obstacles;
mod cgroup;
mod bubblewrap;
mod as_ordinary_user;
