//! Canonical JSON: the same data has one spelling, so that it can be signed and compared.

use serde_json::Value;

/// Writes canonical JSON: keys sorted as in RFC 8785, no whitespace, whole numbers without a point.
/// Not recursive: what a person edits may be nested deeply.
pub(crate) fn canonical(value: &Value) -> String {
    enum Step<'a> {
        Value(&'a Value),
        Key(&'a str),
        Word(char),
    }
    let mut out = String::new();
    let mut steps = vec![Step::Value(value)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Word(word) => out.push(word),
            Step::Key(key) => {
                quote(key, &mut out);
                out.push(':');
            }
            Step::Value(Value::String(text)) => quote(text, &mut out),
            Step::Value(Value::Number(number)) => match number.as_f64() {
                // Beyond this a float cannot represent every integer, and stays as written.
                Some(float) if number.is_f64() && float.trunc() == float && float.abs() < 9e15 => {
                    #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
                    out.push_str(&(float as i64).to_string());
                }
                _ => out.push_str(&number.to_string()),
            },
            Step::Value(Value::Array(list)) => {
                steps.push(Step::Word(']'));
                for (at, item) in list.iter().enumerate().rev() {
                    steps.push(Step::Value(item));
                    if at > 0 {
                        steps.push(Step::Word(','));
                    }
                }
                out.push('[');
            }
            Step::Value(Value::Object(map)) => {
                let mut pairs: Vec<_> = map.iter().collect();
                pairs.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                steps.push(Step::Word('}'));
                for (at, (key, item)) in pairs.into_iter().enumerate().rev() {
                    steps.push(Step::Value(item));
                    steps.push(Step::Key(key));
                    if at > 0 {
                        steps.push(Step::Word(','));
                    }
                }
                out.push('{');
            }
            Step::Value(plain) => out.push_str(&plain.to_string()),
        }
    }
    out
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&Value::String(text.to_owned()).to_string());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_data_has_one_canonical_form() {
        let one = json!({"b": [1.0, -0.5, "é\n\"", null], "a": {"\u{10000}": 1, "\u{ff61}": true}});
        let two = json!({"a": {"\u{ff61}": true, "\u{10000}": 1}, "b": [1, -0.5, "é\n\"", null]});
        assert_eq!(canonical(&one), canonical(&two));
        // Sorted by UTF-16 code units, where surrogate pairs come first.
        assert_eq!(
            canonical(&one),
            "{\"a\":{\"\u{10000}\":1,\"\u{ff61}\":true},\"b\":[1,-0.5,\"é\\n\\\"\",null]}"
        );
        for (a, b) in [(json!(["a", "b"]), json!(["a,b"])), (json!(1), json!("1"))] {
            assert_ne!(canonical(&a), canonical(&b));
        }
    }

    proptest! {
        #[test]
        fn canonical_json_is_the_same_data(text in "[\\[\\]{}a\":,0-9.\\\\ \
            ]{0,40}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                let again: Value = serde_json::from_str(&canonical(&value)).unwrap();
                prop_assert_eq!(canonical(&again), canonical(&value));
            }
        }
    }
}
