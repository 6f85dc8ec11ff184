//! `haft chat`: a conversation with an agent, one message per line.
//!
//! In: lines of the terminal or of stdin. Out: the answers on stdout, as `haft run` prints them.
//! The whole conversation is one run with one budget, and is stored after every message.

use std::{path::Path, process::ExitCode};

use haft::agent::{Chat, RunResult, RunStatus, RunUsage};
use tokio::sync::mpsc;

use crate::{
    agent_output::{self, Display},
    agent_setup::{self, AgentSetup},
    args,
    error::Problem,
    host_env::HostEnv,
    input, run as run_command,
    session::{self, CANCELLED},
    setup::Setup,
    signals::Signals,
    style::{self, DIM},
};

/// The longest message.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;

pub(crate) fn run(args: &args::Chat, setup: Setup, host: &HostEnv) -> Result<ExitCode, Problem> {
    let ready = AgentSetup::open(&args.agent, setup, host)?;
    let _lock = ready.lock()?;
    session::block_on(talk(ready, args.agent.clone()))?
}

async fn talk(ready: AgentSetup, args: args::AgentArgs) -> Result<ExitCode, Problem> {
    let mut signals = Signals::listen();
    let mut used = RunUsage::default();
    let mut chat = match &ready.resumed {
        Some(run) => {
            let saved = agent_setup::load(&ready.runs, run, &ready.answers).await?;
            if !saved.pending().is_empty() {
                return Err(Problem::new(format!("a call of the run `{run}` waits for approval"))
                    .hint(format!("`haft run --resume {run} --model …` answers it first")));
            }
            used = saved.usage;
            ready.runner.reopen(&ready.agent, saved, ready.answers.clone())?
        }
        None => ready.runner.chat(&ready.agent)?,
    };
    if ready.person.is_there() && !args.json {
        let run = chat.run();
        let line = format!("chat {run}: each line is a message; Ctrl-D ends the chat");
        style::message(style::paint(DIM, line));
    }
    let mut lines = Lines::of(&ready);
    let mut code = ExitCode::SUCCESS;
    let ended = loop {
        let line = tokio::select! {
            biased;
            _ = signals.next() => break Ok(ExitCode::from(CANCELLED)),
            line = lines.next(&ready) => match line {
                Ok(line) => line,
                Err(problem) => break Err(problem),
            },
        };
        let Some(message) = line else { break Ok(code) };
        if message.trim().is_empty() {
            continue;
        }
        let display = run_command::display(&ready, used, args.json, args.rules.quiet);
        let (result, is_text_shown) = match answer(&mut chat, &message, display, &mut signals).await
        {
            Ok(answered) => answered,
            Err(problem) => break Err(problem),
        };
        if !args.json {
            let next = (!ready.person.is_there()).then_some("chat");
            run_command::report(&result, &args, is_text_shown, next)?;
        }
        used = result.usage;
        code = agent_output::exit(&result);
        // A person can go on after a failure; a pipe cannot know of it.
        let goes_on = ready.person.is_there() && result.state != RunStatus::Waiting;
        if result.state != RunStatus::Completed && !goes_on {
            break Ok(code);
        }
    };
    if let Some(recording) = &ready.recording {
        recording.write()?;
    }
    ended
}

/// Sends one message. Returns the result, and whether its text is on the terminal already.
async fn answer(
    chat: &mut Chat<'_>,
    message: &str,
    display: Display,
    signals: &mut Signals,
) -> Result<(RunResult, bool), Problem> {
    let stream = chat.send_stream(message)?;
    let result = agent_output::drive(stream, signals, &display).await;
    let is_text_shown = display.shows_text();
    display.finish().await;
    Ok((result?, is_text_shown))
}

/// Where messages come from.
enum Lines {
    Terminal,
    Stdin(mpsc::Receiver<Result<String, Problem>>),
}

impl Lines {
    fn of(ready: &AgentSetup) -> Self {
        if ready.person.is_there() { Self::Terminal } else { Self::Stdin(stdin()) }
    }

    async fn next(&mut self, ready: &AgentSetup) -> Result<Option<String>, Problem> {
        match self {
            Self::Terminal => {
                ready.person.message().await.map_err(|e| Problem::new(e.message().to_owned()))
            }
            Self::Stdin(lines) => lines.recv().await.transpose(),
        }
    }
}

/// Reads messages from stdin on a thread of its own. The next line is read when the last one was
/// answered.
fn stdin() -> mpsc::Receiver<Result<String, Problem>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let mut lines = match input::Lines::open(Path::new("-")) {
            Ok(lines) => lines,
            Err(problem) => return drop(sender.blocking_send(Err(problem))),
        };
        loop {
            let line = match lines.short_line(MAX_MESSAGE_BYTES) {
                Ok(None) => return,
                Ok(Some((_, Some(line)))) => {
                    Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
                }
                Ok(Some((at, None))) => Err(Problem::new(format!(
                    "line {at} of stdin is longer than {} MiB",
                    MAX_MESSAGE_BYTES >> 20
                ))),
                Err(problem) => Err(problem),
            };
            let is_over = line.is_err();
            if sender.blocking_send(line).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}
