//! Table of wrappers: commands that start other commands, with their options and operands.
//!
//! After an unlisted option it is unknown whether the next word is its value or the command. Then
//! the result is opaque.

pub(crate) mod unwrap;
pub(crate) mod programs;
mod options;
mod runners;
mod subcommands;

pub(crate) use self::options::Options;
use self::unwrap::replaced;
pub use self::{
    subcommands::has_subcommands,
    unwrap::{UnwrappedCommand, Wrappers},
};
use crate::{SimpleCommand, Word, interpreters};

/// What a wrapper starts.
pub(crate) enum Inner {
    /// Its words from this index on.
    Rest(usize),
    /// These words; with their start index if they are simply the rest.
    Words(Vec<Word>, Option<usize>),
    /// These words as a shell text.
    Text(Vec<Word>),
    /// Commands from stdin.
    Input,
    /// Something unknown.
    Opaque,
}

/// Returns the options of wrappers that do not change what runs.
fn harmless(name: &str) -> Option<Options> {
    let none = Options::default();
    Some(match name {
        "timeout" => Options {
            flags: "v",
            valued: "ks",
            long: &["foreground", "preserve-status", "verbose", "kill-after=", "signal="],
            operands: 1,
        },
        "nice" => Options { valued: "n", long: &["adjustment="], ..none },
        "stdbuf" => Options { valued: "ioe", long: &["input=", "output=", "error="], ..none },
        "time" | "command" => Options { flags: "p", ..none },
        "nohup" | "builtin" | "noglob" => none,
        _ => return None,
    })
}

/// Returns the options of wrappers that start the rest of their words with other privileges,
/// elsewhere, or in another way.
fn others(name: &str) -> Option<Options> {
    let none = Options::default();
    Some(match name {
        "sudo" => Options {
            flags: "AbEHiKklNnPSsVv",
            valued: "CDghpRrTtUu",
            long: &[
                "askpass",
                "background",
                "preserve-env",
                "set-home",
                "login",
                "shell",
                "list",
                "non-interactive",
                "preserve-groups",
                "stdin",
                "validate",
                "version",
                "user=",
                "group=",
                "host=",
                "prompt=",
                "chdir=",
                "chroot=",
                "close-from=",
                "role=",
                "type=",
                "other-user=",
                "command-timeout=",
                "reset-timestamp",
                "remove-timestamp",
            ],
            ..none
        },
        "doas" => Options { flags: "Lns", valued: "Cu", ..none },
        "env" => Options {
            flags: "i0v",
            valued: "uCS",
            long: &[
                "ignore-environment",
                "null",
                "unset=",
                "chdir=",
                "split-string=",
                "debug",
                "block-signal",
                "default-signal",
                "ignore-signal",
            ],
            ..none
        },
        "setsid" => Options { flags: "cfw", long: &["ctty", "fork", "wait"], ..none },
        "ionice" => Options {
            flags: "t",
            valued: "cnpPu",
            long: &["class=", "classdata=", "pid=", "pgid=", "uid=", "ignore"],
            ..none
        },
        "flock" => Options {
            flags: "sxenuoFv",
            valued: "wE",
            long: &[
                "shared",
                "exclusive",
                "nonblock",
                "nb",
                "unlock",
                "close",
                "no-fork",
                "verbose",
                "timeout=",
                "wait=",
                "conflict-exit-code=",
            ],
            operands: 1,
        },
        "watch" => Options {
            flags: "bcCdegprtwx",
            valued: "nqs",
            long: &[
                "beep",
                "color",
                "no-color",
                "differences",
                "errexit",
                "chgexit",
                "precise",
                "no-rerun",
                "no-title",
                "no-wrap",
                "exec",
                "interval=",
                "equexit=",
            ],
            ..none
        },
        "exec" => Options { flags: "cl", valued: "a", ..none },
        "xargs" => Options {
            flags: "0rtpxo",
            valued: "nPILsdaE",
            long: &[
                "null",
                "no-run-if-empty",
                "verbose",
                "interactive",
                "exit",
                "open-tty",
                "max-args=",
                "max-procs=",
                "replace",
                "max-lines",
                "max-chars=",
                "delimiter=",
                "arg-file=",
                "eof",
            ],
            ..none
        },
        "su" => Options {
            flags: "lmpfP",
            valued: "cgGsw",
            long: &["login", "preserve-environment", "command=", "shell=", "group=", "fast"],
            ..none
        },
        "ssh" => Options {
            flags: "46AaCfGgKkMNnqsTtVvXxYy",
            valued: "BbcDEeFIiJLlmOopQRSWw",
            operands: 1,
            ..none
        },
        "git" => Options {
            flags: "pPhv",
            valued: "cC",
            long: &[
                "git-dir=",
                "work-tree=",
                "namespace=",
                "exec-path",
                "paginate",
                "no-pager",
                "bare",
                "no-replace-objects",
                "literal-pathspecs",
                "glob-pathspecs",
                "noglob-pathspecs",
                "icase-pathspecs",
                "no-optional-locks",
                "config-env=",
                "super-prefix=",
                "version",
                "help",
                "attr-source=",
                "no-lazy-fetch",
                "no-advice",
            ],
            ..none
        },
        _ => return None,
    })
}

