//! What the built-in tools cost, beside the programs that people use for the same. One run, ratios.
//!
//! A group has one case of ours and one or more others. Rounds are interleaved and the first is not
//! counted; a ratio is taken within each round, and the middle one is told. Time is that on the wall,
//! because the others are processes of their own. Goal: within 1.3 times.
//!
//! `cargo run --release -p haft-bench-hands [-- --rounds 15] [--only search]`

mod files;

use std::time::{Duration, Instant};

/// The goal: ours within so many times of the other.
const GOAL: f64 = 1.3;

/// One way to do the work of a group.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Does it once; an error ends the group.
    pub(crate) run: Box<dyn FnMut() -> Result<(), String>>,
}

/// Cases that do the same. Ours is the first.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) cases: Vec<Case>,
}

fn main() -> Result<(), String> {
    let (mut rounds, mut only) = (15_usize, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value"));
        match arg.as_str() {
            "--rounds" => rounds = value()?.parse().map_err(|e| format!("`--rounds`: {e}"))?,
            "--only" => only = Some(value()?),
            _ => return Err(format!("unknown argument `{arg}`; see the top of main.rs")),
        }
    }
    let wants = |name: &str| only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
    for group in files::groups(&wants)? {
        measure(group, rounds.max(3))?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn measure(mut group: Group, rounds: usize) -> Result<(), String> {
    let count = group.cases.len();
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); count];
    for round in 0..=rounds {
        for place in 0..count {
            let case = (round + place) % count;
            let time = timed(&mut group.cases[case].run)?;
            // The first round fills the caches of all alike.
            if round > 0 {
                times[case].push(time);
            }
        }
    }
    println!("\n{:<28} {:>12} {:>22}", group.name, "wall ms", "haft is so many times");
    for (case, own) in group.cases.iter().zip(&times) {
        let middle = median(own.iter().map(|time| time.as_secs_f64() * 1e3));
        let pairs = times[0].iter().zip(own);
        let ratio = median(pairs.map(|(ours, other)| ours.as_secs_f64() / other.as_secs_f64()));
        let goal = if ratio <= GOAL { "" } else { "  beyond the goal" };
        println!("{:<28} {middle:>12.2} {ratio:>22.2}{goal}", case.name);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a bench measures the clock on the wall")]
fn timed(run: &mut dyn FnMut() -> Result<(), String>) -> Result<Duration, String> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
