//! The cost of the built-in tools, compared with the usual programs and syscalls. One run, ratios.
//!
//! A group has one case of ours and one or more others. Rounds are interleaved and the first is not
//! counted; a ratio is taken within each round, and the median is printed. Wall time is what a
//! person waits. CPU time includes this program and all children it waited for, so a program that
//! is fast because it uses every core shows it there. Goal: within 1.3 times of the wall time,
//! where a goal makes sense.
//!
//! `cargo run --release -p haft-bench-builtin [-- --rounds 15] [--only search]`

mod denied_paths;
mod files;
mod launch;
mod names;
mod network;
mod open;

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

/// The goal: the maximum ratio of ours to the other.
const GOAL: f64 = 1.3;

/// One way to do the work of a group.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Runs it once; an error ends the group.
    pub(crate) run: Box<dyn FnMut() -> Result<(), String>>,
    /// Whether the goal applies to it. A case that does less is only shown for reference.
    pub(crate) is_rival: bool,
    /// Removes what a run has left. Not measured.
    pub(crate) clean: Box<dyn FnMut()>,
}

impl Case {
    /// Makes a case that the goal applies to, or ours itself.
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl FnMut() -> Result<(), String> + 'static,
    ) -> Self {
        Self { name: name.into(), run: Box::new(run), is_rival: true, clean: Box::new(|| ()) }
    }

    /// Runs something after each run that is not measured.
    pub(crate) fn cleaned(self, clean: impl FnMut() + 'static) -> Self {
        Self { clean: Box::new(clean), ..self }
    }

    /// Makes a case that does less, for reference.
    pub(crate) fn baseline(
        name: impl Into<String>,
        run: impl FnMut() -> Result<(), String> + 'static,
    ) -> Self {
        Self { is_rival: false, ..Self::new(name, run) }
    }
}

/// Cases that do the same work. Ours is the first.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
    /// How often a case repeats the work in one run.
    pub(crate) times: u32,
    /// The pause after each run, so that its leftovers do not slow the next one.
    pub(crate) rest: Duration,
    /// Whether CPU time is meaningful: not where a program leaves children that it does not wait
    /// for.
    pub(crate) has_cpu: bool,
    /// The maximum number of rounds, for cases that take seconds.
    pub(crate) max_rounds: usize,
}

fn main() -> Result<(), String> {
    haft_sandbox::init();
    let (mut rounds, mut only) = (15_usize, None);
    let mut args = std::env::args().skip(1);
    if std::env::args().nth(1).as_deref() == Some(names::WORK) {
        return names::work(&args.nth(1).unwrap_or_default());
    }
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value"));
        match arg.as_str() {
            "--rounds" => rounds = value()?.parse().map_err(|e| format!("`--rounds`: {e}"))?,
            "--only" => only = Some(value()?),
            _ => return Err(format!("unknown argument `{arg}`; see the top of main.rs")),
        }
    }
    let wants = |name: &str| {
        let is_wanted = |only: &String| name.starts_with(only) || only.starts_with(name);
        only.as_ref().is_none_or(is_wanted)
    };
    let mut groups = files::groups(&wants)?;
    if wants("launch") {
        groups.extend(launch::groups()?);
    }
    if wants("denied") {
        groups.extend(denied_paths::groups()?);
    }
    if wants("names") {
        groups.extend(names::groups()?);
    }
    if wants("network") {
        groups.extend(network::groups()?);
    }
    if wants("open") {
        groups.extend(open::groups()?);
    }
    // With a colon it is the beginning of the name of a group: `--only 'names: npm'`.
    let group = only.as_ref().filter(|only| only.contains(':'));
    groups.retain(|it| group.is_none_or(|wanted| it.name.starts_with(wanted)));
    for group in groups {
        measure(group, rounds.max(3))?;
    }
    Ok(())
}

/// Prints what is skipped, and why.
#[expect(clippy::print_stderr, reason = "a bench says what it leaves out")]
pub(crate) fn without(what: &str, why: &str) {
    eprintln!("without {what}: {why}");
}

/// The cost of one run.
#[derive(Clone, Copy)]
struct Time {
    wall: f64,
    cpu: f64,
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn measure(mut group: Group, rounds: usize) -> Result<(), String> {
    let count = group.cases.len();
    let mut times: Vec<Vec<Time>> = vec![Vec::new(); count];
    let rounds = rounds.min(group.max_rounds);
    for round in 0..=rounds {
        for place in 0..count {
            let case = (round + place) % count;
            let time = timed(&mut group.cases[case].run, group.rest)?;
            (group.cases[case].clean)();
            // The first round fills the caches for all cases.
            if round > 0 {
                times[case].push(time);
            }
        }
    }
    let (unit, scale) = if group.times > 1 { ("µs", 1e6) } else { ("ms", 1e3) };
    let scale = scale / f64::from(group.times);
    let heads = [format!("wall {unit}"), "best".to_owned(), format!("cpu {unit}")];
    let [wall, best, cpu] = heads;
    let (cpu, ratios) = if group.has_cpu {
        (cpu, "ours / it: wall       cpu")
    } else {
        (String::new(), "ours / it: wall")
    };
    println!("\n{:<34} {wall:>9} {best:>9} {cpu:>9} {ratios:>15}", group.name);
    for (case, own) in group.cases.iter().zip(&times) {
        let of = |pick: fn(&Time) -> f64| {
            let pairs = times[0].iter().zip(own);
            let ratio = median(pairs.map(|(ours, other)| pick(ours) / pick(other)));
            (median(own.iter().map(pick)) * scale, ratio)
        };
        let (wall, ratio) = of(|time| time.wall);
        let (cpu, cpu_ratio) = of(|time| time.cpu);
        let best = own.iter().map(|time| time.wall).fold(f64::INFINITY, f64::min) * scale;
        let goal = if case.is_rival && ratio > GOAL { "  beyond the goal" } else { "" };
        let name = &case.name;
        let cell = |value: f64| if group.has_cpu { format!("{value:.2}") } else { String::new() };
        let (cpu, cpu_ratio) = (cell(cpu), cell(cpu_ratio));
        println!("{name:<34} {wall:>9.2} {best:>9.2} {cpu:>9} {ratio:>15.2} {cpu_ratio:>9}{goal}");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a bench measures the clock on the wall, and waits")]
fn timed(run: &mut dyn FnMut() -> Result<(), String>, rest: Duration) -> Result<Time, String> {
    let used = cpu()?;
    let begun = Instant::now();
    run()?;
    let wall = begun.elapsed().as_secs_f64();
    if !rest.is_zero() {
        std::thread::sleep(rest);
    }
    Ok(Time { wall, cpu: (cpu()? - used).max(f64::MIN_POSITIVE) })
}

/// CPU seconds of this program and of its waited-for children.
fn cpu() -> Result<f64, String> {
    let mut all = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let used = getrusage(who).map_err(|e| format!("no clock of the processor: {e}"))?;
        for time in [used.user_time(), used.system_time()] {
            let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
            let micros = u64::try_from(time.tv_usec()).unwrap_or_default();
            all += (Duration::from_secs(seconds) + Duration::from_micros(micros)).as_secs_f64();
        }
    }
    Ok(all)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
