//! Real processes and real files: what the sandbox lets through, and what it does not.
#![cfg(target_os = "linux")]

mod kit;
mod paths;
mod confined;
mod limits;
mod orphans;
mod doctor;
mod ordinary;
