//! The grammars of read-only commands, one file for each family.
//!
//! To add a command: read its whole manual. If no option writes, starts a program or uses the
//! network, it is `lenient`; list its options. If some do, it is `strict`; list the others, and
//! consider what an operand can do. If a list is not enough, write a check in `special`.
//!
//! git is not listed: its configuration can name programs for nearly everything. Neither are
//! programs that download before they answer, such as `cargo --version` or `go version`.

mod builtins;
mod text;
mod files;
mod search;
mod archives;
mod system;

use super::Grammar;

/// All families.
const FAMILIES: [&[Grammar]; 6] =
    [builtins::TABLE, text::TABLE, files::TABLE, search::TABLE, archives::TABLE, system::TABLE];

/// Returns the grammar of a command of this name.
pub(crate) fn of(name: &str) -> Option<&'static Grammar> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|grammar| grammar.is_of(name))
}

/// Programs that may do anything, but only print their version with this single word.
const VERSION_OPTIONS: [(&str, &str); 5] = [
    (
        "python python3 perl ruby node gcc g++ cc clang clang++ make gmake cmake ninja bash zsh vim \
         nvim nano emacs curl wget docker podman php lua gdb ld as java javac sqlite3 ffmpeg openssl \
         psql mysql rsync stdbuf screen pandoc R",
        "--version",
    ),
    ("python python3 ssh", "-V"),
    ("java javac ffmpeg ffprobe sqlite3", "-version"),
    ("node perl ruby php gcc g++ clang lua", "-v"),
    ("openssl", "version"),
];

/// Returns whether a command with this single word only prints its help or version.
pub(crate) fn only_prints_version(name: &str, word: &str) -> bool {
    let known = of(name).is_some() || matches!(name, "find" | "xargs" | "timeout" | "nice" | "env");
    let takes_long = !matches!(name, "echo" | "printf" | "[" | "[[" | "((" | "kill" | "test");
    if known && takes_long && matches!(word, "--version" | "--help") {
        return true;
    }
    VERSION_OPTIONS
        .iter()
        .any(|(names, own)| *own == word && names.split_whitespace().any(|n| n == name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_and_every_option_is_listed_once() {
        let mut names = HashSet::new();
        for grammar in FAMILIES.into_iter().flatten() {
            for name in grammar.names.split(' ') {
                assert!(!name.is_empty() && names.insert(name), "{name:?} in {}", grammar.names);
            }
            let mut letters = HashSet::new();
            for letter in grammar.short.chars().filter(|c| *c != ':') {
                assert!(letter.is_ascii_graphic() && letter != '-', "{}", grammar.names);
                assert!(letters.insert(letter), "{letter} of {}", grammar.names);
            }
            let mut long = HashSet::new();
            for option in grammar.long.split_whitespace() {
                assert!(
                    long.insert(option.trim_end_matches(['=', '?'])),
                    "{option} of {}",
                    grammar.names
                );
            }
        }
        assert!(names.len() > 150, "{}", names.len());
    }

    #[test]
    fn programs_that_can_start_anything_have_no_grammar() {
        for name in [
            "git", "python3", "perl", "ruby", "node", "make", "cargo", "go", "npm", "eval",
            "source", ".", "exec", "trap", "alias", "sudo", "ssh", "curl", "wget", "dc", "ed",
            "vi", "ldd", "rm", "cp", "mv", "tee2", "dd", "split", "csplit", "install", "touch",
            "nohup", "setsid", "busybox", "declare2", "unset",
        ] {
            assert!(of(name).is_none(), "{name}");
        }
    }
}
