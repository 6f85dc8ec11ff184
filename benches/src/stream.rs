//! The cost per byte of decoding a stream, compared with parsing the JSON of the same events.
//!
//! The message is a text and four calls, in the chunks that providers send. The body comes in
//! network-sized chunks. The base of each dialect is the unavoidable part: serde_json over each
//! event's own text, already split.

use std::hint::black_box;

use haft::{Dialect, turn::StopReason};
use serde_json::{Value, json};

use crate::{
    harness::{Bench, Unit},
    script,
};

/// The size of one read from a connection.
const CHUNK: usize = 4_096;
/// Characters of text or arguments in one event.
const CHARS_PER_EVENT: usize = 12;
/// How much is read in one measurement.
const BYTES_PER_MEASUREMENT: usize = 4 << 20;
/// One group per dialect: a ratio is taken to the same events.
const GROUPS: [(Dialect, &str); 9] = [
    (Dialect::Anthropic, "stream-anthropic"),
    (Dialect::OpenAiResponses, "stream-openai-responses"),
    (Dialect::OpenAiChat, "stream-openai-chat"),
    (Dialect::Gemini, "stream-gemini"),
    (Dialect::GeminiJson, "stream-gemini-json"),
    (Dialect::Bedrock, "stream-bedrock"),
    (Dialect::Mistral, "stream-mistral"),
    (Dialect::Ollama, "stream-ollama"),
    (Dialect::Mcp, "stream-mcp"),
];

pub(crate) fn add(bench: &mut Bench) {
    let mut said = vec![script::text(&"I shall look at the orders first. ".repeat(40))];
    for n in 0..4 {
        let arguments = json!({
            "query": format!("orders of customer {n} \"with\" quotes\nand lines"),
            "filters": [{"field": "state", "op": "eq", "value": "open"}, {"field": "total", "op": "gt", "value": 12.5}],
            "limit": 20 + n,
            "note": "a longer remark, as a model writes it, ".repeat(8),
        });
        said.push(script::call(&format!("toolid00{n}"), "find_orders", arguments));
    }
    for (dialect, group) in GROUPS {
        let ending = script::endings(dialect)[0];
        let events = script::events(dialect, &said, ending, CHARS_PER_EVENT);
        let body = script::body(dialect, &events);
        let texts: Vec<String> = events.iter().map(Value::to_string).collect();
        let times = BYTES_PER_MEASUREMENT.div_ceil(body.len());
        let units = u32::try_from(times * body.len()).unwrap_or(u32::MAX);
        bench.group(group, Unit::Byte);
        bench.case(format!("{dialect} serde_json"), units, move |_, _| {
            for _ in 0..times {
                for text in &texts {
                    black_box(serde_json::from_str::<Value>(text).unwrap_or_default());
                }
            }
        });
        bench.case(format!("{dialect} stream"), units, move |_, _| {
            for _ in 0..times {
                let mut stream = dialect.stream();
                let calls: usize = body.chunks(CHUNK).map(|chunk| stream.feed(chunk).len()).sum();
                let ended = stream.finish();
                assert_eq!(
                    (calls + ended.calls.len(), ended.stop),
                    (4, StopReason::Done),
                    "{dialect}"
                );
            }
        });
    }
}
