//! Untyped values of a configuration file with their offsets, independent of the format, and a
//! reader that asks for types and collects mistakes.
//!
//! Derived serde structs are not used: serde stops at the first mistake, as a test below shows. The
//! known keys of a table are a list. [`Reader::table`] checks them before any is read, so no early
//! return skips the check.
//!
//! INVARIANT: a reader method that returns `None` has reported why.

use std::time::Duration;

use haft_core::text::shortened;
use serde_json::{Map, Value};

use super::{mistake::Mistakes, negated::Negated, source::Source};
use crate::{
    pattern::{PathBase, Pattern, PatternErrorKind},
    rule::SourceLocation,
};
use haft_schema::near::nearest;

/// A value and where it starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Null,
    Flag(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    /// A date, or a number too large: no key accepts one.
    Odd(&'static str),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: usize,
    pub(super) value: Node,
}

impl Node {
    /// Describes the value, for a message.
    fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "null".to_owned(),
            Kind::Flag(flag) => flag.to_string(),
            Kind::Whole(n) => format!("the number {n}"),
            Kind::Real(n) => format!("the number {n}"),
            Kind::Text(text) => format!("{:?}", quoted(text)),
            Kind::Odd(what) => (*what).to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Table(_) => "a table".to_owned(),
        }
    }
}

/// Truncates a text that a message quotes.
fn quoted(text: &str) -> String {
    shortened(text, 60)
}

/// A type that a value is read into.
pub(super) trait FromNode<'n>: Sized {
    /// Reads it, or reports why not. `what` names the value in the report.
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self>;
}

/// A type whose values are written as fixed strings.
pub(super) trait Words: Clone + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

/// Declares the strings of types.
macro_rules! words {
    ($($of:ident { $($word:literal => $variant:ident),* $(,)? })*) => {$(
        impl $crate::files::node::Words for $of {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $of::$variant)),*];
        }
    )*};
}
pub(super) use words;

impl<'n, T: Words> FromNode<'n> for T {
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        reader.choice(node, what, T::WORDS)
    }
}

impl<'n> FromNode<'n> for bool {
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        match node.kind {
            Kind::Flag(flag) => Some(flag),
            _ => {
                reader.unlike(node, what, "true or false", "write it without quotes");
                None
            }
        }
    }
}

impl<'n> FromNode<'n> for f64 {
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        match node.kind {
            Kind::Whole(n) => Some(n as f64),
            Kind::Real(n) if n.is_finite() => Some(n),
            _ => {
                reader.unlike(node, what, "a number", "write it without quotes, as in `0.8`");
                None
            }
        }
    }
}

impl<'n> FromNode<'n> for &'n str {
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        reader.text(node, what)
    }
}

impl<'n> FromNode<'n> for String {
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        reader.text(node, what).map(str::to_owned)
    }
}

impl<'n> FromNode<'n> for Duration {
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        let hint = "a duration is a whole number above zero and ms, s, m, h or d, as in \"120s\"";
        let Kind::Text(text) = &node.kind else {
            reader.unlike(node, what, "a duration in quotes", hint);
            return None;
        };
        let time = haft_core::parse_duration(text).ok();
        if time.is_none() {
            reader.unlike(node, what, "a duration", hint);
        }
        time
    }
}

/// A list. All wrong items are reported, and then there is no list.
impl<'n, T: FromNode<'n>> FromNode<'n> for Vec<T> {
    fn from_node(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        let list = reader.list(node, what)?;
        let items: Vec<T> =
            list.iter().filter_map(|node| T::from_node(reader, node, what)).collect();
        (items.len() == list.len()).then_some(items)
    }
}

/// The entries of a table whose keys are known.
///
/// The typed methods return `None` or nothing both for a key that is absent and for a value that is
/// wrong; the latter is reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'n>(&'n [Entry]);

