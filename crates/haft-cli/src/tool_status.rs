//! What happens to calls of a tool here: the verdict of the present rules, trust and sandbox, where
//! the body runs, and the limits in force.
//!
//! The verdict is that of an example call, through the same function as a real call. Other
//! arguments can get another verdict; `haft explain` shows it.

use std::{sync::Arc, time::Duration};

use anstyle::Style;
use haft::{
    BoxFuture, Failure, Runtime, ToolCall, ToolRegistry,
    policy::{Decision, Rules, Verdict},
    registry::{RegisteredTool, ToolRegistryBuilder},
    schema::Schema,
    tool::{DynTool, Effect, Isolation, Manifest, ResultLimit, Scope},
};
use haft_sandbox::{Helper, Sandbox};
use serde_json::{Value, json};

use crate::{
    builtin,
    error::Problem,
    explain::UnhiddenPolicy,
    mcp_servers, schema, session,
    setup::Setup,
    style::{BAD, GOOD, WARN},
};

/// What happens to a call by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultVerdict {
    /// It runs without a question.
    Runs,
    /// Some calls run, others ask: the tool classifies each call.
    RunsOrAsks,
    /// Rules decide by the arguments.
    Depends,
    /// A person is asked; without one it is denied.
    Asks,
    /// It is denied.
    Denied,
    /// It is denied, and the model does not see the tool.
    Hidden,
}

impl DefaultVerdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::RunsOrAsks => "runs or asks",
            Self::Depends => "depends on the arguments",
            Self::Asks => "asks",
            Self::Denied => "denied",
            Self::Hidden => "hidden",
        }
    }

    /// The same as a sentence.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Runs => "runs without a question",
            Self::RunsOrAsks => "runs without a question, or asks: it depends on the arguments",
            Self::Depends => "depends on the arguments: rules decide about some calls",
            Self::Asks => "asks for approval; without an approver it is denied",
            Self::Denied => "is denied",
            Self::Hidden => "is denied, and the tool is hidden from the model",
        }
    }

    pub(crate) fn colour(self) -> Style {
        match self {
            Self::Runs => GOOD,
            Self::RunsOrAsks | Self::Depends | Self::Asks => WARN,
            Self::Denied | Self::Hidden => BAD,
        }
    }
}

/// The default verdict of one tool, and why.
#[derive(Debug, Clone)]
pub(crate) struct ToolStatus {
    pub(crate) verdict: DefaultVerdict,
    pub(crate) why: String,
    /// The rule, guard or default that decided.
    pub(crate) source: String,
    /// The arguments of the example call; `None` for a hidden tool.
    pub(crate) example: Option<Value>,
    /// The rules that decide about calls with other arguments.
    pub(crate) rules: Vec<String>,
}

impl ToolStatus {
    fn new(entry: &RegisteredTool, verdict: Verdict, example: Value) -> Self {
        let is_classified = entry.spec().per_call.contains(&"read_only");
        let decided = match verdict.decision {
            Decision::Allow if is_classified => DefaultVerdict::RunsOrAsks,
            Decision::Allow => DefaultVerdict::Runs,
            Decision::Ask | Decision::NeedInput(_) => DefaultVerdict::Asks,
            Decision::Deny => DefaultVerdict::Denied,
        };
        let (why, source) = (verdict.reason.to_string(), verdict.source.to_string());
        Self { verdict: decided, why, source, example: Some(example), rules: Vec::new() }
    }

    /// Adds the rules that give another verdict to calls with other arguments.
    fn add_rules(&mut self, decision: &Decision, entry: &RegisteredTool, rules: &Rules) {
        for (rule, pattern) in rules.rules_on_arguments_of(&entry.policy_tool()) {
            let line = format!("{} {} \"{pattern}\"", rule.location, rule.decision.as_str());
            let is_source = line == self.source && rule.decision != Decision::Allow;
            if rule.decision != *decision || is_source {
                self.rules.push(line);
            }
        }
        if !self.rules.is_empty() {
            self.verdict = DefaultVerdict::Depends;
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "decision": self.verdict.as_str().replace(' ', "_"),
            "reason": self.why,
            "source": self.source,
            "example": self.example,
            "rules": self.rules,
        })
    }
}

/// A tool and its status.
pub(crate) type Judged = (Arc<RegisteredTool>, ToolStatus);

