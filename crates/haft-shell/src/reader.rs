//! Walks through the text: lists, pipelines, blanks, and the here-documents that follow a line.
//!
//! One pass over the characters, by hand. Whatever the grammar below does not name is refused; where
//! shells differ, or a construct could be read in two ways, it is refused too.
//!
//! INVARIANT: whatever recurses goes through [`Reader::deeper`], so no text can exhaust the stack.

use std::ops::Range;

use crate::{Command, DEEPEST, MOST_COMMANDS, Unparseable, Word, no};

/// What was found so far, in all texts within the text.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) commands: Vec<Command>,
    /// Something is computed from variables.
    pub(crate) computes: bool,
    /// A variable is set to something that is no number.
    pub(crate) sets: bool,
    /// Words that stand in for a value, as in `${x:-word}`.
    pub(crate) alternatives: usize,
    pub(crate) notes: Notes,
    depth: usize,
}

/// What the list of commands does not show, and a stricter reader wants to know.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// How deep it is nested.
    pub(crate) deepest: usize,
    /// Variables that may be set by a loop, an expansion or an expression.
    pub(crate) names: Vec<String>,
    /// A command word is written with quotes or escapes.
    pub(crate) masked: bool,
    /// Functions that are defined.
    pub(crate) functions: Vec<String>,
    /// What a variable holds is used, or what a command prints is taken apart into words, or a loop
    /// goes over names that are not written.
    pub(crate) values: bool,
    /// What the commands of one range print is the input of those of the other.
    pub(crate) pipes: Vec<(Range<usize>, Range<usize>)>,
    /// Commands that stand in the words, redirections or assignments of another one.
    pub(crate) nested: Vec<(usize, Range<usize>)>,
    /// Commands whose word is the name of a function of the text.
    pub(crate) calls: Vec<usize>,
    /// Commands whose word is made by other commands: `$(echo rm) x`.
    pub(crate) made: Vec<usize>,
    /// Variables are set to something that is no number.
    pub(crate) sets: bool,
    /// A loop: its commands may run more than once.
    pub(crate) loops: bool,
}

/// A place in a text.
pub(crate) struct Reader<'f> {
    text: Vec<char>,
    pub(crate) at: usize,
    /// Here-documents whose text begins after this line.
    pub(crate) pending: Vec<Pending>,
    /// Here-documents of an outer command begin after this line.
    outer_pending: bool,
    pub(crate) found: &'f mut Found,
}

/// A here-document whose text has not come yet.
pub(crate) struct Pending {
    pub(crate) end: String,
    pub(crate) strip_tabs: bool,
    pub(crate) literal: bool,
    /// The command and the redirection that it belongs to.
    pub(crate) slot: (usize, usize),
}

/// Words that end a list.
const CLOSERS: [&str; 8] = ["then", "else", "elif", "fi", "do", "done", "esac", "}"];

impl<'f> Reader<'f> {
    pub(crate) fn new(text: &str, found: &'f mut Found) -> Self {
        let text = text.chars().collect();
        Self { text, at: 0, pending: Vec::new(), outer_pending: false, found }
    }

    /// Reads all of the text.
    pub(crate) fn script(&mut self) -> Result<(), Unparseable> {
        self.list()?;
        match self.peek() {
            None if self.pending.is_empty() => Ok(()),
            None => no("a here-document has no end"),
            Some(_) => self.unexpected(),
        }
    }

    /// Reads a text within the text, such as what stands in backticks.
    pub(crate) fn inner<T>(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Unparseable>,
    ) -> Result<T, Unparseable> {
        self.deeper(|this| read(&mut Reader::new(text, this.found)))
    }

