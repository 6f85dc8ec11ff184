//! Attacks of servers on the model, on other servers and on the policy. Each test names its attack.

use std::sync::{Arc, Mutex};

use haft::{
    Runtime, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver, approver_fn},
    policy::AllowAll,
    tool::{DynTool, ToolSpec},
};
use haft_mcp::client::{KnownTools, RemoteServer, ServerConfig, ServerTrust};
use serde_json::{Value, json};

use crate::kit::{TempFile, call, code, eventually, names, runtime, server, stdio};

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}
