//! What words with globs, `~` and variables of loops expand to, and whether that is certain.
//!
//! In: the characters of a word. Out: globs over paths that include every name that the word may
//! become. `None` if it may become anything else. Restricting rules look the names up instead of
//! treating the word as unknown, so a name that is left out here would bypass them.

use super::{
    reader::{LoopVariable, Notes},
    word::Elem,
};
use crate::{Expanded, SimpleCommand, Word};

/// Builtins that set variables to values that are not written in the script.
pub(super) const SETTING_BUILTINS: [&str; 12] = [
    "read",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "mapfile",
    "readarray",
    "getopts",
    "eval",
    "source",
    ".",
];

/// Commands that change variables, the home directory, or what globs match, in addition to
/// [`SETTING_BUILTINS`].
const CHANGES_EXPANSIONS: [&str; 8] =
    ["set", "shopt", "setopt", "unset", "unsetopt", "let", "trap", "integer"];

/// Variables that change expansions of later words.
const EXPANSION_VARIABLES: [&str; 6] =
    ["HOME", "IFS", "GLOBIGNORE", "BASHOPTS", "SHELLOPTS", "PWD"];

/// Returns what a word expands to, if it has globs, `~` or the variable of a loop, and nothing else
/// that a shell would expand.
pub(super) fn expansions(elems: &[Elem], loops: &[LoopVariable]) -> Option<Box<[Expanded]>> {
    let is_plain = |elem: &Elem, wanted: fn(char) -> bool| match elem {
        Elem::Char(c, false) => wanted(*c),
        _ => false,
    };
    let has = |wanted: fn(char) -> bool| elems.iter().any(|elem| is_plain(elem, wanted));
    // The common word has nothing to expand, and nothing is copied.
    let variables = || elems.iter().filter(|elem| matches!(elem, Elem::Variable { .. })).count();
    let has_variable = variables() > 0;
    if !has_variable && !has(|c| matches!(c, '*' | '?' | '[' | '~')) {
        return None;
    }
    let is_unknown = |elem: &Elem| matches!(elem, Elem::Unknown(_));
    // `{a,b}` and `=name` are not supported, and neither is `a:~`.
    if elems.iter().any(is_unknown) || has(|c| c == '{') || variables() > 1 {
        return None;
    }
    if elems.first().is_some_and(|first| is_plain(first, |c| c == '=')) {
        return None;
    }
    let is_in_home = elems.first().is_some_and(|first| is_plain(first, |c| c == '~'));
    let rest = elems.get(usize::from(is_in_home)..).unwrap_or_default();
    if rest.iter().any(|elem| is_plain(elem, |c| c == '~')) {
        return None;
    }
    // `~name` is the home directory of another user.
    if is_in_home && !matches!(rest.first(), None | Some(Elem::Char('/', _))) {
        return None;
    }
    let mut found = vec![Expanded { is_in_home, ..Expanded::default() }];
    for elem in rest {
        match elem {
            Elem::Char(c, is_quoted) => {
                let escapes = *is_quoted && matches!(c, '*' | '?' | '[' | '\\');
                for each in &mut found {
                    each.glob.extend(escapes.then_some('\\').into_iter().chain([*c]));
                }
            }
            Elem::Variable { of, is_quoted, .. } => {
                let values = loops.get(*of)?.values.as_ref()?;
                let before = found.pop()?;
                for value in values {
                    if value.is_in_home && (is_in_home || !before.glob.is_empty()) {
                        return None;
                    }
                    found.push(Expanded {
                        glob: format!("{}{}", before.glob, value.glob),
                        is_in_home: is_in_home || value.is_in_home,
                        is_split: !is_quoted,
                    });
                }
            }
            Elem::Unknown(_) => return None,
        }
    }
    Some(found.into())
}

/// Returns what a word of a loop's list may become, if that depends on names of files alone.
pub(super) fn values(word: &Word) -> Option<Vec<Expanded>> {
    if let Some(text) = word.literal() {
        return Some(vec![Expanded::of_text(text)]);
    }
    let values = word.expands_to.as_ref()?;
    let climbs = |value: &Expanded| value.glob.split('/').any(|step| step == "..");
    let is_below = |value: &Expanded| {
        !value.is_in_home && !value.is_split && !value.glob.starts_with('/') && !climbs(value)
    };
    values.iter().all(is_below).then(|| values.to_vec())
}

/// Forgets expansions that another command of the script may change.
pub(super) fn check(commands: &mut [SimpleCommand], loops: &[LoopVariable], notes: &mut Notes) {
    let is_mentioned = |command: &SimpleCommand| {
        command
            .words
            .iter()
            .chain(command.redirects.iter().map(|r| &r.target))
            .any(|word| word.expands_to.is_some())
    };
    if !notes.file_names && !commands.iter().any(is_mentioned) {
        return;
    }
    let changes = |command: &SimpleCommand| {
        let mut words = super::finish::after_builtin(command);
        while let [first, rest @ ..] = words
            && matches!(first.literal(), Some("time" | "-p" | "--" | "builtin" | "command"))
        {
            words = rest;
        }
        let name = words.first().map(Word::literal);
        let sets = |name: &str| EXPANSION_VARIABLES.contains(&name);
        command.assignments.iter().any(|set| sets(&set.name))
            || name == Some(None)
            || name.flatten().is_some_and(|name| {
                SETTING_BUILTINS.contains(&name) || CHANGES_EXPANSIONS.contains(&name)
            })
            || super::finish::sets_by_option(words)
    };
    let is_set_twice = |own: &LoopVariable| {
        let assigned = commands.iter().flat_map(|command| &command.assignments);
        assigned.into_iter().any(|set| set.name == own.name)
            || notes.names.iter().filter(|name| **name == own.name).count() != 1
    };
    let is_unsafe = !notes.functions.is_empty() || commands.iter().any(changes);
    if is_unsafe || loops.iter().any(is_set_twice) {
        if notes.file_names {
            notes.values = true;
            notes.value_users = (0..commands.len()).collect();
        }
        commands.iter_mut().for_each(SimpleCommand::forget_expansions);
    }
}
