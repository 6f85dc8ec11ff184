//! Normalizes a file name as case-insensitive and lenient file systems (NTFS, HFS+, APFS) compare
//! it, so that another spelling cannot bypass a protected name.

use std::{borrow::Cow, ffi::OsStr};

/// Folds case and removes characters that some file systems ignore. A plain lower-case ASCII name
/// is borrowed.
pub(super) fn fold(name: &OsStr) -> Cow<'_, str> {
    if let Some(text) = name.to_str()
        && is_folded(text)
    {
        return Cow::Borrowed(text);
    }
    Cow::Owned(fold_text(&name.to_string_lossy()))
}

/// Whether folding would change nothing.
fn is_folded(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_plain = |b: &u8| b.is_ascii() && !b.is_ascii_uppercase() && *b != b':';
    bytes.iter().all(is_plain) && !text.ends_with(['.', ' ']) && !text.starts_with("git~")
}

fn fold_text(text: &str) -> String {
    // NTFS: `name::$INDEX_ALLOCATION` and `name:stream` are the same file.
    let text = text.split(':').next().unwrap_or_default();
    let folded: String = text
        .chars()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    let folded = folded.trim_end_matches(['.', ' ']);
    // The 8.3 short name that NTFS gives to `.git`; other names have no fixed one.
    if folded.strip_prefix("git~").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) {
        return ".git".to_owned();
    }
    folded.to_owned()
}

/// Characters that HFS+ ignores when it compares names, and other invisible characters.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}')
}