/// Returns a runtime with all tools, those of MCP servers included, and the status of each: own
/// tools first. Notes which servers have no tools yet.
pub(crate) fn of_all(setup: &Setup) -> Result<(Runtime, Vec<Judged>), Problem> {
    let build = |registry: ToolRegistryBuilder| {
        let runtime = setup.runtime(Runtime::builder()).policy(UnhiddenPolicy(setup.policy()));
        runtime.registry(registry.build()?).build()
    };
    let servers = mcp_servers::servers(setup, Some(mcp_servers::PATIENCE))?;
    let with_servers = servers.iter().fold(builtin::all(setup)?, |all, s| all.source(s.clone()));
    let runtime = build(with_servers)?;
    let mut entries: Vec<Arc<RegisteredTool>> = runtime.registry().own().cloned().collect();
    let stubs = entries.iter().fold(ToolRegistry::builder(), |all, entry| all.add(stub_of(entry)));
    let (run, stub_run) = (setup.run(&runtime).start(), setup.run(&build(stubs)?).start());
    let (rules, budget) = (setup.rules(), setup.loaded.budget.clone());
    let (policy, here) = (setup.policy(), format!("{}/", setup.here().display()));
    let (judged, problems) = session::block_on(async move {
        let (turn, stub_turn) = (run.turn().await?, stub_run.turn().await?);
        let remote = turn.snapshot().entries().filter(|tool| tool.policy_tool().remote.is_some());
        entries.extend(remote.cloned());
        let mut all = Vec::new();
        for entry in &entries {
            if let Some(why) = policy.hides(&entry.policy_tool(), &Scope::default()) {
                let source = "a rule for the whole tool".to_owned();
                all.push(ToolStatus {
                    verdict: DefaultVerdict::Hidden,
                    why,
                    source,
                    example: None,
                    rules: Vec::new(),
                });
                continue;
            }
            let example = example_of(entry);
            if entry.spec().requires_user_interaction {
                let why = "it asks a person at the terminal".to_owned();
                let (verdict, source) = (DefaultVerdict::Asks, "the tool itself".to_owned());
                let rules = Vec::new();
                all.push(ToolStatus { verdict, why, source, example: Some(example), rules });
                continue;
            }
            if budget.max_calls_of(entry.name().as_str()) == Some(0) {
                let why = "the budget allows no call of it".to_owned();
                let (verdict, source) = (DefaultVerdict::Denied, "[budget]".to_owned());
                let rules = Vec::new();
                all.push(ToolStatus { verdict, why, source, example: Some(example), rules });
                continue;
            }
            let call = || ToolCall::new("call", entry.name().as_str(), example.clone());
            let mut explained = turn.explain(call()).await;
            // The files of an example do not exist, and the tool's own check says so.
            if explained.checks.last().is_some_and(|check| check.check == "check") {
                explained = stub_turn.explain(call()).await;
            }
            let decision = explained.verdict.decision.clone();
            let mut status = ToolStatus::new(entry, explained.verdict, example);
            status.add_rules(&decision, entry, &rules);
            status.source = status.source.replace(&here, "");
            for rule in &mut status.rules {
                *rule = rule.replace(&here, "");
            }
            all.push(status);
        }
        let problems = turn.snapshot().problems().to_vec();
        mcp_servers::shut_down(servers).await;
        Ok::<_, haft::Error>((entries.into_iter().zip(all).collect(), problems))
    })??;
    problems.into_iter().for_each(|problem| setup.note(problem));
    Ok((runtime, judged))
}

/// Returns every tool, those of MCP servers included: own tools first. Notes which servers have no
/// tools yet.
pub(crate) fn all_tools(setup: &Setup) -> Result<Vec<Arc<RegisteredTool>>, Problem> {
    let servers = mcp_servers::servers(setup, Some(mcp_servers::PATIENCE))?;
    let registry = servers.iter().fold(builtin::all(setup)?, |all, s| all.source(s.clone()));
    let registry = registry.build()?;
    let mut tools: Vec<Arc<RegisteredTool>> = registry.own().cloned().collect();
    if servers.is_empty() {
        return Ok(tools);
    }
    let run = Runtime::builder().registry(registry).build()?.run();
    let (remote, problems) = session::block_on(async move {
        let turn = run.turn().await?;
        let remote = turn.snapshot().entries().filter(|tool| tool.policy_tool().remote.is_some());
        let remote: Vec<Arc<RegisteredTool>> = remote.cloned().collect();
        let problems = turn.snapshot().problems().to_vec();
        mcp_servers::shut_down(servers).await;
        Ok::<_, haft::Error>((remote, problems))
    })??;
    problems.into_iter().for_each(|problem| setup.note(problem));
    tools.extend(remote);
    Ok(tools)
}

