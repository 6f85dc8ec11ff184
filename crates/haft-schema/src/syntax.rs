//! Repairs argument text that is almost JSON, if nothing is lost and nothing is guessed.
//!
//! In: text. Out: one JSON object, and the repairs made to parse it. Repaired are empty text, a
//! byte order mark, a code fence around the whole text, trailing commas, raw control characters in
//! strings, and a double-encoded object; optionally also Python literals and single quotes.
//!
//! Our own code, because libraries that repair JSON close open strings and brackets: a truncated
//! call would become a valid one.
//!
//! FAIL CLOSED: no quote is guessed and no bracket is closed, so truncated text stays invalid.
//! Duplicate keys and `NaN` stay rejected.

use haft_core::Failure;
use serde_json::{Map, Value};

use super::{
    parse,
    repair::{Repair, RepairKind, RepairPolicy},
};

/// Parses argument text as one object, repaired if necessary.
pub fn object(
    text: &str,
    limit: usize,
    repairs: RepairPolicy,
) -> Result<(Map<String, Value>, Vec<Repair>), Failure> {
    match parse::object(text, limit) {
        Ok(map) if map.is_empty() => Ok((map, empty(text).into_iter().collect())),
        Ok(map) => Ok((map, Vec::new())),
        Err(failure) if repairs == RepairPolicy::Off || text.len() > limit => Err(failure),
        Err(failure) => repaired(text, repairs == RepairPolicy::Python).ok_or(failure),
    }
}

/// Parses an object that a provider delivers as data, but inside of a string.
pub fn unwrapped(
    text: &str,
    limit: usize,
    repairs: RepairPolicy,
) -> Option<(Map<String, Value>, Vec<Repair>)> {
    if repairs == RepairPolicy::Off {
        return None;
    }
    let (map, mut steps) = object(text, limit, repairs).ok()?;
    steps.insert(0, double_encoded());
    Some((map, steps))
}

