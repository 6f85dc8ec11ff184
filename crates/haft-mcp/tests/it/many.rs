//! Many servers at once: they start in parallel, and a dead or slow one delays no other.

use std::time::Duration;

use haft_mcp::client::{RemoteServer, ServerConfig, ServerTransport, StdioCommand};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::{HttpServer, call, names, runtime, stdio};

fn named(name: String, config: ServerConfig) -> RemoteServer {
    // The default of a configuration, and not the patience of the other tests.
    let start_wait = ServerConfig::new("x", config.transport.clone()).start_wait;
    RemoteServer::new(ServerConfig { name, start_wait, ..config }).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_servers_start_in_parallel_and_the_first_list_is_there_within_two_seconds() {
    // Other programs may have the processor for a while, so that the best of a few tries counts.
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(start_a_hundred_servers().await);
        if times.last().is_some_and(|took| *took < Duration::from_secs(2)) {
            return;
        }
    }
    panic!("the first list took {times:?}");
}

/// Starts a hundred servers and returns when the first list was there. Every server that can be
/// reached has its tools in the end, and the others are named.
async fn start_a_hundred_servers() -> Duration {
    // Servers over HTTP, so that the test measures our side and not a hundred processes.
    let http = HttpServer::start(&["--modern", "--tools", "5"]);
    let missing = || ServerTransport::Stdio(StdioCommand::new("/nonexistent"));
    let mut servers: Vec<RemoteServer> =
        (0..90).map(|n| named(format!("s{n}"), http.config())).collect();
    servers.extend((0..5).map(|n| named(format!("dead{n}"), ServerConfig::new("x", missing()))));
    servers.extend((0..5).map(|n| named(format!("slow{n}"), stdio(&["--delay", "60000"]))));
    let all: Vec<&RemoteServer> = servers.iter().collect();
    let runtime = runtime(&all);
    let began = Instant::now();
    let listed = names(&runtime).await;
    let took = began.elapsed();
    // On a busy machine some may still be starting; the next turn has them.
    let ready = |names: &[String]| names.iter().filter(|name| name.ends_with("__tool_0")).count();
    let mut found = ready(&listed);
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
    took
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
