//! Redacts secrets from everything that leaves the runtime: results, failures, events, records.
//!
//! In: a text. Out: the same with `[REDACTED:rule:len]` in place of each secret. First it searches
//! the values that the host registered, in every encoded form, then well-known key patterns. Both
//! are searched in the text without invisible characters (`bare`); such characters inside of a
//! secret are redacted with it. Text without secrets costs one scan of its bytes.
//!
//! Our own code: the scanners that exist search files for leaks. They redact no stream, and know no
//! value of the host.
//!
//! INVARIANT: redaction is idempotent, and redacting in pieces equals redacting the whole. (A known
//! secret that itself contains a square bracket may be found again at the edge of a mark.)

mod visible_text;
mod encodings;
mod mark_collisions;
mod known_secrets;
mod key_patterns;
mod assignment;
mod work_limit;
mod pattern_rule;
mod pattern_search;
mod pattern_checks;
mod stream;
mod panic_hook;

use std::borrow::Cow;

use serde_json::{Number, Value};

use self::assignment::PASSPHRASE_NAMES;
use self::visible_text::{ESCAPE, Reading, SHOWN, WRITTEN};
pub use self::{
    known_secrets::{AddSecretError, KnownSecrets},
    stream::{SanitizingRedactor, StreamRedactor},
};
use crate::sanitize::sanitize;

/// Redacts secrets. Clones share the same secrets.
///
/// ```
/// use haft_sanitize::{KnownSecrets, Redactor};
///
/// let secrets = KnownSecrets::new();
/// secrets.add("mail", "correct horse")?;
/// let redactor = Redactor::new(secrets);
/// // The value itself, its base64 form, and text that looks like a key.
/// for text in ["correct horse", "Y29ycmVjdCBob3JzZQ==", "password=hunter2x"] {
///     assert!(redactor.text(text).contains("[REDACTED:"));
/// }
/// assert_eq!(redactor.text("a brown horse"), "a brown horse");
/// # Ok::<(), haft_sanitize::AddSecretError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secrets: KnownSecrets,
}

/// Maximum depth to which data is scanned; deeper data is replaced. The argument parser has the
/// same limit.
pub const MAX_JSON_DEPTH: usize = 128;

/// The sign for a truncated value.
const ELLIPSIS: char = '…';
/// From this many characters on, the start of a secret reveals something; fewer end many words by
/// chance.
const MIN_REVEALING_BYTES: usize = 3;

/// Returns the mark that replaces a secret: the rule that found it, and its length in bytes.
#[must_use]
pub fn redaction_mark(rule: &str, len: usize) -> String {
    format!("[REDACTED:{rule}:{len}]")
}

impl Redactor {
    /// Redacts these secrets, and everything that matches a key pattern.
    #[must_use]
    pub fn new(secrets: impl Into<KnownSecrets>) -> Self {
        Self { secrets: secrets.into() }
    }

    /// Builds the search automatons, so that no call waits for them.
    pub fn prepare(&self) {
        pattern_search::prepare();
        if let Some(known) = self.secrets.known() {
            known.prepare();
        }
    }

    /// Returns whether a known secret occurs in encoded binary data, such as an image, which cannot
    /// be redacted in part.
    #[must_use]
    pub fn holds_known_secret(&self, data: &str) -> bool {
        self.secrets.known().is_some_and(|known| known.is_in(data))
    }

    /// Returns whether another redactor shares the same set of secrets.
    #[must_use]
    pub fn shares_secrets_with(&self, other: &Self) -> bool {
        self.secrets.is_same(&other.secrets)
    }

    /// Returns the secrets.
    #[must_use]
    pub fn secrets(&self) -> &KnownSecrets {
        &self.secrets
    }

