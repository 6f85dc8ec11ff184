//! However the bytes of a stream are chunked, the decoded result is the same.
#![no_main]

use haft_core::{StopReason, ToolCall};
use haft_dialect::Dialect;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The result of a stream: its calls, stop reason, message, and error.
#[derive(Debug, PartialEq)]
struct Decoded {
    calls: Vec<ToolCall>,
    stop: StopReason,
    message: Value,
    problem: Option<String>,
}

fn decode<'a>(dialect: Dialect, pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut stream = dialect.stream();
    let mut calls: Vec<ToolCall> = pieces.flat_map(|piece| stream.feed(piece)).collect();
    let ended = stream.finish();
    calls.extend(ended.calls);
    Decoded {
        calls,
        stop: ended.stop,
        message: ended.message,
        problem: ended.problem.map(|problem| problem.to_string()),
    }
}

/// Splits bytes into chunks of uneven length, deterministically.
fn uneven(bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let mut size = 7;
    while !rest.is_empty() {
        size = (size * 5 + usize::from(rest[0])) % 61;
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = behind;
        size += 1;
    }
    pieces
}

fuzz_target!(|bytes: &[u8]| {
    for dialect in Dialect::ALL.iter().copied() {
        let whole = decode(dialect, std::iter::once(bytes));
        let cut = decode(dialect, uneven(bytes).into_iter());
        assert_eq!(whole, cut, "{dialect}, cut unevenly");
        if bytes.len() <= 512 {
            let single = decode(dialect, bytes.chunks(1));
            assert_eq!(whole, single, "{dialect}, byte by byte");
        }
        assert!(
            whole.problem.is_none() || whole.stop == StopReason::Unknown,
            "{dialect}: spoilt, yet {:?}",
            whole.stop
        );
    }
});
