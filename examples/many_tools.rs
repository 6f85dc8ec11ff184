//! A thousand tools with search. Run it with `cargo run -p haft --example many_tools`.
//!
//! What to notice:
//! - The definitions of a thousand tools would fill the context. Above `Config::max_tool_tokens`
//!   they are deferred: the model gets `tool_search`, the tools that are always shown, and names.
//! - A tool that was found is shown with its schema from the next turn on.
//! - A deferred tool can be called at once. Invalid arguments are answered with its schema.
//! - A tool that a rule denies is never found.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Runtime, ToolRegistry,
    agent::{Agent, Runner, ScriptedModel},
    dialect::ExportOptions,
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    registry::ToolQuery,
    search::SearchTools,
    tool::{Capabilities, DynTool, Exposure, ToolSpec},
};
use serde_json::json;

const SERVICES: [&str; 10] = [
    "calendar",
    "mail",
    "invoice",
    "ticket",
    "warehouse",
    "payroll",
    "survey",
    "contract",
    "meter",
    "fleet",
];
const VERBS: [&str; 10] =
    ["list", "get", "create", "update", "archive", "export", "share", "count", "validate", "sign"];
const THINGS: [&str; 10] = [
    "entry",
    "report",
    "template",
    "attachment",
    "comment",
    "owner",
    "label",
    "deadline",
    "draft",
    "summary",
];

/// One tool of a service: `invoice_export_report`, and so on.
fn tool(n: usize) -> DynTool {
    let (service, verb) = (SERVICES[n % 10], VERBS[n / 10 % 10]);
    let thing = THINGS[n / 100 % 10];
    let about = format!("Performs {verb} on the {thing} of a {service}.");
    let spec = ToolSpec::new(format!("{service}_{verb}_{thing}"), about)
        .read_only()
        .capabilities(Capabilities::NONE);
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "integer", "description": "Number of the record."}},
        "required": ["id"],
    });
    DynTool::new(spec, schema, move |arguments, _| async move {
        format!("{service} {}: {verb} {thing} done", arguments["id"])
    })
}

fn clock() -> DynTool {
    let spec = ToolSpec::new("clock", "Returns the time.").exposure(Exposure::Always);
    DynTool::new(spec.read_only().capabilities(Capabilities::NONE), json!({}), |_, _| async {
        "noon"
    })
}

const SCRIPT: &str = r#"
{"calls": [{"id": "s", "name": "tool_search", "arguments": {"query": "sign the draft of a contract", "limit": 1}}]}
{"expect": {"results": [{"id": "s", "contains": "contract_sign_draft(id)"}]}, "calls": [{"id": "a", "name": "contract_sign_draft", "arguments": {"id": 7}}]}
{"calls": [{"id": "b", "name": "meter_count_entry", "arguments": {"number": 3}}]}
{"expect": {"results": [{"id": "b", "is_error": true, "contains": "The schema of `meter_count_entry`"}]}, "calls": [{"id": "c", "name": "meter_count_entry", "arguments": {"id": 3}}]}
{"text": "{{result:a}}; {{result:c}}"}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = ToolRegistry::builder()
        .add((0..1_000).map(tool).collect::<Vec<_>>())
        .add(clock())
        .add(SearchTools)
        .build()?;
    let deny = Rule::new(Decision::Deny, Pattern::parse("payroll_*", &PathBase::default())?);
    let allow = Rule::new(Decision::Allow, Pattern::parse("*", &PathBase::default())?);
    let rules = Rules::new(vec![deny, allow], PolicyContext::default())?;
    let runtime = Runtime::builder().registry(registry).policy(rules).build()?;

    // A loop of your own: the snapshot of a turn says what is shown, and searches.
    let turn = runtime.run().turn().await?;
    let cost = turn.snapshot().prompt_cost();
    println!("{} tools, {} deferred", cost.tools, cost.deferred);
    println!("{} tokens instead of {}", cost.request_tokens, cost.all_tokens);
    for words in ["export the invoice report", "payroll owner"] {
        let found = turn.snapshot().search(&ToolQuery::Words(words.to_owned()), 2)?;
        let names: Vec<&str> = found.iter().map(|tool| tool.name().as_str()).collect();
        println!("{words}: {}", names.join(", "));
    }

    // The agent loop. The options leave out the provider's own search, which a script lacks.
    let agent = Agent::new("clerk", ScriptedModel::parse(SCRIPT)?).export(ExportOptions::default());
    let result = Runner::new(runtime).run(&agent, "Sign contract 7 and count meter 3.").await?;
    println!("{}: {}", result.state, result.text);
    for call in &result.executions {
        let outcome = call.failed.map_or("ok", |code| code.as_str());
        println!("turn {} {}: {outcome}", call.turn, call.tool);
    }
    Ok(())
}
