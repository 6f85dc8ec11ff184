//! Parses simple commands: assignments, words, redirections.

use super::{
    compound::{is_name, is_number},
    reader::{Pending, Reader, ends_word},
    refuse,
    word::{Elem, to_word},
};
use crate::{Assignment, Redirect, RedirectKind, ShellParseError, SimpleCommand, Word};

/// Reserved words in command position. After an assignment or a redirection they would be ordinary
/// words, which is never intended.
pub(crate) const RESERVED: [&str; 18] = [
    "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for", "select", "case",
    "esac", "function", "{", "}", "!", "[[",
];

impl Reader<'_> {
    /// Parses a simple command.
    pub(crate) fn simple(&mut self) -> Result<(), ShellParseError> {
        let slot = self.reserve()?;
        let mut command = SimpleCommand::default();
        let values_before = std::mem::take(&mut self.found.notes.values);
        loop {
            self.blanks()?;
            if self.at_redirect()? {
                self.redirect(slot, &mut command)?;
                continue;
            }
            match (self.peek(), self.ahead(1)) {
                (None | Some('\n' | ';' | '&' | '|' | ')' | '#'), _) => break,
                (Some('('), _) => return self.definition(slot, &command),
                _ => {}
            }
            let first = command.words.is_empty();
            if first && !command.is_empty() {
                let reserved = self.plain().is_some_and(|word| RESERVED.contains(&&*word));
                if reserved {
                    return self.unexpected();
                }
            }
            let start = self.at;
            let before = self.found.commands.len();
            let elems = self.elems(first)?;
            // `time A=1 rm` sets `A` and runs `rm`, where `time` is a reserved word.
            let timed = |w: &Word| matches!(w.literal(), Some("time" | "-p" | "--"));
            let may_assign = command.words.iter().all(timed);
            match may_assign.then(|| assignment(&elems)).transpose()?.flatten() {
                Some(_) if !first => return refuse("an assignment after `time`"),
                Some(assignment) => {
                    self.found.sets |= !is_number(assignment.value.literal());
                    command.assignments.push(assignment);
                }
                None => {
                    let word = to_word(&elems, &self.found.loops);
                    self.found.notes.masked |= first && !self.is_written(start, &word);
                    if first && self.found.commands.len() > before {
                        self.found.notes.made.push(slot);
                    }
                    command.words.push(word);
                }
            }
            // `{name}>file` opens a file descriptor chosen by the shell.
            let braced = matches!(elems.first(), Some(Elem::Char('{', false)))
                && matches!(elems.last(), Some(Elem::Char('}', false)));
            if braced && matches!(self.peek(), Some('<' | '>')) {
                return self.unexpected();
            }
        }
        if command.is_empty() {
            return self.unexpected();
        }
        if self.found.notes.values {
            self.found.notes.value_users.push(slot);
        }
        self.found.notes.values |= values_before;
        self.place(slot, command);
        self.record_nested(slot, slot + 1);
        Ok(())
    }

    /// Returns whether the word is written without quotes and escapes. An unknown word does not
    /// matter here.
    fn is_written(&self, start: usize, word: &Word) -> bool {
        let text = self.text_from(start);
        word.literal().is_none_or(|word| word.chars().eq(text.iter().copied()))
    }

    /// Parses the brackets after a function name, and the body.
    fn definition(&mut self, slot: usize, command: &SimpleCommand) -> Result<(), ShellParseError> {
        let [word] = &*command.words else { return self.unexpected() };
        let Some(name) = word.literal() else { return self.unexpected() };
        if !command.assignments.is_empty() || !command.redirects.is_empty() {
            return self.unexpected();
        }
        let name = name.to_owned();
        self.take('(')?;
        self.blanks()?;
        self.take(')')?;
        // The name itself starts nothing.
        self.found.commands.truncate(slot);
        self.function(name)
    }

    /// Parses the redirections after a compound command, as a command without words. Its own
    /// commands start at `first`.
    pub(crate) fn redirects_of_compound(&mut self, first: usize) -> Result<(), ShellParseError> {
        self.blanks()?;
        if !self.at_redirect()? {
            return Ok(());
        }
        let slot = self.reserve()?;
        let mut command = SimpleCommand::default();
        while self.at_redirect()? {
            self.redirect(slot, &mut command)?;
            self.blanks()?;
        }
        self.place(slot, command);
        self.record_nested(slot, slot + 1);
        // The redirections are the input of all commands in the compound command.
        let end = self.found.commands.len();
        if first < slot {
            self.found.notes.pipes.push((slot..end, first..slot));
        }
        Ok(())
    }

    /// Returns whether a redirection comes next.
    fn at_redirect(&self) -> Result<bool, ShellParseError> {
        let mut digits = 0;
        while self.ahead(digits).is_some_and(|c| c.is_ascii_digit()) {
            digits += 1;
        }
        match (self.ahead(digits), self.ahead(digits + 1)) {
            (Some('<' | '>'), Some('(')) if digits > 0 => self.unexpected(),
            (Some('<' | '>'), Some('(')) => Ok(false),
            (Some('<' | '>'), _) => Ok(true),
            (Some('&'), Some('>')) => Ok(digits == 0),
            _ => Ok(false),
        }
    }

    fn redirect(
        &mut self,
        slot: usize,
        command: &mut SimpleCommand,
    ) -> Result<(), ShellParseError> {
        let mut number = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            number.push(c);
            self.at += 1;
        }
        let signs: String =
            (0..3).map_while(|n| self.ahead(n)).take_while(|c| "<>&|-".contains(*c)).collect();
        const SIGNS: [(&str, RedirectKind); 12] = [
            ("<<<", RedirectKind::Here),
            ("<<-", RedirectKind::Here),
            ("&>>", RedirectKind::Write),
            ("<<", RedirectKind::Here),
            ("<>", RedirectKind::ReadWrite),
            ("<&", RedirectKind::Duplicate),
            (">&", RedirectKind::Duplicate),
            (">>", RedirectKind::Write),
            (">|", RedirectKind::Write),
            ("&>", RedirectKind::Write),
            ("<", RedirectKind::Read),
            (">", RedirectKind::Write),
        ];
        let found = SIGNS.iter().find(|(sign, _)| signs.starts_with(sign));
        let Some(&(sign, mut kind)) = found else { return self.unexpected() };
        // A here-document for another file descriptor would later look like stdin.
        if kind == RedirectKind::Here && number.bytes().any(|b| b != b'0') {
            return refuse("a here-document for a file descriptor other than stdin");
        }
        self.at += sign.len();
        self.blanks()?;
        if matches!(sign, "<<" | "<<-") {
            let (end, literal) = self.here_end()?;
            let strip_tabs = sign == "<<-";
            let slot = (slot, command.redirects.len());
            self.pending.push(Pending { end, strip_tabs, literal, slot });
            command.redirects.push(Redirect { kind, target: Word::default() });
            return Ok(());
        }
        let closes = kind == RedirectKind::Duplicate && self.peek() == Some('-');
        let Some(target) = self.word()? else { return self.unexpected() };
        // `>&-rm` closes a file descriptor and runs `rm`, or is a file, depending on the shell.
        if closes && target.literal() != Some("-") {
            return refuse("it is not clear where a redirection ends");
        }
        // `<2>x`: the number belongs to the second operator, and the first has no target.
        let digits = target.literal().is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()));
        if digits && kind != RedirectKind::Duplicate && matches!(self.peek(), Some('<' | '>')) {
            return self.unexpected();
        }
        if kind == RedirectKind::Duplicate {
            let is_fd = |t: &str| {
                let digits = t.strip_suffix('-').unwrap_or(t);
                !t.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
            };
            // `>&name` opens a file, and so may an unknown name.
            if !target.literal().is_some_and(is_fd) {
                kind = if sign == ">&" { RedirectKind::Write } else { RedirectKind::Read };
            }
        }
        command.redirects.push(Redirect { kind, target });
        Ok(())
    }

    /// Parses the delimiter of a here-document, and whether it is quoted.
    fn here_end(&mut self) -> Result<(String, bool), ShellParseError> {
        let mut end = String::new();
        let mut quoted = false;
        while let Some(c) = self.peek().filter(|c| !ends_word(*c)) {
            self.at += 1;
            match c {
                '\'' | '"' => {
                    quoted = true;
                    loop {
                        match self.next() {
                            None | Some('\n') => {
                                return refuse("the delimiter of a here-document is not supported");
                            }
                            Some('$' | '`' | '\\') if c == '"' => {
                                return refuse("the delimiter of a here-document is not supported");
                            }
                            Some(q) if q == c => break,
                            Some(other) => end.push(other),
                        }
                    }
                }
                '\\' => {
                    quoted = true;
                    match self.next() {
                        None | Some('\n') => {
                            return refuse("the delimiter of a here-document is not supported");
                        }
                        Some(c) => end.push(c),
                    }
                }
                '$' | '`' => return refuse("the delimiter of a here-document is not supported"),
                c => end.push(c),
            }
        }
        if end.is_empty() || matches!(self.peek(), Some('(' | '<' | '>')) {
            return refuse("the delimiter of a here-document is not supported");
        }
        Ok((end, quoted))
    }
}

