//! The cost of authorizing one call, by the number of rules, compared with the default policy.
//!
//! The runtime has a policy that calls another one many times, so exactly `Policy::decide` on a
//! real call is measured: collecting the facts and finding the deciding rule. Four calls: a
//! tool that only computes, a file write, a URL fetch, a shell command (which is parsed each time).
//! The rules are a mix of all kinds; `same` is the worst case, where all of them match the called
//! tool.

use std::{cell::Cell, hint::black_box, rc::Rc, sync::Arc};

use haft::{
    Runtime, ToolCall, ToolRegistry,
    policy::{
        Decision, DefaultPolicy, PathBase, Pattern, Policy, PolicyContext, PolicyRequest, Rule,
        Rules, Verdict,
    },
    tool::{Capabilities, Capability, DynTool, ToolSpec},
};
use serde_json::{Value, json};

use crate::harness::{Bench, Unit};

/// Authorizes a call this many times.
struct Often<P>(Arc<P>, u32);

impl<P: Policy> Policy for Often<P> {
    fn decide(&self, call: &PolicyRequest<'_>) -> Verdict {
        for _ in 1..self.1 {
            black_box(self.0.decide(black_box(call)));
        }
        self.0.decide(call)
    }
}

/// Repetitions in a row.
const REPETITIONS: u32 = 1_000;

fn rule(decision: Decision, text: &str) -> Rule {
    let pattern = Pattern::parse(text, &PathBase::default());
    let pattern = pattern.unwrap_or_else(|e| panic!("{text}: {}", e.message));
    Rule::new(decision, pattern)
}

/// A mix of typical rules, none of which match the calls below, except the last.
fn mixed(count: usize) -> Vec<Rule> {
    let mut rules: Vec<Rule> = (0..count.saturating_sub(1))
        .map(|n| {
            let text = match n % 10 {
                0..4 => format!("Bash(program{n} sub *)"),
                4 => format!("Read(//srv/data{n}/**)"),
                5 => format!("Edit(//srv/data{n}/**)"),
                6 => format!("WebFetch(domain:*.host{n}.example.org)"),
                7 => format!("mcp__server{}__tool{n}", n % 50),
                8 => format!("tool_{n} arg.to=someone{n}@example.org"),
                _ => format!("tool_{n}"),
            };
            let decision = match n % 3 {
                0 => Decision::Deny,
                1 => Decision::Ask,
                _ => Decision::Allow,
            };
            rule(decision, &text)
        })
        .collect();
    rules.push(rule(Decision::Allow, "*_called"));
    rules
}

/// Rules that all name the called tool, and differ in an argument.
fn same(count: usize) -> Vec<Rule> {
    (0..count)
        .map(|n| rule(Decision::Ask, &format!("plain_called arg.to=someone{n}@example.org")))
        .collect()
}

/// The same, where the argument is a pattern, which the index finds by its start.
fn same_globs(count: usize) -> Vec<Rule> {
    (0..count)
        .map(|n| rule(Decision::Ask, &format!("plain_called arg.to=someone{n}*@example.org")))
        .collect()
}

/// Rules that all name the program that is run, and differ in its subcommand.
fn same_program(count: usize) -> Vec<Rule> {
    (0..count).map(|n| rule(Decision::Ask, &format!("Bash(cargo sub{n} *)"))).collect()
}

/// The same, where the subcommand is a pattern, so that each must be evaluated.
fn same_program_globs(count: usize) -> Vec<Rule> {
    (0..count).map(|n| rule(Decision::Ask, &format!("Bash(cargo sub{n}* *)"))).collect()
}

fn tool(name: &str, argument: &str, about: Option<&str>, reaches: &[Capability]) -> DynTool {
    let mut property = json!({"type": "string"});
    if let Some(about) = about {
        property["x-haft"] = about.into();
    }
    let schema = json!({"type": "object", "properties": {argument: property}});
    let capabilities: Capabilities = reaches.iter().copied().collect();
    let spec = ToolSpec::new(name, "Does nothing.").capabilities(capabilities);
    let spec = if about.is_none() { spec.read_only() } else { spec.effects(Vec::new()) };
    DynTool::new(spec, schema, |_, _| async { "done" })
}

const CALLS: [(&str, &str, &str); 4] = [
    ("plain_called", "to", "anyone@example.org"),
    ("write_called", "file", "notes/today.md"),
    ("fetch_called", "url", "https://docs.example.com/page"),
    ("shell_called", "command", "cargo build --release"),
];

fn registry() -> ToolRegistry {
    ToolRegistry::builder()
        .add(tool("plain_called", "to", None, &[]))
        .add(tool("write_called", "file", Some("write_path"), &[Capability::Filesystem]))
        .add(tool("fetch_called", "url", Some("url"), &[Capability::Network]))
        .add(tool("shell_called", "command", Some("command"), &[Capability::Subprocess]))
        .build()
        .unwrap_or_else(|e| panic!("{e}"))
}

fn case(
    bench: &mut Bench,
    name: String,
    policy: impl Policy,
    call: (&str, &str, &str),
    units: u32,
) {
    let policy = Often(Arc::new(policy), REPETITIONS);
    let runtime = Runtime::builder().registry(registry()).policy(policy).build();
    let runtime = Rc::new(runtime.unwrap_or_else(|e| panic!("{e}")));
    let arguments: Value = json!({call.1: call.2});
    let tool = call.0.to_owned();
    let asked = Rc::new(Cell::new(0u32));
    bench.case(name, units.next_multiple_of(REPETITIONS), move |tokio, units| {
        for _ in 0..units / REPETITIONS {
            let call = ToolCall::new("1", tool.as_str(), arguments.clone());
            let answers = tokio.block_on(async {
                let turn = runtime.run().turn().await.unwrap_or_else(|e| panic!("{e}"));
                turn.run([call]).await
            });
            assert_eq!(answers.len(), 1);
            asked.set(asked.get() + 1);
        }
    });
}

pub(crate) fn add(bench: &mut Bench) {
    let context = PolicyContext::default;
    let rules = |rules| Rules::new(rules, context()).unwrap_or_else(|e| panic!("{e}"));
    for call in CALLS {
        let group = match call.0 {
            "plain_called" => "judge-plain",
            "write_called" => "judge-path",
            "fetch_called" => "judge-host",
            _ => "judge-command",
        };
        // Ten thousand rules take a while to build, which a profile of something else should not
        // show.
        if !bench.wants(group) {
            continue;
        }
        let units = bench.group(group, Unit::Check);
        case(bench, "the default".to_owned(), DefaultPolicy, call, units);
        for count in [1, 10, 100, 1_000, 10_000] {
            case(bench, format!("{count} rules"), rules(mixed(count)), call, units);
        }
        if call.0 == "plain_called" {
            for count in [100, 1_000, 10_000] {
                case(
                    bench,
                    format!("{count} of the same tool"),
                    rules(same(count)),
                    call,
                    REPETITIONS,
                );
                let name = format!("{count} globs of the same tool");
                case(bench, name, rules(same_globs(count)), call, REPETITIONS);
            }
        }
        if call.0 == "shell_called" {
            for count in [100, 1_000, 10_000] {
                let name = format!("{count} of the same program");
                case(bench, name, rules(same_program(count)), call, REPETITIONS);
                let name = format!("{count} globs of the same program");
                case(bench, name, rules(same_program_globs(count)), call, REPETITIONS);
            }
        }
    }
}
