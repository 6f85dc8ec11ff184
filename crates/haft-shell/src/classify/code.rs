//! Extracts the code that one command runs, as far as its words show.
//!
//! In: a simple command without wrappers. Out: program texts, script files, or that the program is
//! read from stdin; and helper predicates for `flow`.

use crate::{
    Redirect, RedirectKind, SimpleCommand, Word, WordPiece, Wrappers,
    interpreters::{self, Language, Program},
    wrappers::{self, Inner, programs::as_shell_text},
};

/// Code that a command runs.
pub(super) enum Code {
    /// A text in a language.
    Text(Language, Word),
    /// The contents of a file.
    File(Word),
    /// Read from stdin.
    Input(Language),
    /// Run by an interpreter among its words; it is unknown which one.
    Opaque,
}

/// Returns whether a word hides which program runs. A known program name in an unknown directory is
/// not hidden, unless the script builds the directory part.
pub(super) fn hides_program_name(word: &Word, is_made: bool) -> bool {
    match &*word.pieces {
        [WordPiece::Unknown, WordPiece::Text(rest)] if !is_made => {
            !rest.starts_with('/') || rest.ends_with('/')
        }
        _ => word.has_unknown(),
    }
}

/// Returns the word that a wrapper runs as a command, if that word is known only at run time.
pub(super) fn wrapped_word(command: &SimpleCommand) -> Option<&Word> {
    let name = command.words.first()?.literal()?;
    if !wrappers::has_no_operands(name) {
        return None;
    }
    let mut at = 1;
    while let Some(option) = command.words.get(at)?.literal().filter(|text| text.starts_with('-')) {
        if wrappers::may_take_value(name, option) {
            return None;
        }
        at += 1;
    }
    let at = if name == "env" || name == "sudo" {
        wrappers::after_assignments(&command.words, at)
    } else {
        at
    };
    command.words.get(at).filter(|word| word.has_unknown())
}

/// Returns the code that a command runs.
pub(super) fn codes(command: &SimpleCommand) -> Vec<Code> {
    let Some(name) = command.words.first().and_then(Word::literal) else { return Vec::new() };
    if name.contains('/') {
        return Vec::new(); // checked without its directory
    }
    if let Some(runs) = interpreters::of(command) {
        let code = |program: Program| match program {
            Program::Text(text) => Some(Code::Text(runs.language, text)),
            Program::File { file, .. } => Some(Code::File(file)),
            Program::Input => Some(Code::Input(runs.language)),
            Program::Module { .. } => None,
        };
        return runs.programs.into_iter().filter_map(code).collect();
    }
    let word = |n: usize| command.words.get(n).and_then(Word::literal);
    match name {
        "source" | "." => {
            let code = |file: &Word| match file.literal() {
                Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") => {
                    Code::Input(Language::Shell)
                }
                _ => Code::File(file.clone()),
            };
            return command.words.get(1).map(code).into_iter().collect();
        }
        "make" | "gmake" => return makefiles(&command.words),
        "at" | "batch" => return vec![Code::Input(Language::Shell)],
        "crontab" if word(1) == Some("-") => return vec![Code::Input(Language::Shell)],
        "crontab" => return command.words.get(1).cloned().map(Code::File).into_iter().collect(),
        _ => {}
    }
    let inner = wrappers::inner(name, command, Wrappers::All).into_iter();
    inner
        .filter_map(|inner| match inner {
            Inner::Text(words) => Some(Code::Text(Language::Shell, joined(&words))),
            Inner::Input => Some(Code::Input(Language::Shell)),
            Inner::Opaque => names_an_interpreter(command).then_some(Code::Opaque),
            Inner::Rest(_) | Inner::Words(..) => None,
        })
        .collect()
}

/// Returns the makefiles named by the words of `make`. A makefile contains commands.
fn makefiles(words: &[Word]) -> Vec<Code> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate().skip(1) {
        let Some(WordPiece::Text(text)) = word.pieces.first() else { continue };
        let behind = if text.starts_with("--f") || text.starts_with("--mak") {
            text.find('=').map_or(text.len(), |equals| equals + 1)
        } else if text.starts_with('-') && !text.starts_with("--") {
            let Some(letter) = text.find('f') else { continue };
            letter + 1
        } else {
            continue;
        };
        let attached = interpreters::without_prefix(word, behind);
        let file =
            if attached.pieces.is_empty() { words.get(at + 1).cloned() } else { Some(attached) };
        found.extend(file.map(|file| match file.literal() {
            Some("-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") => {
                Code::Input(Language::Other)
            }
            _ => Code::File(file),
        }));
    }
    found
}

/// Returns whether a command has an interpreter among its words.
fn names_an_interpreter(command: &SimpleCommand) -> bool {
    let alone =
        |word: &Word| SimpleCommand { words: vec![word.clone()], ..SimpleCommand::default() };
    command.words.iter().skip(1).any(|word| interpreters::of(&alone(word)).is_some())
}

/// Joins words with spaces.
fn joined(words: &[Word]) -> Word {
    let mut pieces = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            pieces.push(WordPiece::Text(" ".to_owned()));
        }
        pieces.extend(word.pieces.iter().cloned());
    }
    Word { pieces, may_be_option: true, ..Word::default() }
}

