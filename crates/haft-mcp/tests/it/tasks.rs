//! Calls that their server makes a task of.

use serde_json::json;

use crate::{
    kit::{TempFile, asking, call, code, eventually, runtime, server, stdio},
    server::{client::Client, gateway::gateway},
};

#[tokio::test]
async fn task_of_a_server_is_followed_to_its_end_and_its_question_is_answered_once() {
    let log = TempFile::new();
    let remote = asking(stdio(&["--log", &log.arg()]));
    let runtime = runtime(&[&remote]);
    let done = call(&runtime, "fix__task", json!({})).await;
    assert_eq!(done.text(), "\"accept\" \"Ada\"");
    assert_eq!((log.count("tools/call"), log.count("tasks/update")), (1, 1));
    assert_eq!(log.count("tasks/cancel"), 0);
    let failed = call(&runtime, "fix__task_fails", json!({})).await;
    assert!(failed.model_text().contains("out of paper"), "{}", failed.model_text());
    runtime.close().await;
}

#[tokio::test]
async fn cancelled_or_late_call_cancels_its_task_at_the_server() {
    for is_late in [false, true] {
        let log = TempFile::new();
        let mut config = stdio(&["--log", &log.arg()]);
        if is_late {
            config.timeout = std::time::Duration::from_millis(200);
            config.max_timeout = config.timeout;
        }
        let remote = server(config);
        let runtime = runtime(&[&remote]);
        let turn = runtime.run().turn().await.unwrap();
        let handle = turn.handle();
        let calls = vec![haft::ToolCall::new("c", "fix__task_hangs", json!({}))];
        let running = tokio::spawn(turn.run(calls));
        eventually("it is polled", || log.count("tasks/get") > 1).await;
        if !is_late {
            handle.interrupt();
        }
        let result = running.await.unwrap().pop().unwrap();
        assert_eq!(code(&result), "unknown_outcome");
        eventually("the server is informed", || log.count("tasks/cancel") == 1).await;
        runtime.close().await;
    }
}

#[tokio::test]
async fn task_of_a_server_is_a_task_of_the_gateway_for_its_client() {
    let log = TempFile::new();
    let capabilities = json!({
        "elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}},
    });
    let mut client = Client::modern(gateway([stdio(&["--log", &log.arg()])]), capabilities);
    let started = client.request("tools/call", json!({"name": "fix__task"})).await;
    assert_eq!(started["result"]["resultType"], "task", "{started}");
    let id = json!({"taskId": started["result"]["taskId"]});
    let question = loop {
        let task = client.request("tasks/get", id.clone()).await;
        if task["result"]["status"] == "input_required" {
            break task["result"]["inputRequests"].clone();
        }
        assert_eq!(task["result"]["status"], "working", "{task}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let text = question["who"]["params"]["message"].as_str().unwrap();
    assert_eq!(text, "[MCP server fix] Your name?");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let params = json!({"taskId": id["taskId"], "inputResponses": {"who": answer}});
    client.request("tasks/update", params).await;
    let done = loop {
        let task = client.request("tasks/get", id.clone()).await;
        if task["result"]["status"] == "completed" {
            break task;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let text = &done["result"]["result"]["content"][0]["text"];
    assert_eq!(text, "\"accept\" \"Ada\"", "{done}");

    // The client cancels its task, and the gateway that of the server.
    let started = client.request("tools/call", json!({"name": "fix__task_hangs"})).await;
    client.request("tasks/cancel", json!({"taskId": started["result"]["taskId"]})).await;
    eventually("the server is informed", || log.count("tasks/cancel") == 1).await;
    client.close().await;

    // A client that does not know tasks cannot use a tool that needs them.
    let mut client = Client::modern(gateway([stdio(&[])]), json!({}));
    let refused = client.request("tools/call", json!({"name": "fix__task"})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    client.close().await;
}
