//! Classifies a shell command: read-only, writes, destructive or unparseable.
//!
//! In: a command text. Out: a kind with its reason, and the same for every simple command. Pure and
//! bounded; no lookup in the file system.
//!
//! Allow-list: only listed commands with listed options are read-only. Everything else writes. So a
//! result may be too strict but never too permissive. It reduces approval requests; the sandbox is
//! the security boundary.
//!
//! INVARIANT: a text is [`Kind::ReadOnly`] only if each part is, and nothing in the text changes
//! the meaning of a part.

mod read_only;
mod find;
mod destructive;
mod kernel;
mod fetch;
mod code;
mod flow;
mod read_paths;
mod read_tables;
mod harmless;
mod edits;
mod known;

use std::fmt;

pub use self::{
    edits::{EditedFiles, edits},
    harmless::{HarmlessReads, harmless_reads},
    known::CommandEffect,
    read_paths::{ReadGlob, reads},
};

use crate::{
    SimpleCommand, Word, WordPiece,
    grammar::is_script_variable,
    memo::{Memo, memoized},
    parser::{self, Notes},
};

/// Longer texts are not read-only.
const MAX_READ_ONLY_BYTES: usize = 8 * 1024;
/// Texts with more commands are not read-only.
const MAX_READ_ONLY_COMMANDS: usize = 32;
/// Deeper nesting is not read-only; wrappers count as levels.
const MAX_READ_ONLY_DEPTH: usize = 8;

/// What a command does, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Proven read-only.
    ReadOnly,
    /// It has an effect, runs code, uses the network, or is unknown.
    Writes,
    /// It destroys something that cannot be restored.
    Destructive,
    /// It cannot be parsed.
    Unparseable,
}

/// The classification of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classification {
    /// The strictest kind of its parts and of the text as a whole.
    pub kind: Kind,
    /// Its known effects. Not computed for nested texts.
    pub known: CommandEffect,
    /// Every simple command, in text order; empty if the text cannot be parsed.
    pub parts: Vec<Part>,
    /// The reason for this kind.
    pub why: String,
    /// The index of the part that has these effects; `None` if it is none of them, or if the text
    /// is read-only.
    pub cause: Option<usize>,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its words without quotes; `…` marks parts that are known only at run time.
    pub words: Vec<String>,
    /// What it does.
    pub kind: Kind,
    /// The reason for this kind.
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

/// Classifies a shell command.
///
/// ```
/// use haft_shell::{Kind, CommandEffect, classify};
///
/// assert_eq!(classify("sort -u names | head -3").kind, Kind::ReadOnly);
/// let sorted = classify("sort -u names -o names");
/// assert_eq!(sorted.kind, Kind::Writes);
/// assert!(sorted.why.contains("`-o`"), "{}", sorted.why);
/// assert_eq!(classify("find . | sudo xargs rm").kind, Kind::Destructive);
/// assert_eq!(classify("echo 'no end").kind, Kind::Unparseable);
///
/// // A command that is not read-only is known to write, or unknown.
/// assert_eq!(classify("git commit -m x").known, CommandEffect::Writes);
/// assert_eq!(classify("git push").known, CommandEffect::Network);
/// assert_eq!(classify("git status").known, CommandEffect::Unknown);
///
/// // The part that has the effect is named.
/// assert_eq!(classify("cd src && cargo build && git push").cause, Some(2));
/// ```
#[must_use]
pub fn classify(text: &str) -> Classification {
    thread_local! {
        static CLASSIFIED: Memo<Classification> = const { Memo::new() };
    }
    memoized(&CLASSIFIED, text, || classified(text, 0))
}

/// Classifies a nested text; `level` is the nesting depth.
fn classified(text: &str, level: usize) -> Classification {
    let read = match parser::read(text) {
        Ok(read) => read,
        Err(error) => {
            let (kind, known) = (Kind::Unparseable, CommandEffect::Writes);
            return Classification { kind, known, parts: Vec::new(), why: error.why, cause: None };
        }
    };
    let (script, notes) = &*read;
    let found = flow::of(script, notes, level);
    let parts: Vec<Part> = script
        .commands
        .iter()
        .zip(found)
        .map(|(command, found)| part(command, found, level, level + notes.deepest))
        .collect();
    let text_objection = text_objection(text, notes, parts.len(), level);
    let has_objection = text_objection.is_some();
    let worst = parts.iter().rev().max_by_key(|part| part.kind);
    let (kind, why) = match (worst, text_objection) {
        (None, None) => (Kind::ReadOnly, "it starts nothing".to_owned()),
        (Some(part), _) if part.kind > Kind::Writes => (part.kind, part.why.clone()),
        (_, Some((kind, why))) => (kind, why),
        (Some(part), None) if part.kind == Kind::ReadOnly && parts.len() > 1 => {
            (Kind::ReadOnly, format!("each of its {} commands is read-only", parts.len()))
        }
        (Some(part), None) => (part.kind, part.why.clone()),
    };
    // A nested text is one of the views of the outer command.
    let (known, cause) = if level == 0 {
        known::of(script, kind, &parts, has_objection)
    } else {
        (CommandEffect::Unknown, None)
    };
    Classification { kind, known, parts, why, cause }
}

/// Returns objections to a text as a whole.
fn text_objection(
    text: &str,
    notes: &Notes,
    commands: usize,
    level: usize,
) -> Option<(Kind, String)> {
    if notes.functions.iter().any(|name| name == ":") {
        // Fork bomb: `:(){ :|:& };:`.
        return Some((Kind::Destructive, "it redefines `:` (fork bomb)".to_owned()));
    }
    let why = if text.len() > MAX_READ_ONLY_BYTES {
        format!("it is longer than {MAX_READ_ONLY_BYTES} bytes")
    } else if commands > MAX_READ_ONLY_COMMANDS {
        format!("it has more than {MAX_READ_ONLY_COMMANDS} commands")
    } else if level + notes.deepest > MAX_READ_ONLY_DEPTH {
        format!("it is nested deeper than {MAX_READ_ONLY_DEPTH} levels")
    } else if let Some(name) = notes.functions.first() {
        format!("it defines the function `{name}`")
    } else if let Some(name) = notes.names.iter().find(|name| !is_script_variable(name)) {
        format!("it may set `{name}`, which can change what it starts")
    } else if notes.masked {
        "the name of a command is written with quotes or escapes".to_owned()
    } else {
        return None;
    };
    Some((Kind::Writes, why))
}

/// Classifies one command, together with the finding about where its code comes from. `level`
/// counts nested texts, `deepest` all levels.
fn part(
    command: &SimpleCommand,
    found: Option<flow::Finding>,
    level: usize,
    deepest: usize,
) -> Part {
    let destructive = destructive::of(command, level);
    let (kind, why) = match destructive.into_iter().chain(found).rev().max_by_key(|(kind, _)| *kind)
    {
        Some(found) => found,
        None => match read_only::prove(command, deepest) {
            Ok(why) => (Kind::ReadOnly, why),
            Err(why) => (Kind::Writes, why),
        },
    };
    Part { words: command.words.iter().map(shown).collect(), kind, why }
}

/// Formats a word: `…` marks parts that are known only at run time.
fn shown(word: &Word) -> String {
    let piece = |piece: &WordPiece| match piece {
        WordPiece::Text(text) => text.clone(),
        WordPiece::Unknown => "…".to_owned(),
    };
    word.pieces.iter().map(piece).collect()
}
