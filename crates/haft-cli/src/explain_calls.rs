//! `haft explain --calls`: explains many calls, one JSON object per line, and runs nothing.
//!
//! In: lines such as `{"tool": "Bash", "arguments": {"command": "ls"}}`; the names that hooks and
//! transcripts use (`tool_name`, `tool_input`, `name`, `input`) are accepted too. Out: one line per
//! call, in order, with the decision and the rule. A line that is no call has an `error`.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use haft::{
    ToolCall, Turn,
    policy::{Decision, Explanation, Policy},
    tool::Scope,
};
use serde_json::{Value, json};

use crate::{
    args,
    batch_policy::BatchPolicy,
    builtin,
    error::Problem,
    explain::{self, SimulatedReads},
    input::{Line, Lines},
    session,
    setup::Setup,
    stub_tools::{self, StubTool},
    style,
};

/// One line of the input: the tool as written, and the call, or why it is none.
struct CallLine {
    /// Its number in the input, counted from one.
    at: usize,
    tool: String,
    call: Result<(String, Value), String>,
}

pub(crate) fn run(args: &args::Explain, calls: &Path, setup: &Setup) -> Result<ExitCode, Problem> {
    let own = builtin::all(setup)?.build()?;
    let mut stubs: BTreeMap<String, StubTool> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in Lines::open(calls)? {
        let mut line = CallLine::parse(line?);
        if let Ok((name, arguments)) = &mut line.call {
            let equivalent = stub_tools::equivalent(name, arguments);
            if let Some((own_name, given)) = equivalent
                && builtin::find(&own, own_name).is_some()
            {
                (*name, *arguments) = (own_name.to_owned(), given);
            } else if builtin::find(&own, name).is_none() {
                match stub_tools::find(name) {
                    Some(stub) => {
                        name.clone_from(&stub.called);
                        stubs.insert(stub.called.clone(), stub);
                    }
                    None => line.call = Err(format!("there is no tool called `{name}`")),
                }
            }
        }
        lines.push(line);
    }
    let past = SimulatedReads::of(args);
    let policy: Arc<dyn Policy> = Arc::new(BatchPolicy::of(&setup.rules()));
    let stubs = stubs.into_values();
    let runtime = explain::runtime(setup, Arc::clone(&policy), stubs, &past, args.unconfined)?;
    let run = explain::run_builder(&runtime, args, setup)?;
    let here = format!("{}/", setup.here().display());
    let (strictest, out) = session::block_on(async move {
        let run = run.start();
        if !past.calls().is_empty() {
            run.turn().await?.run(past.calls()).await;
        }
        let turn = run.turn().await?;
        let hidden = hidden_tools(&turn, &policy);
        let explainer = Arc::new(Explainer { turn, hidden, here });
        // The calls do not depend on each other, and the lines keep their order.
        let mut tasks = Vec::new();
        let mut lines = lines.into_iter().peekable();
        while lines.peek().is_some() {
            let chunk: Vec<CallLine> = lines.by_ref().take(CHUNK_LINES).collect();
            let explainer = Arc::clone(&explainer);
            #[expect(clippy::disallowed_methods, reason = "every task is awaited below")]
            let task = tokio::spawn(async move { explainer.explain(chunk).await });
            tasks.push(task);
        }
        let mut out = String::new();
        let mut strictest = Decision::Allow;
        for task in tasks {
            let Ok((decision, text)) = task.await else { return Ok(Err(crashed())) };
            strictest = strictest.max(decision);
            out += &text;
        }
        Ok::<_, haft::Error>(Ok((strictest, out)))
    })???;
    style::print(out)?;
    Ok(explain::exit_code(args, &strictest))
}

/// How many calls are explained by one task.
const CHUNK_LINES: usize = 128;

fn crashed() -> Problem {
    Problem::new("internal error; please report this bug")
}

/// What all calls share.
struct Explainer {
    turn: Turn,
    /// The tools that a rule denies as a whole.
    hidden: HashSet<String>,
    /// The working directory, as a prefix of paths.
    here: String,
}

impl Explainer {
    /// Explains some lines. Returns the strictest decision, and a line for each.
    async fn explain(&self, lines: Vec<CallLine>) -> (Decision, String) {
        let (mut strictest, mut out) = (Decision::Allow, String::new());
        for line in lines {
            let written = match line.call {
                Ok((name, arguments)) => {
                    let is_hidden = self.hidden.contains(&name);
                    let call = ToolCall::new("call", name, arguments);
                    let mut explanation = self.turn.explain(call).await;
                    if is_hidden {
                        explanation.verdict.decision = Decision::Deny;
                    }
                    strictest = strictest.max(explanation.verdict.decision.clone());
                    as_line(line.at, &line.tool, &explanation, &self.here)
                }
                // FAIL CLOSED: a line that is no call is not allowed.
                Err(error) => {
                    strictest = Decision::Deny;
                    json!({"line": line.at, "tool": line.tool, "error": error})
                }
            };
            out.extend([written.to_string().as_str(), "\n"]);
        }
        (strictest, out)
    }
}

/// The tools that a rule denies as a whole.
fn hidden_tools(turn: &Turn, policy: &Arc<dyn Policy>) -> HashSet<String> {
    let entries = turn.snapshot().entries();
    let hidden = entries.filter(|e| policy.hides(&e.policy_tool(), &Scope::default()).is_some());
    hidden.map(|entry| entry.name().to_string()).collect()
}

impl CallLine {
    fn parse((at, line): Line) -> Self {
        let wrong = |why: String| Self { at, tool: String::new(), call: Err(why) };
        let mut call: Value = match serde_json::from_slice(&line) {
            Ok(call) => call,
            Err(e) => return wrong(format!("line {at} is not JSON: {e}")),
        };
        let tool = ["tool", "tool_name", "name"].iter().find_map(|key| call.get(*key)?.as_str());
        let Some(tool) = tool.map(str::to_owned) else {
            return wrong(format!("line {at} names no tool"));
        };
        let given = ["arguments", "tool_input", "input"];
        let arguments = given.iter().find_map(|key| Some(call.get_mut(*key)?.take()));
        let arguments = arguments.unwrap_or_else(|| json!({}));
        Self { at, call: Ok((tool.clone(), arguments)), tool }
    }
}

/// The decision about one call, as one JSON object.
fn as_line(at: usize, tool: &str, explanation: &Explanation, here: &str) -> Value {
    let verdict = &explanation.verdict;
    let mut line = json!({
        "line": at,
        "tool": tool,
        "decision": verdict.decision.as_str(),
        "reason": &*verdict.reason,
        "source": verdict.source.replace(here, ""),
    });
    if verdict.confined {
        line["confined"] = Value::Bool(true);
    }
    if let Some(rule) = &explanation.deciding {
        let file = rule.location.file.as_ref().map(|file| file.display().to_string());
        line["rule"] = json!({
            "file": file.map(|file| file.replace(here, "")),
            "line": rule.location.line,
            "pattern": rule.pattern,
        });
    }
    line
}
