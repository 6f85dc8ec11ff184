//! `haft explain`: shows whether a call is allowed, and why. Asks no approver and runs nothing.
//!
//! Out: every check in order, the deciding rule with its location, rules that nearly matched, what
//! the call would access, and the smallest change that flips the decision. A prompt prints it for
//! `?`.

use std::{process::ExitCode, sync::Arc};

use haft::{
    BoxFuture, Runtime, ToolCall,
    policy::{
        Explanation, FileRules, Policy, PolicyFingerprint, PolicyRequest, RuleStore, Verdict,
    },
    tool::Scope,
};
use serde_json::{Value, json};

use crate::{
    args, arguments, builtin,
    error::Problem,
    explanation, session,
    setup::Setup,
    stub_tools,
    style::{self, BOLD, DIM, NAME},
};

pub(crate) fn run(args: &args::Explain, setup: &Setup) -> Result<ExitCode, Problem> {
    let every = || builtin::all(setup);
    let mut registry = every()?;
    let own = every()?.build()?;
    let mut name = args.tool.clone();
    let is_stub = builtin::find(&own, &args.tool).is_none();
    if is_stub {
        let Some(stub) = stub_tools::find(&args.tool) else {
            if let Some(hint) = builtin::missing_hint(&args.tool, setup) {
                let problem = Problem::new(format!("there is no tool called `{}`", args.tool));
                return Err(problem.hint(hint));
            }
            let names = own.own().map(|e| e.name().as_str()).chain(stub_tools::NAMES);
            let near = style::nearest(&args.tool, names).map(str::to_owned);
            return Err(Problem::new(format!("there is no tool called `{}`", args.tool))
                .similar(near.as_deref())
                .hint("`haft tools list` lists the tools; `Bash`, `Read`, `Edit`, `Write`, `Glob`, `Grep`, `WebFetch` and `mcp__server__tool` can be explained too"));
        };
        name = stub.called.clone();
        registry = stub.add(registry);
    }
    let past = SimulatedReads::of(args);
    for tool in past.tools() {
        registry = registry.add(tool);
    }
    let (policy, here) = (setup.policy(), setup.here().to_owned());
    let hidden = Arc::clone(&policy);
    let runtime = setup
        .runtime(Runtime::builder())
        .policy(UnhiddenPolicy(policy))
        .registry(registry.build()?)
        .build()?;
    let entry = builtin::find(runtime.registry(), &name);
    let arguments = arguments::read(&args.pairs, args.args_json.as_deref(), entry)?;
    let call = ToolCall::new("call", name.as_str(), arguments.clone());
    let mut run = runtime.run_builder().one_shot().working_directory(match &args.cwd {
        Some(cwd) => std::path::absolute(cwd)?,
        None => here.clone(),
    });
    if let Some(agent) = &args.agent {
        run = run.agent(agent.as_str());
    }
    if let Some(text) = &args.user_text {
        run = run.user_text(text);
    }
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
    if args.output.json {
        style::print(format_args!("{}\n", as_json(&args.tool, &arguments, &explanation, is_stub)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = format!(
        "{}({})\n",
        style::paint(NAME.bold(), style::visible(&args.tool)),
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
    Ok(ExitCode::SUCCESS)
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
struct SimulatedReads {
    untrusted: Option<String>,
    secret: bool,
}

const UNTRUSTED: &str = "untrusted_text";
const SECRET: &str = "secret_text";

impl SimulatedReads {
    fn of(args: &args::Explain) -> Self {
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

    fn calls(&self) -> Vec<ToolCall> {
        let call = |name: &str| ToolCall::new(name, name, json!({}));
        let mut calls = Vec::new();
        calls.extend(self.untrusted.is_some().then(|| call(UNTRUSTED)));
        calls.extend(self.secret.then(|| call(SECRET)));
        calls
    }
}
