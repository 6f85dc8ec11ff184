//! Checks the whole script: whether one command changes the meaning of another.

use super::{
    globs::{self, SETTING_BUILTINS},
    reader::{Found, Notes},
    refuse,
};
use crate::{Script, ShellParseError, SimpleCommand, Word, WordPiece};

/// Builtins that evaluate subscripts in their arguments, so that text in them may run.
const EVALUATING_BUILTINS: [&str; 16] = [
    "test",
    "[",
    "printf",
    "read",
    "unset",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "let",
    "mapfile",
    "readarray",
    "getopts",
    "wait",
    "integer",
];

/// Checks the parsed commands and returns the script.
pub(crate) fn finish(found: Found) -> Result<(Script, Notes), ShellParseError> {
    let Found { mut commands, mut notes, mut evaluates, mut sets, loops, .. } = found;
    globs::check(&mut commands, &loops, &mut notes);
    let functions = &notes.functions;
    let several = commands.len() > 1 || !functions.is_empty();
    // An unknown command word may set something too, but nothing that it needs itself.
    let mut sets_directly = sets;
    for command in &commands {
        if command.assignments.iter().any(|a| is_executed_variable(&a.name)) {
            return refuse("it sets a variable that shells execute");
        }
        let words = after_builtin(command);
        let Some(first) = words.first() else { continue };
        let name = first.literal();
        let sets_here =
            name.is_some_and(|name| SETTING_BUILTINS.contains(&name)) || sets_by_option(words);
        sets |= name.is_none() || sets_here;
        sets_directly |= sets_here;
        evaluates |= name == Some("let") || evaluates_a_name(words);
        if name.is_some_and(|name| EVALUATING_BUILTINS.contains(&name))
            && words.iter().any(has_hidden_command)
        {
            return refuse("a subscript is evaluated");
        }
        if words.iter().any(|w| text_before_equals(w).is_some_and(is_executed_variable)) {
            return refuse("it sets a variable that shells execute");
        }
        if several && redefines(words) {
            return refuse("it redefines a command");
        }
    }
    // `x='a[$(rm y)]'; echo $((x))` runs `rm`: values are evaluated like the text itself.
    if evaluates && sets {
        return refuse("it evaluates values that it sets itself, which may run commands");
    }
    let mut calls = Vec::new();
    for (at, command) in commands.iter_mut().enumerate() {
        let Some(first) = command.words.first_mut() else { continue };
        if first.literal().is_some_and(|name| functions.iter().any(|f| f == name)) {
            *first = Word::unknown();
            calls.push(at);
        }
    }
    let repeats = notes.loops || !notes.functions.is_empty();
    notes.calls = calls;
    notes.sets = sets_directly;
    Ok((Script { commands, repeats }, notes))
}

/// Returns whether text in a word would run if the word were evaluated.
pub(crate) fn has_hidden_command(word: &Word) -> bool {
    word.pieces.iter().any(|piece| match piece {
        WordPiece::Text(text) => text.contains('[') && text.contains(['$', '`']),
        WordPiece::Unknown => false,
    })
}

/// Returns the words of a command after `builtin` and `command`.
pub(super) fn after_builtin(command: &SimpleCommand) -> &[Word] {
    let mut words = &*command.words;
    while let [first, rest @ ..] = words {
        if !matches!(first.literal(), Some("builtin" | "command" | "-p" | "--")) {
            break;
        }
        words = rest;
    }
    words
}

/// Returns whether a shell executes the contents of this variable.
fn is_executed_variable(name: &str) -> bool {
    matches!(name, "PS0" | "PS1" | "PS2" | "PS4" | "PROMPT_COMMAND" | "BASH_ENV" | "ENV")
}

fn text_before_equals(word: &Word) -> Option<&str> {
    match word.pieces.first() {
        Some(WordPiece::Text(text)) => {
            text.split_once('=').map(|(name, _)| name.trim_end_matches('+'))
        }
        _ => None,
    }
}

/// Returns whether a command can change the meaning of a later command word.
fn redefines(words: &[Word]) -> bool {
    match words.first().and_then(Word::literal) {
        Some("alias" | "enable") => words.len() > 1,
        Some("hash") => words.iter().any(|w| w.literal().is_none_or(|t| t.starts_with("-p"))),
        _ => false,
    }
}

/// Returns whether an option makes a command set a variable: `printf -v x`, `set -- x`.
pub(super) fn sets_by_option(words: &[Word]) -> bool {
    let [first, rest @ ..] = words else { return false };
    match first.literal() {
        Some("printf") => {
            rest.first().is_some_and(|w| w.literal().is_none_or(|t| t.starts_with("-v")))
        }
        Some("set") => {
            rest.iter().any(|w| w.literal().is_none_or(|t| t == "--" || !t.starts_with(['-', '+'])))
        }
        _ => false,
    }
}

/// Returns whether a command takes an unknown name, and so evaluates its subscript; or creates a
/// variable whose values are evaluated.
fn evaluates_a_name(words: &[Word]) -> bool {
    let [first, rest @ ..] = words else { return false };
    let unknown = |w: &Word| w.pieces.first() == Some(&WordPiece::Unknown);
    let option = |letter: char| {
        move |w: &Word| w.literal().is_some_and(|t| t.starts_with('-') && t.contains(letter))
    };
    match first.literal() {
        Some("test" | "[") => {
            rest.iter().any(|w| matches!(w.literal(), Some("-v" | "-R")))
                && rest.iter().any(unknown)
        }
        Some("printf") => rest.first().is_some_and(option('v')) && rest.get(1).is_some_and(unknown),
        Some("declare" | "typeset" | "local" | "export" | "readonly" | "integer") => {
            rest.iter().any(unknown) || rest.iter().any(option('i'))
        }
        Some("unset" | "read" | "mapfile" | "readarray" | "getopts" | "wait") => {
            rest.iter().any(unknown)
        }
        _ => false,
    }
}
