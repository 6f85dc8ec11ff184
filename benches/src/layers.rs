//! The cost of each layer around a body, as a ratio to the plain pipeline in the same run.
//!
//! `Walk` is the path of an agent: one run, a turn per response. Every call has new arguments, so
//! that a cache misses as it would with a model, and stores the result. Each case configures one
//! layer; `everything` configures all of them. Nothing here is slow or fails: only the overhead is
//! measured.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use haft::{
    BoxFuture, Failure, Output, Run, Runtime, RuntimeBuilder, Tool, ToolCall, ToolContext,
    ToolRegistry, ToolResult,
    events::{Event, Observer},
    hooks::{CompletedCall, Hook, PostCallResult, PreCallDecision},
    middleware::{Middleware, Next, Outcome},
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    tool::{Cache, CallProfile, Rate, RetryPolicy, ToolSpec},
    turn::{Arguments, AuthorizedCall},
};

use crate::{
    add::{FAN, NAME, Question},
    harness::{Bench, Subject, Unit},
    ours::AddTool,
};

/// The tool with a richer spec.
struct WithSpec(fn(ToolSpec) -> ToolSpec);

impl Tool for WithSpec {
    type Args = <AddTool as Tool>::Args;
    type Output = <AddTool as Tool>::Output;

    const CHECKS: bool = <AddTool as Tool>::CHECKS;
    const GUARDS: bool = <AddTool as Tool>::GUARDS;
    const PROFILES: bool = <AddTool as Tool>::PROFILES;

    fn spec(&self) -> ToolSpec {
        (self.0)(AddTool.spec())
    }

    fn profile(&self, declared: CallProfile, args: &Self::Args, cx: &ToolContext) -> CallProfile {
        AddTool.profile(declared, args, cx)
    }

    async fn call(&self, args: Self::Args, cx: &ToolContext) -> Result<Self::Output, Failure> {
        AddTool.call(args, cx).await
    }
}

/// One run of a runtime, and numbers that were not used yet.
pub(crate) struct Walk {
    run: Run,
    asked: AtomicU64,
    /// The increment of the numbers; 0 where a cache hit is measured.
    step: u64,
    /// Whether results are read as a model reads them, with their frame.
    framed: bool,
}

impl Walk {
    fn new(
        dress: fn(ToolSpec) -> ToolSpec,
        set_up: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
    ) -> Self {
        let registry = ToolRegistry::builder().add(WithSpec(dress)).build();
        let runtime = registry.and_then(|c| set_up(Runtime::builder().registry(c)).build());
        let run = runtime.unwrap_or_else(|e| panic!("{e}")).run();
        Self { run, asked: AtomicU64::new(0), step: 1, framed: false }
    }

    /// The default configuration.
    pub(crate) fn plain() -> Self {
        Self::new(|spec| spec, |runtime| runtime)
    }

    /// The same, authorized by one rule that allows the tool.
    pub(crate) fn ruled() -> Self {
        Self::new(|spec| spec, |runtime| runtime.policy(rules(1)))
    }

    /// All layers.
    pub(crate) fn everything() -> Self {
        let all = Self::new(
            |spec| retried(rated(cached(spec))).timeout(Duration::from_secs(5)),
            |runtime| {
                watched(secrets(runtime.policy(rules(20)).hook(Idle).middleware(PassThrough)))
            },
        );
        Self { framed: true, ..all }
    }