/// A tool with the same declaration and without a check. Its calls write the files that they name.
fn stub_of(entry: &RegisteredTool) -> DynTool {
    let is_read_only = entry.spec().is_read_only();
    let paths: Vec<String> = schema::parameters(entry.input_schema())
        .iter()
        .filter(|p| ["path", "from", "to"].contains(&p.name) || p.name.ends_with("_path"))
        .map(|p| p.name.to_owned())
        .collect();
    let body = |_, _| -> BoxFuture<'static, Result<String, Failure>> {
        Box::pin(async { Err(Failure::failed("a stub is never run")) })
    };
    let mut spec = entry.spec().clone();
    spec.isolation = Isolation::Auto; // there is no process
    DynTool::new(spec, entry.input_schema().clone(), body)
        .with_profile(move |mut profile, arguments, cx| {
            let here = &cx.scope().working_directory;
            let path_of = |name: &String| Some(here.join(arguments.get(name)?.as_str()?));
            let path_of = |name| path_of(name).map(|path| path.display().to_string());
            if !is_read_only && !paths.is_empty() {
                let effects: Vec<Effect> =
                    paths.iter().filter_map(path_of).map(Effect::write).collect();
                profile.effects = effects.into();
            }
            profile
        })
        .within(entry.roots().to_vec())
}

/// The arguments of a typical call: an example of the tool, else a minimal valid value.
fn example_of(entry: &RegisteredTool) -> Value {
    if let Some(example) = entry.spec().examples.first() {
        return example.clone();
    }
    let generated = Schema::compile(entry.input_schema()).ok().and_then(|schema| schema.example());
    let mut example = generated.unwrap_or_else(|| json!({}));
    for parameter in schema::parameters(entry.input_schema()) {
        if let Some(value) = example.get_mut(parameter.name).filter(|_| parameter.is_url()) {
            *value = json!("https://example.org/");
        }
    }
    example
}

/// Where the body of a tool runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyPlace {
    /// In this process.
    Process,
    /// In the sandbox of this tier.
    Sandbox(String),
    /// Nowhere: it needs a sandbox that this machine does not have.
    Refused(String),
}

impl BodyPlace {
    /// Detects the sandbox, if the tool needs one.
    pub(crate) fn of(manifest: &Manifest) -> Result<Self, Problem> {
        if manifest.isolation != Isolation::Required {
            return Ok(Self::Process);
        }
        Ok(match session::block_on(Sandbox::detect(Helper::ThisProgram))? {
            Ok(sandbox) => Self::Sandbox(sandbox.tier().level.to_string()),
            Err(error) => Self::Refused(error.to_string()),
        })
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Process => "in the process of haft".to_owned(),
            Self::Sandbox(tier) => format!("in the sandbox, tier {tier}"),
            Self::Refused(why) => format!("nowhere, calls are refused: {why}"),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Process => json!({"location": "process"}),
            Self::Sandbox(tier) => json!({"location": "sandbox", "tier": tier}),
            Self::Refused(why) => json!({"location": "refused", "reason": why}),
        }
    }
}

/// The limits of one call: those of the tool, else those of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
    pub(crate) deadline: Duration,
    pub(crate) approval_timeout: Duration,
    /// Characters that the model gets; `None` without a limit of the tool.
    pub(crate) result_chars: Option<usize>,
    /// The largest result that is processed.
    pub(crate) result_bytes: usize,
}

impl Limits {
    pub(crate) fn of(entry: &RegisteredTool, setup: &Setup) -> Self {
        let (spec, config) = (entry.spec(), setup.config());
        Self {
            timeout: spec.timeout.unwrap_or(config.timeout),
            deadline: spec.deadline.unwrap_or(config.deadline),
            approval_timeout: spec.approval_timeout.unwrap_or(config.approval_timeout),
            result_chars: match spec.max_result {
                ResultLimit::Chars(chars) => Some(chars),
                ResultLimit::Unbounded => None,
            },
            result_bytes: config.max_result,
        }
    }

    pub(crate) fn to_json(self) -> Value {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        json!({
            "timeout_ms": ms(self.timeout),
            "deadline_ms": ms(self.deadline),
            "approval_timeout_ms": ms(self.approval_timeout),
            "max_result_chars": self.result_chars,
            "max_result_bytes": self.result_bytes,
        })
    }
}
