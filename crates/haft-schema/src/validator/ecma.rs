//! Translates a regular expression of ECMA-262 to the syntax of the crate `regex`.
//!
//! In: a pattern. Out: the same pattern in the other syntax, and whether it needs backtracking.
//! What differs: `\d`, `\w` and `\s` are sets of their own, a class has no nested classes and no
//! set operators, and a brace that is no repetition is a character. Syntax of other engines stays
//! as it is.

use std::{fmt::Write, iter::Peekable, str::CharIndices};

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str =
    r"\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";

/// A translated pattern.
pub(crate) struct Translated {
    pub(crate) pattern: String,
    /// Whether it has look-around or a back-reference.
    pub(crate) needs_backtracking: bool,
    /// Whether ECMA-262 has all of its syntax.
    is_standard: bool,
}

/// Translates a pattern; fails if it is certainly not valid.
pub(crate) fn translate(source: &str) -> Result<Translated, String> {
    let mut translator = Translator {
        source,
        rest: source.char_indices().peekable(),
        out: String::with_capacity(source.len() + 16),
        needs_backtracking: false,
        is_standard: true,
        previous: Previous::Nothing,
        groups: Vec::new(),
        captures: 0,
        highest_reference: 0,
    };
    translator.translate()?;
    let is_closed =
        translator.groups.is_empty() && translator.highest_reference <= translator.captures;
    let Translator { out, needs_backtracking, is_standard, .. } = translator;
    let is_standard = is_standard && is_closed;
    Ok(Translated { pattern: out, needs_backtracking, is_standard })
}

/// Returns whether a text is a regular expression of ECMA-262. It is not compiled: that would cost
/// much for text of a model.
pub(crate) fn is_valid(source: &str) -> bool {
    translate(source).is_ok_and(|translated| translated.is_standard)
}

struct Translator<'a> {
    source: &'a str,
    rest: Peekable<CharIndices<'a>>,
    out: String,
    needs_backtracking: bool,
    is_standard: bool,
    previous: Previous,
    /// For each open group, whether it is a look-around.
    groups: Vec<bool>,
    captures: u64,
    highest_reference: u64,
}

/// What comes before a character: a repetition needs an atom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Nothing,
    Atom,
    Assertion,
}

/// What an escape means.
enum Escape {
    /// One character.
    Char(char),
    /// A set of characters, in the syntax of the other engine.
    Set(&'static str, bool),
    /// A Unicode property such as `\p{L}`.
    Property(String),
    /// Something that only the engine knows, such as `\b`.
    Other(char),
}

impl Translator<'_> {
    fn translate(&mut self) -> Result<(), String> {
        while let Some((at, c)) = self.rest.next() {
            let mut previous = Previous::Atom;
            match c {
                '\\' => previous = self.escape_outside()?,
                '[' => self.class()?,
                '(' => {
                    self.open_group(at);
                    previous = Previous::Nothing;
                }
                ')' => {
                    self.out.push(c);
                    match self.groups.pop() {
                        Some(false) => {}
                        Some(true) => previous = Previous::Assertion,
                        None => self.is_standard = false,
                    }
                }
                '*' | '+' | '?' => {
                    self.out.push(c);
                    previous = self.repetition();
                }
                '{' => match repetition(&self.source[at..]) {
                    Some(whole) => {
                        self.out.push_str(whole);
                        while self.rest.next_if(|(next, _)| *next < at + whole.len()).is_some() {}
                        previous = self.repetition();
                    }
                    None => self.other_syntax(r"\{"),
                },
                '}' => self.other_syntax(r"\}"),
                ']' => self.other_syntax(r"\]"),
                c => {
                    previous = match c {
                        '|' => Previous::Nothing,
                        '^' | '$' => Previous::Assertion,
                        _ => Previous::Atom,
                    };
                    self.out.push(c);
                }
            }
            self.previous = previous;
        }
        Ok(())
    }

    fn other_syntax(&mut self, written: &str) {
        self.is_standard = false;
        self.out.push_str(written);
    }

    /// A repetition was written; it must follow an atom, and may be lazy.
    fn repetition(&mut self) -> Previous {
        self.is_standard &= self.previous == Previous::Atom;
        if self.rest.next_if(|(_, c)| *c == '?').is_some() {
            self.out.push('?');
        }
        Previous::Nothing
    }

