//! The specifier of `Bash(…)`: a pattern over one simple command.
//!
//! `*` stands for any characters, spaces too. A trailing ` *` needs a word boundary; `x:*` says the
//! same. Words that only a running shell knows make the answer unknown where it depends on them.

use haft_shell::Command;

use super::Match;

/// On whose side doubt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// An allow: only harmless wrappers are looked through.
    Allow,
    /// A deny or an ask: every wrapper is looked through.
    Restrict,
}

/// A pattern over one simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    text: String,
}

impl CommandPattern {
    /// Reads the text between the brackets.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned() })
    }

    /// Returns the first word of every command that can match, if there is one such word. Rules are
    /// indexed by it.
    pub(crate) fn first_word(&self) -> Option<&str> {
        None
    }

    /// Returns whether a command matches.
    pub(crate) fn matches(&self, _command: &Command, _side: Side) -> Match {
        Match::Unknown(format!("`{}` is not understood yet", self.text))
    }
}
