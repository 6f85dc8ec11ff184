//! Hooks that are commands or HTTP endpoints, in the protocol of Claude Code.
//!
//! In: what files say about hooks ([`haft::HookSpec`]). Out: hooks, an approver and an observer for
//! a runtime. A hook is given JSON on its standard input or as a POST, and answers with an exit
//! code and JSON. Nothing here reads the environment; [`ProjectDir`] carries what hooks may know.
//!
//! | event | where it is called |
//! |---|---|
//! | `PreToolUse` | before a call is judged |
//! | `PostToolUse`, `PostToolUseFailure` | after a body |
//! | `PostToolBatch` | when all calls of a response have their answers |
//! | `SessionStart` | before the first turn of a run |
//! | `PermissionRequest` | when somebody would be asked |
//! | `PermissionDenied`, `Notification` | told; the answer is not read |
//!
//! | it answers with | meaning |
//! |---|---|
//! | exit code 2 | block, with the words on standard error |
//! | exit code 0, or status 2xx, and JSON | a decision, a rewrite, a word for the model |
//! | exit code 0 and plain text | nothing; for `SessionStart` a word for the model |
//! | anything else, or nothing in time | a problem: refused where the hook fails closed, let go and told where it fails open |
//!
//! Other events are accepted, never called, and noted once. Hooks run one after the other in the
//! order they are written, each seeing the input as the one before left it.
//!
//! ```
//! use haft::{Handler, HookSpec, Runtime};
//! use haft_hooks::{Hooks, ProjectDir};
//!
//! let guard = Handler::Command { command: "./guard.sh".to_owned(), args: None };
//! let hooks = Hooks::load(&[HookSpec::new("PreToolUse", guard)], ProjectDir::new("/project"))?;
//! assert!(hooks.notes().is_empty());
//! let runtime = hooks.add_to(Runtime::builder()).build().unwrap();
//! # drop(runtime);
//! # Ok::<(), haft_hooks::Error>(())
//! ```

mod error;
mod place;
mod names;
mod matcher;
mod input;
mod command;
mod http;
mod ruling;
mod line;
mod hook;
mod approver;
mod observer;
mod load;
mod trial;

pub use self::{
    approver::ExternalApprover,
    error::Error,
    hook::ExternalHook,
    load::Hooks,
    matcher::Matcher,
    observer::ExternalObserver,
    place::ProjectDir,
    trial::{TrialResult, try_out},
};

// The programs of the page about hooks run as doc tests here, where both kinds of hooks are known.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../docs/guide/hooks.md")]
    pub struct Guide;
}
