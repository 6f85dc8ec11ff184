//! Converts a response body to text for the model.
//!
//! In: bytes and the `Content-Type`. Out: text. HTML becomes readable text, JSON is indented, other
//! text stays unchanged. Pure, and linear in the number of bytes.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use serde::de::IgnoredAny;
use url::Url;

use super::{html, writer::MAX_TEXT_BYTES};

/// Bytes of a page that are searched for a charset label, as browsers do.
const CHARSET_SCAN_BYTES: usize = 1_024;

/// Content type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Json,
    Text,
    /// No content type.
    Unstated,
    /// Images, archives, programs.
    Other,
}

/// A response as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readable {
    /// The title of a page.
    pub(super) title: Option<String>,
    pub(super) text: String,
    /// Whether the text was truncated because it is too large.
    pub(super) truncated: bool,
}

/// Returns whether such a response can be text.
pub(super) fn is_readable(kind: Option<&str>) -> bool {
    Kind::of(kind) != Kind::Other
}

/// Converts a response to text; `None` if it is binary.
pub(super) fn readable(
    bytes: &[u8],
    content_type: Option<&str>,
    truncated: bool,
    url: &Url,
) -> Option<Readable> {
    let kind = Kind::of(content_type);
    let text = decode(bytes, content_type, kind, truncated)?;
    let plain = |text| Readable { title: None, text, truncated: false };
    let looks_like_page = || {
        let start = text.trim_start().as_bytes();
        [&b"<!doctype html"[..], b"<html"]
            .iter()
            .any(|tag| start.get(..tag.len()).is_some_and(|own| own.eq_ignore_ascii_case(tag)))
    };
    Some(match kind {
        Kind::Html => html::readable(&text, url),
        Kind::Unstated if looks_like_page() => html::readable(&text, url),
        // Invalid or truncated JSON is still useful as text.
        Kind::Json => pretty(&text).unwrap_or_else(|| plain(text)),
        Kind::Text | Kind::Unstated | Kind::Other => plain(text),
    })
}

impl Kind {
    fn of(content_type: Option<&str>) -> Self {
        let Some(content_type) = content_type else { return Self::Unstated };
        let essence =
            content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let Some((class, subtype)) = essence.split_once('/') else { return Self::Unstated };
        match (class, subtype) {
            ("text", "html") | ("application", "xhtml+xml") => Self::Html,
            (_, subtype) if subtype == "json" || subtype.ends_with("+json") => Self::Json,
            ("text", _) => Self::Text,
            (_, subtype) if subtype.ends_with("+xml") && class != "image" => Self::Text,
            ("image", "svg+xml") => Self::Text,
            (
                "application",
                "xml"
                | "javascript"
                | "ecmascript"
                | "x-javascript"
                | "yaml"
                | "x-yaml"
                | "toml"
                | "x-ndjson"
                | "ndjson"
                | "jsonl"
                | "sql"
                | "x-sh"
                | "graphql"
                | "x-tex"
                | "x-httpd-php"
                | "x-www-form-urlencoded",
            ) => Self::Text,
            _ => Self::Other,
        }
    }
}

/// Decodes the bytes: by byte order mark, `Content-Type`, charset label of the page, as UTF-8, else
/// as Windows-1252 like most old pages.
fn decode(bytes: &[u8], content_type: Option<&str>, kind: Kind, truncated: bool) -> Option<String> {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    let labelled = || {
        let label = content_type?.split(';').skip(1).find_map(charset)?;
        Encoding::for_label(label.as_bytes())
    };
    let own = || {
        (kind == Kind::Html || kind == Kind::Unstated).then_some(())?;
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(CHARSET_SCAN_BYTES)])
            .to_ascii_lowercase();
        let at = start.find("charset=")? + "charset=".len();
        let rest = start[at..].trim_start_matches(['"', '\'', ' ']);
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)));
        Encoding::for_label(&rest.as_bytes()[..end.unwrap_or(rest.len())])
            // A page whose label is readable as ASCII is not UTF-16.
            .map(|encoding| encoding.output_encoding())
    };
    let declared_encoding = marked.or_else(labelled).or_else(own);
    // Bytes with NUL are binary, unless an encoding is declared.
    if declared_encoding.is_none() && bytes[..bytes.len().min(CHARSET_SCAN_BYTES)].contains(&0) {
        return None;
    }
    let guessed = || if is_utf8(bytes, truncated) { UTF_8 } else { WINDOWS_1252 };
    let (text, ..) = declared_encoding.unwrap_or_else(guessed).decode(bytes);
    Some(text.into_owned())
}

/// A truncated body may end inside a character.
fn is_utf8(bytes: &[u8], truncated: bool) -> bool {
    std::str::from_utf8(bytes).err().is_none_or(|error| truncated && error.error_len().is_none())
}

fn charset(part: &str) -> Option<&str> {
    let (name, value) = part.split_once('=')?;
    let value = value.trim().trim_matches(['"', '\'']);
    name.trim().eq_ignore_ascii_case("charset").then_some(value)
}

/// JSON nested deeper is not indented: most of its text would be indentation.
const MAX_JSON_DEPTH: usize = 64;

