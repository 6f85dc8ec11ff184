//! Patterns that start with `!`, as exceptions in `.gitignore`: they are not supported.
//!
//! Such a pattern in a deny or an ask is ignored and reported once for its file. That weakens no
//! other rule, so it is not an error.

use super::{FileNote, node::Reader};

/// Maximum number of patterns that the report names.
const MAX_NAMED: usize = 3;

/// The patterns of one file that start with `!`.
#[derive(Debug, Default)]
pub(super) struct Negated {
    first: Option<usize>,
    named: Vec<String>,
    count: usize,
}

impl Negated {
    /// Adds one, with its offset.
    pub(super) fn add(&mut self, text: &str, at: usize) {
        self.first.get_or_insert(at);
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(format!("`{text}`"));
        }
    }

    /// Returns the report, if there is something to report.
    pub(super) fn note(self, reader: &Reader<'_>) -> Option<FileNote> {
        let location = reader.location(self.first?);
        let names = self.named.join(", ");
        let more = match self.count - self.named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "{names}{more}: ignored. `!` is not supported, because the strictest rule applies; \
             narrow the other rule, or add an `except` to it in `haft.toml`"
        );
        Some(FileNote { location, message })
    }
}
