//! Finds the text most similar to one that does not occur, and describes the difference.
//!
//! Pure. Linear in the file size, and bounded: only the start of a large file is searched.

use std::{collections::HashMap, fmt::Write as _};

/// Bytes of a file that are searched.
const MAX_SEARCHED_BYTES: usize = 4 << 20;
/// Lines of the text that are compared.
const MAX_COMPARED_LINES: usize = 200;
/// Different lines that are shown.
const MAX_SHOWN_LINES: usize = 8;
/// Bytes of a line that are compared and shown.
const MAX_LINE_BYTES: usize = 200;
/// Minimum similarity of two lines.
const MIN_SIMILARITY: f64 = 0.5;

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
    let bigrams = Bigrams::of(longest);
    let scored =
        file_lines.iter().enumerate().map(|(number, line)| (number, bigrams.similarity(line)));
    let best = scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (best.1 >= MIN_SIMILARITY).then(|| best.0.saturating_sub(index))
}

/// Byte bigrams of a line, with counts.
struct Bigrams {
    counts: HashMap<[u8; 2], u32>,
    total: u32,
}

impl Bigrams {
    fn of(line: &str) -> Self {
        let mut counts: HashMap<[u8; 2], u32> = HashMap::new();
        let mut total = 0;
        for pair in bigrams(line) {
            *counts.entry(pair).or_default() += 1;
            total += 1;
        }
        Self { counts, total }
    }

    /// Returns the similarity to another line, from 0 to 1 (Dice coefficient).
    fn similarity(&self, line: &str) -> f64 {
        // Skips lines that are too short to be similar; this makes most lines cheap.
        let max = u32::try_from(line.len()).unwrap_or(u32::MAX);
        if self.total == 0 || f64::from(max) * 3.0 < f64::from(self.total) {
            return 0.0;
        }
        let mut left = self.counts.clone();
        let (mut shared, mut total) = (0_u32, 0_u32);
        for pair in bigrams(line) {
            total += 1;
            if let Some(count) = left.get_mut(&pair).filter(|count| **count > 0) {
                *count -= 1;
                shared += 1;
            }
        }
        f64::from(shared * 2) / f64::from(self.total + total)
    }
}

fn bigrams(line: &str) -> impl Iterator<Item = [u8; 2]> {
    let bytes = line.trim().as_bytes();
    let bytes = &bytes[..bytes.len().min(MAX_LINE_BYTES)];
    bytes.windows(2).filter_map(|pair| pair.try_into().ok())
}

/// Lists the different lines, from the file and from the argument.
fn difference(file_lines: &[&str], wanted: &[&str], start: usize) -> String {
    let mut text = format!("The most similar text starts at line {}", start + 1);
    let (mut rows, mut differ, mut only_space) = (String::new(), 0, true);
    for (index, line) in wanted.iter().enumerate() {
        let own = file_lines.get(start + index).copied();
        if own == Some(line) {
            continue;
        }
        differ += 1;
        only_space &= own.is_some_and(|own| normalized(own) == normalized(line));
        if differ <= MAX_SHOWN_LINES {
            let number = start + index + 1;
            match own {
                Some(own) => {
                    let _ = write!(rows, "\n  line {number} is      {}", quoted(own));
                }
                None => {
                    let _ = write!(rows, "\n  line {number} is      past the end of the file");
                }
            }
            let _ = write!(rows, "\n  `old_text` has {}", quoted(line));
        }
    }
    match (differ, only_space) {
        (0, _) => text.push_str(" and differs in its line boundaries"),
        (_, true) => text.push_str(" and differs only in whitespace"),
        (_, false) => text.push_str(" and differs"),
    }
    if differ > 0 {
        let _ = write!(text, ", in {differ} of {} lines:{rows}", wanted.len());
    }
    if differ > MAX_SHOWN_LINES {
        text.push_str("\n  …");
    }
    text
}

/// Quotes a line so that whitespace is visible.
fn quoted(line: &str) -> String {
    let cut = line.floor_char_boundary(MAX_LINE_BYTES);
    let dots = if cut < line.len() { "…" } else { "" };
    format!("{:?}{dots}", &line[..cut])
}

/// Returns the Levenshtein distance of two names; `None` if it is above `max`.
pub(super) fn distance(a: &str, b: &str, max: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > max {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let here = (before + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            before = std::mem::replace(&mut row[j + 1], here);
        }
    }
    row.last().copied().filter(|found| *found <= max)
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
    }

    #[test]
    fn distance_is_bounded() {
        assert_eq!(distance("main.rs", "mian.rs", 3), Some(2));
        assert_eq!(distance("a", "a", 0), Some(0));
        assert_eq!(distance("abc", "xyz", 2), None);
    }
}
