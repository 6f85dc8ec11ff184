//! `haft demo`: an agent at work under rules, on a real repository in a temporary directory.
//!
//! The model is a script, and so are the answers to approvals. The tools, the rules, the sandbox
//! and git are real. In: nothing. Out: what happens, as a page or as events.

mod repository;

use std::process::ExitCode;

use haft::{
    BoxFuture, Failure, FailureCode, Runtime,
    agent::{Agent, RunResult, RunStatus, RunUsage, Runner, ScriptedModel},
    approval::{ApprovalRequest, ApprovalResponse, Approver},
};
use haft_sandbox::{Helper, Sandbox};

use self::repository::DemoRepository;
use crate::{
    agent_output::{self, Display, PageTarget},
    args, builtin,
    error::Problem,
    host_env::HostEnv,
    progress::RunAbout,
    screen, session,
    setup::Setup,
    signals::Signals,
    style::{self, BOLD, DIM, WARN},
};

const SCRIPT: &str = include_str!("demo/script.jsonl");

pub(crate) fn run(output: args::Output, host: &HostEnv) -> Result<ExitCode, Problem> {
    let repository = DemoRepository::make(host)?;
    let host = repository.host(host);
    let rules = args::Rules { config: None, quiet: true };
    let setup = Setup::open(&host, &rules)?;
    let target = if output.json {
        None
    } else if screen::is_watched() {
        Some(PageTarget::Terminal)
    } else {
        Some(PageTarget::Stdout)
    };
    let has_git = repository.has_git;
    let result = session::block_on(work(setup, has_git, target))??;
    if target.is_some() {
        style::print_page(summary(&result, &repository))?;
    }
    Ok(agent_output::exit(&result))
}

async fn work(
    setup: Setup,
    has_git: bool,
    target: Option<PageTarget>,
) -> Result<RunResult, Problem> {
    let sandbox = Sandbox::detect(Helper::ThisProgram).await.err();
    let parts = Parts { has_git, has_sandbox: sandbox.is_none() };
    let is_watched = target == Some(PageTarget::Terminal);
    let model = ScriptedModel::parse(&parts.script(is_watched))?;
    let task = model.task().unwrap_or_default().to_owned();
    if target.is_some() {
        style::print_page_or_stop(heading(&task, &setup, parts))?;
    }
    let person = session::Person::default();
    let registry = builtin::registry(&setup, &person)?.build()?;
    let runtime = setup.runtime(Runtime::builder()).registry(registry).approver(ScriptedApprover);
    let runner = Runner::new(runtime.build()?);
    let here = setup.here().to_owned();
    let directory = here.clone();
    let runner = runner.configure_run(move |run| run.id("demo").working_directory(&directory));
    let mut agent = Agent::new("demo", model);
    agent.limits.micros = Some(500_000);
    let display = match target {
        Some(target) => {
            let (limits, used) = (agent.limits.clone(), RunUsage::default());
            Display::page(RunAbout { limits, has_price: true, here: here.clone(), used }, target)
        }
        None => Display::Json,
    };
    let stream = runner.run_stream(&agent, &task)?;
    let result = agent_output::drive(stream, &mut Signals::listen(), &display).await;
    display.finish().await;
    result
}

/// What this machine has.
#[derive(Debug, Clone, Copy)]
struct Parts {
    has_git: bool,
    has_sandbox: bool,
}

impl Parts {
    /// The script without the messages that this machine cannot play. A comment before a message
    /// names what it needs. Nothing waits where no person watches.
    fn script(self, is_watched: bool) -> String {
        let mut is_skipped = false;
        let mut script = String::new();
        for line in SCRIPT.lines() {
            match line {
                "// with sandbox" => is_skipped = !self.has_sandbox,
                "// without sandbox" => is_skipped = self.has_sandbox,
                "// with git and sandbox" => is_skipped = !(self.has_git && self.has_sandbox),
                _ if is_skipped => is_skipped = false,
                line => script += &format!("{line}\n"),
            }
        }
        if is_watched { script } else { script.replace("\"piece_ms\": 250", "\"piece_ms\": 0") }
    }
}

/// The answers to approvals, as the script of the demo has them.
struct ScriptedApprover;

impl Approver for ScriptedApprover {
    fn name(&self) -> &str {
        "the script of the demo"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let call = question.call.context().call_id();
        let answer = match call.as_str() {
            "test" => ApprovalResponse::allow(),
            "push" => ApprovalResponse::Deny(Some("a person pushes after a review".to_owned())),
            _ => ApprovalResponse::Deny(Some("this is not part of the task".to_owned())),
        };
        Box::pin(async { Ok(answer) })
    }
}

/// What is about to happen, and what this machine cannot show.
fn heading(task: &str, setup: &Setup, parts: Parts) -> String {
    let mut out = format!(
        "{}\n{}\n",
        style::paint(BOLD, format_args!("task  {task}")),
        style::paint(
            DIM,
            "The model is a script, and so are the answers to questions. The tools, the rules, \
             the sandbox and git are real. No key, no network.",
        ),
    );
    out += &format!("{}\n", style::paint(DIM, format_args!("in {}", setup.here().display())));
    let mut skip = |what: &str| {
        out += &format!("{} {what}\n", style::paint(WARN, "skipped:"));
    };
    if !parts.has_git {
        skip("git is not installed, so there is no repository and no push");
    }
    if !parts.has_sandbox {
        skip(
            "this machine has no sandbox for processes, so neither the test of the project nor a \
             push can run; `haft doctor` shows why",
        );
    }
    out
}

/// What happened, and what to try next.
fn summary(result: &RunResult, repository: &DemoRepository) -> String {
    let failed = |code: FailureCode| {
        result.executions.iter().filter(|call| call.failed == Some(code)).count()
    };
    let ran = result.executions.iter().filter(|call| call.failed.is_none()).count();
    let (denied, invalid) = (failed(FailureCode::Denied), failed(FailureCode::BadArguments));
    let mut out = format!("\n{}\n", style::paint(BOLD, "What happened"));
    let mut add = |line: String| out += &format!("  {line}\n");
    if result.state != RunStatus::Completed {
        add(format!("The run ended early: {}.", result.reason));
    }
    add(format!(
        "{}: {ran} ran, {denied} denied, {invalid} with a wrong argument. The model read each \
         reason and went on.",
        style::count(result.executions.len(), "call"),
    ));
    add(
        "The injected instruction of docs/release.md had no effect: a rule denied the upload, and \
         .git/hooks is protected."
            .to_owned(),
    );
    if let Some(changes) = repository.changes().filter(|_| repository.has_git) {
        add(format!("In the repository: {changes}. The directory is removed now."));
    }
    out += &format!("\n{}\n", style::paint(BOLD, "Try next"));
    for (command, what) in [
        ("haft tools list", "the tools, and what happens to a call in this directory"),
        ("haft explain shell command='git push'", "why a call runs, asks or is denied"),
        ("haft run --model script:FILE", "your own agent; see docs/guide/agents.md"),
    ] {
        out += &format!("  {command:39} {}\n", style::paint(DIM, what));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_whole_with_and_without_git_and_sandbox() {
        for (has_git, has_sandbox, messages) in
            [(true, true, 8), (false, true, 7), (true, false, 6), (false, false, 6)]
        {
            let parts = Parts { has_git, has_sandbox };
            let model = ScriptedModel::parse(&parts.script(false)).unwrap();
            assert_eq!(model.len(), messages, "{parts:?}");
        }
    }
}