    fn open_group(&mut self, at: usize) {
        self.out.push('(');
        let after = &self.source[at + 1..];
        let starts = |marks: &[&str]| marks.iter().any(|mark| after.starts_with(mark));
        let looks = starts(&["?=", "?!", "?<=", "?<!"]);
        self.needs_backtracking |= looks || after.starts_with("?>");
        self.groups.push(looks);
        let Some(inside) = after.strip_prefix('?') else {
            self.captures += 1;
            return;
        };
        // The mark is no repetition.
        self.rest.next();
        self.out.push('?');
        let flags = inside.split_once(':').map(|(flags, _)| flags);
        let is_flags = flags.is_some_and(|flags| {
            let is_flag = |c: char| "ims-".contains(c);
            flags.chars().all(is_flag) && flags != "-"
        });
        let is_named = inside.starts_with('<') && inside.contains('>') && !looks;
        self.captures += u64::from(is_named);
        self.is_standard &= looks || is_flags || is_named;
        if !looks && !is_named {
            return;
        }
        // A name or a mark is copied as it is.
        let end = if looks { inside.find(['=', '!']) } else { inside.find('>') };
        for _ in 0..end.map_or(0, |end| inside[..=end].chars().count()) {
            self.out.extend(self.rest.next().map(|(_, c)| c));
        }
    }

    fn escape_outside(&mut self) -> Result<Previous, String> {
        let is_reference = self.rest.peek().is_some_and(|(_, c)| ('1'..='9').contains(c));
        if is_reference {
            self.needs_backtracking = true;
            self.out.push('\\');
            let mut number = 0_u64;
            while let Some((_, digit)) = self.rest.next_if(|(_, c)| c.is_ascii_digit()) {
                self.out.push(digit);
                let digit = u64::from(digit.to_digit(10).unwrap_or_default());
                number = number.saturating_mul(10).saturating_add(digit);
            }
            self.highest_reference = self.highest_reference.max(number);
            return Ok(Previous::Atom);
        }
        match self.escape()? {
            Escape::Char(c) => self.push_char(c),
            Escape::Set(set, negated) => {
                let _ = write!(self.out, "[{}{set}]", if negated { "^" } else { "" });
            }
            Escape::Property(property) => self.out.push_str(&property),
            Escape::Other('k') => {
                self.needs_backtracking = true;
                self.out.push_str(r"\k");
            }
            Escape::Other(c) => {
                self.is_standard &= matches!(c, 'b' | 'B');
                self.out.push('\\');
                self.out.push(c);
                return Ok(Previous::Assertion);
            }
        }
        Ok(Previous::Atom)
    }

    /// A class; its bracket is read.
    fn class(&mut self) -> Result<(), String> {
        let negated = self.rest.next_if(|(_, c)| *c == '^').is_some();
        if self.rest.next_if(|(_, c)| *c == ']').is_some() {
            // No character, or any.
            self.out.push_str(if negated { r"[\s\S]" } else { r"[^\s\S]" });
            return Ok(());
        }
        self.out.push_str(if negated { "[^" } else { "[" });
        // The first character of a possible range.
        let mut start: Option<char> = None;
        loop {
            let (_, c) = self.rest.next().ok_or("a class is not closed")?;
            if c == ']' {
                break;
            }
            let is_range = c == '-'
                && start.is_some()
                && self.rest.peek().is_some_and(|(_, next)| *next != ']');
            if is_range {
                let (_, end) = self.rest.next().ok_or("a class is not closed")?;
                let end = if end == '\\' { self.escape_in_class()? } else { Some(end) };
                match (start.take(), end) {
                    (Some(start), Some(end)) if start <= end => {
                        self.out.push('-');
                        self.push_char(end);
                    }
                    (Some(_), Some(_)) => return Err("a range is reversed".to_owned()),
                    // A set is no end of a range: the hyphen is a character.
                    _ => self.out.push_str(r"\-"),
                }
                continue;
            }
            start = if c == '\\' { self.escape_in_class()? } else { Some(c) };
            if let Some(c) = start {
                self.push_char(c);
            }
        }
        self.out.push(']');
        Ok(())
    }

    /// An escape in a class: returns one character, or writes a set.
    fn escape_in_class(&mut self) -> Result<Option<char>, String> {
        match self.escape()? {
            Escape::Char(c) => return Ok(Some(c)),
            Escape::Set(set, negated) => {
                let _ = write!(self.out, "[{}{set}]", if negated { "^" } else { "" });
            }
            Escape::Property(property) => self.out.push_str(&property),
            Escape::Other('b') => return Ok(Some('\u{8}')),
            Escape::Other(c) => return Err(format!(r"`\{c}` is not valid in a class")),
        }
        Ok(None)
    }

