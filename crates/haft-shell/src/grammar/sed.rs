//! `sed`: parses a script command by command; commands that write files or start programs are not
//! in the allow-list.

use crate::grammar::{Checked, Given};

/// Checks the scripts of a `sed` call.
pub(crate) fn check(given: &Given<'_>) -> Checked {
    let scripts: Vec<&str> = given.values(&["e", "expression"]).collect();
    if given.has(&["e", "expression"]) {
        if given.is_late() {
            return Err("an option follows an operand".to_owned());
        }
        return scripts.into_iter().try_for_each(script);
    }
    match given.operands.first().map(|word| word.literal()) {
        Some(Some(text)) => script(text),
        Some(None) => Err("its script is known only at run time".to_owned()),
        None => Err("it has no script".to_owned()),
    }
}

/// Returns whether a script only prints and changes text: it runs nothing and writes no other file.
pub(crate) fn only_changes_text(text: &str) -> bool {
    script(text).is_ok()
}

/// A position in a script.
struct Script {
    text: Vec<char>,
    at: usize,
}

/// Checks one script.
fn script(text: &str) -> Checked {
    let mut script = Script { text: text.chars().collect(), at: 0 };
    while script.at < script.text.len() {
        script.command()?;
    }
    Ok(())
}

impl Script {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, matches: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&matches) {
            self.at += 1;
        }
    }

    /// Parses addresses and a command.
    fn command(&mut self) -> Checked {
        self.skip(|c| c.is_ascii_whitespace() || c == ';');
        if self.address()? {
            self.skip(|c| c == ' ');
            if self.peek() == Some(',') {
                self.at += 1;
                self.skip(|c| c == ' ');
                if matches!(self.peek(), Some('+' | '~')) {
                    self.at += 1;
                }
                if !self.address()? {
                    return not_understood();
                }
            }
        }
        self.skip(|c| matches!(c, ' ' | '\t' | '!'));
        let Some(command) = self.peek() else { return Ok(()) };
        self.at += 1;
        match command {
            '{' => return Ok(()),
            '#' => {
                self.skip(|c| c != '\n');
                return Ok(());
            }
            '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z'
            | 'F' => {}
            'l' | 'q' | 'Q' => {
                self.skip(|c| c == ' ');
                self.skip(|c| c.is_ascii_digit());
            }
            ':' | 'b' | 't' | 'T' => {
                self.skip(|c| c == ' ');
                self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
            }
            'a' | 'i' | 'c' => return self.text_line(),
            's' => {
                let mark = self.delimited(None)?;
                self.delimited(Some(mark))?;
                // `e` would run the line, `w` would write it.
                self.skip(|c| c.is_ascii_digit() || "gpiImM".contains(c));
            }
            'y' => {
                let mark = self.delimited(None)?;
                self.delimited(Some(mark))?;
            }
            other => return Err(format!("its command `{other}` is not in the read-only list")),
        }
        self.skip(|c| matches!(c, ' ' | '\t'));
        match self.peek() {
            None | Some(';' | '\n' | '}' | '#') => Ok(()),
            Some(_) => not_understood(),
        }
    }

    /// Parses an address, if there is one.
    fn address(&mut self) -> Result<bool, String> {
        match self.peek() {
            Some('$') => self.at += 1,
            Some(c) if c.is_ascii_digit() => {
                self.skip(|c| c.is_ascii_digit());
                if self.peek() == Some('~') {
                    self.at += 1;
                    self.skip(|c| c.is_ascii_digit());
                }
            }
            Some(c @ ('/' | '\\')) => {
                if c == '\\' {
                    self.at += 1;
                }
                self.delimited(None)?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads up to the next delimiter; `None` as `mark` takes the delimiter at this position.
    fn delimited(&mut self, mark: Option<char>) -> Result<char, String> {
        let is_first = mark.is_none();
        let mark = match mark.or(self.peek()) {
            Some(mark) if !mark.is_alphanumeric() && !"\\\n;{}[] ".contains(mark) => mark,
            _ => return not_understood(),
        };
        self.at += usize::from(is_first);
        let mut in_set = false;
        loop {
            let Some(c) = self.peek() else { return not_understood() };
            self.at += 1;
            match c {
                // Versions of `sed` differ on whether the expression ends here.
                c if c == mark && in_set && is_first => return not_understood(),
                c if c == mark => return Ok(mark),
                '\\' => self.at += 1,
                '\n' => return not_understood(),
                // Only an expression has bracket expressions. In a replacement a bracket is a
                // normal character, and a delimiter after it is a delimiter: `s^a^[^w out^` writes.
                _ if !is_first => {}
                '[' if !in_set => {
                    in_set = true;
                    // A leading bracket belongs to the set, a delimiter never does.
                    if self.peek() == Some(mark) {
                        return not_understood();
                    }
                    self.at += usize::from(self.peek() == Some('^'));
                    self.at += usize::from(self.peek() == Some(']'));
                }
                // A character class inside a bracket expression has its own brackets.
                '[' if matches!(self.peek(), Some(':' | '.' | '=')) => {
                    let sign = self.peek();
                    if sign == Some(mark) {
                        return not_understood();
                    }
                    self.at += 1;
                    self.skip(|c| c.is_ascii_alphabetic());
                    if self.peek() != sign || self.text.get(self.at + 1) != Some(&']') {
                        return not_understood();
                    }
                    self.at += 2;
                }
                ']' => in_set = false,
                _ => {}
            }
        }
    }

    /// Reads the text of `a`, `i` and `c` up to the end of the line. A backslash could continue it.
    fn text_line(&mut self) -> Checked {
        let start = self.at;
        self.skip(|c| c != '\n');
        let line = self.text.get(start..self.at).unwrap_or_default();
        if line.contains(&'\\') || line.is_empty() { not_understood() } else { Ok(()) }
    }
}

fn not_understood<T>() -> Result<T, String> {
    Err("its script cannot be parsed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_print_are_accepted() {
        for text in [
            "p",
            "1,10p",
            "$p",
            "$!d",
            "/a/p",
            "/a/,/b/p",
            "s/a/b/",
            "s/a/b/g;s|c|d|2p",
            "s/a/[b/",
            "s/\\(.*\\)/[\\1]/",
            "\\,a,p",
            "1~2p",
            "1,+3d",
            "/a/I!d",
            "/x/{s/a/b/;p}",
            ":a;N;$!ba;s/\\n/ /g",
            "y/abc/xyz/",
            "5q",
            "$=",
            "1i header",
            "s/[^a-z]//g",
            "s/[]x]//",
            "s/[^]]//",
            "s/[[:space:]]*$//",
            "s/[^[:alnum:]_]//g",
            "s/a\\/b/c/",
            "# all\np",
            "n;d",
            "/a/{\np\n}",
            "s/.*\\(x\\).*/\\1/p",
            "s#a#b#I",
        ] {
            assert_eq!(script(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn scripts_that_write_run_or_are_ambiguous_are_refused() {
        for text in [
            "w out",
            "1w out",
            "s/a/b/w out",
            "s/a/b/gw out",
            "s/a/id/e",
            "e",
            "1e id",
            "e id",
            "r in",
            "R in",
            "W out",
            "s/a/b/;w out",
            "/x/{w out\n}",
            "p;w out",
            "p w out",
            "s/[/]/w out/",
            "s/[]/]/w out/",
            "s/[[:space:]/]/p;/w out/p",
            "s/[[.a.]/]/p;/w out/p",
            "s/[[:/]/x/;w out",
            "s/[[:/]/p;/:]]/w out",
            "s/[^]/]p/",
            "s/a/b",
            "s a b w o",
            "y/a/b/w",
            "a\\\ntext\nw out",
            "s/a/b\nw x/",
            "M",
            "v",
            "p}w x",
            "b w;w x",
            "1,p",
            "$!{p;e\n}",
            "!!w x",
            "sxaxbxw out",
            "s,a,b,e",
            "s/x\\/y/z/e",
            "1~2w x",
            "L",
            "\\xaxw o",
            "s\na\nb\nw o",
            "s^a^[^w out^",
            "y^a^[^;w out^",
            "s:a:[[:w:]x:",
            "s=a=[[=w=]x=",
            "s.a.[[.w.]x.",
            "s^[^]w out^b^",
            "\\^[^]w out^p",
        ] {
            assert!(script(text).is_err(), "{text}");
        }
    }
}
