//! Names: from one case to another, whether a provider takes them, which one was meant.
//!
//! Pure text; no tokens.

/// Turns `get_time` into `GetTime`.
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

/// Turns `HttpFetch` into `http_fetch` and `HTTPFetch` too.
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

/// Returns whether every provider takes this as the name of a tool.
pub(crate) fn is_tool_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.len() <= 64 && text.bytes().all(|b| is_word(b) || b == b'-')
}

/// Returns whether every provider takes this as the name of an argument.
pub(crate) fn is_argument_name(text: &str) -> bool {
    let fits = (1..=64).contains(&text.len());
    fits && text.bytes().all(|b| is_word(b) || b == b'-' || b == b'.')
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Returns the known name that was most likely meant.
pub(crate) fn nearest<'a>(said: &str, known: &[&'a str]) -> Option<&'a str> {
    let said = said.to_lowercase();
    let near = known.iter().map(|k| (distance(&said, &k.to_lowercase()), *k)).min()?;
    // Half the word wrong is another word.
    if near.0 <= said.len().max(near.1.len()) / 2 && near.0 <= 4 {
        return Some(near.1);
    }
    // Cut short or spelled out: `minimum` for `min`, `desc` for `description`.
    let cut = |k: &&&str| {
        k.len() >= 3 && said.len() >= 3 && (said.starts_with(**k) || k.starts_with(&said))
    };
    known.iter().find(cut).copied()
}

/// Returns `; did you mean …?` where there is something to mean.
pub(crate) fn meant(said: &str, known: &[&str]) -> String {
    nearest(said, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Joins words the way people do: `a`, `a or b`, `a, b or c`.
pub(crate) fn either(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Levenshtein's distance.
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
    fn cases_turn_into_each_other() {
        assert_eq!(pascal("get_time"), "GetTime");
        assert_eq!(pascal("_x__y2"), "XY2");
        assert_eq!(snake("HttpFetch"), "http_fetch");
        assert_eq!(snake("HTTPFetch"), "http_fetch");
        assert_eq!(snake("Sha256Sum"), "sha256_sum");
    }

    #[test]
    fn the_nearest_name_is_the_one_meant_or_none() {
        let known = ["timeout", "read_only", "rate", "retry"];
        assert_eq!(nearest("readonly", &known), Some("read_only"));
        assert_eq!(nearest("tiemout", &known), Some("timeout"));
        assert_eq!(nearest("rate_per_second", &known), Some("rate"));
        assert_eq!(nearest("colour", &known), None);
    }

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn tool_names_are_what_every_provider_takes() {
        assert!(is_tool_name("get_time") && is_tool_name("_a-1"));
        for bad in ["", "1a", "-a", "a b", "a.b", &"a".repeat(65)] {
            assert!(!is_tool_name(bad), "{bad}");
        }
    }
}
