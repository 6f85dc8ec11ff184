//! Runs calls and checks what a collector receives.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod receiver;

use std::time::Duration;

use haft::{
    BoxFuture, Config, Failure, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    policy::AllowAll,
    telemetry,
    tool::{Backoff, Cache, Capabilities, DynTool, Rate, RetryPolicy, ToolSpec},
};
use haft_otel::Telemetry;
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::receiver::{Received, Seen};

fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name, format!("Does {name}.")).read_only().capabilities(Capabilities::NONE)
}

fn tools() -> Vec<DynTool> {
    let schema = || json!({"properties": {"text": {"type": "string"}}});
    vec![
        DynTool::new(spec("inner"), schema(), |_, _| async { "in" }),
        DynTool::new(spec("outer"), schema(), |_, cx| async move {
            cx.call("inner", json!({"text": "a secret thing"})).await.map(|_| "out")
        }),
        DynTool::new(spec("broken"), schema(), |_, _| async {
            Err::<(), _>(Failure::failed("no luck"))
        }),
        DynTool::new(ToolSpec::new("change", "Changes things."), schema(), |_, _| async { "done" }),
    ]
}

struct Yes;

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(ApprovalResponse::allow())
        })
    }
}

/// Runs calls of a runtime that exports, and returns what the collector received.
fn exported(set_up: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder, names: &[&str]) -> Received {
    let (address, received) = receiver::start();
    let telemetry =
        Telemetry::otlp(address).service("test").header("x-key", "of-the-test").build().unwrap();
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(tools()).build().unwrap())
        .observer(telemetry.observer());
    let runtime = set_up(runtime).build().unwrap();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tokio.block_on(async {
            let run = runtime.run_builder().agent("ada").start();
            for (n, name) in names.iter().enumerate() {
                let call = ToolCall::new(format!("c{n}"), *name, json!({"text": "words"}));
                run.turn().await.unwrap().run([call]).await;
            }
        });
    });
    drop(runtime);
    telemetry.shutdown(Duration::from_secs(10)).unwrap();
    received
}

fn find<'a>(spans: &'a [Seen], name: &str) -> &'a Seen {
    spans.iter().find(|seen| seen.span.name == name).unwrap_or_else(|| {
        panic!("no {name} among {:?}", spans.iter().map(|s| &s.span.name).collect::<Vec<_>>())
    })
}

fn parent<'a>(spans: &'a [Seen], of: &Seen) -> Option<&'a Seen> {
    spans.iter().find(|seen| seen.span.span_id == of.span.parent_span_id)
}

#[test]
fn tool_span_has_the_attributes_of_the_semantic_conventions() {
    let received = exported(|r| r.policy(AllowAll), &["inner"]);
    let spans = received.spans();
    let seen = find(&spans, "execute_tool inner");
    for (name, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "inner"),
        ("gen_ai.tool.call.id", "c0"),
        ("gen_ai.tool.description", "Does inner."),
        ("gen_ai.tool.type", "function"),
        ("gen_ai.agent.name", "ada"),
        ("haft.run", "run-1"),
        ("haft.cycle", "1"),
        ("haft.depth", "0"),
        ("haft.attempt", "1"),
        ("haft.class", "read_only"),
        ("haft.verdict", "allow"),
    ] {
        assert_eq!(seen.get(name), Some(value), "{name}");
    }
    assert!(seen.get("haft.rule").is_some_and(|rule| !rule.is_empty()));
    assert_eq!(seen.get("error.type"), None);
    assert_eq!(seen.span.kind, 1, "internal");
    assert_eq!(seen.span.status.as_ref().map_or(0, |status| status.code), 0, "left unset");
    assert_eq!(received.schema_urls(), [telemetry::SCHEMA_URL]);
    assert!(received.has_header("x-key: of-the-test"));
    let call = parent(&spans, seen).unwrap();
    assert_eq!(call.span.name, "haft.call");
    assert_eq!(call.get("haft.attempts"), Some("1"));
    assert_eq!(call.get("haft.execution"), Some("completed"));
}