impl<'n> Fields<'n> {
    pub(super) fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'n Entry> {
        self.0.iter()
    }

    /// Reads the value of a key.
    pub(super) fn field<T: FromNode<'n>>(&self, reader: &mut Reader<'_>, key: &str) -> Option<T> {
        self.with(reader, key, T::from_node)
    }

    /// Reads the value of a key with a default; `None` only if the value is wrong.
    pub(super) fn field_or<T: FromNode<'n>>(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        usual: T,
    ) -> Option<T> {
        match self.get(key) {
            Some(_) => self.field(reader, key),
            None => Some(usual),
        }
    }

    /// Reads the value of a key with a function.
    pub(super) fn with<T>(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        read: impl FnOnce(&mut Reader<'_>, &'n Node, &str) -> Option<T>,
    ) -> Option<T> {
        read(reader, self.get(key)?, &format!("`{key}`"))
    }

    /// Reads a short text: [`Reader::line`].
    pub(super) fn line(&self, reader: &mut Reader<'_>, key: &str) -> Option<String> {
        self.with(reader, key, |reader, node, what| reader.line(node, what)).map(str::to_owned)
    }

    /// Reads a whole number: [`Reader::whole`].
    pub(super) fn whole<N: TryFrom<i64>>(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        least: i64,
    ) -> Option<N> {
        self.with(reader, key, |reader, node, what| reader.whole(node, what, least))
    }

    /// Reads one string or a list of strings, each with its offset.
    pub(super) fn texts(&self, reader: &mut Reader<'_>, key: &str) -> Vec<(&'n str, usize)> {
        let texts = self.with(reader, key, |reader, node, what| Some(reader.texts(node, what)));
        texts.unwrap_or_default()
    }

    /// Reads a table with arbitrary keys, whose values have one type.
    pub(super) fn map<T, M: Default + Extend<(String, T)>>(
        &self,
        reader: &mut Reader<'_>,
        key: &str,
        mut read: impl FnMut(&mut Reader<'_>, &'n Node, &str) -> Option<T>,
    ) -> M {
        let table = self.with(reader, key, |reader, node, what| reader.any_table(node, what));
        let mut map = M::default();
        map.extend(table.iter().flat_map(Fields::iter).filter_map(|entry| {
            let what = format!("`{key}.{}`", quoted(&entry.key));
            Some((entry.key.clone(), read(reader, &entry.value, &what)?))
        }));
        map
    }
}

/// Reads typed values of one file.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) mistakes: &'a mut Mistakes,
}

