//! Sanitizing, redacting and escaping markers: idempotent, the same in pieces as in one text, no
//! known secret left, no marker left.
#![no_main]

use haft_sanitize::{KnownSecrets, Redactor, StreamSanitizer, escape_markers, sanitize};
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "open-sesame-42";

/// Cuts a text into pieces of `size` bytes, between characters.
fn pieces(text: &str, size: usize) -> Vec<&str> {
    let (mut rest, mut all) = (text, Vec::new());
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.ceil_char_boundary(size.min(rest.len())));
        all.push(piece);
        rest = more;
    }
    all
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let size = usize::from(*size).max(1);
    let text = String::from_utf8_lossy(bytes);

    let clean = sanitize(&text).text.into_owned();
    assert_eq!(sanitize(&clean).text, clean, "sanitizing is idempotent");
    let (mut stream, mut streamed) = (StreamSanitizer::default(), String::new());
    pieces(&text, size).into_iter().for_each(|piece| streamed += &stream.feed(piece));
    streamed += &stream.flush();
    assert_eq!(streamed, clean, "sanitizing in pieces");

    let secrets = KnownSecrets::new();
    secrets.add("a", SECRET).expect("it is long enough");
    let redactor = Redactor::new(secrets);
    for text in [&*text, &*clean, &format!("{text}{SECRET}{clean}")] {
        let shown = redactor.text(text).into_owned();
        assert!(!shown.contains(SECRET), "a known secret is left");
        assert_eq!(redactor.text(&shown), shown, "redacting is idempotent");
        let (mut stream, mut streamed) = (redactor.stream(), String::new());
        pieces(text, size).into_iter().for_each(|piece| streamed += &stream.feed(piece));
        streamed += &stream.finish();
        assert_eq!(streamed, shown, "redacting in pieces");
    }

    let body = escape_markers(&clean).into_owned();
    assert_eq!(escape_markers(&body), body, "escaping is idempotent");
    let lower = body.to_ascii_lowercase();
    for marker in ["[haft ", "[/haft ", "<|im_start|>", "[inst]", "</s>"] {
        assert!(!lower.contains(marker), "{marker} is left");
    }
});
