//! Files that a command names as arguments: `cat .env`, `cp a b`.
//!
//! Only restricting rules use this: a deny of a path also applies to the usual commands that read
//! or write files. No allow relies on it. It is best effort, because only the program knows what it
//! does with its arguments; the sandbox is the boundary.

use haft_core::Operation;
use haft_shell::{JqWords, SimpleCommand, Word, WordPiece, Wrappers, jq_words};

/// Programs that read the files they are given.
const READERS: &[&str] = &[
    "awk",
    "base32",
    "base64",
    "bat",
    "cat",
    "cmp",
    "column",
    "comm",
    "cp",
    "csplit",
    "cut",
    "diff",
    "egrep",
    "expand",
    "fgrep",
    "file",
    "fmt",
    "fold",
    "gawk",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "hexdump",
    "install",
    "join",
    "jq",
    "less",
    "ln",
    "md5sum",
    "more",
    "mv",
    "nl",
    "od",
    "paste",
    "pr",
    "rev",
    "rg",
    "rsync",
    "scp",
    "sed",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shred",
    "shuf",
    "sort",
    "source",
    "split",
    "strings",
    "tac",
    "tail",
    "tar",
    "tr",
    "uniq",
    "wc",
    "xxd",
    "yq",
    "zcat",
    "zip",
    ".",
];
/// Programs that write the files they are given.
const WRITERS: &[&str] = &[
    "chattr", "chgrp", "chmod", "chown", "cp", "dd", "gunzip", "gzip", "install", "ln", "mkdir",
    "mv", "patch", "rm", "rmdir", "rsync", "scp", "shred", "split", "tee", "touch", "truncate",
    "unlink",
];

/// A file that a command names, or may name.
pub(super) enum NamedFile {
    /// This path.
    Path(Operation, String),
    /// A path with this prefix.
    Beginning(Operation, String),
    /// What a word with globs expands to.
    Expanded(Operation, Word),
    /// Only a running shell knows which.
    Unknown(Operation),
}

/// Returns the files that a command names, also behind wrappers.
pub(super) fn named_files(command: &SimpleCommand) -> Vec<NamedFile> {
    let mut found = Vec::new();
    if command.may_wrap(Wrappers::All) {
        let views = command.unwrapped(Wrappers::All);
        views.iter().for_each(|view| look(&view.command, &mut found));
        if let [_, _] = &*views
            && let Some(directories) = searched(command)
        {
            found = found.into_iter().flat_map(|file| below(file, &directories)).collect();
        }
    } else {
        look(command, &mut found)
    }
    found
}

/// Returns where a `find` of known words searches.
fn searched(command: &SimpleCommand) -> Option<Vec<&str>> {
    let words: Vec<&str> = command.words.iter().map(Word::literal).collect::<Option<_>>()?;
    let (first, rest) = words.split_first()?;
    let is_search = first.rsplit('/').next() == Some("find");
    // `-execdir` starts in the directory of each file, and a list of files may name any.
    let is_other = |word: &&str| matches!(*word, "-execdir" | "-okdir" | "-files0-from" | "-L");
    if !is_search || rest.iter().any(is_other) {
        return None;
    }
    let begins = |word: &&str| word.starts_with('-') || matches!(*word, "(" | ")" | "!" | ",");
    let directories: Vec<&str> = rest.iter().copied().take_while(|word| !begins(word)).collect();
    Some(if directories.is_empty() { vec!["."] } else { directories })
}

/// What `find` passes on is below the directories that it searches.
fn below(file: NamedFile, directories: &[&str]) -> Vec<NamedFile> {
    match file {
        NamedFile::Unknown(operation) => {
            let begin = |directory: &&str| {
                NamedFile::Beginning(operation, format!("{}/", directory.trim_end_matches('/')))
            };
            directories.iter().map(begin).collect()
        }
        other => vec![other],
    }
}

fn look(command: &SimpleCommand, found: &mut Vec<NamedFile>) {
    let Some(program) = command.words.first().and_then(Word::literal) else { return };
    let name = program.rsplit('/').next().unwrap_or(program);
    let edits = name == "sed" && command.words.iter().any(|word| starts_with(word, "-i"));
    let reads = READERS.contains(&name);
    let writes = WRITERS.contains(&name) || edits;
    for operation in [(reads, Operation::Read), (writes, Operation::Write)] {
        let (true, operation) = operation else { continue };
        let known = if name == "jq" { jq_words(&command.words) } else { None };
        for (at, word) in command.words.iter().enumerate().skip(1) {
            if name == "jq" && !may_be_jq_file(at, word, known.as_ref()) {
                continue;
            }
            found.extend(mention(word, operation));
        }
    }
}

/// Returns whether a word of a `jq` command may be a file. If it is not clear which word is the
/// filter, only `.` is known not to be one.
fn may_be_jq_file(at: usize, word: &Word, known: Option<&JqWords>) -> bool {
    match known {
        Some(known) => known.files.contains(&at),
        None => word.literal() != Some("."),
    }
}

/// Returns the file that a word names.
pub(super) fn mention(word: &Word, operation: Operation) -> Option<NamedFile> {
    match word.literal() {
        // `--file=a`, `if=a` and `-fa` name a file after a prefix.
        Some(text) if text.starts_with('-') || text.contains('=') => {
            let value = text.split_once('=').map(|(_, value)| value);
            let value = value.or_else(|| text.get(2..).filter(|_| !text.starts_with("--")))?;
            (!value.is_empty()).then(|| NamedFile::Path(operation, value.to_owned()))
        }
        Some("") => None,
        Some(text) => Some(NamedFile::Path(operation, text.to_owned())),
        None if word.expands_to.is_some() => Some(NamedFile::Expanded(operation, word.clone())),
        None => match word.pieces.first() {
            Some(WordPiece::Text(text)) if text.starts_with('-') => None,
            Some(WordPiece::Text(text)) => Some(NamedFile::Beginning(operation, text.clone())),
            _ => Some(NamedFile::Unknown(operation)),
        },
    }
}

/// Returns the known text that an unknown word starts with.
pub(super) fn beginning(word: &Word) -> Option<&str> {
    match word.pieces.first() {
        Some(WordPiece::Text(text)) => Some(text),
        _ => None,
    }
}

fn starts_with(word: &Word, text: &str) -> bool {
    matches!(word.pieces.first(), Some(WordPiece::Text(first)) if first.starts_with(text))
}