/// Returns whether a command stores its input in variables, or reads it in place of the shell.
pub(super) fn keeps_input(command: &SimpleCommand) -> bool {
    let name = command.words.first().and_then(Word::literal);
    matches!(
        name,
        Some(
            "read"
                | "mapfile"
                | "readarray"
                | "exec"
                | "export"
                | "declare"
                | "typeset"
                | "local"
                | "readonly"
                | "set"
                | "printf"
        )
    )
}

/// Returns whether a redirection replaces stdin.
pub(super) fn is_input(redirect: &Redirect) -> bool {
    match redirect.kind {
        RedirectKind::Here | RedirectKind::Read | RedirectKind::ReadWrite => true,
        RedirectKind::Duplicate => !matches!(redirect.target.literal(), Some("1" | "2" | "-")),
        RedirectKind::Write => false,
    }
}

/// Returns whether a command only prints named files.
pub(super) fn prints_files(command: &SimpleCommand) -> bool {
    let words = command.words.get(1..).unwrap_or_default();
    let is_text = |redirect: &Redirect| redirect.kind == RedirectKind::Here;
    command.words.first().and_then(Word::literal) == Some("cat")
        && !command.redirects.iter().any(is_text)
        && words.iter().all(|word| word.literal().is_some_and(|text| !text.starts_with("/dev/")))
}

/// Returns what a command prints, if its words determine it.
pub(super) fn printed(command: &SimpleCommand) -> Option<String> {
    let words = command.words.get(1..).unwrap_or_default();
    let text = as_shell_text(&joined(words));
    match command.words.first().and_then(Word::literal)? {
        "echo" if !text.contains('\\') => {
            let rest = text.strip_prefix("-n ").unwrap_or(&text);
            (!rest.starts_with('-')).then(|| rest.to_owned())
        }
        "printf" => match words {
            [format] => {
                let text = as_shell_text(format).replace("\\n", "\n");
                (!text.contains(['\\', '%'])).then_some(text)
            }
            [format, text] if matches!(format.literal(), Some("%s" | "%s\\n")) => {
                Some(as_shell_text(text))
            }
            _ => None,
        },
        "cat" if words.is_empty() => match &*command.redirects {
            [one] if one.kind == RedirectKind::Here => Some(as_shell_text(&one.target)),
            _ => None,
        },
        "true" | ":" => Some(String::new()),
        _ => None,
    }
}

/// Returns whether a program in another language fetches and runs code, judged by its text.
pub(super) fn fetches_and_runs(text: &str) -> bool {
    let fetches =
        ["http://", "https://", "ftp://", "urlopen", "requests.get", "socket", "curl ", "wget "];
    let runs =
        ["exec(", "eval(", "eval ", "system(", "popen", "subprocess", "spawn", "instance_eval"];
    fetches.iter().any(|own| text.contains(own)) && runs.iter().any(|own| text.contains(own))
}

/// Returns the kernel file that a program in another language names, judged by its text.
pub(super) fn kernel_file(text: &str) -> Option<&'static str> {
    let files = ["/proc/sysrq-trigger", "/proc/sys/", "/dev/mem", "/dev/sd", "/dev/nvme"];
    files.into_iter().find(|file| text.contains(file))
}

/// Returns whether a program connects a socket to a shell (reverse shell): `nc -e /bin/sh`, `socat
/// … EXEC:sh`.
pub(super) fn is_reverse_shell(command: &SimpleCommand) -> bool {
    let Some(name) = command.words.first().and_then(Word::literal) else { return false };
    let words = command.words.iter().skip(1).filter_map(Word::literal);
    let given = |text: &str| match name {
        "nc" | "ncat" | "netcat" => {
            let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            letters.is_some_and(|letters| letters.contains(['e', 'c']))
                || text.starts_with("--exec")
                || text.starts_with("--sh-exec")
                || text.starts_with("--lua-exec")
        }
        "socat" => {
            let text = text.to_ascii_lowercase();
            text.starts_with("exec:") || text.starts_with("system:") || text.starts_with("shell:")
        }
        _ => false,
    };
    words.into_iter().any(given)
}

/// Programs that start a command elsewhere: in a container or an environment.
const REMOTE_STARTERS: &str = "docker podman nerdctl docker-compose podman-compose kubectl oc lxc incus vagrant \
    poetry uv pipenv conda mamba bundle npx pnpm yarn npm nix nix-shell rustup mise asdf direnv heroku \
    fly flyctl gcloud az tmux screen";

/// Returns the interpreters among the words of such a program, each with the words after it:
/// `docker exec -i box sh`.
pub(super) fn hosted_interpreters(command: &SimpleCommand) -> Vec<SimpleCommand> {
    let name = command.words.first().and_then(Word::literal).unwrap_or_default();
    if !REMOTE_STARTERS.split_whitespace().any(|own| own == name) {
        return Vec::new();
    }
    let view = |at: usize| {
        let words = command.words.get(at..)?.to_vec();
        let view = SimpleCommand {
            words,
            redirects: command.redirects.clone(),
            ..SimpleCommand::default()
        };
        interpreters::of(&view).map(|_| view)
    };
    (1..command.words.len()).filter_map(view).collect()
}

/// Returns whether a script is named by an open file descriptor.
pub(super) fn is_descriptor(file: &Word) -> bool {
    file.literal().is_some_and(|text| {
        text.starts_with("/dev/fd/") || text.starts_with("/proc/self/fd/") || text == "/dev/stdin"
    })
}