/// Returns whether a command may start another, by its name.
pub(crate) fn may_wrap(command: &SimpleCommand, how: Wrappers) -> bool {
    let Some(first) = command.words.first() else { return false };
    // Only restrictions look for the program of an unknown name.
    let Some(name) = first.literal() else { return how == Wrappers::All };
    if harmless(name).is_some() || name == "xargs" {
        return true;
    }
    if how == Wrappers::Harmless {
        return false;
    }
    match name {
        // Usually a subcommand that starts nothing follows directly.
        "git" => runners::git_may_start(&command.words),
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "mksh" | "rbash" | "yash" | "posh"
        | "eval" | "trap" | "find" | "busybox" | "toybox" | "source" | "." => true,
        _ => {
            name.contains('/')
                || others(name).is_some()
                || runners::is_runner(name)
                || interpreters::is_awk_or_sed(name)
                || subcommands::has_leading_options(name, &command.words)
        }
    }
}

/// Returns whether some command of this name starts another.
pub(crate) fn is_known(name: &str) -> bool {
    harmless(name).is_some()
        || others(name).is_some()
        || runners::is_runner(name)
        || matches!(name, "eval" | "trap" | "find" | "busybox" | "toybox" | "source" | ".")
}

/// Returns what a command of this name starts.
pub(crate) fn inner(name: &str, command: &SimpleCommand, how: Wrappers) -> Vec<Inner> {
    let words = &*command.words;
    if let Some(options) = harmless(name) {
        let word = |n: usize| words.get(n).and_then(Word::literal);
        if name == "command" && matches!(word(1), Some("-v" | "-V" | "-pv" | "-pV")) {
            return Vec::new(); // prints where a command is, and starts nothing
        }
        let digits = |t: &str| t.strip_prefix('-').is_some_and(is_digits);
        if name == "nice" && word(1).is_some_and(digits) {
            return vec![Inner::Rest(2)];
        }
        return match options.read(words) {
            Some(given) => vec![Inner::Rest(given.rest)],
            None => vec![Inner::Opaque],
        };
    }
    let flagless = words.get(1).is_some_and(|w| w.literal().is_some_and(|t| !t.starts_with('-')));
    if name == "xargs" && flagless {
        return vec![with_unknown_arguments(words, 1, None)];
    }
    match how {
        Wrappers::All if interpreters::is_awk_or_sed(name) => programs::inner(command),
        Wrappers::All => other_wrapper(name, words),
        Wrappers::Harmless if name == "xargs" => vec![Inner::Opaque],
        Wrappers::Harmless => Vec::new(),
    }
}

