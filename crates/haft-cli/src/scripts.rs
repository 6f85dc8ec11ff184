//! Which script a hook runs, where that is a file of the project: trust covers it, and a confined
//! command cannot write it.
//!
//! In: a hook, and the directory its command starts in. Out: paths of files. Found by the words of the
//! command: the program itself, and what an interpreter is given first. What a script calls in turn is
//! not found.

use std::path::{Component, Path, PathBuf};

use haft::{Handler, HookSpec};

/// Programs that run the file or the program named behind them.
const RUNNERS: &[&str] = &[
    ".", "ash", "bash", "bun", "command", "dash", "deno", "env", "exec", "fish", "ksh", "lua",
    "nice", "node", "nohup", "perl", "php", "pwsh", "run", "ruby", "sh", "source", "sudo", "time",
    "timeout", "ts-node", "tsx", "uv", "xargs", "zsh",
];

/// Returns the files that a hook of a project runs.
pub(crate) fn of(hook: &HookSpec, project: &Path) -> Vec<PathBuf> {
    let directory = hook.directory.as_deref().unwrap_or(project);
    let Handler::Command { command, args } = &hook.handler else { return Vec::new() };
    let commands: Vec<Vec<String>> = match args {
        Some(args) => vec![std::iter::once(command).chain(args).cloned().collect()],
        None => command.split([';', '|', '&', '(', ')', '`', '\n']).map(words).collect(),
    };
    let mut found = Vec::new();
    for words in commands {
        if let Some(script) = script(&words, directory)
            && !found.contains(&script)
        {
            found.push(script);
        }
    }
    found
}

/// Splits a simple command, without its quotes.
fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(|word| word.replace(['"', '\'', '\\'], "")).collect()
}

/// The file that a simple command runs, if there is one.
fn script(words: &[String], directory: &Path) -> Option<PathBuf> {
    for word in words {
        let is_setting = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        if word.starts_with('-') || is_setting || word.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let path = path(word, directory);
        if path.metadata().is_ok_and(|found| found.is_file()) && path.starts_with("/") {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // An interpreter by its whole path runs what comes behind it.
            if !(Path::new(word).is_absolute() && is_runner(name)) {
                return Some(path);
            }
        } else if !is_runner(word) {
            // It names a file that is not there: it must not appear later, or it was deleted.
            let is_missing = word.contains('/') && path.symlink_metadata().is_err();
            return is_missing.then_some(path);
        }
    }
    None
}

fn is_runner(name: &str) -> bool {
    RUNNERS.contains(&name) || name.starts_with("python")
}

/// Where a word leads: from the directory, with the variables that name it, without `.` and `..`.
fn path(word: &str, directory: &Path) -> PathBuf {
    let mut word = word.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "HAFT_PROJECT_DIR"] {
        for variable in [format!("${{{name}}}"), format!("${name}")] {
            word = word.replace(&variable, &directory.display().to_string());
        }
    }
    let mut path = PathBuf::new();
    for part in directory.join(word).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_a_hook_is_found_and_its_arguments_are_not() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = |command: &str| {
            let handler = Handler::Command { command: command.to_owned(), args: None };
            let found = of(&HookSpec::new("PreToolUse", handler), here);
            let shown = found.iter().map(|path| path.strip_prefix(here).unwrap_or(path));
            shown.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        for (command, script) in [
            ("./Cargo.toml", "Cargo.toml"),
            ("src/main.rs --fast", "src/main.rs"),
            ("sh Cargo.toml src/main.rs", "Cargo.toml"),
            ("/usr/bin/env python3 -u src/main.rs", "src/main.rs"),
            ("\"$CLAUDE_PROJECT_DIR\"/src/main.rs", "src/main.rs"),
            ("${HAFT_PROJECT_DIR}/src/../Cargo.toml", "Cargo.toml"),
            ("A=1 timeout 5 bash -e 'Cargo.toml'", "Cargo.toml"),
            ("true && ./Cargo.toml | sh src/main.rs", "Cargo.toml src/main.rs"),
            ("cat Cargo.toml", ""),
            ("echo x >> Cargo.toml", ""),
            ("./nothing", "nothing"),
            ("sh nothing Cargo.toml", ""),
        ] {
            assert_eq!(found(command), script, "{command}");
        }
    }
}