    /// Goes one level down.
    pub(crate) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Unparseable>,
    ) -> Result<T, Unparseable> {
        if self.found.depth == DEEPEST {
            return no(format!("it is nested deeper than {DEEPEST} levels"));
        }
        self.found.depth += 1;
        self.found.notes.deepest = self.found.notes.deepest.max(self.found.depth);
        let read = read(self);
        self.found.depth -= 1;
        read
    }

    /// Reads the list of a substitution, up to its bracket. Here-documents do not cross it.
    pub(crate) fn substitution(&mut self) -> Result<(), Unparseable> {
        self.deeper(|this| {
            let outer = std::mem::take(&mut this.pending);
            let before = this.outer_pending;
            this.outer_pending |= !outer.is_empty();
            this.list()?;
            if !this.pending.is_empty() {
                return no("a here-document has no end within its substitution");
            }
            this.pending = outer;
            this.outer_pending = before;
            this.take(')')
        })
    }

    /// Reads a list that must hold a command.
    pub(crate) fn body(&mut self) -> Result<(), Unparseable> {
        if self.list()? == 0 {
            return no("a command is missing");
        }
        Ok(())
    }

    /// Reads commands up to something that ends a list, and returns how many there were.
    pub(crate) fn list(&mut self) -> Result<usize, Unparseable> {
        let mut count = 0;
        loop {
            self.blank_lines()?;
            if self.at_closer() {
                return Ok(count);
            }
            self.pipelines()?;
            count += 1;
            self.blanks()?;
            match (self.peek(), self.ahead(1)) {
                (None | Some(')'), _) | (Some(';'), Some(';' | '&')) => return Ok(count),
                (Some(';' | '&'), _) => self.at += 1,
                (Some('\n' | '#'), _) => {}
                _ => return self.unexpected(),
            }
        }
    }

    fn at_closer(&self) -> bool {
        match self.peek() {
            None | Some(')') => true,
            Some(';') => matches!(self.ahead(1), Some(';' | '&')),
            _ => self.plain().is_some_and(|word| CLOSERS.contains(&&*word)),
        }
    }

    /// Reads pipelines between `&&` and `||`.
    fn pipelines(&mut self) -> Result<(), Unparseable> {
        loop {
            self.pipeline()?;
            self.blanks()?;
            match (self.peek(), self.ahead(1)) {
                (Some('&'), Some('&')) | (Some('|'), Some('|')) => self.at += 2,
                _ => return Ok(()),
            }
            self.blank_lines()?;
        }
    }

    fn pipeline(&mut self) -> Result<(), Unparseable> {
        if self.plain().as_deref() == Some("!") {
            self.at += 1;
            self.blanks()?;
        }
        let first = self.found.commands.len();
        loop {
            let stage = self.found.commands.len();
            self.command()?;
            if stage > first {
                let end = self.found.commands.len();
                self.found.notes.pipes.push((first..stage, stage..end));
            }
            self.blanks()?;
            if self.peek() != Some('|') || self.ahead(1) == Some('|') {
                return Ok(());
            }
            self.at += if self.ahead(1) == Some('&') { 2 } else { 1 };
            self.blank_lines()?;
        }
    }

    /// Makes room for a command, so that commands stand in the order in which they begin.
    pub(crate) fn reserve(&mut self) -> Result<usize, Unparseable> {
        if self.found.commands.len() == MOST_COMMANDS {
            return no(format!("it holds more than {MOST_COMMANDS} commands"));
        }
        self.found.commands.push(Command::default());
        Ok(self.found.commands.len() - 1)
    }

    /// Puts a command where room was made for it.
    pub(crate) fn place(&mut self, slot: usize, command: Command) {
        if let Some(place) = self.found.commands.get_mut(slot) {
            *place = command;
        }
    }

    /// Takes note of the commands that were found within one command since then.
    pub(crate) fn nests(&mut self, command: usize, since: usize) {
        let end = self.found.commands.len();
        if since < end {
            self.found.notes.nested.push((command, since..end));
        }
    }

    /// Returns what was gone past since then.
    pub(crate) fn text_from(&self, start: usize) -> &[char] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.ahead(0)
    }

    pub(crate) fn ahead(&self, n: usize) -> Option<char> {
        self.text.get(self.at + n).copied()
    }

    /// Returns the next character and goes past it.
    pub(crate) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    /// Goes past this character, which must be next.
    pub(crate) fn take(&mut self, wanted: char) -> Result<(), Unparseable> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        match self.peek() {
            None => no(format!("a `{wanted}` is missing")),
            Some(_) => self.unexpected(),
        }
    }

    /// Goes past this reserved word, which must be next.
    pub(crate) fn expect(&mut self, wanted: &str) -> Result<(), Unparseable> {
        if self.plain().as_deref() != Some(wanted) {
            return no(format!("a `{wanted}` is missing"));
        }
        self.at += wanted.len();
        Ok(())
    }

    /// Returns the next word if it is short and nothing in it is quoted or expanded, so that it may
    /// be a reserved word or a name.
    pub(crate) fn plain(&self) -> Option<String> {
        let mut word = String::new();
        for &c in self.text.get(self.at..)? {
            match c {
                c if ends_word(c) => break,
                '\'' | '"' | '\\' | '$' | '`' => return None,
                c if word.len() > 64 || !c.is_ascii() => return None,
                c => word.push(c),
            }
        }
        Some(word).filter(|word| !word.is_empty())
    }

    /// Goes past blanks and continued lines.
    pub(crate) fn blanks(&mut self) -> Result<(), Unparseable> {
        loop {
            match (self.peek(), self.ahead(1)) {
                (Some(' ' | '\t'), _) => self.at += 1,
                (Some('\\'), Some('\n')) => {
                    self.quoted_newline()?;
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Goes past blanks, comments and ends of lines.
    pub(crate) fn blank_lines(&mut self) -> Result<(), Unparseable> {
        loop {
            self.blanks()?;
            match self.peek() {
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                Some('\n') => self.newline()?,
                _ => return Ok(()),
            }
        }
    }

    /// Checks that a line may end within a word here. Shells do not agree where the text of a
    /// here-document begins when the line of its command goes on in a quote or a substitution.
    pub(crate) fn quoted_newline(&self) -> Result<(), Unparseable> {
        if self.outer_pending || !self.pending.is_empty() {
            return no("the line of a here-document goes on in a quote or a substitution");
        }
        Ok(())
    }

    /// Goes past the end of a line and reads the here-documents that begin there.
    fn newline(&mut self) -> Result<(), Unparseable> {
        if self.outer_pending {
            return self.quoted_newline();
        }
        self.at += 1;
        for pending in std::mem::take(&mut self.pending) {
            let before = self.found.commands.len();
            let word = self.here_document(&pending)?;
            let (command, redirect) = pending.slot;
            self.nests(command, before);
            let command = self.found.commands.get_mut(command);
            if let Some(redirect) = command.and_then(|c| c.redirects.get_mut(redirect)) {
                redirect.target = word;
            }
        }
        Ok(())
    }

    fn here_document(&mut self, pending: &Pending) -> Result<Word, Unparseable> {
        let mut body = String::new();
        loop {
            if self.at >= self.text.len() {
                return no("a here-document has no end");
            }
            let rest = self.text.get(self.at..).unwrap_or_default();
            let line: String = rest.iter().take_while(|c| **c != '\n').collect();
            self.at += line.chars().count() + 1;
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { &line };
            if line == pending.end {
                // The line's end belongs to the list again; at the end of the text there is none.
                self.at = self.at.min(self.text.len());
                break;
            }
            let slashes = line.chars().rev().take_while(|c| *c == '\\').count();
            if !pending.literal && slashes % 2 == 1 {
                return no("a line of a here-document is continued");
            }
            body.push_str(line);
            body.push('\n');
        }
        match pending.literal {
            true => Ok(Word::text(body)),
            false => self.inner(&body, |inner| inner.here_text()),
        }
    }

    pub(crate) fn unexpected<T>(&self) -> Result<T, Unparseable> {
        match self.peek() {
            None => no("it ends too early"),
            Some('\n') => no("a line ends too early"),
            Some(c) => no(format!("`{c}` is not expected after {} characters", self.at)),
        }
    }
}

/// Returns whether a word ends before this character.
pub(crate) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}
