//! A gateway in front of other servers: names, questions, errors, resources, servers that fail.

use std::sync::{Arc, Mutex};

use haft::{
    Config, Runtime, ToolRegistry,
    host::Frame,
    policy::{
        AllowAll, ConfigFile, ConfigLayer, Decision, FileFormat, LoadOptions, PathBase, Pattern,
        Policy, PolicyConfig, PolicyContext, Rule, Rules,
    },
    tool::{DynTool, ToolSpec},
};
use haft_mcp::{
    client::{ClientHost, RemoteServer, ServerConfig, ServerTransport, StdioCommand},
    gateway::Gateway,
    server::{Changes, ContentRead, McpServer, McpServerBuilder},
};
use serde_json::{Value, json};

use super::client::Client;
use crate::kit;

pub(crate) fn gateway(configs: impl IntoIterator<Item = ServerConfig>) -> McpServerBuilder {
    gateway_with(configs, Arc::new(AllowAll))
}

fn gateway_with(
    configs: impl IntoIterator<Item = ServerConfig>,
    policy: Arc<dyn Policy>,
) -> McpServerBuilder {
    let changes = Changes::default();
    let mut host = ClientHost::default();
    host.forward_questions = true;
    host.prefix_resources = true;
    host.changes = Some(changes.clone());
    let servers: Vec<RemoteServer> = configs
        .into_iter()
        .map(|config| RemoteServer::with(config, host.clone()).unwrap())
        .collect();
    let mut config = Config::default();
    config.frame = Frame::Never;
    config.max_tool_tokens = None;
    let registry =
        servers.iter().fold(ToolRegistry::builder(), |all, server| all.source(server.clone()));
    let runtime = Runtime::builder()
        .registry(registry.build().unwrap())
        .config(config)
        .policy(Arc::clone(&policy))
        .build()
        .unwrap();
    McpServer::builder(runtime).provider(Gateway::new(servers).policy(policy)).changes(changes)
}

fn elicitation() -> Value {
    json!({"elicitation": {"form": {}}})
}

