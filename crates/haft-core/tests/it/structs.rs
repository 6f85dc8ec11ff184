//! `#[derive(Tool)]` on argument structs.

use std::sync::Arc;

use haft_core::{
    ConcurrencyClass, DynTool, Failure, IntoTools, Json, RunScope, Scope, State, Tool, ToolContext,
    TypeMap, output,
};
use serde_json::json;

use crate::host::{Quiet, call, call_in, cx_of, profile};

#[output]
struct Page {
    text: String,
}

fn class_of(url: &str, _limit: &u32) -> ConcurrencyClass {
    if url.starts_with("cache:") { ConcurrencyClass::ReadOnly } else { ConcurrencyClass::Unsafe }
}

/// Fetches a page.
#[derive(Tool)]
#[tool(class = class_of, capabilities(network))]
#[tool(title = "Fetch")]
struct HttpFetch {
    /// Where it is.
    #[param(pattern = "^[a-z]+:")]
    url: String,
    #[default(10)]
    limit: u32,
    base: State<String>,
}

impl HttpFetch {
    async fn run(mut self, cx: &ToolContext) -> Result<Json<Page>, Failure> {
        let _ = cx.call_id();
        self.url.push('!');
        Ok(Json(Page { text: format!("{}{} {}", *self.base, self.url, self.limit) }))
    }
}

/// Answers.
#[derive(Tool)]
#[tool(name = "ping", type_name = "Pinger")]
pub(crate) struct Ping;

impl Ping {
    async fn run(self, _: &ToolContext) -> &'static str {
        "pong"
    }
}

#[test]
fn fields_are_the_schema_and_the_struct_is_the_description() {
    let manifest = HttpFetch::tool().manifest();
    assert_eq!(manifest.name, "http_fetch");
    assert_eq!(manifest.title.as_deref(), Some("Fetch"));
    assert_eq!(manifest.description, "Fetches a page.");
    let properties = manifest.input_schema["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["url", "limit"]);
    assert_eq!(properties["url"]["description"], "Where it is.");
    assert_eq!(manifest.input_schema["required"], json!(["url"]));
    assert_eq!(manifest.output_schema.unwrap()["required"], json!(["text"]));
    assert_eq!(manifest.needs.len(), 1);
}

#[tokio::test]
async fn every_call_runs_a_fresh_instance() {
    let mut state = TypeMap::default();
    state.insert(String::from("> "));
    let scope = Scope::from(RunScope { state: Arc::new(state), ..RunScope::default() });
    let cx = cx_of(scope, Arc::new(Quiet::default()));
    let tool = DynTool::of(HttpFetch::tool());
    for _ in 0..2 {
        let output = call_in(&tool, json!({"url": "a:b"}), &cx).await.unwrap();
        assert_eq!(output.structured.as_deref(), Some(&json!({"text": "> a:b! 10"})));
    }
    assert_eq!(profile(&tool, json!({"url": "cache:x"})).class, ConcurrencyClass::ReadOnly);
    assert_eq!(profile(&tool, json!({"url": "http:x"})).class, ConcurrencyClass::Unsafe);
}

#[tokio::test]
async fn a_struct_without_fields_is_a_tool_without_arguments() {
    let tool: Pinger = Ping::tool();
    let tool = tool.into_tools().remove(0);
    assert_eq!(tool.spec().name, "ping");
    assert_eq!(call(&tool, json!({})).await.unwrap().to_text(), "pong");
}

#[test]
fn registry_takes_an_argument_struct_by_its_name() {
    let names = |tools: Vec<DynTool>| tools[0].spec().name.to_string();
    assert_eq!(names(HttpFetch.into_tools()), "http_fetch");
    assert_eq!(names(Ping.into_tools()), "ping");
}
