//! URIs and IRIs (RFC 3986, RFC 3987): whether a text is one, and how a reference is resolved.
//!
//! Nothing is fetched and nothing is normalized beyond the dot segments of a path.

/// The parts of a URI reference.
#[derive(Debug, Clone, Copy)]
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

/// Which characters beyond ASCII are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    /// None: a URI.
    Ascii,
    /// Those of RFC 3987: an IRI.
    Unicode,
}

/// Returns whether a text is a URI: a reference with a scheme.
pub(crate) fn is_absolute(text: &str, charset: Charset) -> bool {
    split(text).scheme.is_some() && is_reference(text, charset)
}

/// Returns whether a text is a URI reference: a URI, or one relative to another.
pub(crate) fn is_reference(text: &str, charset: Charset) -> bool {
    let parts = split(text);
    let is_path = |c| is_path_char(c, charset) || c == '/';
    // A colon in the first segment would be read as the end of a scheme.
    let is_ambiguous = parts.scheme.is_none()
        && parts.authority.is_none()
        && parts.path.split('/').next().is_some_and(|first| first.contains(':'));
    let is_rest = |c| is_path(c) || c == '?';
    !is_ambiguous
        && parts.scheme.is_none_or(is_scheme)
        && parts.authority.is_none_or(|authority| is_authority(authority, charset))
        && has_only(parts.path, is_path)
        && parts.query.is_none_or(|query| {
            has_only(query, |c| is_rest(c) || charset == Charset::Unicode && is_private(c))
        })
        && parts.fragment.is_none_or(|fragment| has_only(fragment, is_rest))
}

/// Resolves a reference against a base URI; `None` if one of them is not valid.
pub(crate) fn resolve(base: &str, reference: &str) -> Option<String> {
    if !is_absolute(base, Charset::Ascii) || !is_reference(reference, Charset::Ascii) {
        return None;
    }
    let (base, own) = (split(base), split(reference));
    let (scheme, authority, path, query) = if own.scheme.is_some() {
        (own.scheme, own.authority, without_dots(own.path), own.query)
    } else if own.authority.is_some() {
        (base.scheme, own.authority, without_dots(own.path), own.query)
    } else if own.path.is_empty() {
        (base.scheme, base.authority, base.path.to_owned(), own.query.or(base.query))
    } else {
        let path = if own.path.starts_with('/') {
            own.path.to_owned()
        } else if base.authority.is_some() && base.path.is_empty() {
            format!("/{}", own.path)
        } else {
            let parent = base.path.rfind('/').map_or("", |slash| &base.path[..=slash]);
            format!("{parent}{}", own.path)
        };
        (base.scheme, base.authority, without_dots(&path), own.query)
    };
    let mut whole = format!("{}:", scheme?);
    if let Some(authority) = authority {
        whole.push_str("//");
        whole.push_str(authority);
    }
    whole.push_str(&path);
    for (mark, part) in [('?', query), ('#', own.fragment)] {
        if let Some(part) = part {
            whole.push(mark);
            whole.push_str(part);
        }
    }
    Some(whole)
}

fn split(text: &str) -> Parts<'_> {
    let (rest, fragment) = cut(text, '#');
    let (rest, query) = cut(rest, '?');
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, after)) if !scheme.is_empty() && !scheme.contains('/') => {
            if is_scheme(scheme) { (Some(scheme), after) } else { (None, rest) }
        }
        _ => (None, rest),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) => {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at(end);
            (Some(authority), path)
        }
        None => (None, rest),
    };
    Parts { scheme, authority, path, query, fragment }
}

fn cut(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn is_authority(authority: &str, charset: Charset) -> bool {
    let (user, rest) = match authority.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, authority),
    };
    let is_host_char = |c| is_unreserved(c, charset) || is_sub_delimiter(c) || c == '%';
    if user.is_some_and(|user| !has_only(user, |c| is_host_char(c) || c == ':')) {
        return false;
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(inside) => {
            let Some((literal, after)) = inside.split_once(']') else { return false };
            if !is_ip_literal(literal) {
                return false;
            }
            ("", after)
        }
        None => rest.find(':').map_or((rest, ""), |colon| rest.split_at(colon)),
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => port.is_empty(),
    };
    is_port && has_only(host, is_host_char)
}

