//! The cost of searching tools: 10 000 definitions, ranked by words and matched by a pattern,
//! compared with looking for one word in every description.
//!
//! `index` is built once for a registry, not in every turn; its memory is printed by
//! `haft tools list --cost`.

use std::{hint::black_box, rc::Rc};

use haft::{
    Runtime, ToolRegistry,
    registry::ToolQuery,
    search::SearchTools,
    tool::{DynTool, ToolSpec},
};

use crate::{
    harness::{Bench, Unit},
    toolbox::{self, Tool},
};

/// The number of generated tools.
const TOOLS: usize = 10_000;
/// How often is searched in one measurement.
const SEARCHES: u32 = 10;

pub(crate) fn add(bench: &mut Bench) {
    bench.group("search", Unit::Search);
    let made = toolbox::tools(TOOLS);
    let texts: Vec<String> = made.iter().map(|tool| tool.description.to_lowercase()).collect();
    bench.case("one word in every text".to_owned(), SEARCHES, move |_, _| {
        for _ in 0..SEARCHES {
            black_box(texts.iter().filter(|text| text.contains("invoice")).count());
        }
    });
    let tool = |tool: &Tool| {
        let spec = ToolSpec::new(tool.name.as_str(), tool.description.as_str());
        DynTool::new(spec, tool.input.clone(), |_, _| async { "done" })
    };
    let runtime = ToolRegistry::builder()
        .add(made.iter().map(tool).collect::<Vec<_>>())
        .add(SearchTools)
        .build()
        .and_then(|registry| Runtime::builder().registry(registry).build())
        .unwrap_or_else(|e| panic!("{e}"));
    let turn = bench.wait(runtime.run().turn()).unwrap_or_else(|e| panic!("{e}"));
    let turn = Rc::new(turn);
    let queries = [
        ("words", ToolQuery::Words("cancel the invoice with this number".to_owned())),
        ("pattern", ToolQuery::Pattern("^cancel_.*invoice".to_owned())),
    ];
    for (name, query) in queries {
        let turn = Rc::clone(&turn);
        bench.case(name.to_owned(), SEARCHES, move |_, _| {
            for _ in 0..SEARCHES {
                let found = turn.snapshot().search(&query, 5);
                assert!(found.is_ok_and(|found| found.len() == 5), "too few were found");
            }
        });
    }
}
