//! Says of a command whether it only reads, writes, or destroys.
//!
//! In: the text of a command. Out: one of four kinds, with a part for every simple command in it and
//! the reason in words. Pure and bounded; nothing is looked up in the world.
//!
//! Only what the tables name is known to read: a command by its name, every option by its letter.
//! What is not named writes. So a verdict can be too strict, and must never be too mild. It decides
//! how often somebody is asked; it is no boundary.
//!
//! INVARIANT: a text is [`Kind::ReadOnly`] only if each of its parts is, and nothing in the text gives
//! one of them another meaning.

mod grammar;
mod tables;
mod reads;
mod special;
mod find;
mod sed;
mod awk;
mod ruin;
mod kernel;
mod fetch;
pub(crate) mod programs;
mod code;
mod flow;
mod names;
mod known;

use std::fmt;

pub use self::{known::Known, names::reads};

use crate::{Command, Word, WordPiece, reader::Notes};

/// No longer text is called read-only, in bytes.
const MOST_BYTES: usize = 8 * 1024;
/// No more commands are.
const MOST_READING: usize = 32;
/// Nothing nested deeper is; wrappers count as levels.
const DEEPEST_READING: usize = 8;

/// What a command does, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It only reads, and that is certain.
    ReadOnly,
    /// It has an effect, runs code, reaches the network, or it cannot be told.
    Writes,
    /// It takes away what cannot be brought back.
    Destructive,
    /// It cannot be read.
    Unparseable,
}

/// What is known of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// The strictest kind of its parts, or of what stands around them.
    pub kind: Kind,
    /// What is known about its effects. It says nothing about a text within a text.
    pub known: Known,
    /// Every simple command, in the order of the text; none when it cannot be read.
    pub parts: Vec<Part>,
    /// Why it is of this kind, in words.
    pub why: String,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its words, quotes taken away; `…` stands for what only a running shell knows.
    pub words: Vec<String>,
    /// What it does.
    pub kind: Kind,
    /// Why it is of this kind, in words.
    pub why: String,
}

impl Kind {
    /// Returns its name: `read_only`, `writes`, `destructive` or `unparseable`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Writes => "writes",
            Self::Destructive => "destructive",
            Self::Unparseable => "unparseable",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Says what a command does.
///
/// ```
/// use haft_shell::{Kind, Known, classify};
///
/// assert_eq!(classify("sort -u names | head -3").kind, Kind::ReadOnly);
/// let sorted = classify("sort -u names -o names");
/// assert_eq!(sorted.kind, Kind::Writes);
/// assert!(sorted.why.contains("`-o`"), "{}", sorted.why);
/// assert_eq!(classify("find . | sudo xargs rm").kind, Kind::Destructive);
/// assert_eq!(classify("echo 'no end").kind, Kind::Unparseable);
///
/// // What is not proven to only read is known to write, or not known at all.
/// assert_eq!(classify("git commit -m x").known, Known::Writes);
/// assert_eq!(classify("git push").known, Known::Network);
/// assert_eq!(classify("git status").known, Known::Unknown);
/// ```
#[must_use]
pub fn classify(text: &str) -> Classified {
    classified(text, 0)
}

/// Says what a text within a text does; so many levels are around it.
fn classified(text: &str, level: usize) -> Classified {
    let (script, notes) = match crate::read(text) {
        Ok(read) => read,
        Err(error) => {
            let (kind, known) = (Kind::Unparseable, Known::Writes);
            return Classified { kind, known, parts: Vec::new(), why: error.why };
        }
    };
    let found = flow::of(&script, &notes, level);
    let parts: Vec<Part> = script
        .commands
        .iter()
        .zip(found)
        .map(|(command, found)| part(command, found, level, level + notes.deepest))
        .collect();
    let around = around(text, &notes, parts.len(), level);
    let worst = parts.iter().rev().max_by_key(|part| part.kind);
    let (kind, why) = match (worst, around) {
        (None, None) => (Kind::ReadOnly, "it starts nothing".to_owned()),
        (Some(part), _) if part.kind > Kind::Writes => (part.kind, part.why.clone()),
        (_, Some((kind, why))) => (kind, why),
        (Some(part), None) if part.kind == Kind::ReadOnly && parts.len() > 1 => {
            (Kind::ReadOnly, format!("each of its {} commands only reads", parts.len()))
        }
        (Some(part), None) => (part.kind, part.why.clone()),
    };
    // A text within a text is one of the views of the outer command.
    let known = if level == 0 { known::of(&script, kind) } else { Known::Unknown };
    Classified { kind, known, parts, why }
}

/// Returns what speaks against a text as a whole.
fn around(text: &str, notes: &Notes, commands: usize, level: usize) -> Option<(Kind, String)> {
    if notes.functions.iter().any(|name| name == ":") {
        // The well-known text that starts itself twice, for ever.
        return Some((Kind::Destructive, "it makes `:` start something else".to_owned()));
    }
    let why = if text.len() > MOST_BYTES {
        format!("it is longer than {MOST_BYTES} bytes")
    } else if commands > MOST_READING {
        format!("it holds more than {MOST_READING} commands")
    } else if level + notes.deepest > DEEPEST_READING {
        format!("it is nested deeper than {DEEPEST_READING} levels")
    } else if let Some(name) = notes.functions.first() {
        format!("it defines the function `{name}`")
    } else if let Some(name) = notes.names.iter().find(|name| !is_own(name)) {
        format!("it may set `{name}`, which may matter to what it starts")
    } else if notes.masked {
        "the name of a command is written with quotes or escapes".to_owned()
    } else {
        return None;
    };
    Some((Kind::Writes, why))
}

/// Says what one command does, together with what was found about where its code comes from. So many
/// texts are around it, and so many levels in all.
fn part(command: &Command, found: Option<flow::Finding>, level: usize, deepest: usize) -> Part {
    let ruin = ruin::of(command, level);
    let (kind, why) = match ruin.into_iter().chain(found).rev().max_by_key(|(kind, _)| *kind) {
        Some(found) => found,
        None => match reads::judge(command, deepest) {
            Ok(why) => (Kind::ReadOnly, why),
            Err(why) => (Kind::Writes, why),
        },
    };
    Part { words: command.words.iter().map(shown).collect(), kind, why }
}

/// Shows a word: `…` stands for what only a running shell knows.
fn shown(word: &Word) -> String {
    let piece = |piece: &WordPiece| match piece {
        WordPiece::Text(text) => text.clone(),
        WordPiece::Unknown => "…".to_owned(),
    };
    word.pieces.iter().map(piece).collect()
}

/// Returns whether a variable is surely a script's own: no shell and no program looks at it. Those
/// that do look at are written in capitals, but for a few.
fn is_own(name: &str) -> bool {
    const LOOKED_AT: [&str; 12] = [
        "path",
        "fpath",
        "cdpath",
        "manpath",
        "mailpath",
        "module_path",
        "argv",
        "status",
        "prompt",
        "histchars",
        "auto_resume",
        "signals",
    ];
    let mut chars = name.chars();
    let fits = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (fits && !LOOKED_AT.contains(&name) && !name.ends_with("_proxy"))
        || matches!(name, "RANDOM" | "SECONDS" | "LINENO")
}
