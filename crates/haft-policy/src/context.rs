//! The context of rules: the mode, the directories, and how paths are resolved.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde::Serialize;

use crate::{
    network::NetworkAccess,
    path_resolver::{FsPathResolver, PathResolver},
};

/// The context that rules are evaluated in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PolicyContext {
    /// What applies if no rule matches.
    pub mode: Mode,
    /// Directories of the workspace, besides the working directory of the run.
    pub roots: Vec<PathBuf>,
    /// The home directory, for `~`.
    pub home: Option<PathBuf>,
    /// How paths are resolved.
    pub resolver: Arc<dyn PathResolver>,
    /// The kinds of arguments that the schema does not declare: by tool, by argument.
    pub argument_kinds: BTreeMap<String, BTreeMap<String, ArgumentKind>>,
    /// What commands may contact, whatever rule allows them.
    pub network: NetworkAccess,
    /// The file that "always" writes to; `None` if it must not be offered.
    pub rules_file: Option<PathBuf>,
}

impl Default for PolicyContext {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            roots: Vec::new(),
            home: None,
            resolver: Arc::new(FsPathResolver),
            argument_kinds: BTreeMap::new(),
            network: NetworkAccess::none(),
            rules_file: None,
        }
    }
}

/// What applies if no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Read-only calls are allowed; everything else asks.
    #[default]
    Default,
    /// Writing files inside the workspace is allowed as well.
    AcceptEdits,
    /// Calls that are not read-only are denied.
    Plan,
    /// Calls that need approval are denied.
    DontAsk,
    /// Calls that no rule matches are allowed. Dangerous.
    BypassPermissions,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 5] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::DontAsk, Self::BypassPermissions];

    /// Returns its name.
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

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentKind {
    /// A file that is read.
    ReadPath,
    /// A file that is written.
    WritePath,
    /// A URL.
    Url,
    /// A shell command.
    Command,
}
