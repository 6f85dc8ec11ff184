//! `haft explain`: what would become of a call, and why. Nobody is asked and nothing is run.
//!
//! Every check in order, the rule that decided with its place, what nearly did, what the call would
//! touch, and the smallest change that would flip it. A prompt shows the same page for `?`.

use std::{path::Path, process::ExitCode, sync::Arc};

use anstyle::Style;
use haft::{
    Admitted, BoxFuture, Call, Explanation, Offer, Policy, RulePlace, Runtime, Scope, Verdict,
};
use serde_json::{Value, json};

use crate::{
    args, call, desk, kit,
    problem::Problem,
    setup::Setup,
    standin,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table, WARN},
    tools,
};

pub(crate) fn run(args: &args::Explain, setup: Setup) -> Result<ExitCode, Problem> {
    let mut catalog = kit::builder(std::time::Duration::ZERO);
    let own = kit::catalog(std::time::Duration::ZERO)?;
    let mut name = args.tool.clone();
    let is_standin = tools::find(&own, &args.tool).is_none();
    if is_standin {
        let Some(standin) = standin::find(&args.tool) else {
            let names = own.own().map(|e| e.name().as_str()).chain(standin::NAMES);
            let near = style::nearest(&args.tool, names).map(str::to_owned);
            return Err(Problem::new(format!("there is no tool called `{}`", args.tool))
                .near(near.as_deref())
                .hint("`haft tools list` lists them; `Bash`, `Read`, `Edit`, `Write`, `Glob`, `Grep`, `WebFetch` and `mcp__server__tool` can be explained too"));
        };
        name = standin.called.clone();
        catalog = standin.add(catalog);
    }
    let past = Past::of(args);
    for tool in past.tools() {
        catalog = catalog.add(tool);
    }
    let (policy, here) = (setup.policy(), setup.here().to_owned());
    let hidden = Arc::clone(&policy);
    let runtime = setup.runtime(Runtime::builder(), Shown(policy)).catalog(catalog.build()?).build()?;
    let entry = tools::find(runtime.catalog(), &name);
    let arguments = call::arguments(&args.pairs, args.args_json.as_deref(), entry)?;
    let call = Call::new("call", name.as_str(), arguments.clone());
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
    let (explanation, withheld) = desk::work(async move {
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
        style::say(format_args!("{}\n", as_json(&args.tool, &arguments, &explanation, is_standin)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = format!(
        "{}({})\n",
        style::paint(NAME.bold(), style::visible(&args.tool)),
        style::arguments(&arguments)
    );
    if is_standin {
        let note = "this command has no such tool; a stand-in with the usual arguments is judged";
        out += &format!("{}\n", style::paint(DIM, note));
    }
    out += &page(&explanation, &here);
    if let Some(why) = withheld {
        out += &format!("\n{} {}\n", style::paint(BOLD, "The model is not even shown this tool:"), style::visible(&why));
    }
    style::say(out)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything, as one object.
fn as_json(tool: &str, arguments: &Value, explanation: &Explanation, is_standin: bool) -> Value {
    let mut whole = json!({"tool": tool, "arguments": arguments});
    if is_standin {
        whole["stand_in"] = Value::Bool(true);
    }
    let rest = serde_json::to_value(explanation).unwrap_or_default();
    if let (Value::Object(whole), Value::Object(rest)) = (&mut whole, rest) {
        whole.extend(rest);
    }
    whole
}

/// What came out and why, to be read.
pub(crate) fn page(explanation: &Explanation, here: &Path) -> String {
    let verdict = &explanation.verdict;
    let mut out = style::paint(style::decision(&verdict.decision).bold(), verdict.decision.as_str());
    out += &format!("  {}", style::visible(&verdict.reason));
    if !verdict.source.is_empty() {
        out += &style::paint(DIM, format_args!("  ({})", style::visible(&verdict.source)));
    }
    out.push('\n');
    if let Some(rule) = &explanation.deciding {
        out += &format!(
            "decided by {}  {} \"{}\"{}\n",
            style::paint(NAME, at(&rule.place, here)),
            rule.decision,
            style::visible(&rule.pattern),
            rule.id.as_ref().map_or_else(String::new, |id| format!("  `{}`", style::visible(id))),
        );
    }
    if !explanation.checks.is_empty() {
        out += &format!("\n{}\n", style::paint(BOLD, "Checks"));
        let mut table = Table::new(2);
        for check in &explanation.checks {
            let (colour, mark) = mark(&check.said);
            table.row([
                (colour, mark.to_owned()),
                (Style::new(), style::cell(&check.what)),
                (colour, style::cell(&check.said)),
                (DIM, check.place.as_ref().map_or_else(String::new, |place| at(place, here))),
                (Style::new(), one_line(&check.why)),
            ]);
        }
        out += &table.to_string();
    }
    let mut section = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            out += &format!("\n{}\n", style::paint(BOLD, title));
            lines.iter().for_each(|line| out += &format!("  {}\n", one_line(line)));
        }
    };
    section("Would touch", &explanation.risk);
    section("The run has read untrusted text", &explanation.tainted_by);
    if !explanation.near.is_empty() {
        out += &format!("\n{}\n", style::paint(BOLD, "Near misses"));
        let mut table = Table::new(2);
        for near in &explanation.near {
            table.row([
                (NAME, at(&near.rule.place, here)),
                (Style::new(), format!("{} \"{}\"", near.rule.decision, style::visible(&near.rule.pattern))),
                (DIM, one_line(&near.missing)),
            ]);
        }
        out += &table.to_string();
    }
    if let Some(flip) = &explanation.flip {
        out += &format!("\n{}\n  {}\n", style::paint(BOLD, "The smallest change that flips it"), one_line(flip));
    }
    out
}

fn one_line(text: &str) -> String {
    style::visible(text).replace('\n', " ")
}

/// A sign for what a check said, so that colours are not needed.
fn mark(said: &str) -> (Style, &'static str) {
    match said {
        "passed" | "allow" => (GOOD, "✓"),
        "ask" | "need_input" => (WARN, "?"),
        "no match" | "no opinion" | "no concern" | "not called" => (DIM, "·"),
        _ => (BAD, "✗"),
    }
}

/// A place of a rule, seen from a folder.
pub(crate) fn at(place: &RulePlace, here: &Path) -> String {
    match &place.file {
        Some(file) => format!("{}:{}", short(file, here), place.line),
        None => place.to_string(),
    }
}

/// A path, seen from a folder.
pub(crate) fn short(path: &Path, here: &Path) -> String {
    let shown = match path.strip_prefix(here) {
        Ok(below) if below != Path::new("") => below,
        _ => path,
    };
    style::visible(&shown.display().to_string()).replace('\n', "\\u{a}")
}

/// The policy, with nothing hidden: what is denied as a whole is explained by its rule as well.
struct Shown(Arc<dyn Policy>);

impl Policy for Shown {
    fn judge(&self, call: &Admitted) -> Verdict {
        if Past::is_own(call) {
            return Verdict::allow("it stands for what the run has read");
        }
        self.0.judge(call)
    }

    fn rewrite(&self, call: &Admitted) -> Option<Value> {
        if Past::is_own(call) { None } else { self.0.rewrite(call) }
    }

    fn rewrites(&self) -> bool {
        self.0.rewrites()
    }

    fn revision(&self) -> u64 {
        self.0.revision()
    }

    fn world(&self, call: &Admitted) -> String {
        self.0.world(call)
    }

    fn explain(&self, call: &Admitted) -> Explanation {
        self.0.explain(call)
    }

    fn offer(&self, call: &Admitted) -> Option<Offer> {
        self.0.offer(call)
    }
}

/// What the run is said to have read before.
struct Past {
    untrusted: Option<String>,
    secret: bool,
}

const UNTRUSTED: &str = "untrusted_text";
const SECRET: &str = "secret_text";

impl Past {
    fn of(args: &args::Explain) -> Self {
        Self { untrusted: args.tainted.clone(), secret: args.secret }
    }

    fn is_own(call: &Admitted) -> bool {
        [UNTRUSTED, SECRET].iter().any(|name| *call.tool().name() == *name)
    }

    fn tools(&self) -> Vec<haft::DynTool> {
        use haft::{Capabilities, Confidentiality, DynTool, Label, Spec, Trust};
        let tool = |name: &str, text: String, label: Label| {
            let spec = Spec::new(name, "Stands for what the run has read.")
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

    fn calls(&self) -> Vec<Call> {
        let call = |name: &str| Call::new(name, name, json!({}));
        let mut calls = Vec::new();
        calls.extend(self.untrusted.is_some().then(|| call(UNTRUSTED)));
        calls.extend(self.secret.then(|| call(SECRET)));
        calls
    }
}
