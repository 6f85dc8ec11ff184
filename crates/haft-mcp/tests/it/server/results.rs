//! Large results as links that are read in ranges, by their owner only.

use haft::{
    Failure, Output,
    tool::{Capabilities, DynTool, ResultLimit, ToolSpec},
};
use haft_mcp::server::McpServer;
use serde_json::json;

use super::client::{Client, runtime};

#[tokio::test]
async fn large_result_is_a_preview_and_a_link_that_is_read_in_ranges() {
    let spec = ToolSpec::new("log", "Prints a log.")
        .read_only()
        .capabilities(Capabilities::NONE)
        .max_result(ResultLimit::Chars(500));
    let tool = DynTool::new(spec, json!({"properties": {}}), |_, _| async {
        let lines: Vec<String> = (1..=5_000).map(|n| format!("line {n}")).collect();
        Ok::<_, Failure>(Output::text(lines.join("\n")))
    });
    let server = McpServer::builder(runtime(tool).build().unwrap());
    let mut client = Client::modern(server, json!({}));
    let done = client.call("log", json!({})).await;
    let content = done["result"]["content"].as_array().unwrap();
    let preview = content[0]["text"].as_str().unwrap();
    assert!(preview.chars().count() <= 500, "{}", preview.len());
    let link = content.last().unwrap();
    assert_eq!(link["type"], "resource_link", "{link}");
    assert!(link["size"].as_u64().unwrap() > 40_000);
    let uri = link["uri"].as_str().unwrap().to_owned();

    let whole = client.request("resources/read", json!({"uri": uri})).await;
    let text = whole["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("line 1\n") && text.contains("\nline 5000"), "{}", text.len());
    let range = json!({"uri": format!("{uri}?line=4999&limit=1")});
    let some = client.request("resources/read", range).await;
    assert_eq!(some["result"]["contents"][0]["text"].as_str().unwrap().trim_end(), "line 4999");

    for uri in [format!("{uri}?line=0"), format!("{uri}?page=1")] {
        let refused = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    for uri in ["result://../../etc/passwd", "result://0123456789bcdfghjklmnpqrs0", "file:///a"] {
        let missing = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(missing["error"]["code"], -32602, "{missing}");
    }
    let listed = client.request("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"], json!([]), "results are not listed");
    client.close().await;
}
