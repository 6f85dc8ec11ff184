//! `haft dispatch`: a provider's response in, the message that answers it out.
//!
//! Complete, or while it is still being written; the answer is the same.

use std::{io::IsTerminal as _, process::ExitCode};

use anstyle::Style;
use haft::{Dialect, Error, EventStream, FailureCode, Run, Runtime, StopReason, ToolResult};
use serde_json::{Value, json};

use crate::{
    args, builtin,
    error::Problem,
    input,
    live::{self, Live},
    plan::no_dialect,
    result, session,
    setup::{Around, Setup},
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table},
};

pub(crate) fn run(
    args: &args::Dispatch,
    setup: Setup,
    around: &Around,
) -> Result<ExitCode, Problem> {
    let person = session::Person::here(&setup, args.yes);
    let registry = builtin::registry(&setup, &args.place, &person)?.build()?;
    let runtime = setup.runtime(Runtime::builder()).registry(registry);
    let runtime = result::keep(runtime, &args.artifacts, around)?;
    let runtime = session::seat(runtime, &setup, person, args.decisions.as_deref())?.build()?;
    let run = setup.run(&runtime).start();
    let events = live::events(&runtime, !args.output.json && !args.rules.quiet);
    match args.stream {
        true => streamed(args, run, events, &setup, around),
        false => complete(args, run, events, &setup, around),
    }
}

fn complete(
    args: &args::Dispatch,
    run: Run,
    events: Option<EventStream>,
    setup: &Setup,
    around: &Around,
) -> Result<ExitCode, Problem> {
    let response = input::response(args.file.as_deref())?;
    let Some(dialect) = args.dialect else {
        return Err(match Dialect::detect(&response) {
            Some(seems) => Problem::new("`--dialect` is missing")
                .hint(format!("this looks like `--dialect {seems}`")),
            None => no_dialect("`--dialect` is missing"),
        });
    };
    let mut said = dialect.parse(&response)?;
    let (calls, stop) = (std::mem::take(&mut said.calls), said.stop);
    let (answers, is_interrupted) = session::work(async move {
        let live = events.map(Live::start);
        let turn = run.turn().await?;
        let export = turn.snapshot().export(dialect);
        let calls = calls.into_iter().map(|call| export.restore(call)).collect();
        let answered = session::run(turn, calls, stop).await;
        live::finish(live).await;
        Ok::<_, Error>(answered)
    })??;
    let answer = said.render_results(&answers);
    let printed = match args.echo {
        true => json!({"message": said.assistant_message(&response, &answers), "answer": answer}),
        false => answer,
    };
    print(args, &printed, &answers)?;
    remark(args, &answers, setup, around);
    Ok(session::exit(is_interrupted))
}

fn streamed(
    args: &args::Dispatch,
    run: Run,
    events: Option<EventStream>,
    setup: &Setup,
    around: &Around,
) -> Result<ExitCode, Problem> {
    let dialect = args.dialect.ok_or_else(|| no_dialect("`--dialect` is missing"))?;
    let body = input::body(args.file.as_deref())?;
    let (heard, is_interrupted) = session::work(async move {
        let live = events.map(Live::start);
        let turn = run.turn().await?;
        let heard = session::listen(turn, dialect, body).await;
        live::finish(live).await;
        Ok::<_, Error>(heard)
    })??;
    let is_empty = heard.envelopes.is_empty();
    if let Some(problem) = heard.problem {
        let problem = Problem::from(problem);
        if is_empty {
            return Err(problem.hint("to read a complete response, leave out `--stream`"));
        }
        let _ = problem.tell(); // the calls that came are answered all the same
    } else if heard.stop == StopReason::Truncated && is_empty && !is_interrupted {
        return Err(Problem::new(format!(
            "this is not a complete {dialect} stream: it has no call and no end marker"
        )));
    } else if heard.stop != StopReason::Done {
        let how = match heard.stop {
            StopReason::Truncated => "the stream was truncated",
            StopReason::Refused => "the message ended in a refusal",
            _ => "the message ended for an unknown reason",
        };
        let note = style::paint(BOLD, "note:");
        style::talk(format_args!(
            "{note} {how}; only read-only calls that had already started ran"
        ));
    }
    let printed = match args.echo {
        true => json!({"message": heard.message, "answer": heard.answer}),
        false => heard.answer,
    };
    print(args, &printed, &heard.envelopes)?;
    remark(args, &heard.envelopes, setup, around);
    Ok(session::exit(is_interrupted))
}

/// Prints the message, and what became of each call for whoever sits there.
fn print(args: &args::Dispatch, message: &Value, answers: &[ToolResult]) -> Result<(), Problem> {
    if std::io::stderr().is_terminal() {
        tell(answers);
    }
    style::data(message, args.output.json)?;
    Ok(())
}

/// Says what only the operator can mend: tools that are not there, results that could not be kept.
fn remark(args: &args::Dispatch, answers: &[ToolResult], setup: &Setup, around: &Around) {
    let unknown = |answer: &&ToolResult| {
        answer.failure().is_some_and(|failure| failure.code() == FailureCode::UnknownTool)
    };
    let names = answers.iter().filter(unknown).map(|answer| answer.requested_name().as_str());
    builtin::remind(names, &args.place, setup);
    result::tell_trouble(answers, &args.artifacts, around);
}

/// One line about each call.
fn tell(answers: &[ToolResult]) {
    let mut table = Table::new(0);
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
    style::talk(table.to_string().trim_end());
}
