//! Many servers at once: they start in parallel, and a dead or slow one delays no other.

use std::time::Duration;

use haft_mcp::client::{RemoteServer, ServerConfig, ServerTransport, StdioCommand};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::{HttpServer, call, names, runtime, stdio};

fn named(name: String, config: ServerConfig) -> RemoteServer {
    let config = ServerConfig { name, start_wait: Duration::from_secs(2), ..config };
    RemoteServer::new(config).unwrap()
}

#[tokio::test]
async fn a_hundred_servers_start_in_parallel_and_dead_ones_delay_nothing() {
    // Servers over HTTP, so that the test measures our side and not a hundred processes.
    let http = HttpServer::start(&["--modern"]);
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
    assert!(took < Duration::from_secs(4), "the first list took {took:?}");
    // On a busy machine some may still be starting; the next turn has them.
    let ready = |names: &[String]| names.iter().filter(|name| name.ends_with("__echo")).count();
    let mut found = ready(&listed);
    for _ in 0..50 {
        if found == 90 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        found = ready(&names(&runtime).await);
    }
    assert_eq!(found, 90);
    assert_eq!(call(&runtime, "s42__echo", json!({"text": "x"})).await.text(), "x");
    let turn = runtime.run().turn().await.unwrap();
    let problems = turn.snapshot().problems().join("\n");
    assert!(problems.contains("`dead0`") && problems.contains("`slow0`"), "{problems}");
    let began = Instant::now();
    runtime.close().await;
    assert!(began.elapsed() < Duration::from_secs(20), "closing took {:?}", began.elapsed());
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
