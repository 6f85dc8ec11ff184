//! Additional checks of pattern matches: whether a match is a value and not code, and where a
//! private key ends.
//!
//! Pure: bytes in, an answer out.

use super::pattern_rule::{Found, is_word};

/// Keys are random: long text without a digit is prose.
pub(super) fn has_digit(found: &Found<'_>) -> bool {
    found.value.iter().any(u8::is_ascii_digit)
}

/// Ordinary words have neither digits nor signs, apart from punctuation.
pub(super) fn has_digit_or_sign(found: &Found<'_>) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphabetic() || b".,;:!?'\")-&".contains(b);
    !found.value.iter().all(is_plain)
}

/// Words of sentences: a text with one of them is a message and not a passphrase.
const SENTENCE_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "cannot", "do", "does", "enter",
    "for", "from", "has", "have", "if", "in", "invalid", "is", "it", "least", "may", "must", "new",
    "no", "not", "of", "on", "or", "over", "please", "required", "see", "should", "so", "that",
    "the", "their", "this", "to", "too", "use", "used", "was", "were", "when", "will", "with",
    "wrong", "you", "your",
];

/// Whether a quoted text with blanks looks like a passphrase, and not like a sentence. Without a
/// digit or a sign it needs four words, unless its name says that it is a passphrase.
pub(super) fn is_passphrase(value: &[u8], is_named_passphrase: bool) -> bool {
    let is_punctuation = |b: u8| b".,;:!?'-".contains(&b);
    let is_sentence_word = |word: &[u8]| {
        let end = word.iter().rposition(|b| !is_punctuation(*b)).map_or(0, |last| last + 1);
        let word = word.get(..end).unwrap_or_default();
        // One letter is a word of a sentence only at its start.
        word.len() > 1
            && SENTENCE_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
    };
    let holds = |name: &[u8]| value.windows(name.len()).any(|w| w.eq_ignore_ascii_case(name));
    let is_trimmed = value.trim_ascii().len() == value.len();
    let words = value.split(|b| *b == b' ').filter(|word| !word.is_empty()).count();
    let has_sign =
        value.iter().any(|b| !b.is_ascii_alphabetic() && *b != b' ' && !is_punctuation(*b));
    value.len() >= 8
        && words > 1
        && is_trimmed
        && !value.split(|b| *b == b' ').any(is_sentence_word)
        && ![&b"password"[..], b"passphrase", b"secret", b"token"].iter().any(|name| holds(name))
        && (has_sign || words >= 4 || is_named_passphrase)
}

/// Whether an assigned text looks like a value, and not like code, a type or a placeholder.
pub(super) fn assigned(found: &Found<'_>) -> bool {
    let value = found.value;
    if found.next == Some(b'(') || (found.next == Some(b'[') && !found.is_quoted) {
        return false;
    }
    is_value(value, found.is_quoted)
}

/// Whether a text assigned to a secret-like name looks like a secret.
pub(super) fn is_value(value: &[u8], is_quoted: bool) -> bool {
    let has = |what: fn(&u8) -> bool| value.iter().any(what);
    let digit = has(u8::is_ascii_digit);
    let letter = has(u8::is_ascii_alphabetic);
    let odd = value.iter().any(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'_' | b'-' | b'.'));
    let same = value.windows(2).all(|pair| pair.first() == pair.last());
    let reference =
        [&b"$"[..], b"%", b"secret://", b"env:", b"vault:", b"http://", b"https://", b"./", b"/"]
            .iter()
            .any(|start| value.starts_with(start));
    if value.len() < 6 || same || reference {
        return false;
    }
    // `user_password`, `config.api_key2`: the name of a value rather than the value.
    let named = |word: &[u8]| value.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    let is_path = value.split(|b| *b == b'.').all(|part| {
        part.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
            && part.iter().all(|b| is_word(*b))
    });
    if is_path
        && (value.contains(&b'.')
            || [&b"password"[..], b"passwd", b"secret", b"token", b"_key"].iter().any(|w| named(w)))
    {
        return false;
    }
    if is_quoted { digit || odd || value.len() >= 16 } else { digit && letter }
}

/// Where a private key ends: at its END line, or where it no longer looks like a key.
pub(super) fn private_key(stretch: &[u8], head: usize) -> Option<usize> {
    let body = stretch.get(head..)?;
    if let Some(end) = memchr::memmem::find(body, b"-----END") {
        let rest = body.get(end + 8..)?;
        let line = rest.iter().take(64).position(|b| *b == b'-').unwrap_or(0);
        let dashes = rest.get(line..)?.iter().take(5).take_while(|b| **b == b'-').count();
        return Some(head + end + 8 + line + dashes);
    }
    // FAIL CLOSED: a truncated key is still most of a key.
    truncated_key(body).map(|end| head + end)
}

/// Where a private key without an END line ends. Its lines may be numbered, indented or quoted, and
/// headers such as `DEK-Info: …` may come first.
fn truncated_key(body: &[u8]) -> Option<usize> {
    let is_key = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\\');
    let is_margin = |b: &u8| b.is_ascii_digit() || matches!(b, b' ' | b'\t' | b'|' | b'>' | b':');
    let (mut at, mut end, mut found) = (0, 0, 0);
    for line in body.split_inclusive(|b| *b == b'\n') {
        let text = line.trim_ascii_end();
        let margin = text.iter().take_while(|b| is_margin(b)).count();
        let content = text.get(margin..).unwrap_or_default();
        let run = content.iter().take_while(|b| is_key(b)).count();
        if run == content.len() {
            found += text.iter().filter(|b| is_key(b)).count();
            end = if text.is_empty() { end } else { at + text.len() };
        } else if !is_header(content, line.ends_with(b"\n")) {
            // The key may end inside a line of other text.
            if run >= 32 || at == 0 {
                found += run;
                end = at + margin + run;
            }
            break;
        }
        at += line.len();
    }
    (found >= 32).then_some(end)
}

/// Whether a line is a header of a key: `Proc-Type: 4,ENCRYPTED`, or the start of one.
fn is_header(line: &[u8], is_whole: bool) -> bool {
    let name = line.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'-').count();
    name > 0 && line.get(name).map_or(!is_whole, |b| *b == b':')
}
