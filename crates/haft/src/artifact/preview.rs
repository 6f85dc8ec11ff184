//! Truncates a result that is too large: keeps its head and its tail, in a form that is still
//! readable.
//!
//! Text is truncated between grapheme-like clusters, at a line break if one is near. JSON is
//! truncated so that it stays valid JSON: lists keep their first and last items, long strings are
//! truncated in the middle, deep nesting is replaced.
//!
//! Pure. Every function takes time proportional to its limit, however large the result.

use serde_json::{Map, Value};

use crate::text::nth_char;

/// The head and the tail of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends<'a> {
    pub(crate) head: &'a str,
    pub(crate) tail: &'a str,
}

impl Ends<'_> {
    /// How many characters are shown.
    pub(crate) fn shown(&self) -> usize {
        self.head.chars().count() + self.tail.chars().count()
    }
}

/// A line break is used if it costs at most this part of the head or the tail.
const LINE_SLACK: usize = 8;

/// Uses three quarters of the limit for the head of a text and a quarter for its tail.
pub(crate) fn ends(text: &str, limit: usize) -> Ends<'_> {
    let tail_limit = limit / 4;
    let head_end = nth_char(text, limit - tail_limit);
    let tail_start = match tail_limit {
        0 => text.len(),
        n => text.char_indices().rev().nth(n - 1).map_or(0, |(at, _)| at),
    };
    if tail_start <= head_end {
        return Ends { head: text, tail: "" };
    }
    let head_end = before_cluster(text, line_before(text, head_end, head_end / LINE_SLACK));
    let tail_slack = (text.len() - tail_start) / LINE_SLACK;
    let tail_start = after_cluster(text, line_after(text, tail_start, tail_slack)).max(head_end);
    Ends { head: &text[..head_end], tail: &text[tail_start..] }
}

/// The start of the line that contains a position, if it is near.
fn line_before(text: &str, at: usize, slack: usize) -> usize {
    let from = text.ceil_char_boundary(at.saturating_sub(slack));
    memchr::memrchr(b'\n', &text.as_bytes()[from..at]).map_or(at, |found| from + found + 1)
}

/// The start of the next line, if it is near and there is one.
fn line_after(text: &str, at: usize, slack: usize) -> usize {
    if at == 0 || text.as_bytes()[at - 1] == b'\n' {
        return at;
    }
    let until = text.floor_char_boundary((at + slack).min(text.len()));
    let found = memchr::memchr(b'\n', &text.as_bytes()[at..until]).map(|found| at + found + 1);
    found.filter(|start| *start < text.len()).unwrap_or(at)
}

/// Longer runs of combining marks are not natural text.
const MAX_COMBINING_MARKS: usize = 32;

/// Moves a position back to before the character that it would split from its combining marks.
fn before_cluster(text: &str, mut at: usize) -> usize {
    let from = at;
    for _ in 0..MAX_COMBINING_MARKS {
        if !splits_cluster(text, at) {
            return at;
        }
        at = text.floor_char_boundary(at - 1);
    }
    from
}

/// Moves a position forward to after the combining marks of the character before it.
fn after_cluster(text: &str, mut at: usize) -> usize {
    let from = at;
    for _ in 0..MAX_COMBINING_MARKS {
        if !splits_cluster(text, at) {
            return at;
        }
        at = text.ceil_char_boundary(at + 1);
    }
    from
}

/// Whether the characters on both sides of a position are displayed as one.
fn splits_cluster(text: &str, at: usize) -> bool {
    const JOINER: char = '\u{200d}';
    let (Some(before), Some(after)) = (text[..at].chars().next_back(), text[at..].chars().next())
    else {
        return false;
    };
    let is_flag = |c: char| matches!(c, '\u{1f1e6}'..='\u{1f1ff}');
    is_mark(after)
        || before == JOINER
        || after == JOINER
        || is_flag(before) && is_flag(after)
        || before == '\r' && after == '\n'
}

