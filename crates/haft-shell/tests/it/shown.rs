//! Formats parsed commands, one short line each.

use haft_shell::{RedirectKind, SimpleCommand, Word, WordPiece};

/// Formats a word: an unknown part is `…`, an empty word is `''`.
pub(crate) fn word(word: &Word) -> String {
    if word.pieces.is_empty() {
        return "''".to_owned();
    }
    let piece = |piece: &WordPiece| match piece {
        WordPiece::Text(text) => text.replace('\n', "⏎").replace('\t', "⇥"),
        WordPiece::Unknown => "…".to_owned(),
    };
    word.pieces.iter().map(piece).collect()
}

/// Formats a command: assignments, words between bars, redirections.
pub(crate) fn command(command: &SimpleCommand) -> String {
    let mut line = Vec::new();
    for assignment in &command.assignments {
        line.push(format!("{}={}", assignment.name, word(&assignment.value)));
    }
    if !command.words.is_empty() {
        line.push(command.words.iter().map(word).collect::<Vec<_>>().join("|"));
    }
    for redirect in &command.redirects {
        let kind = match redirect.kind {
            RedirectKind::Read => "read",
            RedirectKind::Write => "write",
            RedirectKind::ReadWrite => "both",
            RedirectKind::Duplicate => "dup",
            RedirectKind::Here => "here",
        };
        line.push(format!("({kind} {})", word(&redirect.target)));
    }
    line.join(" ")
}
