//! Files that a command names as arguments: `cat .env`, `cp a b`.
//!
//! Only restricting rules use this: a deny of a path also applies to the usual commands that read
//! or write files. No allow relies on it. It is best effort, because only the program knows what it
//! does with its arguments; the sandbox is the boundary.

use haft_core::Operation;
use haft_shell::{SimpleCommand, Word, WordPiece, Wrappers};

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
    /// Only a running shell knows which.
    Unknown(Operation),
}

/// Returns the files that a command names, also behind wrappers.
pub(super) fn named_files(command: &SimpleCommand) -> Vec<NamedFile> {
    let mut found = Vec::new();
    if command.may_wrap(Wrappers::All) {
        command.unwrapped(Wrappers::All).iter().for_each(|view| look(&view.command, &mut found));
    } else {
        look(command, &mut found)
    }
    found
}

fn look(command: &SimpleCommand, found: &mut Vec<NamedFile>) {
    let Some(program) = command.words.first().and_then(Word::literal) else { return };
    let name = program.rsplit('/').next().unwrap_or(program);
    let edits = name == "sed" && command.words.iter().any(|word| starts_with(word, "-i"));
    let reads = READERS.contains(&name);
    let writes = WRITERS.contains(&name) || edits;
    for operation in [(reads, Operation::Read), (writes, Operation::Write)] {
        let (true, operation) = operation else { continue };
        for word in command.words.iter().skip(1) {
            found.extend(mention(word, operation));
        }
    }
}

fn mention(word: &Word, operation: Operation) -> Option<NamedFile> {
    match word.literal() {
        // `--file=a`, `if=a` and `-fa` name a file after a prefix.
        Some(text) if text.starts_with('-') || text.contains('=') => {
            let value = text.split_once('=').map(|(_, value)| value);
            let value = value.or_else(|| text.get(2..).filter(|_| !text.starts_with("--")))?;
            (!value.is_empty()).then(|| NamedFile::Path(operation, value.to_owned()))
        }
        Some("") => None,
        Some(text) => Some(NamedFile::Path(operation, text.to_owned())),
        None => match word.pieces.first() {
            Some(WordPiece::Text(text)) if text.starts_with('-') => None,
            Some(WordPiece::Text(text)) => Some(NamedFile::Beginning(operation, text.clone())),
            _ => Some(NamedFile::Unknown(operation)),
        },
    }
}

fn starts_with(word: &Word, text: &str) -> bool {
    matches!(word.pieces.first(), Some(WordPiece::Text(first)) if first.starts_with(text))
}
