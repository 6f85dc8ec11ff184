//! Broken responses: each ends in an error that says what happened and what to do, nothing hangs,
//! and memory stays bounded.

use std::time::Duration;

use haft::{
    ErrorKind,
    agent::{Agent, RunStatus},
};
use haft_models::{Provider, Retries, Timeouts};
use serde_json::json;

use crate::{
    kit::{PROVIDERS, failure, model, run, runner},
    server::{self, Answer, Server, Step},
    wire,
};

/// Runs with an answer that must fail; returns the message, after the checks of every failure.
async fn fails(provider: Provider, answer: Answer, kind: ErrorKind) -> String {
    let server = Server::start(vec![answer]).await;
    let result = run(model(provider, &server).retries(Retries::none())).await;
    assert_eq!(result.state, RunStatus::Failed, "{provider}: {}", result.text);
    let (message, hints, found) = failure(&result);
    assert_eq!(found, kind, "{provider}: {message}");
    assert!(!hints.is_empty(), "{provider}: {message}");
    message
}

/// A stream that is cut after a share of its bytes.
fn cut(provider: Provider, text: Option<&str>, share: usize, has_end: bool) -> Answer {
    let events = wire::streamed(provider, text);
    let half = &events.as_bytes()[..events.len() * share / 100];
    let mut answer = vec![server::stream_head(), Step::Chunk(half.to_vec())];
    if has_end {
        answer.push(Step::End);
    }
    answer
}

#[tokio::test]
async fn stream_that_is_cut_off_is_an_error() {
    for provider in PROVIDERS {
        for text in [None, Some("Oslo has 717710 people.")] {
            for share in [1, 50, 80] {
                for has_end in [true, false] {
                    let answer = cut(provider, text, share, has_end);
                    let message = fails(provider, answer, ErrorKind::BadResponse).await;
                    assert!(message.contains("ended before it was complete"), "{message}");
                }
            }
        }
    }
}

#[tokio::test]
async fn whole_response_that_is_cut_off_is_an_error() {
    for provider in PROVIDERS {
        let body = wire::whole(provider, Some("x")).to_string();
        let half = body.as_bytes()[..body.len() / 2].to_vec();
        let head = || server::head("200 OK", &[("content-type", "application/json")]);
        let cut = vec![head(), Step::Chunk(half.clone())];
        let message = fails(provider, cut, ErrorKind::BadResponse).await;
        assert!(message.contains("ended before it was complete"), "{message}");
        let short = vec![head(), Step::Chunk(half), Step::End];
        let message = fails(provider, short, ErrorKind::BadResponse).await;
        assert!(message.contains("is not valid JSON"), "{message}");
    }
}

#[tokio::test]
async fn error_event_inside_a_stream_is_reported() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error",
                       "message": "Overloaded"}});
    let plain = json!({"error": {"message": "Overloaded", "code": 503, "type": "server_error"}});
    let failed = json!({"type": "response.failed", "sequence_number": 3, "response": {
        "id": "resp_1", "object": "response", "status": "failed", "output": [],
        "error": {"code": "server_error", "message": "Overloaded"}}});
    for provider in PROVIDERS {
        let events = wire::streamed(provider, Some("x"));
        // Content has begun: an error before it is sent again.
        let count = events.split_inclusive("\n\n").count();
        let first: String = events.split_inclusive("\n\n").take(count / 2).collect();
        let mut errors = vec![format!("event: error\ndata: {error}\n\n")];
        errors.push(format!("data: {plain}\n\n"));
        if provider == Provider::OpenAi {
            errors.push(format!("event: response.failed\ndata: {failed}\n\n"));
        }
        for error in errors {
            // Gemini's first event is the whole message.
            let before = if provider == Provider::Gemini { "data: {}\n\n" } else { &first };
            let answer = server::stream(&format!("{before}{error}"));
            let message = fails(provider, answer, ErrorKind::BadResponse).await;
            assert!(message.contains("Overloaded"), "{provider}: {message}");
        }
    }
}

