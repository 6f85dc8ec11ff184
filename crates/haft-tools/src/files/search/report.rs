//! Merges the matches of several threads in the order of the walk.
//!
//! Batches finish in any order and are reported in walk order, so the result is deterministic. When
//! the limit is reached no further batch is taken.
//!
//! INVARIANT: memory is bounded by the limits, for each batch in progress.

use std::{collections::BTreeMap, fmt::Write as _};

use haft_core::{Block, Output, ToolContext};
use serde_json::json;

use super::{
    MAX_TEXT_BYTES, Mode,
    matches::{FileMatches, Outcome},
};
use crate::files::paths::{count, stopped_at_depth};

/// The matches so far.
#[derive(Debug)]
pub(super) struct Report {
    mode: Mode,
    limit: u64,
    text: String,
    /// Finished batches that wait for an earlier one.
    waiting: BTreeMap<usize, Vec<FileMatches>>,
    next: usize,
    /// Counted against the limit: reported, and found in total.
    reported: u64,
    found: u64,
    found_bytes: usize,
    matches: u64,
    files: u64,
    searched: u64,
    more: bool,
    binary: u64,
    too_long: Vec<String>,
    unreadable: u64,
}

/// Maximum number of file names in the note about skipped files.
const MAX_FILES_NAMED: usize = 3;

impl Report {
    pub(super) fn new(mode: Mode, limit: u64) -> Self {
        Self {
            mode,
            limit,
            text: String::new(),
            waiting: BTreeMap::new(),
            next: 0,
            reported: 0,
            found: 0,
            found_bytes: 0,
            matches: 0,
            files: 0,
            searched: 0,
            more: false,
            binary: 0,
            too_long: Vec::new(),
            unreadable: 0,
        }
    }

    /// Adds the matches of a batch; returns whether the limit is reached.
    pub(super) fn take(
        &mut self,
        batch: usize,
        files: u64,
        found: Vec<FileMatches>,
        cx: &ToolContext,
    ) -> bool {
        self.searched += files;
        for found in &found {
            self.found += self.weight(found);
            self.found_bytes += found.text.len() + found.path.len() + 1;
        }
        self.waiting.insert(batch, found);
        let before = self.text.len();
        while let Some(found) = self.waiting.remove(&self.next) {
            self.next += 1;
            for found in found {
                self.report_file(found);
            }
        }
        if let Some(piece) = self.text.get(before..).filter(|piece| !piece.is_empty()) {
            cx.partial(piece);
        }
        // One more than the limit shows that there are more.
        self.found > self.limit || self.found_bytes > MAX_TEXT_BYTES
    }

    /// What a file counts against the limit.
    fn weight(&self, found: &FileMatches) -> u64 {
        match (self.mode, found.matches) {
            (_, 0) => 0,
            (Mode::Lines, matches) => matches + u64::from(found.more),
            (Mode::Files | Mode::Count, _) => 1,
        }
    }

    fn report_file(&mut self, found: FileMatches) {
        match found.outcome {
            Outcome::Searched => {}
            Outcome::Binary => self.binary += 1,
            Outcome::Unreadable => self.unreadable += 1,
            Outcome::TooLong if self.too_long.len() < MAX_FILES_NAMED => {
                self.too_long.push(found.path.clone());
            }
            Outcome::TooLong => {}
        }
        if found.matches == 0 {
            return;
        }
        let left = self.limit - self.reported;
        if left == 0 || self.text.len() >= MAX_TEXT_BYTES {
            self.more = true;
            return;
        }
        let path = found.path;
        self.files += 1;
        match self.mode {
            Mode::Files => {
                self.reported += 1;
                let _ = writeln!(self.text, "{path}");
            }
            Mode::Count => {
                self.reported += 1;
                self.matches += found.matches;
                let _ = writeln!(self.text, "{path}:{}", found.matches);
            }
            Mode::Lines => {
                let gap = if self.text.is_empty() { "" } else { "\n" };
                let _ = writeln!(self.text, "{gap}{path}");
                let (mut reported, mut full) = (0, false);
                for line in found.text.split_inclusive('\n') {
                    let is_match = line.bytes().find(|b| !b.is_ascii_digit()) == Some(b':');
                    full = is_match && reported == left || self.text.len() >= MAX_TEXT_BYTES;
                    if full {
                        break;
                    }
                    reported += u64::from(is_match);
                    self.text.push_str(line);
                }
                self.reported += reported;
                self.matches += reported;
                self.more |= full || found.more;
            }
        }
    }

    /// Builds the result, as text and structured.
    pub(super) fn finish(mut self, pattern: &str, walked: WalkSummary) -> Output {
        let mut notes = Vec::new();
        let files = count(self.files, "file");
        let searched = count(self.searched, "file");
        match (self.reported, self.mode) {
            (0, _) => {
                let shown = pattern.floor_char_boundary(200);
                notes.push(format!("no match for `{}` in {searched}", &pattern[..shown]));
            }
            (_, Mode::Files) => notes.push(files),
            (_, Mode::Lines | Mode::Count) => {
                notes.push(format!("{} in {files}", count(self.matches, "matching line")));
            }
        }
        if self.more {
            notes.push("there are more; narrow the search, or raise `limit`".to_owned());
        }
        if walked.is_cut {
            notes.push("the entry limit was reached; not all entries were visited".to_owned());
        }
        if walked.too_deep > 0 {
            notes.push(stopped_at_depth(walked.depth, walked.too_deep, "searched"));
        }
        if !self.too_long.is_empty() {
            let names = self.too_long.join("`, `");
            notes.push(format!("lines of `{names}` are too long to be searched"));
        }
        let unreadable = self.unreadable + walked.trouble as u64;
        if unreadable > 0 {
            notes.push(format!("{unreadable} could not be read"));
        }
        if self.binary > 0 {
            notes.push(format!("{} not fully searched", count(self.binary, "binary file")));
        }
        let gap = if self.text.is_empty() || self.mode != Mode::Lines { "" } else { "\n" };
        let _ = write!(self.text, "{gap}[{}]", notes.join("; "));
        let structured = json!({
            "files": self.files,
            "matching_lines": (self.mode != Mode::Files).then_some(self.matches),
            "files_searched": self.searched,
            "files_unreadable": unreadable,
            "more": self.more,
            "entry_limit_reached": walked.is_cut,
            "stopped_at_depth": (walked.too_deep > 0).then_some(walked.depth),
            "directories_not_searched": walked.too_deep,
        });
        Output { blocks: vec![Block::text(self.text)], structured: Some(Box::new(structured)) }
    }
}

/// How far a walk went.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WalkSummary {
    /// Whether the walk hit its entry limit.
    pub(super) is_cut: bool,
    /// Depth limit of the walk.
    pub(super) depth: usize,
    /// Number of directories not entered because of the depth limit.
    pub(super) too_deep: usize,
    /// Number of entries that could not be read.
    pub(super) trouble: usize,
}
