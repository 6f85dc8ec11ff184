//! Front matter of Markdown files: the YAML between two lines of `---` at the beginning of
//! `SKILL.md` and of files that define agents.
//!
//! In: the text of a file. Out: its fields with their lines, and the text below, or a mistake with
//! its line. Only what such files use is read: texts, quoted texts, blocks, lists, and one level of
//! nested texts. Pure. Our own code: a YAML parser would also read anchors, tags and types that no
//! such file needs, and gives no lines.

use std::fmt;

/// The fields at the beginning of a file, and the text below them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrontMatter<'a> {
    /// The fields, in order.
    pub fields: Vec<FrontMatterField>,
    /// The text below.
    pub body: &'a str,
}

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrontMatterField {
    /// Its key.
    pub key: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its value.
    pub value: FieldValue,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// A text, a number or a word. Empty if there is none.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Nested texts by key.
    Map(Vec<(String, String)>),
}

/// Why front matter cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrontMatterError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl fmt::Display for FrontMatterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for FrontMatterError {}

impl FrontMatterError {
    /// Makes an error at a line.
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// How many fields a file may have.
const MAX_FIELDS: usize = 100;

impl<'a> FrontMatter<'a> {
    /// Reads the front matter of a file.
    ///
    /// ```
    /// use haft::front_matter::FrontMatter;
    ///
    /// let read = FrontMatter::parse("---\nname: notes\ntools: [Read, Grep]\n---\nBe brief.\n")?;
    /// assert_eq!((read.text("name"), read.body), (Some("notes"), "Be brief.\n"));
    /// assert_eq!(read.list("tools"), ["Read", "Grep"]);
    /// assert_eq!(FrontMatter::parse("---\nname\n---\n").unwrap_err().line, 2);
    /// # Ok::<(), haft::front_matter::FrontMatterError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if there is none, if it does not end, and for a line that is not understood.
    pub fn parse(text: &'a str) -> Result<Self, FrontMatterError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = Lines::new(text);
        if lines.next().is_none_or(|line| line.trim_end() != "---") {
            let why = "the file does not begin with front matter; write `---` in its first line";
            return Err(FrontMatterError::new(1, why));
        }
        let mut fields: Vec<FrontMatterField> = Vec::new();
        loop {
            let Some(line) = lines.next() else {
                let why = "the front matter does not end; write a line `---` below its last field";
                return Err(FrontMatterError::new(lines.number.max(1), why));
            };
            let number = lines.number;
            if line.trim_end() == "---" {
                return Ok(Self { fields, body: lines.rest });
            }
            if is_blank(line) {
                continue;
            }
            let field = read_field(line, number, &mut lines)?;
            if let Some(first) = fields.iter().find(|own| own.key == field.key) {
                let why = format!("`{}` is set twice, first in line {}", field.key, first.line);
                return Err(FrontMatterError::new(number, why));
            }
            if fields.len() >= MAX_FIELDS {
                let why = format!("there are more than {MAX_FIELDS} fields");
                return Err(FrontMatterError::new(number, why));
            }
            fields.push(field);
        }
    }

    /// Returns a field.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&FrontMatterField> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// Returns a text that is not empty.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.field(key)?.value {
            FieldValue::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Returns a list. A text is split at commas and spaces outside of parentheses, so that
    /// `Bash(git add *), Read` has two items.
    #[must_use]
    pub fn list(&self, key: &str) -> Vec<String> {
        match self.field(key).map(|field| &field.value) {
            Some(FieldValue::List(items)) => items.clone(),
            Some(FieldValue::Text(text)) => split_items(text),
            _ => Vec::new(),
        }
    }
}

/// The lines of a text with their numbers, and what follows them.
struct Lines<'a> {
    rest: &'a str,
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, number: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        (!self.rest.is_empty()).then(|| self.rest.split('\n').next().unwrap_or_default())
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.rest = self.rest.get(line.len() + 1..).unwrap_or_default();
        self.number += 1;
        Some(line.trim_end_matches('\r'))
    }

    /// Returns the next line if it is indented or blank.
    fn next_inside(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        let is_inside = line.starts_with([' ', '\t']) || line.trim().is_empty();
        if is_inside { self.next() } else { None }
    }
}

fn is_comment(line: &str) -> bool {
    line.starts_with('#')
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || is_comment(line)
}