/// Whether a character combines with the one before it: accents, vowel signs, variation, skin tone.
fn is_mark(c: char) -> bool {
    if c < '\u{300}' {
        return false;
    }
    match c as u32 {
        0x0300..=0x036f
        | 0x0483..=0x0489
        | 0x0591..=0x05bd
        | 0x05bf..=0x05c7
        | 0x0610..=0x061a
        | 0x064b..=0x065f
        | 0x0670
        | 0x06d6..=0x06dc
        | 0x06df..=0x06e8
        | 0x0711
        | 0x0730..=0x074a
        | 0x07a6..=0x07b0
        | 0x0e31
        | 0x0e34..=0x0e3a
        | 0x0e47..=0x0e4e
        | 0x0eb1
        | 0x0eb4..=0x0ebc
        | 0x0ec8..=0x0ecd
        | 0x0f71..=0x0f84
        | 0x102b..=0x103e
        | 0x1160..=0x11ff
        | 0x17b4..=0x17d3
        | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff
        | 0x20d0..=0x20ff
        | 0x302a..=0x302f
        | 0x3099..=0x309a
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f
        | 0x1f3fb..=0x1f3ff
        | 0xe0020..=0xe007f
        | 0xe0100..=0xe01ef => true,
        // The Indic scripts have their signs at the same offsets of each block.
        at @ 0x0900..=0x0dff => {
            matches!(at % 0x80, 0x00..=0x03 | 0x3a..=0x3c | 0x3e..=0x4d | 0x51..=0x57 | 0x62..=0x63)
        }
        _ => false,
    }
}

/// Maximum depth to which data is shown.
const MAX_DEPTH: usize = 24;
/// Objects with more fields than this are truncated like lists.
const MAX_FIELDS: usize = 64;
/// The placeholder for a value that does not fit.
const PLACEHOLDER: &str = "…";
/// The length of [`PLACEHOLDER`] as JSON.
const PLACEHOLDER_CHARS: usize = 3;

/// Truncates data so that its compact JSON has at most `limit` characters. The limit must be at
/// least three.
pub(crate) fn fit(data: &Value, limit: usize) -> Value {
    fit_at(data, limit.max(PLACEHOLDER_CHARS), 0)
}

/// The number of characters of the compact JSON.
pub(crate) fn rendered_chars(data: &Value) -> usize {
    size(data, usize::MAX)
}

fn fit_at(data: &Value, limit: usize, depth: usize) -> Value {
    if size(data, limit) <= limit {
        return data.clone();
    }
    match data {
        Value::String(text) => Value::String(fit_text(text, limit)),
        Value::Array(items) if depth < MAX_DEPTH => fit_items(items, limit, depth),
        Value::Object(map) if depth < MAX_DEPTH => fit_fields(map, limit, depth),
        _ => PLACEHOLDER.into(),
    }
}

/// Truncates a string so that its JSON form fits, including escapes.
fn fit_text(text: &str, limit: usize) -> String {
    let of = text.chars().count();
    let marker = |shown: usize| format!(" … {} characters more … ", of - shown);
    let Some(left) = limit.checked_sub(2 + marker(0).chars().count()) else {
        return PLACEHOLDER.to_owned();
    };
    // As much of the text as fits in escaped form.
    let head_limit = left - left / 4;
    let head_end =
        before_cluster(text, escaped_prefix(text.char_indices(), head_limit, text.len()));
    let rest = &text[head_end..];
    let tail = rest.char_indices().rev();
    let mut used = 0;
    let mut tail_start = rest.len();
    for (at, c) in tail {
        used += escaped(c);
        if used > left / 4 {
            break;
        }
        tail_start = at;
    }
    let (head, tail) = (&text[..head_end], &rest[after_cluster(rest, tail_start)..]);
    let shown = head.chars().count() + tail.chars().count();
    format!("{head}{}{tail}", marker(shown))
}

/// The end of the longest prefix whose escaped form fits.
fn escaped_prefix(
    chars: impl Iterator<Item = (usize, char)>,
    limit: usize,
    otherwise: usize,
) -> usize {
    let mut used = 0;
    for (at, c) in chars {
        used += escaped(c);
        if used > limit {
            return at;
        }
    }
    otherwise
}

/// Keeps the first and the last items, with an element between them that counts the others.
fn fit_items(items: &[Value], limit: usize, depth: usize) -> Value {
    let marker = |left_out: usize| format!("… {left_out} more items …");
    // Brackets, quotes, and a comma on each side.
    let Some(left) = limit.checked_sub(marker(items.len()).chars().count() + 6) else {
        return PLACEHOLDER.into();
    };
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut head_limit = left - left / 4;
    let mut at = 0;
    while let Some(item) = items.get(at) {
        let length = size(item, head_limit) + 1;
        if length > head_limit {
            break;
        }
        head_limit -= length;
        head.push(item.clone());
        at += 1;
    }
    // The first item is shown truncated if it does not fit as a whole.
    if head.is_empty() && head_limit > 16 {
        head.push(fit_at(&items[0], head_limit - 1, depth + 1));
        head_limit = 0;
        at = 1;
    }
    let mut tail_limit = left / 4 + head_limit;
    for item in items[at..].iter().rev() {
        let length = size(item, tail_limit) + 1;
        if length > tail_limit {
            break;
        }
        tail_limit -= length;
        tail.push(item.clone());
    }
    let left_out = items.len() - head.len() - tail.len();
    if left_out > 0 {
        head.push(marker(left_out).into());
    }
    head.extend(tail.into_iter().rev());
    Value::Array(head)
}

