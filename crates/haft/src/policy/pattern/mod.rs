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

use std::{fmt, path::PathBuf};

#[expect(unused_imports, reason = "the rules that use it come next")]
pub(crate) use self::command::{CommandPattern, Side};

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
