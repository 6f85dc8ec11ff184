//! Reads shell commands without running them.
//!
//! In: the text of a command. Out: every simple command in it, wherever it stands (in a list, a pipe,
//! a loop, a substitution), with its words and redirections. Pure: no I/O, nothing is expanded. What
//! only a running shell could know is said to be unknown, and what cannot be read is refused.
//!
//! ```
//! let script = haft_shell::parse("cd src && timeout 5 rm -r $OLD > log")?;
//! let shown: Vec<String> = script.commands.iter().map(|command| command.to_string()).collect();
//! assert_eq!(shown.len(), 2);
//! assert!(script.commands[1].words.last().is_some_and(|word| word.has_unknown()));
//! assert_eq!(script.commands[1].redirects[0].target.literal(), Some("log"));
//!
//! // What could be something else in a running shell is refused, and why is said.
//! assert!(haft_shell::parse("echo $((ls); rm x)").is_err());
//! # Ok::<(), haft_shell::Unparseable>(())
//! ```
//!
//! Bounds come first: 10 000 characters, 50 commands, 16 levels. `docs/design/shell.md` says why the
//! grammar is our own, and what it does not promise.
//!
//! INVARIANT: every program that the text could start is among the commands, or a word says that it
//! is not known.

mod hidden;
mod reader;
mod compound;
mod simple;
mod word;
mod expand;
mod test;
mod finish;
mod unwrap;
mod wrappers;
mod runners;
mod subcommands;
mod interpreters;
mod code_source;
mod classify;
mod quote;

use std::fmt;

pub use self::{
    classify::{Classified, Kind, Known, Part, classify, reads},
    code_source::{CodeSource, CodeSources, may_run_code},
    interpreters::Program,
    quote::quoted,
    subcommands::has_subcommands,
    unwrap::{Unwrapped, Wrappers},
};

/// No longer text is read, in characters.
pub const MOST_CHARACTERS: usize = 10_000;
/// No more commands are read.
pub const MOST_COMMANDS: usize = 50;
/// Nothing nested deeper is read.
pub const DEEPEST: usize = 16;

/// Variables that may be set for an allowed command: they change how it looks, not what it does.
const SAFE_VARIABLES: [&str; 9] = [
    "LANG",
    "TZ",
    "NO_COLOR",
    "TERM",
    "FORCE_COLOR",
    "CI",
    "NODE_ENV",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

/// A text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Every simple command, in the order of the text; those inside substitutions too.
    pub commands: Vec<Command>,
    /// A command may run more than once, or later than its place says: there is a loop or a function.
    pub repeats: bool,
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
    pub pieces: Vec<WordPiece>,
    /// Whether it may turn out to be an option, or several words one of which is. A word that is known
    /// begins with `-` then; `data/*.csv` and `<(ls)` are not known, and are no options.
    pub may_be_option: bool,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPiece {
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
    /// The file, the descriptor of a duplication, or the text of a here-document.
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
    /// Makes a word of exactly this text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let may_be_option = text.starts_with('-');
        Self {
            pieces: if text.is_empty() { Vec::new() } else { vec![WordPiece::Text(text)] },
            may_be_option,
        }
    }

    /// Makes a word of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self { pieces: vec![WordPiece::Unknown], may_be_option: true }
    }

    /// Returns whether some of it is not known.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.pieces.contains(&WordPiece::Unknown)
    }

    /// Returns the whole word, if all of it is known.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [WordPiece::Text(text)] => Some(text),
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

    /// Returns whether it starts nothing and sets nothing: it only carries the redirections of a
    /// group, a loop or a bare `> file`.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.words.is_empty() && self.assignments.is_empty()
    }

    /// Returns the first assignment that may change what the command does. An allow must not look
    /// past it.
    #[must_use]
    pub fn unsafe_assignment(&self) -> Option<&Assignment> {
        self.assignments.iter().find(|a| !a.is_safe())
    }

    /// Returns whether it may have more than one view, at next to no cost.
    #[must_use]
    pub fn may_wrap(&self, how: Wrappers) -> bool {
        wrappers::may_wrap(self, how)
    }

    /// Returns its views without wrappers: itself first, then what each wrapper would start. See
    /// [`Wrappers`].
    #[must_use]
    pub fn unwrapped(&self, how: Wrappers) -> Vec<Unwrapped> {
        unwrap::unwrapped(self, how)
    }
}

