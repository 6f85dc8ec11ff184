//! Globs over one text, the only glob engine: names of tools, hosts, arguments, and the steps of
//! paths. [`Style`] says which characters are special.
//!
//! Our own code, because rules must know whether one glob covers another, which the glob crates
//! do not say.

/// A glob over one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Glob {
    /// Exactly this.
    Text(String),
    /// Wildcards and literal characters.
    Items(Vec<GlobItem>),
}

/// One element of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GlobItem {
    /// This character.
    Is(char),
    /// Any one character.
    One,
    /// Any characters, or none.
    Many,
    /// One of these, or none of these.
    Of { not: bool, ranges: Vec<(char, char)> },
}

impl GlobItem {
    fn literal(&self) -> Option<char> {
        match self {
            Self::Is(c) => Some(*c),
            _ => None,
        }
    }
}

/// Which characters are special.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `*` alone; `\` escapes the next character.
    Star,
    /// `*` and `?`, and nothing else.
    Names,
    /// `*`, `?`, `[…]`, as in file names; `\` escapes the next character.
    Files,
}

impl Glob {
    /// Parses a glob. Fails with the offset of an unclosed bracket.
    pub(crate) fn parse(text: &str, style: Style) -> Result<Self, usize> {
        let mut items = Vec::new();
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let hole = match c {
                '\\' if style != Style::Names => match chars.next() {
                    Some((_, next)) => GlobItem::Is(next),
                    None => GlobItem::Is('\\'),
                },
                '*' if items.last() == Some(&GlobItem::Many) => continue,
                '*' => GlobItem::Many,
                '?' if style != Style::Star => GlobItem::One,
                '[' if style == Style::Files => class(&mut chars).ok_or(at)?,
                other => GlobItem::Is(other),
            };
            items.push(hole);
        }
        let text: Option<String> = items.iter().map(GlobItem::literal).collect();
        Ok(text.map_or(Self::Items(items), Self::Text))
    }

    /// Returns the text, if there are no wildcards.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Items(_) => None,
        }
    }

    /// Returns the literal text before its first wildcard.
    pub(crate) fn literal_start(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Items(items) => items.iter().map_while(GlobItem::literal).collect(),
        }
    }

    /// Returns the literal text after its last wildcard.
    pub(crate) fn literal_end(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Items(items) => {
                let end = items.iter().rev().map_while(GlobItem::literal).count();
                items.iter().skip(items.len() - end).filter_map(GlobItem::literal).collect()
            }
        }
    }

    /// Returns the longest literal text between two wildcards.
    pub(crate) fn literal_middle(&self) -> String {
        let Self::Items(items) = self else { return String::new() };
        let parts = items.split(|item| item.literal().is_none());
        let part = parts.max_by_key(|part| part.len()).unwrap_or_default();
        part.iter().filter_map(GlobItem::literal).collect()
    }

    /// Writes it escaped, so that it parses to itself.
    pub(crate) fn written(&self) -> String {
        let mut text = String::new();
        let escaped = |text: &mut String, c: char| {
            if matches!(c, '*' | '?' | '[' | ']' | '\\') {
                text.push('\\');
            }
            text.push(c);
        };
        match self {
            Self::Text(own) => own.chars().for_each(|c| escaped(&mut text, c)),
            Self::Items(items) => {
                for hole in items {
                    match hole {
                        GlobItem::Is(c) => escaped(&mut text, *c),
                        GlobItem::One => text.push('?'),
                        GlobItem::Many => text.push('*'),
                        GlobItem::Of { not, ranges } => {
                            text.push_str(if *not { "[!" } else { "[" });
                            for (low, high) in ranges {
                                text.extend(['\\', *low]);
                                if high != low {
                                    text.extend(['-', *high]);
                                }
                            }
                            text.push(']');
                        }
                    }
                }
            }
        }
        text
    }

    /// Returns whether it matches everything.
    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Self::Items(items) if items.as_slice() == [GlobItem::Many])
    }

    /// Returns whether it certainly matches all that the other matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Text(text)) => self.matches(text, false),
            (Self::Text(_), Self::Items(_)) => false,
            (Self::Items(own), Self::Items(other)) => {
                aligns(own, other, |hole| *hole == GlobItem::Many, covers_item)
            }
        }
    }

    /// Returns whether certainly nothing matches both.
    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(text), items) | (items, Self::Text(text)) => !items.matches(text, false),
            (Self::Items(_), Self::Items(_)) => false,
        }
    }

    /// Returns whether a text matches, all of it.
    pub(crate) fn matches(&self, text: &str, fold: bool) -> bool {
        match self {
            Self::Text(own) if !fold => own == text,
            Self::Text(own) => own
                .chars()
                .flat_map(char::to_lowercase)
                .eq(text.chars().flat_map(char::to_lowercase)),
            Self::Items(items) => fits(items, text, fold),
        }
    }
}

/// A glob over names, such as `search_*`: `*` matches any text, `?` one character. Case-sensitive;
/// nothing else is special.
///
/// ```
/// use haft_policy::NameGlob;
///
/// let glob = NameGlob::new("search_*");
/// assert!(glob.matches("search_files") && !glob.matches("Search_files"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameGlob {
    text: String,
    glob: Glob,
}

