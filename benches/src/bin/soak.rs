//! Soak test: a million random calls through all features, with random failures.
//!
//! Cache, rate limit, retry, circuit breaker, middleware, hooks, rules, redaction, frames,
//! artifacts with a quota, a slow event subscriber and background results are all on; bodies fail,
//! panic, hang, flood and leak; turns are interrupted and dropped. Checked: every call gets one
//! result, memory is flat after the warm-up, no task leaks, and the artifact directory stays within
//! its quota.
//!
//! `cargo run --release -p haft-benches --bin soak [-- --calls 1000000] [--seed 1]`

#[path = "../../../crates/haft/tests/it/soak_support/mod.rs"]
mod soak;

use std::{
    cell::RefCell,
    path::Path,
    time::{Duration, Instant},
};

use soak::{MAX_ARTIFACT_BYTES, Plan, Report, quiet_panics, soak};

/// How often memory is sampled, evenly spaced.
const MEMORY_SAMPLES: u64 = 20;
/// Caches, records and pools are full after this many samples.
const WARM_SAMPLES: usize = 5;
/// How much the memory may grow between the first samples after that and the last ones. The
/// allocator returns nothing from the middle of its heap, so it may still find a better fit; a leak
/// of one word per call would be eight megabytes.
const MAX_MEMORY_GROWTH_BYTES: u64 = 8 << 20;
/// A run that takes longer has failed.
const MAX_SOAK_TIME: Duration = Duration::from_secs(1_800);
/// How long tasks may take to end after the last result.
const MAX_TASK_END_TIME: Duration = Duration::from_secs(2);

/// One sample: calls so far, bytes in memory, live tasks, bytes in the artifact directory.
struct Sample {
    calls: u64,
    memory: u64,
    tasks: usize,
    kept: u64,
}

fn main() -> Result<(), String> {
    let plan = options(std::env::args().skip(1))?;
    quiet_panics();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = tokio.map_err(|e| format!("cannot start the runtime: {e}"))?;
    let samples = RefCell::new(Vec::new());
    let begun = now();
    let every = (plan.calls / MEMORY_SAMPLES).max(1);
    let step = |calls: u64| {
        let mut samples = samples.borrow_mut();
        if calls / every > samples.len() as u64 {
            samples.push(sample(calls, &tokio, &plan.directory));
        }
        assert!(begun.elapsed() < MAX_SOAK_TIME, "the soak takes longer than {MAX_SOAK_TIME:?}");
    };
    let report = tokio.block_on(soak(&plan, &step)).map_err(|e| e.to_string())?;
    let left = left_behind(&tokio);
    let kept = bytes_in(&plan.directory);
    let _ = std::fs::remove_dir_all(&plan.directory);
    let samples = samples.into_inner();
    print(&report, &samples, begun.elapsed());
    let wrong = verdict(&report, &samples, left, kept);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Plan, String> {
    let directory = std::env::temp_dir().join(format!("haft-soak-{}", std::process::id()));
    let mut plan = Plan { calls: 1_000_000, seed: 1, directory };
    while let Some(arg) = args.next() {
        let text = args.next().ok_or_else(|| format!("`{arg}` needs a number"))?;
        let number = text.parse().map_err(|e| format!("`{arg} {text}`: {e}"))?;
        match arg.as_str() {
            "--calls" => plan.calls = number,
            "--seed" => plan.seed = number,
            _ => return Err(format!("unknown argument `{arg}`; see the top of main.rs")),
        }
    }
    Ok(plan)
}

fn sample(calls: u64, tokio: &tokio::runtime::Runtime, directory: &Path) -> Sample {
    let tasks = tokio.metrics().num_alive_tasks();
    Sample { calls, memory: memory(), tasks, kept: bytes_in(directory) }
}

/// Waits a moment for tasks to end, and returns how many did not.
#[expect(clippy::disallowed_methods, reason = "the last moment, when nothing runs any more")]
fn left_behind(tokio: &tokio::runtime::Runtime) -> usize {
    let until = now() + MAX_TASK_END_TIME;
    while tokio.metrics().num_alive_tasks() > 0 && now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    tokio.metrics().num_alive_tasks()
}

/// Resident memory of this process in bytes; 0 where the system does not report it.
fn memory() -> u64 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1_024
}

fn bytes_in(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|m| if m.is_file() { m.len() } else { 0 })
        .sum()
}

#[expect(clippy::disallowed_methods, reason = "a soak lasts as long as it lasts")]
fn now() -> Instant {
    Instant::now()
}

const MB: f64 = 1_048_576.0;

#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "the result of the command")]
fn print(report: &Report, samples: &[Sample], took: Duration) {
    println!("{:>10} {:>10} {:>8} {:>10}", "calls", "MB", "tasks", "kept MB");
    for sample in samples {
        let (memory, kept) = (sample.memory as f64 / MB, sample.kept as f64 / MB);
        println!("{:>10} {memory:>10.1} {:>8} {kept:>10.2}", sample.calls, sample.tasks);
    }
    println!(
        "\n{} calls submitted, {} ended, in {:.1} s",
        report.asked,
        report.ended,
        took.as_secs_f64()
    );
    for (code, count) in &report.answers {
        println!("{count:>10} {code}");
    }
    println!("{:>10} background results", report.late);
    println!("{:>10} events read, {} reported as missed", report.read, report.missed);
}

/// Returns the failed checks.
#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "the result of the command")]
fn verdict(report: &Report, samples: &[Sample], left: usize, kept: u64) -> Vec<String> {
    let mut wrong = report.mistakes.clone();
    if report.asked != report.ended {
        wrong.push(format!("{} calls were submitted and {} ended", report.asked, report.ended));
    }
    if left > 0 {
        wrong.push(format!("{left} tasks leaked"));
    }
    let most = samples.iter().map(|sample| sample.kept).chain([kept]).max().unwrap_or_default();
    if most > MAX_ARTIFACT_BYTES {
        wrong.push(format!("{most} bytes of artifacts, with a quota of {MAX_ARTIFACT_BYTES}"));
    }
    // Medians of the first samples after the warm-up and of the last ones: a single sample may fall
    // into a burst.
    let warm = samples.get(WARM_SAMPLES..).unwrap_or_default();
    let (first, last) =
        (middle(warm.iter().take(WARM_SAMPLES)), middle(warm.iter().rev().take(WARM_SAMPLES)));
    println!(
        "\nmemory when warm {:.1} MB, at the end {:.1} MB; at most {:.0} MB more is allowed",
        first as f64 / MB,
        last as f64 / MB,
        MAX_MEMORY_GROWTH_BYTES as f64 / MB
    );
    if last > first + MAX_MEMORY_GROWTH_BYTES {
        wrong.push(format!("the memory grew by {} bytes", last - first));
    }
    wrong
}

fn middle<'a>(samples: impl Iterator<Item = &'a Sample>) -> u64 {
    let mut sorted: Vec<u64> = samples.map(|sample| sample.memory).collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
