//! Everything that is wrong with some files, told at once.
//!
//! A person who mends a file wants to see all of it, not one mistake per try. Each is a line
//! `file:line:column: what`, and a `hint:` line with the fix.

use std::fmt::Write;

use crate::{
    error::{Error, ErrorKind},
    policy::rule::SourceLocation,
};

/// Nobody reads more, and a hostile file could make any number.
const MOST: usize = 100;

/// What is wrong, in order.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    list: Vec<Mistake>,
    more: usize,
}

#[derive(Debug)]
struct Mistake {
    place: SourceLocation,
    message: String,
    hint: Option<String>,
}

impl Mistakes {
    /// Notes one more. The words are only found if there is room for them.
    pub(super) fn add(
        &mut self,
        place: SourceLocation,
        words: impl FnOnce() -> (String, Option<String>),
    ) {
        if self.list.len() == MOST {
            self.more += 1;
            return;
        }
        let (message, hint) = words();
        self.list.push(Mistake { place, message, hint });
    }

    pub(super) fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// Returns the one error that tells them all, or nothing when there is none.
    pub(super) fn into_error(self) -> Option<Error> {
        let mut text = String::new();
        let mut last_hint = None;
        for mistake in self.list {
            // Each hint stands under its mistake; the last one is the error's own.
            if let Some(hint) = last_hint.take() {
                let _ = write!(text, "\nhint: {hint}");
            }
            if !text.is_empty() {
                text.push('\n');
            }
            let SourceLocation { line, column, .. } = mistake.place;
            match &mistake.place.file {
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
