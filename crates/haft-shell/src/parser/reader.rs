//! The parser: lists, pipelines, blanks, and here-documents.
//!
//! One hand-written pass over the characters. Anything outside the grammar is refused; so is
//! everything that shells parse differently or that is ambiguous (parser differential).
//!
//! INVARIANT: all recursion goes through [`Reader::deeper`], so no text can overflow the stack.

use std::ops::Range;

use super::{MAX_COMMANDS, MAX_DEPTH, refuse};
use crate::{Expanded, ShellParseError, SimpleCommand, Word};

/// What was found so far, in the text and all nested texts.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) commands: Vec<SimpleCommand>,
    /// Something is evaluated from variables.
    pub(crate) evaluates: bool,
    /// A variable is set to something that is not a number.
    pub(crate) sets: bool,
    /// Number of default words, as in `${x:-word}`.
    pub(crate) default_words: usize,
    pub(crate) notes: Notes,
    /// Every loop over words, in the order in which they start.
    pub(crate) loops: Vec<LoopVariable>,
    depth: usize,
}

/// The variable of a `for` loop.
#[derive(Debug)]
pub(crate) struct LoopVariable {
    pub(crate) name: String,
    /// What it iterates over, if that depends on the names of files alone.
    pub(crate) values: Option<Vec<Expanded>>,
    /// Whether the body of the loop is being parsed.
    pub(crate) is_open: bool,
}

/// Facts that the command list does not show and stricter checks need.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Nesting depth.
    pub(crate) deepest: usize,
    /// Variables that may be set by a loop, an expansion or an expression.
    pub(crate) names: Vec<String>,
    /// A command word is written with quotes or escapes.
    pub(crate) masked: bool,
    /// Functions that are defined.
    pub(crate) functions: Vec<String>,
    /// The value of a variable is used, the output of a command is split into words, or a loop
    /// iterates over names that are not written.
    pub(crate) values: bool,
    /// The same, but the values are names of files in a directory below: the variable of a loop
    /// over a glob.
    pub(crate) file_names: bool,
    /// Commands whose words or redirections use such values.
    pub(crate) value_users: Vec<usize>,
    /// The output of the commands in one range is the input of those in the other.
    pub(crate) pipes: Vec<(Range<usize>, Range<usize>)>,
    /// Commands inside the words, redirections or assignments of another one.
    pub(crate) nested: Vec<(usize, Range<usize>)>,
    /// Commands whose word is a function of the text.
    pub(crate) calls: Vec<usize>,
    /// Commands whose word is produced by other commands: `$(echo rm) x`.
    pub(crate) made: Vec<usize>,
    /// Variables are set to something that is not a number.
    pub(crate) sets: bool,
    /// There is a loop: its commands may run more than once.
    pub(crate) loops: bool,
}

/// A position in a text.
pub(crate) struct Reader<'f> {
    text: Vec<char>,
    pub(crate) at: usize,
    /// Here-documents that start after this line.
    pub(crate) pending: Vec<Pending>,
    /// Whether here-documents of an outer command start after this line.
    outer_pending: bool,
    pub(crate) found: &'f mut Found,
}