/// Splits `key: value`.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_plain =
        !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let is_apart = value.is_empty() || value.starts_with([' ', '\t']);
    let value = value.trim();
    let value = if value.starts_with('#') { "" } else { value };
    (is_plain && is_apart).then_some((key, value))
}

/// A plain text without the comment that follows it. A comment begins at the start of a value, or
/// after a space.
fn without_comment(value: &str) -> &str {
    let is_comment = |at: usize| at == 0 || value[..at].ends_with([' ', '\t']);
    let end = value.match_indices('#').map(|(at, _)| at).find(|at| is_comment(*at));
    value[..end.unwrap_or(value.len())].trim_end()
}

/// Checks that nothing but a comment follows a closed value.
fn ends_with_comment(rest: &str, number: usize) -> Result<(), FrontMatterError> {
    if without_comment(rest).is_empty() && !rest.starts_with('#') {
        return Ok(());
    }
    let why = "text follows the end of the value; put the whole value in quotes";
    Err(FrontMatterError::new(number, why))
}

fn read_field(
    line: &str,
    number: usize,
    lines: &mut Lines<'_>,
) -> Result<FrontMatterField, FrontMatterError> {
    if line.starts_with([' ', '\t']) {
        let why = "the line is indented, and no field is open; remove the indentation";
        return Err(FrontMatterError::new(number, why));
    }
    let Some((key, value)) = key_and_value(line) else {
        let why = "the line is not a field; write `key: value`";
        return Err(FrontMatterError::new(number, why));
    };
    let value = if value.is_empty() {
        nested(lines)?
    } else if let Some(folds) = block_style(without_comment(value)) {
        FieldValue::Text(block(lines, folds))
    } else if let Some(inside) = value.strip_prefix('[') {
        FieldValue::List(flow_list(inside, number)?)
    } else {
        let mut text = scalar(value, number)?;
        if !value.starts_with(['"', '\'']) {
            continued(&mut text, without_comment(value) != value, lines)?;
        }
        FieldValue::Text(text)
    };
    Ok(FrontMatterField { key: key.to_owned(), line: number, value })
}

/// Adds the indented lines that a plain text goes on in. A comment ends the text.
fn continued(
    text: &mut String,
    mut has_ended: bool,
    lines: &mut Lines<'_>,
) -> Result<(), FrontMatterError> {
    while let Some(line) = lines.next_inside() {
        let line = line.trim();
        let more = without_comment(line);
        if has_ended && !more.is_empty() {
            let why = "a text cannot go on below a comment; remove the comment";
            return Err(FrontMatterError::new(lines.number, why));
        }
        has_ended |= more != line;
        if !more.is_empty() {
            text.push(' ');
            text.push_str(more);
        }
    }
    Ok(())
}

/// Whether a value opens a block, and whether its lines are joined.
fn block_style(value: &str) -> Option<bool> {
    let mut chars = value.chars();
    let folds = match chars.next()? {
        '>' => true,
        '|' => false,
        _ => return None,
    };
    chars.all(|c| matches!(c, '-' | '+' | '1'..='9')).then_some(folds)
}

/// The indented lines of a block, without their indentation.
fn block(lines: &mut Lines<'_>, folds: bool) -> String {
    let mut texts: Vec<&str> = Vec::new();
    while let Some(line) = lines.next_inside() {
        texts.push(line);
    }
    let indents = texts.iter().filter(|line| !line.trim().is_empty());
    let indent = indents.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let texts = texts.iter().map(|line| line.get(indent..).unwrap_or_default());
    let text = texts.collect::<Vec<_>>().join(if folds { " " } else { "\n" });
    text.trim().to_owned()
}

