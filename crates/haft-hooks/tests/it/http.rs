//! HTTP hooks: what is posted, and which responses count.

use std::sync::{Arc, Mutex};

use haft::policy::{Handler, HookSpec};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::kit::*;

/// Answers every request with the same bytes, and collects the requests.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

async fn server(status: &'static str, headers: &'static str, body: String) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&requests);
    tokio::runtime::Handle::current().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            loop {
                let n = stream.read(&mut piece).await.unwrap_or(0);
                request.extend_from_slice(&piece[..n]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                    let length = head.to_lowercase().lines().find_map(|line| {
                        line.strip_prefix("content-length:").and_then(|n| n.trim().parse().ok())
                    });
                    length.is_some_and(|length: usize| body.len() >= length)
                });
                if n == 0 || whole {
                    kept.lock().unwrap().push(text);
                    break;
                }
            }
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(body.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    Server { url, requests }
}

fn hook(url: &str, fails_closed: bool) -> HookSpec {
    let handler = Handler::Http {
        url: url.to_owned(),
        headers: vec![
            ("Authorization".to_owned(), "Bearer $API_KEY".to_owned()),
            ("X-Path".to_owned(), "<$PATH>".to_owned()),
        ],
        allowed_variables: vec!["API_KEY".to_owned()],
    };
    let mut spec = within(closed("PreToolUse", handler), 5_000);
    spec.fails_closed = fails_closed;
    spec
}

#[tokio::test]
async fn call_is_posted_and_the_response_decides() {
    let dir = ScriptDir::new();
    let body = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "updatedInput": {"x": "posted"},
    }});
    let server = server("200 OK", "Content-Type: application/json\r\n", body.to_string()).await;
    let seen = call(&dir, &[hook(&server.url, true)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), "posted");
    let request = server.requests.lock().unwrap().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1"), "{head}");
    let head = head.to_lowercase();
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("authorization: bearer hunter2"), "{head}");
    assert!(head.contains("x-path: <>"), "a variable that it may not use is empty: {head}");
    let input: Value = serde_json::from_str(body).unwrap();
    assert_eq!(input["tool_name"], "Bash");
    assert_eq!(input["tool_input"], json!({"x": "a"}));
}

#[tokio::test]
async fn only_json_with_status_2xx_counts() {
    let dir = ScriptDir::new();
    let deny = || json!({"decision": "block", "reason": "no"}).to_string();
    let denies = server("200 OK", "", deny()).await;
    let seen = call(&dir, &[hook(&denies.url, false)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), DENIED);
    let cases: Vec<(&str, String)> = vec![
        ("500 Oops", deny()),
        ("403 Forbidden", deny()),
        ("302 Found", deny()),
        ("200 OK", "fine".to_owned()),
        ("200 OK", r#"{"decision": "block", "decision": "approve"}"#.to_owned()),
    ];
    for (status, body) in cases {
        let elsewhere = "Location: http://127.0.0.1:1/\r\n";
        let server = server(status, elsewhere, body).await;
        let seen = call(&dir, &[hook(&server.url, false)], "shell", json!({"x": "a"})).await;
        assert_eq!((seen.code(), seen.open.len()), (None, 1), "{status}: {:?}", seen.open);
        let seen = call(&dir, &[hook(&server.url, true)], "shell", json!({"x": "a"})).await;
        assert_eq!(seen.code(), Some("hook_failed"), "{status}");
        assert_eq!(server.requests.lock().unwrap().len(), 2, "{status} is not followed");
    }
}

#[tokio::test]
async fn response_body_over_a_mebibyte_is_hook_failed_even_if_the_hook_fails_open() {
    let dir = ScriptDir::new();
    let body = json!({"systemMessage": "x".repeat(2 << 20), "decision": "block"}).to_string();
    let server = server("200 OK", "", body).await;
    for fails_closed in [true, false] {
        let spec = hook(&server.url, fails_closed);
        let seen = call(&dir, &[spec], "shell", json!({"x": "a"})).await;
        assert_eq!(seen.code(), Some("hook_failed"));
    }
}

#[tokio::test]
async fn endpoint_that_times_out_or_is_unreachable_is_a_problem() {
    let dir = ScriptDir::new();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let spec = within(hook(&url, true), 300);
    let seen = call(&dir, &[spec], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    let absent = call(&dir, &[hook("http://127.0.0.1:1/", false)], "shell", json!({})).await;
    assert_eq!((absent.code(), absent.open.len()), (None, 1));
    let odd = call(&dir, &[hook("not an address", true)], "shell", json!({})).await;
    assert_eq!(odd.code(), Some("hook_failed"));
}
