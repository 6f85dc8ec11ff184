//! The sandbox for processes: a given one, one that is detected on first use, or none.
//!
//! FAIL CLOSED: without a sandbox no process starts. The model learns that it is not possible; the
//! operator learns how to fix it.

use std::{path::PathBuf, sync::Arc};

use haft_core::{Failure, FailureCode, ToolContext, host::HostContext};
use haft_sandbox::{Helper, Level, Sandbox, SandboxError, SandboxErrorKind, Tier};
use serde_json::json;
use tokio::sync::OnceCell;

/// The sandbox for processes.
#[derive(Debug, Clone, Default)]
pub(crate) enum Boundary {
    /// None: no process starts.
    #[default]
    Missing,
    /// A given sandbox.
    Ready(Box<Sandbox>),
    /// The strongest available sandbox, detected once.
    Lazy(Arc<LazySandbox>),
}

#[derive(Debug)]
pub(crate) struct LazySandbox {
    helper: Helper,
    /// Where cgroups for commands may be created.
    cgroup: Option<PathBuf>,
    found: OnceCell<Result<Sandbox, Arc<str>>>,
}

/// Why there is no sandbox.
enum Missing {
    /// This machine or configuration has none.
    Known(Arc<str>),
    /// Detection failed for now. The next call tries again.
    Transient(SandboxError),
}

impl Boundary {
    pub(crate) fn lazy(helper: Helper) -> Self {
        Self::Lazy(Arc::new(LazySandbox { helper, cgroup: None, found: OnceCell::new() }))
    }

    /// Adds a directory for cgroups. A given sandbox is unchanged.
    pub(crate) fn with_cgroup(self, directory: PathBuf) -> Self {
        match self {
            Self::Lazy(lazy) => Self::Lazy(Arc::new(LazySandbox {
                helper: lazy.helper.clone(),
                cgroup: Some(directory),
                found: OnceCell::new(),
            })),
            other => other,
        }
    }

    /// Returns the sandbox level, if it was already detected.
    pub(crate) fn level(&self) -> Option<Level> {
        match self {
            Self::Missing => None,
            Self::Ready(sandbox) => Some(sandbox.tier().level),
            Self::Lazy(lazy) => {
                let found = lazy.found.get()?.as_ref().ok()?;
                Some(found.tier().level)
            }
        }
    }

    /// Returns the sandbox. If there is none, the recorded tier is `none`.
    pub(crate) async fn get(&self, cx: &ToolContext) -> Result<Sandbox, Failure> {
        let none = |why: &str| {
            cx.set_tier(json!(Tier::none(why.lines().next().unwrap_or_default())));
        };
        self.find().await.map_err(|missing| match missing {
            Missing::Known(why) => {
                none(&why);
                unavailable(&why)
            }
            Missing::Transient(error) => {
                none(&error.to_string());
                error.into_failure()
            }
        })
    }

    async fn find(&self) -> Result<Sandbox, Missing> {
        match self {
            Self::Missing => Err(Missing::Known(Arc::from(
                "no sandbox is configured, and processes are not started without one\nhint: call \
                 `haft_sandbox::init()` first in `main`, then give `BuiltinTools` a `Sandbox` or a \
                 `Helper`",
            ))),
            Self::Ready(sandbox) => Ok(Sandbox::clone(sandbox)),
            Self::Lazy(lazy) => {
                let find = || async {
                    let found = Sandbox::detect(lazy.helper.clone()).await;
                    let found = match (found, &lazy.cgroup) {
                        (Ok(sandbox), Some(directory)) => sandbox.with_cgroup(directory).await,
                        (found, _) => found,
                    };
                    match found {
                        Err(error) if error.kind() == SandboxErrorKind::Transient => {
                            Err(Missing::Transient(error))
                        }
                        found => Ok(found.map_err(|error| Arc::from(error.to_string()))),
                    }
                };
                lazy.found.get_or_try_init(find).await?.clone().map_err(Missing::Known)
            }
        }
    }
}

fn unavailable(why: &str) -> Failure {
    Failure::new(
        FailureCode::SandboxUnavailable,
        "commands need a sandbox, and none is available here",
    )
    .with_next("use tools that need no process, or report this to the user")
    .with_source(why.to_owned())
}
