//! Parses and classifies shell commands without running them.
//!
//! In: a command text. Out: every simple command in it (in lists, pipes, loops, substitutions),
//! with its words and redirections. Pure: no I/O, no expansion. Parts that are known only at run
//! time are marked unknown, and text that cannot be parsed is refused.
//!
//! ```
//! let script = haft_shell::parse("cd src && timeout 5 rm -r $OLD > log")?;
//! let shown: Vec<String> = script.commands.iter().map(|command| command.to_string()).collect();
//! assert_eq!(shown.len(), 2);
//! assert!(script.commands[1].words.last().is_some_and(|word| word.has_unknown()));
//! assert_eq!(script.commands[1].redirects[0].target.literal(), Some("log"));
//!
//! // Text that a shell could read in another way is refused, with a reason.
//! assert!(haft_shell::parse("echo $((ls); rm x)").is_err());
//! # Ok::<(), haft_shell::Unparseable>(())
//! ```
//!
//! Limits are checked first: 10 000 characters, 50 commands, 16 levels. `docs/design/shell.md`
//! explains why the grammar is our own, and what it does not promise.
//!
//! INVARIANT: every program that the text could start is among the commands, or a word is marked
//! unknown.

mod invisible;
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

/// Maximum length of a text in characters.
pub const MAX_CHARACTERS: usize = 10_000;
/// Maximum number of commands in a text.
pub const MAX_COMMANDS: usize = 50;
/// Maximum nesting depth.
pub const MAX_DEPTH: usize = 16;

/// Variables that may be set for an allowed command: they change its output format, not its
/// effects.
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

/// A parsed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Every simple command in text order, including those inside substitutions.
    pub commands: Vec<Command>,
    /// Whether a command may run more than once or later: there is a loop or a function.
    pub repeats: bool,
}

/// One simple command: assignments, words, redirections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// `NAME=value` before the first word.
    pub assignments: Vec<Assignment>,
    /// The command word and its arguments.
    pub words: Vec<Word>,
    /// Redirections of input and output.
    pub redirects: Vec<Redirect>,
}

/// A word, as far as it is known without running anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Its pieces, without quotes.
    pub pieces: Vec<WordPiece>,
    /// Whether it may be an option, or expand to several words one of which is. A known word then
    /// starts with `-`; `data/*.csv` and `<(ls)` are unknown, but cannot be options.
    pub may_be_option: bool,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPiece {
    /// Exactly this text.
    Text(String),
    /// Known only at run time: a variable, a substitution, a glob, a brace list.
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
    /// The file, the file descriptor of a duplication, or the text of a here-document.
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

/// Why a text cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparseable {
    /// The reason.
    pub why: String,
}

impl fmt::Display for Unparseable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Unparseable {}

impl Word {
    /// Creates a word of exactly this text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let may_be_option = text.starts_with('-');
        Self {
            pieces: if text.is_empty() { Vec::new() } else { vec![WordPiece::Text(text)] },
            may_be_option,
        }
    }

    /// Creates an unknown word.
    #[must_use]
    pub fn unknown() -> Self {
        Self { pieces: vec![WordPiece::Unknown], may_be_option: true }
    }

    /// Returns whether some part is unknown.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.pieces.contains(&WordPiece::Unknown)
    }

    /// Returns the whole word, if it is fully known.
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
    /// Returns the words joined by spaces, if all are known.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        let words: Option<Vec<&str>> = self.words.iter().map(Word::literal).collect();
        words.map(|words| words.join(" "))
    }

    /// Returns whether it starts and sets nothing: it only carries the redirections of a group, a
    /// loop or a bare `> file`.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.words.is_empty() && self.assignments.is_empty()
    }

    /// Returns the first assignment that may change what the command does. An allow rule must not
    /// ignore it.
    #[must_use]
    pub fn unsafe_assignment(&self) -> Option<&Assignment> {
        self.assignments.iter().find(|a| !a.is_safe())
    }

    /// Returns whether it may have more than one view. Cheap.
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
    /// Returns where an interpreter takes its program from; empty for every other command. Does not
    /// look through wrappers: see [`Command::unwrapped`].
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

/// Formats the command for people: `…` marks parts that are known only at run time.
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
    /// Returns whether the variable only changes the output format: `LANG`, `NO_COLOR`, ….
    #[must_use]
    pub fn is_safe(&self) -> bool {
        SAFE_VARIABLES.contains(&&*self.name) || self.name.starts_with("LC_")
    }
}

impl Redirect {
    /// Returns whether it opens and stores nothing: a duplication, a text of the script itself,
    /// `/dev/null`, or a stream that is already open.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        if matches!(self.kind, RedirectKind::Duplicate | RedirectKind::Here) {
            return true;
        }
        let Some(target) = self.target.literal() else { return false };
        if self.kind != RedirectKind::Read {
            // `<f >/dev/stdin` truncates `f`: such a name reopens the file.
            return matches!(target, "/dev/null" | "/dev/stdout" | "/dev/stderr");
        }
        let fd = target.strip_prefix("/dev/fd/");
        matches!(target, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin")
            || fd.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Returns the host, if the target is a network file of the shell (`/dev/tcp/host/port`); a
    /// word, because it may be unknown.
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

/// Parses a command.
///
/// ```
/// let script = haft_shell::parse("ls -l && echo \"$(rm x)\"").unwrap();
/// let first: Vec<_> = script.commands.iter().map(|c| c.words[0].literal()).collect();
/// assert_eq!(first, [Some("ls"), Some("echo"), Some("rm")]);
/// ```
///
/// # Errors
/// Fails if the text is not valid shell, too long, nested too deep, or has invisible characters.
pub fn parse(text: &str) -> Result<Script, Unparseable> {
    read(text).map(|(script, _)| script)
}

/// Parses a command, and returns notes that the command list does not show.
fn read(text: &str) -> Result<(Script, reader::Notes), Unparseable> {
    invisible::check(text)?;
    let mut found = reader::Found::default();
    reader::Reader::new(text, &mut found).script()?;
    finish::finish(found)
}

/// Refuses a text.
fn refuse<T>(why: impl Into<String>) -> Result<T, Unparseable> {
    Err(Unparseable { why: why.into() })
}

/// The guide's program about commands, compiled and run with the other doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/shell.md")]
struct Guide;