#[tokio::test]
async fn error_in_a_whole_response_with_status_200_is_reported() {
    for provider in PROVIDERS {
        let body = json!({"error": {"message": "no such engine", "type": "server_error"}});
        let server = Server::start(vec![server::json("200 OK", &[], &body)]).await;
        let result = run(model(provider, &server)).await;
        let (message, hints, _) = failure(&result);
        assert!(hints.iter().any(|hint| hint.contains("no such engine")), "{message} {hints:?}");
    }
}

#[tokio::test]
async fn wrong_event_order_runs_nothing() {
    // The end comes before the call: as the second event, or before the arguments.
    for (provider, early) in [(Provider::Anthropic, 1), (Provider::OpenAiChat, 2)] {
        let events = wire::streamed(provider, None);
        let mut pieces: Vec<&str> = events.split_inclusive("\n\n").collect();
        let is_end = |piece: &&str| {
            piece.contains("message_stop") || piece.contains(r#""finish_reason":"tool_calls""#)
        };
        let end = pieces.iter().position(is_end).unwrap();
        let end = pieces.remove(end);
        pieces.insert(early, end);
        let server = Server::start(vec![server::stream(&pieces.concat())]).await;
        let result = run(model(provider, &server).retries(Retries::none())).await;
        assert_ne!(result.state, RunStatus::Completed, "{provider}: {result:?}");
        assert!(result.executions.iter().all(|call| call.failed.is_some()), "{provider}");
    }
}

#[tokio::test]
async fn invalid_utf8_and_garbage_are_refused() {
    for provider in PROVIDERS {
        for garbage in [
            b"data: {\"x\": \"\xff\xfe\"}\n\n".as_slice(),
            b"data: {not json}\n\n",
            b"\x00\x01\x02\x03\xff\xff\xff\xff\x00\x00",
            b"Bad gateway, sorry.\n\n",
        ] {
            let answer = vec![server::stream_head(), Step::Chunk(garbage.to_vec()), Step::End];
            let message = fails(provider, answer, ErrorKind::BadResponse).await;
            assert!(message.len() < 700, "{message}");
        }
    }
}

#[tokio::test]
async fn page_of_a_proxy_is_not_the_api() {
    let head = server::head("200 OK", &[("content-type", "text/html")]);
    let page = vec![head, Step::Chunk(b"<html>Please log in</html>".to_vec()), Step::End];
    let message = fails(Provider::OpenAi, page, ErrorKind::BadResponse).await;
    assert!(message.contains("answered with `text/html`"), "{message}");
}

#[tokio::test]
async fn empty_response_is_an_error() {
    for provider in PROVIDERS {
        let empty = vec![server::stream_head(), Step::End];
        let message = fails(provider, empty, ErrorKind::BadResponse).await;
        assert!(message.contains("ended before it was complete"), "{message}");
        let closed = Vec::new();
        let message = fails(provider, closed, ErrorKind::Unreachable).await;
        assert!(message.contains("closed the connection without a response"), "{message}");
    }
}

fn short() -> Timeouts {
    let minute = Duration::from_secs(60);
    Timeouts::default().connect(minute).first_byte(minute).gap(minute).total(minute)
}

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(50);

#[tokio::test]
async fn slow_first_byte_gap_and_endless_stream_time_out() {
    let ping = b"event: ping\ndata: {\"type\": \"ping\"}\n\n".to_vec();
    let mut endless = vec![server::stream_head()];
    for _ in 0..10_000 {
        endless.push(Step::Chunk(ping.clone()));
        endless.push(Step::Wait(Duration::from_millis(20)));
    }
    let began_only = vec![server::stream_head(), Step::Chunk(ping), Step::Wait(LONG)];
    let cases = [
        (vec![Step::Wait(LONG)], short().first_byte(SHORT), "did not begin its response within"),
        (began_only, short().gap(SHORT), "stopped: nothing arrived for 0.2 s"),
        (endless, short().total(SHORT * 2), "did not complete its response within 0.4 s"),
    ];
    for (answer, timeouts, wanted) in cases {
        let server = Server::start(vec![answer]).await;
        let began = tokio::time::Instant::now();
        let model = model(Provider::Anthropic, &server).timeouts(timeouts);
        let result = run(model.retries(Retries::none())).await;
        let (message, hints, kind) = failure(&result);
        assert!(message.contains(wanted), "{message}");
        assert_eq!((kind, hints.len()), (ErrorKind::TimedOut, 1), "{message} {hints:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{message}");
        // The server sees that the client has gone.
        tokio::time::timeout(Duration::from_secs(10), server.closed_early()).await.unwrap();
    }
}

#[tokio::test]
async fn gap_in_a_whole_response_times_out() {
    let head = server::head("200 OK", &[("content-type", "application/json")]);
    let server =
        Server::start(vec![vec![head, Step::Chunk(b"{\"id\"".to_vec()), Step::Wait(LONG)]]).await;
    let model = model(Provider::OpenAi, &server).streaming(false).timeouts(short().gap(SHORT));
    let (message, ..) = failure(&run(model).await);
    assert!(message.contains("nothing arrived for 0.2 s"), "{message}");
}

#[tokio::test]
async fn message_that_ended_counts_although_the_connection_stays_open() {
    let events = wire::streamed(Provider::OpenAiChat, Some("Done."));
    let answer = vec![server::stream_head(), Step::Chunk(events.into_bytes()), Step::Wait(LONG)];
    let server = Server::start(vec![answer]).await;
    let model = model(Provider::OpenAiChat, &server).timeouts(short().gap(SHORT));
    let result = run(model).await;
    assert_eq!((result.state, &*result.text), (RunStatus::Completed, "Done."));
}

/// The most memory that this process has used.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the test reads its own memory")]
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_gigabyte_of_text_is_refused_with_bounded_memory() {
    const GIGABYTE: usize = 1 << 30;
    let piece = "x".repeat(1 << 18);
    for (provider, is_streaming) in
        [(Provider::Anthropic, true), (Provider::OpenAiChat, true), (Provider::OpenAi, false)]
    {
        let mut answer = Vec::new();
        if is_streaming {
            let events = wire::streamed(provider, Some("x"));
            let at = events.find("text_delta").or(events.find("\"content\":\"x\"")).unwrap();
            let start = events[..at].rfind("\n\n").unwrap() + 2;
            let end = at + events[at..].find("\n\n").unwrap() + 2;
            let event = events[start..end].replace("\"x\"", &format!("\"{piece}\""));
            answer.push(server::stream_head());
            answer.push(Step::Chunk(events.as_bytes()[..start].to_vec()));
            answer.push(Step::Repeat(event.into_bytes(), GIGABYTE / piece.len()));
        } else {
            answer.push(server::head("200 OK", &[("content-type", "application/json")]));
            answer.push(Step::Chunk(b"{\"id\": \"".to_vec()));
            answer.push(Step::Repeat(piece.clone().into_bytes(), GIGABYTE / piece.len()));
        }
        let server = Server::start(vec![answer]).await;
        let result = run(model(provider, &server).streaming(is_streaming)).await;
        let (message, hints, _) = failure(&result);
        assert!(message.contains("longer than"), "{message}");
        assert!(!hints.is_empty(), "{message}");
        assert!(server.written() < GIGABYTE / 4, "the rest is not read: {}", server.written());
    }
    // All tests of this process together, of which this one needs the most by far.
    assert!(peak_bytes() < 640 << 20, "{} MiB", peak_bytes() >> 20);
}

#[tokio::test]
async fn cancelled_run_closes_the_connection() {
    let events = wire::streamed(Provider::Anthropic, Some("x"));
    let first = events.split_inclusive("\n\n").next().unwrap();
    for answer in [
        vec![Step::Wait(LONG)],
        vec![server::stream_head(), Step::Chunk(first.as_bytes().to_vec()), Step::Wait(LONG)],
    ] {
        let server = Server::start(vec![answer]).await;
        let agent = Agent::new("a", model(Provider::Anthropic, &server).build().unwrap());
        let runner = runner();
        let mut stream = runner.run_stream(&agent, "x").unwrap();
        while server.requests().is_empty() {
            tokio::select! {
                _ = stream.next() => {}
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
        drop(stream);
        tokio::time::timeout(Duration::from_secs(10), server.closed_early()).await.unwrap();
    }
}
