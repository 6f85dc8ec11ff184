//! Parses assignments such as `password = "…"`: a secret-like name, a sign, a value.
//!
//! In: a text from the first byte of the name on. Out: the range of the value. It matches the same
//! as the regex `ASSIGNED` in `patterns`, and a test compares both. The regex with groups took 4 µs
//! for each name, and a hostile text can contain a name in every nine bytes.

use std::ops::Range;

use super::pattern_checks::is_passphrase;

/// The value that is assigned to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) value: Range<usize>,
    pub(super) is_quoted: bool,
}

const NAMES: &[&str] = &["password", "passwd", "passphrase", "pwd", "secret", "token"];
/// Prefixes of `key` and of `token`, optionally joined by `_` or `-`.
const BEFORE_KEY: &[&str] = &["api", "access", "private"];
const BEFORE_TOKEN: &[&str] =
    &["access", "auth", "refresh", "api", "session", "bot", "private", "security", "oauth", "id"];
/// Suffixes of a name, joined by `_` or `-`.
const SUFFIXES: &[&str] = &["key", "value", "token", "hash", "salt", "access_key", "access-key"];

/// Names whose value may be a passphrase: several words in quotes.
pub(super) const PASSPHRASE_NAMES: &[&str] = &["password", "passwd", "passphrase", "pwd", "secret"];
/// Flags of command lines whose next word is a secret.
pub(super) const FLAGS: &[&str] = &[
    "--password",
    "--passwd",
    "--passphrase",
    "--pass",
    "--pwd",
    "--token",
    "--secret",
    "--secret-key",
    "--secret-access-key",
    "--client-secret",
    "--api-key",
    "--apikey",
    "--api-token",
    "--access-key",
    "--access-token",
    "--auth-token",
    "--oauth-token",
    "--bearer-token",
    "--private-token",
    "--private-key",
    "--session-token",
    "--db-password",
    "--admin-password",
    "--root-password",
    "--user-password",
    "--http-password",
    "--ftp-password",
    "--proxy-password",
];

/// Returns a quoted value with blanks that is assigned to a name, and how many bytes were scanned.
pub(super) fn parse_passphrase(text: &[u8]) -> (Option<Assigned>, usize) {
    let mut head = Cursor { text, at: 0 };
    if !PASSPHRASE_NAMES.iter().any(|name| head.word(name)) {
        return (None, head.at);
    }
    head.suffix();
    head.run(3, |b| is_quote(b) || b == b'\\');
    let mut typed = head;
    let found = if typed.annotation() && typed.sign() { typed.passphrase() } else { None };
    let mut plain = head;
    let found = found.or_else(|| if plain.sign() { plain.passphrase() } else { None });
    (found, typed.at.max(plain.at))
}

/// Returns the value of a flag on a command line, in one text or in a list of arguments, and how
/// many bytes were scanned.
pub(super) fn parse_flag(text: &[u8]) -> (Option<Assigned>, usize) {
    let mut head = Cursor { text, at: 0 };
    let here = FLAGS.iter().filter(|flag| Cursor { text, at: 0 }.word(flag));
    let Some(flag) = here.max_by_key(|flag| flag.len()) else { return (None, 0) };
    head.at = flag.len();
    let is_listed = head.run(2, |b| is_quote(b) || b == b'\\') > 0 && head.word(",");
    let blanks = if is_listed {
        head.run(MAX_LIST_BLANKS, is_space)
    } else {
        head.run(4, |b| matches!(b, b' ' | b'\t'))
    };
    let has_sign = !is_listed && head.word("=");
    if blanks == 0 && !has_sign && !is_listed {
        return (None, head.at);
    }
    let mut phrase = head;
    let found = phrase.passphrase().or_else(|| head.operand());
    (found, phrase.at.max(head.at))
}

/// Maximum number of blanks between two arguments of a list: a line break and an indent.
const MAX_LIST_BLANKS: usize = 32;

/// Returns the value, and how many bytes were scanned.
pub(super) fn parse(text: &[u8]) -> (Option<Assigned>, usize) {
    let mut head = Cursor { text, at: 0 };
    if !head.name() {
        return (None, head.at);
    }
    head.suffix();
    head.run(3, |b| is_quote(b) || b == b'\\');
    // `password: String = "…"` before `password: "…"`.
    let mut typed = head;
    let found = if typed.annotation() { typed.value() } else { None };
    let mut plain = head;
    let found = found.or_else(|| plain.value());
    (found, typed.at.max(plain.at))
}

