//! Escapes text in a body that looks like a marker, against prompt injection.
//!
//! Markers are our own, which open and close a frame, and the control tokens of chat templates: a
//! model may take such text for the end of the result. One character of each is replaced by its
//! code point, as in `<U+003C>|im_start|>`: nothing is lost, a reader sees the original, and JSON
//! stays valid. Linear time; text without markers is borrowed.
//!
//! INVARIANT: escaping is idempotent.

use std::{borrow::Cow, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::invisible::push_code_point;

/// Fixed markers; their first character is escaped.
const FIXED_MARKERS: &[&str] = &[
    // The host's notes, if there are no markers.
    "[note from the host",
    // Llama 2 and Mistral.
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CONTENT]",
    "[CALL_ID]",
    "[ARGS]",
    "[THINK]",
    "[/THINK]",
    // Gemma and others that name their turns.
    "<bos>",
    "<eos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<im_start>",
    "<im_end>",
    // Tool calls and results as tags.
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
    "<tool_response>",
    "</tool_response>",
    "<function_calls>",
    "</function_calls>",
    "<function_results>",
    "</function_results>",
    "<function_result>",
    "</function_result>",
    "<function=",
    "</function>",
    "<antml:",
    "</antml:",
    // Reasoning.
    "<think>",
    "</think>",
    // GLM and MiniMax.
    "[gMASK]",
    "<sop>",
    "]~b]",
    "]~!b[",
    "[e~[",
];

/// Markers that need a closer check.
const CHECKED_MARKERS: &[(&str, MarkerCheck)] = &[
    ("haft", own_marker),
    ("<|", pipe_begins),
    ("<\u{ff5c}", pipe_begins),
    ("|>", pipe_ends),
    ("\u{ff5c}>", pipe_ends),
    ("human:", speaker),
    ("assistant:", speaker),
];

/// Returns the position of the character to escape, if the match is a marker.
type MarkerCheck = fn(&str, usize, usize) -> Option<usize>;

/// Maximum length of a marker between pipes.
const MAX_PIPE_CHARS: usize = 80;
/// Maximum number of blanks inside of our own marker.
const MAX_BLANKS: usize = 16;

static MARKS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(FIXED_MARKERS.iter().copied().chain(CHECKED_MARKERS.iter().map(|(mark, _)| *mark)))
        .ok()
});

/// Escapes all markers in a text.
#[must_use]
pub fn escape_markers(text: &str) -> Cow<'_, str> {
    let mut places = places(text);
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    places.sort_unstable();
    places.dedup();
    Cow::Owned(written_out(text, &places))
}

/// Escapes all markers in consecutive texts, including those across a boundary.
pub fn escape_markers_across(texts: &[Cow<'_, str>]) -> Vec<String> {
    if let [one] = texts {
        return vec![escape_markers(one).into_owned()];
    }
    let mut across = places(&texts.concat());
    across.sort_unstable();
    let mut from = 0;
    let each = |text: &Cow<'_, str>| {
        // On its own as well: the start of a text counts as the start of a line.
        let mut own = places(text);
        let until = from + text.len();
        let first = across.partition_point(|at| *at < from);
        own.extend(across.iter().skip(first).take_while(|at| **at < until).map(|at| at - from));
        own.sort_unstable();
        own.dedup();
        from = until;
        written_out(text, &own)
    };
    texts.iter().map(each).collect()
}

/// Escapes the characters at these sorted positions.
fn written_out(text: &str, places: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + places.len() * 8);
    let mut from = 0;
    for &at in places {
        let Some(c) = text[at..].chars().next() else { break };
        out.push_str(&text[from..at]);
        push_code_point(c, &mut out);
        from = at + c.len_utf8();
    }
    out.push_str(&text[from..]);
    out
}

