//! Parses words: removes quotes and marks expansions as unknown.

use super::{
    globs,
    reader::{LoopVariable, Reader},
    refuse,
};
use crate::{ShellParseError, Word, WordPiece};

/// A character of a word and whether it was quoted, or an unknown part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elem {
    Char(char, bool),
    Unknown(Expansion),
    /// The variable of a loop around it, by its number.
    Variable {
        of: usize,
        is_quoted: bool,
        becomes: Expansion,
    },
}

impl Elem {
    fn is_char(&self) -> bool {
        matches!(self, Self::Char(..))
    }

    /// Returns what it expands to, if it is not a character.
    fn expansion(&self) -> Option<Expansion> {
        match self {
            Self::Char(..) => None,
            Self::Unknown(becomes) | Self::Variable { becomes, .. } => Some(*becomes),
        }
    }
}

/// What an unknown part expands to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Expansion {
    /// The name of an open file: a process substitution.
    File,
    /// One word, or names with the word's prefix: a quoted variable, a glob.
    Tied,
    /// Any number of arbitrary words.
    Loose,
}

/// The surrounding quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quote {
    Nothing,
    Double,
    Here,
}

impl Reader<'_> {
    /// Parses a word, if one comes next.
    pub(crate) fn word(&mut self) -> Result<Option<Word>, ShellParseError> {
        let here = self.at;
        if self.peek() == Some('#') {
            return Ok(None); // a comment
        }
        let elems = self.elems(false)?;
        Ok((self.at > here).then(|| to_word(&elems, &self.found.loops)))
    }

    /// Parses the characters of a word. Where an assignment is allowed, an array is too.
    pub(crate) fn elems(&mut self, may_assign: bool) -> Result<Vec<Elem>, ShellParseError> {
        let mut elems = Vec::new();
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.ahead(1) == Some('(') => {
                    if !elems.is_empty() {
                        return self.unexpected();
                    }
                    self.at += 2;
                    self.substitution()?;
                    elems.push(Elem::Unknown(Expansion::File));
                }
                '(' if may_assign && ends_in_assignment(&elems) => {
                    self.at += 1;
                    self.array()?;
                    elems.push(Elem::Unknown(Expansion::Loose));
                    // The word would continue, and a `#` would not be a comment.
                    let ends = |c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | ')');
                    if !self.peek().is_none_or(ends) {
                        return self.unexpected();
                    }
                    break;
                }
                c if super::reader::ends_word(c) => break,
                _ => self.elem(&mut elems)?,
            }
        }
        Ok(elems)
    }

    /// Parses one character, quote or expansion of a word.
    pub(crate) fn elem(&mut self, elems: &mut Vec<Elem>) -> Result<(), ShellParseError> {
        match self.next() {
            None => return self.unexpected(),
            Some('\\') => match self.next() {
                None => return refuse("it ends in a backslash"),
                Some('\n') => return refuse("a line is continued within a word"),
                Some(c) => elems.push(Elem::Char(c, true)),
            },
            Some('\'') => self.single(elems)?,
            Some('"') => self.double(elems)?,
            Some('`') => self.backticks(Quote::Nothing, elems)?,
            Some('$') => self.dollar(Quote::Nothing, elems)?,
            Some(c) => elems.push(Elem::Char(c, false)),
        }
        Ok(())
    }

    fn single(&mut self, elems: &mut Vec<Elem>) -> Result<(), ShellParseError> {
        loop {
            match self.next() {
                None => return refuse("a quote is not closed"),
                Some('\'') => break,
                Some(c) => {
                    if c == '\n' {
                        self.quoted_newline()?;
                    }
                    elems.push(Elem::Char(c, true));
                }
            }
        }
        Ok(())
    }

    /// Parses a double-quoted text, up to the closing quote.
    pub(crate) fn double(&mut self, elems: &mut Vec<Elem>) -> Result<(), ShellParseError> {
        loop {
            match self.next() {
                None => return refuse("a quote is not closed"),
                Some('"') => return Ok(()),
                Some(c) => self.quoted(c, Quote::Double, elems)?,
            }
        }
    }

    /// Parses a here-document with an unquoted delimiter.
    pub(crate) fn here_text(&mut self) -> Result<Word, ShellParseError> {
        let mut elems = Vec::new();
        while let Some(c) = self.next() {
            self.quoted(c, Quote::Here, &mut elems)?;
        }
        Ok(to_word(&elems, &self.found.loops))
    }

    fn quoted(
        &mut self,
        c: char,
        quote: Quote,
        elems: &mut Vec<Elem>,
    ) -> Result<(), ShellParseError> {
        match c {
            '\\' => match self.peek() {
                Some('\n') => return refuse("a line is continued within a quote"),
                Some(c @ ('$' | '`' | '\\')) => {
                    self.at += 1;
                    elems.push(Elem::Char(c, true));
                }
                Some('"') if quote == Quote::Double => {
                    self.at += 1;
                    elems.push(Elem::Char('"', true));
                }
                _ => elems.push(Elem::Char('\\', true)),
            },
            '`' => self.backticks(quote, elems)?,
            '$' => self.dollar(quote, elems)?,
            c => {
                if c == '\n' {
                    self.quoted_newline()?;
                }
                elems.push(Elem::Char(c, true));
            }
        }
        Ok(())
    }

    /// Parses the words of an array.
    fn array(&mut self) -> Result<(), ShellParseError> {
        self.found.sets = true;
        loop {
            self.blanks()?;
            match self.peek() {
                Some(')') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\n' | '#') => {
                    self.quoted_newline()?;
                    self.blank_lines()?;
                }
                // A subscript is evaluated, and evaluation can run commands.
                Some('[') => return refuse("a subscript is evaluated"),
                _ => {
                    if self.word()?.is_none() {
                        return self.unexpected();
                    }
                }
            }
        }
    }
}

