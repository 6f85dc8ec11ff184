//! `ProjectDir`: what hooks may know of the project. The host fills it in; nothing is read here.

use std::{collections::BTreeMap, path::PathBuf};

use haft::policy::{Mode, PolicyContext};

/// Environment variables that every command gets. They are not secret, and most programs need them.
const SAFE_VARIABLES: [&str; 11] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR",
    "TZ",
];

/// The project that hooks work in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProjectDir {
    /// The project directory. Commands start there, and get it as a variable.
    pub path: PathBuf,
    /// The environment of the host. Commands get only safe variables; the headers of an HTTP hook
    /// get those that the hook may use.
    pub variables: BTreeMap<String, String>,
    /// Names of further variables that commands get. A trailing `*` matches any ending.
    pub passed_variables: Vec<String>,
    /// The context for the conditions of hooks, and the mode that hooks get.
    pub context: PolicyContext,
    /// The session of runs that have none of their own.
    pub session: Option<String>,
    /// The transcript of the conversation, if there is one.
    pub transcript: Option<PathBuf>,
}

impl ProjectDir {
    /// Makes a project with only a directory.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            variables: BTreeMap::new(),
            passed_variables: Vec::new(),
            context: PolicyContext::default(),
            session: None,
            transcript: None,
        }
    }

    /// Returns the environment of a command.
    pub(crate) fn environment(&self) -> BTreeMap<&str, std::ffi::OsString> {
        let is_passed = |name: &str| {
            let matches = |passed: &String| match passed.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == passed,
            };
            SAFE_VARIABLES.contains(&name) || self.passed_variables.iter().any(matches)
        };
        let mut all: BTreeMap<&str, std::ffi::OsString> = self
            .variables
            .iter()
            .filter(|(name, _)| is_passed(name))
            .map(|(name, value)| (name.as_str(), value.into()))
            .collect();
        all.insert("CLAUDE_PROJECT_DIR", self.path.clone().into());
        all.insert("HAFT_PROJECT_DIR", self.path.clone().into());
        all
    }

    /// Returns the name of the mode in the protocol.
    pub(crate) fn mode(&self) -> &'static str {
        match self.context.mode {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Plan => "plan",
            Mode::DontAsk => "dontAsk",
            Mode::BypassPermissions => "bypassPermissions",
        }
    }
}
