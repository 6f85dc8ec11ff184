//! Looks through commands that only start other commands.
//!
//! In: a simple command. Out: its views, itself first. What a wrapper would start is found with the
//! table in `wrappers`; a text that a shell would read is read here. When that cannot be told, the
//! view is a command whose word is not known.
//!
//! INVARIANT: at most [`MOST_VIEWS`] views; a wrapper beyond that gives an unknown one.

use crate::{
    Command, Redirect, RedirectKind, Word, WordPiece,
    wrappers::{self, Inner},
};

/// No more views are made of one command.
const MOST_VIEWS: usize = 64;

/// How far wrappers are looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrappers {
    /// Those that change nothing about what is run: `timeout time nice nohup stdbuf command builtin
    /// noglob`, and `xargs` without options.
    Harmless,
    /// All that are known: `sudo`, `env`, `sh -c`, `find -exec`, `ssh`, `git -C`, …, commands within
    /// programs of `awk` and `sed`, and paths of programs.
    All,
}

/// A view of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwrapped {
    /// The command as it would be started.
    pub command: Command,
    /// Which word of the outermost command starts it, where it is simply the rest of that command.
    pub at: Option<usize>,
    /// It stands for a text that a shell would be given, and that cannot be read.
    pub is_unread: bool,
}

impl Unwrapped {
    fn new(command: Command, at: Option<usize>) -> Self {
        Self { command, at, is_unread: false }
    }
}

/// Returns the views of a command.
pub(crate) fn unwrapped(command: &Command, how: Wrappers) -> Vec<Unwrapped> {
    views(command, how, |_| true)
}

/// Returns the views of a command that are written in its own words: texts for a shell are not read.
pub(crate) fn in_words(command: &Command) -> Vec<Unwrapped> {
    views(command, Wrappers::All, |inner| matches!(inner, Inner::Rest(_) | Inner::Words(..)))
}

fn views(command: &Command, how: Wrappers, follows: fn(&Inner) -> bool) -> Vec<Unwrapped> {
    let mut views = vec![Unwrapped::new(command.clone(), Some(0))];
    let mut next = 0;
    // A queue rather than recursion: a wrapper in a wrapper only makes it longer.
    while let Some(view) = views.get(next) {
        next += 1;
        let found = inside(view, how, follows);
        if views.len() + found.len() > MOST_VIEWS {
            views.push(opaque());
            return views;
        }
        views.extend(found);
    }
    views
}

fn opaque() -> Unwrapped {
    Unwrapped::new(Command { words: vec![Word::unknown()], ..Command::default() }, None)
}

/// Returns what a command starts.
fn inside(view: &Unwrapped, how: Wrappers, follows: fn(&Inner) -> bool) -> Vec<Unwrapped> {
    let command = &view.command;
    let Some(first) = command.words.first() else { return Vec::new() };
    let Some(name) = first.literal() else {
        return if how == Wrappers::All { unnamed(command, first) } else { Vec::new() };
    };
    if how == Wrappers::All && name.contains('/') {
        // `/usr/bin/rm` is `rm`. Only for what restricts: `./ls` need not be `ls`.
        let Some(base) = name.rsplit('/').next().filter(|base| !base.is_empty()) else {
            return Vec::new();
        };
        let mut command = command.clone();
        if let Some(first) = command.words.first_mut() {
            *first = Word::text(base);
        }
        return vec![Unwrapped::new(command, None)];
    }
    let found = wrappers::inner(name, command, how).into_iter().filter(follows);
    found.flat_map(|inner| started(inner, view)).collect()
}

/// Returns the program behind a name of which a part is not known: `/bin/r?` may be `rm`, and
/// `$HOME/bin/rm` is `rm`, whatever the variable holds.
fn unnamed(command: &Command, first: &Word) -> Vec<Unwrapped> {
    // What begins like a plain name is taken for one.
    let plain = matches!(first.pieces.first(), Some(WordPiece::Text(text)) if !text.contains('/'));
    let base = match first.pieces.last() {
        Some(WordPiece::Unknown) | None if plain => return Vec::new(),
        Some(WordPiece::Text(tail)) if plain && !tail.contains('/') => return Vec::new(),
        Some(WordPiece::Text(tail)) => match tail.rsplit_once('/') {
            Some((_, base)) => Word::text(base),
            None => Word {
                pieces: vec![WordPiece::Unknown, WordPiece::Text(tail.clone())],
                may_be_option: true,
            },
        },
        _ => Word::unknown(),
    };
    if base == *first || base.pieces.is_empty() {
        return Vec::new();
    }
    let mut command = command.clone();
    if let Some(first) = command.words.first_mut() {
        *first = base;
    }
    vec![Unwrapped::new(command, None)]
}

/// Turns what a wrapper starts into views.
fn started(inner: Inner, outer: &Unwrapped) -> Vec<Unwrapped> {
    match inner {
        Inner::Rest(from) => {
            let words = outer.command.words.get(from..).unwrap_or_default().to_vec();
            if words.is_empty() {
                return Vec::new();
            }
            let at = outer.at.map(|at| at + from);
            let redirects = outer.command.redirects.clone();
            vec![Unwrapped::new(Command { words, redirects, ..Command::default() }, at)]
        }
        Inner::Words(words, at) => {
            let at = outer.at.zip(at).map(|(outer, from)| outer + from);
            vec![Unwrapped::new(Command { words, ..Command::default() }, at)]
        }
        Inner::Text(words) => {
            let mut text = String::new();
            for word in &words {
                if !text.is_empty() {
                    text.push(' ');
                }
                let Some(word) = word.literal() else { return vec![opaque()] };
                text.push_str(word);
            }
            match crate::parse(&text) {
                Ok(script) => script
                    .commands
                    .into_iter()
                    .map(|command| Unwrapped::new(command, None))
                    .collect(),
                Err(_) => vec![Unwrapped { is_unread: true, ..opaque() }],
            }
        }
        Inner::Input => {
            // A shell that reads its commands from its input. Here-documents of other descriptors
            // are not read at all, so one alone is the input, unless another one takes its place.
            let opens = |r: &&Redirect| {
                let other = r.kind == RedirectKind::Duplicate
                    && !matches!(r.target.literal(), Some("1" | "2" | "-"));
                let reads = matches!(
                    r.kind,
                    RedirectKind::Here | RedirectKind::Read | RedirectKind::ReadWrite
                );
                reads || other
            };
            let mut inputs = outer.command.redirects.iter().filter(opens);
            match (inputs.next(), inputs.next()) {
                (Some(here), None) if here.kind == RedirectKind::Here => {
                    started(Inner::Text(vec![here.target.clone()]), outer)
                }
                _ => vec![opaque()],
            }
        }
        Inner::Opaque => vec![opaque()],
    }
}

/// Returns a word in which every occurrence of a text is unknown.
pub(crate) fn replaced(word: &Word, text: &str) -> Word {
    let mut pieces = Vec::new();
    for piece in &word.pieces {
        match piece {
            WordPiece::Text(whole) if !text.is_empty() => {
                for (n, part) in whole.split(text).enumerate() {
                    if n > 0 {
                        pieces.push(WordPiece::Unknown);
                    }
                    if !part.is_empty() {
                        pieces.push(WordPiece::Text(part.to_owned()));
                    }
                }
            }
            piece => pieces.push(piece.clone()),
        }
    }
    pieces.dedup_by(|a, b| *a == WordPiece::Unknown && *b == WordPiece::Unknown);
    Word { pieces, may_be_option: true }
}
