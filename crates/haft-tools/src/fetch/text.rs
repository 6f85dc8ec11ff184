//! The bytes of an answer as text that a model can read.
//!
//! In: bytes and what the server says they are. Out: text. Pages become readable text, data is
//! written in lines, text stays as it is. Pure, and linear in the size of the bytes.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use serde::de::IgnoredAny;
use url::Url;

use super::{html, writer::LONG};

/// So far into a page its own word for its letters is looked for, as browsers do.
const PRESCAN: usize = 1_024;

/// What a server says of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Json,
    Text,
    /// It did not say.
    Silent,
    /// Pictures, archives, programs.
    Other,
}

/// An answer as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readable {
    /// The title of a page.
    pub(super) title: Option<String>,
    pub(super) text: String,
    /// Some of the page was left out because it is too large.
    pub(super) cut: bool,
}

/// Returns whether such an answer can be read as text at all.
pub(super) fn is_readable(kind: Option<&str>) -> bool {
    Kind::of(kind) != Kind::Other
}

/// Turns an answer into text; nothing where it is no text after all.
pub(super) fn readable(bytes: &[u8], said: Option<&str>, cut: bool, url: &Url) -> Option<Readable> {
    let kind = Kind::of(said);
    let text = decoded(bytes, said, kind, cut)?;
    let plain = |text| Readable { title: None, text, cut: false };
    let looks_like_page = || {
        let start = text.trim_start().as_bytes();
        [&b"<!doctype html"[..], b"<html"]
            .iter()
            .any(|tag| start.get(..tag.len()).is_some_and(|own| own.eq_ignore_ascii_case(tag)))
    };
    Some(match kind {
        Kind::Html => html::readable(&text, url),
        Kind::Silent if looks_like_page() => html::readable(&text, url),
        // Data that does not parse, or was cut, is still worth reading.
        Kind::Json => pretty(&text).unwrap_or_else(|| plain(text)),
        Kind::Text | Kind::Silent | Kind::Other => plain(text),
    })
}

impl Kind {
    fn of(said: Option<&str>) -> Self {
        let Some(said) = said else { return Self::Silent };
        let essence = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let Some((class, word)) = essence.split_once('/') else { return Self::Silent };
        match (class, word) {
            ("text", "html") | ("application", "xhtml+xml") => Self::Html,
            (_, word) if word == "json" || word.ends_with("+json") => Self::Json,
            ("text", _) => Self::Text,
            (_, word) if word.ends_with("+xml") && class != "image" => Self::Text,
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

/// Reads the letters: by the mark at the start, by what the server says, by what the page says, as
/// UTF-8, and else as most old pages are written.
fn decoded(bytes: &[u8], said: Option<&str>, kind: Kind, cut: bool) -> Option<String> {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    let labelled = || {
        let label = said?.split(';').skip(1).find_map(charset)?;
        Encoding::for_label(label.as_bytes())
    };
    let own = || {
        (kind == Kind::Html || kind == Kind::Silent).then_some(())?;
        let start =
            String::from_utf8_lossy(&bytes[..bytes.len().min(PRESCAN)]).to_ascii_lowercase();
        let at = start.find("charset=")? + "charset=".len();
        let rest = start[at..].trim_start_matches(['"', '\'', ' ']);
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)));
        Encoding::for_label(&rest.as_bytes()[..end.unwrap_or(rest.len())])
            // A page whose label could be read is not written in two bytes a letter.
            .map(|encoding| encoding.output_encoding())
    };
    let said_by_somebody = marked.or_else(labelled).or_else(own);
    // Bytes of nought are no text, unless somebody said in which letters they are.
    if said_by_somebody.is_none() && bytes[..bytes.len().min(PRESCAN)].contains(&0) {
        return None;
    }
    let guessed = || match is_utf8(bytes, cut) {
        true => UTF_8,
        false => WINDOWS_1252,
    };
    let (text, ..) = said_by_somebody.unwrap_or_else(guessed).decode(bytes);
    Some(text.into_owned())
}

/// An answer that was cut may end inside a letter.
fn is_utf8(bytes: &[u8], cut: bool) -> bool {
    std::str::from_utf8(bytes).err().is_none_or(|error| cut && error.error_len().is_none())
}

fn charset(part: &str) -> Option<&str> {
    let (name, value) = part.split_once('=')?;
    let value = value.trim().trim_matches(['"', '\'']);
    name.trim().eq_ignore_ascii_case("charset").then_some(value)
}

/// Data nested deeper than this is left as it is: its lines would be blanks more than anything.
const DEEP: usize = 64;

/// Writes data in lines. Nothing but the blanks between its parts is changed, so every number and
/// every name is as the server wrote it.
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
        // Many short parts, each on a line of its own, grow far beyond the data.
        if lines.len() > LONG {
            return Some(Readable { title: None, text: lines, cut: true });
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
                if depth > DEEP {
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
    Some(Readable { title: None, text: lines, cut: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], said: Option<&str>) -> Option<String> {
        let url = Url::parse("https://example.com/").unwrap();
        readable(bytes, said, false, &url).map(|read| read.text)
    }

    #[test]
    fn letters_are_read_as_somebody_says_they_are() {
        let page = |label: &str, word: &[u8]| {
            [format!("<meta charset=\"{label}\"><p>").as_bytes(), word].concat()
        };
        for (bytes, said, text) in [
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
            assert_eq!(read(&bytes, said).as_deref(), Some(text), "{said:?} {bytes:?}");
        }
        let cut = decoded("caf\u{e9} caf\u{e9}".as_bytes()[..10].into(), None, Kind::Text, true);
        assert_eq!(cut.unwrap(), "caf\u{e9} caf\u{fffd}", "cut inside a letter");
    }

    #[test]
    fn data_is_written_in_lines_and_what_is_no_data_stays() {
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
    fn data_that_would_grow_far_beyond_itself_is_cut_and_says_so() {
        let (open, close) = ("[".repeat(60), "]".repeat(60));
        let bomb = format!("{open}{}1{close}", "1,".repeat(1_000_000));
        let url = Url::parse("https://example.com/").unwrap();
        let read = readable(bomb.as_bytes(), Some("application/json"), false, &url).unwrap();
        assert!(read.cut && read.text.len() < LONG + 1_000, "{}", read.text.len());
    }

    #[test]
    fn what_says_nothing_is_looked_at_and_what_is_no_text_is_not_read() {
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
