//! Collects all mistakes of some files and reports them in one error.
//!
//! A person who fixes a file wants all mistakes at once. Each is a line `file:line:column: what`,
//! and a `hint:` line with the fix.

use std::fmt::Write;

use haft_core::{Error, ErrorKind};

use crate::rule::SourceLocation;

/// Maximum number of reported mistakes; a hostile file could have any number.
const MAX_MISTAKES: usize = 100;

/// The mistakes. The report has them file by file, in the order of lines.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    list: Vec<Mistake>,
    more: usize,
}

#[derive(Debug)]
struct Mistake {
    location: SourceLocation,
    message: String,
    hint: Option<String>,
}

impl Mistakes {
    /// Adds one. The message is only built if it is reported.
    pub(super) fn add(
        &mut self,
        location: SourceLocation,
        words: impl FnOnce() -> (String, Option<String>),
    ) {
        if self.list.len() == MAX_MISTAKES {
            self.more += 1;
            return;
        }
        let (message, hint) = words();
        self.list.push(Mistake { location, message, hint });
    }

    pub(super) fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// Returns one error with all of them; `None` if there is none.
    pub(super) fn into_error(mut self) -> Option<Error> {
        for file in self.list.chunk_by_mut(|a, b| a.location.file == b.location.file) {
            file.sort_by_key(|mistake| (mistake.location.line, mistake.location.column));
        }
        let mut text = String::new();
        let mut last_hint = None;
        for mistake in self.list {
            // Each hint follows its mistake; the last one is the error's own.
            if let Some(hint) = last_hint.take() {
                let _ = write!(text, "\nhint: {hint}");
            }
            if !text.is_empty() {
                text.push('\n');
            }
            let SourceLocation { line, column, .. } = mistake.location;
            match &mistake.location.file {
                Some(file) => {
                    let _ = write!(text, "{}:{line}:{column}: {}", file.display(), mistake.message);
                }
                None => text.push_str(&mistake.message),
            }
            last_hint = mistake.hint;
        }
        if text.is_empty() {
            return None;
        }
        if self.more > 0 {
            if let Some(hint) = last_hint.take() {
                let _ = write!(text, "\nhint: {hint}");
            }
            let _ = write!(text, "\nand {} more", self.more);
        }
        let error = Error::new(ErrorKind::BadConfig, text);
        Some(match last_hint {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}
