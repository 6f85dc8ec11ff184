//! Lays out text for a terminal: wraps lines with a hanging indent, and aligns table columns.
//!
//! In: text, with or without colour codes, and a width. Out: lines that fit the width. Output to a
//! pipe is not laid out here, so that scripts get stable lines.
//!
//! INVARIANT: only blanks at a break are left out. A word that is wider than the line is broken.

use std::fmt;

use anstyle::Style;

use crate::{colour::paint, escape, screen};

/// The marks of our own pages, which every terminal shows in one column.
const NARROW_MARKS: [char; 6] = ['✓', '✗', '…', '│', '→', '‹'];
/// A text column that is narrower than this starts a new line instead.
const MIN_TEXT_COLUMNS: usize = 20;
/// A table column is not made narrower than its longest word, if that is not longer than this.
const MAX_WORD_COLUMNS: usize = 20;
/// The blanks between two table columns.
const GAP: usize = 2;

/// Wraps every line of a page that is wider than `width`.
pub(crate) fn page(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        if columns(line) <= width {
            out += line;
        } else {
            out += &wrap_line(line, width, &continuation(line, width)).join("\n");
        }
        out += end;
    }
    out
}

/// Joins the lines of each paragraph at the left edge, so that they can be wrapped at any width.
pub(crate) fn join_paragraphs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_prose = false;
    for line in text.lines() {
        let goes_on = !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        if is_prose && goes_on {
            out.truncate(out.trim_end().len());
            out.push(' ');
        }
        is_prose = goes_on;
        out += line;
        out.push('\n');
    }
    out
}

/// Wraps one line at blanks. The second and later lines start with `prefix`.
pub(crate) fn wrap_line(line: &str, width: usize, prefix: &str) -> Vec<String> {
    let start = columns(prefix);
    let width = width.max(start + 2); // a wide character takes two columns
    let mut lines = Vec::new();
    let (mut row, mut used, mut blanks, mut row_start) = (String::new(), 0, 0, 0);
    for (at, word) in line.split(' ').enumerate() {
        blanks += usize::from(at > 0);
        if word.is_empty() {
            continue;
        }
        if used > row_start && used + blanks + columns(word) > width {
            lines.push(std::mem::replace(&mut row, prefix.to_owned()));
            (used, row_start) = (start, start);
        } else {
            row += &" ".repeat(blanks);
            used += blanks;
            row_start += if row_start == used - blanks { blanks } else { 0 };
        }
        blanks = 0;
        for (text, wide) in characters(word) {
            if wide > 0 && used > row_start && used + wide > width {
                lines.push(std::mem::replace(&mut row, prefix.to_owned()));
                (used, row_start) = (start, start);
            }
            row += text;
            used += wide;
        }
    }
    lines.push(row);
    lines
}

/// How many columns a text takes, at most. Colour codes take none.
pub(crate) fn columns(text: &str) -> usize {
    characters(text).map(|(_, wide)| wide).sum()
}

/// The characters of a text with the columns that they take; a colour code is one with none.
fn characters(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (length, wide) = if first == '\u{1b}' {
            let end = rest.find(|c: char| c.is_ascii_alphabetic());
            (end.map_or(rest.len(), |end| end + 1), 0)
        } else if NARROW_MARKS.contains(&first) {
            (first.len_utf8(), 1)
        } else {
            (first.len_utf8(), escape::column_width(first))
        };
        let (character, after) = rest.split_at(length);
        rest = after;
        Some((character, wide))
    })
}

/// The start of the second and later lines of a wrapped line: blanks up to its last column, the bar
/// of a quotation, or two blanks more than the line itself.
fn continuation(line: &str, width: usize) -> String {
    let plain: String = characters(line).filter(|(_, wide)| *wide > 0).map(|(c, _)| c).collect();
    let plain = plain.trim_end();
    let text = plain.trim_start_matches(' ');
    let indent = plain.len() - text.len();
    if text.starts_with("│ ") {
        return format!("{}│ ", " ".repeat(indent));
    }
    if let Some(gap) = text.rfind("  ") {
        let column = indent + columns(&text[..gap]) + GAP;
        if column + MIN_TEXT_COLUMNS <= width {
            return " ".repeat(column);
        }
    }
    // Prose at the left edge stays there; `error:` and other labels stick out.
    let has_label = text.split(' ').next().is_some_and(|word| word.ends_with(':'));
    let hang = if indent == 0 && !has_label { 0 } else { indent + 2 };
    " ".repeat(hang.min(width / 2))
}

