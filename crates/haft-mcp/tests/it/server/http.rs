//! HTTP: sessions and self-describing requests on one endpoint, checks of headers, tokens, limits.

use std::{net::SocketAddr, time::Duration};

use haft::{
    Failure, Output, ToolContext,
    tool::{Capabilities, DynTool, ToolSpec},
};
use haft_mcp::server::{CallPeer, HttpOptions, LogLevel, McpServer, McpServerBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::client::{LEGACY, MODERN, echo, runtime};
#[cfg(target_os = "linux")]
use crate::kit::{is_alone, resident_kib};

pub(super) struct Server {
    pub(super) address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), haft::Error>>,
}

impl Server {
    pub(super) async fn start(server: McpServerBuilder, options: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let (server, token) = (server.build().unwrap(), stop.clone());
        let task =
            tokio::task::spawn(async move { server.serve_http(listener, options, token).await });
        Self { address, stop, task }
    }

    async fn echo(options: HttpOptions) -> Self {
        Self::start(McpServer::builder(runtime(echo()).build().unwrap()), options).await
    }

    pub(super) async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.task)
            .await
            .expect("it ends")
            .unwrap()
            .unwrap();
    }

    /// Sends a request on a connection of its own, and returns the status, the head and the body.
    pub(super) async fn send(&self, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        self.send_as("POST", headers, body).await
    }

    async fn send_as(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{method} /mcp HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        let mut all = vec![
            ("Host".to_owned(), self.address.to_string()),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Connection".to_owned(), "close".to_owned()),
        ];
        for (name, value) in headers {
            all.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            all.push(((*name).to_owned(), (*value).to_owned()));
        }
        for (name, value) in all {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("an answer").unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        (status, head.to_lowercase(), body.to_owned())
    }

    async fn modern(&self, name: &str, arguments: Value, more: &[(&str, &str)]) -> (u16, String) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut headers = vec![
            ("MCP-Protocol-Version", MODERN),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", name),
        ];
        headers.extend_from_slice(more);
        let (status, _, body) = self.send(&headers, &body.to_string()).await;
        (status, body)
    }

    /// Opens a session and returns its id.
    pub(super) async fn session(&self, more: &[(&str, &str)]) -> String {
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let (status, head, _) = self.send(more, &body.to_string()).await;
        assert_eq!(status, 200, "{head}");
        let line = head.lines().find(|line| line.starts_with("mcp-session-id:")).unwrap();
        line.split_once(':').unwrap().1.trim().to_owned()
    }

    pub(super) async fn legacy(&self, session: &str, more: &[(&str, &str)]) -> (u16, String) {
        let params = json!({"name": "echo", "arguments": {"text": "hello"}});
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let mut headers = vec![("Mcp-Session-Id", session), ("MCP-Protocol-Version", LEGACY)];
        headers.extend_from_slice(more);
        let (status, _, body) = self.send(&headers, &body.to_string()).await;
        (status, body)
    }
}

#[tokio::test]
async fn both_eras_are_served_on_one_endpoint() {
    let server = Server::echo(HttpOptions::default()).await;
    let (status, body) = server.modern("echo", json!({"text": "hello"}), &[]).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"text\":\"hello\""), "{body}");
    let session = server.session(&[]).await;
    let (status, body) = server.legacy(&session, &[]).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"text\":\"hello\""), "{body}");
    server.end().await;
}

#[tokio::test]
async fn log_entries_of_a_call_come_on_its_own_stream_before_its_result() {
    let spec = ToolSpec::new("log", "Logs.").read_only().capabilities(Capabilities::NONE);
    let tool = DynTool::new(spec, json!({"properties": {}}), |_, cx: ToolContext| async move {
        let peer = CallPeer::of(&cx).ok_or_else(|| Failure::failed("no client"))?;
        for n in 0..5 {
            peer.log(LogLevel::Info, "test", json!(format!("entry {n}")));
        }
        Ok::<_, Failure>(Output::text("the result"))
    });
    let builder = McpServer::builder(runtime(tool).build().unwrap());
    let server = Server::start(builder, HttpOptions::default()).await;
    // The client has no standalone stream.
    let session = server.session(&[]).await;
    let params = json!({"name": "log", "arguments": {}});
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", LEGACY)];
    let (status, _, body) = server.send(&headers, &body.to_string()).await;
    assert_eq!(status, 200, "{body}");
    let words = ["entry 0", "entry 1", "entry 2", "entry 3", "entry 4", "the result"];
    let found: Vec<Option<usize>> = words.iter().map(|word| body.find(word)).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?}: {body}");
    server.end().await;
}