impl SimpleCommand {
    fn is_empty(&self) -> bool {
        self.is_bare() && self.redirects.is_empty()
    }
}

/// Returns the assignment in a word, if it is one.
fn assignment(elems: &[Elem]) -> Result<Option<Assignment>, ShellParseError> {
    let plain = |e: &Elem| match e {
        Elem::Char(c, false) => Some(*c),
        _ => None,
    };
    let name: String = elems
        .iter()
        .map_while(plain)
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    if !is_name(&name) {
        return Ok(None);
    }
    let mut at = name.len();
    if elems.get(at).and_then(plain) == Some('[') {
        // A subscript is evaluated, and evaluation can run commands.
        let close = elems.iter().skip(at).position(|e| plain(e) == Some(']')).map(|n| n + at);
        let digits =
            |range: &[Elem]| range.iter().all(|e| plain(e).is_some_and(|c| c.is_ascii_digit()));
        let signs =
            close.map(|c| (elems.get(c + 1).and_then(plain), elems.get(c + 2).and_then(plain)));
        match (close, signs) {
            (Some(close), Some((Some('='), _) | (Some('+'), Some('=')))) => {
                if !elems.get(at + 1..close).is_some_and(digits) {
                    return refuse("a subscript is evaluated");
                }
                at = close + 1;
            }
            // A subscript may continue past blanks, up to its bracket.
            (None, _) => return refuse("a subscript is not closed"),
            _ => return Ok(None),
        }
    }
    if elems.get(at).and_then(plain) == Some('+') {
        at += 1;
    }
    if elems.get(at).and_then(plain) != Some('=') {
        return Ok(None);
    }
    let value = to_word(elems.get(at + 1..).unwrap_or_default(), &[]);
    Ok(Some(Assignment { name, value }))
}