/// A position in a text.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips at most `most` bytes of a kind, and returns how many there are.
    fn run(&mut self, most: usize, is: impl Fn(u8) -> bool) -> usize {
        let len = self.rest().iter().take(most).take_while(|b| is(**b)).count();
        self.at += len;
        len
    }

    /// Skips a word in either case, if it is at this position.
    fn word(&mut self, word: &str) -> bool {
        let is_here = self
            .rest()
            .get(..word.len())
            .is_some_and(|own| own.eq_ignore_ascii_case(word.as_bytes()));
        if is_here {
            self.at += word.len();
        }
        is_here
    }

    fn name(&mut self) -> bool {
        let joined = |from: Self, before: &[&str], last: &str| {
            before.iter().find_map(|word| {
                let mut own = from;
                let is_here = own.word(word) && {
                    own.run(1, |b| matches!(b, b'_' | b'-'));
                    own.word(last)
                };
                is_here.then_some(own)
            })
        };
        if NAMES.iter().any(|name| self.word(name)) {
            return true;
        }
        let found =
            joined(*self, BEFORE_KEY, "key").or_else(|| joined(*self, BEFORE_TOKEN, "token"));
        match found {
            Some(own) => {
                *self = own;
                true
            }
            None => false,
        }
    }

    fn suffix(&mut self) {
        let mut own = *self;
        if own.run(1, |b| matches!(b, b'_' | b'-')) == 1 && SUFFIXES.iter().any(|s| own.word(s)) {
            *self = own;
        }
    }

    /// `: String`, a type annotation in code.
    fn annotation(&mut self) -> bool {
        self.run(4, is_space);
        if !self.word(":") {
            return false;
        }
        self.run(2, is_space);
        self.word("&");
        self.run(1, |b| b.is_ascii_alphabetic()) == 1 && {
            self.run(20, |b| b.is_ascii_alphabetic() || matches!(b, b'<' | b'>' | b'&'));
            true
        }
    }

    /// An assignment sign, and the value.
    fn value(&mut self) -> Option<Assigned> {
        if self.sign() { self.operand() } else { None }
    }

    /// Skips an assignment sign with the blanks around it.
    fn sign(&mut self) -> bool {
        self.run(4, is_space);
        let is_here = ["=>", ":=", "=", ":"].iter().any(|sign| self.word(sign));
        if is_here {
            self.run(4, is_space);
        }
        is_here
    }

    /// Several words between two equal quotes.
    fn passphrase(&mut self) -> Option<Assigned> {
        self.run(1, |b| b == b'\\');
        let quote = self.rest().first().copied().filter(|b| is_quote(*b))?;
        self.at += 1;
        let len = self.run(200, |b| b == b' ' || is_in_quotes(b));
        let found = self.last(len, true);
        self.run(1, |b| b == b'\\');
        let is_closed = self.rest().first() == Some(&quote);
        let is_named_passphrase =
            [0, 2].iter().any(|at| Cursor { text: self.text, at: *at }.word("passphrase"));
        let value = self.text.get(found.value.clone())?;
        (is_closed && is_passphrase(value, is_named_passphrase)).then_some(found)
    }

    /// A value, quoted or not.
    fn operand(&mut self) -> Option<Assigned> {
        let mut quoted = *self;
        quoted.run(1, |b| b == b'\\');
        if quoted.run(1, is_quote) == 1 {
            self.at = quoted.at;
            let len = self.run(200, is_in_quotes);
            return (len >= 6).then(|| self.last(len, true));
        }
        if !self.rest().first().copied().is_some_and(is_first) {
            return None;
        }
        let len = self.run(200, is_bare);
        (len >= 6).then(|| self.last(len, false))
    }

    fn last(&self, len: usize, is_quoted: bool) -> Assigned {
        Assigned { value: self.at - len..self.at, is_quoted }
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

fn is_in_quotes(byte: u8) -> bool {
    !is_quote(byte)
        && !is_space(byte)
        && !matches!(byte, b'\\' | b'[' | b']' | b'<' | b'>' | b'{' | b'}')
}

/// What an unquoted value may start with.
fn is_first(byte: u8) -> bool {
    is_bare(byte) && !matches!(byte, b'$' | b':' | b'=' | b'?')
}

/// What an unquoted value may contain.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%*+./:=?@^_~|-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::bytes::{Regex, RegexBuilder};

    use super::{super::key_patterns::ASSIGNED, *};

    fn by_regex(shape: &Regex, text: &[u8]) -> Option<Assigned> {
        let groups = shape.captures(text)?;
        let (quoted, bare) = (groups.get(1), groups.get(2));
        let value = quoted.or(bare)?.range();
        Some(Assigned { value, is_quoted: bare.is_none() })
    }

    fn shape() -> Regex {
        RegexBuilder::new(&format!("^(?:{ASSIGNED})")).unicode(false).build().unwrap()
    }

    #[test]
    fn parser_and_shape_agree_on_what_people_write() {
        let shape = shape();
        for text in [
            "password=hunter2x",
            "password: String = \"hunter2x\"",
            "password:abcde=1",
            "password: abcdef = d",
            "secret_access-key := 'abcdefgh'",
            "API-KEY\\\": \\\"abcdefgh\\\"",
            "token => abc123def",
            "passwordx=abcdefgh",
            "access_token\u{b}=\u{b}abcdefgh",
            "password=  \"short\"",
            "id_token_value='''abcdefg",
        ] {
            assert_eq!(parse(text.as_bytes()).0, by_regex(&shape, text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_096, ..ProptestConfig::default() })]

        #[test]
        fn parser_and_shape_agree_on_everything(
            name in prop::sample::select(vec!["password", "PassWd", "secret", "token", "api", "api_key", "access-token", "idtoken", "pwd"]),
            rest in prop::collection::vec(prop::sample::select(vec![
                "_key", "-access_key", "_", "key", "token", " ", "  ", "\t", "\n", ":", "=", "=>", ":=", "&", "str", "<A>", "\"", "'",
                "`", "\\", "abc", "a1b2c3", "$x", "/", "é", "[", "{", ".", "password", "0", "abcdefghijklmnopqrstuvwxyz", "\u{b}",
            ]), 0..12),
        ) {
            let shape = shape();
            let text = format!("{name}{}", rest.concat());
            prop_assert_eq!(parse(text.as_bytes()).0, by_regex(&shape, text.as_bytes()), "{}", text);
        }
    }
}
