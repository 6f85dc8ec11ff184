//! Lists, calls, errors, progress and cancellation, in both versions of the protocol.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Failure, Output, ToolContext,
    registry::ToolView,
    tool::{Capabilities, DynTool, ToolSpec},
};
use haft_mcp::server::McpServer;
use serde_json::{Value, json};

use super::client::{Client, echo, runtime};

fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name, "Does it.").read_only().capabilities(Capabilities::NONE)
}

/// A tool that needs permission, so that it is denied without an approver.
fn write() -> DynTool {
    let spec = ToolSpec::new("write", "Writes.").capabilities(Capabilities::NONE);
    DynTool::new(spec, json!({"properties": {}}), |_, _| async {
        Ok::<_, Failure>(Output::text("written"))
    })
}

/// A tool that waits until it is cancelled, and counts how often it ran and stopped.
fn waiting(started: Arc<AtomicUsize>, stopped: Arc<AtomicUsize>) -> DynTool {
    DynTool::new(spec("wait"), json!({"properties": {}}), move |_, cx: ToolContext| {
        let (started, stopped) = (Arc::clone(&started), Arc::clone(&stopped));
        async move {
            started.fetch_add(1, Ordering::SeqCst);
            cx.cancelled().await;
            stopped.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Failure>(Output::text("stopped"))
        }
    })
}

async fn until(count: &AtomicUsize, wanted: usize) {
    let reached = async {
        while count.load(Ordering::SeqCst) < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reached).await.expect("in time");
}

async fn both() -> [Client; 2] {
    let server = || McpServer::builder(runtime(vec![echo(), write()]).build().unwrap());
    [Client::legacy(server(), json!({})).await, Client::modern(server(), json!({}))]
}

#[tokio::test]
async fn tools_are_listed_with_their_schema_and_annotations() {
    for mut client in both().await {
        let listed = client.request("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["echo", "write"], "in order");
        assert_eq!(tools[0]["inputSchema"]["type"], "object");
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
        assert_eq!(tools[1]["annotations"]["readOnlyHint"], false);
        client.close().await;
    }
}

#[tokio::test]
async fn schema_and_permission_failures_are_results_and_unknown_tools_are_errors() {
    for mut client in both().await {
        let done = client.call("echo", json!({"text": "hello"})).await;
        assert_eq!(done["result"]["content"][0]["text"], "hello");
        assert_eq!(done["result"]["isError"], false);

        let invalid = client.call("echo", json!({"text": 7})).await;
        assert_eq!(invalid["result"]["isError"], true, "{invalid}");
        assert!(invalid["result"]["content"][0]["text"].as_str().unwrap().contains("text"));
        let code = |answer: &Value| answer["result"]["_meta"]["dev.haft/failure"]["code"].clone();
        assert_eq!(code(&invalid), "bad_arguments");

        let denied = client.call("write", json!({})).await;
        assert_eq!(denied["result"]["isError"], true, "{denied}");
        assert_eq!(code(&denied), "denied");

        let unknown = client.call("no_such_tool", json!({})).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        client.close().await;
    }
}

#[tokio::test]
async fn view_of_a_caller_filters_the_list_and_the_calls() {
    let server =
        McpServer::builder(runtime(vec![echo(), write()]).build().unwrap()).view(|caller| {
            if caller == "local" { ToolView::all().hide("echo") } else { ToolView::all() }
        });
    let mut client = Client::modern(server, json!({}));
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(listed["result"]["tools"][0]["name"], "write");
    let hidden = client.call("echo", json!({"text": "a"})).await;
    assert!(hidden["result"]["content"][0]["text"] != "a", "{hidden}");
    client.close().await;
}

#[tokio::test]
async fn both_eras_are_answered_on_one_stdio_connection_after_a_probe() {
    let server = McpServer::builder(runtime(echo()).build().unwrap()).name("probe", "2");
    let mut client = Client::modern(server, json!({}));
    let found = client.request("server/discover", json!({})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")));
    let done = client.call("echo", json!({"text": "a"})).await;
    assert_eq!(done["result"]["resultType"], "complete");
    client.close().await;
}

#[tokio::test]
async fn cancelled_notification_and_disconnect_stop_the_body() {
    for is_legacy in [true, false] {
        let (started, stopped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let tool = waiting(Arc::clone(&started), Arc::clone(&stopped));
        let server = McpServer::builder(runtime(tool).build().unwrap());
        let mut client = if is_legacy {
            Client::legacy(server, json!({})).await
        } else {
            Client::modern(server, json!({}))
        };
        let id = client.start("tools/call", json!({"name": "wait", "arguments": {}})).await;
        until(&started, 1).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "enough"}});
        client.send(cancel).await;
        until(&stopped, 1).await;

        client.start("tools/call", json!({"name": "wait", "arguments": {}})).await;
        until(&started, 2).await;
        client.close().await;
        until(&stopped, 2).await;
    }
}

