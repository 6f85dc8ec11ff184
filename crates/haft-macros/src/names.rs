//! Names: case conversion, validity for providers, and suggestions for misspelled ones.
//!
//! Pure text; no tokens.

/// Converts `get_time` into `GetTime`.
pub(crate) fn pascal(name: &str) -> String {
    let mut out = String::new();
    let mut upper = true;
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else if upper {
            out.extend(c.to_uppercase());
            upper = false;
        } else {
            out.push(c);
        }
    }
    out
}

/// Converts `HttpFetch` and `HTTPFetch` into `http_fetch`.
pub(crate) fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| chars.get(i));
        let after_lower = before.is_some_and(|b| b.is_lowercase() || b.is_ascii_digit());
        let ends_run = before.is_some_and(|b| b.is_uppercase())
            && chars.get(i + 1).is_some_and(|n| n.is_lowercase());
        if c.is_uppercase() && (after_lower || ends_run) {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Returns whether every provider accepts this as a tool name.
pub(crate) fn is_tool_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.len() <= 64 && text.bytes().all(|b| is_word(b) || b == b'-')
}

/// Returns whether every provider accepts this as an argument name.
pub(crate) fn is_argument_name(text: &str) -> bool {
    let fits = (1..=64).contains(&text.len());
    fits && text.bytes().all(|b| is_word(b) || b == b'-' || b == b'.')
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Returns the known name that is closest to a misspelled one.
pub(crate) fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let near = known.iter().map(|k| (distance(&typed, &k.to_lowercase()), *k)).min()?;
    // If more than half differs, it is another name.
    if near.0 <= typed.len().max(near.1.len()) / 2 && near.0 <= 4 {
        return Some(near.1);
    }
    // Abbreviated or spelled out: `minimum` for `min`, `desc` for `description`.
    let is_prefix = |k: &&&str| {
        k.len() >= 3 && typed.len() >= 3 && (typed.starts_with(**k) || k.starts_with(&typed))
    };
    known.iter().find(is_prefix).copied()
}

/// Returns `; did you mean …?` if there is a close name.
pub(crate) fn suggestion(typed: &str, known: &[&str]) -> String {
    nearest(typed, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Joins alternatives: `a`, `a or b`, `a, b or c`.
pub(crate) fn either(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// The Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let next = (corner + usize::from(ca != *cb)).min(*cell + 1).min(left + 1);
            corner = std::mem::replace(cell, next);
            left = next;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_convert_between_pascal_and_snake_case() {
        assert_eq!(pascal("get_time"), "GetTime");
        assert_eq!(pascal("_x__y2"), "XY2");
        assert_eq!(snake("HttpFetch"), "http_fetch");
        assert_eq!(snake("HTTPFetch"), "http_fetch");
        assert_eq!(snake("Sha256Sum"), "sha256_sum");
    }

    #[test]
    fn the_nearest_name_is_suggested_or_none() {
        let known = ["timeout", "read_only", "rate", "retry"];
        assert_eq!(nearest("readonly", &known), Some("read_only"));
        assert_eq!(nearest("tiemout", &known), Some("timeout"));
        assert_eq!(nearest("rate_per_second", &known), Some("rate"));
        assert_eq!(nearest("colour", &known), None);
    }

    #[test]
    fn distance_is_the_levenshtein_distance() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn tool_names_are_accepted_by_every_provider() {
        assert!(is_tool_name("get_time") && is_tool_name("_a-1"));
        for bad in ["", "1a", "-a", "a b", "a.b", &"a".repeat(65)] {
            assert!(!is_tool_name(bad), "{bad}");
        }
    }
}
