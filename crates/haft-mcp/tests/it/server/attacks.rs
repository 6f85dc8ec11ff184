//! Attacks of clients on each other and on the servers behind a gateway. Each test names its
//! attack.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Failure, Output, ToolContext,
    secrets::Secret,
    tool::{Capabilities, DynTool, ResultLimit, ToolSpec},
};
use haft_mcp::{
    client::{HttpEndpoint, ServerConfig, ServerTransport},
    server::{CallPeer, ClientApprover, HttpOptions, McpServer},
};
use serde_json::{Value, json};

use super::{
    client::{MODERN, runtime},
    gateway::gateway,
    http::Server,
};
use crate::kit::{self, HttpServer, TempFile};

const ALICE: (&str, &str) = ("Authorization", "Bearer s3cret-of-alice");
const BOB: (&str, &str) = ("Authorization", "Bearer s3cret-of-bob");

fn options() -> HttpOptions {
    HttpOptions::default().token("alice", "s3cret-of-alice").token("bob", "s3cret-of-bob")
}

/// Sends a request of 2026-07-28 as a caller.
async fn ask(server: &Server, caller: (&str, &str), method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"form": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    });
    let name = params["name"].as_str().or(params["uri"].as_str()).or(params["taskId"].as_str());
    let name = name.unwrap_or_default().to_owned();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let headers = [
        caller,
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", method),
        ("Mcp-Name", name.as_str()),
    ];
    let (_, _, answer) = server.send(&headers, &body.to_string()).await;
    // The whole body is one object, or one event of a stream.
    let object =
        answer.find('{').zip(answer.rfind('}')).and_then(|(from, to)| answer.get(from..=to));
    serde_json::from_str(object.unwrap_or_default()).unwrap_or_else(|e| panic!("{answer}: {e}"))
}

/// A tool that asks first, one with a large result, and one that becomes a task.
fn tools(runs: &Arc<AtomicUsize>) -> Vec<DynTool> {
    let runs = Arc::clone(runs);
    let schema = || json!({"properties": {}});
    let spec = ToolSpec::new("delete", "Deletes all.").capabilities(Capabilities::NONE);
    let delete = DynTool::new(spec, schema(), move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Failure>(Output::text("deleted")) }
    });
    let spec = ToolSpec::new("log", "Prints a log.").read_only().capabilities(Capabilities::NONE);
    let log = DynTool::new(spec.max_result(ResultLimit::Chars(100)), schema(), |_, _| async {
        Ok::<_, Failure>(Output::text("private line\n".repeat(500)))
    });
    let spec = ToolSpec::new("long", "Takes long.").read_only().capabilities(Capabilities::NONE);
    let long = DynTool::new(spec, schema(), |_, cx: ToolContext| async move {
        if let Some(peer) = CallPeer::of(&cx) {
            peer.become_task().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok::<_, Failure>(Output::text("private result"))
    });
    vec![delete, log, long]
}

#[tokio::test]
async fn confused_deputy_a_client_cannot_use_state_task_result_or_session_of_another() {
    let runs = Arc::<AtomicUsize>::default();
    let runtime = runtime(tools(&runs)).approver(ClientApprover).build().unwrap();
    let server = Server::start(McpServer::builder(runtime), options()).await;

    // An approval that Alice's user is asked for cannot be answered by Bob.
    let asked = ask(&server, ALICE, "tools/call", json!({"name": "delete", "arguments": {}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let retry = json!({
        "name": "delete", "arguments": {}, "requestState": asked["result"]["requestState"],
        "inputResponses": {"approval": {"action": "accept", "content": {"decision": "allow"}}},
    });
    let refused = ask(&server, BOB, "tools/call", retry.clone()).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let done = ask(&server, ALICE, "tools/call", retry).await;
    assert_eq!(done["result"]["isError"], false, "still Alice's: {done}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);

    // A large result of Alice's cannot be read by Bob.
    let log = ask(&server, ALICE, "tools/call", json!({"name": "log", "arguments": {}})).await;
    let content = log["result"]["content"].as_array().unwrap();
    let uri = content.last().unwrap()["uri"].clone();
    let read = ask(&server, BOB, "resources/read", json!({"uri": uri})).await;
    assert_eq!(read["error"]["code"], -32602, "{read}");
    let read = ask(&server, ALICE, "resources/read", json!({"uri": uri})).await;
    assert!(read.to_string().contains("private line"), "{read}");

    // A task of Alice's looks to Bob as if it did not exist.
    let task = ask(&server, ALICE, "tools/call", json!({"name": "long", "arguments": {}})).await;
    let id = task["result"]["taskId"].clone();
    assert!(id.is_string(), "{task}");
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = ask(&server, BOB, method, json!({"taskId": id})).await;
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        assert!(!refused.to_string().contains("private"), "{refused}");
    }
    let own = ask(&server, ALICE, "tasks/get", json!({"taskId": id})).await;
    assert!(own["result"]["status"].is_string(), "{own}");

    // The id of a session is no authority.
    let session = server.session(&[ALICE]).await;
    assert_eq!(server.legacy(&session, &[BOB]).await.0, 404);
    server.end().await;
}

#[tokio::test]
async fn token_passthrough_the_token_of_a_client_never_reaches_a_server() {
    for own in [None, Some("token-of-the-gateway")] {
        let log = TempFile::new();
        let upstream = HttpServer::start(&["--modern", "--log", &log.arg()]);
        let mut endpoint = HttpEndpoint::new(&upstream.url);
        endpoint.token = own.map(Secret::from);
        let config = kit::patient(ServerConfig::new("fix", ServerTransport::Http(endpoint)));
        let server = Server::start(gateway([config]), options()).await;
        let params = json!({"name": "fix__echo", "arguments": {"text": "hello"}});
        let done = ask(&server, ALICE, "tools/call", params).await;
        assert_eq!(done["result"]["content"][0]["text"], "hello", "{done}");
        let calls = log.messages();
        assert!(calls.iter().any(|message| message["method"] == "tools/call"));
        for message in calls {
            let text = message.to_string();
            assert!(!text.contains("s3cret-of"), "{text}");
            let sent = message["headers"].as_array().unwrap().iter().filter_map(Value::as_str);
            let tokens: Vec<&str> =
                sent.filter(|header| header.to_lowercase().starts_with("authorization")).collect();
            let wanted: Vec<String> =
                own.iter().map(|token| format!("authorization: Bearer {token}")).collect();
            assert_eq!(tokens, wanted, "only the gateway's own token");
        }
        server.end().await;
    }
}

#[tokio::test]
async fn session_fixation_an_id_that_a_client_chose_opens_no_session() {
    let runtime = runtime(super::client::echo()).build().unwrap();
    let server = Server::start(McpServer::builder(runtime), options()).await;
    let session = server.session(&[ALICE]).await;
    let chosen = "00000000-0000-4000-8000-000000000000";
    for caller in [ALICE, BOB] {
        assert_eq!(server.legacy(chosen, &[caller]).await.0, 404, "{caller:?}");
    }
    let fixed = [ALICE, ("Mcp-Session-Id", chosen)];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    assert_eq!(server.send(&fixed, &body.to_string()).await.0, 404, "nor with `initialize`");
    assert_eq!(server.legacy(chosen, &[ALICE]).await.0, 404);
    assert_eq!(server.legacy(&session, &[ALICE]).await.0, 200);
    server.end().await;
}
