//! The tools that need no question: content of each kind, errors, progress, log, changes.

use std::time::Duration;

use haft::{
    Failure, Output, ToolContext,
    tool::{Block, Capabilities, DynTool, ToolSpec},
};
use haft_mcp::server::{CallPeer, Changes, ListChange, LogLevel, RequestKind};
use serde_json::{Value, json};

/// A red pixel, as PNG.
pub(crate) const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// Silence, as WAV.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

pub(crate) fn spec(name: &str, description: &str) -> ToolSpec {
    ToolSpec::new(name, description).read_only().capabilities(Capabilities::NONE)
}

pub(crate) fn no_arguments() -> Value {
    json!({"type": "object", "properties": {}})
}

pub(crate) fn peer(cx: &ToolContext) -> Result<CallPeer, Failure> {
    CallPeer::of(cx).ok_or_else(|| Failure::failed("the call has no MCP client"))
}

fn embedded(uri: &str, media_type: &str, text: &str) -> Block {
    let resource = json!({"uri": uri, "mimeType": media_type, "text": text});
    Block::Json { json: json!({"type": "resource", "resource": resource}) }
}

fn fixed(name: &str, description: &str, output: Output) -> DynTool {
    DynTool::new(spec(name, description), no_arguments(), move |_, _| {
        let output = output.clone();
        async move { Ok::<_, Failure>(output) }
    })
}

pub(crate) fn all(changes: &Changes) -> Vec<DynTool> {
    let image = Block::Image { data: IMAGE.into(), media_type: "image/png".into() };
    let audio = Block::Audio { data: AUDIO.into(), media_type: "audio/wav".into() };
    let mixed = Output::text("Multiple content types test:").and(image.clone()).and(embedded(
        "test://mixed-content-resource",
        "application/json",
        r#"{"value":123}"#,
    ));
    let alone = embedded("test://embedded-resource", "text/plain", "An embedded resource.");
    vec![
        fixed(
            "test_simple_text",
            "Returns text.",
            Output::text("This is a simple text response for testing."),
        ),
        fixed("test_image_content", "Returns an image.", image.into()),
        fixed("test_audio_content", "Returns audio.", audio.into()),
        fixed("test_embedded_resource", "Returns an embedded resource.", alone.into()),
        fixed("test_multiple_content_types", "Returns content of several kinds.", mixed),
        fixed("test_reconnection", "Returns text.", Output::text("Reconnection test completed")),
        error_handling(),
        with_progress(),
        with_logging(),
        logging_on_request(),
        custom_header(),
        schema_2020_12(),
        missing_capability(),
        trigger("test_trigger_tool_change", ListChange::Tools, changes),
        trigger("test_trigger_prompt_change", ListChange::Prompts, changes),
    ]
}

fn error_handling() -> DynTool {
    let spec = spec("test_error_handling", "Always fails.");
    DynTool::new(spec, no_arguments(), |_, _| async {
        Err::<Output, _>(Failure::failed("This tool intentionally returns an error for testing"))
    })
}

fn with_progress() -> DynTool {
    let spec = spec("test_tool_with_progress", "Reports progress.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        for (fraction, message) in [(0.0, "Starting"), (0.5, "Halfway"), (1.0, "Complete")] {
            cx.progress(fraction, message);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, Failure>(Output::text("Progress test completed"))
    })
}

fn with_logging() -> DynTool {
    let spec = spec("test_tool_with_logging", "Logs while it runs.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        let peer = peer(&cx)?;
        for entry in ["Tool execution started", "Tool processing data", "Tool execution completed"]
        {
            peer.log(LogLevel::Info, "conformance", json!(entry));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok::<_, Failure>(Output::text("Logging test completed"))
    })
}

fn logging_on_request() -> DynTool {
    let spec = spec("test_logging_tool", "Logs only if the client wants it.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        let peer = peer(&cx)?;
        if let Some(level) = peer.log_level() {
            peer.log(level, "conformance", json!("a level was requested"));
        }
        Ok::<_, Failure>(Output::text("Logging tool completed"))
    })
}

fn custom_header() -> DynTool {
    let schema = json!({
        "type": "object",
        "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
        "required": ["value"],
    });
    let spec = spec("test_custom_header", "Returns a parameter that is also a header.");
    DynTool::new(spec, schema, |args, _| async move {
        Ok::<_, Failure>(Output::text(args["value"].as_str().unwrap_or_default()))
    })
}

fn schema_2020_12() -> DynTool {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "address",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "if": {"required": ["address"]},
        "then": {"properties": {"address": {"required": ["street"]}}},
        "else": {"required": ["name"]},
        "additionalProperties": false,
    });
    let spec = spec("json_schema_2020_12_tool", "Has a schema with many keywords.");
    DynTool::new(spec, schema, |args, _| async move {
        let name = args["name"].as_str().unwrap_or("world");
        Ok::<_, Failure>(Output::text(format!("Hello, {name}!")))
    })
}

fn missing_capability() -> DynTool {
    let spec = spec("test_missing_capability", "Needs a client with a model.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        peer(&cx)?.require(RequestKind::Sampling)?;
        Ok::<_, Failure>(Output::text("Required capability declared"))
    })
}

fn trigger(name: &str, change: ListChange, changes: &Changes) -> DynTool {
    let changes = changes.clone();
    DynTool::new(spec(name, "Announces a change."), no_arguments(), move |_, _| {
        changes.announce(change.clone());
        async { Ok::<_, Failure>(Output::text("announced")) }
    })
}
