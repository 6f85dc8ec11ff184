//! How commands start, to look up rules by the program.

use haft_shell::{SimpleCommand, Word, Wrappers};

/// The first two shell words of a command, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start<'c> {
    /// Nothing is known, or there is no word.
    Unknown,
    /// This word, and what follows is not known.
    First(&'c str),
    /// This word, and the next if there is one.
    Two(&'c str, Option<&'c str>),
}

/// Reports how each view of a command starts, to look up rules. Uses the restricting side, which
/// includes every view of an allow.
pub(crate) fn starts(command: &SimpleCommand, mut visit: impl FnMut(Start<'_>)) {
    if command.may_wrap(Wrappers::All) {
        command.unwrapped(Wrappers::All).iter().for_each(|view| visit(start(&view.command)));
    } else {
        visit(start(command))
    }
}

fn start(command: &SimpleCommand) -> Start<'_> {
    let Some(first) = command.words.first().and_then(Word::literal) else { return Start::Unknown };
    // A word may contain a space, and then a pattern sees several.
    if let Some((first, rest)) = first.split_once(' ') {
        return Start::Two(first, rest.split(' ').next());
    }
    match command.words.get(1) {
        None => Start::Two(first, None),
        Some(second) => match second.literal() {
            Some(second) => Start::Two(first, second.split(' ').next()),
            None => Start::First(first),
        },
    }
}
