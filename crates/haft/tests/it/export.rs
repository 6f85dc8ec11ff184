//! Exports a registry to each provider, and restores calls.

use std::sync::{Arc, Mutex};

use haft::{
    Dialect,
    dialect::{
        ExportOptions, LossKind, PromptCacheTtl, StrictMode, ToolChoice, ToolDefinition,
        ToolExport, ToolSearch,
    },
    tool::{DynTool, Exposure, ToolSpec},
};
use serde_json::{Value, json};

use crate::kit::{framed, permissive, read};

fn one(spec: ToolSpec, schema: Value) -> DynTool {
    DynTool::new(spec, schema, |args, _| async move { args.to_string() })
}

fn pair() -> Vec<DynTool> {
    let schema = json!({"properties": {"a": {"type": "string"}}, "required": ["a"]});
    vec![
        one(read("alpha").example(json!({"a": "x"})), schema.clone()),
        one(read("beta").exposure(Exposure::Deferred), schema),
    ]
}

async fn request(dialect: Dialect, options: ExportOptions) -> Value {
    let run = permissive(pair()).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    Value::Object(turn.snapshot().export_with(dialect, &options).request().clone())
}

#[tokio::test]
async fn each_request_has_the_options_its_provider_supports() {
    let options =
        || ExportOptions::default().choice(ToolChoice::Tool("beta".into())).parallel(false);
    let named = request(Dialect::Anthropic, options()).await;
    assert_eq!(
        named["tool_choice"],
        json!({"type": "tool", "name": "beta", "disable_parallel_tool_use": true})
    );
    assert_eq!(named["tools"][0]["input_examples"], json!([{"a": "x"}]));
    let named = request(Dialect::OpenAiResponses, options()).await;
    assert_eq!(named["tool_choice"], json!({"type": "function", "name": "beta"}));
    assert_eq!(named["parallel_tool_calls"], false);
    assert_eq!(named["tools"][0]["strict"], true);
    let named = request(Dialect::OpenAiChat, options()).await;
    assert_eq!(named["tool_choice"], json!({"type": "function", "function": {"name": "beta"}}));
    let named = request(Dialect::Gemini, options()).await;
    assert_eq!(
        named["toolConfig"]["functionCallingConfig"],
        json!({"mode": "ANY", "allowedFunctionNames": ["beta"]})
    );
    assert_eq!(named["tools"][0]["functionDeclarations"][1]["name"], "beta");
    let named = request(Dialect::Bedrock, options().cache(PromptCacheTtl::FiveMinutes)).await;
    assert_eq!(named["toolConfig"]["toolChoice"], json!({"tool": {"name": "beta"}}));
    assert_eq!(named["toolConfig"]["tools"][2], json!({"cachePoint": {"type": "default"}}));
    let named = request(Dialect::Mistral, ExportOptions::default().choice(ToolChoice::Any)).await;
    assert_eq!(named["tool_choice"], "any");
    let listed = request(Dialect::Mcp, ExportOptions::default()).await;
    assert_eq!(listed["tools"][0]["annotations"]["readOnlyHint"], true);
}

#[tokio::test]
async fn cache_marker_is_on_the_last_loaded_tool() {
    let options =
        ExportOptions::default().cache(PromptCacheTtl::OneHour).search(ToolSearch::Ranked);
    let body = request(Dialect::Anthropic, options).await;
    assert_eq!(body["tools"][0]["type"], "tool_search_tool_bm25_20251119");
    assert_eq!(body["tools"][1]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
    assert_eq!(body["tools"][2]["defer_loading"], true);
    assert!(body["tools"][2].get("cache_control").is_none());
    let own = request(Dialect::Anthropic, ExportOptions::default().search(ToolSearch::Own)).await;
    assert_eq!(own["tools"].as_array().unwrap().len(), 2, "the host's own tool searches");
    let body =
        request(Dialect::OpenAiResponses, ExportOptions::default().search(ToolSearch::Ranked))
            .await;
    assert_eq!(body["tools"][2], json!({"type": "tool_search", "execution": "server"}));
}

#[tokio::test]
async fn equal_tools_give_equal_bytes_and_the_export_is_cached() {
    let run = permissive(pair()).build().unwrap().run();
    let first = run.turn().await.unwrap();
    let second = run.turn().await.unwrap();
    let other = permissive(pair()).build().unwrap().run().turn().await.unwrap();
    for dialect in Dialect::ALL {
        let export = first.snapshot().export(*dialect);
        assert!(Arc::ptr_eq(&export, &second.snapshot().export(*dialect)), "{dialect}");
        assert_eq!(export.as_str(), other.snapshot().export(*dialect).as_str());
    }
    assert_eq!(
        *first.snapshot().to_anthropic(),
        **first.snapshot().export(Dialect::Anthropic).tools()
    );
    assert_eq!(first.snapshot().to_openai()[0]["type"], "function");
    assert_eq!(first.snapshot().to_openai_chat()[0]["function"]["name"], "alpha");
}

#[test]
fn tool_beyond_the_limit_is_left_out_and_beyond_the_strict_limit_is_plain() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": false,
    });
    let names: Vec<String> = (0..130).map(|n| format!("tool_{n}")).collect();
    let all: Vec<ToolDefinition<'_>> =
        names.iter().map(|name| ToolDefinition::new(name, "Does it.", &schema)).collect();
    let chat = ToolExport::of(Dialect::OpenAiChat, &all, &ExportOptions::default());
    assert_eq!(chat.tools().as_array().unwrap().len(), 128);
    let left_out: Vec<&str> = chat
        .report()
        .filter(|(_, loss)| loss.kind == LossKind::Refused)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(left_out, ["tool_128", "tool_129"]);
    let strict =
        ToolExport::of(Dialect::Anthropic, &all, &ExportOptions::default().strict(StrictMode::On));
    assert_eq!(strict.exported_tools().iter().filter(|shown| shown.strict).count(), 20);
    assert_eq!(strict.tools().as_array().unwrap().len(), 130);
    assert!(strict.exported_tools()[20].not_strict.as_ref().unwrap().contains("20 strict"));
}

