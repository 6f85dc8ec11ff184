//! URI templates (RFC 6570).

/// Whether a text is a URI template: literals, and expressions in braces.
pub(super) fn is_template(text: &str) -> bool {
    let mut rest = text;
    loop {
        let (literal, expression) = match rest.split_once('{') {
            Some((literal, after)) => (literal, Some(after)),
            None => (rest, None),
        };
        if !is_literal(literal) {
            return false;
        }
        let Some(expression) = expression else { return true };
        let Some((inside, after)) = expression.split_once('}') else { return false };
        let operators = ['+', '#', '.', '/', ';', '?', '&', '=', ',', '!', '@', '|'];
        let variables = inside.strip_prefix(operators).unwrap_or(inside);
        if !variables.split(',').all(is_variable) {
            return false;
        }
        rest = after;
    }
}

/// Text outside of braces, with `%` before two hexadecimal digits.
fn is_literal(text: &str) -> bool {
    let is_excluded = |c: char| {
        c.is_ascii_control() || matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '|' | '}')
    };
    !text.contains(is_excluded) && has_valid_escapes(text)
}

/// A name with an optional `*`, or a prefix length such as `:3`.
fn is_variable(text: &str) -> bool {
    let name = match text.split_once(':') {
        Some((name, length)) => {
            let is_length = (1..=4).contains(&length.len())
                && !length.starts_with('0')
                && length.bytes().all(|b| b.is_ascii_digit());
            if !is_length {
                return false;
            }
            name
        }
        None => text.strip_suffix('*').unwrap_or(text),
    };
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%');
    name.split('.').all(|part| !part.is_empty() && part.chars().all(is_name_char))
        && has_valid_escapes(name)
}

fn has_valid_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        let mut digits = after.chars().take(2);
        [digits.next(), digits.next()].iter().all(|c| c.is_some_and(|c| c.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_literals_and_expressions() {
        for good in ["", "http://a/{b}", "{?x,y*}", "{+path:3}/here", "{a.b}", "%20{%41}"] {
            assert!(is_template(good), "{good}");
        }
        for bad in ["{", "}", "{}", "{a", "a b", "%2", "{a:0}", "{a:12345}", "{a..b}", "{a b}"] {
            assert!(!is_template(bad), "{bad}");
        }
    }
}