#[test]
fn arguments_and_results_are_exported_only_if_configured() {
    let received = exported(|r| r.policy(AllowAll), &["outer"]);
    let spans = received.spans();
    for seen in &spans {
        assert_eq!(seen.get("gen_ai.tool.call.arguments"), None);
        assert_eq!(seen.get("gen_ai.tool.call.result"), None);
        for value in seen.attributes.values() {
            assert!(!value.contains("words") && !value.contains("secret thing"), "{seen:?}");
        }
    }
    let mut config = Config::default();
    config.trace_content = true;
    let received = exported(|r| r.policy(AllowAll).config(config), &["outer"]);
    let spans = received.spans();
    let outer = find(&spans, "execute_tool outer");
    assert_eq!(outer.get("gen_ai.tool.call.arguments"), Some(r#"{"text":"words"}"#));
    assert_eq!(outer.get("gen_ai.tool.call.result"), Some("out"));
}

#[test]
fn span_of_a_nested_call_is_a_child_of_the_calling_body() {
    let spans = exported(|r| r.policy(AllowAll), &["outer"]).spans();
    let inner = find(&spans, "execute_tool inner");
    let call = parent(&spans, inner).unwrap();
    assert_eq!((call.span.name.as_str(), call.get("haft.depth")), ("haft.call", Some("1")));
    assert_eq!(parent(&spans, call).unwrap().span.name, "execute_tool outer");
    assert!(spans.iter().all(|seen| seen.span.trace_id == inner.span.trace_id));
}

#[test]
fn approval_wait_is_a_sibling_span_that_ends_before_the_execution() {
    let received = exported(|r| r.approver(Yes), &["change"]);
    let spans = received.spans();
    let wait = find(&spans, "haft.wait approval");
    let execute = find(&spans, "execute_tool change");
    assert_eq!(wait.span.parent_span_id, execute.span.parent_span_id, "both belong to the call");
    assert!(wait.span.end_time_unix_nano <= execute.span.start_time_unix_nano);
    assert_eq!(received.histogram(telemetry::APPROVAL_WAIT)[0].count, 1);
    let call = find(&spans, "haft.call");
    assert_eq!(call.get("haft.verdict"), Some("ask"));
    assert!(call.get("haft.answered_by").is_some());
}

#[test]
fn every_wait_of_a_call_is_a_sibling_span_of_its_attempts() {
    let (address, received) = receiver::start();
    let telemetry = Telemetry::otlp(address).build().unwrap();
    let schema = || json!({"properties": {"n": {"type": "integer"}}});
    let wait = Duration::from_millis(20);
    let retry = RetryPolicy {
        max_attempts: 2,
        backoff: Backoff::Fixed,
        initial_delay: wait,
        jitter: false,
        ..RetryPolicy::default()
    };
    let again = DynTool::new(spec("again").retry(retry), schema(), |_, cx| async move {
        if cx.attempt() == 1 { Err(Failure::failed("not yet")) } else { Ok("now") }
    });
    let kept = DynTool::new(
        spec("kept").cache(Cache::new(Duration::from_secs(60))),
        schema(),
        move |_, _| async move {
            tokio::time::sleep(wait).await;
            "made"
        },
    );
    let held =
        DynTool::new(spec("held").rate(Rate::parse("2/second").unwrap()), schema(), |_, _| async {
            "let through"
        });
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(vec![again, kept, held]).build().unwrap())
        .policy(AllowAll)
        .observer(telemetry.observer())
        .build()
        .unwrap();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tokio.block_on(async {
            for (tool, times) in [("again", 1), ("kept", 2), ("held", 3)] {
                let call = |n: usize| ToolCall::new(format!("{tool}{n}"), tool, json!({}));
                let turn = runtime.run().turn().await.unwrap();
                let answers = turn.run((0..times).map(call)).await;
                assert!(answers.iter().all(|answer| answer.failure().is_none()));
            }
        });
    });
    drop(runtime);
    telemetry.shutdown(Duration::from_secs(10)).unwrap();
    let spans = received.spans();
    for (name, tool) in [("backoff", "again"), ("flight", "kept"), ("rate", "held")] {
        let seen = find(&spans, &format!("haft.wait {name}"));
        assert_eq!(seen.get("haft.wait.for"), Some(name));
        let call = parent(&spans, seen).unwrap();
        assert_eq!(
            (call.span.name.as_str(), call.get("gen_ai.tool.name")),
            ("haft.call", Some(tool)),
            "waiting is part of the call and of no attempt"
        );
        assert_ne!(call.get("haft.waited_us"), Some("0"));
        let siblings = spans.iter().filter(|s| s.span.parent_span_id == seen.span.parent_span_id);
        for other in siblings.filter(|s| s.span.name.starts_with("execute_tool")) {
            let is_before = other.span.end_time_unix_nano <= seen.span.start_time_unix_nano;
            let is_after = other.span.start_time_unix_nano >= seen.span.end_time_unix_nano;
            assert!(is_before || is_after, "{other:?} {seen:?}");
        }
    }
    let joined = spans.iter().filter(|s| s.get("haft.cache") == Some("joined")).count();
    assert_eq!(joined, 1);
    let executed = spans.iter().filter(|s| s.span.name == "execute_tool kept").count();
    assert_eq!(executed, 1, "who joins executes nothing");
}

