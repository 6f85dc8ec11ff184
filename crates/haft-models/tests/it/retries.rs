//! Requests that are sent again, and those that are not.

use std::time::Duration;

use haft::{ErrorKind, agent::RunStatus};
use haft_models::{Provider, Retries};
use serde_json::{Value, json};

use crate::{
    kit::{PROVIDERS, failure, model, run},
    server::{self, Answer, Server},
    wire,
};

fn error(status: &str, headers: &[(&str, &str)]) -> Answer {
    server::json(status, headers, &json!({"error": {"message": "try later", "type": "x"}}))
}

#[tokio::test]
async fn rate_limit_and_server_errors_are_retried_and_the_same_body_is_sent() {
    for provider in PROVIDERS {
        for status in [
            "429 Too Many Requests",
            "500 Internal Server Error",
            "503 Unavailable",
            "529 Overloaded",
        ] {
            let answers = vec![
                error(status, &[]),
                error(status, &[]),
                wire::answer(provider, true, Some("Good.")),
            ];
            let server = Server::start(answers).await;
            let result = run(model(provider, &server)).await;
            assert_eq!((result.state, &*result.text), (RunStatus::Completed, "Good."), "{status}");
            let requests = server.requests();
            assert_eq!(requests.len(), 3, "{provider} {status}");
            assert!(requests.iter().all(|request| request.body == requests[0].body));
        }
    }
}

#[tokio::test]
async fn error_event_before_any_content_is_retried_like_its_status() {
    let start = json!({"type": "message_start", "message": {"id": "m", "type": "message",
        "role": "assistant", "model": "x", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error",
                            "message": "Overloaded"}});
    let busy = json!({"error": {"message": "busy", "type": "server_error", "code": 503}});
    for provider in PROVIDERS {
        let events = match provider {
            Provider::Anthropic => format!(
                "event: message_start\ndata: {start}\n\nevent: error\ndata: {overloaded}\n\n"
            ),
            _ => format!("data: {busy}\n\n"),
        };
        let answers = vec![server::stream(&events), wire::answer(provider, true, Some("Good."))];
        let server = Server::start(answers).await;
        let result = run(model(provider, &server)).await;
        assert_eq!((result.state, &*result.text), (RunStatus::Completed, "Good."), "{provider}");
        assert_eq!(server.requests().len(), 2, "{provider}");
    }
    let lasting = json!({"type": "error", "error": {"type": "invalid_request_error",
                         "message": "no"}});
    let server = Server::start(vec![server::stream(&format!("data: {lasting}\n\n"))]).await;
    let result = run(model(Provider::Anthropic, &server)).await;
    assert_eq!((failure(&result).2, server.requests().len()), (ErrorKind::BadResponse, 1));
}

#[tokio::test]
async fn retry_after_is_honoured() {
    for headers in [[("retry-after", "1")], [("retry-after-ms", "1000")]] {
        let good = wire::answer(Provider::OpenAi, true, Some("Good."));
        let server = Server::start(vec![error("429 Too Many Requests", &headers), good]).await;
        let began = tokio::time::Instant::now();
        let result = run(model(Provider::OpenAi, &server)).await;
        assert_eq!(result.state, RunStatus::Completed);
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(1), "{waited:?}");
        assert!(waited < Duration::from_secs(20), "{waited:?}");
    }
}

#[tokio::test]
async fn wait_that_is_too_long_fails_at_once_and_says_so() {
    let server =
        Server::start(vec![error("429 Too Many Requests", &[("retry-after", "3600")])]).await;
    let began = tokio::time::Instant::now();
    let (message, hints, kind) = failure(&run(model(Provider::Anthropic, &server)).await);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(message, "anthropic has reached a rate limit or quota (429): try later");
    assert!(hints.iter().any(|hint| hint.contains("wait 3600 s")), "{hints:?}");
    assert_eq!((kind, server.requests().len()), (ErrorKind::ProviderError, 1));
}