/// A here-document whose text has not been read yet.
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

    /// Parses the whole text.
    pub(crate) fn script(&mut self) -> Result<(), ShellParseError> {
        self.list()?;
        match self.peek() {
            None if self.pending.is_empty() => Ok(()),
            None => refuse("a here-document is not terminated"),
            Some(_) => self.unexpected(),
        }
    }

    /// Parses a nested text, such as the contents of backticks.
    pub(crate) fn inner<T>(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, ShellParseError>,
    ) -> Result<T, ShellParseError> {
        self.enter_level(|this| read(&mut Reader::new(text, this.found)))
    }

    /// Enters one nesting level.
    pub(crate) fn enter_level<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, ShellParseError>,
    ) -> Result<T, ShellParseError> {
        if self.found.depth == MAX_DEPTH {
            return refuse(format!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        self.found.depth += 1;
        self.found.notes.deepest = self.found.notes.deepest.max(self.found.depth);
        let read = read(self);
        self.found.depth -= 1;
        read
    }

    /// Parses the list of a substitution, up to its bracket. Here-documents do not cross it.
    pub(crate) fn substitution(&mut self) -> Result<(), ShellParseError> {
        self.enter_level(|this| {
            let outer = std::mem::take(&mut this.pending);
            let before = this.outer_pending;
            this.outer_pending |= !outer.is_empty();
            this.list()?;
            if !this.pending.is_empty() {
                return refuse("a here-document is not terminated within its substitution");
            }
            this.pending = outer;
            this.outer_pending = before;
            this.take(')')
        })
    }

    /// Parses a list that must contain a command.
    pub(crate) fn body(&mut self) -> Result<(), ShellParseError> {
        if self.list()? == 0 {
            return refuse("a command is missing");
        }
        Ok(())
    }

    /// Parses commands up to the end of a list, and returns their number.
    pub(crate) fn list(&mut self) -> Result<usize, ShellParseError> {
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

    /// Parses pipelines between `&&` and `||`.
    fn pipelines(&mut self) -> Result<(), ShellParseError> {
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

    fn pipeline(&mut self) -> Result<(), ShellParseError> {
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

    /// Reserves a slot for a command, so that commands are listed in the order in which they start.
    pub(crate) fn reserve(&mut self) -> Result<usize, ShellParseError> {
        if self.found.commands.len() == MAX_COMMANDS {
            return refuse(format!("it has more than {MAX_COMMANDS} commands"));
        }
        self.found.commands.push(SimpleCommand::default());
        Ok(self.found.commands.len() - 1)
    }

    /// Stores a command in its slot.
    pub(crate) fn place(&mut self, slot: usize, command: SimpleCommand) {
        if let Some(place) = self.found.commands.get_mut(slot) {
            *place = command;
        }
    }

    /// Records the commands found inside one command since then.
    pub(crate) fn record_nested(&mut self, command: usize, since: usize) {
        let end = self.found.commands.len();
        if since < end {
            self.found.notes.nested.push((command, since..end));
        }
    }

    /// Returns the text consumed since `start`.
    pub(crate) fn text_from(&self, start: usize) -> &[char] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.ahead(0)
    }

    pub(crate) fn ahead(&self, n: usize) -> Option<char> {
        self.text.get(self.at + n).copied()
    }

    /// Consumes and returns the next character.
    pub(crate) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    /// Consumes this character, which must be next.
    pub(crate) fn take(&mut self, wanted: char) -> Result<(), ShellParseError> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        match self.peek() {
            None => refuse(format!("a `{wanted}` is missing")),
            Some(_) => self.unexpected(),
        }
    }

    /// Consumes this reserved word, which must be next.
    pub(crate) fn expect(&mut self, wanted: &str) -> Result<(), ShellParseError> {
        if self.plain().as_deref() != Some(wanted) {
            return refuse(format!("a `{wanted}` is missing"));
        }
        self.at += wanted.len();
        Ok(())
    }

    /// Returns the next word if it is short and without quotes and expansions, so that it may be a
    /// reserved word or a name.
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

    /// Skips blanks and continued lines.
    pub(crate) fn blanks(&mut self) -> Result<(), ShellParseError> {
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

    /// Skips blanks, comments and line ends.
    pub(crate) fn blank_lines(&mut self) -> Result<(), ShellParseError> {
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

    /// Checks that a line may end inside a word here. Shells differ on where a here-document starts
    /// if the line of its command continues in a quote or a substitution.
    pub(crate) fn quoted_newline(&self) -> Result<(), ShellParseError> {
        if self.outer_pending || !self.pending.is_empty() {
            return refuse("the line of a here-document goes on in a quote or a substitution");
        }
        Ok(())
    }

    /// Consumes a line end and reads the here-documents that start there.
    fn newline(&mut self) -> Result<(), ShellParseError> {
        if self.outer_pending {
            return self.quoted_newline();
        }
        self.at += 1;
        for pending in std::mem::take(&mut self.pending) {
            let before = self.found.commands.len();
            let values_before = std::mem::take(&mut self.found.notes.values);
            let word = self.here_document(&pending)?;
            let (command, redirect) = pending.slot;
            if self.found.notes.values {
                self.found.notes.value_users.push(command);
            }
            self.found.notes.values |= values_before;
            self.record_nested(command, before);
            let command = self.found.commands.get_mut(command);
            if let Some(redirect) = command.and_then(|c| c.redirects.get_mut(redirect)) {
                redirect.target = word;
            }
        }
        Ok(())
    }

    fn here_document(&mut self, pending: &Pending) -> Result<Word, ShellParseError> {
        let mut body = String::new();
        loop {
            if self.at >= self.text.len() {
                return refuse("a here-document is not terminated");
            }
            let rest = self.text.get(self.at..).unwrap_or_default();
            let line: String = rest.iter().take_while(|c| **c != '\n').collect();
            self.at += line.chars().count() + 1;
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { &line };
            if line == pending.end {
                // The line end belongs to the list again; at the end of the text there is none.
                self.at = self.at.min(self.text.len());
                break;
            }
            let slashes = line.chars().rev().take_while(|c| *c == '\\').count();
            if !pending.literal && slashes % 2 == 1 {
                return refuse("a line of a here-document is continued");
            }
            body.push_str(line);
            body.push('\n');
        }
        if pending.literal {
            Ok(Word::text(body))
        } else {
            self.inner(&body, |inner| inner.here_text())
        }
    }

    pub(crate) fn unexpected<T>(&self) -> Result<T, ShellParseError> {
        match self.peek() {
            None => refuse("it ends too early"),
            Some('\n') => refuse("a line ends too early"),
            Some(c) => refuse(format!("`{c}` is not expected after {} characters", self.at)),
        }
    }
}

/// Returns whether a word ends before this character.
pub(crate) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}
