//! What rules stand on: the mode, the folders, and how paths are resolved.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde::Serialize;

use super::super::path_resolver::{FsPathResolver, PathResolver};

/// What rules stand on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PolicyContext {
    /// What holds where no rule matches.
    pub mode: Mode,
    /// Folders that count as the workspace, besides the working directory of the run.
    pub roots: Vec<PathBuf>,
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// How paths are resolved.
    pub world: Arc<dyn PathResolver>,
    /// What the arguments of tools are about, where their schema does not say: by tool, by argument.
    pub about: BTreeMap<String, BTreeMap<String, ArgumentKind>>,
    /// The file that "always" writes to; nothing when it must not be offered.
    pub keep: Option<PathBuf>,
}

impl Default for PolicyContext {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            roots: Vec::new(),
            home: None,
            world: Arc::new(FsPathResolver),
            about: BTreeMap::new(),
            keep: None,
        }
    }
}

/// What holds where no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// What only reads is allowed; everything else asks.
    #[default]
    Default,
    /// Writing files inside the workspace is allowed as well.
    AcceptEdits,
    /// What does more than read is refused.
    Plan,
    /// Nobody is asked: what would ask is refused.
    DontAsk,
    /// What no rule speaks of is allowed. Loud.
    BypassPermissions,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 5] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::DontAsk, Self::BypassPermissions];

    /// Returns its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

/// What an argument is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentKind {
    /// A file that is read.
    ReadPath,
    /// A file that is written.
    WritePath,
    /// An address on the network.
    Url,
    /// A shell command.
    Command,
}
