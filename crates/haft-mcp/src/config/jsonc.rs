//! JSON with comments and trailing commas, as editors write it.

use serde_json::Value;

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(&without_comments(text)).map_err(|why| format!("invalid JSON: {why}"))
}

/// Replaces comments and trailing commas by spaces, so that positions in errors stay right.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let (mut in_text, mut is_escaped) = (false, false);
    while let Some(c) = chars.next() {
        if in_text {
            in_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            out.push(c);
            continue;
        }
        match (c, chars.peek()) {
            ('"', _) => {
                in_text = true;
                out.push(c);
            }
            ('/', Some('/')) => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            ('/', Some('*')) => {
                let mut last = ' ';
                chars.next();
                for c in chars.by_ref() {
                    if c == '\n' {
                        out.push(c);
                    }
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            ('}' | ']', _) => {
                let end = out.trim_end().len();
                if out.get(..end).is_some_and(|out| out.ends_with(',')) {
                    out.replace_range(end - 1..end, " ");
                }
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_allowed() {
        let text = "{ // one\n \"a\": \"//no /* comment */,}\", /* two\n */ \"b\": [1, 2, ], }";
        assert_eq!(parse(text).unwrap(), json!({"a": "//no /* comment */,}", "b": [1, 2]}));
        assert_eq!(parse(r#"{"a": "\"//", "b": 1}"#).unwrap()["b"], 1);
        assert!(parse("{\"a\": }").unwrap_err().contains("invalid JSON"));
    }
}
