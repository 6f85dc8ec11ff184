//! Runs all subjects in interleaved rounds and prints the medians.
//!
//! In: subjects. Out: one row per case on stdout, as a table or as JSON lines. A round runs every
//! case once, each case of a group with the same work; the order rotates by one per round, so that
//! no case always follows the same neighbour. The first round is a warm-up and is not counted.
//!
//! Cases are in groups. Ratios are relative to the first case of the group, within each round.

use std::{hint::black_box, rc::Rc, time::Instant};

use cpu_time::ProcessTime;
use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::add::{FAN, Question, questions};

/// One way to call the tool.
pub(crate) trait Subject {
    /// Makes one call and checks its result.
    async fn ask(&self, question: &'static Question);

    /// Makes this many calls in sequence.
    async fn one(&self, calls: u32) {
        for question in questions(calls) {
            self.ask(question).await;
        }
    }

    /// Makes a hundred parallel calls. A subject with its own way to do that overrides this.
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
    /// The groups with this prefix or the case to run, as for a profiler; a lone case's ratio is to
    /// itself.
    only: Option<String>,
    /// Only our own forms, as lines that the comparison with Python libraries reads.
    peer_json: bool,
}

impl Options {
    /// Parses the arguments of the command.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        // Nine rounds give a stable median; 20 000 calls take 10 to 50 ms, far above the clock's
        // resolution.
        let mut options =
            Self { json: false, rounds: 9, calls: 20_000, only: None, peer_json: false };
        while let Some(arg) = args.next() {
            if arg == "--only" {
                options.only =
                    Some(args.next().ok_or("`--only` needs the name of a group or a case")?);
                continue;
            }
            let mut number = || -> Result<u32, String> {
                let text = args.next().ok_or_else(|| format!("`{arg}` needs a number"))?;
                text.parse().map_err(|e| format!("`{arg} {text}`: {e}"))
            };
            match arg.as_str() {
                "--json" => options.json = true,
                "--peer-json" => options.peer_json = true,
                "--rounds" => options.rounds = number()?.max(1),
                "--calls" => options.calls = number()?.next_multiple_of(FAN).max(FAN),
                _ => return Err(format!("unknown argument `{arg}`; see the top of main.rs")),
            }
        }
        Ok(options)
    }
}

/// The unit that the cases of a group are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Call,
    Tool,
    Check,
    Byte,
    Turn,
    Search,
}

impl Unit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Tool => "tool",
            Self::Check => "check",
            Self::Byte => "byte",
            Self::Search => "search",
            Self::Turn => "turn",
        }
    }
}

/// Does the work of a number of units to its end, and returns what a unit cost.
type Run = Box<dyn Fn(&Runtime, u32) -> Sample>;

/// One row of the result.
struct Case {
    group: &'static str,
    unit: Unit,
    name: String,
    /// How many units one measurement has.
    units: u32,
    /// Whether others of its group are compared with it too, and not only with the first.
    is_base: bool,
    run: Run,
    samples: Vec<Sample>,
}

impl Case {
    /// The cost relative to another: the median over rounds. Taken within each round, so that a
    /// slow round does not show.
    fn ratio_to(&self, base: &Self) -> f64 {
        let pairs = self.samples.iter().zip(&base.samples);
        median(pairs.map(|(case, base)| case.cpu / base.cpu))
    }

    fn cpu(&self) -> f64 {
        median(self.samples.iter().map(|s| s.cpu))
    }
}

/// What one case cost in one round, in nanoseconds per unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

/// All cases and the runtime they share.
pub(crate) struct Bench {
    options: Options,
    runtime: Runtime,
    cases: Vec<Case>,
    group: (&'static str, Unit),
    /// Groups with the same cases over increasing sizes, in order.
    growing: Vec<Vec<&'static str>>,
    _pin: Vec<u8>,
}

impl Bench {
    /// Starts a runtime with two workers, whatever the machine has.
    pub(crate) fn new(options: Options) -> Result<Self, String> {
        let pin = settled_heap();
        // The time driver is enabled because a runtime under test may set timers.
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
        let group = ("calls", Unit::Call);
        Ok(Self { options, runtime, cases: Vec::new(), group, growing: Vec::new(), _pin: pin })
    }

