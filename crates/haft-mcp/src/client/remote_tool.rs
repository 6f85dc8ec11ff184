//! The definition of a remote tool as a tool of haft: hints become properties, strictly.

use std::{sync::Arc, time::Duration};

use haft::tool::{Capabilities, Capability, DynTool, Exposure, Interrupt, ToolSpec};
use rmcp::model::Tool;
use serde_json::Value;

use super::{
    admission::AdmittedTexts,
    call::RemoteTool,
    config::{ServerConfig, ServerTrust},
    supervisor::Supervisor,
};

/// How much later than the call itself the runtime gives up, so that the call can report its end.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

/// Makes a tool of an admitted definition.
pub(super) fn dyn_tool(
    server: &Arc<Supervisor>,
    listed: &Arc<Vec<Tool>>,
    tool: &Tool,
    texts: AdmittedTexts,
) -> DynTool {
    let identity = server.identity();
    let mut spec = spec(&server.config, tool, texts);
    spec.origin = Some(identity.digest());
    let remote = Arc::new(RemoteTool {
        server: Arc::clone(server),
        identity,
        name: tool.name.to_string(),
        definition: tool.clone(),
        listed: Arc::clone(listed),
        reads_only: spec.is_read_only(),
    });
    let schema = Value::Object((*tool.input_schema).clone());
    let dynamic = DynTool::new(spec, schema, move |arguments, cx| {
        let remote = Arc::clone(&remote);
        async move { remote.call(&arguments, &cx).await }
    });
    match &tool.output_schema {
        Some(schema) => dynamic.with_output_schema(Value::Object((**schema).clone())),
        None => dynamic,
    }
}

fn spec(config: &ServerConfig, tool: &Tool, texts: AdmittedTexts) -> ToolSpec {
    let hints = tool.annotations.clone().unwrap_or_default();
    let mut spec = ToolSpec::new(tool.name.to_string(), texts.description)
        .interrupt(Interrupt::Cancel)
        .timeout(config.max_timeout + TIMEOUT_MARGIN)
        .deadline(config.max_timeout + 2 * TIMEOUT_MARGIN);
    spec.title = texts.title;
    if config.always_load {
        spec = spec.exposure(Exposure::Always);
    }
    if let Some(limit) = config.concurrency {
        spec = spec.concurrency(limit);
    }
    let is_trusted = config.trust == ServerTrust::Annotations;
    // Hints that tighten count from every server; hints that relax only from a trusted one.
    if hints.destructive_hint == Some(true) && hints.read_only_hint != Some(true) {
        spec = spec.destructive(true);
    }
    if is_trusted {
        let is_open = hints.open_world_hint != Some(false);
        if hints.read_only_hint == Some(true) {
            spec = spec.read_only();
        } else {
            if hints.destructive_hint == Some(false) {
                spec = spec.destructive(false);
            }
            if hints.idempotent_hint == Some(true) {
                spec = spec.idempotent(true);
            }
        }
        spec = spec.open_world(is_open);
        if hints.read_only_hint == Some(true) {
            let network = Capabilities::from([Capability::Network]);
            spec = spec.capabilities(if is_open { network } else { Capabilities::NONE });
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use haft::tool::ConcurrencyClass;
    use serde_json::json;

    use super::*;
    use crate::client::config::{ServerTransport, StdioCommand};

    fn spec_of(trust: ServerTrust, hints: Value) -> ToolSpec {
        let transport = ServerTransport::Stdio(StdioCommand::new("x"));
        let config = ServerConfig { trust, ..ServerConfig::new("s", transport) };
        let tool = serde_json::from_value(
            json!({"name": "t", "inputSchema": {"type": "object"}, "annotations": hints}),
        );
        let texts = AdmittedTexts { title: None, description: "Does it.".into() };
        spec(&config, &tool.unwrap(), texts)
    }

    #[test]
    fn hints_of_an_untrusted_server_only_tighten() {
        let relaxing = json!({"readOnlyHint": true, "destructiveHint": false,
            "idempotentHint": true, "openWorldHint": false});
        let spec = spec_of(ServerTrust::Untrusted, relaxing);
        assert!(!spec.is_read_only() && spec.may_destroy() && !spec.is_idempotent());
        assert!(spec.is_open_world() && spec.effective_capabilities() == Capabilities::ALL);
        assert_eq!(spec.profile().class, ConcurrencyClass::Unsafe);
        let tightening = spec_of(ServerTrust::Untrusted, json!({"destructiveHint": true}));
        assert_eq!(tightening.profile().destructive, Some(true));
    }

    #[test]
    fn hints_of_a_trusted_server_relax() {
        let spec = spec_of(
            ServerTrust::Annotations,
            json!({"readOnlyHint": true, "openWorldHint": false}),
        );
        assert!(spec.is_read_only() && !spec.is_open_world());
        assert!(spec.effective_capabilities().is_empty());
        let silent = spec_of(ServerTrust::Annotations, json!({}));
        assert!(!silent.is_read_only() && silent.may_destroy(), "silence stays strict");
    }

    #[test]
    fn contradicting_hints_are_no_mistake_of_ours() {
        let hints = json!({"readOnlyHint": true, "destructiveHint": true});
        for trust in [ServerTrust::Untrusted, ServerTrust::Annotations] {
            assert!(spec_of(trust, hints.clone()).problems().is_empty());
        }
    }
}
