//! Which program is the helper: this one, or another at a path.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{Error, ErrorKind};

/// Set by [`init`](crate::init): this program can run as its own helper.
static IS_READY: AtomicBool = AtomicBool::new(false);

pub(crate) fn ready() {
    IS_READY.store(true, Ordering::Release);
}

/// Which program sets up the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Helper {
    /// This program, which called [`init`](crate::init) first in `main`.
    #[default]
    ThisProgram,
    /// Another program that calls [`init`](crate::init), such as `haft` or `haft-sandbox-helper`.
    At(PathBuf),
}

impl Helper {
    /// Returns the path of the program.
    pub(crate) fn path(self) -> Result<PathBuf, Error> {
        match self {
            Self::At(path) => Ok(path),
            // The kernel's magic link: a program that is replaced while it runs stays its own
            // helper.
            Self::ThisProgram if IS_READY.load(Ordering::Acquire) => {
                Ok(PathBuf::from("/proc/self/exe"))
            }
            Self::ThisProgram => Err(Error::new(
                ErrorKind::NoHelper,
                "this program cannot set up a sandbox",
            )
            .hint(
                "call `haft_sandbox::init()` first in `main`, or name a helper with `Helper::At`",
            )),
        }
    }
}
