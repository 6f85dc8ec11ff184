//! The grammars of the commands that are known to only read, one file for each family.
//!
//! To add a command: read its manual to the end. If no option of it writes, starts or reaches
//! anything, it is `tame`; list its options. If some do, it is `wary`; list the others, and think of
//! what an operand can do. If that takes more than a list, write a checker in `special`.
//!
//! git is not here: its configuration can name programs for nearly everything it does. Neither are
//! programs that fetch what they need before they answer, such as `cargo --version` or `go version`.

mod builtins;
mod text;
mod files;
mod search;
mod archives;
mod system;

use super::grammar::Grammar;

/// All families.
const FAMILIES: [&[Grammar]; 6] =
    [builtins::TABLE, text::TABLE, files::TABLE, search::TABLE, archives::TABLE, system::TABLE];

/// Returns the grammar of a command of this name.
pub(super) fn of(name: &str) -> Option<&'static Grammar> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|grammar| grammar.is_of(name))
}

/// Programs that may do anything, but with this one word only tell their version.
const TELLERS: [(&str, &str); 5] = [
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

/// Returns whether a command with this one word only tells about itself.
pub(super) fn only_tells(name: &str, word: &str) -> bool {
    let known = of(name).is_some() || matches!(name, "find" | "xargs" | "timeout" | "nice" | "env");
    let takes_long = !matches!(name, "echo" | "printf" | "[" | "[[" | "((" | "kill" | "test");
    if known && takes_long && matches!(word, "--version" | "--help") {
        return true;
    }
    TELLERS.iter().any(|(names, own)| *own == word && names.split_whitespace().any(|n| n == name))
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
    fn what_can_start_anything_has_no_grammar() {
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
