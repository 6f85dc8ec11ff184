//! Parses expansions after `$` or a backtick. The value is unknown; the commands inside are parsed.

use super::{
    reader::{LoopVariable, Reader},
    refuse,
    word::{Elem, Expansion, Quote},
};
use crate::ShellParseError;

/// The end of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// `))`
    Brackets,
    /// `))`, with `;` between expressions.
    Loop,
    /// `]`
    Subscript,
    /// `}`
    Brace,
}

impl Reader<'_> {
    /// Parses what follows a `$`.
    pub(crate) fn dollar(
        &mut self,
        quote: Quote,
        elems: &mut Vec<Elem>,
    ) -> Result<(), ShellParseError> {
        // A quoted expansion is one word, unless it lists all arguments or array items.
        let becomes = match (quote, self.peek()) {
            (Quote::Nothing, _) | (_, Some('@' | '{')) => Expansion::Loose,
            (Quote::Double | Quote::Here, _) => Expansion::Tied,
        };
        if let Some(of) = self.loop_variable() {
            let is_quoted = quote != Quote::Nothing;
            let is_known =
                is_quoted && self.found.loops.get(of).is_some_and(|l| l.values.is_some());
            self.found.notes.file_names |= is_known;
            self.found.notes.values |= !is_known;
            elems.push(Elem::Variable { of, is_quoted, becomes });
            return Ok(());
        }
        self.found.notes.values |= match self.peek() {
            // Output inside quotes is not split into words.
            Some('(') if self.ahead(1) != Some('(') => quote == Quote::Nothing,
            Some('{' | '(' | '"' | '0'..='9' | '@' | '*' | '_') => true,
            Some(c) => c.is_ascii_alphabetic(),
            None => false,
        };
        match self.peek() {
            Some('(') if self.ahead(1) == Some('(') => {
                self.at += 2;
                self.enter_level(|this| this.arithmetic(Until::Brackets))?;
            }
            Some('(') => {
                self.at += 1;
                self.substitution()?;
            }
            Some('{') => {
                self.at += 1;
                self.enter_level(|this| this.parameter(quote))?;
            }
            Some('\'') if quote == Quote::Nothing => {
                self.at += 1;
                return self.escaped(elems);
            }
            Some('"') if quote == Quote::Nothing => {
                // The text may be replaced by a translation.
                self.at += 1;
                self.double(&mut Vec::new())?;
            }
            Some('[') => return refuse("`$[` is read differently by different shells"),
            Some('\\') if self.ahead(1) == Some('\n') => {
                return refuse("a line is continued within a word");
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
                // Some shells parse `$a[…]` as a subscript, others as text after `$a`.
                if (self.peek(), self.ahead(1)) == (Some('['), Some('$')) {
                    return refuse("a subscript is evaluated");
                }
            }
            Some('0'..='9' | '@' | '*' | '#' | '?' | '-' | '$' | '!') => self.at += 1,
            _ => {
                elems.push(Elem::Char('$', true));
                return Ok(());
            }
        }
        elems.push(Elem::Unknown(becomes));
        Ok(())
    }

    /// Consumes `name` or `{name}`, if that is the variable of a loop around it, and returns the
    /// number of the loop.
    fn loop_variable(&mut self) -> Option<usize> {
        let braced = self.peek() == Some('{');
        let from = usize::from(braced);
        let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let name: String = (from..).map_while(|n| self.ahead(n)).take_while(is_part).collect();
        let end = from + name.len();
        let ends = match self.ahead(end) {
            Some('}') => true,
            // Some shells parse `$a[…]` as a subscript.
            Some('[') => false,
            _ => !braced,
        };
        let is_own = |own: &LoopVariable| own.is_open && own.name == name;
        let of = self.found.loops.iter().rposition(is_own).filter(|_| ends)?;
        self.at += end + from;
        Some(of)
    }

    /// Parses a backtick substitution, up to the closing backtick.
    pub(crate) fn backticks(
        &mut self,
        quote: Quote,
        elems: &mut Vec<Elem>,
    ) -> Result<(), ShellParseError> {
        let mut text = String::new();
        loop {
            match self.next() {
                None => return refuse("a backtick is not closed"),
                Some('`') => break,
                Some('\\') => match (self.next(), quote) {
                    (None, _) => return refuse("a backtick is not closed"),
                    (Some('"'), Quote::Here) => return refuse("a quote in backticks is ambiguous"),
                    (Some('"'), Quote::Double) => text.push('"'),
                    (Some(c @ ('`' | '$' | '\\')), _) => text.push(c),
                    (Some('\n'), _) => return refuse("a line is continued within backticks"),
                    (Some(c), _) => text.extend(['\\', c]),
                },
                Some(c) => {
                    if c == '\n' {
                        self.quoted_newline()?;
                    }
                    text.push(c);
                }
            }
        }
        self.inner(&text, |inner| inner.script())?;
        self.found.notes.values |= quote == Quote::Nothing;
        elems.push(Elem::Unknown(Expansion::Loose));
        Ok(())
    }

    /// Parses `$'…'`: text with escapes.
    fn escaped(&mut self, elems: &mut Vec<Elem>) -> Result<(), ShellParseError> {
        loop {
            let c = match self.next() {
                None => return refuse("a quote is not closed"),
                Some('\'') => return Ok(()),
                Some('\\') => match self.next() {
                    None => return refuse("a quote is not closed"),
                    Some('a') => '\u{7}',
                    Some('b') => '\u{8}',
                    Some('e' | 'E') => '\u{1b}',
                    Some('f') => '\u{c}',
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('v') => '\u{b}',
                    Some(c @ ('\\' | '\'' | '"' | '?')) => c,
                    Some('x') => self.code(16, 2, 0x7f)?,
                    Some('u') => self.code(16, 4, 0x10_ffff)?,
                    Some('U') => self.code(16, 8, 0x10_ffff)?,
                    Some('0'..='7') => {
                        self.at -= 1;
                        self.code(8, 3, 0x7f)?
                    }
                    // `\c`, a continued line, and unknown escapes.
                    Some(_) => return refuse("an escape is not supported"),
                },
                Some('\n') => {
                    self.quoted_newline()?;
                    '\n'
                }
                Some(c) => c,
            };
            elems.push(Elem::Char(c, true));
        }
    }

    /// Parses a numeric escape.
    fn code(&mut self, radix: u32, most: usize, highest: u32) -> Result<char, ShellParseError> {
        let mut code = None;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            self.at += 1;
            code = Some(code.unwrap_or(0_u32).saturating_mul(radix).saturating_add(digit));
        }
        // Zero ends the text in some shells, and bytes beyond ASCII combine into characters.
        match code.filter(|n| (1..=highest).contains(n)).and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => refuse("an escape is not supported"),
        }
    }

    /// Parses what follows `${`.
    fn parameter(&mut self, quote: Quote) -> Result<(), ShellParseError> {
        let length = self.peek() == Some('#');
        if length {
            self.at += 1;
            if self.peek() == Some('}') {
                self.at += 1;
                return Ok(());
            }
        }
        let start = self.at;
        match self.peek() {
            Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
            }
            Some('@' | '*' | '?' | '$' | '-') => self.at += 1,
            // `${!x}` is an indirect reference, `${ x; }` runs a command.
            _ => return refuse("an expansion is not supported"),
        }
        let name: String = self.text_from(start).iter().collect();
        if self.peek() == Some('[') {
            self.at += 1;
            if matches!((self.peek(), self.ahead(1)), (Some('@' | '*'), Some(']'))) {
                self.at += 2;
            } else {
                self.arithmetic(Until::Subscript)?;
            }
        }
        match (self.next(), self.peek()) {
            (Some('}'), _) => return Ok(()),
            _ if length => return refuse("an expansion is not supported"),
            (Some(':'), Some('=')) | (Some('='), _) => {
                self.found.sets = true;
                self.found.notes.names.push(name);
            }
            (Some(':'), Some('-' | '?' | '+')) => {}
            (Some(':'), _) => return self.arithmetic(Until::Brace),
            (Some('-' | '?' | '+' | '#' | '%' | '/' | '^' | ','), _) => {}
            // `${x@P}` runs the contents of `x`.
            _ => return refuse("an expansion is not supported"),
        }
        self.default_word(quote)
    }

    /// Parses the word in `${x:-word}`.
    fn default_word(&mut self, quote: Quote) -> Result<(), ShellParseError> {
        let mut unused = Vec::new();
        self.found.default_words += 1;
        loop {
            match (self.peek(), self.ahead(1)) {
                (Some('}'), _) => {
                    self.at += 1;
                    return Ok(());
                }
                // Shells differ here.
                (Some('\''), _) if quote != Quote::Nothing => {
                    return refuse("a quote is ambiguous here");
                }
                (Some('"'), _) if quote == Quote::Here => {
                    return refuse("a quote is ambiguous here");
                }
                (Some('<' | '>'), Some('(')) | (Some('{'), _) => return self.unexpected(),
                (Some('`' | '$'), _) if quote != Quote::Nothing => match self.next() {
                    Some('$') => self.dollar(quote, &mut unused)?,
                    _ => self.backticks(quote, &mut unused)?,
                },
                (Some('\n'), _) => {
                    self.quoted_newline()?;
                    self.at += 1;
                }
                _ => self.elem(&mut unused)?,
            }
        }
    }

    /// Parses an arithmetic expression. Accepts only what every shell parses as one: `$((ls); rm
    /// x)` is a command substitution.
    pub(crate) fn arithmetic(&mut self, until: Until) -> Result<(), ShellParseError> {
        let before = self.made();
        self.expression_until(until)?;
        self.evaluated_since(before);
        Ok(())
    }

    /// Counts sources of values: commands, and default words.
    pub(crate) fn made(&self) -> (usize, usize) {
        (self.found.commands.len(), self.found.default_words)
    }

    /// Records that values found since `before` are evaluated. `$(( $(echo 'a[$(rm x)]') ))` runs
    /// `rm`: the output of a command is evaluated like the text itself.
    pub(crate) fn evaluated_since(&mut self, before: (usize, usize)) {
        if self.made() != before {
            self.found.evaluates = true;
            self.found.sets = true;
        }
    }

    fn expression_until(&mut self, until: Until) -> Result<(), ShellParseError> {
        let mut round = 0_usize;
        let mut square = 0_usize;
        let mut unused = Vec::new();
        let mut after_value = false;
        let mut value_ended = false;
        loop {
            let Some(c) = self.next() else { return self.unexpected() };
            // `((rm x))` is not arithmetic, and some shells would then run a command.
            let is_of_value = c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '`');
            match c {
                ' ' | '\t' | '\n' => value_ended |= after_value,
                _ if is_of_value && value_ended => return refuse("an expression is not supported"),
                _ => value_ended = false,
            }
            after_value = is_of_value;
            match c {
                ']' if until == Until::Subscript && square == 0 && round == 0 => return Ok(()),
                '}' if until == Until::Brace && square == 0 && round == 0 => return Ok(()),
                ')' if round == 0 => match until {
                    Until::Brackets | Until::Loop if square == 0 => return self.take(')'),
                    _ => return refuse("brackets do not match"),
                },
                '(' => round += 1,
                ')' => round -= 1,
                '[' => square += 1,
                ']' if square > 0 => square -= 1,
                ';' if until == Until::Loop && round == 0 => {}
                '$' => {
                    self.found.evaluates = true;
                    self.dollar(Quote::Double, &mut unused)?;
                }
                '`' => {
                    self.found.evaluates = true;
                    self.backticks(Quote::Double, &mut unused)?;
                }
                '0'..='9' => {
                    while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '#') {
                        self.at += 1;
                    }
                }
                c if c.is_ascii_alphabetic() || c == '_' => {
                    self.found.evaluates = true;
                    let mut name = String::from(c);
                    while let Some(c) =
                        self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_')
                    {
                        name.push(c);
                        self.at += 1;
                    }
                    self.found.notes.names.push(name);
                }
                '\n' => self.quoted_newline()?,
                ' ' | '\t' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|'
                | '^' | '~' | '?' | ':' | ',' => {}
                _ => return refuse("an expression is not supported"),
            }
        }
    }
}