/// Keeps all fields and truncates the large ones; if there are too many, keeps the first and the
/// last.
fn fit_fields(map: &Map<String, Value>, limit: usize, depth: usize) -> Value {
    let names: usize = match map.len() {
        n if n > MAX_FIELDS => usize::MAX,
        // Quotes, colon and comma; long names count as too many fields.
        _ => map.keys().map(|key| size_of_text(key, limit) + 2).fold(2, usize::saturating_add),
    };
    let each = limit.saturating_sub(names) / map.len().max(1);
    if names > limit / 2 || each < 24 {
        return fit_many_fields(map, limit);
    }
    // Space that small fields do not need goes to the large ones.
    let sizes: Vec<usize> = map.values().map(|value| size(value, each)).collect();
    let large = sizes.iter().filter(|size| **size > each).count();
    let spare: usize = sizes.iter().map(|size| each.saturating_sub(*size)).sum();
    let share = each + spare / large.max(1);
    let fields = map.iter().zip(sizes).map(|((key, value), size)| {
        let value = if size <= each { value.clone() } else { fit_at(value, share, depth + 1) };
        (key.clone(), value)
    });
    Value::Object(fields.collect())
}

fn fit_many_fields(map: &Map<String, Value>, limit: usize) -> Value {
    let marker = |left_out: usize| format!("{left_out} more fields");
    let Some(left) = limit.checked_sub(marker(map.len()).chars().count() + 12) else {
        return PLACEHOLDER.into();
    };
    let field = |key: &str, value: &Value, limit: usize| {
        let key = size_of_text(key, limit);
        (key + 2).saturating_add(size(value, limit))
    };
    let (mut head, mut tail) = (Map::new(), Vec::new());
    let mut head_limit = left - left / 4;
    let mut fields = map.iter();
    let mut rest = fields.clone();
    while let Some((key, value)) = fields.next() {
        let length = field(key, value, head_limit);
        if length > head_limit {
            break;
        }
        head_limit -= length;
        head.insert(key.clone(), value.clone());
        rest = fields.clone();
    }
    let mut tail_limit = left / 4 + head_limit;
    while let Some((key, value)) = rest.next_back() {
        let length = field(key, value, tail_limit);
        if length > tail_limit {
            break;
        }
        tail_limit -= length;
        tail.push((key.clone(), value.clone()));
    }
    let left_out = map.len() - head.len() - tail.len();
    // The limit includes a name of this length, and a field may have that name too.
    let mark = [PLACEHOLDER, "……", "………"].into_iter().find(|name| !map.contains_key(*name));
    if let Some(mark) = mark.filter(|_| left_out > 0) {
        head.insert(mark.to_owned(), marker(left_out).into());
    }
    head.extend(tail.into_iter().rev());
    Value::Object(head)
}

/// The number of characters of the compact JSON; stops as soon as it exceeds `max_chars`. It does
/// not recurse.
fn size(data: &Value, max_chars: usize) -> usize {
    let mut total = 0usize;
    let mut stack: Vec<Step<'_>> = vec![Step::Value(data)];
    while let Some(step) = stack.pop() {
        if total > max_chars {
            return total;
        }
        let value = match step {
            Step::Value(value) => value,
            Step::Items(mut items) => {
                let Some(item) = items.next() else { continue };
                total += 1;
                stack.push(Step::Items(items));
                item
            }
            Step::Fields(mut fields) => {
                let Some((key, value)) = fields.next() else { continue };
                total = total.saturating_add(size_of_text(key, max_chars) + 2);
                stack.push(Step::Fields(fields));
                value
            }
        };
        total = total.saturating_add(match value {
            Value::Null => 4,
            Value::Bool(is) => 5 - usize::from(*is),
            Value::Number(number) => number.to_string().len(),
            Value::String(text) => size_of_text(text, max_chars),
            Value::Array(items) => {
                stack.push(Step::Items(items.iter()));
                // One comma too many is counted below.
                2 - usize::from(!items.is_empty())
            }
            Value::Object(map) => {
                stack.push(Step::Fields(map.iter()));
                2 - usize::from(!map.is_empty())
            }
        });
    }
    total
}

