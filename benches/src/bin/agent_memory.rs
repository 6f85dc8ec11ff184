//! Many agent runs in one process: a thousand runs that all wait inside of a tool.
//!
//! Prints the memory of each run, how much of it is more than the run's history as JSON, and the
//! processor time of a turn. It fails if a run takes more than 64 KiB beyond its history.
//!
//! `cargo run --release -p haft-benches --bin agent_memory [-- --runs 1000]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cpu_time::ProcessTime;
use futures_util::future::join_all;
use haft::{
    Runtime, ToolRegistry,
    agent::{Agent, Runner, ScriptedModel},
    tool::{Capabilities, DynTool, ToolSpec},
};
use serde_json::json;
use tokio::sync::Semaphore;

/// How many turns each run has behind it when it waits.
const TURNS: usize = 5;
/// How much one run may take beyond its history.
const MAX_RUN_BYTES: u64 = 64 << 10;
/// How long all runs may take to reach the wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let runs = match (args.next().as_deref(), args.next()) {
        (None, _) => 1_000,
        (Some("--runs"), Some(count)) => count.parse().map_err(|e| format!("--runs: {e}"))?,
        _ => return Err("usage: agent_memory [--runs 1000]".to_owned()),
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    tokio.map_err(|e| e.to_string())?.block_on(measure(runs))
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
async fn measure(runs: usize) -> Result<(), String> {
    let (waiting, release) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let runner = Runner::new(runtime(&waiting, &release)?);
    let agent = Agent::new("tester", script()?);
    // Caches, pools and the journal are filled by a first run.
    release.add_permits(1);
    let first = runner.run(&agent, "Go.").await.map_err(|e| e.to_string())?;
    let history = serde_json::to_string(&first.history).map_err(|e| e.to_string())?.len() as u64;
    waiting.store(0, Ordering::SeqCst);
    let (before, cpu) = (resident()?, ProcessTime::now());
    let all = join_all((0..runs).map(|_| runner.run(&agent, "Go.")));
    let during = async {
        let all_wait = async {
            while waiting.load(Ordering::SeqCst) < runs {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = tokio::time::timeout(MAX_WAIT, all_wait).await;
        let during = resident();
        release.add_permits(runs);
        reached.map_err(|_| "not all runs reached the wait".to_owned())?;
        during
    };
    let (results, during) = tokio::join!(all, during);
    let failed = results.iter().filter(|result| result.is_err()).count();
    if failed > 0 {
        return Err(format!("{failed} runs failed"));
    }
    let turns = results.iter().flatten().map(|result| u64::from(result.usage.turns)).sum::<u64>();
    let cpu = cpu.elapsed().as_nanos() / u128::from(turns.max(1));
    let each = during?.saturating_sub(before) / runs.max(1) as u64;
    let beyond = each.saturating_sub(history);
    println!("{runs} runs: {each} bytes each, {beyond} beyond a history of {history} bytes");
    println!("{turns} turns: {cpu} ns of processor time each");
    match beyond > MAX_RUN_BYTES {
        true => Err(format!("a run may take {MAX_RUN_BYTES} bytes beyond its history")),
        false => Ok(()),
    }
}

fn runtime(waiting: &Arc<AtomicUsize>, release: &Arc<Semaphore>) -> Result<Runtime, String> {
    let spec =
        |name: &str| ToolSpec::new(name, "Reads.").read_only().capabilities(Capabilities::NONE);
    let read = DynTool::new(spec("read"), json!({"type": "object"}), |_, _| async {
        "some lines of a file. ".repeat(20)
    });
    let (waiting, release) = (Arc::clone(waiting), Arc::clone(release));
    let wait = DynTool::new(spec("wait"), json!({"type": "object"}), move |_, _| {
        let (waiting, release) = (Arc::clone(&waiting), Arc::clone(&release));
        async move {
            waiting.fetch_add(1, Ordering::SeqCst);
            if let Ok(permit) = release.acquire().await {
                permit.forget();
            }
            "released"
        }
    });
    let registry = ToolRegistry::builder().add(vec![read, wait]).build();
    let runtime = Runtime::builder().registry(registry.map_err(|e| e.to_string())?);
    runtime.build().map_err(|e| e.to_string())
}

fn script() -> Result<ScriptedModel, String> {
    let mut lines = r#"{"calls": [{"name": "read"}]}"#.to_owned() + "\n";
    lines = lines.repeat(TURNS);
    lines.push_str("{\"calls\": [{\"name\": \"wait\"}]}\n{\"text\": \"done\"}\n");
    ScriptedModel::parse(&lines).map_err(|e| e.to_string())
}

/// The memory of this process, in bytes.
#[expect(clippy::disallowed_methods, reason = "the kernel's own count")]
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib = kib.and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| "no VmRSS in /proc/self/status".to_owned())
}
