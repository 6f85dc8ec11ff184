//! Stdio servers: both eras, every kind of content, progress, cancellation, questions, processes.

use std::time::Duration;

use haft::{events::Event, tool::Block, tool::Progress};
use haft_mcp::client::{Era, Pinning, ServerConfig, ServerState, ServerTrust};
use serde_json::json;

use crate::kit::{
    Collected, TempFile, asking, call, code, eventually, is_alive, names, runtime, server, stdio,
};

#[tokio::test]
async fn both_eras_are_detected_and_their_tools_are_called() {
    for (args, era) in [("--legacy", "2025-11-25"), ("--modern", "2026-07-28")] {
        let remote = server(stdio(&[args]));
        let runtime = runtime(&[&remote]);
        assert!(names(&runtime).await.contains(&"fix__echo".to_owned()));
        let result = call(&runtime, "fix__echo", json!({"text": "hello"})).await;
        assert_eq!(result.text(), "hello");
        let status = remote.status();
        assert_eq!((status.state, status.era), (ServerState::Ready, Some(era)));
        runtime.close().await;
    }
}

#[tokio::test]
async fn a_known_era_is_not_asked_for_again() {
    for (args, era, first) in
        [("--legacy", Era::Legacy, "initialize"), ("--modern", Era::Modern, "server/discover")]
    {
        let log = TempFile::new();
        let config = ServerConfig { era, ..stdio(&[args, "--log", &log.arg()]) };
        let runtime = runtime(&[&server(config)]);
        call(&runtime, "fix__echo", json!({})).await;
        assert_eq!(log.messages()[0]["method"], first);
        runtime.close().await;
    }
}

#[tokio::test]
async fn one_call_is_one_request() {
    let log = TempFile::new();
    let runtime = runtime(&[&server(stdio(&["--log", &log.arg()]))]);
    for _ in 0..5 {
        call(&runtime, "fix__echo", json!({"text": "x"})).await;
    }
    assert_eq!((log.count("tools/call"), log.count("tools/list")), (5, 1));
    assert_eq!(log.count("server/discover") + log.count("initialize"), 1);
    runtime.close().await;
}

#[tokio::test]
async fn every_kind_of_content_arrives() {
    let runtime = runtime(&[&server(stdio(&[]))]);
    let result = call(&runtime, "fix__content", json!({})).await;
    let blocks = &result.output().unwrap().blocks;
    assert!(matches!(&blocks[0], Block::Text { text } if text == "a text"));
    assert!(matches!(&blocks[1], Block::Image { media_type, .. } if media_type == "image/png"));
    assert!(matches!(&blocks[2], Block::Audio { media_type, .. } if media_type == "audio/wav"));
    assert!(matches!(&blocks[3], Block::Link { uri, .. } if uri == "test://link"));
    assert!(matches!(&blocks[4], Block::Json { json } if json["resource"]["text"] == "inside"));
    let sum = call(&runtime, "fix__sum", json!({"a": 2, "b": 3})).await;
    assert_eq!(sum.output().unwrap().structured.as_deref(), Some(&json!({"sum": 5})));
    runtime.close().await;
}

#[tokio::test]
async fn errors_of_a_tool_and_of_the_protocol_are_failures() {
    let runtime = runtime(&[&server(stdio(&[]))]);
    let failed = call(&runtime, "fix__fail", json!({})).await;
    assert_eq!(
        (code(&failed), failed.failure().unwrap().message()),
        ("tool_failed", "no such city")
    );
    let refused = call(&runtime, "fix__refuse", json!({})).await;
    assert_eq!(code(&refused), "tool_failed");
    assert!(refused.text().contains("-32602") && refused.text().contains("not like this"));
    let invalid = call(&runtime, "fix__echo", json!({"text": 5})).await;
    assert_eq!(code(&invalid), "bad_arguments", "validated here, before anything is sent");
    runtime.close().await;
}

