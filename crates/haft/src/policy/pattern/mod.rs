//! What a rule matches: `Tool`, `Tool(specifier)`, and selectors.
//!
//! ```text
//! Bash(git push *)            commands, judged part by part
//! Read(./src/**)  Edit(~/x)   paths that a call reads or writes
//! WebFetch(domain:*.x.org)    hosts that a call reaches
//! mcp__github__get_*          a tool of a source, by source and tool
//! mail_send arg.to=*@x.org    a tool, and selectors that must all hold
//! capability=email label=untrusted
//! ```
//!
//! Matching has three answers. What cannot be evaluated is neither yes nor no, and whoever asks
//! takes the strict side: a deny counts it as a match, an allow does not.

mod command;

use std::{
    fmt,
    path::{Path, PathBuf},
};

pub(crate) use self::command::{CommandPattern, Side};
use super::facts::{Facts, Names, Parts};

/// Whether something matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It cannot be told, and why.
    Unknown(String),
}

/// Which parts of a call a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hits {
    /// These it matches.
    pub(crate) yes: Parts,
    /// Whether it matches these cannot be told.
    pub(crate) unknown: Parts,
    /// Why not.
    pub(crate) why: Option<String>,
}

/// How a rule is found without asking all of them. A pattern can match a call only if the call has
/// what its key names, or has a part that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    /// A tool of exactly this name, or known by it.
    Tool(&'a str),
    /// Any tool of this source.
    Source(&'a str),
    /// A command that starts with this word, wrappers aside; nothing means any command.
    Command(Option<&'a str>),
    /// A path whose last component is this.
    FileName(&'a str),
    /// A path at or below this absolute folder.
    Below(&'a Path),
    /// A host that is this or ends in `.` and this.
    Host(&'a str),
    /// Nothing in particular.
    Any,
}

/// What a rule matches. Made by parsing; keeps the text it was made from.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
}

/// Where the path patterns of a file start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Anchor {
    /// What `/…` starts from: the folder of the file's project.
    pub folder: Option<PathBuf>,
    /// What `~/…` starts from.
    pub home: Option<PathBuf>,
}

/// Why a pattern cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// What is wrong.
    pub message: String,
    /// Where in the text, in bytes.
    pub at: usize,
    /// What would be right.
    pub hint: Option<String>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Fails when the text is no pattern, and says where and what would be right.
    pub fn parse(text: &str, _anchor: &Anchor) -> Result<Self, PatternError> {
        Ok(Self { text: text.to_owned() })
    }

    /// Returns which parts of a call it matches. Doubt stays doubt; `side` only says how far wrappers
    /// of commands are looked through.
    pub(crate) fn hits(&self, facts: &Facts<'_>, side: Side) -> Hits {
        let _ = side;
        Hits { unknown: facts.all(), why: Some("not understood yet".to_owned()), ..Hits::default() }
    }

    /// Returns how it is found.
    pub(crate) fn key(&self) -> Key<'_> {
        Key::Any
    }

    /// Returns whether it covers every call of this tool, whatever its arguments and the run.
    pub(crate) fn covers_tool(&self, _names: &Names<'_>) -> bool {
        false
    }

    /// Returns how close it came to matching: what is missing, in words; nothing when it is far off.
    pub(crate) fn nearly(&self, _facts: &Facts<'_>) -> Option<String> {
        None
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
