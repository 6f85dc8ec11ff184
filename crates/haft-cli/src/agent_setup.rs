//! What `haft run` and `haft chat` share: the model, the agent, its limits, its tools, its store.
//!
//! In: the options and the configuration of the workspace. Out: a runner and an agent.
//! FAIL CLOSED: a limit of an option never raises a limit of a configuration file, and a call that
//! needs approval waits where no person can be asked.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use haft::{
    Runtime, RuntimeBuilder,
    agent::{Agent, DeferredApprovals, Recorder, RunStore as _, Runner, SavedRun},
    approval::ApprovalResponse,
    budget::Budget,
    secrets::{Secret, Secrets},
    tool::CallId,
};

use crate::{
    agent_tools,
    args::AgentArgs,
    builtin,
    error::Problem,
    host_env::HostEnv,
    input,
    model::{self, LoadedModel},
    result,
    run_store::{RunLock, WorkspaceRuns},
    session,
    setup::{self, Setup},
    sub_agents::SubAgentSetup,
};

/// The name of the agent, in records and stored runs.
pub(crate) const AGENT: &str = "haft";

/// The system prompt without `--instructions`.
const INSTRUCTIONS: &str = "You work on a task of the user with the tools that you are offered. \
They work in the user's workspace, under rules. If a call is denied, read the reason and continue \
another way, or say what you need.";

/// The limits of a run where neither an option nor a file sets one.
const MAX_TURNS: u32 = 50;
const MAX_CALLS: u64 = 200;
const MAX_TIME: Duration = Duration::from_secs(30 * 60);

/// An agent that is ready to run.
pub(crate) struct AgentSetup {
    pub(crate) runner: Runner,
    pub(crate) agent: Agent,
    pub(crate) runs: WorkspaceRuns,
    /// The workspace.
    pub(crate) here: PathBuf,
    pub(crate) person: session::Person,
    /// The task that the script names.
    pub(crate) task: Option<String>,
    /// Whether the model plays a script.
    pub(crate) is_script: bool,
    pub(crate) recording: Option<Recording>,
    /// The answers to waiting calls.
    pub(crate) answers: Vec<(CallId, ApprovalResponse)>,
    /// The stored run that is continued.
    pub(crate) resumed: Option<String>,
    /// The id of the run, where it is a new one.
    id: String,
}

/// A run that becomes a script.
pub(crate) struct Recording {
    recorder: Recorder,
    path: PathBuf,
}

impl AgentSetup {
    pub(crate) fn open(
        args: &AgentArgs,
        mut setup: Setup,
        host: &HostEnv,
    ) -> Result<Self, Problem> {
        args.location.refuse_wide_default(host)?;
        let loaded = model::load(args.model.as_deref(), &setup.loaded.model, host)?;
        let limits = limits(args, setup.loaded.budget.clone());
        if limits.micros.is_some() && loaded.model.info().price.is_none() {
            return Err(no_price(&loaded));
        }
        let runs = WorkspaceRuns::find(setup.here())?;
        if let Some(run) = &args.resume
            && !runs.names().contains(run)
        {
            return Err(runs.unknown(run));
        }
        let id = runs.new_id();
        let conversation = args.resume.as_ref().unwrap_or(&id);
        setup.set_conversation(conversation, runs.file(conversation));
        let recording = args.record.as_deref().map(Recording::open).transpose()?;
        let person = session::Person::at_terminal(&setup, args.yes).after_progress();
        let answers = answers(args);
        let (registry, skills) = agent_tools::registry(&setup, &person)?;
        let needs_price = limits.micros.is_some();
        let agents = SubAgentSetup { args, setup: &setup, host, model: &loaded, needs_price };
        let (registry, keys) = agents.add(registry)?;
        let runtime = setup.runtime(Runtime::builder()).registry(registry.build()?);
        let runtime = agent_tools::add_grants(runtime, &skills, &setup);
        let runtime = builtin::note_workspace(runtime, &args.location, &setup);
        let runtime = result::store_large_results(runtime, &args.artifacts, host)?;
        let runtime = hide_keys(runtime, loaded.key.iter().chain(&keys));
        let decisions = args.decisions.as_deref();
        let is_deferred = !args.yes && (!person.is_there() || !answers.is_empty());
        let deferred = is_deferred.then(DeferredApprovals::new);
        let runtime = match &deferred {
            Some(later) => session::defer_approvals(runtime, &setup, later.clone(), decisions)?,
            None => session::add_approver(runtime, &setup, person.clone(), decisions)?,
        };
        let here = setup.here().to_owned();
        let (own_id, directory) = (id.clone(), here.clone());
        let user = setup.person();
        let mut runner =
            Runner::new(runtime.build()?).store(runs.store()).configure_run(move |run| {
                let run = run.id(own_id.as_str()).working_directory(&directory);
                setup::identify(run, user.as_deref())
            });
        if let Some(deferred) = deferred {
            runner = runner.deferred_approvals(deferred);
        }
        if let Some(recording) = &recording {
            runner = runner.record(recording.recorder.clone());
        }
        let mut agent = Agent::new(AGENT, loaded.model)
            .instructions(instructions(args.instructions.as_deref())?)
            .limits(limits)
            .on_tool_failure(args.on_tool_failure);
        if let Some(tokens) = loaded.max_tokens {
            agent = agent.max_tokens(tokens);
        }
        let (task, is_script) = (loaded.task, loaded.is_script);
        let resumed = args.resume.clone();
        Ok(Self {
            runner,
            agent,
            runs,
            here,
            person,
            task,
            is_script,
            recording,
            answers,
            resumed,
            id,
        })
    }

