//! Our side of the comparison with Python libraries: the figures that `scripts/bench-peers` reads.
//!
//! In: the number of rounds and calls. Out: one JSON line per form of ours, with the names that the
//! peers' own programs print, so that one table can hold all. As there, a round is a number of
//! calls in sequence and as many again in hundreds, CPU time of the whole process is what counts,
//! and a figure is the best round, followed by the median.

use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    add::FAN,
    harness::{Sample, Subject, measure, median},
    layers::Walk,
};

/// Calls before anything is counted.
const WARM_UP: u32 = 200;

/// One form of ours and its cost, in nanoseconds per call.
struct Form {
    name: &'static str,
    note: &'static str,
    subject: Walk,
    one: Vec<Sample>,
    hundred: Vec<Sample>,
}

impl Form {
    fn new(name: &'static str, note: &'static str, subject: Walk) -> Self {
        Self { name, note, subject, one: Vec::new(), hundred: Vec::new() }
    }

    fn round(&mut self, tokio: &Runtime, calls: u32) {
        let subject = &self.subject;
        let one = |tokio: &Runtime, calls| tokio.block_on(subject.one(calls));
        self.one.push(measure(tokio, &one, calls));
        let hundred = |tokio: &Runtime, calls| {
            tokio.block_on(async {
                for _ in 0..calls / FAN {
                    subject.fan100().await;
                }
            });
        };
        self.hundred.push(measure(tokio, &hundred, calls));
    }

    #[expect(clippy::print_stdout, reason = "the result of the command")]
    fn print(&self) {
        let micros = |ns: f64| (ns / 10.0).round() / 100.0;
        let best = |samples: &[Sample], of: fn(&Sample) -> f64| {
            micros(samples.iter().map(of).fold(f64::INFINITY, f64::min))
        };
        let middle = |samples: &[Sample]| micros(median(samples.iter().map(|s| s.cpu)));
        println!(
            "{}",
            json!({
                "peer": self.name,
                "version": env!("CARGO_PKG_VERSION"),
                "seq_cpu_us": best(&self.one, |s| s.cpu),
                "seq_cpu_us_median": middle(&self.one),
                "seq_wall_us": best(&self.one, |s| s.wall),
                "fan100_cpu_us": best(&self.hundred, |s| s.cpu),
                "fan100_cpu_us_median": middle(&self.hundred),
                "fan100_wall_us": best(&self.hundred, |s| s.wall),
                "note": self.note,
            })
        );
    }
}

/// Measures all forms of ours, interleaved, and prints a line for each.
pub(crate) fn print(tokio: &Runtime, rounds: u32, calls: u32) {
    let mut forms = [
        Form::new(
            "haft, default walk",
            "JSON text parsed, validated, judged by one rule, recorded, bounded",
            Walk::ruled(),
        ),
        Form::new(
            "haft, everything on",
            "and cache miss, rate, retry, hooks, 20 rules, redaction, result",
            Walk::everything(),
        ),
    ];
    for form in &forms {
        tokio.block_on(form.subject.one(WARM_UP));
        tokio.block_on(form.subject.fan100());
    }
    for _ in 0..rounds {
        for form in &mut forms {
            form.round(tokio, calls);
        }
    }
    for form in &forms {
        form.print();
    }
}