/// Reverses [`escape_markers`].
#[must_use]
pub fn unescape_markers(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<U+";
    if !text.contains(OPEN) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let number = rest[OPEN.len()..].split_once('>').map(|(number, _)| number);
        let mark = number
            .filter(|number| number.len() == 4)
            .and_then(|number| u32::from_str_radix(number, 16).ok())
            .and_then(char::from_u32)
            .filter(|c| "<[]:".contains(*c) || BRACKETS.contains(*c));
        match mark {
            Some(c) => {
                out.push(c);
                rest = &rest[OPEN.len() + 5..];
            }
            None => {
                out.push_str(OPEN);
                rest = &rest[OPEN.len()..];
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn places(text: &str) -> Vec<usize> {
    // The list is short and fixed, so it builds; tests would fail if it did not.
    let Some(marks) = &*MARKS else { return Vec::new() };
    let mut places = Vec::new();
    for found in marks.find_overlapping_iter(text) {
        match found.pattern().as_usize().checked_sub(FIXED_MARKERS.len()) {
            None => places.push(found.start()),
            Some(checked) => {
                places.extend((CHECKED_MARKERS[checked].1)(text, found.start(), found.end()))
            }
        }
    }
    places
}

/// Characters that a model may take for the bracket of a marker.
const BRACKETS: &str = "[\u{ff3b}\u{3010}\u{27e6}\u{3014}";

/// Characters that a model may take for the slash of a closing marker.
const SLASHES: &str = "/\\\u{ff0f}\u{2044}\u{2215}\u{29f8}";

/// `[haft`, `[/haft`, also with blanks in it. A longer word is not a marker.
fn own_marker(text: &str, start: usize, end: usize) -> Option<usize> {
    let after = text[end..].chars().next();
    if after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) {
        return None;
    }
    let mut before = text[..start].char_indices().rev().take(MAX_BLANKS);
    let (at, c) = before.find(|(_, c)| !c.is_whitespace() && !SLASHES.contains(*c))?;
    BRACKETS.contains(c).then_some(at)
}

/// `<|name|>` and `<|name>`: one word in between.
fn pipe_begins(text: &str, start: usize, end: usize) -> Option<usize> {
    for (n, c) in text[end..].chars().take(MAX_PIPE_CHARS).enumerate() {
        match c {
            '>' => return (n > 0).then_some(start),
            '<' => return None,
            c if c.is_whitespace() => return None,
            _ => {}
        }
    }
    None
}

/// `<name|>`: a word of ASCII letters before.
fn pipe_ends(text: &str, start: usize, _: usize) -> Option<usize> {
    let mut before = text[..start].char_indices().rev().take(MAX_PIPE_CHARS);
    let (at, c) = before.find(|(_, c)| !c.is_ascii_alphanumeric() && *c != '_')?;
    (c == '<' && at + 1 < start).then_some(at)
}

/// `Human:` and `Assistant:` at the start of a line, after an empty one. The colon is escaped.
fn speaker(text: &str, start: usize, end: usize) -> Option<usize> {
    let mut lines = 0;
    for (n, c) in text[..start].chars().rev().enumerate() {
        match c {
            '\n' => lines += 1,
            c if c.is_whitespace() && n < MAX_BLANKS => {}
            _ => return None,
        }
        if lines == 2 {
            return Some(end - 1);
        }
    }
    // The line of the opening marker ends before the body.
    Some(end - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_fixed_marker_is_escaped_in_any_case() {
        for mark in FIXED_MARKERS {
            for form in [(*mark).to_owned(), mark.to_lowercase(), mark.to_uppercase()] {
                let text = format!("a {form} b");
                let shown = escape_markers(&text);
                assert!(!shown.contains(&form), "{shown}");
                assert_eq!(unescape_markers(&shown), text, "the original text can be recovered");
            }
        }
    }

    #[test]
    fn only_markers_are_escaped() {
        for (text, shown) in [
            ("[haft 0 x]", "<U+005B>haft 0 x]"),
            ("[/HAFT 0]", "<U+005B>/HAFT 0]"),
            ("[ / haft\n0]", "<U+005B> / haft\n0]"),
            ("【haft】", "<U+3010>haft】"),
            ("<|im_start|>system", "<U+003C>|im_start|>system"),
            ("<|eot_id|><|x|>", "<U+003C>|eot_id|><U+003C>|x|>"),
            ("<\u{ff5c}tool\u{2581}calls\u{ff5c}>", "<U+003C>\u{ff5c}tool\u{2581}calls\u{ff5c}>"),
            ("<|turn>user <turn|>", "<U+003C>|turn>user <U+003C>turn|>"),
            ("<|a[INST]|>", "<U+003C>|a<U+005B>INST]|>"),
            ("<<SYS>>x<</SYS>>", "<U+003C><SYS>>x<U+003C></SYS>>"),
            ("ok\n\nHuman: hi", "ok\n\nHuman<U+003A> hi"),
            ("ok\r\n \r\nAssistant: hi", "ok\r\n \r\nAssistant<U+003A> hi"),
            ("Human: hi", "Human<U+003A> hi"),
        ] {
            assert_eq!(escape_markers(text), shown);
            assert_eq!(unescape_markers(shown), text);
        }
    }

    #[test]
    fn ordinary_text_and_code_are_borrowed() {
        for text in [
            "",
            "[haft-core] and [hafting] and [haft.toml] are names; haft is a word",
            "a <| f x |> g, xs |> map, (<|>) <$> p",
            "if a < b || c > d { v[0] }",
            "<script>x</script> <strong>y</strong> <tools>",
            "a Human: is no speaker here\nHuman: nor here",
            "see [INSTALL] and [1]",
            "<U+005B>haft 0] was neutral before",
        ] {
            assert!(
                matches!(escape_markers(text), Cow::Borrowed(_)),
                "{text}: {}",
                escape_markers(text)
            );
        }
        assert_eq!(unescape_markers("<U+202E> <U+> <U+00 <U+003C"), "<U+202E> <U+> <U+00 <U+003C");
    }

    #[test]
    fn json_with_markers_in_keys_and_values_stays_valid() {
        let data = json!({"[/haft 1]": ["<|im_end|>", {"</s>": "\n\nHuman: x"}], "n": [1, [2]]});
        for text in [data.to_string(), format!("{data:#}")] {
            let shown = escape_markers(&text);
            let again: Value = serde_json::from_str(&shown).expect("it is still JSON");
            assert!(again.get("<U+005B>/haft 1]").is_some(), "{again}");
            assert_eq!(again["n"], json!([1, [2]]));
        }
    }

    fn odd() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            prop::sample::select(FIXED_MARKERS.to_vec()),
            prop::sample::select(vec![
                "[",
                "]",
                "<",
                ">",
                "|",
                "/",
                "haft",
                "[haft ",
                "<|",
                "|>",
                "a",
                "\n",
                "\n\n",
                " ",
                "é",
                "Human:",
                "Assistant:",
                "<U+003C>",
                "<U+005B>",
                "\u{ff5c}",
                "INST]",
                "s>",
                "0123456789"
            ]),
        ];
        prop::collection::vec(piece, 0..16).prop_map(|all| all.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn marker_escaping_is_idempotent(text in odd()) {
            let once = escape_markers(&text).into_owned();
            prop_assert_eq!(escape_markers(&once), &*once);
            let lower = once.to_lowercase();
            prop_assert!(FIXED_MARKERS.iter().all(|mark| !lower.contains(&mark.to_lowercase())), "{}", once);
            prop_assert!(!lower.contains("[haft ") && !lower.contains("[/haft "));
        }

        #[test]
        fn escaped_json_stays_valid(key in odd(), value in odd()) {
            let data = json!({key: [value]});
            prop_assert!(serde_json::from_str::<Value>(&escape_markers(&data.to_string())).is_ok());
            let pretty = format!("{data:#}");
            prop_assert!(serde_json::from_str::<Value>(&escape_markers(&pretty)).is_ok());
        }
    }
}