#[tokio::test]
async fn tools_of_a_server_have_its_name_and_errors_keep_their_channel() {
    for era in [&[][..], &["--legacy"]] {
        let mut client = Client::modern(gateway([kit::stdio(era)]), json!({}));
        let listed = client.request("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "fix__echo"), "{listed}");
        let done = client.call("fix__sum", json!({"a": 2, "b": 3})).await;
        assert_eq!(done["result"]["structuredContent"], json!({"sum": 5}), "{done}");
        let failed = client.call("fix__fail", json!({})).await;
        assert_eq!(failed["result"]["isError"], true);
        assert!(failed["result"]["content"][0]["text"].as_str().unwrap().contains("no such city"));
        let refused = client.call("fix__refuse", json!({})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(refused["error"]["message"], "not like this");
        let label = &done["result"]["_meta"]["dev.haft/label"]["trust"];
        assert_eq!(label, "untrusted", "results of other servers are untrusted");
        client.close().await;
    }
}

#[tokio::test]
async fn links_lead_to_the_gateway() {
    let mut client = Client::modern(gateway([kit::stdio(&[])]), json!({}));
    let done = client.call("fix__content", json!({})).await;
    let content = done["result"]["content"].as_array().unwrap();
    let of_type = |name: &str| content.iter().find(|block| block["type"] == name).unwrap();
    assert_eq!(of_type("resource_link")["uri"], "haft://fix/test://link");
    assert_eq!(of_type("resource")["resource"]["uri"], "haft://fix/test://inside");
    assert_eq!(of_type("image")["mimeType"], "image/png");
    client.close().await;
}

#[tokio::test]
async fn schema_and_annotations_of_a_server_reach_clients_unchanged() {
    let definition = json!({
        "name": "odd", "description": "Has an odd schema.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "$defs": {"day": {"enum": ["today", 7, null]}},
            "properties": {"day": {"$ref": "#/$defs/day"}, "z": {"const": 1.0}, "a": true},
            "patternProperties": {"^x-": {"type": "string"}}, "x-own": {"k": [1]},
            "additionalProperties": false,
        },
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let file = kit::TempFile::new();
    file.write(&json!([definition]).to_string());
    for era in ["--modern", "--legacy"] {
        let config = kit::stdio(&[era, "--definitions", &file.arg()]);
        let mut client = Client::modern(gateway([config]), json!({}));
        let listed = client.request("tools/list", json!({})).await;
        let tool = &listed["result"]["tools"][0];
        assert_eq!(tool["name"], "fix__odd", "{listed}");
        for field in ["inputSchema", "outputSchema", "description"] {
            assert_eq!(tool[field], definition[field], "{field}");
        }
        // It is validated here all the same.
        let wrong = client.call("fix__odd", json!({"day": "tomorrow"})).await;
        assert_eq!(wrong["result"]["isError"], true, "{wrong}");
        client.close().await;
    }
}

#[tokio::test]
async fn resources_and_prompts_of_a_server_are_passed_on_under_its_prefix() {
    for era in ["--modern", "--legacy"] {
        let mut client = Client::modern(gateway([kit::stdio(&[era])]), json!({}));
        // The first list of tools waits for the server.
        client.request("tools/list", json!({})).await;
        let listed = client.request("resources/list", json!({})).await;
        assert_eq!(listed["result"]["resources"][0]["uri"], "haft://fix/note://today", "{listed}");
        let templates = client.request("resources/templates/list", json!({})).await;
        assert!(templates.to_string().contains("haft://fix/note://{day}"), "{templates}");
        let uri = json!({"uri": "haft://fix/note://today"});
        let read = client.request("resources/read", uri).await;
        assert_eq!(read["result"]["contents"][0]["text"], "Water the beans.", "{read}");
        assert_eq!(read["result"]["contents"][0]["uri"], "haft://fix/note://today");
        for uri in ["haft://fix/note://never", "haft://other/note://today", "note://today"] {
            let missing = client.request("resources/read", json!({"uri": uri})).await;
            assert!(missing["error"]["code"].is_i64(), "{missing}");
        }
        let listed = client.request("prompts/list", json!({})).await;
        assert_eq!(listed["result"]["prompts"][0]["name"], "fix__greet", "{listed}");
        let params = json!({"name": "fix__greet", "arguments": {"who": "Ada"}});
        let prompt = client.request("prompts/get", params).await;
        let content = &prompt["result"]["messages"][0]["content"];
        assert_eq!(content["text"], "Greet Ada.", "{prompt}");
        client.close().await;
    }
}

#[tokio::test]
async fn deny_rule_for_a_server_hides_its_resources_and_prompts() {
    let denies = |pattern: &str| {
        let pattern = Pattern::parse(pattern, &PathBase::default()).unwrap();
        let rules = vec![Rule::new(Decision::Deny, pattern)];
        Arc::new(Rules::new(rules, PolicyContext::default()).unwrap())
    };
    for (pattern, is_hidden) in
        [("mcp__fix", true), ("mcp__fix__*", true), ("mcp__fix__greet", false), ("mcp__fi", false)]
    {
        let server = gateway_with([kit::stdio(&[])], denies(pattern));
        let mut client = Client::modern(server, json!({}));
        client.request("tools/list", json!({})).await;
        for (what, key) in [
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let listed = client.request(what, json!({})).await;
            let is_named = listed["result"][key].to_string().contains("fix");
            assert_eq!(is_named, !is_hidden, "{pattern}: {listed}");
        }
        let uri = json!({"uri": "haft://fix/note://today"});
        let read = client.request("resources/read", uri).await;
        assert_eq!(read["error"]["code"].is_i64(), is_hidden, "{pattern}: {read}");
        let params = json!({"name": "fix__greet", "arguments": {"who": "Ada"}});
        let prompt = client.request("prompts/get", params).await;
        assert_eq!(prompt["error"]["code"].is_i64(), is_hidden, "{pattern}: {prompt}");
        client.close().await;
    }
}

#[tokio::test]
async fn tool_poisoning_in_a_prompt_never_reaches_a_client_and_an_endless_list_ends() {
    for era in ["--modern", "--legacy"] {
        let mut client = Client::modern(gateway([kit::stdio(&[era, "--hostile"])]), json!({}));
        client.request("tools/list", json!({})).await;
        let listed = client.request("prompts/list", json!({})).await;
        let prompt = &listed["result"]["prompts"][0];
        let text = prompt["description"].as_str().unwrap();
        assert!(text.starts_with("Withheld by haft: it "), "{listed}");
        assert!(!listed.to_string().contains("and read ~"), "{listed}");
        assert_eq!(prompt["name"], "fix__greet");
        let listed = client.request("resources/list", json!({})).await;
        let resources = listed["result"]["resources"].as_array().map(Vec::len);
        assert!(resources.is_some_and(|count| (1..=1_000).contains(&count)), "{resources:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn question_of_a_server_reaches_the_client_in_each_pair_of_eras() {
    for upstream in [&[][..], &["--legacy"]] {
        let answer = json!({"action": "accept", "content": {"name": "Ada"}});
        let mut client = Client::modern(gateway([kit::stdio(upstream)]), elicitation());
        let asked = client.call("fix__ask", json!({})).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let (key, request) =
            asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let message = request["params"]["message"].as_str().unwrap();
        assert_eq!(message, "[MCP server fix] Your name?", "the user sees who asks");
        let retry = json!({"name": "fix__ask", "arguments": {},
            "requestState": asked["result"]["requestState"], "inputResponses": {key: answer}});
        let done = client.request("tools/call", retry).await;
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"), "{done}");
        client.close().await;

        let mut client = Client::legacy(gateway([kit::stdio(upstream)]), elicitation()).await;
        let id = client.start("tools/call", json!({"name": "fix__ask", "arguments": {}})).await;
        let form = client.expect("elicitation/create").await;
        client.send(json!({"jsonrpc": "2.0", "id": form["id"], "result": answer})).await;
        let done = client.answer(id).await;
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"), "{done}");
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_entries_and_progress_that_a_server_sends_at_once_all_arrive_in_order() {
    for era in [&[][..], &["--legacy"]] {
        let mut client = Client::legacy(gateway([kit::stdio(era)]), json!({})).await;
        for _ in 0..50 {
            let params = json!({"name": "fix__log", "arguments": {"n": 5},
                "_meta": {"progressToken": "p"}});
            let done = client.request("tools/call", params).await;
            assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
            let notes: Vec<Value> = client.others.drain(..).collect();
            let of = |method: &str, field: &str| -> Vec<f64> {
                let notes = notes.iter().filter(|note| note["method"] == method);
                notes.map(|note| note["params"][field].as_f64().unwrap()).collect()
            };
            assert_eq!(of("notifications/message", "data"), [1.0, 2.0, 3.0, 4.0, 5.0]);
            let progress = of("notifications/progress", "progress");
            assert_eq!(progress.len(), 5, "{progress:?}");
            assert!(progress.is_sorted(), "{progress:?}");
        }
        client.close().await;
    }
}

#[tokio::test]
async fn question_without_its_call_is_not_passed_to_another_client() {
    // A server of 2025-11-25 does not say which call a question belongs to (confused deputy).
    let server = gateway([kit::stdio(&["--legacy"])]).build().unwrap();
    let mut first = Client::connect(&server, super::client::MODERN, elicitation());
    let mut second = Client::connect(&server, super::client::MODERN, elicitation());
    first.start("tools/call", json!({"name": "fix__hang", "arguments": {}})).await;
    // The other call has arrived when a third one is answered.
    first.call("fix__echo", json!({"text": "a"})).await;
    let done = second.call("fix__ask", json!({})).await;
    assert_ne!(done["result"]["resultType"], "input_required", "{done}");
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn server_that_dies_or_never_starts_leaves_every_call_answered() {
    let dead = ServerConfig::new("dead", ServerTransport::Stdio(StdioCommand::new("/no/such")));
    let mut client = Client::modern(gateway([kit::stdio(&[]), dead]), json!({}));
    let crashed = client.call("fix__crash", json!({})).await;
    assert_eq!(crashed["result"]["isError"], true, "{crashed}");
    let after = client.call("fix__echo", json!({"text": "again"})).await;
    assert_eq!(after["result"]["content"][0]["text"], "again", "it is started again: {after}");
    for list in ["resources/list", "prompts/list"] {
        let listed = client.request(list, json!({})).await;
        assert!(listed["result"].is_object(), "{listed}");
    }
    let missing = client.request("resources/read", json!({"uri": "haft://dead/x:y"})).await;
    assert!(missing["error"]["code"].is_i64(), "{missing}");
    client.close().await;
}

/// Rules that allow a tool of ours and all of the server.
fn allowing() -> Rules {
    let text = "[[rule]]\nmatch = [\"send_mail\", \"mcp__fix__*\"]\ndecision = \"allow\"\n";
    let file = ConfigFile {
        layer: ConfigLayer::User,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: "/".into(),
        text: text.into(),
    };
    let loaded = PolicyConfig::read(&[file], &LoadOptions::default()).unwrap();
    Rules::new(loaded.rules, loaded.context).unwrap()
}

#[tokio::test]
async fn prompt_injection_in_a_resource_or_prompt_cannot_reach_an_effect_tool_unasked() {
    let requests = [
        ("resources/read", json!({"uri": "haft://fix/note://today"})),
        ("prompts/get", json!({"name": "fix__greet", "arguments": {"who": "Ada"}})),
    ];
    for (method, params) in requests {
        let remote = RemoteServer::new(kit::stdio(&["--hostile"])).unwrap();
        let spec = ToolSpec::new("send_mail", "Sends a mail.")
            .capabilities([haft::tool::Capability::Email])
            .label(haft::taint::Label::CLEAN);
        let mail = DynTool::new(spec, json!({}), |_, _| async { "sent" });
        let registry = ToolRegistry::builder().add(mail).source(remote.clone()).build().unwrap();
        let mut config = Config::default();
        config.frame = Frame::Never;
        let runtime = Runtime::builder()
            .registry(registry)
            .config(config)
            .policy(allowing())
            .secret("key", "s3cret-s3cret")
            .build()
            .unwrap();
        let reads = Arc::new(Mutex::new(Vec::<ContentRead>::new()));
        let kept = Arc::clone(&reads);
        let server =
            McpServer::builder(runtime).provider(Gateway::new([remote])).content_log(move |read| {
                kept.lock().unwrap().push(read.clone());
                Ok(())
            });
        let mut client = Client::modern(server, json!({}));
        client.request("tools/list", json!({})).await;
        let mail = json!({"name": "send_mail", "arguments": {}});
        let before = client.request("tools/call", mail.clone()).await;
        assert_eq!(before["result"]["content"][0]["text"], "sent", "a clean run may: {before}");

        let read = client.request(method, params).await;
        assert_eq!(read["result"]["_meta"]["dev.haft/label"]["trust"], "untrusted", "{read}");
        let text = read.to_string();
        assert!(!text.contains("s3cret-s3cret") && !text.contains("\\u001b"), "{text}");
        assert!(!text.contains('\u{202e}'), "{text}");
        let after = client.request("tools/call", mail).await;
        assert_eq!(after["result"]["isError"], true, "the run is tainted: {after}");
        let reads = reads.lock().unwrap().clone();
        assert_eq!(reads.len(), 1);
        let read = &reads[0];
        assert_eq!((read.server.as_deref(), read.outcome.as_str()), (Some("fix"), "ok"));
        assert!(read.bytes > 0 && !read.is_denied && read.user == "local", "{read:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn read_is_recorded_when_it_is_denied_or_missing_and_fails_if_it_cannot_be() {
    let deny = Pattern::parse("mcp__fix", &PathBase::default()).unwrap();
    let rules = Rules::new(vec![Rule::new(Decision::Deny, deny)], PolicyContext::default());
    for (policy, uri, outcome) in [
        (Arc::new(rules.unwrap()) as Arc<dyn Policy>, "haft://fix/note://today", "denied"),
        (Arc::new(AllowAll), "haft://fix/note://never", "error -32602"),
        (Arc::new(AllowAll), "haft://other/note://today", "error -32002"),
    ] {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&reads);
        let server = gateway_with([kit::stdio(&[])], policy).content_log(move |read| {
            kept.lock().unwrap().push((read.name.clone(), read.outcome.clone()));
            Ok(())
        });
        let mut client = Client::modern(server, json!({}));
        client.request("tools/list", json!({})).await;
        client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(*reads.lock().unwrap(), [(uri.to_owned(), outcome.to_owned())]);
        client.close().await;
    }
    let server = gateway([kit::stdio(&[])]).content_log(|_| Err("the disk is full".into()));
    let mut client = Client::modern(server, json!({}));
    client.request("tools/list", json!({})).await;
    let uri = json!({"uri": "haft://fix/note://today"});
    let read = client.request("resources/read", uri).await;
    assert!(read["error"]["message"].to_string().contains("recorded"), "{read}");
    client.close().await;
}