    /// Prepares the store, and locks the run for this process.
    pub(crate) fn lock(&self) -> Result<RunLock, Problem> {
        self.runs.create()?;
        self.runs.lock(self.resumed.as_ref().unwrap_or(&self.id))
    }
}

impl Recording {
    /// Checks that the file can be written, and keeps its content for now.
    fn open(path: &Path) -> Result<Self, Problem> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|e| unwritable(path, &e))?;
        Ok(Self { recorder: Recorder::new(), path: path.to_owned() })
    }

    /// Writes the script.
    pub(crate) fn write(&self) -> Result<(), Problem> {
        let file = OpenOptions::new().write(true).truncate(true).create(true).open(&self.path);
        let written = file.and_then(|mut file| {
            file.write_all(self.recorder.script().as_bytes()).and_then(|()| file.sync_all())
        });
        written.map_err(|e| unwritable(&self.path, &e))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot write `{}`: {error}", path.display()))
        .hint("name another file with `--record FILE`")
}

/// The error of a run with a money limit whose model has no known price.
fn no_price(loaded: &LoadedModel) -> Problem {
    if loaded.is_script {
        return Problem::new("the run has a money limit, and the script names no price")
            .hint("add it to the first line: {\"script\": 1, \"price\": {\"input\": 3000000, \"output\": 15000000}}")
            .hint("prices are millionths for a million tokens");
    }
    let name = loaded.model.info().name;
    Problem::new(format!("the run has a money limit, and the price of `{name}` is unknown"))
        .hint(
            "add it to `[model]` in haft.toml, next to `name`: price = { input = 3, output = 15 }",
        )
        .hint("prices are for a million tokens")
}

/// Redacts the keys of models from everything that is shown or stored. No tool gets them.
fn hide_keys<'a>(
    runtime: RuntimeBuilder,
    keys: impl Iterator<Item = &'a Secret>,
) -> RuntimeBuilder {
    const FOR_NO_TOOL: &str = "no tool has this name";
    let secrets = Secrets::default();
    for (n, key) in keys.enumerate() {
        // A key that is too short to be redacted protects nothing.
        let _ = secrets.add_for(FOR_NO_TOOL, format!("model_key_{n}"), key.clone());
    }
    if secrets.is_empty() { runtime } else { runtime.secrets(secrets) }
}

fn instructions(given: Option<&str>) -> Result<String, Problem> {
    match given {
        None => Ok(INSTRUCTIONS.to_owned()),
        Some(text) => match text.strip_prefix('@') {
            Some(path) => input::file(Path::new(path)),
            None => Ok(text.to_owned()),
        },
    }
}

/// The limits of the run: the smaller of option and file, else the default.
fn limits(args: &AgentArgs, mut file: Budget) -> Budget {
    file.cycles = least(args.max_turns, file.cycles).or(Some(MAX_TURNS));
    file.calls = least(args.max_calls, file.calls).or(Some(MAX_CALLS));
    file.wall = least(args.max_time, file.wall).or(Some(MAX_TIME));
    file.tokens = least(args.max_tokens, file.tokens);
    file.micros = least(args.max_cost, file.micros);
    file
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn answers(args: &AgentArgs) -> Vec<(CallId, ApprovalResponse)> {
    let denied = |call: &String| (CallId::from(call.as_str()), ApprovalResponse::Deny(None));
    let allowed = |call: &String| (CallId::from(call.as_str()), ApprovalResponse::allow());
    // A call that is both approved and denied is denied.
    args.approve.iter().map(allowed).chain(args.deny.iter().map(denied)).collect()
}

/// Loads a stored run. The answers must be for calls that wait.
pub(crate) async fn load(
    runs: &WorkspaceRuns,
    run: &str,
    answers: &[(CallId, ApprovalResponse)],
) -> Result<SavedRun, Problem> {
    let saved = runs.store().load(&run.into()).await?.ok_or_else(|| runs.unknown(run))?;
    for (call, _) in answers {
        if !saved.pending().iter().any(|pending| pending.call == *call) {
            let problem = Problem::new(format!("no call `{call}` of the run `{run}` waits"));
            let waiting: Vec<String> =
                saved.pending().iter().map(|call| format!("`{}`", call.call)).collect();
            return Err(problem.hint(if waiting.is_empty() {
                "the run waits for no approval".to_owned()
            } else {
                format!("these calls wait: {}", waiting.join(", "))
            }));
        }
    }
    Ok(saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_never_raises_a_limit_of_a_file() {
        assert_eq!(least(Some(5), Some(3)), Some(3));
        assert_eq!(least(Some(2), Some(3)), Some(2));
        assert_eq!(least(None, Some(3)), Some(3));
        assert_eq!(least(Some(5), None), Some(5));
        assert_eq!(least::<u8>(None, None), None);
    }
}