#[tokio::test]
async fn dns_rebinding_and_foreign_origins_are_refused() {
    let server = Server::echo(HttpOptions::default()).await;
    let own = format!("http://{}", server.address);
    let arguments = || json!({"text": "a"});
    assert_eq!(server.modern("echo", arguments(), &[("Origin", &own)]).await.0, 200);
    for headers in [
        ("Host", "evil.example"),
        ("Host", "evil.example:80"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1:1"),
    ] {
        let (status, body) = server.modern("echo", arguments(), &[headers]).await;
        assert_eq!(status, 403, "{headers:?}: {body}");
    }
    server.end().await;
}

#[tokio::test]
async fn header_that_contradicts_the_body_is_refused() {
    let server = Server::echo(HttpOptions::default()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "echo", "arguments": {"text": "a"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers =
        [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "other")];
    let (status, _, answer) = server.send(&headers, &body.to_string()).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("-32020"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn token_is_required_if_one_is_set_and_for_other_addresses() {
    let options = HttpOptions::default().token("alice", "s3cret").token("bob", "0ther");
    let server = Server::echo(options).await;
    let arguments = || json!({"text": "a"});
    let alice = [("Authorization", "Bearer s3cret")];
    let bob = [("Authorization", "Bearer 0ther")];
    assert_eq!(server.modern("echo", arguments(), &[]).await.0, 401);
    assert_eq!(server.modern("echo", arguments(), &[("Authorization", "Bearer x")]).await.0, 401);
    assert_eq!(server.modern("echo", arguments(), &alice).await.0, 200);
    let session = server.session(&alice).await;
    assert_eq!(server.legacy(&session, &alice).await.0, 200);
    assert_eq!(server.legacy(&session, &bob).await.0, 404, "a session is its caller's");
    assert_eq!(server.legacy(&session, &[]).await.0, 401, "a session is not an authority");
    server.end().await;

    let everywhere = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let open = McpServer::builder(runtime(echo()).build().unwrap()).build().unwrap();
    let refused = open.serve_http(everywhere, HttpOptions::default(), CancellationToken::new());
    let error = refused.await.unwrap_err();
    assert!(error.to_string().contains("loopback"), "{error}");
}

#[tokio::test]
async fn bodies_and_rates_are_limited() {
    let options = HttpOptions::default().max_body_bytes(10_000).requests_per_second(5);
    let server = Server::echo(options).await;
    let large = json!({"text": "x".repeat(20_000)});
    assert_eq!(server.modern("echo", large, &[]).await.0, 413);
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(server.modern("echo", json!({"text": "a"}), &[]).await.0);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    let (status, _, _) = server.send_as("GET", &[], "").await;
    assert!(status == 429 || status >= 400, "{status}");
    server.end().await;
}

#[tokio::test]
async fn slow_clients_do_not_block_others() {
    let server = Server::echo(HttpOptions::default().max_connections(50)).await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le").await.unwrap();
        slow.push(stream);
    }
    let (status, _) = server.modern("echo", json!({"text": "a"}), &[]).await;
    assert_eq!(status, 200);
    drop(slow);
    server.end().await;
}

/// Sends one byte every few milliseconds, as long as the server reads.
async fn trickle(address: SocketAddr, head: &str) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    let mut sent = 0;
    loop {
        stream.write_all(b"x").await?;
        sent += 1;
        assert!(sent < 2_000, "the server reads for longer than twenty seconds");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn slow_loris_clients_lose_their_connection_and_others_are_served() {
    let options =
        HttpOptions::default().max_connections(8).request_timeout(Duration::from_millis(500));
    let server = Server::echo(options).await;
    // As many slow clients as there are connections: half in the head, half in the body.
    let host = format!("Host: {}\r\n", server.address);
    let head = format!("POST /mcp HTTP/1.1\r\n{host}X-Slow: ");
    let body = format!("POST /mcp HTTP/1.1\r\n{host}Content-Length: 100000\r\n\r\n");
    let slow: Vec<_> = (0..8)
        .map(|n| {
            let (address, start) = (server.address, if n % 2 == 0 { &head } else { &body });
            let start = start.clone();
            tokio::task::spawn(async move { trickle(address, &start).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (status, answer) = server.modern("echo", json!({"text": "a"}), &[]).await;
    assert_eq!(status, 200, "{answer}");
    for client in slow {
        assert!(client.await.unwrap().is_err(), "the server has closed the connection");
    }
    server.end().await;
}

#[tokio::test]
async fn disconnect_of_a_self_describing_request_cancels_its_call() {
    let (started, mut has_started) = tokio::sync::mpsc::channel::<()>(1);
    let (stopped, mut has_stopped) = tokio::sync::mpsc::channel::<()>(1);
    let spec = ToolSpec::new("wait", "Waits.").read_only().capabilities(Capabilities::NONE);
    let tool = DynTool::new(spec, json!({"properties": {}}), move |_, cx: ToolContext| {
        let (started, stopped) = (started.clone(), stopped.clone());
        async move {
            let _ = started.send(()).await;
            cx.cancelled().await;
            let _ = stopped.send(()).await;
            Ok::<_, Failure>(Output::text("stopped"))
        }
    });
    let builder = McpServer::builder(runtime(tool).build().unwrap());
    let server = Server::start(builder, HttpOptions::default()).await;
    let call = server.modern("wait", json!({}), &[]);
    tokio::select! {
        _ = call => panic!("the call cannot end"),
        _ = has_started.recv() => {}
    }
    let end = tokio::time::timeout(Duration::from_secs(10), has_stopped.recv()).await;
    assert_eq!(end, Ok(Some(())), "dropping the connection cancels the call");
    server.end().await;
}

#[tokio::test]
async fn abandoned_sessions_are_bounded() {
    let server = Server::echo(HttpOptions::default().max_sessions(20)).await;
    let first = server.session(&[]).await;
    for _ in 0..60 {
        server.session(&[]).await;
    }
    assert_eq!(server.legacy(&first, &[]).await.0, 404, "the oldest has ended");
    let last = server.session(&[]).await;
    assert_eq!(server.legacy(&last, &[]).await.0, 200);
    server.end().await;
}

/// Opens sessions over one connection, which is then left.
#[cfg(target_os = "linux")]
async fn abandon_sessions(address: SocketAddr, count: usize) {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
    for _ in 0..count {
        stream.write_all(request.as_bytes()).await.unwrap();
        answer.clear();
        // The answer is one JSON object, after the head that has the session.
        while !answer.ends_with(b"}") && !answer.ends_with(b"0\r\n\r\n") {
            let read = stream.read(&mut chunk).await.unwrap();
            assert!(read > 0, "closed after {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(chunk.get(..read).unwrap());
        }
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        assert!(text.starts_with("http/1.1 200") && text.contains("mcp-session-id:"), "{text}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ten_thousand_abandoned_sessions_leave_memory_flat() {
    if !is_alone("server::http::ten_thousand_abandoned_sessions_leave_memory_flat") {
        return;
    }
    const LIMIT: usize = 1_000;
    // The limit of `HttpOptions::default`.
    let server = Server::echo(HttpOptions::default()).await;
    abandon_sessions(server.address, 50).await;
    let empty = resident_kib();
    abandon_sessions(server.address, LIMIT - 50).await;
    let each = resident_kib().saturating_sub(empty) / (LIMIT as u64 - 50);
    // The allocator has its share by then.
    abandon_sessions(server.address, 5_000 - LIMIT).await;
    let half = resident_kib();
    abandon_sessions(server.address, 5_000).await;
    let grown = resident_kib().saturating_sub(half);
    eprintln!("{each} KiB for each idle session, {grown} KiB more after 5 000 further ones");
    assert!(each < 100, "{each} KiB for each idle session");
    // Without the limit they would take 300 MB.
    assert!(grown < 10_000, "{grown} KiB more for 5 000 further abandoned sessions");
    server.end().await;
}
