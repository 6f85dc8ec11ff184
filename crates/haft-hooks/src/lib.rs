//! Hooks that are commands or HTTP endpoints, in the protocol of Claude Code.
//!
//! In: the hooks of configuration files ([`haft::policy::HookSpec`]). Out: hooks, an approver and
//! an observer for a runtime. A hook gets JSON on its standard input or as a POST, and answers with
//! an exit code and JSON. Nothing here reads the environment; [`ProjectDir`] contains what hooks may
//! know.
//!
//! | event | when it is called |
//! |---|---|
//! | `PreToolUse` | before a call is authorized |
//! | `PostToolUse`, `PostToolUseFailure` | after the tool's body |
//! | `PostToolBatch` | when all calls of a response have their results |
//! | `SessionStart` | before the first turn of a run |
//! | `PermissionRequest` | when a person would be asked for approval |
//! | `PermissionDenied`, `Notification` | as a notification; the answer is ignored |
//!
//! | answer | meaning |
//! |---|---|
//! | exit code 2 | block, with the text of standard error as reason |
//! | exit code 0, or status 2xx, and JSON | a decision, a rewrite, a note for the model |
//! | exit code 0 and plain text | ignored; for `SessionStart` a note for the model |
//! | anything else, a timeout | a problem: denied if the hook fails closed, reported otherwise |
//!
//! Other events are accepted but never called; each is noted once. Hooks run one after the other in
//! file order. Each gets the input as the one before rewrote it.
//!
//! ```
//! use haft::Runtime;
//! use haft::policy::{Handler, HookSpec};
//! use haft_hooks::{Hooks, ProjectDir};
//!
//! let guard = Handler::Command { command: "./guard.sh".to_owned(), args: None };
//! let hooks = Hooks::load(&[HookSpec::new("PreToolUse", guard)], ProjectDir::new("/project"))?;
//! assert!(hooks.notes().is_empty());
//! let runtime = hooks.add_to(Runtime::builder()).build().unwrap();
//! # drop(runtime);
//! # Ok::<(), haft_hooks::HookError>(())
//! ```

mod error;
mod project_dir;
mod names;
mod matcher;
mod input;
mod command;
mod http;
mod reply;
mod configured;
mod hook;
mod approver;
mod observer;
mod load;
mod trial;

pub use self::{
    approver::ExternalApprover,
    error::HookError,
    hook::ExternalHook,
    load::Hooks,
    matcher::Matcher,
    observer::ExternalObserver,
    project_dir::ProjectDir,
    trial::{HookTestResult, test_hooks},
};

// The examples of the guide page about hooks run as doc tests here.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../docs/guide/hooks.md")]
    pub struct Guide;
}
