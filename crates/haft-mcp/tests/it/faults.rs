//! Servers that fail in every way: each call is answered, the next one works, nothing stays.

use std::time::Duration;

use haft_mcp::client::{HttpEndpoint, ServerConfig, ServerState, ServerTransport, StdioCommand};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::{HttpServer, call, code, is_alone, names, resident_kib, runtime, server, stdio};

/// A server whose calls fail after a short time.
fn impatient(args: &[&str]) -> ServerConfig {
    ServerConfig {
        timeout: Duration::from_millis(800),
        max_timeout: Duration::from_secs(3),
        ..stdio(args)
    }
}

#[tokio::test]
async fn a_server_killed_in_a_call_is_started_again() {
    let runtime = runtime(&[&server(stdio(&[]))]);
    let crashed = call(&runtime, "fix__crash", json!({})).await;
    assert_eq!(code(&crashed), "unknown_outcome");
    let next = call(&runtime, "fix__echo", json!({"text": "again"})).await;
    assert_eq!(next.text(), "again", "reconnected");
    runtime.close().await;
}

#[tokio::test]
async fn a_server_that_keeps_crashing_is_left_alone() {
    let remote = server(stdio(&[]));
    let runtime = runtime(&[&remote]);
    let mut codes = Vec::new();
    for _ in 0..8 {
        codes.push(code(&call(&runtime, "fix__crash", json!({})).await));
    }
    assert_eq!(codes.last(), Some(&"circuit_open"), "{codes:?}");
    let began = Instant::now();
    assert_eq!(code(&call(&runtime, "fix__echo", json!({})).await), "circuit_open");
    assert!(began.elapsed() < Duration::from_secs(2), "calls fail at once");
    assert_eq!(remote.status().state, ServerState::Failed);
    runtime.close().await;
}

#[tokio::test]
async fn a_server_that_does_not_exist_fails_with_the_reason() {
    let mut config = stdio(&[]);
    config.transport = haft_mcp::client::ServerTransport::Stdio(
        haft_mcp::client::StdioCommand::new("/nonexistent/server"),
    );
    let remote = server(config);
    let status = remote.wait(Duration::from_secs(10)).await;
    assert_eq!(status.state, ServerState::Failed);
    assert!(status.error.unwrap().contains("/nonexistent/server"));
    remote.shut_down().await;
}

#[tokio::test]
async fn invalid_json_wrong_ids_and_duplicates_are_ignored() {
    let runtime = runtime(&[&server(impatient(&[]))]);
    let garbage = call(&runtime, "fix__garbage", json!({})).await;
    assert_eq!(garbage.text(), "after garbage");
    let wrong = call(&runtime, "fix__wrong_id", json!({})).await;
    assert_eq!(code(&wrong), "unknown_outcome", "no answer to this call");
    let duplicate = call(&runtime, "fix__duplicate", json!({})).await;
    assert_eq!(duplicate.text(), "answer 0", "the first answer counts");
    assert_eq!(call(&runtime, "fix__echo", json!({"text": "fine"})).await.text(), "fine");
    runtime.close().await;
}

#[tokio::test]
async fn a_flood_of_stderr_blocks_nothing_and_is_kept_bounded() {
    let remote = server(stdio(&[]));
    let runtime = runtime(&[&remote]);
    let result = call(&runtime, "fix__flood_stderr", json!({})).await;
    assert_eq!(result.text(), "flooded");
    assert!(remote.status().stderr.len() <= 32 << 10);
    runtime.close().await;
}

#[tokio::test]
async fn a_flood_of_stdout_is_not_kept_in_memory_and_the_call_is_answered() {
    let name = "faults::a_flood_of_stdout_is_not_kept_in_memory_and_the_call_is_answered";
    if !is_alone(name) {
        return;
    }
    // 30 MB of log entries and of lines that are no messages, and then the answer.
    let remote = server(stdio(&[]));
    let runtime = runtime(&[&remote]);
    let before = resident_kib();
    let result = call(&runtime, "fix__flood_stdout", json!({})).await;
    assert_eq!(result.text(), "flooded");
    let grown = resident_kib().saturating_sub(before);
    eprintln!("{grown} KiB more");
    assert!(grown < 20_000, "{grown} KiB more");
    assert_eq!(call(&runtime, "fix__echo", json!({"text": "fine"})).await.text(), "fine");
    runtime.close().await;
}

#[tokio::test]
async fn an_endless_line_is_not_kept_in_memory_and_the_call_ends() {
    if !is_alone("faults::an_endless_line_is_not_kept_in_memory_and_the_call_ends") {
        return;
    }
    let before = resident_kib();
    let runtime = runtime(&[&server(impatient(&[]))]);
    let result = call(&runtime, "fix__endless", json!({})).await;
    assert_eq!(code(&result), "unknown_outcome");
    runtime.close().await;
    let grown = resident_kib().saturating_sub(before);
    eprintln!("{grown} KiB more");
    assert!(grown < 50_000, "{grown} KiB more");
}

