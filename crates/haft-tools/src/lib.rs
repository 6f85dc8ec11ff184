//! The built-in tools: files, search, shell, fetch, ask; and skills.
//!
//! File tools work below directory file descriptors of a workspace, never on a host path (path
//! traversal). Processes run in the sandbox. A URL's addresses are checked before the connection
//! (SSRF). Every tool declares the effects of each call, so read-only calls run in parallel and two
//! edits of one file never do.

mod working_directory;
mod files;
mod network;
mod process;
mod fetch;
mod ask;
mod skills;
mod builtin;

pub use self::ask::{AskHandler, AskUser, UserQuestion};
pub use self::builtin::BuiltinTools;
pub use self::fetch::{Fetch, FetchArgs};
pub use self::network::{InvalidHostError, NetworkLimits, Resolve, SystemResolver};
pub use self::skills::{Skill, SkillFinding, SkillGrants, Skills};

#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/builtin-tools.md")]
    mod builtin {}
    #[doc = include_str!("../../../docs/guide/network.md")]
    mod network {}
    #[doc = include_str!("../../../docs/guide/skills.md")]
    mod skills {}
}