impl Reader<'_> {
    pub(super) fn location(&self, at: usize) -> SourceLocation {
        self.source.location(at)
    }

    pub(super) fn wrong(&mut self, at: usize, message: impl Into<String>, hint: impl Into<String>) {
        self.mistakes.add(self.source.location(at), || (message.into(), Some(hint.into())));
    }

    fn unlike(&mut self, node: &Node, what: &str, wanted: &str, hint: &str) {
        self.mistakes.add(self.source.location(node.at), || {
            (format!("{what} must be {wanted}, got {}", node.describe()), Some(hint.to_owned()))
        });
    }

    /// Takes a table and rejects unknown keys.
    pub(super) fn table<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
    ) -> Option<Fields<'n>> {
        let fields = self.any_table(node, what)?;
        for entry in fields.iter().filter(|entry| !known.contains(&&*entry.key)) {
            self.unknown(entry, what, known);
        }
        Some(fields)
    }

    /// Takes a table with arbitrary keys.
    pub(super) fn any_table<'n>(&mut self, node: &'n Node, what: &str) -> Option<Fields<'n>> {
        match &node.kind {
            Kind::Table(entries) => Some(Fields(entries)),
            _ => {
                self.unlike(node, what, "a table", "write its keys as `key = value`");
                None
            }
        }
    }

    fn unknown(&mut self, entry: &Entry, what: &str, known: &[&str]) {
        self.mistakes.add(self.source.location(entry.at), || {
            let list = known.join("`, `");
            let hint = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? Known keys: `{list}`"),
                None => format!("known keys: `{list}`"),
            };
            (format!("unknown key `{}` in {what}", quoted(&entry.key)), Some(hint))
        });
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Node]> {
        match &node.kind {
            Kind::List(list) => Some(list),
            _ => {
                self.unlike(node, what, "a list", "put it in square brackets");
                None
            }
        }
    }

    /// Returns whether a value is a string, without reporting a mistake.
    pub(super) fn is_text(&self, node: &Node) -> bool {
        matches!(node.kind, Kind::Text(_))
    }

    pub(super) fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.kind {
            Kind::Text(text) => Some(text),
            _ => {
                self.unlike(node, what, "a string", "put it in double quotes");
                None
            }
        }
    }

    /// Takes a text that people and the model will read: short, without terminal control
    /// characters.
    pub(super) fn line<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        const MAX_TEXT_BYTES: usize = 1_000;
        let text = self.text(node, what)?;
        if text.trim().is_empty() || text.len() > MAX_TEXT_BYTES || text.contains(char::is_control)
        {
            let wanted =
                format!("a line of 1 to {MAX_TEXT_BYTES} bytes without control characters");
            self.unlike(node, what, &wanted, "shorten it, or remove it");
            return None;
        }
        Some(text)
    }

    /// Takes one string or a list of strings.
    pub(super) fn texts<'n>(&mut self, node: &'n Node, what: &str) -> Vec<(&'n str, usize)> {
        match &node.kind {
            Kind::Text(text) => vec![(text, node.at)],
            Kind::List(list) => list
                .iter()
                .filter_map(|node| self.text(node, what).map(|text| (text, node.at)))
                .collect(),
            _ => {
                self.unlike(node, what, "a string or a list of strings", "put it in double quotes");
                Vec::new()
            }
        }
    }

    /// Takes a whole number of at least `least` that fits.
    pub(super) fn whole<N: TryFrom<i64>>(
        &mut self,
        node: &Node,
        what: &str,
        least: i64,
    ) -> Option<N> {
        if let Kind::Whole(n) = node.kind
            && n >= least
            && let Ok(n) = N::try_from(n)
        {
            return Some(n);
        }
        let wanted = match least {
            i64::MIN => "a whole number".to_owned(),
            least => format!("a whole number, at least {least}"),
        };
        self.unlike(node, what, &wanted, "write it without quotes, as in `50` or `50_000`");
        None
    }

    /// Takes one of several fixed strings.
    pub(super) fn choice<T: Clone>(
        &mut self,
        node: &Node,
        what: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(node, what)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(value.clone());
        }
        self.mistakes.add(self.source.location(node.at), || {
            let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let near = nearest(text, list.iter().copied());
            let message =
                format!("{what} must be one of `{}`, got {}", list.join("`, `"), node.describe());
            (message, near.map(|near| format!("did you mean `{near}`?")))
        });
        None
    }

    /// Takes a pattern of a rule that restricts. One that starts with `!` is collected separately:
    /// it is not supported, and ignoring it weakens no other rule.
    pub(super) fn restricting(
        &mut self,
        text: &str,
        at: usize,
        anchor: &PathBase,
        negated: &mut Negated,
    ) -> Option<Pattern> {
        match Pattern::parse(text, anchor) {
            Err(e) if e.kind == PatternErrorKind::Negated => {
                negated.add(&quoted(text), at);
                None
            }
            _ => self.pattern(text, at, anchor),
        }
    }

    /// Takes a pattern of a rule.
    pub(super) fn pattern(&mut self, text: &str, at: usize, anchor: &PathBase) -> Option<Pattern> {
        match Pattern::parse(text, anchor) {
            Ok(pattern) => Some(pattern),
            Err(e) => {
                self.mistakes.add(self.source.location(at), || {
                    let hint = e.hint.unwrap_or_else(|| {
                        "a pattern is `Tool`, `Tool(specifier)` or selectors such as `host=x.org`"
                            .to_owned()
                    });
                    (
                        format!("`{}` is not a valid pattern: {}", quoted(text), e.message),
                        Some(hint),
                    )
                });
                None
            }
        }
    }

    /// Takes any value, as JSON.
    pub(super) fn value(&mut self, node: &Node) -> Option<Value> {
        Some(match &node.kind {
            Kind::Null => Value::Null,
            Kind::Flag(flag) => Value::from(*flag),
            Kind::Whole(n) => Value::from(*n),
            Kind::Real(n) => match serde_json::Number::from_f64(*n) {
                Some(n) => Value::Number(n),
                None => {
                    self.unlike(node, "a number", "finite", "arguments must be JSON");
                    return None;
                }
            },
            Kind::Text(text) => Value::from(&**text),
            Kind::Odd(_) => {
                self.unlike(
                    node,
                    "an argument",
                    "a value that JSON can represent",
                    "write it as a string",
                );
                return None;
            }
            Kind::List(list) => {
                Value::Array(list.iter().map(|node| self.value(node)).collect::<Option<_>>()?)
            }
            Kind::Table(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    map.insert(entry.key.clone(), self.value(&entry.value)?);
                }
                Value::Object(map)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::toml, *};

    const TEXT: &str = "timeot = 1\nmode = 2\nlimit = \"x\"\n";

    /// The reason for this module. If it fails, derived structs may have become an option.
    #[test]
    fn serde_stops_at_the_first_mistake() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its errors are of interest")]
        struct Defaults {
            timeout: Option<::toml::Spanned<String>>,
            mode: Option<::toml::Spanned<String>>,
            limit: Option<::toml::Spanned<u32>>,
        }
        let error = ::toml::from_str::<Defaults>(TEXT).unwrap_err().to_string();
        assert_eq!(error.matches(" at line ").count(), 1, "{error}");
    }

    #[test]
    fn reader_finds_every_mistake_of_a_table() {
        let source = Source::new(Path::new("a"), TEXT);
        let mut mistakes = Mistakes::default();
        let root = toml::parse(&source, &mut mistakes).unwrap();
        let mut reader = Reader { source: &source, mistakes: &mut mistakes };
        let fields = reader.table(&root, "the file", &["timeout", "mode", "limit"]).unwrap();
        assert_eq!(fields.field::<Duration>(&mut reader, "timeout"), None);
        assert_eq!(fields.field::<String>(&mut reader, "mode"), None);
        assert_eq!(fields.whole::<u32>(&mut reader, "limit", 0), None);
        assert_eq!(mistakes.count(), 3);
    }
}