/// Returns whether this is exactly `name=` or `name+=`.
fn ends_in_assignment(elems: &[Elem]) -> bool {
    let mut text = String::new();
    for elem in elems {
        match elem {
            Elem::Char(c, false) => text.push(*c),
            _ => return false,
        }
    }
    let name = text.strip_suffix('=').map(|t| t.strip_suffix('+').unwrap_or(t));
    name.is_some_and(super::compound::is_name)
}

/// Converts the characters of a word to pieces. What a shell would expand is unknown, and so is
/// everything that could be part of it.
pub(crate) fn to_word(elems: &[Elem], loops: &[LoopVariable]) -> Word {
    let expands_to = globs::expansions(elems, loops);
    let mut elems = elems.to_vec();
    let plain = |e: Option<&Elem>| match e {
        Some(Elem::Char(c, false)) => Some(*c),
        _ => None,
    };
    let first = |elems: &[Elem], c: char| elems.iter().position(|e| plain(Some(e)) == Some(c));
    let last = |elems: &[Elem], c: char| elems.iter().rposition(|e| plain(Some(e)) == Some(c));
    // A brace list: `{a,b}`, `{1..3}`.
    if let (Some(open), Some(close)) = (first(&elems, '{'), last(&elems, '}')) {
        let within = elems.get(open..close).unwrap_or_default();
        let comma = first(within, ',').is_some();
        let dots = within.windows(2).any(|w| w.iter().all(|e| plain(Some(e)) == Some('.')));
        if comma || dots {
            hide(&mut elems, open, close + 1, Expansion::Loose);
        }
    }
    // A bracket glob: `[ab]`. An unknown part may contain its end.
    if let Some(open) = first(&elems, '[') {
        let rest = elems.get(open..).unwrap_or_default();
        if rest.iter().any(|e| !e.is_char()) {
            let all = elems.len();
            hide(&mut elems, open, all, Expansion::Tied);
        } else if let Some(close) = last(&elems, ']').filter(|close| *close > open) {
            hide(&mut elems, open, close + 1, Expansion::Tied);
        }
    }
    // A home directory: `~`, `~name`, `x=~`, `a:~`. A program path in some shells: `=name`.
    let mut at = 0;
    while at < elems.len() {
        let here = plain(elems.get(at));
        let before = at.checked_sub(1).map(|n| elems.get(n).copied());
        let opens = matches!(before, None | Some(Some(Elem::Char('=' | ':', false))));
        let next_starts_name = plain(elems.get(at + 1)).is_some_and(|c| c.is_ascii_alphabetic());
        if opens && here == Some('~') {
            let rest = elems.get(at..).unwrap_or_default();
            let end = rest.iter().position(|e| matches!(e, Elem::Char('/' | ':', _)));
            let end = end.map_or(elems.len(), |n| at + n);
            hide(&mut elems, at, end, Expansion::Tied);
        } else if matches!(here, Some('*' | '?'))
            || (at == 0 && here == Some('=') && next_starts_name)
        {
            hide(&mut elems, at, at + 1, Expansion::Tied);
        }
        at += 1;
    }
    let mut word = Word { may_be_option: may_be_option(&elems), expands_to, ..Word::default() };
    for elem in elems {
        match (elem, word.pieces.last_mut()) {
            (Elem::Char(c, _), Some(WordPiece::Text(text))) => text.push(c),
            (Elem::Char(c, _), _) => word.pieces.push(WordPiece::Text(c.to_string())),
            (_, Some(WordPiece::Unknown)) => {}
            (_, _) => word.pieces.push(WordPiece::Unknown),
        }
    }
    word
}

/// Returns whether a word may be an option, or expand to several words one of which is.
fn may_be_option(elems: &[Elem]) -> bool {
    let is_loose = |e: &Elem| e.expansion() == Some(Expansion::Loose);
    match elems {
        [Elem::Unknown(Expansion::File)] | [] => false,
        [Elem::Char(first, _), ..] if *first != '-' => elems.iter().any(is_loose),
        _ => true,
    }
}

/// Replaces what a shell would expand by an unknown part. A loose part stays loose.
fn hide(elems: &mut Vec<Elem>, from: usize, to: usize, becomes: Expansion) {
    let hidden = elems.get(from..to).unwrap_or_default().iter();
    let becomes = hidden.filter_map(Elem::expansion).fold(becomes, Expansion::max);
    elems.splice(from..to, [Elem::Unknown(becomes)]);
}
