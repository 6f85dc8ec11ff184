//! Reads shell commands without running them.
//!
//! In: the text of a command. Out: every simple command in it, wherever it stands (in a list, a pipe,
//! a loop, a substitution), with its words and redirections. Pure: no I/O, nothing is expanded. What
//! only a running shell could know is said to be unknown, and what cannot be read is refused.
//!
//! INVARIANT: every program that the text could start is among the commands, or a word says that it
//! is not known.

use std::fmt;

/// A text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Every simple command, in the order of the text; those inside substitutions too.
    pub commands: Vec<Command>,
}

/// One simple command: assignments, words, redirections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// `NAME=value` before the first word.
    pub assignments: Vec<Assignment>,
    /// The command word and its arguments.
    pub words: Vec<Word>,
    /// Where its input comes from and its output goes to.
    pub redirects: Vec<Redirect>,
}

/// A word, as far as it can be known without running anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Its pieces, quotes taken away.
    pub pieces: Vec<Piece>,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Exactly this text.
    Text(String),
    /// Something only a running shell knows: a variable, a substitution, a glob, a brace list.
    Unknown,
}

/// A variable that is set for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: Word,
}

/// One redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// What it does with its target.
    pub kind: RedirectKind,
    /// The file, or the descriptor of a duplication.
    pub target: Word,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RedirectKind {
    /// `<`
    Read,
    /// `>`, `>|`, `>>`, `&>`, `&>>`
    Write,
    /// `<>`
    ReadWrite,
    /// `2>&1`, `<&3`, `>&-`: nothing is opened.
    Duplicate,
    /// `<<EOF`, `<<<word`: the text is in the script itself.
    Here,
}

/// Why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparseable {
    /// What is wrong, in words.
    pub why: String,
}

impl fmt::Display for Unparseable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Unparseable {}

impl Word {
    /// Returns the whole word, if all of it is known.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl Command {
    /// Returns the whole command in words, if all of it is known.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        let words: Option<Vec<&str>> = self.words.iter().map(Word::literal).collect();
        words.map(|words| words.join(" "))
    }

    /// Returns the first words this command may be known by, wrappers looked through; nothing for one
    /// that cannot be told.
    #[must_use]
    pub fn first_words(&self) -> Vec<Option<String>> {
        vec![self.words.first().and_then(Word::literal).map(str::to_owned)]
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.words.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            for piece in &word.pieces {
                match piece {
                    Piece::Text(text) => f.write_str(text)?,
                    Piece::Unknown => f.write_str("…")?,
                }
            }
        }
        Ok(())
    }
}

/// Reads a command.
///
/// # Errors
/// Fails when the text is no shell, too long, nested too deep, or holds characters that hide things.
pub fn parse(_text: &str) -> Result<Script, Unparseable> {
    Err(Unparseable { why: "no grammar yet".to_owned() })
}
