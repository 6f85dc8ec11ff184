//! Finds the text most similar to one that does not occur, and describes the difference.
//!
//! Lines vote for a location, because a diff with the whole file takes quadratic time. `similar`
//! compares single lines, and the location with the text. Bounded: only the start of a large file
//! is searched, and each diff has a timeout.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use similar::{DiffOp, TextDiff};

/// Bytes of a file that are searched.
const MAX_SEARCHED_BYTES: usize = 4 << 20;
/// Lines of the text that are compared.
const MAX_COMPARED_LINES: usize = 200;
/// Different lines that are shown.
const MAX_SHOWN_LINES: usize = 8;
/// Bytes of a line that are compared and shown.
const MAX_LINE_BYTES: usize = 200;
/// Minimum similarity of two lines.
const MIN_SIMILARITY: f32 = 0.6;
/// Lines of the file after the location that are compared too, if the text lacks some.
const EXTRA_LINES: usize = 8;
/// Lines of the file that are diffed with one line of the text.
const MAX_DIFFED_LINES: usize = 20_000;
/// A diff that takes longer is completed roughly.
const DIFF_TIMEOUT: Duration = Duration::from_millis(100);

/// Describes the most similar location; `None` if there is none.
pub(super) fn nearest(file: &str, text: &str) -> Option<String> {
    let file = &file[..file.floor_char_boundary(MAX_SEARCHED_BYTES)];
    let file_lines: Vec<&str> = file.lines().collect();
    let wanted: Vec<&str> = text.lines().take(MAX_COMPARED_LINES).collect();
    let start =
        by_equal_lines(&file_lines, &wanted).or_else(|| by_similarity(&file_lines, &wanted))?;
    Some(difference(&file_lines, &wanted, start))
}

