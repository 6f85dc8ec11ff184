//! `haft tools list --cost`: what the definitions of tools cost in a request, which are deferred,
//! and the size of the search index.
//!
//! The figures are those of the first turn of `haft run` in the same directory. Tokens are
//! estimated at three bytes each.

use std::sync::Arc;

use anstyle::Style;
use haft::{
    Runtime,
    registry::{PromptCost, RegisteredTool, ToolSnapshot},
};
use serde_json::{Value, json};

use crate::{
    agent_tools, args,
    error::Problem,
    session::{self, Person},
    setup::Setup,
    style::{self, DIM, NAME, Table},
};

pub(crate) fn print(setup: &Setup, output: args::Output) -> Result<(), Problem> {
    let registry = agent_tools::registry(setup, &Person::default())?.0.build()?;
    let runtime = setup.runtime(Runtime::builder()).registry(registry).build()?;
    let run = setup.run(&runtime).start();
    let (json, page) = session::block_on(async move {
        let turn = run.turn().await?;
        let snapshot = turn.snapshot();
        Ok::<_, haft::Error>((as_json(snapshot), as_page(snapshot)))
    })??;
    if output.json {
        style::print(format_args!("{json}\n"))?;
    } else {
        style::print_page(page)?;
    }
    Ok(())
}

/// The tools with the largest definitions first.
fn by_size(snapshot: &ToolSnapshot) -> Vec<&Arc<RegisteredTool>> {
    let mut tools: Vec<&Arc<RegisteredTool>> = snapshot.entries().collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.definition_tokens()));
    tools
}

fn as_json(snapshot: &ToolSnapshot) -> Value {
    let PromptCost { tools, deferred, all_tokens, request_tokens, .. } = snapshot.prompt_cost();
    let cost = snapshot.prompt_cost();
    let rows: Vec<Value> = by_size(snapshot)
        .into_iter()
        .map(|tool| {
            json!({
                "name": tool.name().as_str(),
                "tokens": tool.definition_tokens(),
                "deferred": snapshot.is_deferred(tool),
            })
        })
        .collect();
    json!({
        "count": tools,
        "deferred": deferred,
        "all_tokens": all_tokens,
        "request_tokens": request_tokens,
        "listing_tokens": cost.listing_tokens,
        "index_bytes": cost.index_bytes,
        "index_words": cost.index_words,
        "tools": rows,
    })
}

fn as_page(snapshot: &ToolSnapshot) -> String {
    let cost = snapshot.prompt_cost();
    let mut table = Table::new(0);
    for tool in by_size(snapshot) {
        let state = if snapshot.is_deferred(tool) { "deferred" } else { "" };
        table.row([
            (NAME, tool.name().to_string()),
            (Style::new(), format!("{} tokens", tool.definition_tokens())),
            (DIM, state.to_owned()),
        ]);
    }
    format!(
        "{table}\n{} tools, {} deferred\nall definitions: {} tokens\na request: {} tokens, of \
         which the names of deferred tools take {}\nsearch index: {} words, {} bytes\n",
        cost.tools,
        cost.deferred,
        cost.all_tokens,
        cost.request_tokens,
        cost.listing_tokens,
        cost.index_words,
        cost.index_bytes,
    )
}