fn other_wrapper(name: &str, words: &[Word]) -> Vec<Inner> {
    match name {
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "mksh" | "rbash" | "yash" | "posh" => {
            return shell(words);
        }
        "source" | "." => return words.get(1).map_or_else(Vec::new, file),
        "eval" => {
            let skip = words.get(1).is_some_and(|w| w.literal() == Some("--"));
            return vec![Inner::Text(from(words, if skip { 2 } else { 1 }))];
        }
        "trap" => {
            let skip = words.get(1).is_some_and(|w| w.literal() == Some("--"));
            return match words.get(if skip { 2 } else { 1 }) {
                Some(word) if words.len() > 2 && word.literal() != Some("-") => {
                    vec![Inner::Text(vec![word.clone()])]
                }
                _ => Vec::new(),
            };
        }
        "find" => return find(words),
        "busybox" | "toybox" if words.len() > 1 => return vec![Inner::Rest(1)],
        name if runners::is_runner(name) => return runners::inner(name, words),
        name if subcommands::has_leading_options(name, words) => {
            return subcommands::inner(name, words);
        }
        _ => {}
    }
    let Some(options) = others(name) else { return Vec::new() };
    let Some(given) = options.read(words) else { return vec![Inner::Opaque] };
    let rest = given.rest;
    let is_left = rest < words.len();
    let text = |n: usize| words.get(n).and_then(Word::literal);
    match name {
        "sudo" | "doas" => {
            let rest = after_assignments(words, rest);
            let shell = given.has(&["i", "s", "login", "shell"]);
            match (rest < words.len(), shell) {
                (true, _) => vec![Inner::Rest(rest)],
                (false, true) => vec![Inner::Input],
                (false, false) => Vec::new(),
            }
        }
        "env" => {
            let split = given.options.iter().find(|(n, _)| n == "S" || n == "split-string");
            let dash = usize::from(text(rest) == Some("-"));
            match split {
                Some((_, value)) => vec![split_string(value.unwrap_or_default(), words, rest)],
                None => vec![Inner::Rest(after_assignments(words, rest + dash))],
            }
        }
        "xargs" => {
            let mark = given.options.iter().rev().find(|(n, _)| n == "I" || n == "replace");
            let mark = mark.map(|(_, value)| value.unwrap_or("{}"));
            if is_left { vec![with_unknown_arguments(words, rest, mark)] } else { Vec::new() }
        }
        "watch" if !given.has(&["x", "exec"]) && is_left => vec![Inner::Text(from(words, rest))],
        "flock" if matches!(text(rest), Some("-c" | "--command")) => {
            vec![Inner::Text(from(words, rest + 1))]
        }
        "su" => {
            let command = given.options.iter().find(|(n, _)| n == "c" || n == "command");
            match command {
                Some((_, value)) => vec![Inner::Text(vec![Word::text(value.unwrap_or_default())])],
                None => vec![Inner::Input],
            }
        }
        "ssh" => {
            let mut found = Vec::new();
            let local = |value: &str| {
                let value = value.to_ascii_lowercase();
                value.contains("command") || value.contains("match")
            };
            if given.options.iter().any(|(n, v)| n == "o" && v.is_some_and(local)) {
                found.push(Inner::Opaque);
            }
            // Options may follow the host too; then the start of the command is unknown.
            match text(rest) {
                Some(word) if word.starts_with('-') => found.push(Inner::Opaque),
                _ if is_left => found.push(Inner::Text(from(words, rest))),
                _ => {}
            }
            found
        }
        "git" => {
            let mut found = Vec::new();
            let set = |(n, _): &&(String, Option<&str>)| n == "c" || n == "config-env";
            let elsewhere = |(n, v): &(String, Option<&str>)| n == "exec-path" && v.is_some();
            if given.options.iter().any(elsewhere)
                || given.options.iter().filter(set).any(|(_, v)| v.is_some_and(runs_program))
            {
                found.push(Inner::Opaque);
            }
            if rest == 1 {
                found.extend(runners::git(words));
            } else if is_left {
                let mut all = vec![Word::text("git")];
                all.extend(from(words, rest));
                found.push(Inner::Words(all, None));
            }
            found
        }
        _ => vec![Inner::Rest(rest)],
    }
}

/// Returns whether this option of a wrapper takes the next word, or may.
pub(crate) fn may_take_value(name: &str, option: &str) -> bool {
    let Some(options) = harmless(name).or_else(|| others(name)) else { return true };
    match option.strip_prefix("--") {
        Some("") => false,
        Some(long) => !long.contains('=') && !options.long.contains(&long),
        None => {
            let letters = option.strip_prefix('-').unwrap_or_default();
            !letters.chars().all(|letter| options.flags.contains(letter))
        }
    }
}

/// Returns whether a wrapper has no operand before the command.
pub(crate) fn has_no_operands(name: &str) -> bool {
    harmless(name).or_else(|| others(name)).is_some_and(|options| options.operands == 0)
        && !matches!(name, "git" | "su" | "watch")
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn from(words: &[Word], at: usize) -> Vec<Word> {
    words.get(at..).unwrap_or_default().to_vec()
}

/// Returns the index of the first word that is not `NAME=value`.
pub(crate) fn after_assignments(words: &[Word], mut at: usize) -> usize {
    let assigns = |word: &Word| match word.pieces.first() {
        Some(crate::WordPiece::Text(text)) => {
            text.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains('/'))
        }
        _ => false,
    };
    while words.get(at).is_some_and(assigns) {
        at += 1;
    }
    at
}

