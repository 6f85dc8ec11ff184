//! Finds what is most like a text that is not there, and says how it differs.
//!
//! Pure. Linear in the file, and bounded: a file that is too large is looked at up to a point.

use std::{collections::HashMap, fmt::Write as _};

/// So much of a file is looked at.
const LOOK: usize = 4 << 20;
/// So many lines of the text are compared.
const LINES: usize = 200;
/// So many lines are shown as they differ.
const SHOWN: usize = 8;
/// So much of a line is compared and shown.
const LONG: usize = 200;
/// Lines less alike than this are not the same line with a mistake in it.
const ALIKE: f64 = 0.5;

/// Describes the place that is most like the text; nothing where no place is.
pub(super) fn nearest(file: &str, text: &str) -> Option<String> {
    let file = &file[..file.floor_char_boundary(LOOK)];
    let there: Vec<&str> = file.lines().collect();
    let wanted: Vec<&str> = text.lines().take(LINES).collect();
    let start = by_equal_lines(&there, &wanted).or_else(|| by_likeness(&there, &wanted))?;
    Some(difference(&there, &wanted, start))
}

/// A line without what people overlook.
fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Finds the place where most lines of the text stand where they should.
fn by_equal_lines(there: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut at: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate() {
        let line = plain(line);
        // A lone bracket stands everywhere and says nothing.
        if line.len() > 2 {
            at.entry(line).or_default().push(index);
        }
    }
    if at.is_empty() {
        return None;
    }
    // Each equal line votes for where the text would begin.
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in there.iter().enumerate() {
        for index in at.get(&plain(line)).into_iter().flatten().take(4) {
            if let Some(start) = number.checked_sub(*index) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    let best = votes.into_iter().max_by_key(|(start, votes)| (*votes, std::cmp::Reverse(*start)));
    best.map(|(start, _)| start)
}

/// Finds the line that is most like the longest line of the text.
fn by_likeness(there: &[&str], wanted: &[&str]) -> Option<usize> {
    let (index, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let pairs = Pairs::of(longest);
    let scored = there.iter().enumerate().map(|(number, line)| (number, pairs.alike(line)));
    let best = scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (best.1 >= ALIKE).then(|| best.0.saturating_sub(index))
}

/// The pairs of neighbouring bytes of a line, counted.
struct Pairs {
    counts: HashMap<[u8; 2], u32>,
    total: u32,
}

impl Pairs {
    fn of(line: &str) -> Self {
        let mut counts: HashMap<[u8; 2], u32> = HashMap::new();
        let mut total = 0;
        for pair in pairs(line) {
            *counts.entry(pair).or_default() += 1;
            total += 1;
        }
        Self { counts, total }
    }

    /// Returns how alike another line is, from 0 to 1.
    fn alike(&self, line: &str) -> f64 {
        // Too short to be alike: most lines are, and cost nothing.
        let most = u32::try_from(line.len()).unwrap_or(u32::MAX);
        if self.total == 0 || f64::from(most) * 3.0 < f64::from(self.total) {
            return 0.0;
        }
        let mut left = self.counts.clone();
        let (mut shared, mut total) = (0_u32, 0_u32);
        for pair in pairs(line) {
            total += 1;
            if let Some(count) = left.get_mut(&pair).filter(|count| **count > 0) {
                *count -= 1;
                shared += 1;
            }
        }
        f64::from(shared * 2) / f64::from(self.total + total)
    }
}

fn pairs(line: &str) -> impl Iterator<Item = [u8; 2]> {
    let bytes = line.trim().as_bytes();
    let bytes = &bytes[..bytes.len().min(LONG)];
    bytes.windows(2).filter_map(|pair| pair.try_into().ok())
}

/// Writes down the lines that differ, as the file has them and as they were asked for.
fn difference(there: &[&str], wanted: &[&str], start: usize) -> String {
    let mut told = format!("The nearest text begins at line {}", start + 1);
    let (mut rows, mut differ, mut only_space) = (String::new(), 0, true);
    for (index, line) in wanted.iter().enumerate() {
        let own = there.get(start + index).copied();
        if own == Some(line) {
            continue;
        }
        differ += 1;
        only_space &= own.is_some_and(|own| plain(own) == plain(line));
        if differ <= SHOWN {
            let number = start + index + 1;
            match own {
                Some(own) => {
                    let _ = write!(rows, "\n  line {number} is      {}", quoted(own));
                }
                None => {
                    let _ = write!(rows, "\n  line {number} is      behind the end of the file");
                }
            }
            let _ = write!(rows, "\n  `old_text` has {}", quoted(line));
        }
    }
    match (differ, only_space) {
        (0, _) => told.push_str(" and differs in where its lines begin or end"),
        (_, true) => told.push_str(" and differs in white space alone"),
        (_, false) => told.push_str(" and differs"),
    }
    if differ > 0 {
        let _ = write!(told, ", in {differ} of {} lines:{rows}", wanted.len());
    }
    if differ > SHOWN {
        told.push_str("\n  …");
    }
    told
}

/// Shows a line so that white space can be seen.
fn quoted(line: &str) -> String {
    let cut = line.floor_char_boundary(LONG);
    let dots = if cut < line.len() { "…" } else { "" };
    format!("{:?}{dots}", &line[..cut])
}

/// Returns how many letters must change to make one word of the other; at most `most`, or nothing.
pub(super) fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most {
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
    row.last().copied().filter(|found| *found <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn main() {\n    let total = sum(1, 2);\n    println!(\"{total}\");\n}\n";

    #[test]
    fn white_space_that_differs_is_found_and_shown() {
        let told = nearest(FILE, "  let total = sum(1, 2);\n  println!(\"{total}\");").unwrap();
        assert_eq!(
            told,
            "The nearest text begins at line 2 and differs in white space alone, in 2 of 2 lines:\
             \n  line 2 is      \"    let total = sum(1, 2);\"\
             \n  `old_text` has \"  let total = sum(1, 2);\"\
             \n  line 3 is      \"    println!(\\\"{total}\\\");\"\
             \n  `old_text` has \"  println!(\\\"{total}\\\");\""
        );
    }

    #[test]
    fn a_line_with_a_mistake_in_it_is_found_by_its_likeness() {
        let told = nearest(FILE, "let totl = sum(1, 3);").unwrap();
        assert!(told.starts_with("The nearest text begins at line 2 and differs, in 1 of 1"));
    }

    #[test]
    fn the_place_where_most_lines_are_right_wins() {
        let file = "alpha one\nbeta two\ngamma\n\nalpha one\nbeta 2\ngamma three\ndelta\n";
        let told = nearest(file, "alpha one\nbeta two\ngamma three\ndelta").unwrap();
        assert!(
            told.starts_with("The nearest text begins at line 5 and differs, in 1 of 4"),
            "{told}"
        );
    }

    #[test]
    fn what_is_like_nothing_there_gets_no_answer() {
        assert_eq!(nearest(FILE, "SELECT * FROM users WHERE 1"), None);
        assert_eq!(nearest("", "x"), None);
        assert_eq!(nearest(FILE, ""), None);
    }

    #[test]
    fn a_large_file_is_looked_at_once() {
        let file = "some line that is not alike\n".repeat(100_000);
        assert!(nearest(&file, &"another thing\n".repeat(300)).is_none_or(|t| t.len() < 5_000));
        let same = "} else {\n".repeat(100_000);
        assert!(nearest(&same, &"} else  {\n".repeat(300)).unwrap().len() < 5_000);
    }

    #[test]
    fn a_distance_is_counted_up_to_a_bound() {
        assert_eq!(distance("main.rs", "mian.rs", 3), Some(2));
        assert_eq!(distance("a", "a", 0), Some(0));
        assert_eq!(distance("abc", "xyz", 2), None);
    }
}