#[tokio::test]
async fn results_are_untrusted_and_name_their_server() {
    let config = ServerConfig { trust: ServerTrust::Annotations, ..stdio(&[]) };
    let runtime = runtime(&[&server(config)]);
    let result = call(&runtime, "fix__echo", json!({"text": "x"})).await;
    assert_eq!(result.label().trust, haft::taint::Trust::Untrusted);
    assert!(result.origin().unwrap().source().contains("fix"), "{:?}", result.origin());
    runtime.close().await;
}

#[tokio::test]
async fn progress_reaches_observers_and_extends_the_timeout() {
    let seen = Collected::default();
    let write_down = seen.clone();
    let config = ServerConfig { timeout: Duration::from_millis(400), ..stdio(&[]) };
    let registry = haft::ToolRegistry::builder().source(server(config)).build().unwrap();
    let runtime = haft::Runtime::builder()
        .registry(registry)
        .policy(haft::policy::AllowAll)
        .observer(move |event: &Event| {
            if let Event::Progress { note: Progress::Progress(Some(_), message), .. } = event {
                write_down.add(message.clone());
            }
        })
        .build()
        .unwrap();
    // Ten steps of 100 ms: longer than the timeout, but never silent for so long.
    let result = call(&runtime, "fix__progress", json!({"n": 10, "text": "step"})).await;
    assert_eq!(result.text(), "done");
    assert!(seen.all().iter().any(|message| message == "step"), "{:?}", seen.all());
    runtime.close().await;
}

#[tokio::test]
async fn progress_within_the_rate_arrives_whole_and_in_order_before_the_result() {
    for _ in 0..20 {
        let seen = Collected::default();
        let notes = seen.clone();
        let registry = haft::ToolRegistry::builder().source(server(stdio(&[]))).build().unwrap();
        let runtime = haft::Runtime::builder()
            .registry(registry)
            .policy(haft::policy::AllowAll)
            .observer(move |event: &Event| {
                if let Event::Progress { note: Progress::Progress(_, text), .. } = event {
                    notes.add(text.clone());
                }
            })
            .build()
            .unwrap();
        let result = call(&runtime, "fix__burst", json!({"n": 8})).await;
        assert_eq!(result.text(), "done");
        let wanted: Vec<String> = (1..=8).map(|n| n.to_string()).collect();
        assert_eq!(seen.all(), wanted);
        runtime.close().await;
    }
}