    /// Starts a group, and returns how many units one measurement has by the options. The first
    /// case that follows is the base of the ratios.
    pub(crate) fn group(&mut self, name: &'static str, unit: Unit) -> u32 {
        self.group = (name, unit);
        self.options.calls
    }

    /// Returns the runtime, the rounds and the calls, if only our own forms were requested.
    pub(crate) fn for_peers(&self) -> Option<(&Runtime, u32, u32)> {
        let Options { peer_json, rounds, calls, .. } = self.options;
        peer_json.then_some((&self.runtime, rounds, calls))
    }

    /// Runs a future that a case needs before it can start.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Adds a subject as two cases: calls in sequence, and a hundred in parallel.
    pub(crate) fn add<S: Subject + 'static>(&mut self, name: &str, subject: S) {
        let subject = Rc::new(subject);
        let same = Rc::clone(&subject);
        let calls = self.options.calls;
        self.case(name.to_owned(), calls, move |rt, calls| rt.block_on(subject.one(calls)));
        self.case(format!("{name} x{FAN}"), calls, move |rt, calls| {
            rt.block_on(async {
                for _ in 0..calls / FAN {
                    same.fan100().await;
                }
            });
        });
    }

    /// Returns whether a group is to be measured as a whole, for those with an expensive setup.
    pub(crate) fn wants(&self, group: &str) -> bool {
        let begins = |only: &String| group.strip_prefix(only.as_str());
        self.options.only.as_ref().is_none_or(|only| {
            begins(only).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    }

    /// Adds one case that does this many units of its group at a time.
    pub(crate) fn case(&mut self, name: String, units: u32, run: impl Fn(&Runtime, u32) + 'static) {
        self.timed_case(name, units, move |runtime, units| measure(runtime, &run, units));
    }

    /// Adds one case that measures itself.
    pub(crate) fn timed_case(
        &mut self,
        name: String,
        units: u32,
        run: impl Fn(&Runtime, u32) -> Sample + 'static,
    ) {
        let (group, unit) = self.group;
        if !self.wants(group) && self.options.only.as_ref() != Some(&name) {
            return;
        }
        let (units, run, samples) = (units.max(1), Box::new(run), Vec::new());
        self.cases.push(Case { group, unit, name, units, is_base: false, run, samples });
    }

    /// Makes the case that was added last a base of its group too.
    pub(crate) fn is_base(&mut self) {
        if let Some(case) = self.cases.last_mut() {
            case.is_base = true;
        }
    }

    /// Declares that these groups have the same cases in increasing sizes: their costs per byte are
    /// compared.
    pub(crate) fn grows(&mut self, groups: impl IntoIterator<Item = &'static str>) {
        self.growing.push(groups.into_iter().collect());
    }

    /// Measures all cases and prints the result.
    pub(crate) fn run(mut self) {
        for case in &self.cases {
            (case.run)(&self.runtime, case.units);
        }
        let count = self.cases.len();
        for round in 0..self.options.rounds as usize {
            for place in 0..count {
                let case = &mut self.cases[(round + place) % count];
                case.samples.push((case.run)(&self.runtime, case.units));
            }
        }
        self.print();
    }

    #[expect(clippy::print_stdout, reason = "the result of the command")]
    fn print(&self) {
        let mut group = "";
        for case in &self.cases {
            let Some(baseline) = self.cases.iter().find(|c| c.group == case.group) else { return };
            let others = self.cases.iter().filter(|c| c.is_base && c.group == case.group);
            let cpu = case.cpu();
            let wall = median(case.samples.iter().map(|s| s.wall));
            let ratio = case.ratio_to(baseline);
            let unit = case.unit.as_str();
            // A byte takes less than a nanosecond, and so does a cached lookup.
            let round = |x: f64| (x * 1000.0).round() / 1000.0;
            if self.options.json {
                let cpu_samples: Vec<f64> = case.samples.iter().map(|s| round(s.cpu)).collect();
                println!(
                    "{}",
                    json!({
                        "group": case.group,
                        "case": case.name,
                        "unit": unit,
                        "cpu_ns": round(cpu),
                        "wall_ns": round(wall),
                        "ratio": round(ratio),
                        "ratio_to": others.map(|o| (o.name.clone(), round(case.ratio_to(o)).into()))
                            .collect::<serde_json::Map<_, _>>(),
                        "rounds": self.options.rounds,
                        "units": case.units,
                        "cpu_ns_by_round": cpu_samples,
                    })
                );
                continue;
            }
            if group != case.group {
                let (cpu, wall) = (format!("cpu ns/{unit}"), format!("wall ns/{unit}"));
                let gap = if group.is_empty() { "" } else { "\n" };
                println!("{gap}{:<26} {cpu:>13} {wall:>13} {:>10}", case.group, "ratio");
                group = case.group;
            }
            let digits = if cpu < 100.0 { 2 } else { 0 };
            print!("{:<26} {cpu:>13.digits$} {wall:>13.digits$} {ratio:>9.2}x", case.name);
            for other in others {
                print!(" {:>8.2}x {}", case.ratio_to(other), other.name);
            }
            match case.unit {
                // Nanoseconds per byte, inverted.
                Unit::Byte => println!(" {:>7.0} MB/s", 1000.0 / cpu),
                _ => println!(),
            }
        }
        self.growing.iter().for_each(|groups| self.print_growth(groups));
    }

    /// Prints the cost of a byte in each group relative to the one before. About one means that
    /// cost is linear in the size; CPU caches that are too small for the larger size add to it.
    #[expect(clippy::print_stdout, reason = "the result of the command")]
    fn print_growth(&self, groups: &[&'static str]) {
        let of = |group: &str, name: &str| {
            self.cases.iter().find(|c| c.group == group && c.name == name).map(Case::cpu)
        };
        let Some((first, rest)) = groups.split_first() else { return };
        let cases: Vec<&Case> = self.cases.iter().filter(|c| c.group == *first).collect();
        if cases.is_empty() || self.options.json {
            return;
        }
        print!("\n{:<26}", "growth, cost per unit");
        rest.iter().for_each(|group| print!(" {group:>20}"));
        println!();
        for case in cases {
            print!("{:<26}", case.name);
            for pair in groups.windows(2) {
                match (of(pair[0], &case.name), of(pair[1], &case.name)) {
                    (Some(before), Some(now)) => print!(" {:>19.2}x", now / before),
                    _ => print!(" {:>20}", "-"),
                }
            }
            println!();
        }
    }
}

/// Leaves a few free megabytes on the heap below one block that stays, and returns that block.
///
/// glibc returns the top of the heap to the system when 128 KiB of it are free. A hundred large
/// futures cross that limit, and then every fan-out pays for its pages anew: 0.7 to 1.1 µs per call
/// were seen, or not, depending on what happened to lie above. No subject should win or lose by
/// that.
fn settled_heap() -> Vec<u8> {
    // Blocks below 128 KiB come from the heap itself, and from its top while it is young.
    let mut blocks: Vec<Vec<u8>> = (0..128).map(|_| black_box(vec![0; 64 * 1024])).collect();
    blocks.pop().unwrap_or_default()
}

/// Measures one case once.
#[expect(clippy::disallowed_methods, reason = "measuring is the one use of the real clock")]
pub(crate) fn measure(runtime: &Runtime, run: &impl Fn(&Runtime, u32), units: u32) -> Sample {
    let (cpu, wall) = (ProcessTime::now(), Instant::now());
    run(runtime, units);
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    let per_unit = |time: std::time::Duration| time.as_secs_f64() * 1e9 / f64::from(units);
    Sample { cpu: per_unit(cpu), wall: per_unit(wall) }
}

/// Returns the median; of an even number, the upper of the two.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
