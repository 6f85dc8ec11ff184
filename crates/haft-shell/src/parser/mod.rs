//! Parses a shell text without expanding or running anything.
//!
//! In: a text. Out: its simple commands, and notes for stricter checks. `reader` parses lists and
//! pipelines; a file of its own parses each other part of the grammar. `finish` refuses what the
//! commands together make unclear.

mod invisible;
mod reader;
mod compound;
mod simple;
mod word;
mod globs;
mod expand;
mod test;
mod finish;

use std::rc::Rc;

pub(crate) use self::reader::Notes;
use self::reader::{Found, Reader};
use crate::{
    Script, ShellParseError,
    memo::{Memo, memoized},
};

/// Maximum length of a text in characters.
pub const MAX_CHARACTERS: usize = 10_000;
/// Maximum number of commands in a text.
pub const MAX_COMMANDS: usize = 50;
/// Maximum nesting depth.
pub const MAX_DEPTH: usize = 16;

/// Parses a command.
///
/// ```
/// let script = haft_shell::parse("ls -l && echo \"$(rm x)\"").unwrap();
/// let first: Vec<_> = script.commands.iter().map(|c| c.words[0].literal()).collect();
/// assert_eq!(first, [Some("ls"), Some("echo"), Some("rm")]);
/// ```
///
/// # Errors
/// Fails if the text is not valid shell, too long, nested too deep, or has invisible characters.
pub fn parse(text: &str) -> Result<Script, ShellParseError> {
    read(text).map(|read| read.0.clone())
}

/// A parsed text, with notes that the command list does not show.
type Parsed = Result<Rc<(Script, Notes)>, ShellParseError>;

thread_local! {
    static PARSED: Memo<Parsed> = const { Memo::new() };
}

/// Parses a command, and returns notes that the command list does not show.
pub(crate) fn read(text: &str) -> Parsed {
    memoized(&PARSED, text, || {
        invisible::check(text)?;
        let mut found = Found::default();
        Reader::new(text, &mut found).script()?;
        finish::finish(found).map(Rc::new)
    })
}

/// Refuses a text.
fn refuse<T>(why: impl Into<String>) -> Result<T, ShellParseError> {
    Err(ShellParseError { why: why.into() })
}