/// A tool that records its arguments.
fn remembering() -> (DynTool, Arc<Mutex<Vec<Value>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let schema = json!({
        "properties": {
            "a": {"type": "string"},
            "limit": {"type": "integer"},
            "page size": {"type": "integer"},
        },
        "required": ["a"],
    });
    let tool = DynTool::new(ToolSpec::new("erase", "Erases."), schema, move |args, _| {
        kept.lock().unwrap().push(Value::clone(&args));
        async { "done" }
    });
    (tool, seen)
}

#[tokio::test]
async fn strict_mode_nulls_do_not_reach_the_tool() {
    let arguments = r#"{"a":"x","limit":null,"page size":null}"#;
    let call =
        json!({"type": "function_call", "call_id": "c", "name": "erase", "arguments": arguments});
    let response = json!({"status": "completed", "output": [call]});
    let (tool, seen) = remembering();
    let run = permissive(vec![tool]).build().unwrap().run();
    let answer = run.turn().await.unwrap().dispatch(Dialect::OpenAiResponses, &response).await;
    assert_eq!(answer.unwrap()[0]["output"], framed(0, "erase", "done"));
    let mut listening = run.turn().await.unwrap().stream(Dialect::OpenAiResponses);
    for event in [
        json!({"type": "response.output_item.done", "output_index": 0, "item": call}),
        json!({"type": "response.completed", "response": response}),
    ] {
        listening.event(&event);
    }
    assert_eq!(listening.finish().await.answer[0]["output"], framed(1, "erase", "done"));
    assert_eq!(*seen.lock().unwrap(), [json!({"a": "x"}), json!({"a": "x"})]);
    // Without strict mode the nulls are the model's own, and this tool is destructive.
    let turn = run.turn().await.unwrap();
    let plain = ExportOptions::default().strict(StrictMode::Off);
    assert!(
        !turn.snapshot().export_with(Dialect::OpenAiResponses, &plain).exported_tools()[0].strict
    );
    let answer = turn.dispatch(Dialect::OpenAiResponses, &response).await.unwrap();
    assert!(answer[0]["output"].as_str().unwrap().contains("bad_arguments"), "{answer}");
}

#[tokio::test]
async fn renamed_property_is_restored_in_calls() {
    let (tool, seen) = remembering();
    let run = permissive(vec![tool]).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    let export = turn.snapshot().export(Dialect::Anthropic);
    let shown = &export.exported_tools()[0];
    assert_eq!(shown.renamed().collect::<Vec<_>>(), [("page size", "page_size")]);
    assert_eq!(shown.report[0].pointer, "/properties/page size");
    let response = json!({
        "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t", "name": "erase", "input": {"a": "x", "page_size": 3}}],
    });
    let decoded = turn.respond(Dialect::Anthropic, &response).await.unwrap();
    assert_eq!(decoded.answer["content"][0]["content"], framed(0, "erase", "done"));
    assert_eq!(*seen.lock().unwrap(), [json!({"a": "x", "page size": 3})]);
    assert_eq!(decoded.message, json!({"role": "assistant", "content": response["content"]}));
}

#[tokio::test]
async fn echoed_response_has_the_ids_of_the_results() {
    let run = permissive(pair()).build().unwrap().run();
    let block = json!({"type": "tool_use", "id": "t", "name": "alpha", "input": {"a": "x"}});
    let response = json!({"stop_reason": "tool_use", "content": [{"type": "text", "text": "Hm."}, block, block]});
    let decoded = run.turn().await.unwrap().respond(Dialect::Anthropic, &response).await.unwrap();
    let ids: Vec<&Value> =
        decoded.message["content"].as_array().unwrap()[1..].iter().map(|b| &b["id"]).collect();
    let answered: Vec<&Value> =
        decoded.answer["content"].as_array().unwrap().iter().map(|b| &b["tool_use_id"]).collect();
    assert_eq!(ids, answered);
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn arguments_are_restored_after_a_repair_too() {
    let (tool, seen) = remembering();
    let run = permissive(vec![tool]).build().unwrap().run();
    let mut listening = run.turn().await.unwrap().stream(Dialect::Anthropic);
    let block = json!({"type": "tool_use", "id": "t", "name": "erase", "input": {}});
    let piece = json!({"type": "input_json_delta", "partial_json": r#"{"a":"x","page_size":3,}"#});
    for event in [
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": piece}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ] {
        listening.event(&event);
    }
    let decoded = listening.finish().await;
    assert_eq!(decoded.results[0].repairs().len(), 1);
    assert_eq!(*seen.lock().unwrap(), [json!({"a": "x", "page size": 3})]);
}