/// An IPv6 address, or a future version: `v`, hexadecimal digits, a dot and more.
fn is_ip_literal(literal: &str) -> bool {
    if let Some(future) = literal.strip_prefix(['v', 'V']) {
        return future.split_once('.').is_some_and(|(version, address)| {
            let is_address_char =
                |c| is_unreserved(c, Charset::Ascii) || is_sub_delimiter(c) || c == ':';
            !version.is_empty()
                && version.bytes().all(|b| b.is_ascii_hexdigit())
                && !address.is_empty()
                && address.chars().all(is_address_char)
        });
    }
    literal.parse::<std::net::Ipv6Addr>().is_ok()
}

fn is_unreserved(c: char, charset: Charset) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '-' | '.' | '_' | '~')
        || charset == Charset::Unicode && is_international(c)
}

fn is_sub_delimiter(c: char) -> bool {
    matches!(c, '!' | '$' | '&' | '\'' | '(' | ')' | '*' | '+' | ',' | ';' | '=')
}

fn is_path_char(c: char, charset: Charset) -> bool {
    is_unreserved(c, charset) || is_sub_delimiter(c) || matches!(c, ':' | '@' | '%')
}

/// `ucschar` of RFC 3987: beyond ASCII, without private use and noncharacters.
fn is_international(c: char) -> bool {
    let point = u32::from(c);
    match point {
        0xA0..=0xD7FF | 0xF900..=0xFDCF | 0xFDF0..=0xFFEF => true,
        0x1_0000..=0xD_FFFF => point & 0xFFFF <= 0xFFFD,
        0xE_1000..=0xE_FFFD => true,
        _ => false,
    }
}

/// `iprivate` of RFC 3987, which a query may have.
fn is_private(c: char) -> bool {
    let point = u32::from(c);
    matches!(point, 0xE000..=0xF8FF) || point >= 0xF_0000 && point & 0xFFFF <= 0xFFFD
}

/// Whether a part has only these characters, with `%` before two hexadecimal digits.
fn has_only(part: &str, is_allowed: impl Fn(char) -> bool) -> bool {
    let mut rest = part.chars();
    while let Some(c) = rest.next() {
        let is_escape = c != '%'
            || rest.next().is_some_and(|c| c.is_ascii_hexdigit())
                && rest.next().is_some_and(|c| c.is_ascii_hexdigit());
        if !is_escape || !is_allowed(c) {
            return false;
        }
    }
    true
}

/// Removes `.` and `..` from a path (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let is_rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("{}{}", if is_rooted { "/" } else { "" }, kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_as_in_the_examples_of_rfc_3986() {
        for (reference, expected) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y#s", "http://a/b/c/g?y#s"),
            ("", "http://a/b/c/d;p?q"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("g/../h", "http://a/b/c/h"),
            (";x=1/../y", "http://a/b/c/y"),
        ] {
            assert_eq!(
                resolve("http://a/b/c/d;p?q", reference).as_deref(),
                Some(expected),
                "{reference}"
            );
        }
        assert_eq!(resolve("urn:a:b", "#c").as_deref(), Some("urn:a:b#c"));
        assert_eq!(resolve("no base", "c"), None);
        assert_eq!(resolve("http://a", "a b"), None);
    }

    #[test]
    fn only_uris_are_uris() {
        for good in ["http://a.b:80/c?d#e", "urn:x:y", "mailto:a@b", "http://[::1]/", "a:", "x://"]
        {
            assert!(is_absolute(good, Charset::Ascii), "{good}");
        }
        for bad in ["a", "//a", "http://a b", "http://ü/", "http://[1]/", "1:a", "http://a/%zz"] {
            assert!(!is_absolute(bad, Charset::Ascii), "{bad}");
        }
        assert!(is_absolute("http://ü/", Charset::Unicode));
        assert!(is_reference("a/b:c", Charset::Ascii) && !is_reference(":a", Charset::Ascii));
    }
}
