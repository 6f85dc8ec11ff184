//! Parses JSON as it is written in settings: comments and trailing commas are accepted, and every
//! value keeps its offset.
//!
//! Hand-written, because serde_json does not keep offsets. It still parses strings and numbers.
//! Bounded: at most [`MAX_DEPTH`] levels, one pass.

use super::node::{Entry, Kind, Node};

/// Maximum nesting.
const MAX_DEPTH: usize = 64;

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at: usize,
    pub(super) message: String,
}

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<Node, Broken> {
    // A byte order mark is skipped.
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut parser = Parser { text, at };
    let node = parser.value(0)?;
    parser.skip()?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.broken("expected the end of the file")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn broken(&self, message: impl Into<String>) -> Broken {
        Broken { at: self.at, message: message.into() }
    }

    /// Skips whitespace and comments.
    fn skip(&mut self) -> Result<(), Broken> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'/') if self.rest().starts_with("//") => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                // Searched after the opening: `/*/` does not close itself.
                Some(b'/') if self.rest().starts_with("/*") => match self.rest()[2..].find("*/") {
                    Some(end) => self.at += end + 4,
                    None => return Err(self.broken("unterminated comment")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Broken> {
        self.skip()?;
        if depth > MAX_DEPTH {
            return Err(self.broken(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let at = self.at;
        let kind = match self.peek() {
            None => return Err(self.broken("expected a value, found the end of the file")),
            Some(b'{') => self.table(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) => self.word()?,
        };
        Ok(Node { at, kind })
    }

    fn table(&mut self, depth: usize) -> Result<Kind, Broken> {
        self.at += 1;
        let mut keys = ahash::AHashSet::new();
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Kind::Table(entries));
                }
                Some(b'"') => {}
                _ => return Err(self.broken("expected a key in double quotes, or `}`")),
            }
            let at = self.at;
            let key = self.string()?;
            // Some parsers take the first key and others the last, so the effective rules would be
            // ambiguous.
            if !keys.insert(key.clone()) {
                return Err(Broken { at, message: format!("duplicate key `{key}`") });
            }
            self.skip()?;
            if self.peek() != Some(b':') {
                return Err(self.broken("expected `:` after a key"));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            entries.push(Entry { key, at, value });
            self.comma(b'}')?;
        }
    }

    fn list(&mut self, depth: usize) -> Result<Kind, Broken> {
        self.at += 1;
        let mut list = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(Kind::List(list));
            }
            list.push(self.value(depth + 1)?);
            self.comma(b']')?;
        }
    }

    /// Skips a comma, or stops before the closing bracket.
    fn comma(&mut self, end: u8) -> Result<(), Broken> {
        self.skip()?;
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(byte) if byte == end => {}
            _ => return Err(self.broken(format!("expected `,` or `{}`", end as char))),
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, Broken> {
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        loop {
            match bytes.get(end) {
                None => return Err(self.broken("unterminated string")),
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        let text = self.text.get(self.at..=end).and_then(|text| serde_json::from_str(text).ok());
        match text {
            Some(text) => {
                self.at = end + 1;
                Ok(text)
            }
            None => Err(self.broken("a string with an invalid escape or a bare control character")),
        }
    }

    fn number(&mut self) -> Result<Kind, Broken> {
        let long = self
            .rest()
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(self.rest().len());
        let text = &self.rest()[..long];
        let kind = match serde_json::from_str::<serde_json::Number>(text) {
            Ok(n) => match (n.as_i64(), n.as_f64()) {
                (Some(n), _) => Kind::Whole(n),
                (None, Some(n)) => Kind::Real(n),
                _ => Kind::Odd("a number too large"),
            },
            Err(_) => return Err(self.broken("not a number")),
        };
        self.at += long;
        Ok(kind)
    }

    fn word(&mut self) -> Result<Kind, Broken> {
        for (word, kind) in
            [("true", Kind::Flag(true)), ("false", Kind::Flag(false)), ("null", Kind::Null)]
        {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        Err(self.broken("expected a value"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn plain(node: &Node) -> Value {
        match &node.kind {
            Kind::Null => Value::Null,
            Kind::Flag(flag) => json!(flag),
            Kind::Whole(n) => json!(n),
            Kind::Real(n) => json!(n),
            Kind::Text(text) => json!(text),
            Kind::Odd(what) => json!(what),
            Kind::List(list) => list.iter().map(plain).collect(),
            Kind::Table(entries) => {
                entries.iter().map(|e| (e.key.clone(), plain(&e.value))).collect()
            }
        }
    }

    #[test]
    fn comments_and_trailing_commas_are_accepted_and_keep_offsets() {
        let text =
            "// one\n{ /* two */ \"a\": [1, /*/ */ 2.5,], // \"no\": 1\n \"b\": \"//x\", }\n";
        let node = parse(text).unwrap();
        assert_eq!(plain(&node), json!({"a": [1, 2.5], "b": "//x"}));
        let Kind::Table(entries) = node.kind else { panic!() };
        assert!(text[entries[1].at..].starts_with("\"b\""));
        assert!(text[entries[1].value.at..].starts_with("\"//x\""));
    }

    #[test]
    fn invalid_json_is_refused_with_its_offset() {
        for (text, at) in [
            ("", 0),
            ("{", 1),
            ("{\"a\" 1}", 5),
            ("[1 2]", 3),
            ("{} x", 3),
            ("\"a", 0),
            ("\"\\q\"", 0),
            ("/* x", 0),
            ("/*/", 0),
            ("01", 0),
            ("nul", 0),
            ("[,]", 1),
            ("{a: 1}", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_deep_recursion() {
        let broken = parse(&"[".repeat(1_000_000)).unwrap_err();
        assert!(broken.message.contains("deeper"), "{}", broken.message);
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "[\\[\\]{}\",:/*\\\\ a1é.\n-]{0,60}") {
            let read = parse(&text);
            if let Ok(usual) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(plain(&read.unwrap()), usual);
            }
        }
    }
}
