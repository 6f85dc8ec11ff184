//! Proves that one command is read-only, or says why not.
//!
//! The proof goes from the outside in: assignments, redirections, the name, harmless wrappers, then
//! the grammar of the command. FAIL CLOSED: anything unlisted is refused.

use crate::{
    Redirect, RedirectKind, SimpleCommand, Word, Wrappers,
    classify::{Kind, MAX_READ_ONLY_DEPTH, classified},
    grammar::{Checked, tables},
    wrappers::{self, Inner},
};

/// Returns why a command is read-only, or why that is not proven. `level` is the nesting depth.
pub(super) fn prove(command: &SimpleCommand, level: usize) -> Result<String, String> {
    if level > MAX_READ_ONLY_DEPTH {
        return Err(format!("it is nested deeper than {MAX_READ_ONLY_DEPTH} levels"));
    }
    if let Some(assignment) = command.assignments.first() {
        return Err(format!("it sets `{}`", assignment.name));
    }
    command.redirects.iter().try_for_each(redirect)?;
    let Some(first) = command.words.first() else {
        return Ok("its redirections write nothing".to_owned());
    };
    let Some(name) = first.literal() else {
        return Err("the command is known only at run time".to_owned());
    };
    let name = plain_name(name);
    match words(name, command, level) {
        Ok(()) => Ok(format!("`{name}` is read-only")),
        Err(why) => Err(format!("`{name}`: {why}")),
    }
}

/// Returns a program name without a system directory. In any other directory it may be a different
/// program.
pub(super) fn plain_name(name: &str) -> &str {
    let base = name.strip_prefix("/usr/bin/").or_else(|| name.strip_prefix("/bin/"));
    base.filter(|base| !base.contains('/')).unwrap_or(name)
}

fn redirect(redirect: &Redirect) -> Checked {
    let target = redirect.target.literal();
    match redirect.kind {
        RedirectKind::Here | RedirectKind::Duplicate => Ok(()),
        RedirectKind::Write | RedirectKind::ReadWrite if target == Some("/dev/null") => Ok(()),
        // Bash maps `/dev/tcp` and `/dev/udp` to the network.
        RedirectKind::Read => match target {
            Some("/dev/null" | "/dev/stdin") => Ok(()),
            Some(file) if !file.starts_with("/dev/") => Ok(()),
            Some(file) => Err(format!("it opens the device `{file}`")),
            None => Err("the file it opens is known only at run time".to_owned()),
        },
        RedirectKind::Write | RedirectKind::ReadWrite => match target {
            Some(file) => Err(format!("it writes to `{file}`")),
            None => Err("it writes to a file that is known only at run time".to_owned()),
        },
    }
}

fn words(name: &str, command: &SimpleCommand, level: usize) -> Checked {
    let words = &*command.words;
    let text = |n: usize| words.get(n).and_then(Word::literal);
    if words.len() == 2 && tables::only_prints_version(name, text(1).unwrap_or_default()) {
        return Ok(());
    }
    match name {
        "timeout" | "nice" | "stdbuf" | "time" | "command" | "builtin" => {
            if name == "command" && matches!(text(1), Some("-v" | "-V")) {
                return Ok(()); // prints where a command is, and starts nothing
            }
            let inner = wrappers::inner(name, command, Wrappers::Harmless);
            return started(inner, command, level);
        }
        "xargs" => {
            let inner = wrappers::inner(name, command, Wrappers::All);
            check_no_terminal(words, inner.first())?;
            return if inner.is_empty() { Ok(()) } else { started(inner, command, level) };
        }
        "env" if words.len() == 1 => return Ok(()),
        "env" => {
            let plain = |text: &str| !text.starts_with('-') && !text.contains('=');
            if !text(1).is_some_and(plain) {
                return Err("it changes the environment of what it starts".to_owned());
            }
            return started(vec![Inner::Rest(1)], command, level);
        }
        "sh" | "bash" | "dash" => return shell(words, level),
        "find" => return super::find::check(words, &|inner| prove(inner, level + 1).map(drop)),
        _ => {}
    }
    match tables::of(name) {
        Some(grammar) => grammar.check(words),
        None => Err("it is not in the list of read-only commands".to_owned()),
    }
}

/// Checks what a wrapper starts.
fn started(inner: Vec<Inner>, outer: &SimpleCommand, level: usize) -> Checked {
    for inner in inner {
        let words = match inner {
            Inner::Rest(from) => outer.words.get(from..).unwrap_or_default().to_vec(),
            Inner::Words(words, _) => words,
            Inner::Text(_) | Inner::Input | Inner::Opaque => {
                return Err("it is unknown what it starts".to_owned());
            }
        };
        if words.is_empty() {
            return Err("it starts nothing".to_owned());
        }
        prove(&SimpleCommand { words, ..SimpleCommand::default() }, level + 1)?;
    }
    Ok(())
}

/// Checks that `xargs` does not use a terminal.
fn check_no_terminal(words: &[Word], inner: Option<&Inner>) -> Checked {
    let end = match inner {
        Some(Inner::Words(_, Some(at))) => *at,
        _ => words.len(),
    };
    let asks = |word: &Word| {
        word.literal().is_none_or(|text| match text.strip_prefix('-') {
            Some(long) if long.starts_with('-') => {
                matches!(long, "-interactive" | "-open-tty")
            }
            Some(letters) => letters.contains(['p', 'o']),
            None => false,
        })
    };
    if words.get(1..end).is_some_and(|options| options.iter().any(asks)) {
        Err("an option is unknown, or it uses a terminal".to_owned())
    } else {
        Ok(())
    }
}

/// Checks a shell with a text. Words after the text would be its parameters, and a file before it
/// would run.
fn shell(words: &[Word], level: usize) -> Checked {
    let text = match words {
        [_, flag, text] if flag.literal() == Some("-c") => text.literal(),
        _ => return Err("it runs code that is not in the command".to_owned()),
    };
    let Some(text) = text else {
        return Err("what it runs is known only at run time".to_owned());
    };
    if level >= MAX_READ_ONLY_DEPTH {
        return Err(format!("it is nested deeper than {MAX_READ_ONLY_DEPTH} levels"));
    }
    let inner = classified(text, level + 1);
    if inner.kind == Kind::ReadOnly { Ok(()) } else { Err(inner.why) }
}
