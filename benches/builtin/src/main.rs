//! What the built-in tools cost, beside the programs and calls that people use for the same. One
//! run, ratios.
//!
//! A group has one case of ours and one or more others. Rounds are interleaved and the first is not
//! counted; a ratio is taken within each round, and the middle one is told. Time on the wall is what
//! a person feels. CPU time is that of this program and of all it has waited for, so whoever is quick
//! by using every core shows it there. Goal: within 1.3 times on the wall, where a goal makes sense.
//!
//! `cargo run --release -p haft-bench-builtin [-- --rounds 15] [--only search]`

mod denied;
mod files;
mod launch;
mod names;
mod open;

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

/// The goal: ours within so many times of the other.
const GOAL: f64 = 1.3;

/// One way to do the work of a group.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Does it once; an error ends the group.
    pub(crate) run: Box<dyn FnMut() -> Result<(), String>>,
    /// Whether ours should come near it. One that promises less is only there to be looked at.
    pub(crate) is_rival: bool,
    /// Removes what a run has left. It is not measured.
    pub(crate) clean: Box<dyn FnMut()>,
}

impl Case {
    /// Makes one that ours should come near, or ours itself.
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl FnMut() -> Result<(), String> + 'static,
    ) -> Self {
        Self { name: name.into(), run: Box::new(run), is_rival: true, clean: Box::new(|| ()) }
    }

    /// Does something after each run that is not measured.
    pub(crate) fn cleaned(self, clean: impl FnMut() + 'static) -> Self {
        Self { clean: Box::new(clean), ..self }
    }

    /// Makes one that promises less.
    pub(crate) fn floor(
        name: impl Into<String>,
        run: impl FnMut() -> Result<(), String> + 'static,
    ) -> Self {
        Self { is_rival: false, ..Self::new(name, run) }
    }
}

/// Cases that do the same. Ours is the first.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
    /// How often a case does it in one run.
    pub(crate) times: u32,
    /// What is waited after each run, so that what one leaves behind is not the next one's cost.
    pub(crate) rest: Duration,
    /// Whether CPU time says something: not where a program leaves children that nobody waits for.
    pub(crate) has_cpu: bool,
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
    let wants = |name: &str| only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
    let mut groups = files::groups(&wants)?;
    if wants("launch") {
        groups.extend(launch::groups()?);
    }
    if wants("denied") {
        groups.extend(denied::groups()?);
    }
    if wants("names") {
        groups.extend(names::groups()?);
    }
    if wants("open") {
        groups.extend(open::groups()?);
    }
    for group in groups {
        measure(group, rounds.max(3))?;
    }
    Ok(())
}

/// Says what is left out, and why.
#[expect(clippy::print_stderr, reason = "a bench says what it leaves out")]
pub(crate) fn without(what: &str, why: &str) {
    eprintln!("without {what}: {why}");
}

/// What one run took.
#[derive(Clone, Copy)]
struct Time {
    wall: f64,
    cpu: f64,
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn measure(mut group: Group, rounds: usize) -> Result<(), String> {
    let count = group.cases.len();
    let mut times: Vec<Vec<Time>> = vec![Vec::new(); count];
    for round in 0..=rounds {
        for place in 0..count {
            let case = (round + place) % count;
            let time = timed(&mut group.cases[case].run, group.rest)?;
            (group.cases[case].clean)();
            // The first round fills the caches of all alike.
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

/// Seconds of this program and of those it has waited for.
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