#[tokio::test]
async fn progress_cannot_extend_a_call_beyond_the_ceiling() {
    let config = ServerConfig {
        timeout: Duration::from_millis(400),
        max_timeout: Duration::from_millis(900),
        ..stdio(&[])
    };
    let runtime = runtime(&[&server(config)]);
    let result = call(&runtime, "fix__progress", json!({"n": 600})).await;
    assert_eq!(code(&result), "unknown_outcome");
    assert!(result.elapsed() < Duration::from_secs(8), "{:?}", result.elapsed());
    runtime.close().await;
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server() {
    for era in ["--legacy", "--modern"] {
        let log = TempFile::new();
        let remote = server(stdio(&[era, "--log", &log.arg()]));
        let runtime = runtime(&[&remote]);
        let turn = runtime.run().turn().await.unwrap();
        let handle = turn.handle();
        let running =
            tokio::spawn(turn.run(vec![haft::ToolCall::new("c", "fix__hang", json!({}))]));
        eventually("the call is sent", || log.count("tools/call") == 1).await;
        handle.interrupt();
        let result = running.await.unwrap().pop().unwrap();
        assert_eq!(code(&result), "unknown_outcome", "an untrusted tool may have had an effect");
        eventually("the server is informed", || log.count("notifications/cancelled") == 1).await;
        runtime.close().await;
    }
}

#[tokio::test]
async fn a_hanging_call_times_out_and_is_cancelled_at_the_server() {
    let log = TempFile::new();
    let config = ServerConfig {
        timeout: Duration::from_millis(300),
        trust: ServerTrust::Annotations,
        ..stdio(&["--log", &log.arg()])
    };
    let runtime = runtime(&[&server(config)]);
    let result = call(&runtime, "fix__hang", json!({})).await;
    assert_eq!(code(&result), "timed_out", "a tool that only reads had no effect");
    eventually("the server is informed", || log.count("notifications/cancelled") == 1).await;
    runtime.close().await;
}

#[tokio::test]
async fn a_question_of_a_server_reaches_a_person_in_both_eras() {
    for era in ["--legacy", "--modern"] {
        let remote = asking(stdio(&[era]));
        let runtime = runtime(&[&remote]);
        let result = call(&runtime, "fix__ask", json!({})).await;
        assert_eq!(result.text(), "\"accept\" \"Ada\"", "{era}");
        runtime.close().await;
        // Without a person the question is declined.
        let remote = server(stdio(&[era]));
        let runtime = crate::kit::runtime(&[&remote]);
        let result = call(&runtime, "fix__ask", json!({})).await;
        assert_eq!(result.text(), "\"decline\" null", "{era}");
        runtime.close().await;
    }
}

#[tokio::test]
async fn the_environment_of_a_server_is_what_was_configured() {
    let runtime = runtime(&[&server(stdio(&[]))]);
    let result = call(&runtime, "fix__environment", json!({})).await;
    assert_eq!(result.text(), "PATH", "nothing is inherited");
    runtime.close().await;
}

#[tokio::test]
async fn closing_stops_the_process_and_what_it_started() {
    let remote = server(stdio(&[]));
    let runtime = runtime(&[&remote]);
    let result = call(&runtime, "fix__grandchild", json!({})).await;
    let pid: u32 = result.text().parse().unwrap();
    assert!(is_alive(pid));
    runtime.close().await;
    assert_eq!(remote.status().state, ServerState::Closed);
    eventually("the grandchild is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn dropping_everything_stops_the_process_and_what_it_started() {
    let pid: u32 = {
        let remote = server(stdio(&[]));
        let runtime = runtime(&[&remote]);
        call(&runtime, "fix__grandchild", json!({})).await.text().parse().unwrap()
    };
    eventually("the grandchild is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn disabled_tools_are_not_offered() {
    let config = ServerConfig {
        enabled_tools: Some(vec!["echo".into(), "fail".into()]),
        disabled_tools: vec!["fail".into()],
        ..stdio(&[])
    };
    let runtime = runtime(&[&server(config)]);
    assert_eq!(names(&runtime).await, ["fix__echo"]);
    runtime.close().await;
}

#[tokio::test]
async fn a_changed_list_takes_effect_between_turns() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    for era in ["--legacy", "--modern"] {
        let file = TempFile::new();
        file.write(&json!([tool("first")]).to_string());
        let config = stdio(&[era, "--definitions", &file.arg()]);
        let remote = server(ServerConfig { pinning: Pinning::Off, ..config });
        let runtime = runtime(&[&remote]);
        assert_eq!(names(&runtime).await, ["fix__first"]);
        file.write(&json!([tool("first"), tool("second")]).to_string());
        eventually("the list is read again", || remote.status().tools == 2).await;
        assert_eq!(names(&runtime).await, ["fix__first", "fix__second"]);
        runtime.close().await;
    }
}

#[tokio::test]
async fn start_wait_may_be_longer_than_the_timeout_of_checks() {
    let remote = server(stdio(&["--delay", "1500"]));
    let registry = haft::ToolRegistry::builder().source(remote.clone()).build().unwrap();
    let mut config = haft::Config::default();
    config.policy_timeout = Duration::from_millis(200);
    let runtime = haft::Runtime::builder().registry(registry).config(config).build().unwrap();
    let listed = names(&runtime).await;
    assert!(listed.contains(&"fix__echo".to_owned()), "{listed:?}");
    runtime.close().await;
}

#[tokio::test]
async fn a_server_that_answers_the_probe_late_is_connected() {
    // As `npx` does, which installs the server first.
    let config = stdio(&["--legacy", "--delay", "12000"]);
    let remote = server(config);
    let status = remote.wait(Duration::from_secs(120)).await;
    assert_eq!(status.state, ServerState::Ready, "{status:?}");
    remote.shut_down().await;
}