#[test]
fn failed_span_has_its_error_code_and_a_denied_call_has_no_execution_span() {
    let spans = exported(|r| r, &["broken", "change", "nowhere"]).spans();
    let broken = find(&spans, "execute_tool broken");
    assert_eq!(broken.get("error.type"), Some("tool_failed"));
    assert_eq!(broken.span.status.as_ref().unwrap().code, 2);
    assert_eq!(broken.span.status.as_ref().unwrap().message, "", "words may hold anything");
    let calls: Vec<_> = spans.iter().filter(|seen| seen.span.name == "haft.call").collect();
    let ends: Vec<_> = calls.iter().map(|call| call.get("error.type").unwrap()).collect();
    assert_eq!(ends, ["tool_failed", "denied", "unknown_tool"]);
    assert_eq!(calls[1].get("haft.verdict"), Some("deny"));
    let executed = spans.iter().filter(|seen| seen.span.name.starts_with("execute_tool")).count();
    assert_eq!(executed, 1);
}

#[test]
fn durations_have_the_buckets_of_the_conventions_and_match_the_spans() {
    let received = exported(|r| r, &["inner", "inner", "broken", "nowhere", "no_where"]);
    let points = received.histogram(telemetry::EXECUTE_TOOL_DURATION);
    let of = |tool: &str| points.iter().find(|p| p.attributes["gen_ai.tool.name"] == tool).unwrap();
    let inner = of("inner");
    assert_eq!(inner.borders, telemetry::DURATION_BUCKETS);
    assert_eq!(inner.count, 2);
    assert_eq!(inner.attributes.get("error.type"), None);
    assert_eq!(inner.attributes["gen_ai.agent.name"], "ada");
    assert_eq!(inner.attributes["gen_ai.tool.type"], "function");
    assert_eq!(of("broken").attributes["error.type"], "tool_failed");
    assert_eq!(points.len(), 2, "what did not run has no duration");
    let spans = received.spans();
    let executed = spans.iter().filter(|seen| seen.span.name == "execute_tool inner");
    let spent: f64 = executed.map(Seen::seconds).sum();
    assert!((spent - inner.sum).abs() < 0.005, "{spent} and {}", inner.sum);
    assert_eq!(received.metric(telemetry::EXECUTE_TOOL_DURATION).unit, "s");
    let calls = format!("{:?}", received.metric(telemetry::CALLS));
    assert!(calls.contains("_other") && !calls.contains("nowhere"), "{calls}");
}

#[test]
fn an_unreachable_collector_does_not_block_calls_or_shutdown() {
    let telemetry = Telemetry::otlp("http://127.0.0.1:9").build().unwrap();
    let runtime = Runtime::builder().observer(telemetry.observer()).build().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    // `tracing` caches interest: a callsite first hit without a subscriber may stay disabled.
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let _ = tracing::subscriber::with_default(subscriber, || {
        tokio.block_on(runtime.call("nowhere", json!({})))
    });
    assert!(telemetry.flush(Duration::from_millis(1)).is_err());
    let began = tokio::time::Instant::now();
    let _ = telemetry.shutdown(Duration::from_millis(200));
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(Telemetry::otlp("nowhere").build().is_err());
}
