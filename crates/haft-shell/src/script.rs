//! A parsed text: its simple commands with their words, assignments and redirections.

use std::fmt;

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
    pub commands: Vec<SimpleCommand>,
    /// Whether a command may run more than once or later: there is a loop or a function.
    pub repeats: bool,
}

/// One simple command: assignments, words, redirections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimpleCommand {
    /// `NAME=value` before the first word.
    pub assignments: Vec<Assignment>,
    /// The command word and its arguments.
    pub words: Vec<Word>,
    /// Redirections of input and output.
    pub redirects: Vec<Redirect>,
}

/// A word, as far as it is known without running anything. Words are equal if their pieces are.
#[derive(Debug, Clone, Default)]
pub struct Word {
    /// Its pieces, without quotes.
    pub pieces: Vec<WordPiece>,
    /// Whether it may be an option, or expand to several words one of which is. A known word then
    /// starts with `-`; `data/*.csv` and `<(ls)` are unknown, but cannot be options.
    pub may_be_option: bool,
    /// What it expands to, if that depends on the names of files alone: it has globs or `~`, or the
    /// variable of a loop over such words. `None` if it is known, or depends on something else.
    pub expands_to: Option<Box<[Expanded]>>,
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        (&self.pieces, self.may_be_option) == (&other.pieces, other.may_be_option)
    }
}

impl Eq for Word {}

/// What a word with globs expands to, or one of the things that it may expand to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expanded {
    /// A glob over paths, in which `\` escapes a character. Without `*`, `?` and `[` it is a name.
    pub glob: String,
    /// It starts at the home directory: `~/x`.
    pub is_in_home: bool,
    /// The shell splits each name at blanks, and expands globs in it.
    pub is_split: bool,
}

impl Expanded {
    /// Returns the name, if it has no globs.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        let mut name = String::with_capacity(self.glob.len());
        let mut chars = self.glob.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => name.extend(chars.next()),
                '*' | '?' | '[' => return None,
                c => name.push(c),
            }
        }
        Some(name)
    }

    /// Returns a name as a glob that matches it alone.
    pub(crate) fn of_text(text: &str) -> Self {
        let mut glob = String::with_capacity(text.len());
        for c in text.chars() {
            if matches!(c, '*' | '?' | '[' | '\\') {
                glob.push('\\');
            }
            glob.push(c);
        }
        Self { glob, ..Self::default() }
    }
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
pub struct ShellParseError {
    /// The reason.
    pub why: String,
}

impl fmt::Display for ShellParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for ShellParseError {}

impl Word {
    /// Creates a word of exactly this text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let may_be_option = text.starts_with('-');
        Self {
            pieces: if text.is_empty() { Vec::new() } else { vec![WordPiece::Text(text)] },
            may_be_option,
            expands_to: None,
        }
    }

    /// Creates an unknown word.
    #[must_use]
    pub fn unknown() -> Self {
        Self { pieces: vec![WordPiece::Unknown], may_be_option: true, expands_to: None }
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

impl SimpleCommand {
    /// Returns the words joined by spaces, if all are known.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        let words: Option<Vec<&str>> = self.words.iter().map(Word::literal).collect();
        words.map(|words| words.join(" "))
    }

    /// Treats words with globs as unknown.
    pub(crate) fn forget_expansions(&mut self) {
        let targets = self.redirects.iter_mut().map(|redirect| &mut redirect.target);
        self.words.iter_mut().chain(targets).for_each(|word| word.expands_to = None);
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
}

/// Formats the command for people: `…` marks parts that are known only at run time.
impl fmt::Display for SimpleCommand {
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
