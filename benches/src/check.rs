//! The cost of validating arguments, compared with the validator alone on the same schemas and
//! values.
//!
//! `check` is the verdict on valid arguments; `check-failing` finds the problems, which for us
//! includes explaining them; `admit` is the whole way in from text: parse, validate, decode,
//! profile and plan, compared with parsing and the validator alone.

use std::{hint::black_box, rc::Rc};

use haft::{
    Runtime, ToolCall, ToolRegistry,
    schema::Schema,
    tool::{DynTool, ToolSpec},
};
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::{
    harness::{Bench, Unit},
    toolbox::{self, Tool},
};

/// Enough schemas that they do not all fit into the nearest CPU cache, as in a real registry.
const TOOLS: usize = 64;

/// One tool with its validators.
struct Judged {
    tool: Tool,
    text: String,
    alone: Validator,
    ours: Schema,
}

impl Judged {
    fn new(tool: Tool) -> Self {
        // The same options as in our own schema.
        let alone = jsonschema::options()
            .offline()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
            .with_pattern_options(PatternOptions::regex())
            .build(&tool.input)
            .unwrap_or_else(|e| panic!("{e}"));
        let ours = Schema::compile(&tool.input).unwrap_or_else(|e| panic!("{e}"));
        assert!(ours.is_valid(&tool.good) && alone.is_valid(&tool.good), "{}", tool.name);
        assert!(!ours.is_valid(&tool.bad) && !alone.is_valid(&tool.bad), "{}", tool.name);
        Self { text: tool.good.to_string(), tool, alone, ours }
    }
}

pub(crate) fn add(bench: &mut Bench) {
    let judged: Vec<Judged> = toolbox::tools(TOOLS).into_iter().map(Judged::new).collect();
    let judged = Rc::new(judged);
    let case = |bench: &mut Bench, name: &str, units: u32, one: fn(&Judged)| {
        let judged = Rc::clone(&judged);
        bench.case(name.to_owned(), units, move |_, units| {
            judged.iter().cycle().take(units as usize).for_each(one);
        });
    };

    let units = bench.group("check", Unit::Check);
    case(bench, "jsonschema is_valid", units, |j| assert!(j.alone.is_valid(&j.tool.good)));
    case(bench, "Schema::is_valid", units, |j| assert!(j.ours.is_valid(&j.tool.good)));

    let units = bench.group("check-failing", Unit::Check) / 10;
    case(bench, "jsonschema iter_errors", units, |j| {
        assert!(j.alone.iter_errors(&j.tool.bad).count() > 0);
    });
    // What every user would do next: format each error.
    case(bench, "the same, as text", units, |j| {
        for error in j.alone.iter_errors(&j.tool.bad) {
            black_box(format!("{}: {error}", error.instance_path()));
        }
    });
    case(bench, "Schema::problems", units, |j| {
        assert!(!j.ours.problems(&j.tool.bad).is_empty());
    });

    let units = bench.group("admit", Unit::Call);
    case(bench, "parse and jsonschema", units, |j| {
        let value: Value = serde_json::from_str(&j.text).unwrap_or_default();
        assert!(j.alone.is_valid(&value));
    });
    let tools = toolbox::tools(TOOLS).into_iter().map(|tool| {
        let spec = ToolSpec::new(tool.name.as_str(), tool.description.as_str()).read_only();
        DynTool::new(spec, tool.input, |_, _| async { "done" })
    });
    let runtime = ToolRegistry::builder()
        .add(tools.collect::<Vec<_>>())
        .build()
        .and_then(|registry| Runtime::builder().registry(registry).build())
        .unwrap_or_else(|e| panic!("{e}"));
    let turn = bench.wait(runtime.run().turn()).unwrap_or_else(|e| panic!("{e}"));
    bench.case("Turn::plan".to_owned(), units, move |_, units| {
        for j in judged.iter().cycle().take(units as usize) {
            let call = ToolCall::new("call", j.tool.name.as_str(), j.text.as_str());
            assert!(turn.plan([call])[0].refused.is_none());
        }
    });
}
