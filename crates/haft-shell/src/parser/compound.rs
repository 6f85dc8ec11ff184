//! Parses compound commands: subshells, groups, conditions, loops, `case`, functions.

use super::{
    expand::Until,
    globs,
    reader::{LoopVariable, Reader},
    refuse,
    simple::RESERVED,
};
use crate::{ShellParseError, SimpleCommand};

impl Reader<'_> {
    /// Parses one command of a pipeline.
    pub(crate) fn command(&mut self) -> Result<(), ShellParseError> {
        self.blanks()?;
        let first = self.found.commands.len();
        let word = self.plain();
        let word = word.as_deref().unwrap_or_default();
        let brackets = (self.peek(), self.ahead(1));
        match (word, brackets) {
            (_, (Some('('), Some('('))) => self.arithmetic_command()?,
            (_, (Some('('), _)) => {
                self.at += 1;
                self.enter_level(|this| {
                    this.body()?;
                    this.take(')')
                })?;
            }
            ("{", _) => self.after(word, |this| {
                this.body()?;
                this.expect("}")
            })?,
            ("if", _) => self.after(word, Self::condition)?,
            ("while" | "until", _) => self.after(word, |this| {
                this.body()?;
                this.loop_body()
            })?,
            ("for" | "select", _) => self.after(word, Self::for_loop)?,
            ("case", _) => self.after(word, Self::case_command)?,
            ("function", _) => {
                self.at += word.len();
                self.blanks()?;
                let Some(name) = self.plain() else { return refuse("a function has no name") };
                self.at += name.len();
                self.blanks()?;
                if self.peek() == Some('(') {
                    self.at += 1;
                    self.blanks()?;
                    self.take(')')?;
                }
                return self.function(name);
            }
            ("[[", _) => self.after(word, Self::test)?,
            ("time", _) => {
                self.timed()?;
                return self.simple();
            }
            ("!" | "coproc" | "in" | "repeat" | "foreach" | "nocorrect" | "-", _) => {
                return refuse(format!("`{word}` is not supported here"));
            }
            ("then" | "else" | "elif" | "fi" | "do" | "done" | "esac" | "}" | "]]", _) => {
                return self.unexpected();
            }
            _ => return self.simple(),
        }
        self.redirects_of_compound(first)
    }

    fn after(
        &mut self,
        word: &str,
        read: impl FnOnce(&mut Self) -> Result<(), ShellParseError>,
    ) -> Result<(), ShellParseError> {
        self.at += word.len();
        self.enter_level(read)
    }

    /// `time` is a reserved word in one shell and a program in another. Before a simple command
    /// there is no difference; before anything else it is refused.
    fn timed(&mut self) -> Result<(), ShellParseError> {
        let here = self.at;
        while matches!(self.plain().as_deref(), Some("time" | "-p" | "--")) {
            self.at += self.plain().map_or(0, |word| word.len());
            self.blanks()?;
        }
        let other = ["coproc", "in", "]]"];
        let compound = matches!(self.peek(), None | Some('(' | '{' | '[' | '\n' | ';' | '&' | '|'))
            || self.plain().is_some_and(|w| RESERVED.contains(&&*w) || other.contains(&&*w));
        self.at = here;
        if compound { refuse("`time` before something else than a simple command") } else { Ok(()) }
    }

    fn condition(&mut self) -> Result<(), ShellParseError> {
        self.body()?;
        self.expect("then")?;
        self.body()?;
        loop {
            match self.plain().as_deref() {
                Some("elif") => {
                    self.at += 4;
                    self.body()?;
                    self.expect("then")?;
                    self.body()?;
                }
                Some("else") => {
                    self.at += 4;
                    self.body()?;
                    return self.expect("fi");
                }
                _ => return self.expect("fi"),
            }
        }
    }

    fn loop_body(&mut self) -> Result<(), ShellParseError> {
        self.found.notes.loops = true;
        self.expect("do")?;
        self.body()?;
        self.expect("done")
    }

    fn for_loop(&mut self) -> Result<(), ShellParseError> {
        let mut variable = None;
        self.blanks()?;
        if (self.peek(), self.ahead(1)) == (Some('('), Some('(')) {
            self.at += 2;
            self.arithmetic(Until::Loop)?;
            self.blanks()?;
            if self.peek() == Some(';') {
                self.at += 1;
            }
        } else {
            let Some(name) = self.plain().filter(|name| is_name(name)) else {
                return refuse("a loop has no variable");
            };
            self.at += name.len();
            self.found.notes.names.push(name.clone());
            self.blank_lines()?;
            if self.plain().as_deref() == Some("in") {
                self.at += 2;
                let mut values = Some(Vec::new());
                loop {
                    self.blanks()?;
                    if matches!(self.peek(), Some(';' | '\n' | '#')) {
                        break;
                    }
                    let Some(word) = self.word()? else { return self.unexpected() };
                    self.found.sets |= !is_number(word.literal());
                    match globs::values(&word) {
                        Some(more) => {
                            self.found.notes.file_names |= word.has_unknown();
                            values.iter_mut().for_each(|all| all.extend(more.iter().cloned()));
                        }
                        None => {
                            self.found.notes.values |= word.has_unknown();
                            values = None;
                        }
                    }
                }
                variable = Some(LoopVariable { name, values, is_open: true });
            } else {
                self.found.sets = true;
            }
            if self.peek() == Some(';') {
                self.at += 1;
            }
        }
        self.blank_lines()?;
        let at = self.found.loops.len();
        self.found.loops.extend(variable);
        self.loop_body()?;
        if let Some(ended) = self.found.loops.get_mut(at) {
            ended.is_open = false;
        }
        Ok(())
    }

    fn case_command(&mut self) -> Result<(), ShellParseError> {
        self.blanks()?;
        if self.word()?.is_none() {
            return self.unexpected();
        }
        self.blank_lines()?;
        self.expect("in")?;
        loop {
            self.blank_lines()?;
            if self.plain().as_deref() == Some("esac") {
                return self.expect("esac");
            }
            if self.peek() == Some('(') {
                self.at += 1;
            }
            loop {
                self.blanks()?;
                if self.word()?.is_none() {
                    return self.unexpected();
                }
                self.blanks()?;
                match self.next() {
                    Some('|') => {}
                    Some(')') => break,
                    _ => return refuse("a `case` pattern has no `)`"),
                }
            }
            self.list()?;
            match (self.peek(), self.ahead(1), self.ahead(2)) {
                (Some(';'), Some(';'), Some('&')) => self.at += 3,
                (Some(';'), Some(';' | '&'), _) => self.at += 2,
                _ => return self.expect("esac"),
            }
        }
    }

    /// Parses the body of a function. Its commands are listed like all others.
    pub(crate) fn function(&mut self, name: String) -> Result<(), ShellParseError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        if !name.chars().all(fits) || name.chars().all(|c| c.is_ascii_digit()) {
            return refuse("a function name is not supported");
        }
        self.found.notes.functions.push(name);
        self.blank_lines()?;
        let compound = self.peek() == Some('(')
            || matches!(
                self.plain().as_deref(),
                Some("{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[")
            );
        if !compound {
            return refuse("a function has no body");
        }
        self.enter_level(Self::command)
    }

    /// Parses `(( … ))`.
    fn arithmetic_command(&mut self) -> Result<(), ShellParseError> {
        let slot = self.reserve()?;
        self.at += 2;
        self.enter_level(|this| this.arithmetic(Until::Brackets))?;
        let words = vec![crate::Word::text("(("), crate::Word::unknown(), crate::Word::text("))")];
        self.place(slot, SimpleCommand { words, ..SimpleCommand::default() });
        Ok(())
    }
}

/// Returns whether a text is a valid variable name.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns whether a value is known to be a plain number or empty.
pub(crate) fn is_number(text: Option<&str>) -> bool {
    text.is_some_and(|t| t.strip_prefix('-').unwrap_or(t).bytes().all(|b| b.is_ascii_digit()))
}
