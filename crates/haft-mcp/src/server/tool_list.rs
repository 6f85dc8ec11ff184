//! The tools of a snapshot as MCP lists them. A list is made once per export.

use std::sync::{Arc, Mutex, PoisonError};

use haft::{Dialect, dialect::ToolExport, registry::ToolSnapshot};
use rmcp::model::Tool;
use serde_json::Value;

/// How many lists are kept: callers may have different views.
const MAX_LISTS: usize = 16;

/// One list.
#[derive(Clone)]
pub(super) struct ToolList {
    pub(super) export: Arc<ToolExport>,
    pub(super) tools: Arc<Vec<Tool>>,
    /// Changes with the list.
    pub(super) version: Arc<str>,
}

/// The lists that were made last; the newest is the last.
#[derive(Default)]
pub(super) struct ToolLists(Mutex<Vec<ToolList>>);

impl ToolLists {
    /// Returns the list of a snapshot.
    pub(super) fn of(&self, snapshot: &ToolSnapshot) -> ToolList {
        let export = snapshot.export(Dialect::Mcp);
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = lists.iter().position(|list| Arc::ptr_eq(&list.export, &export)) {
            let list = lists.remove(at);
            lists.push(list.clone());
            return list;
        }
        let tools = export.request().get("tools").and_then(|tools| tools.as_array());
        let tools = tools.into_iter().flatten();
        let tools = tools.filter_map(|tool| listed(tool, &export, snapshot)).collect();
        let version = snapshot.fingerprint().chars().take(16).collect::<String>().into();
        let list = ToolList { export, tools: Arc::new(tools), version };
        if lists.len() >= MAX_LISTS {
            lists.remove(0);
        }
        lists.push(list.clone());
        list
    }

    /// Returns a tool of the newest list that has it.
    pub(super) fn find(&self, name: &str) -> Option<Tool> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.iter().rev().find_map(|list| list.tools.iter().find(|t| t.name == name).cloned())
    }
}

/// Makes the entry of a tool. A client gets the schema as its author wrote it, with every keyword;
/// only the type of the root is added, which MCP requires.
fn listed(tool: &Value, export: &ToolExport, snapshot: &ToolSnapshot) -> Option<Tool> {
    let mut listed: Tool = serde_json::from_value(tool.clone()).ok()?;
    let registered = snapshot.get(export.tool_name(&listed.name)?)?;
    if let Value::Object(schema) = registered.input_schema() {
        let mut schema = schema.clone();
        schema.entry("type").or_insert_with(|| Value::from("object"));
        if schema["type"] == "object" {
            listed.input_schema = Arc::new(schema);
        }
    }
    Some(listed)
}
