//! Parses JSON as it is written in settings: comments and trailing commas are accepted, and every
//! value keeps its offset.
//!
//! `jsonc-parser` reads the structure. It is more lenient than JSON inside strings, so serde_json
//! decodes each string and number. Bounded: at most [`MAX_DEPTH`] levels, checked on the tokens
//! before anything recurses.

use std::collections::HashSet;

use haft_core::host::RandomState;
use jsonc_parser::{
    CollectOptions, ParseOptions, Scanner, ScannerOptions,
    ast::{ObjectProp, Value},
    common::{Range, Ranged as _},
    errors::{ParseError, ParseErrorKind},
    parse_to_ast,
    tokens::Token,
};

use super::node::{Entry, Kind, Node};

/// Maximum nesting.
const MAX_DEPTH: usize = 64;

/// Written out, so that a leniency that a later version adds is a compile error here.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Broken {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<Node, Broken> {
    // A byte order mark becomes spaces, so that offsets stay those of the file.
    if let Some(rest) = text.strip_prefix('\u{feff}') {
        return parse(&format!("   {rest}"));
    }
    check_depth(text)?;
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS)
        .map_err(|error| describe(text, &error))?;
    match parsed.value {
        Some(value) => node(text, &value),
        None => Err(Broken::new(text.len(), "expected a value, found the end of the file")),
    }
}

/// Refuses deep nesting before anything recurses.
fn check_depth(text: &str) -> Result<(), Broken> {
    let mut scanner = Scanner::new(
        text,
        &ScannerOptions {
            allow_single_quoted_strings: OPTIONS.allow_single_quoted_strings,
            allow_hexadecimal_numbers: OPTIONS.allow_hexadecimal_numbers,
            allow_unary_plus_numbers: OPTIONS.allow_unary_plus_numbers,
            allow_bare_decimal_point_numbers: OPTIONS.allow_bare_decimal_point_numbers,
            allow_non_finite_numbers: OPTIONS.allow_non_finite_numbers,
            allow_extended_string_escapes: OPTIONS.allow_extended_string_escapes,
        },
    );
    let mut depth = 0usize;
    // A token that cannot be scanned ends the loop: the parser stops there too.
    while let Ok(Some(token)) = scanner.scan() {
        match token {
            Token::OpenBrace | Token::OpenBracket => depth += 1,
            Token::CloseBrace | Token::CloseBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(Broken::new(scanner.token_start(), message));
        }
    }
    Ok(())
}

fn node(text: &str, value: &Value<'_>) -> Result<Node, Broken> {
    let kind = match value {
        Value::NullKeyword(_) => Kind::Null,
        Value::BooleanLit(literal) => Kind::Flag(literal.value),
        Value::NumberLit(literal) => number(literal.value, literal.range)?,
        Value::StringLit(literal) => Kind::Text(string(text, literal.range)?),
        Value::Array(array) => Kind::List(
            array.elements.iter().map(|item| node(text, item)).collect::<Result<_, _>>()?,
        ),
        Value::Object(object) => table(text, &object.properties)?,
    };
    Ok(Node { at: value.start(), kind })
}

