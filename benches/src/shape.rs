//! The cost per byte of preparing a result for the model, for small and for very large results.
//!
//! Two texts, each in three sizes. `plain` is a typical log: words, numbers, paths, an accent here
//! and there. `coloured` is the same for a terminal: a colour in each line, and now and then a key
//! or a hidden character, so that most of it must be rewritten. The first case copies the bytes,
//! the second runs a terminal parser alone over them; both are bases of the ratios. `call` is the
//! whole pipeline: a body that returns the text, and what a model reads.
//!
//! Cost must be linear in the size, so the cost per byte is also compared between sizes.

use std::{cell::RefCell, hint::black_box, rc::Rc, time::Duration};

use haft::{
    Config, Runtime, ToolCall, ToolRegistry, ToolResult,
    artifacts::{ArtifactLimits, Artifacts},
    sanitize,
    secrets::{Redactor, Secrets},
    tool::{Capabilities, DynTool, ResultLimit, ToolSpec},
};
use serde_json::json;

use crate::harness::{Bench, Unit};

/// How much is read in one measurement.
const BYTES_PER_MEASUREMENT: usize = 10_000_000;

const SIZES: [(&str, &str, usize); 3] = [
    ("shape-plain-1k", "shape-coloured-1k", 1_000),
    ("shape-plain-100k", "shape-coloured-100k", 100_000),
    ("shape-plain-10m", "shape-coloured-10m", 10_000_000),
];

/// A log of about this many bytes, which ends at a character boundary.
fn log(size: usize, coloured: bool) -> String {
    let mut text = String::with_capacity(size + 200);
    for n in 0.. {
        if text.len() >= size {
            break;
        }
        let (on, off) = if coloured { ("\u{1b}[32m", "\u{1b}[0m") } else { ("", "") };
        let took = n * 37 % 1_000;
        text.push_str(&format!(
            "{on}{n:>7} compiling{off} src/part_{}/unit_{}.rs took {took} ms, naïve: {}\n",
            n % 17,
            n % 101,
            n % 2 == 0,
        ));
        if coloured && n % 40 == 7 {
            text.push_str(&format!("token ghp_{:036} was used\u{200b}\n", n));
        }
    }
    let end = text.floor_char_boundary(size);
    text.truncate(end);
    text
}

/// Receives all that the parser emits, and keeps nothing.
#[derive(Default)]
struct Seen(usize);

impl vte::Perform for Seen {
    fn print(&mut self, c: char) {
        self.0 += c.len_utf8();
    }

    fn execute(&mut self, _: u8) {
        self.0 += 1;
    }
}

/// A runtime with one tool that returns the text.
fn runtime(text: &Rc<String>, bound: ResultLimit) -> Runtime {
    let spec = ToolSpec::new("show_log", "Shows the log.").read_only();
    let spec = spec.capabilities(Capabilities::NONE).max_result(bound);
    let text = String::clone(text);
    let tool = DynTool::new(spec, json!({"type": "object"}), move |_, _| {
        let text = text.clone();
        async { text }
    });
    // The largest text exceeds the default scan limit.
    let mut config = Config::default();
    config.max_result = 4 * BYTES_PER_MEASUREMENT;
    // Artifacts expire before the next measurement, so that the store is never full.
    let limits = ArtifactLimits::default().expiry(Duration::from_millis(1));
    let registry = ToolRegistry::builder().add(tool).build().unwrap_or_else(|e| panic!("{e}"));
    let runtime = Runtime::builder().config(config).registry(registry);
    let runtime = runtime.artifacts(Artifacts::memory_with(limits)).secret("mail", "correct horse");
    runtime.build().unwrap_or_else(|e| panic!("{e}"))
}

async fn answered(runtime: &Runtime) -> ToolResult {
    let turn = runtime.run().turn().await.unwrap_or_else(|e| panic!("{e}"));
    let mut answers = turn.run([ToolCall::new("1", "show_log", json!({}))]).await;
    match answers.pop() {
        Some(answer) if !answer.is_error() => answer,
        other => panic!("{other:?}"),
    }
}

/// One text, and how often a measurement goes over it.
struct Over {
    text: Rc<String>,
    times: usize,
    units: u32,
}

impl Over {
    fn new(text: String) -> Self {
        let times = BYTES_PER_MEASUREMENT.div_ceil(text.len());
        let units = u32::try_from(times * text.len()).unwrap_or(u32::MAX);
        Self { text: Rc::new(text), times, units }
    }

    fn case(&self, bench: &mut Bench, name: &str, work: impl Fn(&str) + 'static) {
        let (text, times) = (Rc::clone(&self.text), self.times);
        bench.case(name.to_owned(), self.units, move |_, _| {
            for _ in 0..times {
                work(black_box(&text));
            }
        });
    }

    fn call(&self, bench: &mut Bench, name: &str, runtime: Runtime) {
        let times = self.times;
        bench.case(name.to_owned(), self.units, move |tokio, _| {
            for _ in 0..times {
                black_box(tokio.block_on(answered(&runtime)).model_text());
            }
        });
    }
}

fn redactor() -> Redactor {
    let secrets = Secrets::new();
    secrets.add("mail", "correct horse").unwrap_or_else(|e| panic!("{e}"));
    Redactor::new(secrets)
}

/// The size of one read from a process.
const CHUNK: usize = 4_096;

fn in_pieces(redactor: &Redactor, text: &str) {
    let mut stream = redactor.stream();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(CHUNK.min(rest.len())));
        black_box(stream.feed(piece));
        rest = after;
    }
    black_box(stream.finish());
}

fn cases(bench: &mut Bench, group: &'static str, text: String) {
    bench.group(group, Unit::Byte);
    let over = Over::new(text);
    let to = RefCell::new(vec![0_u8; over.text.len()]);
    over.case(bench, "memcpy", move |text| {
        to.borrow_mut().copy_from_slice(text.as_bytes());
        black_box(&to);
    });
    over.case(bench, "vte alone", |text| {
        let (mut parser, mut seen) = (vte::Parser::new(), Seen::default());
        parser.advance(&mut seen, text.as_bytes());
        black_box(seen.0);
    });
    bench.is_base();
    over.case(bench, "hygiene", |text| drop(black_box(sanitize::sanitize(text))));
    let known = redactor();
    over.case(bench, "redaction", move |text| drop(black_box(known.text(text))));
    let known = redactor();
    over.case(bench, "redaction in pieces", move |text| in_pieces(&known, text));
    // The frame is around what is shown, so it is measured on a result that shows everything.
    let whole = runtime(&over.text, ResultLimit::Unbounded);
    let answer = bench.wait(answered(&whole));
    over.case(bench, "frame", move |_| drop(black_box(answer.model_text())));
    over.call(bench, "call, all shown", whole);
    over.call(bench, "call, bounded", runtime(&over.text, ResultLimit::default()));
}

pub(crate) fn add(bench: &mut Bench) {
    for (plain, coloured, size) in SIZES {
        if bench.wants(plain) {
            cases(bench, plain, log(size, false));
        }
        if bench.wants(coloured) {
            cases(bench, coloured, log(size, true));
        }
    }
    bench.grows(SIZES.map(|(plain, _, _)| plain));
    bench.grows(SIZES.map(|(_, coloured, _)| coloured));
}