/// A line with normalized whitespace.
fn normalized(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Finds the offset at which most lines of the text match.
fn by_equal_lines(file_lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut at: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate() {
        let line = normalized(line);
        // A lone bracket occurs everywhere and is no evidence.
        if line.len() > 2 {
            at.entry(line).or_default().push(index);
        }
    }
    if at.is_empty() {
        return None;
    }
    // Each equal line votes for a start line of the text.
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in file_lines.iter().enumerate() {
        for index in at.get(&normalized(line)).into_iter().flatten().take(4) {
            if let Some(start) = number.checked_sub(*index) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    let best = votes.into_iter().max_by_key(|(start, votes)| (*votes, std::cmp::Reverse(*start)));
    best.map(|(start, _)| start)
}

/// Finds the line most similar to the longest line of the text.
fn by_similarity(file_lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let (index, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let longest = compared(longest);
    let bytes = ByteCounts::of(longest);
    let mut best = None;
    let mut best_ratio = MIN_SIMILARITY;
    let mut diffs_left = MAX_DIFFED_LINES;
    for (number, line) in file_lines.iter().enumerate() {
        let line = compared(line);
        // Few lines pass, so that few are diffed.
        if bytes.max_ratio(line) < best_ratio {
            continue;
        }
        let Some(left) = diffs_left.checked_sub(1) else { break };
        diffs_left = left;
        let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_chars(longest, line);
        if diff.ratio() > best_ratio || best.is_none() && diff.ratio() >= best_ratio {
            best_ratio = diff.ratio();
            best = Some(number);
        }
    }
    best.map(|number| number.saturating_sub(index))
}

/// The part of a line that is compared.
fn compared(line: &str) -> &str {
    truncated(line.trim())
}

fn truncated(line: &str) -> &str {
    &line[..line.floor_char_boundary(MAX_LINE_BYTES)]
}

/// How often each byte occurs in a line. Every byte is a valid index.
struct ByteCounts {
    counts: [u8; 256],
    total: usize,
}

impl ByteCounts {
    fn of(line: &str) -> Self {
        let mut counts = [0_u8; 256];
        // No count overflows: a line has at most `MAX_LINE_BYTES`.
        line.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
        Self { counts, total: line.len() }
    }

    /// Returns an upper bound of the similarity to another line: in any order of its bytes.
    fn max_ratio(&self, line: &str) -> f32 {
        let mut left = self.counts;
        let mut shared = 0_usize;
        for byte in line.bytes() {
            let count = &mut left[usize::from(byte)];
            if *count > 0 {
                *count -= 1;
                shared += 1;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a few hundred at most")]
        let ratio = |shared: usize, total: usize| 2.0 * shared as f32 / total.max(1) as f32;
        // Characters of several bytes count once in a diff; a tenth is enough for that.
        ratio(shared, self.total + line.len()) + if line.is_ascii() { 0.0 } else { 0.1 }
    }
}

/// Lists the different lines, from the file and from the argument.
fn difference(file_lines: &[&str], wanted: &[&str], start: usize) -> String {
    let end = (start + wanted.len() + EXTRA_LINES).min(file_lines.len());
    let window = file_lines.get(start..end).unwrap_or_default();
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(window, wanted);
    let mut ops = diff.ops();
    // Lines of the file around the text are no difference.
    let mut first_line = start + 1;
    if let [DiffOp::Delete { old_len, .. }, rest @ ..] = ops {
        first_line += old_len;
        ops = rest;
    }
    if let [rest @ .., DiffOp::Delete { .. }] = ops {
        ops = rest;
    }
    let mut changes = Changes::default();
    for (index, op) in ops.iter().enumerate() {
        let (old, new) = (op.old_range(), op.new_range());
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        // After the last line of the text, the file is not compared.
        let is_last = index + 1 == ops.len();
        let rows = if is_last { new.len() } else { old.len().max(new.len()) };
        for offset in 0..rows {
            let own = old.clone().nth(offset).and_then(|at| Some((at, *window.get(at)?)));
            let text = new.clone().nth(offset).and_then(|at| wanted.get(at).copied());
            changes.add(own.map(|(at, line)| (start + at + 1, line)), text);
        }
    }
    let Changes { rows, count, only_space } = changes;
    let mut text = format!("The most similar text starts at line {first_line}");
    match (count, only_space) {
        (0, _) => text.push_str(" and differs in its line boundaries"),
        (_, true) => text.push_str(" and differs only in whitespace"),
        (_, false) => text.push_str(" and differs"),
    }
    if count > 0 {
        let _ = write!(text, ", in {count} of {} lines:{rows}", wanted.len());
    }
    if count > MAX_SHOWN_LINES {
        text.push_str("\n  …");
    }
    text
}

/// The different lines, as a text.
struct Changes {
    rows: String,
    count: usize,
    only_space: bool,
}

impl Default for Changes {
    fn default() -> Self {
        Self { rows: String::new(), count: 0, only_space: true }
    }
}

impl Changes {
    /// Adds a numbered line of the file, and the line of the text in its place.
    fn add(&mut self, own: Option<(usize, &str)>, text: Option<&str>) {
        self.count += 1;
        self.only_space &= match (own, text) {
            (Some((_, own)), Some(text)) => normalized(own) == normalized(text),
            _ => false,
        };
        if self.count > MAX_SHOWN_LINES {
            return;
        }
        let _ = match own {
            Some((number, line)) => write!(self.rows, "\n  line {number} is      {}", quoted(line)),
            None => write!(self.rows, "\n  the file has no line for"),
        };
        let _ = match text {
            Some(line) => write!(self.rows, "\n  `old_text` has {}", quoted(line)),
            None => write!(self.rows, "\n  `old_text` lacks it"),
        };
    }
}

/// Quotes a line so that whitespace is visible.
fn quoted(line: &str) -> String {
    let shown = truncated(line);
    let dots = if shown.len() < line.len() { "…" } else { "" };
    format!("{shown:?}{dots}")
}

/// Returns the Levenshtein distance of two names; `None` if it is above `max`.
pub(super) fn distance(a: &str, b: &str, max: usize) -> Option<usize> {
    if a.chars().count().abs_diff(b.chars().count()) > max {
        return None;
    }
    Some(strsim::levenshtein(a, b)).filter(|found| *found <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn main() {\n    let total = sum(1, 2);\n    println!(\"{total}\");\n}\n";

    #[test]
    fn whitespace_difference_is_found_and_shown() {
        let text = nearest(FILE, "  let total = sum(1, 2);\n  println!(\"{total}\");").unwrap();
        assert_eq!(
            text,
            "The most similar text starts at line 2 and differs only in whitespace, in 2 of 2 lines:\
             \n  line 2 is      \"    let total = sum(1, 2);\"\
             \n  `old_text` has \"  let total = sum(1, 2);\"\
             \n  line 3 is      \"    println!(\\\"{total}\\\");\"\
             \n  `old_text` has \"  println!(\\\"{total}\\\");\""
        );
    }

    #[test]
    fn line_with_a_typo_is_found_by_similarity() {
        let text = nearest(FILE, "let totl = sum(1, 3);").unwrap();
        assert!(text.starts_with("The most similar text starts at line 2 and differs, in 1 of 1"));
    }

    #[test]
    fn location_with_most_equal_lines_wins() {
        let file = "alpha one\nbeta two\ngamma\n\nalpha one\nbeta 2\ngamma three\ndelta\n";
        let text = nearest(file, "alpha one\nbeta two\ngamma three\ndelta").unwrap();
        assert!(
            text.starts_with("The most similar text starts at line 5 and differs, in 1 of 4"),
            "{text}"
        );
    }

    #[test]
    fn missing_and_additional_lines_are_named() {
        let lines: Vec<String> = (1..=12).map(|n| format!("line number {n}")).collect();
        let file = lines.join("\n");
        let lacking = "line number 3\nline number 4\nline number 6\nline number 7";
        assert_eq!(
            nearest(&file, lacking).unwrap(),
            "The most similar text starts at line 3 and differs, in 1 of 4 lines:\
             \n  line 5 is      \"line number 5\"\
             \n  `old_text` lacks it"
        );
        let additional = "line number 3\nline number 4\nsomething else\nline number 5";
        assert_eq!(
            nearest(&file, additional).unwrap(),
            "The most similar text starts at line 3 and differs, in 1 of 4 lines:\
             \n  the file has no line for\
             \n  `old_text` has \"something else\""
        );
        let past_the_end = "line number 11\nline number 12\nline number 13";
        assert!(nearest(&file, past_the_end).unwrap().ends_with("\"line number 13\""));
    }

    #[test]
    fn dissimilar_text_finds_nothing() {
        assert_eq!(nearest(FILE, "SELECT * FROM users WHERE 1"), None);
        assert_eq!(nearest("", "x"), None);
        assert_eq!(nearest(FILE, ""), None);
    }

    #[test]
    fn large_files_are_searched_in_bounded_time() {
        let file = "some line that is not alike\n".repeat(100_000);
        assert!(nearest(&file, &"another thing\n".repeat(300)).is_none_or(|t| t.len() < 5_000));
        let same = "} else {\n".repeat(100_000);
        assert!(nearest(&same, &"} else  {\n".repeat(300)).unwrap().len() < 5_000);
        let mixed: String = (0..15_000).map(|n| format!("value {n} of the {}\n", n * 7)).collect();
        assert!(nearest(&mixed, "the value 14999 off the 104993").is_some());
    }

    #[test]
    fn distance_is_bounded() {
        assert_eq!(distance("main.rs", "mian.rs", 3), Some(2));
        assert_eq!(distance("a", "a", 0), Some(0));
        assert_eq!(distance("abc", "xyz", 2), None);
    }
}