fn table(text: &str, properties: &[ObjectProp<'_>]) -> Result<Kind, Broken> {
    let mut keys = HashSet::<_, RandomState>::default();
    let mut entries = Vec::with_capacity(properties.len());
    for property in properties {
        let range = property.name.range();
        let key = string(text, range)?;
        // Some parsers take the first key and others the last, so the effective rules would be
        // ambiguous.
        if !keys.insert(key.clone()) {
            return Err(Broken::new(range.start, format!("duplicate key `{key}`")));
        }
        entries.push(Entry { key, at: range.start, value: node(text, &property.value)? });
    }
    Ok(Kind::Table(entries))
}

fn string(text: &str, range: Range) -> Result<String, Broken> {
    let literal = text.get(range.start..range.end).unwrap_or_default();
    serde_json::from_str(literal).map_err(|_| {
        Broken::new(range.start, "a string with an invalid escape or a bare control character")
    })
}

fn number(literal: &str, range: Range) -> Result<Kind, Broken> {
    match serde_json::from_str::<serde_json::Number>(literal) {
        Ok(n) => Ok(match (n.as_i64(), n.as_f64()) {
            (Some(n), _) => Kind::Whole(n),
            (None, Some(n)) => Kind::Real(n),
            _ => Kind::Odd("a number too large"),
        }),
        Err(_) => Err(Broken::new(range.start, "not a number")),
    }
}

/// Says what is expected, at the place where it is missing.
fn describe(text: &str, error: &ParseError) -> Broken {
    use ParseErrorKind as Error;

    let at = error.range().start;
    match error.kind() {
        Error::UnterminatedObject => {
            Broken::new(text.len(), "expected a key in double quotes, or `}`")
        }
        Error::UnterminatedArray => Broken::new(text.len(), "expected a value, or `]`"),
        Error::UnterminatedCommentBlock => Broken::new(at, "unterminated comment"),
        Error::ExpectedComma | Error::MultipleRootJsonValues if is_inside_number(text, at) => {
            Broken::new(at, "not a number: the digit before must not be 0")
        }
        Error::ExpectedComma => {
            let blanks = text.get(at..).map_or(0, |rest| rest.len() - rest.trim_start().len());
            Broken::new(at + blanks, "expected `,` or the closing bracket")
        }
        Error::MultipleRootJsonValues => Broken::new(at, "expected the end of the file"),
        Error::ExpectedColonAfterObjectKey => Broken::new(at, "expected `:` after a key"),
        Error::ExpectedStringObjectProperty | Error::UnexpectedTokenInObject => {
            Broken::new(at, "expected a key in double quotes, or `}`")
        }
        Error::ExpectedDigit
        | Error::ExpectedDigitFollowingNegativeSign
        | Error::ExpectedPlusMinusOrDigitInNumberLiteral
        | Error::BareDecimalPointNumbersNotAllowed
        | Error::HexadecimalNumbersNotAllowed
        | Error::UnaryPlusNumbersNotAllowed
        | Error::NonFiniteNumbersNotAllowed => Broken::new(at, "not a number"),
        Error::SingleQuotedStringsNotAllowed => {
            Broken::new(at, "strings are written in double quotes")
        }
        Error::String(kind) => Broken::new(at, format!("{kind}").to_lowercase()),
        _ => Broken::new(at, "expected a value"),
    }
}

/// Returns whether two digits meet at an offset, as in `01`.
fn is_inside_number(text: &str, at: usize) -> bool {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    is_digit(at) && at.checked_sub(1).is_some_and(is_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn plain(node: &Node) -> Value {
        match &node.kind {
            Kind::Null => Value::Null,
            Kind::Flag(flag) => json!(flag),
            Kind::Whole(n) => json!(n),
            Kind::Real(n) => json!(n),
            Kind::Text(text) => json!(text),
            Kind::Odd(what) => json!(what),
            Kind::List(list) => list.iter().map(plain).collect(),
            Kind::Table(entries) => {
                entries.iter().map(|e| (e.key.clone(), plain(&e.value))).collect()
            }
        }
    }

    #[test]
    fn comments_and_trailing_commas_are_accepted_and_keep_offsets() {
        let text =
            "// one\n{ /* two */ \"a\": [1, /*/ */ 2.5,], // \"no\": 1\n \"b\": \"//x\", }\n";
        let node = parse(text).unwrap();
        assert_eq!(plain(&node), json!({"a": [1, 2.5], "b": "//x"}));
        let Kind::Table(entries) = node.kind else { panic!() };
        assert!(text[entries[1].at..].starts_with("\"b\""));
        assert!(text[entries[1].value.at..].starts_with("\"//x\""));
    }

    #[test]
    fn invalid_json_is_refused_with_its_offset() {
        for (text, at) in [
            ("", 0),
            ("{", 1),
            ("{\"a\" 1}", 5),
            ("[1 2]", 3),
            ("{} x", 3),
            ("\"a", 0),
            ("\"\\q\"", 1),
            ("/* x", 0),
            ("/*/", 0),
            ("01", 1),
            ("nul", 0),
            ("[,]", 1),
            ("{a: 1}", 1),
            ("{\"a\": 1 \"b\": 2}", 8),
            ("{\"a\": 1,, \"b\": 2}", 8),
            ("{\"a\": }", 6),
            ("{\"a\":", 5),
            ("[1", 2),
            ("[1}", 2),
            ("[01]", 2),
            ("[1 01]", 3),
            ("+1", 0),
            (".5", 0),
            ("5.", 0),
            ("0x1", 0),
            ("1e999", 0),
            ("NaN", 0),
            ("-Infinity", 0),
            ("'a'", 0),
            ("\"a\nb\"", 0),
            ("\"a\u{0}b\"", 0),
            ("\"\\x41\"", 1),
            ("\"\\u12\"", 1),
            ("\"\\ud800\"", 1),
            ("\"a\\\n\"", 2),
            ("{\"a\": 1, \"\\u0061\": 2}", 9),
            ("\u{feff}[1 2]", 6),
            ("\u{feff}\u{feff}1", 3),
            ("#1", 0),
        ] {
            assert_eq!(parse(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn byte_order_mark_large_numbers_and_escapes_are_read() {
        for (text, value) in [
            ("\u{feff}[1]", json!([1])),
            ("9223372036854775807", json!(i64::MAX)),
            ("9223372036854775808", json!(9_223_372_036_854_775_808.0)),
            ("-0", json!(-0.0)),
            ("1e3", json!(1e3)),
            ("\"\\u0061\\ud83d\\ude00\\/\"", json!("a😀/")),
            ("// one\r\n1", json!(1)),
        ] {
            assert_eq!(plain(&parse(text).unwrap()), value, "{text}");
        }
    }

    #[test]
    fn nesting_is_read_up_to_its_bound() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        let broken = parse(&nested(MAX_DEPTH + 1)).unwrap_err();
        assert_eq!(broken.at, MAX_DEPTH);
        assert!(parse(&format!("// {}\n[\"{0}\"]", "[".repeat(500))).is_ok(), "not nesting");
    }

    #[test]
    fn deep_nesting_is_refused_without_deep_recursion() {
        let broken = parse(&"[".repeat(1_000_000)).unwrap_err();
        assert!(broken.message.contains("deeper"), "{}", broken.message);
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "[\\[\\]{}\"',:/*\\\\ ua10eé😀.\n\r+-]{0,60}") {
            let read = parse(&text);
            if let Ok(usual) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(plain(&read.unwrap()), usual);
            }
        }
    }
}
