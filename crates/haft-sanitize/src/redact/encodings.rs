//! The encoded forms of a secret: plain, base64, hex, percent-encoded, JSON-escaped.
//!
//! In: the text of a secret. Out: the distinct byte strings that reveal it. Base64 of a longer text
//! contains the secret at one of three alignments; the characters at its edges depend on adjacent
//! bytes, so they are not part of the form. No form contains invisible characters (`bare`).

use std::{borrow::Cow, sync::Arc};

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};

use super::visible_text::{Breaks, WRITTEN, bare};

/// A line of a multi-line secret is a form of its own from this many bytes on.
const MIN_LINE_BYTES: usize = 16;

/// The forms of one value. They are cached, so that adding another secret need not compute them
/// again.
pub(super) type Forms = Arc<[Arc<str>]>;

/// Returns every form of a secret, shared.
pub(super) fn shared(secret: &str) -> Forms {
    of(secret).into_iter().map(Arc::from).collect()
}

/// Returns the forms that contain blanks, with the blanks removed: a tool may wrap them into lines.
/// They are searched in text without blanks.
pub(super) fn wrapped(forms: &Forms) -> Forms {
    let has_blank = |form: &&Arc<str>| form.trim().contains(char::is_whitespace);
    let mut all: Vec<Arc<str>> = forms
        .iter()
        .filter(has_blank)
        .map(|form| form.split_whitespace().collect::<String>())
        .filter(|form| form.len() >= super::known_secrets::MIN_SECRET_BYTES)
        .map(Arc::from)
        .collect();
    all.sort();
    all.dedup();
    all.into()
}

/// Returns every form of a secret, the plain one first.
pub(super) fn of(secret: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    encode(secret, &mut all);
    // A value read from a file often ends in a line break that is not printed.
    let bare = secret.trim();
    if bare != secret && bare.len() >= super::known_secrets::MIN_SECRET_BYTES {
        encode(bare, &mut all);
    }
    // A multi-line key is often printed with a prefix on each line.
    if bare.contains('\n') {
        let lines = bare.lines().map(str::trim);
        all.extend(
            lines
                .filter(|l| l.len() >= MIN_LINE_BYTES && !l.starts_with("-----"))
                .map(str::to_owned),
        );
    }
    // They are searched in text without invisible characters, so they have none.
    for form in &mut all {
        if let Cow::Owned(text) = visible(form) {
            *form = text;
        }
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|form| seen.insert(form.clone()));
    all
}

/// Returns the visible characters of a value.
pub(super) fn visible(value: &str) -> Cow<'_, str> {
    bare(value, WRITTEN.skipping(Breaks::All), true).text
}

fn encode(secret: &str, all: &mut Vec<String>) {
    let bytes = secret.as_bytes();
    all.push(secret.to_owned());
    all.extend([HEXLOWER.encode(bytes), HEXUPPER.encode(bytes)]);
    all.extend([BASE64.encode(bytes), BASE64_NOPAD.encode(bytes)]);
    all.extend([BASE64URL.encode(bytes), BASE64URL_NOPAD.encode(bytes)]);
    for offset in 0..3 {
        let inner = aligned(bytes, offset);
        all.push(inner.replace('+', "-").replace('/', "_"));
        all.push(inner);
    }
    for (keep, space) in PERCENT_VARIANTS {
        for upper in [true, false] {
            all.push(percent(secret, keep, space, upper));
        }
    }
    let json = serde_json::to_string(secret).unwrap_or_default();
    let json = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
    all.extend([json.to_owned(), json.replace('/', "\\/"), ascii(json)]);
}

/// The base64 characters that depend only on these bytes, at this offset in a group of three.
fn aligned(bytes: &[u8], offset: usize) -> String {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let text = BASE64_NOPAD.encode(&padded);
    // Six bits each: the characters that contain only bits of the secret.
    let (first, end) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    text.get(first..end).unwrap_or_default().to_owned()
}

/// The variants of percent-encoding: which characters are kept, and how a space is encoded.
const PERCENT_VARIANTS: [(&str, &str); 4] = [
    // RFC 3986; HTML forms; `encodeURIComponent`; `encodeURI`.
    ("-._~", "%20"),
    ("-._*", "+"),
    ("-._~!*'()", "%20"),
    ("-._~!*'();/?:@&=+$,#", "%20"),
];

fn percent(text: &str, keep: &str, space: &str, upper: bool) -> String {
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match char::from(byte) {
            ' ' => out.push_str(space),
            c if c.is_ascii_alphanumeric() || keep.contains(c) => out.push(c),
            _ if upper => out.push_str(&format!("%{byte:02X}")),
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

/// JSON with all non-ASCII characters escaped.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secret_has_the_common_encoded_forms() {
        let all = of("p@ss w/ö\"d");
        for form in [
            "p@ss w/ö\"d",
            "7040737320772fc3b62264",
            "7040737320772FC3B62264",
            "cEBzcyB3L8O2ImQ=",
            "cEBzcyB3L8O2ImQ",
            "cEBzcyB3L8O2ImQ",
            "p%40ss%20w%2F%C3%B6%22d",
            "p%40ss%20w%2f%c3%b6%22d",
            "p%40ss+w%2F%C3%B6%22d",
            "p@ss%20w/%C3%B6%22d",
            "p@ss w/ö\\\"d",
            "p@ss w\\/ö\\\"d",
            "p@ss w/\\u00f6\\\"d",
        ] {
            assert!(all.iter().any(|f| f == form), "{form} is missing in {all:#?}");
        }
    }

    #[test]
    fn trailing_line_break_of_a_file_does_not_hide_a_secret() {
        assert!(of("correct horse\n").contains(&"correct horse".to_owned()));
        let key = "-----BEGIN X-----\nAAAABBBBCCCCDDDDEEEE\nff\n-----END X-----\n";
        let all = of(key);
        assert!(all.contains(&"AAAABBBBCCCCDDDDEEEE".to_owned()));
        assert!(!all.contains(&"-----BEGIN X-----".to_owned()) && !all.contains(&"ff".to_owned()));
    }

    proptest! {
        #[test]
        fn base64_of_any_text_with_a_secret_contains_one_of_its_forms(
            before in prop::collection::vec(any::<u8>(), 0..9),
            secret in "[ -~]{6,40}",
            after in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let mut whole = before;
            whole.extend_from_slice(secret.as_bytes());
            whole.extend(after);
            let all = of(&secret);
            for text in [BASE64.encode(&whole), BASE64URL_NOPAD.encode(&whole)] {
                prop_assert!(all.iter().any(|form| text.contains(form.as_str())), "{text}");
            }
        }
    }
}
