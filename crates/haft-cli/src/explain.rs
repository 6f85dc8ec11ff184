//! `haft explain`: shows whether a call is allowed, and why. Asks no approver and runs nothing.
//!
//! Out: every check in order, the deciding rule with its location, rules that nearly matched, what
//! the call would access, and the smallest change that flips the decision. A prompt prints it for
//! `?`.

use std::{process::ExitCode, sync::Arc};

use haft::{
    BoxFuture, FailureCode, Runtime, ToolCall, ToolRegistry,
    host::RunBuilder,
    policy::{
        Decision, Explanation, FileRules, Policy, PolicyFingerprint, PolicyRequest, RuleStore,
        Verdict,
    },
    tool::Scope,
};
use serde_json::{Value, json};

use crate::{
    args, arguments, builtin,
    error::Problem,
    explanation, session,
    setup::Setup,
    stub_tools::{self, StubTool},
    style::{self, BOLD, DIM, NAME},
};

pub(crate) fn run(args: &args::Explain, setup: &Setup) -> Result<ExitCode, Problem> {
    let tool = args.tool.clone().unwrap_or_default();
    let own = builtin::all(setup)?.build()?;
    let stub = stub_for(&tool, &own, setup)?;
    let is_stub = stub.is_some();
    let past = SimulatedReads::of(args);
    let name = match &stub {
        Some(stub) => stub.called.clone(),
        None => stub_tools::equivalent(&tool, &Value::Null)
            .map_or_else(|| tool.clone(), |(own, _)| own.to_owned()),
    };
    let bash = stub_tools::find("Bash").filter(|bash| !is_stub && bash.called == tool);
    let has_bash = bash.is_some();
    let stubs = stub.into_iter().chain(bash);
    let runtime = runtime(setup, setup.policy(), stubs, &past, args.unconfined)?;
    let is_parameter = |pair: &String| {
        stub_tools::BASH_PARAMETERS.iter().any(|parameter| pair.starts_with(parameter))
    };
    let entry = if has_bash && args.pairs.iter().any(is_parameter) { &tool } else { &name };
    let entry = builtin::find(runtime.registry(), entry);
    let arguments = arguments::read(&args.pairs, args.args_json.as_deref(), entry)?;
    let (name, given, is_stub) = match stub_tools::equivalent(&tool, &arguments) {
        Some((_, given)) if !is_stub => (name, given, false),
        None if has_bash => (tool.clone(), arguments.clone(), true),
        _ => (name, arguments.clone(), is_stub),
    };
    let call = ToolCall::new("call", name.as_str(), given);
    let here = setup.here().to_owned();
    let run = run_builder(&runtime, args, setup)?;
    let hidden = setup.policy();
    let (explanation, withheld) = session::block_on(async move {
        let run = run.start();
        if !past.calls().is_empty() {
            run.turn().await?.run(past.calls()).await;
        }
        let turn = run.turn().await?;
        let entry = turn.snapshot().entries().find(|e| *e.name() == name.as_str()).cloned();
        let withheld =
            entry.and_then(|entry| hidden.hides(&entry.policy_tool(), &Scope::default()));
        Ok::<_, haft::Error>((turn.explain(call).await, withheld))
    })??;
    let code = exit_code(args, &explanation.verdict.decision);
    if args.output.json {
        style::print(format_args!("{}\n", as_json(&tool, &arguments, &explanation, is_stub)))?;
        return Ok(code);
    }
    let mut out = format!(
        "{}({})\n",
        style::paint(NAME.bold(), style::visible(&tool)),
        style::arguments(&arguments)
    );
    if is_stub {
        let note = "haft has no such tool; a stub with the usual arguments is used";
        out += &format!("{}\n", style::paint(DIM, note));
    }
    out += &explanation::page(&explanation, &here);
    if let Some(why) = withheld {
        out += &format!(
            "\n{} {}\n",
            style::paint(BOLD, "This tool is hidden from the model:"),
            style::visible(&why)
        );
    }
    style::print_page(out)?;
    Ok(code)
}

/// Returns the stub for a tool that haft does not have; `None` for its own tools and their
/// equivalents.
fn stub_for(tool: &str, own: &ToolRegistry, setup: &Setup) -> Result<Option<StubTool>, Problem> {
    let equivalent = stub_tools::equivalent(tool, &Value::Null).map_or(tool, |(own, _)| own);
    if builtin::find(own, equivalent).is_some() {
        return Ok(None);
    }
    if let Some(stub) = stub_tools::find(tool) {
        return Ok(Some(stub));
    }
    let problem = Problem::new(format!("there is no tool called `{tool}`"));
    if let Some(hint) = builtin::missing_hint(tool, setup) {
        return Err(problem.hint(hint));
    }
    let names = own.own().map(|e| e.name().as_str()).chain(stub_tools::NAMES);
    let near = style::nearest(tool, names).map(str::to_owned);
    Err(problem.similar(near.as_deref()).hint(
        "`haft tools list` lists the tools; those of Claude Code (`Bash`, `Read`, `Edit`, …) and \
         `mcp__server__tool` can be explained too",
    ))
}

