//! What confines processes: a sandbox that is there, one that is found when it is first needed, or
//! none.
//!
//! FAIL CLOSED: without one nothing is started. The model hears that it cannot be done here; the
//! operator hears what to do about it.

use std::{path::PathBuf, sync::Arc};

use haft_core::{Failure, FailureCode, ToolContext};
use haft_sandbox::{Error, ErrorKind, Helper, Level, Sandbox, Tier};
use serde_json::json;
use tokio::sync::OnceCell;

/// What confines processes.
#[derive(Debug, Clone, Default)]
pub(crate) enum Boundary {
    /// Nothing does, so there are none.
    #[default]
    Missing,
    /// This sandbox.
    Ready(Box<Sandbox>),
    /// The strongest one there is, found out once.
    Later(Arc<Later>),
}

#[derive(Debug)]
pub(crate) struct Later {
    helper: Helper,
    /// Where control groups for commands may be made.
    cgroup: Option<PathBuf>,
    found: OnceCell<Result<Sandbox, Arc<str>>>,
}

/// Why there is no sandbox.
enum Missing {
    /// This machine or this setup has none.
    Known(Arc<str>),
    /// It could not be found out now. It is asked again for the next call.
    Transient(Error),
}

impl Boundary {
    pub(crate) fn later(helper: Helper) -> Self {
        Self::Later(Arc::new(Later { helper, cgroup: None, found: OnceCell::new() }))
    }

    /// The same with a directory for control groups. A sandbox that is there keeps what it has.
    pub(crate) fn with_cgroup(self, directory: PathBuf) -> Self {
        match self {
            Self::Later(later) => Self::Later(Arc::new(Later {
                helper: later.helper.clone(),
                cgroup: Some(directory),
                found: OnceCell::new(),
            })),
            other => other,
        }
    }

    /// Returns how a command would be confined, if that was found out already.
    pub(crate) fn level(&self) -> Option<Level> {
        match self {
            Self::Missing => None,
            Self::Ready(sandbox) => Some(sandbox.tier().level),
            Self::Later(later) => {
                let found = later.found.get()?.as_ref().ok()?;
                Some(found.tier().level)
            }
        }
    }

    /// Returns the sandbox. Where there is none, that is what confines the call: nothing.
    pub(crate) async fn get(&self, cx: &ToolContext) -> Result<Sandbox, Failure> {
        let none = |why: &str| {
            cx.set_tier(json!(Tier::none(why.lines().next().unwrap_or_default())));
        };
        self.find().await.map_err(|missing| match missing {
            Missing::Known(why) => {
                none(&why);
                refused(&why)
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
                "these tools were given no sandbox, and start no process without one\nhint: call \
                 `haft_sandbox::init()` first in `main`, then give `BuiltinTools` a `Sandbox` or a `Helper`",
            ))),
            Self::Ready(sandbox) => Ok(Sandbox::clone(sandbox)),
            Self::Later(later) => {
                let find = || async {
                    let found = Sandbox::detect(later.helper.clone()).await;
                    let found = match (found, &later.cgroup) {
                        (Ok(sandbox), Some(directory)) => sandbox.with_cgroup(directory).await,
                        (found, _) => found,
                    };
                    match found {
                        Err(error) if error.kind() == ErrorKind::Transient => {
                            Err(Missing::Transient(error))
                        }
                        found => Ok(found.map_err(|error| Arc::from(error.to_string()))),
                    }
                };
                later.found.get_or_try_init(find).await?.clone().map_err(Missing::Known)
            }
        }
    }
}

fn refused(why: &str) -> Failure {
    Failure::new(
        FailureCode::SandboxUnavailable,
        "commands are run in a sandbox or not at all, and there is none here",
    )
    .with_next("use tools that need no process, or tell the user")
    .with_source(why.to_owned())
}