fn repaired(text: &str, python: bool) -> Option<(Map<String, Value>, Vec<Repair>)> {
    let mut steps = Vec::new();
    let mut text = text;
    if let Some(rest) = text.strip_prefix('\u{feff}') {
        steps.push(step(RepairKind::ByteOrderMark, "a byte order mark", None));
        text = rest;
    }
    if let Some(inside) = unfenced(text) {
        steps.push(step(RepairKind::CodeFence, "a code fence around the arguments", None));
        text = inside;
    }
    if let Some(step) = empty(text) {
        steps.push(step);
        return Some((Map::new(), steps));
    }
    let value = match parse::strict(text) {
        Ok(value) => value,
        Err(_) => {
            let (text, changes) = Scan::new(text, python).run()?;
            steps.extend(changes);
            parse::strict(&text).ok()?
        }
    };
    match value {
        Value::Object(map) => Some((map, steps)),
        Value::String(inner) => match parse::strict(&inner).ok()? {
            Value::Object(map) => {
                steps.push(double_encoded());
                Some((map, steps))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The repair of empty text. Some providers write "no arguments" this way. Whether the model
/// intended that or its arguments were lost is visible only in the record.
fn empty(text: &str) -> Option<Repair> {
    text.trim().is_empty().then(|| step(RepairKind::EmptyText, "empty text", Some("{}")))
}

fn double_encoded() -> Repair {
    step(RepairKind::DoubleEncoded, "an object inside of a string", Some("the object"))
}

/// A repair of the text. The text itself is not recorded: it may contain secrets.
fn step(kind: RepairKind, before: impl Into<String>, after: Option<&str>) -> Repair {
    Repair { pointer: String::new(), kind, before: before.into(), after: after.map(str::to_owned) }
}

/// Returns the content of a code fence, if the fence encloses everything.
fn unfenced(text: &str) -> Option<&str> {
    let inside = text.trim().strip_prefix("```")?.strip_suffix("```")?;
    // The word after the fence names a language; with anything else it is not a code fence.
    let rest = inside.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    (rest.starts_with(|c: char| c.is_whitespace() || c == '{')).then_some(rest)
}

/// Scans text once, tracking whether it is inside of a string.
struct Scan<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    python: bool,
    out: String,
    /// The last two characters outside of strings that are not white space, the last one first.
    last: [char; 2],
    comma_at: usize,
    commas: usize,
    controls: usize,
    literals: usize,
    quotes: usize,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, python: bool) -> Self {
        Self {
            rest: text.chars().peekable(),
            python,
            out: String::with_capacity(text.len()),
            last: ['\0'; 2],
            comma_at: 0,
            commas: 0,
            controls: 0,
            literals: 0,
            quotes: 0,
        }
    }

    fn run(mut self) -> Option<(String, Vec<Repair>)> {
        while let Some(c) = self.rest.next() {
            match c {
                '"' => self.string('"')?,
                '\'' if self.python => {
                    self.quotes += 1;
                    self.string('\'')?;
                }
                ',' => self.comma_at = self.out.len(),
                // Only a comma after a value is a trailing comma; `[,]` and `{,}` stay invalid.
                '}' | ']' if self.last[0] == ',' && !"[{,:\0".contains(self.last[1]) => {
                    self.out.remove(self.comma_at);
                    self.commas += 1;
                }
                _ => {}
            }
            if c.is_alphabetic() && self.python {
                self.word(c);
            } else if c != '"' && !(c == '\'' && self.python) {
                self.out.push(c);
            }
            if !c.is_whitespace() {
                self.last = [c, self.last[0]];
            }
        }
        let found = [
            (RepairKind::TrailingComma, self.commas, "trailing comma", None),
            (RepairKind::ControlCharacter, self.controls, "raw control character", Some("escaped")),
            (RepairKind::PythonLiteral, self.literals, "Python literal", Some("JSON")),
            (RepairKind::SingleQuotes, self.quotes, "single-quoted string", Some("JSON")),
        ];
        let steps = found.into_iter().filter(|(_, count, ..)| *count > 0);
        let steps = steps.map(|(kind, count, what, after)| {
            let plural = if count == 1 { "" } else { "s" };
            step(kind, format!("{count} {what}{plural}"), after)
        });
        Some((self.out, steps.collect()))
    }

    /// Copies a string up to its closing quote; `None` if it has none.
    fn string(&mut self, quote: char) -> Option<()> {
        self.out.push('"');
        loop {
            match self.rest.next()? {
                c if c == quote => break,
                '\\' => match self.rest.next()? {
                    '\'' if quote == '\'' => self.out.push('\''),
                    c => self.out.extend(['\\', c]),
                },
                '"' => self.out.push_str("\\\""),
                c if c < ' ' => {
                    self.controls += 1;
                    self.out.push_str(&format!("\\u{:04x}", u32::from(c)));
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
        Some(())
    }

    /// Copies a word, with Python literals replaced by JSON ones.
    fn word(&mut self, first: char) {
        let mut word = String::from(first);
        while let Some(c) = self.rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
            word.push(c);
        }
        let json = match &*word {
            "True" => "true",
            "False" => "false",
            "None" => "null",
            other => {
                self.out.push_str(other);
                return;
            }
        };
        self.literals += 1;
        self.out.push_str(json);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str, repairs: RepairPolicy) -> Option<(Value, Vec<RepairKind>)> {
        let (map, steps) = object(text, 10_000, repairs).ok()?;
        Some((Value::Object(map), steps.iter().map(|s| s.kind).collect()))
    }

    #[test]
    fn lossless_syntax_repairs_are_made_and_named() {
        use RepairKind::*;
        for (text, value, kinds) in [
            (r#"{"a":1}"#, json!({"a": 1}), vec![]),
            ("", json!({}), vec![EmptyText]),
            ("\u{feff}{\"a\":1}", json!({"a": 1}), vec![ByteOrderMark]),
            ("\u{feff}", json!({}), vec![ByteOrderMark, EmptyText]),
            ("```json\n{\"a\":1}\n```", json!({"a": 1}), vec![CodeFence]),
            ("  ```\n{\"a\":\"```\"}```\n", json!({"a": "```"}), vec![CodeFence]),
            ("```{\"a\":1}```", json!({"a": 1}), vec![CodeFence]),
            (
                r#"{"a":[1,2, ], "b":{"c":",}",},}"#,
                json!({"a": [1, 2], "b": {"c": ",}"}}),
                vec![TrailingComma],
            ),
            ("{\"a\":\"x\ny\tz\\n\"}", json!({"a": "x\ny\tz\n"}), vec![ControlCharacter]),
            (r#""{\"a\":\"b\"}""#, json!({"a": "b"}), vec![DoubleEncoded]),
            (
                "```\n{\"a\":\"\n\",}\n```",
                json!({"a": "\n"}),
                vec![CodeFence, TrailingComma, ControlCharacter],
            ),
        ] {
            assert_eq!(read(text, RepairPolicy::Lossless), Some((value, kinds)), "{text}");
        }
    }

    #[test]
    fn empty_text_is_read_as_no_arguments_and_recorded() {
        use RepairKind::*;
        for repairs in [RepairPolicy::Off, RepairPolicy::Lossless, RepairPolicy::Python] {
            for text in ["", " \n"] {
                let empty = Some((json!({}), vec![EmptyText]));
                assert_eq!(read(text, repairs), empty, "{text:?} {repairs:?}");
            }
            assert_eq!(read("{}", repairs), Some((json!({}), Vec::new())));
        }
        let fenced = Some((json!({}), vec![CodeFence, EmptyText]));
        assert_eq!(read("```\n```", RepairPolicy::Lossless), fenced);
    }

    #[test]
    fn ambiguous_text_stays_refused() {
        for text in [
            r#"{"a":1"#,
            r#"{"a":"b"#,
            r#"{"a":1,"#,
            r#"{"a":"say "hi" now"}"#,
            r#"{"a":1,"a":2,}"#,
            r#"{"a":NaN,}"#,
            r#"{"a":Infinity,}"#,
            r#"{"a":1}{"b":2}"#,
            r#"{"a":1} and so on"#,
            r#"Here you are: {"a":1}"#,
            "```json\n{\"a\":1}",
            "```json\n{\"a\":1}\n``` that was it",
            r#"{,}"#,
            r#"{"a":[,]}"#,
            r#"{"a":[1,,]}"#,
            r#"{"a":,}"#,
            r#"{a:1}"#,
            r#"[{"a":1},]"#,
            r#""[1]""#,
            r#""\"{}\"""#,
            r#"{'a':1}"#,
            r#"{"a":True}"#,
        ] {
            assert_eq!(read(text, RepairPolicy::Lossless), None, "{text}");
        }
        assert_eq!(read("{\"a\":1,}", RepairPolicy::Off), None);
        assert_eq!(read("\"{}\"", RepairPolicy::Off), None);
        assert!(
            object(&format!("{{\"a\":1,{}}}", " ".repeat(99)), 50, RepairPolicy::Lossless).is_err()
        );
    }

    #[test]
    fn python_syntax_is_parsed_only_when_enabled() {
        use RepairKind::*;
        for (text, value, kinds) in [
            (
                r#"{"a":True,"b":None,"c":[False]}"#,
                json!({"a": true, "b": null, "c": [false]}),
                vec![PythonLiteral],
            ),
            (
                r#"{'a':'it\'s "so"','True':'None'}"#,
                json!({"a": "it's \"so\"", "True": "None"}),
                vec![SingleQuotes],
            ),
            (r#"{'a':"it's",}"#, json!({"a": "it's"}), vec![TrailingComma, SingleQuotes]),
        ] {
            assert_eq!(read(text, RepairPolicy::Python), Some((value, kinds)), "{text}");
        }
        for text in [
            r#"{'a':'b"#,
            r#"{'a':'it's'}"#,
            r#"{'a':1,'a':2}"#,
            r#"{'a':nan}"#,
            r#"{'a':'\x41'}"#,
            r#"{'a':Trueish}"#,
            r#"{'a':(1,2)}"#,
        ] {
            assert_eq!(read(text, RepairPolicy::Python), None, "{text}");
        }
    }

    #[test]
    fn double_encoded_object_is_decoded_once() {
        let (map, steps) = unwrapped(r#"{"a":1}"#, 100, RepairPolicy::Lossless).unwrap();
        assert_eq!((Value::Object(map), steps.len()), (json!({"a": 1}), 1));
        for text in ["plain", "[1]", "{\"a\":1"] {
            assert!(unwrapped(text, 100, RepairPolicy::Lossless).is_none(), "{text}");
        }
        assert!(unwrapped("{}", 100, RepairPolicy::Off).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_handled_and_valid_text_is_unchanged(text in "[\\[\\]{}\"',:\\\\a1TrueNon \n`]{0,40}") {
            let read = object(&text, 1_000, RepairPolicy::Python);
            if parse::object(&text, 1_000).is_ok() {
                proptest::prop_assert!(read.is_ok_and(|(_, steps)| steps.is_empty() != text.trim().is_empty()));
            } else if let Ok((_, steps)) = read {
                proptest::prop_assert!(!steps.is_empty());
            }
        }

        #[test]
        fn truncated_text_stays_invalid(
            keys in proptest::collection::vec("[a-z]{1,4}", 1..4),
            cut in 1usize..100,
        ) {
            let map: Map<String, Value> =
                keys.into_iter().map(|k| (k, json!(["x,]}", {"y": "```"}, 1.5]))).collect();
            let text = Value::Object(map).to_string();
            let cut = cut.min(text.len() - 1);
            proptest::prop_assert!(object(&text[..cut], 1_000, RepairPolicy::Python).is_err());
        }
    }
}
