//! What hooks may know of the place they work in. Whoever calls fills it in.

use std::{collections::BTreeMap, path::PathBuf};

use haft::{Mode, PolicyContext};

/// Variables that a command gets where the host has them: none of them is a secret, and without
/// them few programs start.
const HARMLESS: [&str; 11] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR",
    "TZ",
];

/// The project that hooks work in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProjectDir {
    /// Its folder: commands start there, and are told it.
    pub path: PathBuf,
    /// The environment of the host. Commands get the harmless part of it; headers of an HTTP hook
    /// get what the hook may name.
    pub variables: BTreeMap<String, String>,
    /// Names of further variables that commands get.
    pub passed: Vec<String>,
    /// What the conditions of hooks are judged on, and the mode that hooks are told.
    pub ground: PolicyContext,
    /// Where the conversation is written, if it is.
    pub transcript: Option<PathBuf>,
}

impl ProjectDir {
    /// Makes a place about which nothing is known but its folder.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            variables: BTreeMap::new(),
            passed: Vec::new(),
            ground: PolicyContext::default(),
            transcript: None,
        }
    }

    /// Returns the environment of a command.
    pub(crate) fn environment(&self) -> BTreeMap<&str, std::ffi::OsString> {
        let passed = self.passed.iter().map(String::as_str);
        let mut all: BTreeMap<&str, std::ffi::OsString> = HARMLESS
            .into_iter()
            .chain(passed)
            .filter_map(|name| self.variables.get(name).map(|value| (name, value.into())))
            .collect();
        all.insert("CLAUDE_PROJECT_DIR", self.path.clone().into());
        all.insert("HAFT_PROJECT_DIR", self.path.clone().into());
        all
    }

    /// Returns the word for the mode, as hooks know it.
    pub(crate) fn mode(&self) -> &'static str {
        match self.ground.mode {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Plan => "plan",
            Mode::DontAsk => "dontAsk",
            Mode::BypassPermissions => "bypassPermissions",
        }
    }
}