/// Indents JSON. Only whitespace between tokens changes, so numbers and names stay as sent.
fn pretty(text: &str) -> Option<Readable> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut lines = String::new();
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    let line = |lines: &mut String, depth: usize| {
        lines.push('\n');
        lines.extend(std::iter::repeat_n("  ", depth));
    };
    let is_blank = |c: &char| matches!(c, ' ' | '\t' | '\n' | '\r');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // Indentation of many short items could multiply the size.
        if lines.len() > MAX_TEXT_BYTES {
            return Some(Readable { title: None, text: lines, truncated: true });
        }
        if is_quoted {
            lines.push(c);
            is_quoted = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        match c {
            c if is_blank(&c) => {}
            '{' | '[' => {
                while chars.next_if(is_blank).is_some() {}
                lines.push(c);
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    lines.push(end);
                    continue;
                }
                depth += 1;
                if depth > MAX_JSON_DEPTH {
                    return None;
                }
                line(&mut lines, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut lines, depth);
                lines.push(c);
            }
            ',' => {
                lines.push(c);
                line(&mut lines, depth);
            }
            ':' => lines.push_str(": "),
            c => {
                lines.push(c);
                is_quoted = c == '"';
            }
        }
    }
    Some(Readable { title: None, text: lines, truncated: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], content_type: Option<&str>) -> Option<String> {
        let url = Url::parse("https://example.com/").unwrap();
        readable(bytes, content_type, false, &url).map(|read| read.text)
    }

    #[test]
    fn declared_charset_is_used() {
        let page = |label: &str, subtype: &[u8]| {
            [format!("<meta charset=\"{label}\"><p>").as_bytes(), subtype].concat()
        };
        for (bytes, content_type, text) in [
            ("caf\u{e9}".as_bytes().to_vec(), Some("text/plain"), "caf\u{e9}"),
            (b"caf\xe9".to_vec(), Some("text/plain"), "caf\u{e9}"),
            (b"caf\xe9".to_vec(), Some("text/plain; charset=ISO-8859-1"), "caf\u{e9}"),
            (b"\xe4\xbd\xa0".to_vec(), Some("text/plain; charset=\"utf-8\""), "\u{4f60}"),
            (b"\xc4\xe3".to_vec(), Some("text/plain;Charset=GBK"), "\u{4f60}"),
            (b"\xef\xbb\xbfx".to_vec(), Some("text/plain; charset=gbk"), "x"),
            (b"\xff\xfeh\0i\0".to_vec(), Some("text/plain"), "hi"),
            (page("gb2312", b"\xc4\xe3"), Some("text/html"), "\u{4f60}"),
            (page("utf-16", b"ab"), Some("text/html"), "ab"),
            (page("no-such", b"ab"), Some("text/html"), "ab"),
        ] {
            assert_eq!(
                read(&bytes, content_type).as_deref(),
                Some(text),
                "{content_type:?} {bytes:?}"
            );
        }
        let truncated =
            decode("caf\u{e9} caf\u{e9}".as_bytes()[..10].into(), None, Kind::Text, true);
        assert_eq!(truncated.unwrap(), "caf\u{e9} caf\u{fffd}", "cut inside a letter");
    }

    #[test]
    fn json_is_indented_and_invalid_json_is_unchanged() {
        assert_eq!(
            read(b"{\"a\":[1]}", Some("application/json")).unwrap(),
            "{\n  \"a\": [\n    1\n  ]\n}"
        );
        assert_eq!(read(b"{\"a\":", Some("application/ld+json")).unwrap(), "{\"a\":");
        let deep = "[".repeat(100_000);
        assert_eq!(read(deep.as_bytes(), Some("application/json")).unwrap(), deep);
        let deep = deep + &"]".repeat(100_000);
        assert_eq!(read(deep.as_bytes(), Some("application/json")).unwrap(), deep);
        let odd = r#" { "a" : "x,\"{[:\\" , "a":[ ],"n":12345678901234567890.10 , "o" : { } } "#;
        assert_eq!(
            read(odd.as_bytes(), Some("application/json")).unwrap(),
            "{\n  \"a\": \"x,\\\"{[:\\\\\",\n  \"a\": [],\n  \"n\": 12345678901234567890.10,\n  \"o\": {}\n}",
            "as the server wrote it"
        );
    }

    #[test]
    fn indented_json_is_truncated_and_reported() {
        let (open, close) = ("[".repeat(60), "]".repeat(60));
        let bomb = format!("{open}{}1{close}", "1,".repeat(1_000_000));
        let url = Url::parse("https://example.com/").unwrap();
        let read = readable(bomb.as_bytes(), Some("application/json"), false, &url).unwrap();
        assert!(read.truncated && read.text.len() < MAX_TEXT_BYTES + 1_000, "{}", read.text.len());
    }

    #[test]
    fn missing_type_is_sniffed_and_binary_is_not_read() {
        assert_eq!(read(b" <!DOCTYPE html><p>a<p>b", None).unwrap(), "a\n\nb");
        assert_eq!(read(b"<p>a", None).unwrap(), "<p>a");
        assert_eq!(read(b"\x7fELF\0\0", None), None);
        assert_eq!(read(b"\x7fELF\0\0", Some("text/plain")), None);
        for kind in ["image/png", "application/pdf", "application/octet-stream", "font/woff2"] {
            assert!(!is_readable(Some(kind)), "{kind}");
        }
        for kind in [
            "TEXT/HTML; charset=x",
            "text/csv",
            "image/svg+xml",
            "application/feed+json",
            "nonsense",
        ] {
            assert!(is_readable(Some(kind)), "{kind}");
        }
    }
}
