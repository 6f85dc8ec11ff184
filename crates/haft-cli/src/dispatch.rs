//! `haft dispatch`: runs the calls of a provider's response.
//!
//! In: a complete response or a stream. Out: the message with the results, the same for both.

use std::{io::IsTerminal as _, process::ExitCode};

use anstyle::Style;
use haft::{
    Dialect, Error, FailureCode, Run, Runtime, ToolResult, dialect::ModelResponse,
    events::EventStream, turn::StopReason,
};
use serde_json::{Value, json};

use crate::{
    args, bare_message, builtin,
    error::Problem,
    host_env::HostEnv,
    input,
    live::{self, Live},
    mcp_servers,
    plan::no_dialect,
    result, screen, session,
    setup::Setup,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table},
};

pub(crate) fn run(
    args: &args::Dispatch,
    setup: Setup,
    host: &HostEnv,
) -> Result<ExitCode, Problem> {
    args.location.refuse_wide_default(host)?;
    let person = session::Person::at_terminal(&setup, args.yes);
    let response = if args.stream { None } else { Some(Complete::read(args, &setup)?) };
    let servers = match &response {
        Some(response) => {
            let names = response.parsed.calls.iter().map(|call| call.name.as_str());
            mcp_servers::for_calls(names, &setup, &person)?
        }
        // The calls of a stream are not known yet.
        None => {
            let host = mcp_servers::host_with(&setup, &person);
            mcp_servers::servers_with(&setup, Some(mcp_servers::PATIENCE), host)?
        }
    };
    let registry = servers
        .into_iter()
        .fold(builtin::registry(&setup, &person)?, |registry, server| registry.source(server));
    let runtime = setup.runtime(Runtime::builder()).registry(registry.build()?);
    let runtime = builtin::note_workspace(runtime, &args.location, &setup);
    let runtime = result::store_large_results(runtime, &args.artifacts, host)?;
    let runtime =
        session::add_approver(runtime, &setup, person, args.decisions.as_deref())?.build()?;
    let run = setup.run(&runtime).start();
    let events = live::events(&runtime, !args.output.json && !args.rules.quiet);
    let running = Running { runtime, run, events };
    match response {
        Some(response) => complete(args, response, running, &setup, host),
        None => streamed(args, running, &setup, host),
    }
}

/// The run of the calls, and what is shown of it.
struct Running {
    runtime: Runtime,
    run: Run,
    events: Option<EventStream>,
}

/// A complete response.
struct Complete {
    dialect: Dialect,
    response: Value,
    parsed: ModelResponse,
}

impl Complete {
    fn read(args: &args::Dispatch, setup: &Setup) -> Result<Self, Problem> {
        let response = input::response(args.file.as_deref())?;
        let whole = bare_message::complete(response, args.dialect);
        if let Some(note) = whole.dialect_note(args.dialect) {
            setup.note(note);
        }
        let bare_message::CompleteResponse { dialect, response, is_stop_assumed } = whole;
        let dialect =
            dialect.ok_or_else(|| no_dialect("cannot detect the provider of this response"))?;
        let parsed = dialect.parse(&response)?;
        if is_stop_assumed && !parsed.calls.is_empty() {
            setup.note(
                "a message without a stop reason counts as complete; give the whole response to \
                 have truncation detected"
                    .to_owned(),
            );
        }
        Ok(Self { dialect, response, parsed })
    }
}

fn complete(
    args: &args::Dispatch,
    Complete { dialect, response, mut parsed }: Complete,
    Running { runtime, run, events }: Running,
    setup: &Setup,
    host: &HostEnv,
) -> Result<ExitCode, Problem> {
    let (calls, stop) = (std::mem::take(&mut parsed.calls), parsed.stop);
    let (answers, is_interrupted) = session::block_on(async move {
        let live = events.map(Live::start);
        let turn = run.turn().await?;
        let export = turn.snapshot().export(dialect);
        let calls = calls.into_iter().map(|call| export.restore(call)).collect();
        let answered = session::run(turn, calls, stop).await;
        live::finish(live).await;
        runtime.close().await;
        Ok::<_, Error>(answered)
    })??;
    let answer = parsed.render_results(&answers);
    let printed = if args.echo {
        json!({"message": parsed.assistant_message(&response, &answers), "answer": answer})
    } else {
        answer
    };
    print(args, &printed, &answers)?;
    remark(args, &answers, setup, host);
    Ok(session::exit(is_interrupted))
}

fn streamed(
    args: &args::Dispatch,
    Running { runtime, run, events }: Running,
    setup: &Setup,
    host: &HostEnv,
) -> Result<ExitCode, Problem> {
    let dialect = args.dialect.ok_or_else(|| no_dialect("`--dialect` is missing"))?;
    let body = input::body(args.file.as_deref())?;
    let (streamed, is_interrupted) = session::block_on(async move {
        let live = events.map(Live::start);
        let turn = run.turn().await?;
        let streamed = session::run_stream(turn, dialect, body).await;
        live::finish(live).await;
        runtime.close().await;
        Ok::<_, Error>(streamed)
    })??;
    let is_empty = streamed.results.is_empty();
    if let Some(problem) = streamed.problem {
        let problem = Problem::from(problem);
        if is_empty {
            return Err(problem.hint("to read a complete response, leave out `--stream`"));
        }
        problem.warn(); // the calls that arrived have results
    } else if streamed.stop == StopReason::Truncated && is_empty && !is_interrupted {
        return Err(Problem::new(format!(
            "this is not a complete {dialect} stream: it has no call and no end marker"
        )));
    } else if streamed.stop != StopReason::Done {
        let how = match streamed.stop {
            StopReason::Truncated => "the stream was truncated",
            StopReason::Refused => "the message ended in a refusal",
            _ => "the message ended for an unknown reason",
        };
        let note = style::paint(BOLD, "note:");
        style::message(format_args!(
            "{note} {how}; only read-only calls that had already started ran"
        ));
    }
    let printed = if args.echo {
        json!({"message": streamed.message, "answer": streamed.answer})
    } else {
        streamed.answer
    };
    print(args, &printed, &streamed.results)?;
    remark(args, &streamed.results, setup, host);
    Ok(session::exit(is_interrupted))
}

/// Prints the message, and at a terminal one line about each call.
fn print(args: &args::Dispatch, message: &Value, answers: &[ToolResult]) -> Result<(), Problem> {
    if std::io::stderr().is_terminal() {
        print_calls(answers);
    }
    style::print_json(message, args.output.json)?;
    Ok(())
}

/// Prints what only the operator can fix: missing tools, results that could not be stored.
fn remark(args: &args::Dispatch, answers: &[ToolResult], setup: &Setup, host: &HostEnv) {
    let unknown = |answer: &&ToolResult| {
        answer.failure().is_some_and(|failure| failure.code() == FailureCode::UnknownTool)
    };
    let names = answers.iter().filter(unknown).map(|answer| answer.requested_name().as_str());
    builtin::print_missing_hint(names, setup);
    result::report_lost_results(answers, &args.artifacts, host);
}

/// One line about each call.
fn print_calls(answers: &[ToolResult]) {
    let mut table = Table::new(0).with_width(screen::message_width());
    for answer in answers {
        let (colour, mark, how) = match answer.failure() {
            None => (GOOD, "✓", "ok".to_owned()),
            Some(failure) => (BAD, "✗", failure.code().to_string()),
        };
        table.row([
            (colour, mark.to_owned()),
            (NAME, style::visible(answer.requested_name().as_str())),
            (Style::new(), how),
            (DIM, style::time(answer.elapsed())),
        ]);
    }
    style::message(table.to_string().trim_end());
}