enum Step<'a> {
    Value(&'a Value),
    Items(std::slice::Iter<'a, Value>),
    Fields(serde_json::map::Iter<'a>),
}

/// The number of characters of a JSON string, with quotes and escapes.
fn size_of_text(text: &str, max_chars: usize) -> usize {
    let mut total = 2usize;
    for c in text.chars() {
        total += escaped(c);
        if total > max_chars {
            break;
        }
    }
    total
}

/// The number of characters of an escaped character.
fn escaped(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_keep_their_first_and_last_items_and_count_the_others() {
        let list: Value = (1..=1_000).collect();
        assert_eq!(
            fit(&list, 80).to_string(),
            r#"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,"… 980 more items …",998,999,1000]"#
        );
        let long = fit(&json!(["x".repeat(1_000)]), 100).to_string();
        assert!(long.starts_with(r#"["xxx"#) && long.contains("x … 9"), "{long}");
        assert!(long.contains(" characters more … xx"), "{long}");
    }

    #[test]
    fn objects_keep_their_fields_and_large_ones_are_truncated() {
        let page = json!({"total": 1_000, "rows": (1..=1_000).collect::<Vec<_>>(), "next": "/2"});
        let shown = fit(&page, 120);
        assert_eq!((&shown["total"], &shown["next"]), (&json!(1_000), &json!("/2")));
        assert_eq!(shown["rows"][0], 1);
        assert_eq!(shown["rows"].as_array().unwrap().last().unwrap(), 1_000);
        let many: Map<String, Value> = (0..500).map(|n| (format!("k{n}"), n.into())).collect();
        let shown = fit(&Value::Object(many), 100);
        assert_eq!((&shown["k0"], &shown["k499"]), (&json!(0), &json!(499)));
        assert!(shown["…"].as_str().unwrap().ends_with(" more fields"), "{shown}");
    }

    #[test]
    fn deep_nesting_is_truncated() {
        let mut deep = json!("x".repeat(500));
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(fit(&deep, 400).to_string().chars().count() <= 400);
    }

    #[test]
    fn text_is_truncated_at_a_near_line_break() {
        let text = "a line of forty characters, or nearly so\n".repeat(100);
        let Ends { head, tail } = ends(&text, 1_000);
        assert!(head.ends_with('\n') && head.len() > 600, "{}", head.len());
        assert!(tail.starts_with("a line") && tail.len() > 200, "{}", tail.len());
        let unbroken = "x".repeat(5_000);
        let Ends { head, tail } = ends(&unbroken, 1_000);
        assert_eq!((head.len(), tail.len()), (750, 250));
    }

    #[test]
    fn combining_marks_stay_with_their_characters() {
        for (whole, copies) in
            [("e\u{301}", 400), ("👩\u{200d}👩\u{200d}👧", 100), ("क\u{93f}", 400)]
        {
            let text = whole.repeat(copies);
            for limit in 20..60 {
                let Ends { head, tail } = ends(&text, limit);
                assert_eq!(head, whole.repeat(head.len() / whole.len()), "{limit}");
                assert_eq!(tail, whole.repeat(tail.len() / whole.len()), "{limit}");
            }
        }
    }

    fn data() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "(é|a|\"|\\\\|\n|\u{1}|🦀|e\u{301}){0,80}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 120, 12, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
                prop::collection::vec(("(a|b|é|…|\"){0,12}", inner), 0..12)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn computed_size_equals_the_json_text(data in data()) {
            prop_assert_eq!(rendered_chars(&data), data.to_string().chars().count());
        }

        #[test]
        fn truncated_json_is_valid_and_within_the_limit(data in data(), limit in 3usize..300) {
            let shown = fit(&data, limit);
            let text = shown.to_string();
            prop_assert!(text.chars().count() <= limit, "{} in {limit}", text);
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), shown.clone());
            if data.to_string().chars().count() <= limit {
                prop_assert_eq!(shown, data);
            }
        }

        #[test]
        fn preview_is_the_start_and_the_end_of_the_text(
            text in "(é|a|漢|🦀|\n|e\u{301}|,){0,120}", limit in 0usize..60,
        ) {
            let Ends { head, tail } = ends(&text, limit);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.len() + tail.len() <= text.len());
            let whole = text.chars().count() <= limit;
            prop_assert!(whole && head == text || head.chars().count() + tail.chars().count() <= limit);
        }
    }
}
