//! `haft run`: runs an agent on a task until it has answered.
//!
//! In: a task, a model, limits. Out: the answer on stdout, progress at the terminal, or events.
//! The run is stored in the workspace, and `--resume` continues it.

use std::process::ExitCode;

use haft::agent::{EndReason, RunResult, RunStatus, RunUsage};

use crate::{
    agent_output::{self, Display, PageTarget},
    agent_setup::{self, AgentSetup},
    args,
    error::{Problem, print_error},
    host_env::HostEnv,
    input,
    progress::RunAbout,
    screen, session,
    setup::Setup,
    signals::Signals,
    style,
};

pub(crate) fn run(args: &args::Run, setup: Setup, host: &HostEnv) -> Result<ExitCode, Problem> {
    let ready = AgentSetup::open(&args.agent, setup, host)?;
    let task = match (&args.task, &ready.resumed) {
        (Some(_), Some(_)) => {
            return Err(Problem::new("a run that is resumed goes on with its own task")
                .hint("leave the task out, or send a message with `haft chat --resume RUN`"));
        }
        (Some(task), None) => {
            let task = if task == "-" { input::stdin()? } else { task.clone() };
            if task.trim().is_empty() {
                return Err(Problem::new("the task is empty").hint("say what the agent is to do"));
            }
            task
        }
        (None, Some(_)) => String::new(),
        (None, None) => ready.task.clone().ok_or_else(|| {
            let script = if ready.is_script { ", and the script names none" } else { "" };
            Problem::new(format!("the task is missing{script}"))
                .hint("name it: `haft run \"Fix the failing test.\" --model …`")
        })?,
    };
    let _lock = ready.lock()?;
    let (is_json, is_quiet) = (args.agent.json, args.agent.rules.quiet);
    let (result, is_text_shown) = session::block_on(work(ready, task, is_json, is_quiet))??;
    if !is_json {
        report(&result, &args.agent, is_text_shown, Some("run"))?;
    }
    Ok(agent_output::exit(&result))
}

/// Runs the agent. Returns the result, and whether its text is on the terminal already.
async fn work(
    ready: AgentSetup,
    task: String,
    is_json: bool,
    is_quiet: bool,
) -> Result<(RunResult, bool), Problem> {
    let mut signals = Signals::listen();
    let mut used = RunUsage::default();
    let stream = match &ready.resumed {
        Some(run) => {
            let saved = agent_setup::load(&ready.runs, run, &ready.answers).await?;
            if saved.state == Some(RunStatus::Completed) {
                return Err(Problem::new(format!("the run `{run}` has completed"))
                    .hint(format!("`haft chat --resume {run} --model …` sends it another message"))
                    .hint(format!("`haft runs show {run}` prints it")));
            }
            used = saved.usage;
            let answers = ready.answers.iter().map(|(call, answer)| (call.clone(), answer.clone()));
            ready.runner.resume_stream(&ready.agent, saved, answers)?
        }
        None => ready.runner.run_stream(&ready.agent, &task)?,
    };
    let display = display(&ready, used, is_json, is_quiet);
    let result = agent_output::drive(stream, &mut signals, &display).await;
    let is_text_shown = display.shows_text();
    display.finish().await;
    if let Some(recording) = &ready.recording {
        recording.write()?;
    }
    Ok((result?, is_text_shown))
}

/// Where the events of a run go.
pub(crate) fn display(
    ready: &AgentSetup,
    used: RunUsage,
    is_json: bool,
    is_quiet: bool,
) -> Display {
    let agent = &ready.agent;
    if is_json {
        Display::Json
    } else if !is_quiet && screen::message_width().is_some() {
        let about = RunAbout {
            limits: agent.limits.clone(),
            has_price: agent.price.or(agent.model.info().price).is_some(),
            here: ready.here.clone(),
            used,
        };
        Display::page(about, PageTarget::Terminal)
    } else {
        Display::Nothing
    }
}

/// Prints the answer, and how the run ended where that is not an answer. `next` is the command that
/// continues such a run; `None` where this one goes on.
pub(crate) fn report(
    result: &RunResult,
    args: &args::AgentArgs,
    is_text_shown: bool,
    next: Option<&str>,
) -> Result<(), Problem> {
    let text = result.text.trim_end();
    let is_answer = matches!(result.state, RunStatus::Completed | RunStatus::Degraded);
    if is_answer && !text.is_empty() && !is_text_shown {
        let is_page = screen::page_width().is_some();
        let text = if is_page { style::visible(text) } else { text.to_owned() };
        style::print(format_args!("{text}\n"))?;
    }
    let mut hints = Vec::new();
    match result.state {
        RunStatus::Completed => return Ok(()),
        RunStatus::Waiting => hints.extend(waiting(result, args)),
        RunStatus::Failed if let EndReason::ModelFailed { hints: own, .. } = &result.reason => {
            hints.extend(own.iter().cloned());
            hints.extend(next.map(|command| resume_hint(result, args, command)));
        }
        _ => hints.extend(next.map(|command| resume_hint(result, args, command))),
    }
    print_error(&format!("{}: {}", result.state, result.reason), &hints);
    Ok(())
}

/// What waits, and how to answer.
fn waiting(result: &RunResult, args: &args::AgentArgs) -> Vec<String> {
    let asked = result.pending.iter().filter_map(|call| Some((call, call.question.as_ref()?)));
    let mut hints: Vec<String> = Vec::new();
    for (call, question) in asked {
        hints.push(format!(
            "`{}` waits: {}({}), because {}",
            call.call,
            call.tool,
            style::arguments(&question.arguments),
            question.reason
        ));
    }
    hints.push(resume_hint(result, args, "run"));
    if let Some(first) = result.pending.first() {
        hints.push(format!(
            "at a terminal it asks; `--approve {}` or `--deny {}` answers in advance",
            first.call, first.call
        ));
    }
    hints
}

/// The command that continues a run.
fn resume_hint(result: &RunResult, args: &args::AgentArgs, command: &str) -> String {
    let model = match &args.model {
        Some(model) => format!(" --model {model}"),
        None => String::new(),
    };
    let workspace = match &args.location.workspace {
        Some(workspace) => format!(" --workspace {}", workspace.display()),
        None => String::new(),
    };
    let run = &result.run;
    let command = format!("`haft {command} --resume {run}{model}{workspace}`");
    match result.reason {
        EndReason::LimitReached { .. } => {
            format!("{command} with a higher limit continues it; what was used counts")
        }
        _ => format!("{command} continues it"),
    }
}
