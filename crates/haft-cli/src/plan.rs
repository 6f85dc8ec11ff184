//! `haft plan`: shows in which batches the calls of a response would run, and why. Runs nothing.

use anstyle::Style;
use haft::{Dialect, Runtime, turn::PlannedCall};
use serde_json::json;

use crate::{
    args, bare_message, builtin,
    error::Problem,
    input, mcp_servers, session,
    setup::Setup,
    style::{self, BAD, BOLD, DIM, NAME, Table},
};

pub(crate) fn run(args: &args::Plan, setup: &Setup) -> Result<(), Problem> {
    let response = input::response(args.file.as_deref())?;
    let bare_message::CompleteResponse { dialect, response, .. } =
        bare_message::complete(response, args.dialect);
    let dialect =
        dialect.ok_or_else(|| no_dialect("cannot detect the provider of this response"))?;
    let haft::dialect::ModelResponse { calls, stop, .. } = dialect.parse(&response)?;
    let names = calls.iter().map(|call| call.name.as_str());
    let servers = mcp_servers::for_calls(names, setup, &session::Person::default())?;
    let registry = servers.into_iter().fold(builtin::all(setup)?, |all, server| all.source(server));
    let runtime = setup.runtime(Runtime::builder()).registry(registry.build()?).build()?;
    let run = setup.run(&runtime).start();
    let mut planned = session::block_on(async move {
        let turn = run.turn().await?;
        let export = turn.snapshot().export(dialect);
        let calls = calls.into_iter().map(|call| export.restore(call));
        let planned = turn.plan(calls);
        runtime.close().await;
        Ok::<_, haft::Error>(planned)
    })??;
    let refused = planned.iter().filter(|call| call.refused.is_some());
    let refused: Vec<String> = refused.map(|call| call.tool.clone()).collect();
    if args.output.json {
        // People get a note; in the data, each call says why it would not run.
        for call in planned.iter_mut().filter(|call| call.refused.is_none()) {
            call.refused = stop.why_not().map(ToString::to_string);
        }
        style::print(format_args!("{}\n", json!(planned)))?;
    } else {
        style::print_page(page(&planned))?;
    }
    builtin::print_missing_hint(refused.iter().map(String::as_str), setup);
    if let Some(why) = stop.why_not() {
        style::message(format_args!("{} {why}", style::paint(BOLD, "note:")));
    } else if planned.is_empty() {
        style::message("the response calls no tool");
    }
    Ok(())
}

/// An error that lists the known dialects.
pub(crate) fn no_dialect(message: &str) -> Problem {
    let names: Vec<&str> = Dialect::ALL.iter().map(|d| d.as_str()).collect();
    Problem::new(message).hint(format!("name it with `--dialect`: {}", style::either(&names)))
}

fn page(planned: &[PlannedCall]) -> String {
    let mut table = Table::new(0);
    for (at, call) in planned.iter().enumerate() {
        let goes_on = at > 0 && planned[at - 1].batch == call.batch;
        let batch = if goes_on { String::new() } else { format!("batch {}", call.batch + 1) };
        table.row([
            (BOLD, batch),
            (DIM, style::visible(&call.id)),
            (NAME, style::visible(&call.tool)),
            (DIM, call.class.map_or("-", style::class).to_owned()),
            (Style::new(), call.why.clone()),
        ]);
        if let Some(refused) = &call.refused {
            for line in style::visible(refused).lines() {
                let empty = || (Style::new(), String::new());
                table.row([empty(), empty(), empty(), empty(), (BAD, line.to_owned())]);
            }
        }
    }
    table.to_string()
}