/// Returns a command with additional unknown words: at its end, or in place of the mark.
fn with_unknown_arguments(words: &[Word], at: usize, mark: Option<&str>) -> Inner {
    let mut words = from(words, at);
    match mark {
        Some(mark) => words.iter_mut().for_each(|w| *w = replaced(w, mark)),
        None => words.push(Word::unknown()),
    }
    Inner::Words(words, Some(at))
}

/// Returns whether a git setting names something that git runs.
fn runs_program(setting: &str) -> bool {
    const EXECUTING_KEYS: [&str; 24] = [
        "alias.",
        "command",
        "cmd",
        "pager",
        "editor",
        "askpass",
        "hook",
        "fsmonitor",
        "textconv",
        "external",
        "filter",
        "include",
        "program",
        "helper",
        "proxy",
        "driver",
        "tool",
        "browser",
        "pack",
        "protocol.",
        "submodule.",
        "insteadof",
        "template",
        "attributesfile",
    ];
    let key = setting.split('=').next().unwrap_or_default().to_ascii_lowercase();
    EXECUTING_KEYS.iter().any(|part| key.contains(part))
}

/// Returns what a shell runs.
fn shell(words: &[Word]) -> Vec<Inner> {
    let (mut command, mut input) = (false, false);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(word) = word.literal() else { return vec![Inner::Opaque] };
        match word {
            "--" => {
                at += 1;
                break;
            }
            "--rcfile" | "--init-file" => at += 1,
            "--norc" | "--noprofile" | "--login" | "--posix" | "--verbose" | "--restricted" => {}
            long if long.starts_with("--") => return vec![Inner::Opaque],
            "-" => {
                at += 1;
                break;
            }
            word if word.starts_with(['-', '+']) => {
                let letters = word.get(1..).unwrap_or_default();
                command |= word.starts_with('-') && letters.contains('c');
                input |= word.starts_with('-') && letters.contains('s');
                // Each of these takes the next word.
                at += letters.matches(['o', 'O']).count();
            }
            _ => break,
        }
        at += 1;
    }
    match words.get(at) {
        Some(text) if command => vec![Inner::Text(vec![text.clone()])],
        None if command => vec![Inner::Opaque],
        None => vec![Inner::Input],
        Some(_) if input => vec![Inner::Input],
        Some(name) => file(name),
    }
}

/// Returns what a shell reads from a file of this name. The contents of a file are unknown here,
/// but some names refer to the command's own input.
fn file(name: &Word) -> Vec<Inner> {
    match name.literal() {
        None => vec![Inner::Opaque],
        Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") => vec![Inner::Input],
        Some(name) if name.starts_with("/dev/") || name.starts_with("/proc/") => {
            vec![Inner::Opaque]
        }
        Some(_) => Vec::new(),
    }
}

/// Returns what `env -S` starts: the words of a text, then the rest. It has its own splitting
/// rules, and options at its start are options of `env`.
fn split_string(text: &str, words: &[Word], rest: usize) -> Inner {
    if text.trim_start().starts_with('-') || text.contains(['\\', '$', '#']) {
        return Inner::Opaque;
    }
    let mut all = vec![Word::text(text)];
    for word in from(words, rest) {
        let Some(word) = word.literal() else { return Inner::Opaque };
        // Each is one word, whatever it contains.
        all.push(Word::text(format!("'{}'", word.replace('\'', "'\\''"))));
    }
    Inner::Text(all)
}

/// Returns what `find` runs.
fn find(words: &[Word]) -> Vec<Inner> {
    let mut found = Vec::new();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += 1;
        let runs_program = matches!(word.literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir"));
        if *word == Word::unknown() {
            found.push(Inner::Opaque);
        }
        if !runs_program {
            continue;
        }
        let rest = words.get(at..).unwrap_or_default();
        let end = rest.iter().position(|w| matches!(w.literal(), Some(";" | "+")));
        let inner = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        at += inner.len();
        if !inner.is_empty() {
            found.push(Inner::Words(inner.iter().map(|w| replaced(w, "{}")).collect(), None));
        }
    }
    found
}
