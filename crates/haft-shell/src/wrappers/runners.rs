//! Rare commands that start others, and what git can start.
//!
//! Without options the rest is the command. With options its start is unknown, and the result is
//! opaque.

use crate::{Word, wrappers::Inner};

/// Runners, and the number of operands before the command.
const RUNNERS: [(&str, usize); 33] = [
    ("chroot", 1),
    ("nsenter", 0),
    ("unshare", 0),
    ("strace", 0),
    ("ltrace", 0),
    ("pkexec", 0),
    ("run0", 0),
    ("systemd-run", 0),
    ("systemd-inhibit", 0),
    ("taskset", 1),
    ("chrt", 1),
    ("numactl", 0),
    ("prlimit", 0),
    ("choom", 0),
    ("setarch", 1),
    ("linux32", 0),
    ("linux64", 0),
    ("i386", 0),
    ("x86_64", 0),
    ("arch", 0),
    ("setpriv", 0),
    ("runcon", 1),
    ("fakeroot", 0),
    ("proot", 0),
    ("firejail", 0),
    ("bwrap", 0),
    ("unbuffer", 0),
    ("valgrind", 0),
    ("caffeinate", 0),
    ("dbus-run-session", 0),
    ("xvfb-run", 0),
    ("rlwrap", 0),
    ("catchsegv", 0),
];

/// Commands that start something with their own syntax.
const OPAQUE_RUNNERS: [&str; 8] =
    ["parallel", "runuser", "sg", "gdb", "lldb", "expect", "capsh", "start-stop-daemon"];

/// Shells with another grammar.
const OTHER_SHELLS: [&str; 8] =
    ["fish", "csh", "tcsh", "pwsh", "powershell", "nu", "elvish", "xonsh"];

/// Returns whether a command of this name may start another one.
pub(crate) fn is_runner(name: &str) -> bool {
    operands(name).is_some()
        || OPAQUE_RUNNERS.contains(&name)
        || OTHER_SHELLS.contains(&name)
        || is_loader(name)
        || matches!(
            name,
            "script" | "mapfile" | "readarray" | "compgen" | "complete" | "jobs" | "bind" | "fc"
        )
}

fn operands(name: &str) -> Option<usize> {
    RUNNERS.iter().find(|(own, _)| *own == name).map(|(_, operands)| *operands)
}

/// The dynamic loader, which can run programs.
fn is_loader(name: &str) -> bool {
    name == "ld.so" || name.starts_with("ld-linux") || name.starts_with("ld-musl")
}

/// Returns what such a command starts.
pub(crate) fn inner(name: &str, words: &[Word]) -> Vec<Inner> {
    if words.len() < 2 {
        // A shell without arguments reads stdin; the others have nothing to start.
        return if OTHER_SHELLS.contains(&name) { vec![Inner::Opaque] } else { Vec::new() };
    }
    let option = |letter: char| {
        words.iter().skip(1).any(|w| match w.literal() {
            Some(text) => is_option(text, letter),
            None => true,
        })
    };
    match name {
        "mapfile" | "readarray" | "complete" | "compgen" if option('C') => vec![Inner::Opaque],
        "mapfile" | "readarray" | "complete" | "compgen" => Vec::new(),
        "jobs" if option('x') => match words.get(1).and_then(Word::literal) {
            Some("-x") => vec![Inner::Rest(2)],
            _ => vec![Inner::Opaque],
        },
        "bind" if option('x') => vec![Inner::Opaque],
        "fc" if !option('l') => vec![Inner::Opaque],
        "jobs" | "bind" | "fc" => Vec::new(),
        "script" => vec![Inner::Opaque],
        name if OTHER_SHELLS.contains(&name) => {
            let file = words.get(1).and_then(Word::literal).is_some_and(|t| !t.starts_with('-'));
            if file { Vec::new() } else { vec![Inner::Opaque] }
        }
        name if OPAQUE_RUNNERS.contains(&name) => vec![Inner::Opaque],
        name => {
            let rest = 1 + operands(name).unwrap_or(0);
            let before = words.get(1..=rest).unwrap_or_else(|| words.get(1..).unwrap_or_default());
            let plain = |w: &Word| w.literal().is_some_and(|t| !t.starts_with('-'));
            if before.iter().all(plain) { vec![Inner::Rest(rest)] } else { vec![Inner::Opaque] }
        }
    }
}

fn is_option(text: &str, letter: char) -> bool {
    text.starts_with('-') && !text.starts_with("--") && text.contains(letter)
}

/// Returns whether git must be inspected: its first word is an option or a subcommand that can
/// start something.
pub(crate) fn git_may_start(words: &[Word]) -> bool {
    let Some(first) = words.get(1) else { return false };
    let Some(first) = first.literal() else { return true };
    first.starts_with('-')
        || GIT_RUNS_ARGUMENTS.contains(&first)
        || first == "bisect"
        || words.iter().skip(2).any(|w| w.literal().is_some_and(|t| starts(first, t)))
}

/// Subcommands that take commands.
const GIT_RUNS_ARGUMENTS: [&str; 2] = ["filter-branch", "submodule"];

/// Returns what a git subcommand starts. The words begin with `git` and the subcommand.
pub(crate) fn git(words: &[Word]) -> Vec<Inner> {
    let text = |n: usize| words.get(n).and_then(Word::literal);
    match (text(1), text(2)) {
        (Some("bisect"), Some("run")) => {
            vec![Inner::Words(words.get(3..).unwrap_or_default().to_vec(), None)]
        }
        (Some("submodule"), _) => {
            let each = words.iter().skip(2).any(|w| w.literal().is_none_or(|t| t == "foreach"));
            if each { vec![Inner::Opaque] } else { Vec::new() }
        }
        (Some("filter-branch"), _) => vec![Inner::Opaque],
        (Some(subcommand), _) => {
            let mut rest = words.iter().skip(2).filter_map(Word::literal);
            if rest.any(|t| starts(subcommand, t)) { vec![Inner::Opaque] } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

/// Returns whether this argument of a subcommand names something to start. Git accepts any
/// unambiguous prefix of a long option.
fn starts(subcommand: &str, text: &str) -> bool {
    const LONG_OPTIONS: [&str; 5] =
        ["exec", "upload-pack", "receive-pack", "open-files-in-pager", "extcmd"];
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        return name.len() >= 2 && LONG_OPTIONS.iter().any(|l| l.starts_with(name));
    }
    match subcommand {
        "rebase" | "difftool" => is_option(text, 'x'),
        "grep" => is_option(text, 'O'),
        "clone" => is_option(text, 'u') || text.starts_with("ext::"),
        _ => text.starts_with("ext::"),
    }
}
