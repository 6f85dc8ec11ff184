//! `haft explain`: shows whether a call is allowed, and why. Asks no approver and runs nothing.
//!
//! Out: every check in order, the deciding rule with its location, rules that nearly matched, what the
//! call would access, and the smallest change that flips the decision. A prompt prints it for `?`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use anstyle::Style;
use haft::{
    BoxFuture, Runtime, ToolCall,
    approval::SuggestedRules,
    host::{DeniedPaths, DeniedPathsUnknown},
    policy::{Explanation, Policy, SourceLocation, Verdict},
    tool::Scope,
    turn::ValidatedCall,
};
use serde_json::{Value, json};

use crate::{
    args, builtin, call,
    error::Problem,
    session,
    setup::Setup,
    stub_tools,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, WARN},
    tools,
};

pub(crate) fn run(args: &args::Explain, setup: &Setup) -> Result<ExitCode, Problem> {
    let every = || builtin::all(setup, &args.place);
    let mut registry = every()?;
    let own = every()?.build()?;
    let mut name = args.tool.clone();
    let is_stub = tools::find(&own, &args.tool).is_none();
    if is_stub {
        let Some(stub) = stub_tools::find(&args.tool) else {
            if let Some(hint) = builtin::missing_hint(&args.tool, &args.place, setup) {
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
    let entry = tools::find(runtime.registry(), &name);
    let arguments = call::arguments(&args.pairs, args.args_json.as_deref(), entry)?;
    let call = ToolCall::new("call", name.as_str(), arguments.clone());
    let mut run = runtime.run_builder().one_shot().working_directory(match &args.cwd {
        Some(cwd) => std::path::absolute(cwd)?,
        None => here.clone(),
    });
    if let Some(agent) = &args.agent {
        run = run.agent(agent.as_str());
    }
    if let Some(said) = &args.user_said {
        run = run.user_said(said);
    }
    let (explanation, withheld) = session::block_on(async move {
        let run = run.start();
        if !past.calls().is_empty() {
            run.turn().await?.run(past.calls()).await;
        }
        let turn = run.turn().await?;
        let entry = turn.snapshot().entries().find(|e| *e.name() == name.as_str()).cloned();
        let withheld = entry.and_then(|entry| hidden.hides(&entry, &Scope::default()));
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
    out += &page(&explanation, &here);
    if let Some(why) = withheld {
        out += &format!(
            "\n{} {}\n",
            style::paint(BOLD, "This tool is hidden from the model:"),
            style::visible(&why)
        );
    }
    style::print(out)?;
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

/// The text of an explanation, as records have it, with marks and colours, and with relative paths.
pub(crate) fn page(explanation: &Explanation, here: &Path) -> String {
    let mut out = String::new();
    let here = format!("{}/", here.display());
    let text = sanitized(explanation).to_string().replace(&here, "");
    let mut checks = explanation.checks.iter();
    for (at, line) in text.lines().enumerate() {
        if at > 0 && line.starts_with(CHECK) {
            let said = checks.next().map_or("", |check| &check.said);
            let (colour, mark) = mark(said);
            out += &format!("{}{}\n", style::paint(colour, mark), &line[1..]);
        } else if at == 0 {
            let colour = style::decision(&explanation.verdict.decision).bold();
            out += &format!("{}\n", style::paint(colour, line));
        } else {
            out += &format!("{line}\n");
        }
    }
    out
}

/// The prefix of a check's line.
const CHECK: &str = "  check ";

/// Sanitizes every text to one line: text of a call or a file must not forge a line of the explanation.
fn sanitized(explanation: &Explanation) -> Explanation {
    let mut clean = explanation.clone();
    let verdict = &explanation.verdict;
    clean.verdict = Verdict::new(verdict.decision.clone(), one_line(&verdict.reason))
        .by(one_line(&verdict.source));
    let texts = clean.risk.iter_mut().chain(&mut clean.tainted_by).chain(&mut clean.flip);
    texts.for_each(|text| *text = one_line(text));
    for check in &mut clean.checks {
        for text in [&mut check.what, &mut check.said, &mut check.why] {
            *text = one_line(text);
        }
    }
    for near in &mut clean.near {
        near.rule.pattern = one_line(&near.rule.pattern);
        near.missing = one_line(&near.missing);
    }
    clean
}

/// Sanitized text on one line.
pub(crate) fn one_line(text: &str) -> String {
    style::visible(text).replace('\n', " ")
}

/// A mark and colour for the result of a check.
fn mark(said: &str) -> (Style, &'static str) {
    match said {
        "passed" | "allow" => (GOOD, "✓"),
        "ask" | "need_input" => (WARN, "?"),
        "no match" | "no opinion" | "no concern" | "not called" | "not covered" => (DIM, "·"),
        _ => (BAD, "✗"),
    }
}

/// The location of a rule, relative to a directory.
pub(crate) fn at(place: &SourceLocation, here: &Path) -> String {
    match &place.file {
        Some(file) => format!("{}:{}", short(file, here), place.line),
        None => place.to_string(),
    }
}

/// A path, relative to a directory.
pub(crate) fn short(path: &Path, here: &Path) -> String {
    let shown = match path.strip_prefix(here) {
        Ok(below) if below != Path::new("") => below,
        _ => path,
    };
    style::visible(&shown.display().to_string()).replace('\n', "<U+000A>")
}

/// The policy without hidden tools: a tool that is denied entirely is explained by its rule too.
struct UnhiddenPolicy(Arc<dyn Policy>);

impl Policy for UnhiddenPolicy {
    fn judge(&self, call: &ValidatedCall) -> Verdict {
        if SimulatedReads::is_own(call) {
            return Verdict::allow("it simulates what the run has read");
        }
        self.0.judge(call)
    }

    fn asks_about_protected(&self) -> bool {
        self.0.asks_about_protected()
    }

    fn rewrite(&self, call: &ValidatedCall) -> Option<Value> {
        if SimulatedReads::is_own(call) { None } else { self.0.rewrite(call) }
    }

    fn rewrites(&self) -> bool {
        self.0.rewrites()
    }

    fn revision(&self) -> u64 {
        self.0.revision()
    }

    fn state_fingerprint(&self, call: &ValidatedCall) -> String {
        self.0.state_fingerprint(call)
    }

    fn denied_paths(
        &self,
        roots: &[PathBuf],
        scope: &Arc<Scope>,
        now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        self.0.denied_paths(roots, scope, now)
    }

    fn explain(&self, call: &ValidatedCall) -> Explanation {
        self.0.explain(call)
    }

    fn offer(&self, call: &ValidatedCall) -> Option<SuggestedRules> {
        self.0.offer(call)
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

    fn is_own(call: &ValidatedCall) -> bool {
        [UNTRUSTED, SECRET].iter().any(|name| *call.tool().name() == *name)
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