    fn call(&self, id: &str) -> (ToolCall, u64) {
        let a = self.asked.fetch_add(self.step, Ordering::Relaxed);
        let b = a % 1_009;
        (ToolCall::new(id, NAME, Arguments::Text(format!(r#"{{"a":{a},"b":{b}}}"#))), a + b)
    }

    /// Makes a turn of these calls, and checks every result.
    async fn turn(&self, calls: impl ExactSizeIterator<Item = ToolCall>, sums: &[u64]) {
        let turn = self.run.turn().await.unwrap_or_else(|e| panic!("{e}"));
        let answers = turn.run(calls).await;
        assert_eq!(answers.len(), sums.len());
        for (answer, sum) in answers.iter().zip(sums) {
            right(answer, *sum);
            if self.framed {
                let shown = answer.model_text();
                assert!(shown.starts_with("[haft "), "{shown}");
            }
        }
    }
}

/// Stops the run when a result is wrong.
#[track_caller]
fn right(answer: &ToolResult, sum: u64) {
    assert_eq!(answer.text().parse(), Ok(sum), "{}", answer.text());
}

impl Subject for Walk {
    async fn ask(&self, _: &'static Question) {
        let (call, sum) = self.call("call");
        self.turn(std::iter::once(call), &[sum]).await;
    }

    async fn fan100(&self) {
        let calls = (0..FAN).map(|n| self.call(&format!("call_{n}")));
        let (calls, sums): (Vec<ToolCall>, Vec<u64>) = calls.unzip();
        self.turn(calls.into_iter(), &sums).await;
    }
}

fn cached(spec: ToolSpec) -> ToolSpec {
    spec.cache(Cache { ttl: Duration::from_secs(300), scope: None })
}

fn rated(spec: ToolSpec) -> ToolSpec {
    // High enough that no call ever waits.
    spec.rate(Rate::parse("4000000000/second").unwrap_or_else(|e| panic!("{e}")))
}

fn retried(spec: ToolSpec) -> ToolSpec {
    spec.retry(RetryPolicy::default())
}

/// This many rules of all kinds, the last of which allows the tool.
fn rules(count: usize) -> Rules {
    let rule = |decision, text: &str| {
        let pattern = Pattern::parse(text, &PathBase::default());
        Rule::new(decision, pattern.unwrap_or_else(|e| panic!("{text}: {}", e.message)))
    };
    let mut all: Vec<Rule> = (1..count)
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
    all.push(rule(Decision::Allow, NAME));
    Rules::new(all, PolicyContext::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A hook that sees every call before and after, and changes nothing.
struct Idle;

impl Hook for Idle {
    fn name(&self) -> &str {
        "idle"
    }

    fn before<'a>(
        &'a self,
        _: &'a haft::turn::ValidatedCall,
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

/// An observer that counts.
struct Count(AtomicU64);

impl Observer for Count {
    fn observe(&self, _: &Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn watched(runtime: RuntimeBuilder) -> RuntimeBuilder {
    runtime.observer(Count(AtomicU64::new(0)))
}

/// Three secrets, each searched for in all its encodings.
fn secrets(runtime: RuntimeBuilder) -> RuntimeBuilder {
    let runtime = runtime.secret("mail", "correct horse battery");
    runtime.secret("store", "staple-0123456789").secret("host", "8f14e45fceea167a")
}

pub(crate) fn add(bench: &mut Bench) {
    bench.group("layers", Unit::Call);
    bench.add("plain", Walk::plain());
    bench.add("one rule", Walk::ruled());
    bench.add("20 rules", Walk::new(|spec| spec, |runtime| runtime.policy(rules(20))));
    bench.add("hook", Walk::new(|spec| spec, |runtime| runtime.hook(Idle)));
    bench.add("middleware", Walk::new(|spec| spec, |runtime| runtime.middleware(PassThrough)));
    bench.add("cache miss", Walk::new(cached, |runtime| runtime));
    bench.add("cache hit", Walk { step: 0, ..Walk::new(cached, |runtime| runtime) });
    bench.add("retry", Walk::new(retried, |runtime| runtime));
    bench.add("rate", Walk::new(rated, |runtime| runtime));
    bench.add("secrets", Walk::new(|spec| spec, secrets));
    bench.add("frame read", Walk { framed: true, ..Walk::plain() });
    bench.add("observer", Walk::new(|spec| spec, watched));
    bench.add("everything on", Walk::everything());
}
