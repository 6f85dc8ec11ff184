//! Skills: instructions that a model loads when it needs them. Run it with
//! `cargo run -p haft-tools --example skills`.
//!
//! What to notice:
//! - The model sees names and descriptions. The text of a skill comes with `skill__load`, its files
//!   with `skill__read`.
//! - `allowed-tools` allows a call where no rule decides, from the next turn on, until the user
//!   writes again. A rule that denies still wins.
//! - A skill with a mistake is left out with a finding. The others work.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "an example writes its own skills")]

use std::fs;

use haft::{
    Runtime, ToolRegistry,
    agent::{Agent, Runner, ScriptedModel},
    serde_json::json,
    tool::{DynTool, ToolSpec},
};
use haft_tools::Skills;

const RELEASE: &str = "---
name: release
description: How to release a version. Use it when the user asks for a release.
allowed-tools: publish
---
Read checklist.md. Then publish.
";

const SCRIPT: &str = r#"
{"calls": [{"id": "early", "name": "publish", "arguments": {}}]}
{"expect": {"results": [{"id": "early", "is_error": true}]}, "calls": [{"id": "load", "name": "skill__load", "arguments": {"name": "release"}}]}
{"calls": [{"id": "list", "name": "skill__read", "arguments": {"skill": "release", "path": "checklist.md"}}, {"id": "publish", "name": "publish", "arguments": {}}]}
{"text": "{{result:publish}}"}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("haft-skills-{}", std::process::id()));
    fs::create_dir_all(directory.join("release"))?;
    fs::create_dir_all(directory.join("broken"))?;
    fs::write(directory.join("release/SKILL.md"), RELEASE)?;
    fs::write(directory.join("release/checklist.md"), "1. All tests pass.\n")?;
    fs::write(directory.join("broken/SKILL.md"), "---\nname: broken\n---\n")?;

    let skills = Skills::new().directory(&directory, true);
    for skill in skills.list() {
        println!("{}: {}", skill.name, skill.description);
    }
    for finding in skills.findings() {
        println!("left out, line {}: {}", finding.line, finding.message);
    }
    let publish = DynTool::new(ToolSpec::new("publish", "Publishes."), json!({}), |_, _| async {
        "version 2 is published"
    });
    let registry = ToolRegistry::builder().add(publish).source(skills.clone()).build()?;
    let runtime = Runtime::builder().registry(registry).hook(skills.grants()).build()?;
    let agent = Agent::new("maintainer", ScriptedModel::parse(SCRIPT)?);
    let result = Runner::new(runtime).run(&agent, "Release version 2.").await?;
    println!("{}: {}", result.state, result.text);
    for call in &result.executions {
        let outcome = call.failed.map_or("ok", |code| code.as_str());
        println!("turn {} {}: {outcome}", call.turn, call.tool);
    }
    fs::remove_dir_all(&directory)?;
    Ok(())
}
