//! The cost of exporting tools to a provider, compared with serializing the same tools as JSON.
//!
//! Every dialect exports the same set from scratch, as after a change of the registry. `again` is
//! the cost of each further turn: exporting an unchanged snapshot again.

use std::{hint::black_box, rc::Rc};

use haft::{
    Dialect, Runtime, ToolRegistry,
    dialect::{ExportOptions, ToolDefinition, ToolExport},
    tool::{DynTool, ToolSpec},
};
use serde_json::Value;

use crate::{
    harness::{Bench, Unit},
    toolbox::{self, Tool},
};

/// The number of generated tools.
const TOOLS: usize = 1_000;
/// How often an unchanged set is exported in one measurement.
const LOOKUPS: u32 = 1_000;

pub(crate) fn add(bench: &mut Bench) {
    bench.group("export", Unit::Tool);
    let made = Rc::new(toolbox::tools(TOOLS));
    sets(bench, "", &made);
    again(bench, &made);
    let real = Rc::new(toolbox::real());
    if !real.is_empty() {
        bench.group("export-real", Unit::Tool);
        sets(bench, "real ", &real);
    }
}

fn count(tools: &[Tool]) -> u32 {
    u32::try_from(tools.len()).unwrap_or(u32::MAX)
}

/// One set of tools, serialized and in every dialect.
fn sets(bench: &mut Bench, prefix: &str, tools: &Rc<Vec<Tool>>) {
    let written: Vec<Value> = tools.iter().map(Tool::written).collect();
    bench.case(format!("{prefix}serde_json"), count(tools), move |_, _| {
        black_box(serde_json::to_string(&written).unwrap_or_default());
    });
    for dialect in Dialect::ALL.iter().copied() {
        let tools = Rc::clone(tools);
        bench.case(format!("{prefix}{dialect}"), count(&tools), move |_, _| {
            let definitions: Vec<ToolDefinition<'_>> = tools
                .iter()
                .map(|tool| ToolDefinition::new(&tool.name, &tool.description, &tool.input))
                .collect();
            black_box(
                ToolExport::of(dialect, &definitions, &ExportOptions::default()).as_str().len(),
            );
        });
    }
}

/// An unchanged snapshot, exported again.
fn again(bench: &mut Bench, tools: &[Tool]) {
    let tool = |tool: &Tool| {
        let spec = ToolSpec::new(tool.name.as_str(), tool.description.as_str());
        DynTool::new(spec, tool.input.clone(), |_, _| async { "done" })
    };
    let tools: Vec<DynTool> = tools.iter().map(tool).collect();
    let units = u32::try_from(tools.len()).unwrap_or(u32::MAX).saturating_mul(LOOKUPS);
    let runtime = ToolRegistry::builder()
        .add(tools)
        .build()
        .and_then(|registry| Runtime::builder().registry(registry).build())
        .unwrap_or_else(|e| panic!("{e}"));
    let turn = bench.wait(runtime.run().turn()).unwrap_or_else(|e| panic!("{e}"));
    let first = turn.snapshot().export(Dialect::Anthropic);
    bench.case("again".to_owned(), units, move |_, _| {
        for _ in 0..LOOKUPS {
            let export = turn.snapshot().export(Dialect::Anthropic);
            assert!(std::sync::Arc::ptr_eq(&export, &first), "made anew");
        }
    });
}
