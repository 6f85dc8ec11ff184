//! Looks through wrappers: commands that only start other commands.
//!
//! In: a simple command. Out: its views, itself first. The table in `wrappers` says what a wrapper
//! starts; a text for a shell is parsed here. If that is unknown, the view is a command with an
//! unknown word.
//!
//! INVARIANT: at most [`MAX_VIEWS`] views; a wrapper beyond that gives an unknown one.

use crate::{
    Redirect, RedirectKind, SimpleCommand, Word, WordPiece,
    wrappers::{self, Inner},
};

/// Maximum number of views of one command.
const MAX_VIEWS: usize = 64;

/// Which wrappers are looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrappers {
    /// Wrappers that do not change what runs: `timeout time nice nohup stdbuf command builtin
    /// noglob`, and `xargs` without options.
    Harmless,
    /// All known ones: `sudo`, `env`, `sh -c`, `find -exec`, `ssh`, `git -C`, …, commands inside
    /// programs of `awk` and `sed`, and program paths.
    All,
}

/// A view of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnwrappedCommand {
    /// The command as it would be started.
    pub command: SimpleCommand,
    /// Index of its first word in the outermost command, if it is simply the rest of that command.
    pub at: Option<usize>,
    /// Whether it represents a shell text that cannot be parsed.
    pub is_unread: bool,
}

impl UnwrappedCommand {
    fn new(command: SimpleCommand, at: Option<usize>) -> Self {
        Self { command, at, is_unread: false }
    }
}

impl SimpleCommand {
    /// Returns whether it may have more than one view. Cheap.
    #[must_use]
    pub fn may_wrap(&self, how: Wrappers) -> bool {
        wrappers::may_wrap(self, how)
    }

    /// Returns its views without wrappers: itself first, then what each wrapper would start. See
    /// [`Wrappers`].
    #[must_use]
    pub fn unwrapped(&self, how: Wrappers) -> Vec<UnwrappedCommand> {
        unwrapped(self, how)
    }
}

/// Returns the views of a command.
pub(crate) fn unwrapped(command: &SimpleCommand, how: Wrappers) -> Vec<UnwrappedCommand> {
    views(command, how, |_| true)
}

/// Returns the views in a command's own words: shell texts are not parsed.
pub(crate) fn in_words(command: &SimpleCommand) -> Vec<UnwrappedCommand> {
    views(command, Wrappers::All, |inner| matches!(inner, Inner::Rest(_) | Inner::Words(..)))
}

fn views(
    command: &SimpleCommand,
    how: Wrappers,
    follows: fn(&Inner) -> bool,
) -> Vec<UnwrappedCommand> {
    let mut views = vec![UnwrappedCommand::new(command.clone(), Some(0))];
    let mut next = 0;
    // A queue instead of recursion: nested wrappers only make it longer.
    while let Some(view) = views.get(next) {
        next += 1;
        let found = inside(view, how, follows);
        if views.len() + found.len() > MAX_VIEWS {
            views.push(opaque());
            return views;
        }
        views.extend(found);
    }
    views
}

fn opaque() -> UnwrappedCommand {
    UnwrappedCommand::new(
        SimpleCommand { words: vec![Word::unknown()], ..SimpleCommand::default() },
        None,
    )
}

/// Returns what a command starts.
fn inside(
    view: &UnwrappedCommand,
    how: Wrappers,
    follows: fn(&Inner) -> bool,
) -> Vec<UnwrappedCommand> {
    let command = &view.command;
    let Some(first) = command.words.first() else { return Vec::new() };
    let Some(name) = first.literal() else {
        return if how == Wrappers::All { unnamed(command, first) } else { Vec::new() };
    };
    if how == Wrappers::All && name.contains('/') {
        // `/usr/bin/rm` is `rm`. Only for restrictions: `./ls` need not be `ls`.
        let Some(base) = name.rsplit('/').next().filter(|base| !base.is_empty()) else {
            return Vec::new();
        };
        let mut command = command.clone();
        if let Some(first) = command.words.first_mut() {
            *first = Word::text(base);
        }
        return vec![UnwrappedCommand::new(command, None)];
    }
    let found = wrappers::inner(name, command, how).into_iter().filter(follows);
    found.flat_map(|inner| started(inner, view)).collect()
}

/// Returns the program of a partly unknown name: `/bin/r?` may be `rm`, and `$HOME/bin/rm` is `rm`
/// for any value of the variable.
fn unnamed(command: &SimpleCommand, first: &Word) -> Vec<UnwrappedCommand> {
    // A name that starts plainly counts as a plain name.
    let plain = matches!(first.pieces.first(), Some(WordPiece::Text(text)) if !text.contains('/'));
    let base = match first.pieces.last() {
        Some(WordPiece::Unknown) | None if plain => return Vec::new(),
        Some(WordPiece::Text(tail)) if plain && !tail.contains('/') => return Vec::new(),
        Some(WordPiece::Text(tail)) => match tail.rsplit_once('/') {
            Some((_, base)) => Word::text(base),
            None => Word {
                pieces: vec![WordPiece::Unknown, WordPiece::Text(tail.clone())],
                may_be_option: true,
                expands_to: None,
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
    vec![UnwrappedCommand::new(command, None)]
}

/// Converts what a wrapper starts into views.
fn started(inner: Inner, outer: &UnwrappedCommand) -> Vec<UnwrappedCommand> {
    match inner {
        Inner::Rest(from) => {
            let words = outer.command.words.get(from..).unwrap_or_default().to_vec();
            if words.is_empty() {
                return Vec::new();
            }
            let at = outer.at.map(|at| at + from);
            let redirects = outer.command.redirects.clone();
            vec![UnwrappedCommand::new(
                SimpleCommand { words, redirects, ..SimpleCommand::default() },
                at,
            )]
        }
        Inner::Words(words, at) => {
            let at = outer.at.zip(at).map(|(outer, from)| outer + from);
            vec![UnwrappedCommand::new(SimpleCommand { words, ..SimpleCommand::default() }, at)]
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
                Ok(mut script) => {
                    // The outer command may change the home directory and what globs match.
                    script.commands.iter_mut().for_each(SimpleCommand::forget_expansions);
                    let commands = script.commands.into_iter();
                    commands.map(|command| UnwrappedCommand::new(command, None)).collect()
                }
                Err(_) => vec![UnwrappedCommand { is_unread: true, ..opaque() }],
            }
        }
        Inner::Input => {
            // A shell that reads its commands from stdin. Here-documents of other file descriptors
            // are refused, so a single one is stdin, unless another redirection replaces it.
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
    Word { pieces, may_be_option: true, ..Word::default() }
}
