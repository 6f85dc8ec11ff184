//! A runtime with all layers: cache, rate limit, retry, 20 rules, hook, middleware, secrets, an
//! observer.
//!
//! The same configuration as `everything on` of the benches. Every call has new arguments, so that
//! the cache misses.

use std::hint::black_box;

use haft::{
    BoxFuture, Failure, Output, Run, Runtime, ToolCall, ToolRegistry,
    events::Event,
    hooks::{CompletedCall, Hook, PostCallResult, PreCallDecision},
    middleware::{Middleware, Next, Outcome},
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    tool,
    turn::{Arguments, AuthorizedCall, ValidatedCall},
};

/// Adds two numbers.
#[tool(
    read_only,
    capabilities(),
    cache = "5m",
    rate = "4000000000/second",
    retry(max_attempts = 3),
    timeout = "5s"
)]
async fn add(#[param(min = 0)] a: u64, #[param(min = 0)] b: u64) -> String {
    (a + b).to_string()
}

/// A hook that sees every call before and after, and changes nothing.
struct Idle;

impl Hook for Idle {
    fn name(&self) -> &str {
        "idle"
    }

    fn before<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(async { Ok(PreCallDecision::proceed()) })
    }

    fn after<'a>(
        &'a self,
        _: &'a CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, PostCallResult> {
        Box::pin(async { PostCallResult::from(outcome) })
    }
}

/// A middleware that only calls `next`.
struct PassThrough;

impl Middleware for PassThrough {
    fn name(&self) -> &str {
        "through"
    }

    fn call<'a>(&'a self, _: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome> {
        next.run()
    }
}

/// Twenty rules of all kinds, the last of which allows the tool.
fn rules() -> Rules {
    let rule = |decision, text: &str| {
        let pattern = Pattern::parse(text, &PathBase::default());
        Rule::new(decision, pattern.unwrap_or_else(|e| panic!("{text}: {}", e.message)))
    };
    let mut all: Vec<Rule> = (1..20)
        .map(|n| {
            let text = match n % 5 {
                0 => format!("Bash(program{n} sub *)"),
                1 => format!("Edit(//srv/data{n}/**)"),
                2 => format!("WebFetch(domain:*.host{n}.example.org)"),
                3 => format!("tool_{n} arg.to=someone{n}@example.org"),
                _ => format!("tool_{n}"),
            };
            rule(if n % 2 == 0 { Decision::Deny } else { Decision::Ask }, &text)
        })
        .collect();
    all.push(rule(Decision::Allow, "add"));
    Rules::new(all, PolicyContext::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Makes a run with all layers.
pub(crate) fn run() -> Run {
    let registry = ToolRegistry::builder().add(AddTool).build().unwrap_or_else(|e| panic!("{e}"));
    let runtime = Runtime::builder()
        .registry(registry)
        .policy(rules())
        .hook(Idle)
        .middleware(PassThrough)
        .secret("mail", "correct horse battery")
        .secret("store", "staple-0123456789")
        .secret("host", "8f14e45fceea167a")
        .observer(|event: &Event| {
            black_box(event);
        });
    runtime.build().unwrap_or_else(|e| panic!("{e}")).run()
}

/// Makes a turn with one call, and reads its result as a model does.
pub(crate) async fn turn(run: &Run, number: u64) {
    let turn = run.turn().await.unwrap_or_else(|e| panic!("{e}"));
    let arguments = format!(r#"{{"a":{number},"b":25}}"#);
    let results = turn.run([ToolCall::new("call", "add", Arguments::Text(arguments))]).await;
    assert_eq!(results[0].text().parse(), Ok(number + 25));
    black_box(results[0].model_text());
}
