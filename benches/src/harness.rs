//! Runs all subjects in interleaved rounds and prints the medians.
//!
//! In: subjects. Out: one row per case on stdout, as a table or as JSON lines. A round runs every case
//! once, each with the same number of calls; the order is turned by one place per round, so that no
//! case always follows the same neighbour. The first round warms up and is not counted.

use std::{hint::black_box, rc::Rc, time::Instant};

use cpu_time::ProcessTime;
use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::add::{FAN, Question, questions};

/// One way to call the tool.
pub(crate) trait Subject {
    /// Makes one call and checks its answer.
    async fn ask(&self, question: &'static Question);

    /// Makes this many calls, one after the other.
    async fn one(&self, calls: u32) {
        for question in questions(calls) {
            self.ask(question).await;
        }
    }

    /// Makes a hundred calls at once. A subject with a way of its own to do that overrides this.
    async fn fan100(&self) {
        join_all(questions(FAN).map(|question| self.ask(question))).await;
    }
}

/// How much to measure, and how to print it.
#[derive(Debug)]
pub(crate) struct Options {
    json: bool,
    rounds: u32,
    calls: u32,
    /// The one case to run, as for a profiler; its ratio is then to itself.
    only: Option<String>,
}

impl Options {
    /// Reads the arguments of the command.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        // Nine medians out many a disturbance; 20 000 calls are 10 to 50 ms, far above the clock's grain.
        let mut options = Self { json: false, rounds: 9, calls: 20_000, only: None };
        while let Some(arg) = args.next() {
            if arg == "--only" {
                options.only = Some(args.next().ok_or("`--only` needs the name of a case")?);
                continue;
            }
            let mut number = || -> Result<u32, String> {
                let text = args.next().ok_or_else(|| format!("`{arg}` needs a number"))?;
                text.parse().map_err(|e| format!("`{arg} {text}`: {e}"))
            };
            match arg.as_str() {
                "--json" => options.json = true,
                "--rounds" => options.rounds = number()?.max(1),
                "--calls" => options.calls = number()?.next_multiple_of(FAN).max(FAN),
                _ => return Err(format!("unknown argument `{arg}`; see the top of main.rs")),
            }
        }
        Ok(options)
    }
}

/// Runs a number of calls to their end.
type Run = Box<dyn Fn(&Runtime, u32)>;

/// One row of the result.
struct Case {
    name: String,
    run: Run,
    samples: Vec<Sample>,
}

/// What one case cost in one round, in nanoseconds per call.
#[derive(Debug, Clone, Copy)]
struct Sample {
    cpu: f64,
    wall: f64,
}

/// All cases and the runtime they share.
pub(crate) struct Bench {
    options: Options,
    runtime: Runtime,
    cases: Vec<Case>,
    _pin: Vec<u8>,
}

impl Bench {
    /// Starts a runtime with two workers, whatever the machine has.
    pub(crate) fn new(options: Options) -> Result<Self, String> {
        let pin = settled_heap();
        // The driver for time is there because a runtime under test may set timers.
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
        Ok(Self { options, runtime, cases: Vec::new(), _pin: pin })
    }

    /// Adds a subject as two cases: one call after the other, and a hundred at once.
    pub(crate) fn add<S: Subject + 'static>(&mut self, name: &str, subject: S) {
        let subject = Rc::new(subject);
        let same = Rc::clone(&subject);
        self.case(name.to_owned(), move |rt, calls| rt.block_on(subject.one(calls)));
        self.case(format!("{name} x{FAN}"), move |rt, calls| {
            rt.block_on(async {
                for _ in 0..calls / FAN {
                    same.fan100().await;
                }
            });
        });
    }

    /// Adds one case.
    pub(crate) fn case(&mut self, name: String, run: impl Fn(&Runtime, u32) + 'static) {
        if self.options.only.as_ref().is_some_and(|only| *only != name) {
            return;
        }
        self.cases.push(Case { name, run: Box::new(run), samples: Vec::new() });
    }

    /// Measures all cases and prints the result.
    pub(crate) fn run(mut self) {
        for case in &self.cases {
            (case.run)(&self.runtime, self.options.calls);
        }
        let count = self.cases.len();
        for round in 0..self.options.rounds as usize {
            for place in 0..count {
                let case = &mut self.cases[(round + place) % count];
                case.samples.push(measure(&self.runtime, &case.run, self.options.calls));
            }
        }
        self.print();
    }

    #[expect(clippy::print_stdout, reason = "the result of the command")]
    fn print(&self) {
        let Some(floor) = self.cases.first() else { return };
        if !self.options.json {
            println!("{:<18} {:>12} {:>12} {:>10}", "case", "cpu ns/call", "wall ns/call", "ratio");
        }
        for case in &self.cases {
            let cpu = median(case.samples.iter().map(|s| s.cpu));
            let wall = median(case.samples.iter().map(|s| s.wall));
            // Of CPU time, within each round: what slows a whole round down does not show.
            let pairs = case.samples.iter().zip(&floor.samples);
            let ratio = median(pairs.map(|(case, floor)| case.cpu / floor.cpu));
            if self.options.json {
                let cpu_samples: Vec<f64> = case.samples.iter().map(|s| s.cpu.round()).collect();
                println!(
                    "{}",
                    json!({
                        "case": case.name,
                        "cpu_ns": cpu.round(),
                        "wall_ns": wall.round(),
                        "ratio": (ratio * 100.0).round() / 100.0,
                        "rounds": self.options.rounds,
                        "calls": self.options.calls,
                        "cpu_ns_by_round": cpu_samples,
                    })
                );
            } else {
                println!("{:<18} {:>12.0} {:>12.0} {:>9.2}x", case.name, cpu, wall, ratio);
            }
        }
    }
}

/// Leaves a few free megabytes on the heap below one block that stays, and returns that block.
///
/// glibc gives the top of the heap back to the system when 128 KiB of it are free. A hundred large
/// futures cross that line, and then every fan pays for its pages anew: 0.7 to 1.1 µs per call were
/// seen, or not, depending on what happened to lie above. No subject should win or lose by that.
fn settled_heap() -> Vec<u8> {
    // Blocks below 128 KiB come from the heap itself, and from its top while it is young.
    let mut blocks: Vec<Vec<u8>> = (0..128).map(|_| black_box(vec![0; 64 * 1024])).collect();
    blocks.pop().unwrap_or_default()
}

/// Measures one case once.
#[expect(clippy::disallowed_methods, reason = "measuring is the one use of the real clock")]
fn measure(runtime: &Runtime, run: &Run, calls: u32) -> Sample {
    let (cpu, wall) = (ProcessTime::now(), Instant::now());
    run(runtime, calls);
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    let per_call = |time: std::time::Duration| time.as_secs_f64() * 1e9 / f64::from(calls);
    Sample { cpu: per_call(cpu), wall: per_call(wall) }
}

/// Returns the middle value; of an even number, the upper of the two.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