#[tokio::test]
async fn progress_is_sent_only_if_it_is_asked_for_and_increases() {
    let tool =
        DynTool::new(spec("count"), json!({"properties": {}}), |_, cx: ToolContext| async move {
            for n in [0.1_f32, 0.2, 0.2, 0.9] {
                cx.progress(n, format!("at {n}"));
                tokio::time::sleep(Duration::from_millis(110)).await;
            }
            Ok::<_, Failure>(Output::text("done"))
        });
    let server = McpServer::builder(runtime(tool).build().unwrap());
    let mut client = Client::modern(server, json!({}));
    client.call("count", json!({})).await;
    assert!(client.others.is_empty(), "{:?}", client.others);
    let params = json!({"name": "count", "arguments": {}, "_meta": {"progressToken": "t"}});
    let done = client.request("tools/call", params).await;
    assert_eq!(done["result"]["content"][0]["text"], "done");
    let values: Vec<f64> =
        client.others.iter().map(|m| m["params"]["progress"].as_f64().unwrap()).collect();
    assert!(values.len() >= 2 && values.windows(2).all(|v| v[0] < v[1]), "{values:?}");
    assert!(client.others.iter().all(|m| m["params"]["progressToken"] == "t"));
    client.close().await;
}

#[tokio::test]
async fn ten_thousand_tools_are_listed_in_pages() {
    let tools: Vec<DynTool> = (0..10_000)
        .map(|n| {
            let schema = json!({"properties": {}});
            DynTool::new(spec(&format!("tool_{n:05}")), schema, |_, _| async {
                Ok::<_, Failure>(Output::text("ok"))
            })
        })
        .collect();
    let server = McpServer::builder(runtime(tools).build().unwrap());
    let mut client = Client::modern(server, json!({}));
    let (mut names, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let params = cursor.take().map_or(json!({}), |cursor| json!({"cursor": cursor}));
        let page = client.request("tools/list", params).await;
        let tools = page["result"]["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|t| t["name"].as_str().unwrap().to_owned()));
        match page["result"]["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(names.len(), 10_000);
    assert!(names.is_sorted());
    let wrong = client.request("tools/list", json!({"cursor": "other:1000"})).await;
    assert_eq!(wrong["error"]["code"], -32602);
    client.close().await;
}

#[tokio::test]
async fn calls_beyond_the_limit_are_refused_and_the_others_go_on() {
    let (started, stopped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let tool = waiting(Arc::clone(&started), stopped);
    let server = McpServer::builder(runtime(tool).build().unwrap()).max_calls(2);
    let mut client = Client::modern(server, json!({}));
    for _ in 0..2 {
        client.start("tools/call", json!({"name": "wait", "arguments": {}})).await;
    }
    until(&started, 2).await;
    let third = client.call("wait", json!({})).await;
    assert_eq!(third["result"]["_meta"]["dev.haft/failure"]["code"], "rate_limited", "{third}");
    client.close().await;
}
