//! `haft dispatch`: a provider's complete response in, the message that answers it out.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use anstyle::Style;
use haft::{Config, Dialect, Envelope, Runtime};

use crate::{
    args, desk, input, kit,
    plan::no_dialect,
    problem::Problem,
    style::{self, BAD, DIM, GOOD, NAME, Table},
};

pub(crate) fn run(args: &args::Dispatch, config: Config) -> Result<ExitCode, Problem> {
    let response = input::response(args.file.as_deref())?;
    let Some(dialect) = args.dialect else {
        return Err(match Dialect::guess(&response) {
            Some(seems) => Problem::new("`--dialect` is missing")
                .hint(format!("this looks like `--dialect {seems}`")),
            None => no_dialect("`--dialect` is missing"),
        });
    };
    let haft::Response { calls, stop, .. } = dialect.parse(&response)?;
    let runtime = Runtime::builder().config(config).catalog(kit::catalog(Duration::ZERO)?);
    let runtime = desk::seat(runtime, args.yes).build()?;
    let (answers, is_interrupted) = desk::work(async move {
        let turn = runtime.run().turn().await?;
        Ok::<_, haft::Error>(desk::run(turn, calls, stop).await)
    })??;
    if std::io::stderr().is_terminal() {
        tell(&answers);
    }
    let message = dialect.answer(&answers);
    match std::io::stdout().is_terminal() && !args.output.json {
        true => style::say(format_args!("{message:#}\n"))?,
        false => style::say(format_args!("{message}\n"))?,
    }
    Ok(desk::exit(is_interrupted))
}

/// One line about each call.
fn tell(answers: &[Envelope]) {
    let mut table = Table::new(0);
    for answer in answers {
        let (colour, mark, how) = match answer.failure() {
            None => (GOOD, "✓", "ok".to_owned()),
            Some(failure) => (BAD, "✗", failure.code().to_string()),
        };
        table.row([
            (colour, mark.to_owned()),
            (NAME, style::visible(answer.called().as_str())),
            (Style::new(), how),
            (DIM, style::time(answer.elapsed())),
        ]);
    }
    style::talk(table.to_string().trim_end());
}