/// What follows a key without a value: a list, nested fields, or nothing.
fn nested(lines: &mut Lines<'_>) -> Result<FieldValue, FrontMatterError> {
    let (mut items, mut pairs) = (Vec::new(), Vec::new());
    loop {
        // A list may begin at the column of its key, and so may a comment.
        let is_item = lines.peek().is_some_and(|line| line.starts_with("- ") || is_comment(line));
        let Some(line) = (if is_item { lines.next() } else { lines.next_inside() }) else { break };
        let (number, line) = (lines.number, line.trim());
        if is_blank(line) {
            continue;
        }
        if let Some(item) = line.strip_prefix("- ") {
            items.push(scalar(item.trim(), number)?);
        } else if let Some((key, value)) = key_and_value(line) {
            pairs.push((key.to_owned(), scalar(value, number)?));
        } else {
            let why = "the line is neither an item (`- text`) nor a field (`key: value`)";
            return Err(FrontMatterError::new(number, why));
        }
        if !items.is_empty() && !pairs.is_empty() {
            let why = "a list and fields are mixed";
            return Err(FrontMatterError::new(number, why));
        }
    }
    Ok(match (items.is_empty(), pairs.is_empty()) {
        (false, _) => FieldValue::List(items),
        (_, false) => FieldValue::Map(pairs),
        _ => FieldValue::Text(String::new()),
    })
}

/// The items of a list in brackets. Commas in quotes and in parentheses do not separate.
fn flow_list(inside: &str, number: usize) -> Result<Vec<String>, FrontMatterError> {
    let refuse = |why: &str| Err(FrontMatterError::new(number, why));
    let (mut items, mut depth, mut from, mut at) = (Vec::new(), 0_usize, 0, 0);
    while let Some(c) = inside[at..].chars().next() {
        let is_first = inside[from..at].trim().is_empty();
        let is_apart = inside[..at].ends_with([' ', '\t', ',']) || at == 0;
        match c {
            '"' | '\'' if is_first => {
                let Some(end) = quote_end(&inside[at..]) else {
                    return refuse("the quoted text does not end in its line");
                };
                at += end;
                continue;
            }
            '#' if is_apart => break,
            '[' | '{' | '}' => return refuse("a list in a list is not read here"),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' | ']' if depth == 0 || c == ']' => {
                let item = inside[from..at].trim();
                if !item.is_empty() {
                    items.push(scalar(item, number)?);
                }
                from = at + 1;
                if c == ']' {
                    ends_with_comment(&inside[from..], number)?;
                    return Ok(items);
                }
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    refuse("the list does not end in its line; close it with `]`")
}

/// The length of the quoted text that a value begins with.
fn quote_end(value: &str) -> Option<usize> {
    let mut chars = value.char_indices().peekable();
    let (_, quote) = chars.next()?;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' => {
                chars.next();
            }
            '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
            }
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// A text, without its quotes and without the comment that follows it.
fn scalar(value: &str, number: usize) -> Result<String, FrontMatterError> {
    let refuse = |why: &str| Err(FrontMatterError::new(number, why));
    if value.starts_with(['"', '\'']) {
        let Some(end) = quote_end(value) else {
            return refuse("the quoted text does not end in its line");
        };
        ends_with_comment(&value[end..], number)?;
        let inside = &value[1..end - 1];
        let is_double = value.starts_with('"');
        return Ok(if is_double { unescape(inside) } else { inside.replace("''", "'") });
    }
    if value.starts_with(['&', '*', '!', '{', '%', '@', '`']) {
        return refuse("this form of YAML is not read here; write the value in quotes");
    }
    Ok(without_comment(value).to_owned())
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            c => out.push(c),
        }
    }
    out
}

