//! HTTP servers: both eras, tokens, and what a token never reaches.

use haft::secrets::Secret;
use haft_mcp::client::{HeadersHelper, HttpEndpoint, ServerConfig, ServerState, ServerTransport};
use serde_json::json;

use crate::kit::{HttpServer, TempFile, call, names, patient, runtime, server};

#[tokio::test]
async fn both_eras_are_detected_over_http() {
    for (args, era) in [("--legacy", "2025-11-25"), ("--modern", "2026-07-28")] {
        let http = HttpServer::start(&[args]);
        let remote = server(http.config());
        let runtime = runtime(&[&remote]);
        assert!(names(&runtime).await.contains(&"fix__echo".to_owned()), "{:?}", remote.status());
        let result = call(&runtime, "fix__echo", json!({"text": "hello"})).await;
        assert_eq!(result.text(), "hello");
        assert_eq!(remote.status().era, Some(era));
        let progress = call(&runtime, "fix__progress", json!({"n": 2})).await;
        assert_eq!(progress.text(), "done");
        runtime.close().await;
    }
}

#[tokio::test]
async fn one_call_is_one_request_over_http() {
    let log = TempFile::new();
    let http = HttpServer::start(&["--modern", "--log", &log.arg()]);
    let runtime = runtime(&[&server(http.config())]);
    for _ in 0..5 {
        call(&runtime, "fix__echo", json!({"text": "x"})).await;
    }
    assert_eq!((log.count("tools/call"), log.count("tools/list")), (5, 1));
    runtime.close().await;
}

fn with_token(http: &HttpServer, token: Option<&str>) -> ServerConfig {
    let mut endpoint = HttpEndpoint::new(&http.url);
    endpoint.token = token.map(Secret::from);
    patient(ServerConfig::new("fix", ServerTransport::Http(endpoint)))
}

#[tokio::test]
async fn a_bearer_token_is_sent_and_without_it_a_login_is_needed() {
    let http = HttpServer::start(&["--modern", "--token", "s3cret"]);
    let remote = server(with_token(&http, Some("s3cret")));
    let runtime = runtime(&[&remote]);
    assert_eq!(call(&runtime, "fix__echo", json!({"text": "x"})).await.text(), "x");
    runtime.close().await;

    let refused = server(with_token(&http, None));
    let status = refused.wait(std::time::Duration::from_secs(20)).await;
    assert_eq!((status.state, status.needs_login), (ServerState::Failed, true), "{status:?}");
    refused.shut_down().await;
}

#[tokio::test]
async fn a_token_appears_in_no_error_and_in_no_debug_output() {
    let http = HttpServer::start(&["--token", "other"]);
    let config = with_token(&http, Some("hunter2"));
    let shown = format!("{config:?}");
    let remote = server(config);
    let status = remote.wait(std::time::Duration::from_secs(20)).await;
    assert!(!format!("{shown}{status:?}{remote:?}").contains("hunter2"));
    remote.shut_down().await;
}

#[test]
fn a_url_with_a_password_or_another_scheme_is_a_mistake() {
    for url in ["ftp://host/", "http://user:pass@host/", "nonsense", "file:///etc/passwd"] {
        let transport = ServerTransport::Http(HttpEndpoint::new(url));
        assert!(ServerConfig::new("s", transport).check().is_err(), "{url}");
    }
}

#[tokio::test]
async fn command_that_makes_headers_is_asked_again_when_its_token_is_refused() {
    for era in ["--modern", "--legacy"] {
        let token = TempFile::new();
        token.write("first");
        let http = HttpServer::start(&[era, "--token", &format!("@{}", token.arg())]);
        let mut endpoint = HttpEndpoint::new(&http.url);
        endpoint.headers_helper = Some(HeadersHelper {
            command: format!(
                r#"printf '{{"Authorization": "Bearer %s"}}' "$(cat '{}')""#,
                token.arg()
            ),
            environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            directory: None,
        });
        let config = ServerConfig::new("fix", ServerTransport::Http(endpoint));
        let remote = server(patient(config));
        let runtime = runtime(&[&remote]);
        let echo = || call(&runtime, "fix__echo", json!({"text": "x"}));
        assert_eq!(echo().await.text(), "x");
        token.write("second");
        assert_eq!(echo().await.text(), "x", "{era}: with a new connection");
        runtime.close().await;
    }
}
