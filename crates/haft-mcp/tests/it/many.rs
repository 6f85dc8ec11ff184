//! Many servers at once: they start in parallel, and a dead or slow one delays no other.

#[cfg(target_os = "linux")]
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_mcp::client::{RemoteServer, ServerConfig, ServerTransport, StdioCommand};
use serde_json::json;
use tokio::time::Instant;

#[cfg(target_os = "linux")]
use crate::kit::is_alone;
use crate::kit::{HttpServer, call, names, runtime, stdio};

fn named(name: String, config: ServerConfig) -> RemoteServer {
    // The default of a configuration, and not the patience of the other tests.
    let start_wait = ServerConfig::new("x", config.transport.clone()).start_wait;
    RemoteServer::new(ServerConfig { name, start_wait, ..config }).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_hundred_servers_start_in_parallel_and_the_first_list_is_there_within_two_seconds() {
    let name = "many::\
        a_hundred_servers_start_in_parallel_and_the_first_list_is_there_within_two_seconds";
    if !is_alone(name) {
        return;
    }
    let threads = Arc::new(Mutex::new(vec![this_thread()]));
    let known = Arc::clone(&threads);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || known.lock().unwrap().push(this_thread()))
        .build()
        .unwrap();
    let mut times = Vec::new();
    for _ in 0..3 {
        let delays = |threads: &[String]| threads.iter().map(|id| run_delay(id)).collect();
        let before: Vec<Duration> = delays(&threads.lock().unwrap());
        let took = runtime.block_on(start_a_hundred_servers(|| delays(&threads.lock().unwrap())));
        let (took, after, first) = took;
        // What other programs had of the processor is not ours. On an idle machine it is nothing.
        let waits = after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before));
        let taken = waits.max().unwrap_or_default();
        eprintln!(
            "the first list took {took:?}, of which other programs had {taken:?}; it had {first} servers"
        );
        let took = took.saturating_sub(taken);
        // The list ends its wait for slow servers in time anyway, so it must also be complete.
        if took < Duration::from_secs(2) && first == 90 {
            return;
        }
        times.push((took, first));
    }
    panic!("the time and the servers of the first list: {times:?}");
}

/// The id of this thread.
#[cfg(target_os = "linux")]
fn this_thread() -> String {
    let path = std::fs::read_link("/proc/thread-self").unwrap();
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// How long a thread could run and waited for a processor.
#[cfg(target_os = "linux")]
fn run_delay(thread: &str) -> Duration {
    let text = std::fs::read(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let nanos = text.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// Starts a hundred servers and returns when the first list was there, and of how many servers it
/// had the tools. Every server that can be reached has its tools in the end, and the others are
/// named.
#[cfg(target_os = "linux")]
async fn start_a_hundred_servers<T>(sample: impl Fn() -> T) -> (Duration, T, usize) {
    // Servers over HTTP, so that the test measures our side and not a hundred processes.
    let http = HttpServer::start(&["--modern", "--tools", "20"]);
    let missing = || ServerTransport::Stdio(StdioCommand::new("/nonexistent"));
    let mut servers: Vec<RemoteServer> =
        (0..90).map(|n| named(format!("s{n}"), http.config())).collect();
    servers.extend((0..5).map(|n| named(format!("dead{n}"), ServerConfig::new("x", missing()))));
    servers.extend((0..5).map(|n| named(format!("slow{n}"), stdio(&["--delay", "60000"]))));
    let all: Vec<&RemoteServer> = servers.iter().collect();
    let runtime = runtime(&all);
    let began = Instant::now();
    let listed = names(&runtime).await;
    let (took, sampled) = (began.elapsed(), sample());
    // On a busy machine some may still be starting; the next turn has them.
    let ready = |names: &[String]| names.iter().filter(|name| name.ends_with("__tool_0")).count();
    let first = ready(&listed);
    let mut found = first;
    for _ in 0..50 {
        if found == 90 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        found = ready(&names(&runtime).await);
    }
    assert_eq!(found, 90);
    assert!(!call(&runtime, "s42__tool_0", json!({})).await.is_error());
    let turn = runtime.run().turn().await.unwrap();
    let problems = turn.snapshot().problems().join("\n");
    assert!(problems.contains("`dead0`") && problems.contains("`slow0`"), "{problems}");
    let began = Instant::now();
    runtime.close().await;
    assert!(began.elapsed() < Duration::from_secs(20), "closing took {:?}", began.elapsed());
    (took, sampled, first)
}

#[tokio::test]
async fn calls_of_one_server_run_concurrently_over_one_connection() {
    let config = ServerConfig { trust: haft_mcp::client::ServerTrust::Annotations, ..stdio(&[]) };
    let remote = RemoteServer::new(config).unwrap();
    let runtime = runtime(&[&remote]);
    let turn = runtime.run().turn().await.unwrap();
    let calls: Vec<_> = (0..8)
        .map(|n| haft::ToolCall::new(format!("c{n}"), "fix__progress", json!({"n": 5})))
        .collect();
    let began = Instant::now();
    let results = turn.run(calls).await;
    assert!(results.iter().all(|result| result.text() == "done"));
    assert!(began.elapsed() < Duration::from_secs(3), "one after the other would take four");
    runtime.close().await;
}