impl NameGlob {
    /// Parses a glob. Every text is one.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        // Only an unclosed bracket fails, and brackets are not special here.
        let glob = Glob::parse(&text, Style::Names);
        Self { glob: glob.unwrap_or_else(|_| Glob::Text(text.clone())), text }
    }

    /// Returns it as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.glob.matches(name, false)
    }
}

/// Parses `a-z]`, after the opening bracket.
fn class(chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>) -> Option<GlobItem> {
    let not = chars.next_if(|(_, c)| matches!(c, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let (_, low) = chars.next()?;
        if low == ']' && !ranges.is_empty() {
            return Some(GlobItem::Of { not, ranges });
        }
        let low = if low == '\\' { chars.next()?.1 } else { low };
        let mut high = low;
        if chars.next_if(|(_, c)| *c == '-').is_some() {
            match chars.peek() {
                Some((_, ']')) => ranges.push(('-', '-')),
                _ => high = chars.next()?.1,
            }
        }
        ranges.push((low, high));
    }
}

/// Two positions that move forward; a mismatch backtracks to the last star alone, so the cost is at
/// most the product of the lengths.
fn fits(items: &[GlobItem], text: &str, fold: bool) -> bool {
    let (mut hole, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text[at..].chars().next() {
        match items.get(hole) {
            Some(GlobItem::Many) => {
                star = Some((hole, at));
                hole += 1;
                continue;
            }
            Some(one) if takes(one, c, fold) => {
                hole += 1;
                at += c.len_utf8();
                continue;
            }
            _ => {}
        }
        let Some((many, from)) = star else { return false };
        let Some(skipped) = text[from..].chars().next() else { return false };
        at = from + skipped.len_utf8();
        star = Some((many, at));
        hole = many + 1;
    }
    items[hole..].iter().all(|hole| *hole == GlobItem::Many)
}

fn takes(hole: &GlobItem, c: char, fold: bool) -> bool {
    match hole {
        GlobItem::Is(own) if fold => own.to_lowercase().eq(c.to_lowercase()),
        GlobItem::Is(own) => *own == c,
        GlobItem::One | GlobItem::Many => true,
        GlobItem::Of { not, ranges } => {
            let within = |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
            let found =
                within(c) || fold && (c.to_lowercase().any(within) || c.to_uppercase().any(within));
            found != *not
        }
    }
}

/// Whether this element, which is not a star, matches all that the other matches.
fn covers_item(own: &GlobItem, other: &GlobItem) -> bool {
    match (own, other) {
        (_, GlobItem::Many) => false,
        (GlobItem::One, _) => true,
        (own, GlobItem::Is(c)) => takes(own, *c, false),
        (own, other) => own == other,
    }
}

/// Aligns two sequences in which some elements match any number of others. `takes` returns whether
/// an element of ours covers one of theirs, and never does so for one of theirs that matches many.
pub(crate) fn aligns<A, B>(
    ours: &[A],
    theirs: &[B],
    is_many: impl Fn(&A) -> bool,
    takes: impl Fn(&A, &B) -> bool,
) -> bool {
    let (mut own, mut at) = (0, 0);
    let mut many: Option<(usize, usize)> = None;
    loop {
        match (ours.get(own), theirs.get(at)) {
            (None, None) => return true,
            (Some(step), _) if is_many(step) => {
                many = Some((own, at));
                own += 1;
                continue;
            }
            (Some(step), Some(other)) if takes(step, other) => {
                own += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        // Backtracks to the last one that takes many, which takes one more.
        match many {
            Some((step, from)) if from < theirs.len() => {
                many = Some((step, from + 1));
                at = from + 1;
                own = step + 1;
            }
            _ => return false,
        }
    }
}

/// Escapes a text so that it matches only itself.
#[cfg(test)]
pub(crate) fn literally(text: &str) -> String {
    text.chars().flat_map(|c| ['\\', c]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_characters() {
        for (pattern, text, is) in [
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxc", false),
            ("*", "", true),
            ("?", "\u{e4}", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("ab*ba", "aba", false),
            ("*a*a*b", "aaaab", true),
        ] {
            let glob = Glob::parse(pattern, Style::Files).unwrap();
            assert_eq!(glob.matches(text, false), is, "{pattern} {text}");
        }
        assert_eq!(Glob::parse("x[ab", Style::Files), Err(1));
        assert!(Glob::parse("A*", Style::Star).unwrap().matches("ab", true));
        assert!(Glob::parse("[a]?", Style::Star).unwrap().literal().is_some());
    }

    #[test]
    fn names_match_case_sensitively() {
        for (pattern, name, wanted) in [
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("read_*", "read_file", true),
            ("read_*", "read_", true),
            ("read_*", "Read_file", false),
            ("*file*", "read_file_x", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxab", true),
            ("*a*b", "xaxxba", false),
            ("*", "", true),
            ("?", "", false),
            ("", "", true),
            ("", "x", false),
            ("*é?", "caféx", true),
            ("ab*ba", "aba", false),
            ("[a]", "[a]", true),
            ("[a]", "a", false),
            ("[a", "[a", true),
            ("a\\*", "a\\b", true),
        ] {
            assert_eq!(NameGlob::new(pattern).matches(name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn many_wildcards_in_a_name_match_fast() {
        let glob = NameGlob::new(format!("{}b", "*a".repeat(200)));
        assert!(!glob.matches(&"a".repeat(5000)));
    }
}
