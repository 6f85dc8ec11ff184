//! The keys of an approval question, and what a lasting answer would write.

use std::path::Path;

use haft::approval::{ApprovalRequest, SuggestedRules};

use super::{MAX_WIDTH, page::columns_left};
use crate::{
    escape, location,
    style::{self, DIM, one_line},
};

/// The keys that a question offers.
pub(super) struct Choices {
    /// Why "always" is missing, as a line.
    pub(super) note: String,
    /// The keys as text, before the cursor.
    pub(super) text: String,
    pub(super) has_session: bool,
    pub(super) has_always: bool,
    pub(super) has_directory: bool,
}

impl Choices {
    /// Decides what is offered. A rule that cannot be shown completely is not.
    pub(super) fn of(question: &ApprovalRequest<'_>, here: &Path, width: usize) -> Self {
        let session = question.session.then(|| match question.session_rule {
            Some(rule) => shown_whole(format!("[s] this session: {rule}")),
            None => Some("[s] this session".to_owned()),
        });
        let session = session.flatten();
        // The label is the literal rule and its file.
        let offered = |key: &str, offer: &SuggestedRules| {
            let file = location::short(&offer.file, here);
            shown_whole(format!("[{key}] always: {} → {file}", offer.rules.join(", ")))
        };
        let always = question.offer.and_then(|offer| offered("a", offer));
        let directory = question.directory_offer.and_then(|offer| offered("d", offer));
        let missing = match question.offer {
            _ if always.is_some() => None,
            Some(_) => Some("the rule cannot be shown completely"),
            None => question.no_offer,
        };
        let note = missing.map(|why| format!("no \"always\": {}", one_line(why)));
        let note = note.map_or_else(String::new, |note| format!("  {}\n", style::paint(DIM, note)));
        let (has_session, has_always) = (session.is_some(), always.is_some());
        let has_directory = directory.is_some();
        let offered = [session, always, directory].into_iter().flatten();
        let keys: Vec<String> = std::iter::once("[y] once".to_owned())
            .chain(offered)
            .chain(OTHER_KEYS.map(str::to_owned))
            .collect();
        Self { note, text: lines(&keys, width), has_session, has_always, has_directory }
    }
}

/// The keys that every question offers.
const OTHER_KEYS: [&str; 5] =
    ["[e] edit", "[c] comment", "[i] answer instead", "[n] no", "[?] why"];

/// A label, if a person can read all of it.
fn shown_whole(label: String) -> Option<String> {
    let is_whole = style::visible(&label) == label && !label.contains('\n');
    let fits = style::width(&label) <= MAX_WIDTH - 2;
    (is_whole && fits && escape::lookalikes(&label).is_empty()).then_some(label)
}

/// The keys in lines. The last line ends in `  > `; the input follows it.
fn lines(keys: &[String], width: usize) -> String {
    let mut lines = vec![String::new()];
    for key in keys {
        let long = |line: &String| {
            escape::columns(line) + escape::columns(key) + 3 > columns_left(width, 4)
        };
        if lines.last().is_some_and(long) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            *line += if line.is_empty() { "  " } else { "   " };
            *line += key;
        }
    }
    lines.join("\n") + "  > "
}
