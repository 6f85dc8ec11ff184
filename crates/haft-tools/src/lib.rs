//! The built-in tools: files, search, shell, fetch, ask.
//!
//! An agent needs hands that are safe by construction. File tools take a workspace of directory
//! handles and never a host path; processes run behind the sandbox's helper; an address is checked
//! and then connected to. Every tool says of each call what it would do, so that what only reads
//! can run concurrently and two edits of one file never do.

mod builtin;
mod start;
mod files;
mod process;
mod fetch;
mod ask;

pub use self::ask::{AskUser, Asks, UserQuestion};
pub use self::builtin::BuiltinTools;
pub use self::fetch::{Fetch, FetchArgs, NotAHost, Resolve, SystemResolver};

#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/builtin-tools.md")]
    mod hands {}
}