    /// Reads an escape; its backslash is read.
    fn escape(&mut self) -> Result<Escape, String> {
        let (_, c) = self.rest.next().ok_or("it ends with a backslash")?;
        Ok(match c {
            'd' | 'D' => Escape::Set(DIGIT, c == 'D'),
            'w' | 'W' => Escape::Set(WORD, c == 'W'),
            's' | 'S' => Escape::Set(SPACE, c == 'S'),
            'f' => Escape::Char('\u{c}'),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            't' => Escape::Char('\t'),
            'v' => Escape::Char('\u{b}'),
            '0' => Escape::Char('\0'),
            'c' => match self.rest.next() {
                Some((_, letter)) if letter.is_ascii_alphabetic() => {
                    Escape::Char(char::from_u32(u32::from(letter) % 32).unwrap_or_default())
                }
                _ => return Err(r"`\c` needs a letter".to_owned()),
            },
            'x' if self.rest.peek().is_none_or(|(_, c)| *c != '{') => Escape::Char(self.hex(2)?),
            'u' | 'x' => Escape::Char(self.code_point()?),
            'p' | 'P' => Escape::Property(self.property(c)),
            'a' | 'e' => return Err(format!(r"`\{c}` is not an escape of ECMA-262")),
            c if c.is_ascii_alphabetic() => Escape::Other(c),
            c => Escape::Char(c),
        })
    }

    fn hex(&mut self, digits: usize) -> Result<char, String> {
        let point = self.hex_point(digits)?;
        char::from_u32(point).ok_or_else(|| "half of a surrogate pair is no character".to_owned())
    }

    fn hex_point(&mut self, digits: usize) -> Result<u32, String> {
        let mut point = 0;
        for _ in 0..digits {
            let digit = self.rest.next().and_then(|(_, c)| c.to_digit(16));
            point = point * 16 + digit.ok_or("a hexadecimal digit is missing")?;
        }
        Ok(point)
    }

    /// Four digits, a surrogate pair, or digits in braces.
    fn code_point(&mut self) -> Result<char, String> {
        let wrong = || "a code point is not valid".to_owned();
        if self.rest.next_if(|(_, c)| *c == '{').is_some() {
            let mut point = 0_u32;
            loop {
                let (_, c) = self.rest.next().ok_or_else(wrong)?;
                match c.to_digit(16) {
                    Some(digit) if point <= 0x10_FFFF => point = point * 16 + digit,
                    None if c == '}' => return char::from_u32(point).ok_or_else(wrong),
                    _ => return Err(wrong()),
                }
            }
        }
        let high = self.hex_point(4)?;
        if !(0xD800..0xDC00).contains(&high) {
            return char::from_u32(high).ok_or_else(wrong);
        }
        for expected in ['\\', 'u'] {
            self.rest.next_if(|(_, c)| *c == expected).ok_or_else(wrong)?;
        }
        match self.hex_point(4)? {
            low @ 0xDC00..=0xDFFF => {
                char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                    .ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    /// `\p{...}`, which both syntaxes have; the engine checks the name.
    fn property(&mut self, letter: char) -> String {
        let mut property = format!(r"\{letter}");
        if let Some((_, brace)) = self.rest.next_if(|(_, c)| *c == '{') {
            property.push(brace);
            for (_, c) in self.rest.by_ref() {
                property.push(c);
                if c == '}' {
                    break;
                }
            }
        }
        property
    }

    fn push_char(&mut self, c: char) {
        if c.is_control() || c.is_whitespace() {
            let _ = write!(self.out, r"\x{{{:x}}}", u32::from(c));
        } else {
            if r"\.+*?()|[]{}^$#&-~".contains(c) {
                self.out.push('\\');
            }
            self.out.push(c);
        }
    }
}

/// The `{n}`, `{n,}` or `{n,m}` that a text starts with.
fn repetition(text: &str) -> Option<&str> {
    let end = text.find('}')?;
    let inside = text.get(1..end)?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_repetition = match inside.split_once(',') {
        Some((low, high)) => is_number(low) && (high.is_empty() || is_number(high)),
        None => is_number(inside),
    };
    is_repetition.then(|| &text[..=end])
}
