//! Checks that a text is one JSON object, so that an invalid example is reported at its literal.
//!
//! Only the syntax is checked here; the registry validates examples against the schema.

/// Returns the error of an example's text, if any.
pub(crate) fn error(text: &str) -> Option<String> {
    let mut at = Reader { rest: text };
    at.space();
    let object = at.rest.starts_with('{');
    let whole = at.value(0).is_some();
    at.space();
    if !whole || !at.rest.is_empty() {
        let done = text.len() - at.rest.len();
        Some(format!(
            "this example is not JSON from byte {done} on; an example is the arguments of a call, \
             as in `{{\"city\": \"Paris\"}}`"
        ))
    } else if !object {
        Some("an example is one JSON object with the arguments of a call".to_owned())
    } else {
        None
    }
}

/// How deep an example may be nested.
const MAX_DEPTH: usize = 100;

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t']);
    }

    fn eat(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        // Bounded, so that a deeply nested example cannot overflow the compiler's stack.
        if depth > MAX_DEPTH {
            return None;
        }
        self.space();
        match self.rest.as_bytes().first()? {
            b'{' => self.list("{", "}", |at| {
                at.space();
                at.string()?;
                at.space();
                at.eat(":")?;
                at.value(depth + 1)
            }),
            b'[' => self.list("[", "]", |at| at.value(depth + 1)),
            b'"' => self.string(),
            b't' => self.eat("true"),
            b'f' => self.eat("false"),
            b'n' => self.eat("null"),
            _ => self.number(),
        }
    }

    fn list(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.eat(open)?;
        self.space();
        if self.eat(close).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            self.space();
            if self.eat(close).is_some() {
                return Some(());
            }
            self.eat(",")?;
        }
    }

    fn string(&mut self) -> Option<()> {
        self.eat("\"")?;
        loop {
            let mut chars = self.rest.chars();
            match chars.next()? {
                '"' => {
                    self.rest = chars.as_str();
                    return Some(());
                }
                '\\' => match chars.next()? {
                    '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => {}
                    'u' => {
                        let hex = chars.as_str().get(..4)?;
                        hex.bytes().all(|b| b.is_ascii_hexdigit()).then_some(())?;
                        chars = chars.as_str().get(4..)?.chars();
                    }
                    _ => return None,
                },
                c if c < ' ' => return None,
                _ => {}
            }
            self.rest = chars.as_str();
        }
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.eat("-");
        if self.eat("0").is_none() {
            self.digits()?;
        }
        if self.eat(".").is_some() {
            self.digits()?;
        }
        if self.eat("e").or_else(|| self.eat("E")).is_some() {
            let _ = self.eat("+").or_else(|| self.eat("-"));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let some = rest.len() < self.rest.len();
        self.rest = rest;
        some.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_json_object_passes() {
        for good in [r#"{}"#, r#" {"a": [1, -2.5e3, "x\né", null, true, {"b": 0}]} "#] {
            assert_eq!(error(good), None, "{good}");
        }
        for bad in [
            "",
            "{",
            "{a: 1}",
            r#"{"a": 01}"#,
            r#"{"a": 1,}"#,
            "{} {}",
            "[1]",
            "7",
            "{\"a\": \"\n\"}",
        ] {
            assert!(error(bad).is_some(), "{bad}");
        }
    }
}