    /// Returns the redacted text, borrowed if nothing changes.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // No form of a secret is shorter, and no key.
        if text.len() < known_secrets::MIN_SECRET_BYTES {
            return Cow::Borrowed(text);
        }
        let shown = self.read(text, SHOWN);
        if text.contains(ESCAPE) { then(shown, |text| self.read(text, WRITTEN)) } else { shown }
    }

    /// Returns the sanitized and redacted text, `None` if nothing changes; and how many places were
    /// sanitized.
    #[must_use]
    pub fn sanitize_and_redact(&self, text: &str) -> (Option<String>, usize) {
        // An escape sequence may swallow the first letter of a secret, and the rest would not
        // match. So text with an escape is also redacted before it is sanitized.
        let seen = if text.contains(ESCAPE) { self.text(text) } else { Cow::Borrowed(text) };
        let cleaned = sanitize(&seen);
        let altered = cleaned.stripped + cleaned.made_visible;
        let shown = match (self.text(&cleaned.text), &cleaned.text) {
            (Cow::Owned(text), _) => Some(text),
            (Cow::Borrowed(_), Cow::Owned(text)) => Some(text.clone()),
            (Cow::Borrowed(_), Cow::Borrowed(_)) => None,
        };
        (shown.or(matches!(seen, Cow::Owned(_)).then(|| seen.into_owned())), altered)
    }

    fn read<'a>(&self, text: &'a str, reading: Reading) -> Cow<'a, str> {
        let known = match self.secrets.known() {
            Some(known) => known.text(text, reading),
            None => Cow::Borrowed(text),
        };
        then(known, |text| pattern_search::text(text, reading))
    }

    /// Returns the redacted text; `None` if nothing changes.
    #[must_use]
    pub fn changed(&self, text: &str) -> Option<String> {
        match self.text(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        }
    }

    /// Returns redacted data, including keys; `None` if nothing changes. A text under a secret-like
    /// name, such as `password` or `api_key`, is replaced as a whole.
    #[must_use]
    pub fn json(&self, data: &Value) -> Option<Value> {
        // Checked first: data without secrets, the common case, is not copied.
        self.holds_secret(data, MAX_JSON_DEPTH).then(|| {
            let mut shown = data.clone();
            self.redact_data(&mut shown, MAX_JSON_DEPTH);
            shown
        })
    }

    fn holds_secret(&self, data: &Value, depth: usize) -> bool {
        match data {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => self.number(number).is_some(),
            Value::String(text) => self.changed(text).is_some(),
            _ if depth == 0 => true,
            Value::Array(items) => items.iter().any(|item| self.holds_secret(item, depth - 1)),
            Value::Object(map) => map.iter().any(|(key, value)| {
                self.secret_field(key, value).is_some()
                    || self.changed(key).is_some()
                    || self.holds_secret(value, depth - 1)
            }),
        }
    }

    fn redact_data(&self, data: &mut Value, depth: usize) {
        match data {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if let Some(shown) = self.number(number) {
                    *data = Value::String(shown);
                }
            }
            Value::String(text) => {
                if let Some(shown) = self.changed(text) {
                    *text = shown;
                }
            }
            // FAIL CLOSED: data that is not scanned is not shown.
            _ if depth == 0 => *data = Value::String(redaction_mark("too-deep", 0)),
            Value::Array(items) => {
                items.iter_mut().for_each(|item| self.redact_data(item, depth - 1));
            }
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    match self.secret_field(key, value) {
                        Some(shown) => *value = shown,
                        None => self.redact_data(value, depth - 1),
                    }
                }
                if map.keys().any(|key| self.changed(key).is_some()) {
                    let old = std::mem::take(map);
                    map.extend(
                        old.into_iter()
                            .map(|(key, value)| (self.changed(&key).unwrap_or(key), value)),
                    );
                }
            }
        }
    }

    /// Returns the redacted text of a number that is a known secret; `None` for all others. No key
    /// pattern is a number.
    #[must_use]
    pub fn number(&self, number: &Number) -> Option<String> {
        self.secrets.known().filter(|known| known.in_numbers())?;
        self.changed(&number.to_string())
    }

    /// Returns the mark for a field of JSON data whose name marks its value as secret, such as
    /// `password`; `None` otherwise.
    #[must_use]
    pub fn secret_field(&self, key: &str, value: &Value) -> Option<Value> {
        let Value::String(text) = value else { return None };
        (is_secret_name(key) && is_secret(key, text))
            .then(|| Value::String(redaction_mark("assigned", text.len())))
    }

    /// Redacts streamed text.
    #[must_use]
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self.clone())
    }

    /// Sanitizes and redacts streamed text.
    #[must_use]
    pub fn sanitizing_stream(&self) -> SanitizingRedactor {
        SanitizingRedactor::new(self)
    }

    /// Returns a redacted message whose long values were truncated with `…`; `None` if nothing
    /// changes. What may be the start of a secret before a `…` is removed.
    #[must_use]
    pub fn message(&self, text: &str) -> Option<String> {
        let Some((cut, last)) = text.rsplit_once(ELLIPSIS) else { return self.changed(text) };
        let mut out = String::with_capacity(text.len());
        for part in cut.split(ELLIPSIS) {
            let end = part.strip_suffix(' ').unwrap_or(part);
            let mut stream = self.stream();
            out += &stream.feed(end);
            if stream.buffered() < MIN_REVEALING_BYTES {
                out += &stream.finish();
            }
            out += &part[end.len()..];
            out.push(ELLIPSIS);
        }
        out += &self.text(last);
        // A secret may contain the sign itself.
        let whole = self.changed(&out).unwrap_or(out);
        (whole != text).then_some(whole)
    }
}