#[tokio::test]
async fn a_result_of_a_hundred_megabytes_is_a_failure_and_not_a_timeout() {
    let runtime = runtime(&[&server(stdio(&[]))]);
    let big = call(&runtime, "fix__big", json!({"n": 100_000_000})).await;
    assert_eq!(code(&big), "tool_failed", "{}", big.text());
    assert!(big.text().contains("larger than"), "{}", big.text());
    assert!(big.elapsed() < Duration::from_secs(60), "not after the timeout of the call");
    let fair = call(&runtime, "fix__big", json!({"n": 1_000_000})).await;
    assert!(!fair.is_error() && fair.text().len() < 200_000, "truncated for the model");
    runtime.close().await;
}

#[tokio::test]
async fn a_result_of_a_hundred_megabytes_over_http_is_a_failure() {
    let http = HttpServer::start(&["--modern"]);
    let runtime = runtime(&[&server(http.config())]);
    let big = call(&runtime, "fix__big", json!({"n": 100_000_000})).await;
    assert!(big.is_error());
    assert!(big.elapsed() < Duration::from_secs(60), "not after the timeout of the call");
    assert_eq!(call(&runtime, "fix__echo", json!({"text": "fine"})).await.text(), "fine");
    runtime.close().await;
}

#[tokio::test]
async fn a_json_body_of_unknown_length_is_bounded_and_its_call_ends_at_once() {
    if !is_alone("faults::a_json_body_of_unknown_length_is_bounded_and_its_call_ends_at_once") {
        return;
    }
    let http = HttpServer::start(&["--modern", "--json"]);
    let runtime = runtime(&[&server(http.config())]);
    assert_eq!(call(&runtime, "fix__echo", json!({"text": "x"})).await.text(), "x");
    let before = resident_kib();
    let big = call(&runtime, "fix__big", json!({"n": 100_000_000})).await;
    assert_eq!(code(&big), "tool_failed", "{}", big.text());
    assert!(big.text().contains("larger than"), "{}", big.text());
    assert!(big.elapsed() < Duration::from_secs(60), "not after the timeout of the call");
    let grown = resident_kib().saturating_sub(before);
    eprintln!("{grown} KiB more");
    assert!(grown < 50_000, "{grown} KiB more");
    let fair = call(&runtime, "fix__big", json!({"n": 1_000_000})).await;
    assert!(!fair.is_error(), "{}", fair.text());
    runtime.close().await;
}

#[tokio::test]
async fn ten_thousand_tools_are_listed_over_many_pages() {
    let remote = server(stdio(&["--tools", "10000"]));
    let runtime = runtime(&[&remote]);
    assert_eq!(names(&runtime).await.len(), 10_000);
    let result = call(&runtime, "fix__tool_9999", json!({})).await;
    assert!(!result.is_error(), "{}", result.text());
    runtime.close().await;
    let more = server(stdio(&["--tools", "10001"]));
    let status = more.wait(Duration::from_secs(120)).await;
    assert!(status.error.unwrap().contains("more than 10000 tools"));
    more.shut_down().await;
}

#[tokio::test]
async fn an_http_server_that_dies_is_reported_and_found_again() {
    let http = HttpServer::start(&["--modern"]);
    let remote = server(http.config());
    let runtime = runtime(&[&remote]);
    assert_eq!(call(&runtime, "fix__echo", json!({"text": "x"})).await.text(), "x");
    drop(http);
    let lost = call(&runtime, "fix__echo", json!({"text": "x"})).await;
    assert!(lost.is_error());
    runtime.close().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_says_why_in_words_for_people() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", unused.local_addr().unwrap());
    drop(unused);
    let endpoint = |url: &str| ServerTransport::Http(HttpEndpoint::new(url));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs_up = format!("http://{}/mcp", closed.local_addr().unwrap());
    std::thread::spawn(move || closed.incoming().take(8).for_each(drop));
    let ends = ServerTransport::Stdio(StdioCommand::new("/bin/true"));
    let cases = [
        (endpoint(&url), "cannot be reached: Connection refused"),
        (endpoint(&hangs_up), "cannot be reached"),
        (ends, "ended before it answered"),
    ];
    for (transport, expected) in cases {
        let remote = server(ServerConfig::new("fix", transport));
        let status = remote.wait(Duration::from_secs(20)).await;
        let error = status.error.unwrap_or_default();
        assert!(error.contains(expected), "{error}");
        for noise in ["haft_mcp", "rmcp", "Transport [", "reqwest"] {
            assert!(!error.contains(noise), "{error}");
        }
        remote.shut_down().await;
    }
}

#[tokio::test]
async fn slow_loris_http_cannot_hold_a_call_beyond_its_timeout() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let trickle = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                for byte in b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n".iter().cycle()
                {
                    if stream.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
    });
    let mut config = stdio(&[]);
    config.transport =
        haft_mcp::client::ServerTransport::Http(haft_mcp::client::HttpEndpoint::new(url));
    config.start_timeout = Duration::from_secs(1);
    let remote = server(config);
    let began = Instant::now();
    let status = remote.wait(Duration::from_secs(20)).await;
    assert_eq!(status.state, ServerState::Failed);
    assert!(began.elapsed() < Duration::from_secs(5));
    remote.shut_down().await;
    trickle.abort();
}