/// Splits a text at commas and spaces outside of parentheses.
fn split_items(text: &str) -> Vec<String> {
    let items = split_at(text, |c| c == ',' || c.is_whitespace());
    items.into_iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

fn split_at(text: &str, is_end: impl Fn(char) -> bool) -> Vec<&str> {
    let (mut items, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 && is_end(c) => {
                items.push(&text[from..at]);
                from = at + c.len_utf8();
            }
            _ => {}
        }
    }
    items.push(&text[from..]);
    items.retain(|item| !item.trim().is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(text: &str) -> (usize, String) {
        let error = FrontMatter::parse(text).unwrap_err();
        (error.line, error.message)
    }

    #[test]
    fn every_form_of_a_value_is_read() {
        let text = "---\n# a comment\nname: pdf-forms\ndescription: >-\n  Fills forms.\n  Use it \
                    for PDF.\nquoted: \"a: \\\"b\\\"\"\nsingle: 'it''s'\nplain: one\n  two\n\
                    allowed-tools: Bash(git add *), Read Grep\nlist:\n  - a\n  - 'b c'\nflush:\n- x\n\
                    flow: [Read, \"Bash(ls, a)\"]\nmetadata:\n  version: \"1.0\"\n  author: me\n\
                    literal: |\n  one\n    two\nempty:\nnote: a # b\n---\n\nBody.\n";
        let read = FrontMatter::parse(text).unwrap();
        assert_eq!(read.text("name"), Some("pdf-forms"));
        assert_eq!(read.text("description"), Some("Fills forms. Use it for PDF."));
        assert_eq!(read.text("quoted"), Some("a: \"b\""));
        assert_eq!(read.text("single"), Some("it's"));
        assert_eq!(read.text("plain"), Some("one two"));
        assert_eq!(read.list("allowed-tools"), ["Bash(git add *)", "Read", "Grep"]);
        assert_eq!(read.list("list"), ["a", "b c"]);
        assert_eq!(read.list("flush"), ["x"]);
        assert_eq!(read.list("flow"), ["Read", "Bash(ls, a)"]);
        assert_eq!(read.text("literal"), Some("one\n  two"));
        assert_eq!((read.text("empty"), read.text("note")), (None, Some("a")));
        let pairs = vec![("version".into(), "1.0".into()), ("author".into(), "me".into())];
        assert_eq!(read.field("metadata").unwrap().value, FieldValue::Map(pairs));
        assert_eq!(read.field("allowed-tools").unwrap().line, 11);
        assert_eq!(read.body, "\nBody.\n");
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(line_of("name: x\n").0, 1);
        assert_eq!(line_of("").0, 1);
        assert_eq!(line_of("---\nname: x\n").0, 2);
        assert_eq!(line_of("---\nname: x\nno colon here\n---\n").0, 3);
        assert_eq!(line_of("---\nname: x\nname: y\n---\n").0, 3);
        assert_eq!(line_of("---\n  name: x\n---\n").0, 2);
        assert_eq!(line_of("---\nname: \"x\n---\n").0, 2);
        assert_eq!(line_of("---\na: &anchor x\n---\n").0, 2);
        assert_eq!(line_of("---\nlist: [a, b\n---\n").0, 2);
        assert_eq!(line_of("---\nlist:\n  - a\n  b: c\n---\n").0, 4);
        let many: String = (0..200).map(|n| format!("k{n}: x\n")).collect();
        assert_eq!(line_of(&format!("---\n{many}---\n")).0, MAX_FIELDS + 2);
    }

    #[test]
    fn windows_lines_and_a_byte_order_mark_are_read() {
        let read = FrontMatter::parse("\u{feff}---\r\nname: x\r\n---\r\nBody.").unwrap();
        assert_eq!((read.text("name"), read.body), (Some("x"), "Body."));
    }

    #[test]
    fn comments_are_not_part_of_a_value() {
        let text = "---\na: # none\nb: \"x # y\" # z\nc: 'it''s' # \"\nd: [p, \"q, #\", 'r]'] # ]\n\
                    e: x#y\nf: > # folded\n  one\n  # two\ng: one # end\nh: one\n  two # end\n\
                    i:\n  k: v # w\n  # l: m\nj: \"a\\\"b\\\\\" # c\n---\n";
        let read = FrontMatter::parse(text).unwrap();
        assert_eq!(read.field("a").unwrap().value, FieldValue::Text(String::new()));
        assert_eq!((read.text("b"), read.text("c")), (Some("x # y"), Some("it's")));
        assert_eq!(read.list("d"), ["p", "q, #", "r]"]);
        assert_eq!((read.text("e"), read.text("f")), (Some("x#y"), Some("one # two")));
        assert_eq!((read.text("g"), read.text("h")), (Some("one"), Some("one two")));
        let pairs = vec![("k".into(), "v".into())];
        assert_eq!(read.field("i").unwrap().value, FieldValue::Map(pairs));
        assert_eq!(read.text("j"), Some("a\"b\\"));
        assert_eq!(line_of("---\na: x # c\n  y\n---\n").0, 3);
        assert_eq!(line_of("---\na: x\n  # c\n  y\n---\n").0, 4);
        assert_eq!(line_of("---\na: \"x\" y\n---\n").0, 2);
        assert_eq!(line_of("---\na: [x] y\n---\n").0, 2);
        assert_eq!(line_of("---\na: [x # ]\n---\n").0, 2);
        assert_eq!(line_of("---\na: [x, [y]]\n---\n").0, 2);
    }
}