#[tokio::test]
async fn retries_are_bounded() {
    for provider in PROVIDERS {
        let server = Server::start(vec![error("503 Unavailable", &[])]).await;
        let (message, hints, kind) = failure(&run(model(provider, &server)).await);
        assert!(message.ends_with("(503): try later (after 4 attempts)"), "{message}");
        assert_eq!((kind, hints.len()), (ErrorKind::ProviderError, 1), "{hints:?}");
        assert_eq!(server.requests().len(), 4);
    }
    let server = Server::start(vec![error("503 Unavailable", &[])]).await;
    run(model(Provider::OpenAi, &server).retries(Retries::none())).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn connection_that_was_closed_is_retried() {
    let good = wire::answer(Provider::Anthropic, true, Some("Good."));
    let server = Server::start(vec![Vec::new(), good]).await;
    let result = run(model(Provider::Anthropic, &server)).await;
    assert_eq!((result.state, server.requests().len()), (RunStatus::Completed, 2));
}

#[tokio::test]
async fn mistakes_are_not_retried_and_say_what_to_do() {
    let quota = json!({"error": {"message": "You have no credit", "code": "insufficient_quota"}});
    let text = |message: &str| json!({"error": {"message": message}});
    let cases: [(&str, Value, ErrorKind, &str, &str); 7] = [
        (
            "401 Unauthorized",
            text("invalid x-api-key"),
            ErrorKind::Authentication,
            "does not accept the key (401): invalid x-api-key",
            "check that the key is valid",
        ),
        (
            "403 Forbidden",
            text("not allowed"),
            ErrorKind::Authentication,
            "does not accept the key (403): not allowed",
            "may use the model",
        ),
        (
            "404 Not Found",
            text("model: some-model"),
            ErrorKind::ProviderError,
            "has no model `some-model` (404): model: some-model",
            "check the name of the model",
        ),
        (
            "400 Bad Request",
            text("max_tokens is too large"),
            ErrorKind::ProviderError,
            "refused the request (400): max_tokens is too large",
            "check the settings",
        ),
        (
            "413 Payload Too Large",
            Value::Null,
            ErrorKind::ProviderError,
            "refused the request (413)",
            "check the settings",
        ),
        (
            "429 Too Many Requests",
            quota,
            ErrorKind::ProviderError,
            "(429): You have no credit",
            "billing",
        ),
        (
            "407 Proxy Authentication Required",
            Value::Null,
            ErrorKind::Authentication,
            "the proxy does not accept the request (407)",
            "add user and password",
        ),
    ];
    for provider in PROVIDERS {
        for (status, body, kind, said, next) in &cases {
            let server = Server::start(vec![server::json(status, &[], body)]).await;
            let (message, hints, found) = failure(&run(model(provider, &server)).await);
            assert!(message.ends_with(said), "{provider}: {message}");
            assert!(hints.len() == 1 && hints[0].contains(next), "{provider}: {hints:?}");
            assert_eq!((found, server.requests().len()), (*kind, 1), "{provider} {status}");
        }
    }
}

#[tokio::test]
async fn server_that_does_not_answer_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::start(vec![Vec::new()]).await;
    let closed = model(Provider::Compatible, &server).base_url(format!("http://{address}/v1"));
    let (message, hints, kind) = failure(&run(closed).await);
    assert!(message.starts_with(&format!("cannot connect to {address}: ")), "{message}");
    assert!(message.ends_with("(after 4 attempts)"), "{message}");
    assert_eq!(hints, ["check that the server runs, and its address"]);
    assert_eq!(kind, ErrorKind::Unreachable);
    let unknown = model(Provider::OpenAi, &server).base_url("http://no-such-host.invalid/v1");
    let (message, _, kind) = failure(&run(unknown.retries(Retries::none())).await);
    assert!(message.starts_with("cannot connect to no-such-host.invalid: "), "{message}");
    assert_eq!(kind, ErrorKind::Unreachable);
}
