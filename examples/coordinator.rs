//! A coordinator and two workers over one registry, each with its own view. Run it with
//! `cargo run -p haft --example coordinator`.
//!
//! What to notice:
//! - The coordinator sees the workers and nothing else. The researcher is defined as a file, and
//!   sees what its front matter lists. The writer sees one tool.
//! - A worker has a share of the coordinator's budget. What it reads labels the coordinator too.
//! - The researcher returns JSON of a declared schema, and nothing else of what it read.
//! - A tool that the policy denies is denied for every agent, whatever its view shows.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Runtime, ToolRegistry,
    agent::{Agent, AgentFile, Runner, ScriptedModel},
    budget::Budget,
    events::Event,
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    registry::ToolView,
    serde_json::json,
    taint::{Label, Trust},
    tool::{Capabilities, DynTool, ToolSpec},
};

const RESEARCHER: &str = "---
name: researcher
description: Finds facts. Give it one question.
tools: search_web, delete_all
maxTurns: 4
---
Search, then answer with the fact and its source.
";

const RESEARCH: &str = r#"
{"expect": {"tools": ["search_web"], "not_tools": ["save_note", "researcher", "writer"]}, "calls": [{"id": "d", "name": "delete_all", "arguments": {}}, {"id": "s", "name": "search_web", "arguments": {}}]}
{"text": "It is 1814."}
{"expect": {"shown": ["not JSON"]}, "text": "{\"fact\": \"1814\", \"source\": \"archive\"}"}
"#;
const WRITE: &str = r#"
{"expect": {"tools": ["save_note"], "not_tools": ["search_web"]}, "calls": [{"id": "n", "name": "save_note", "arguments": {}}]}
{"text": "The note is saved."}
"#;
const COORDINATE: &str = r#"
{"expect": {"tools": ["researcher", "writer"], "not_tools": ["search_web", "save_note"]}, "calls": [{"id": "r", "name": "researcher", "arguments": {"task": "When was the constitution signed?"}}]}
{"calls": [{"id": "w", "name": "writer", "arguments": {"task": "Save the year {{result:r/fact}}."}}]}
{"text": "{{result:r/fact}}, from the {{result:r/source}}. {{result:w}}"}
"#;

fn tool(name: &str, about: &str, answer: &'static str) -> DynTool {
    let spec = ToolSpec::new(name, about).read_only().capabilities(Capabilities::NONE);
    DynTool::new(spec, json!({}), move |_, _| async move { answer })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = AgentFile::parse(RESEARCHER)?;
    let result = json!({
        "type": "object",
        "properties": {"fact": {"type": "string"}, "source": {"type": "string"}},
        "required": ["fact", "source"],
        "additionalProperties": false,
    });
    let researcher = file.agent(ScriptedModel::parse(RESEARCH)?);
    let researcher = researcher.into_tool_with_result(file.tool_spec(), result)?;
    let writer = Agent::new("writer", ScriptedModel::parse(WRITE)?)
        .tools(ToolView::all().only(["save_note"]))
        .limits(Budget { calls: Some(3), ..Budget::default() })
        .into_tool(ToolSpec::new("writer", "Writes notes."));

    let untrusted = Label { trust: Trust::Untrusted, ..Label::CLEAN };
    let web = tool("search_web", "Searches the web.", "signed in 1814")
        .with_spec(|spec| spec.label(untrusted));
    let registry = ToolRegistry::builder()
        .add(vec![web, tool("save_note", "Saves a note.", "saved"), researcher, writer])
        .add(tool("delete_all", "Deletes everything.", "gone"))
        .build()?;
    let rule = |decision, text| {
        Pattern::parse(text, &PathBase::default()).map(|pattern| Rule::new(decision, pattern))
    };
    let mut everything = rule(Decision::Allow, "*")?;
    everything.even_tainted = true;
    let rules = vec![rule(Decision::Deny, "delete_all")?, everything];
    let runtime = Runtime::builder()
        .registry(registry)
        .policy(Rules::new(rules, PolicyContext::default())?)
        .observer(|event: &Event| {
            if let Event::TurnStarted { run, tools, .. } = event {
                println!("{run}: a turn with {tools} tools");
            }
        })
        .build()?;

    let coordinator = Agent::new("coordinator", ScriptedModel::parse(COORDINATE)?)
        .tools(ToolView::all().only(["researcher", "writer"]))
        .limits(Budget { calls: Some(10), cycles: Some(12), ..Budget::default() });
    let runner = Runner::new(runtime);
    let mut chat = runner.chat(&coordinator)?;
    let result = chat.send("When was the constitution signed? Save it.").await?;
    println!("{}: {}", result.state, result.text);
    println!("the coordinator has read {:?} text", chat.label().trust);
    Ok(())
}