/// Applies a second change to a text that may already be changed.
fn then<'a>(text: Cow<'a, str>, change: impl Fn(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    match change(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(changed) => Cow::Owned(changed),
    }
}

/// Whether a name marks its value as secret; case, `_` and `-` are ignored.
fn is_secret_name(key: &str) -> bool {
    const NAME_ENDINGS: &[&str] = &[
        "password",
        "passwd",
        "passphrase",
        "apikey",
        "secret",
        "secretkey",
        "accesskey",
        "privatekey",
        "authorization",
        "accesstoken",
        "authtoken",
        "refreshtoken",
        "apitoken",
        "sessiontoken",
        "bottoken",
        "oauthtoken",
        "privatetoken",
        "securitytoken",
    ];
    const WHOLE_NAMES: &[&str] = &["token", "pwd", "bearer", "idtoken"];
    let back = || key.bytes().rev().filter(|b| !matches!(b, b'_' | b'-'));
    let ends = |word: &str| {
        let mut own = back();
        word.bytes().rev().all(|b| own.next().is_some_and(|own| own.to_ascii_lowercase() == b))
    };
    let whole = |word: &str| ends(word) && back().count() == word.len();
    // The last letter decides it for nearly every name.
    let last = back().next().map(|b| b.to_ascii_lowercase());
    matches!(last, Some(b'd' | b'e' | b'y' | b't' | b'n' | b'r'))
        && (NAME_ENDINGS.iter().any(|word| ends(word))
            || WHOLE_NAMES.iter().any(|word| whole(word)))
}

/// Whether a text under a secret-like name is a secret, and not a mark, a placeholder or prose.
fn is_secret(key: &str, text: &str) -> bool {
    if text.starts_with(['<', '{', '[']) {
        return false;
    }
    if !text.contains(char::is_whitespace) {
        return pattern_checks::is_value(text.as_bytes(), true);
    }
    let key = key.to_ascii_lowercase();
    let may_have_blanks = PASSPHRASE_NAMES.iter().any(|name| key.ends_with(name));
    may_have_blanks && pattern_checks::is_passphrase(text.as_bytes(), key.ends_with("passphrase"))
}

#[cfg(test)]
mod tests;
