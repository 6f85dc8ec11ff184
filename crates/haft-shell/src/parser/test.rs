//! Parses `[[ … ]]`. A condition starts nothing itself, but its words may.

use super::{compound::is_number, reader::Reader, refuse, word::to_word};
use crate::{ShellParseError, SimpleCommand, Word};

const COMPARE: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
const OTHER: [&str; 6] = ["=", "==", "!=", "-nt", "-ot", "-ef"];

impl Reader<'_> {
    /// Parses what follows `[[`, and lists it as a command of that name.
    pub(crate) fn test(&mut self) -> Result<(), ShellParseError> {
        let slot = self.reserve()?;
        let mut words = vec![Word::text("[[")];
        self.any_of(&mut words)?;
        self.lines()?;
        self.expect("]]")?;
        words.push(Word::text("]]"));
        self.place(slot, SimpleCommand { words, ..SimpleCommand::default() });
        Ok(())
    }

    fn lines(&mut self) -> Result<(), ShellParseError> {
        loop {
            self.blanks()?;
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.quoted_newline()?;
            self.at += 1;
        }
    }

    fn any_of(&mut self, words: &mut Vec<Word>) -> Result<(), ShellParseError> {
        loop {
            self.one(words)?;
            self.lines()?;
            match (self.peek(), self.ahead(1)) {
                (Some('&'), Some('&')) => words.push(Word::text("&&")),
                (Some('|'), Some('|')) => words.push(Word::text("||")),
                _ => return Ok(()),
            }
            self.at += 2;
        }
    }

    fn one(&mut self, words: &mut Vec<Word>) -> Result<(), ShellParseError> {
        self.lines()?;
        while self.plain().as_deref() == Some("!") {
            self.at += 1;
            words.push(Word::text("!"));
            self.lines()?;
        }
        if self.peek() == Some('(') {
            self.at += 1;
            words.push(Word::text("("));
            self.enter_level(|this| this.any_of(words))?;
            self.lines()?;
            self.take(')')?;
            words.push(Word::text(")"));
            return Ok(());
        }
        let plain = self.plain();
        if plain.as_deref() == Some("]]") {
            return self.unexpected();
        }
        let before = self.made();
        let unary = plain.as_deref().filter(|w| is_unary(w)).map(str::to_owned);
        let Some(first) = self.word()? else { return self.unexpected() };
        words.push(first.clone());
        self.blanks()?;
        if let Some(sign) = unary {
            let ends = matches!(self.plain().as_deref(), Some("]]"))
                || matches!(self.peek(), None | Some('\n' | '&' | '|' | ')'));
            if !ends {
                let Some(word) = self.word()? else { return self.unexpected() };
                if matches!(&*sign, "-v" | "-R") {
                    self.evaluated(&word)?;
                    self.evaluated_since(before);
                }
                words.push(word);
            }
            return Ok(());
        }
        let sign = match (self.peek(), self.ahead(1)) {
            (Some(c @ ('<' | '>')), Some(' ' | '\t')) => Some(c.to_string()),
            _ => self.plain(),
        };
        let Some(sign) = sign else { return Ok(()) };
        let compares = COMPARE.contains(&&*sign);
        if !compares && !OTHER.contains(&&*sign) && !matches!(&*sign, "=~" | "<" | ">") {
            return Ok(());
        }
        self.at += sign.len();
        self.blanks()?;
        let second = if sign == "=~" { self.expression()? } else { self.word()? };
        let Some(second) = second else { return self.unexpected() };
        if compares {
            self.evaluated(&first)?;
            self.evaluated(&second)?;
            self.evaluated_since(before);
        }
        words.extend([Word::text(sign), second]);
        Ok(())
    }

    /// Parses a regular expression: brackets and bars are part of it.
    fn expression(&mut self) -> Result<Option<Word>, ShellParseError> {
        let mut elems = Vec::new();
        let mut open = 0_usize;
        while let Some(c) = self.peek() {
            match c {
                '(' => open += 1,
                ')' if open == 0 => break,
                ')' => open -= 1,
                '|' if open > 0 => {}
                c if super::reader::ends_word(c) => break,
                _ => {}
            }
            self.elem(&mut elems)?;
        }
        if open > 0 {
            return refuse("an expression is not supported");
        }
        Ok(Some(to_word(&elems, &self.found.loops)).filter(|_| !elems.is_empty()))
    }

    /// Records that a word is evaluated like an expression.
    fn evaluated(&mut self, word: &Word) -> Result<(), ShellParseError> {
        if super::finish::has_hidden_command(word) {
            return refuse("a subscript is evaluated");
        }
        self.found.evaluates |= !is_number(word.literal());
        // A name may be set here too: `[[ PATH=5 -eq 5 ]]`.
        let text = word.literal().filter(|text| !is_number(Some(text)));
        self.found.notes.names.extend(text.map(str::to_owned));
        Ok(())
    }
}

fn is_unary(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next() == Some('-')
        && chars.next().is_some_and(|c| "abcdefghknoprstuvwxzGLNORS".contains(c))
        && chars.next().is_none()
}