/// Lines up columns. If a width is set, cells wrap so that the table fits it.
pub(crate) struct Table {
    rows: Vec<Vec<(Style, String)>>,
    indent: usize,
    width: Option<usize>,
}

impl Table {
    /// A table for stdout.
    pub(crate) fn new(indent: usize) -> Self {
        Self { rows: Vec::new(), indent, width: screen::page_width() }
    }

    /// The same with another width; `None` does not wrap.
    pub(crate) fn with_width(mut self, width: Option<usize>) -> Self {
        self.width = width;
        self
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [(Style, String); N]) {
        self.rows.push(cells.into());
    }

    /// The natural width of each column, and the width of its longest word.
    fn natural(&self) -> Vec<(usize, usize)> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let of_column = |at: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.get(at)).map(|cell| &cell.1);
            let widest = cells.clone().map(|text| columns(text)).max().unwrap_or(0);
            let word = cells.flat_map(|text| text.split(' ')).map(columns).max().unwrap_or(0);
            (widest, word)
        };
        (0..count).map(of_column).collect()
    }

    /// The width of each column; `None` if the columns do not fit side by side.
    fn fitted(&self, natural: &[(usize, usize)]) -> Option<Vec<usize>> {
        let all: Vec<usize> = natural.iter().map(|(widest, _)| *widest).collect();
        let gaps = self.indent + GAP * natural.len().saturating_sub(1);
        let Some(available) = self.width.map(|width| width.saturating_sub(gaps)) else {
            return Some(all);
        };
        if all.iter().sum::<usize>() <= available {
            return Some(all);
        }
        let mut fitted: Vec<usize> =
            natural.iter().map(|(widest, word)| *widest.min(word).min(&MAX_WORD_COLUMNS)).collect();
        let mut left = available.checked_sub(fitted.iter().sum())?;
        // The columns that need the least get it first.
        let mut wanting: Vec<usize> = (0..all.len()).collect();
        wanting.sort_by_key(|at| all[*at] - fitted[*at]);
        for (done, at) in wanting.iter().enumerate() {
            let share = (all[*at] - fitted[*at]).min(left / (wanting.len() - done));
            fitted[*at] += share;
            left -= share;
        }
        let last = fitted.last().copied().unwrap_or(0);
        let is_readable = last >= MIN_TEXT_COLUMNS || all.last().is_none_or(|wide| *wide <= last);
        is_readable.then_some(fitted)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitted = self.fitted(&self.natural());
        for row in &self.rows {
            let lines = match &fitted {
                Some(widths) => side_by_side(row, widths, self.indent),
                None => in_sequence(row, self.indent, self.width.unwrap_or(usize::MAX)),
            };
            for line in lines {
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

/// A row whose cells wrap within their columns.
fn side_by_side(row: &[(Style, String)], widths: &[usize], indent: usize) -> Vec<String> {
    let cells: Vec<(&Style, Vec<String>)> = row
        .iter()
        .zip(widths)
        .map(|((style, text), wide)| match columns(text) <= *wide {
            true => (style, vec![text.clone()]),
            false => (style, wrap_line(text, *wide, "")),
        })
        .collect();
    let height = cells.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
    let line_at = |at: usize| {
        let mut line = " ".repeat(indent);
        let mut due = 0;
        for ((style, lines), wide) in cells.iter().zip(widths) {
            let text = lines.get(at).map_or("", String::as_str);
            if !text.is_empty() {
                line += &" ".repeat(due);
                line += &paint(**style, text);
                due = 0;
            }
            due += wide.saturating_sub(columns(text)) + GAP;
        }
        line
    };
    (0..height).map(line_at).collect()
}

/// A row whose cells follow one another, for a terminal that is too narrow for the columns.
fn in_sequence(row: &[(Style, String)], indent: usize, width: usize) -> Vec<String> {
    // A row without a first cell belongs to the row above it.
    let belongs = row.len() > 1 && row.first().is_some_and(|cell| cell.1.is_empty());
    let indent = if belongs { indent + 2 } else { indent };
    let cells: Vec<String> = row
        .iter()
        .filter(|cell| !cell.1.is_empty())
        .map(|(style, text)| paint(*style, text))
        .collect();
    let line = format!("{}{}", " ".repeat(indent), cells.join("  "));
    let prefix = " ".repeat((indent + 4).min(width / 2));
    if columns(&line) <= width { vec![line] } else { wrap_line(&line, width, &prefix) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style::new();

    fn table(width: Option<usize>, rows: &[[&str; 3]]) -> String {
        let mut table = Table::new(1).with_width(width);
        for row in rows {
            table.row(row.map(|text| (PLAIN, text.to_owned())));
        }
        table.to_string()
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "x", ""], ["ééé", "y", "z"]];
        assert_eq!(table(None, &rows), " a    x\n ééé  y  z\n");
    }

    #[test]
    fn cell_wraps_within_its_column() {
        let rows = [
            ["read_file", "reads one file", "Reads a text file with line numbers."],
            ["shell", "runs", "Runs a command in a sandbox."],
        ];
        let wrapped = [
            " read_file  reads one file  Reads a text file",
            "                            with line numbers.",
            " shell      runs            Runs a command in a",
            "                            sandbox.",
        ];
        assert_eq!(table(Some(48), &rows).lines().collect::<Vec<_>>(), wrapped);
    }

    #[test]
    fn narrow_terminal_gets_the_cells_in_sequence() {
        let rows = [["read_file", "runs unasked", "Reads a text file with line numbers."]];
        assert_eq!(
            table(Some(30), &rows),
            " read_file  runs unasked\n     Reads a text file with\n     line numbers.\n"
        );
    }

    #[test]
    fn narrow_row_without_a_first_cell_is_indented() {
        let rows = [["batch 1", "read_file", "runs"], ["", "list_files", "it is read-only too"]];
        assert_eq!(
            table(Some(24), &rows),
            " batch 1  read_file  runs\n   list_files  it is\n       read-only too\n"
                .replace("  runs", "\n     runs")
        );
    }

    #[test]
    fn line_hangs_below_its_last_column_or_by_two() {
        let wrapped = |line: &str, width| page(line, width);
        assert_eq!(
            wrapped("  --yes  Approve this call without asking", 31),
            "  --yes  Approve this call\n         without asking"
        );
        assert_eq!(wrapped("error: there is no file", 14), "error: there\n  is no file");
        assert_eq!(wrapped("one two three", 8), "one two\nthree");
        assert_eq!(wrapped("  │ one two three", 12), "  │ one two\n  │ three");
        assert_eq!(wrapped("  abcdefghij", 6), "  abcd\n   efg\n   hij", "a long word breaks");
        assert_eq!(wrapped("a  \n", 80), "a  \n", "a line that fits is not changed");
    }

    #[test]
    fn colour_codes_take_no_columns_and_wide_characters_two() {
        assert_eq!(columns("\u{1b}[1mab\u{1b}[0m✓"), 3);
        assert_eq!(columns("漢字"), 4);
        assert_eq!(page("\u{1b}[1mone\u{1b}[0m two", 7), "\u{1b}[1mone\u{1b}[0m two");
        assert_eq!(page("漢字漢字", 4), "漢字\n漢字");
    }

    #[test]
    fn paragraphs_are_joined_and_other_lines_are_kept() {
        let text = "One\ntwo.\n\nExamples:\n  a\n  b\n\nThree\nfour.\n";
        assert_eq!(join_paragraphs(text), "One two.\n\nExamples:\n  a\n  b\n\nThree four.\n");
    }

    #[test]
    fn every_line_fits_at_every_width_and_nothing_but_blanks_is_lost() {
        let text = "  name    A long description, with a-word-that-is-much-longer-than-the-others \
                    漢字漢字漢字 and `code`.\nerror: x\n\n    │ quoted quoted quoted quoted\n";
        let squeeze = |text: &str| text.replace([' ', '\n', '│'], "");
        for width in 8..130 {
            let wrapped = page(text, width);
            assert!(wrapped.lines().all(|line| columns(line) <= width), "{width}: {wrapped}");
            assert_eq!(squeeze(&wrapped), squeeze(text), "{width}");
            let cell = text.lines().next().unwrap().trim();
            let rows = [["漢字漢字漢字", "one two three four five", cell], ["a", "b", "c"]];
            let table = table(Some(width), &rows);
            let sorted = |text: &str| {
                let mut all: Vec<char> = squeeze(text).chars().collect();
                all.sort_unstable();
                all
            };
            assert_eq!(sorted(&table), sorted(&rows.concat().concat()), "{width}: {table}");
            assert!(table.lines().all(|line| columns(line) <= width), "{width}: {table}");
        }
    }
}