impl Command {
    /// Returns where an interpreter takes its program from; nothing for every other command. Wrappers
    /// are not looked through: see [`Command::unwrapped`].
    ///
    /// ```
    /// use haft_shell::{Program, parse};
    ///
    /// let script = parse("python3 -u tool.py --all").unwrap();
    /// let programs = script.commands[0].programs();
    /// assert!(matches!(&programs[..], [Program::File { file, .. }] if file.literal() == Some("tool.py")));
    /// ```
    #[must_use]
    pub fn programs(&self) -> Vec<Program> {
        interpreters::of(self).map(|runs| runs.programs).unwrap_or_default()
    }
}

/// Shows what is known, for people: `…` stands for what only a running shell knows.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.words.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            for piece in &word.pieces {
                match piece {
                    WordPiece::Text(text) => f.write_str(text)?,
                    WordPiece::Unknown => f.write_str("…")?,
                }
            }
        }
        Ok(())
    }
}

impl Assignment {
    /// Returns whether the variable only changes how a program looks: `LANG`, `NO_COLOR`, ….
    #[must_use]
    pub fn is_safe(&self) -> bool {
        SAFE_VARIABLES.contains(&&*self.name) || self.name.starts_with("LC_")
    }
}

impl Redirect {
    /// Returns whether nothing is opened or kept: a duplication, a text of the script itself, the
    /// null device, or one of the streams that are open already.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        if matches!(self.kind, RedirectKind::Duplicate | RedirectKind::Here) {
            return true;
        }
        let Some(target) = self.target.literal() else { return false };
        if self.kind != RedirectKind::Read {
            // `<f >/dev/stdin` empties `f`: such a name opens again what is open there.
            return matches!(target, "/dev/null" | "/dev/stdout" | "/dev/stderr");
        }
        let fd = target.strip_prefix("/dev/fd/");
        matches!(target, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin")
            || fd.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Returns the host that is reached, if the target is one of the shell's own network files
    /// (`/dev/tcp/host/port`); a word, because it may not be known.
    #[must_use]
    pub fn reaches(&self) -> Option<Word> {
        let opens = !matches!(self.kind, RedirectKind::Duplicate | RedirectKind::Here);
        let Some(WordPiece::Text(first)) = self.target.pieces.first().filter(|_| opens) else {
            return None;
        };
        let rest = first.strip_prefix("/dev/tcp/").or_else(|| first.strip_prefix("/dev/udp/"))?;
        match rest.split_once('/') {
            Some((host, _)) => Some(Word::text(host)),
            None if self.target.pieces.len() == 1 => Some(Word::text(rest)),
            None => Some(Word::unknown()),
        }
    }
}

/// Reads a command.
///
/// ```
/// let script = haft_shell::parse("ls -l && echo \"$(rm x)\"").unwrap();
/// let first: Vec<_> = script.commands.iter().map(|c| c.words[0].literal()).collect();
/// assert_eq!(first, [Some("ls"), Some("echo"), Some("rm")]);
/// ```
///
/// # Errors
/// Fails when the text is no shell, too long, nested too deep, or holds characters that hide things.
pub fn parse(text: &str) -> Result<Script, Unparseable> {
    read(text).map(|(script, _)| script)
}

/// Reads a command, and what its list does not show.
fn read(text: &str) -> Result<(Script, reader::Notes), Unparseable> {
    hidden::check(text)?;
    let mut found = reader::Found::default();
    reader::Reader::new(text, &mut found).script()?;
    finish::finish(found)
}

/// Refuses a text.
fn no<T>(why: impl Into<String>) -> Result<T, Unparseable> {
    Err(Unparseable { why: why.into() })
}

/// The guide's program about commands, compiled and run with the other doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/shell.md")]
struct Guide;