/// Makes a runtime with the tools of this directory, these stubs and the hooks. Hooks are listed
/// and not called.
pub(crate) fn runtime(
    setup: &Setup,
    policy: Arc<dyn Policy>,
    stubs: impl IntoIterator<Item = StubTool>,
    past: &SimulatedReads,
    is_unconfined: bool,
) -> Result<Runtime, Problem> {
    let mut registry = if is_unconfined {
        builtin::all_unconfined(setup)?
    } else {
        builtin::all_explained(setup)?
    };
    for stub in stubs {
        registry = stub.add(registry);
    }
    for tool in past.tools() {
        registry = registry.add(tool);
    }
    let runtime = setup
        .runtime(Runtime::builder())
        .policy(UnhiddenPolicy(policy))
        .registry(registry.build()?);
    Ok(setup.hooks()?.add_to(runtime).build()?)
}

/// Starts a run as the options describe it.
pub(crate) fn run_builder(
    runtime: &Runtime,
    args: &args::Explain,
    setup: &Setup,
) -> Result<RunBuilder, Problem> {
    let run = runtime.run_builder().one_shot().working_directory(match &args.cwd {
        Some(cwd) => std::path::absolute(cwd)?,
        None => setup.here().to_owned(),
    });
    let mut run = setup.identify(run);
    if let Some(agent) = &args.agent {
        run = run.agent(agent.as_str());
    }
    if let Some(text) = &args.user_text {
        run = run.user_text(text);
    }
    Ok(run)
}

/// The exit code of a decision with `--exit-code`: 0 allow, 2 deny, 6 ask.
pub(crate) fn exit_code(args: &args::Explain, decision: &Decision) -> ExitCode {
    if !args.exit_code {
        return ExitCode::SUCCESS;
    }
    ExitCode::from(match decision {
        Decision::Allow => 0,
        Decision::Deny => FailureCode::Denied.exit_code(),
        Decision::Ask | Decision::NeedInput(_) => 6,
    })
}

/// The explanation as one JSON object.
fn as_json(tool: &str, arguments: &Value, explanation: &Explanation, is_stub: bool) -> Value {
    let mut whole = json!({"tool": tool, "arguments": arguments});
    if is_stub {
        whole["stub"] = Value::Bool(true);
    }
    let rest = serde_json::to_value(explanation).unwrap_or_default();
    if let (Value::Object(whole), Value::Object(rest)) = (&mut whole, rest) {
        whole.extend(rest);
    }
    whole
}

/// The policy without hidden tools: a tool that is denied entirely is explained by its rule too.
pub(crate) struct UnhiddenPolicy(pub(crate) Arc<dyn Policy>);

impl Policy for UnhiddenPolicy {
    fn decide(&self, request: &PolicyRequest<'_>) -> Verdict {
        if SimulatedReads::is_own(request) {
            return Verdict::allow("it simulates what the run has read");
        }
        self.0.decide(request)
    }

    fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        self.0.explain(request)
    }

    fn rewrite(&self, request: &PolicyRequest<'_>) -> Option<Value> {
        if SimulatedReads::is_own(request) { None } else { self.0.rewrite(request) }
    }

    fn fingerprint(&self, request: &PolicyRequest<'_>) -> PolicyFingerprint {
        self.0.fingerprint(request)
    }

    fn file_rules(&self) -> Option<&dyn FileRules> {
        self.0.file_rules()
    }

    fn rule_store(&self) -> Option<&dyn RuleStore> {
        self.0.rule_store()
    }
}

/// What the run has read before, simulated by two tools (`--tainted`, `--secret`).
pub(crate) struct SimulatedReads {
    untrusted: Option<String>,
    secret: bool,
}

const UNTRUSTED: &str = "untrusted_text";
const SECRET: &str = "secret_text";

impl SimulatedReads {
    pub(crate) fn of(args: &args::Explain) -> Self {
        Self { untrusted: args.tainted.clone(), secret: args.secret }
    }

    fn is_own(request: &PolicyRequest<'_>) -> bool {
        [UNTRUSTED, SECRET].iter().any(|name| *request.tool.name == *name)
    }

    fn tools(&self) -> Vec<haft::tool::DynTool> {
        use haft::{
            taint::{Confidentiality, Label, Trust},
            tool::{Capabilities, DynTool, ToolSpec},
        };
        let tool = |name: &str, text: String, label: Label| {
            let spec = ToolSpec::new(name, "Simulates what the run has read.")
                .read_only()
                .capabilities(Capabilities::NONE)
                .label(label);
            let body = move |_, _| -> BoxFuture<'static, Result<String, haft::Failure>> {
                let text = text.clone();
                Box::pin(async move { Ok(text) })
            };
            DynTool::new(spec, json!({"type": "object"}), body)
        };
        let untrusted = Label { trust: Trust::Untrusted, confidentiality: Confidentiality::Public };
        let secret = Label { trust: Trust::Trusted, confidentiality: Confidentiality::Secret };
        let mut tools = Vec::new();
        tools.extend(self.untrusted.as_ref().map(|text| tool(UNTRUSTED, text.clone(), untrusted)));
        tools.extend(self.secret.then(|| tool(SECRET, String::new(), secret)));
        tools
    }

    pub(crate) fn calls(&self) -> Vec<ToolCall> {
        let call = |name: &str| ToolCall::new(name, name, json!({}));
        let mut calls = Vec::new();
        calls.extend(self.untrusted.is_some().then(|| call(UNTRUSTED)));
        calls.extend(self.secret.then(|| call(SECRET)));
        calls
    }
}
