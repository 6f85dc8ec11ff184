//! Built-in guards, through the real pipeline.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    BoxFuture, Failure, FailureCode, Runtime, RuntimeBuilder, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    policy::{
        ConcurrencyLimit, ConfirmDestructive, DenyAll, ForTools, Guard, NoObjection, PathGuard,
        PathResolver, Review, ReviewGuard, Reviewer, ToolNameGuard, Verdict,
    },
    tool::{Capabilities, Capability, DynTool, Effect, ToolSpec},
    turn::ValidatedCall,
};
use serde_json::{Value, json};

use crate::kit::*;

async fn outcome(builder: RuntimeBuilder) -> Result<(), Failure> {
    builder.build().unwrap().call("t", json!({})).await.map(|_| ())
}

async fn code(builder: RuntimeBuilder) -> Option<FailureCode> {
    outcome(builder).await.err().map(|f| f.code())
}

#[tokio::test]
async fn guard_allow_lifts_nothing_and_guard_deny_always_refuses() {
    assert_eq!(code(permissive(vec![quick(read("t"))]).guard(NoObjection)).await, None);
    let strict = Runtime::builder()
        .registry(ToolRegistry::builder().add(vec![quick(write("t"))]).build().unwrap())
        .guard(NoObjection);
    assert_eq!(code(strict).await, Some(FailureCode::Denied), "the default still asks");
    let refused = permissive(vec![quick(read("t"))]).guard(DenyAll::new("we are closed"));
    let failure = outcome(refused).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::Denied);
    assert!(failure.message().contains("we are closed"));
}

/// A guard without a verdict that counts how often it is called.
struct Counts(Arc<AtomicUsize>);

impl Guard for Counts {
    fn name(&self) -> &str {
        "counts"
    }

    fn decide<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(None) })
    }
}

#[tokio::test]
async fn guard_after_a_denying_guard_is_not_called_but_explained() {
    let (before, after) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let runtime = permissive(vec![quick(read("t"))])
        .guard(Counts(Arc::clone(&before)))
        .guard(DenyAll::new("we are closed"))
        .guard(Counts(Arc::clone(&after)))
        .build()
        .unwrap();
    let calls = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert!(failure.message().contains("we are closed"), "{failure}");
    assert_eq!((calls(&before), calls(&after)), (1, 0));
    let turn = runtime.run().turn().await.unwrap();
    let explained = turn.explain(haft::ToolCall::new("c", "t", json!({}))).await;
    let results: Vec<&str> = explained
        .checks
        .iter()
        .filter(|c| c.check == "guard `counts`")
        .map(|c| &*c.result)
        .collect();
    assert_eq!(results, ["no opinion", "no opinion"], "an explanation asks every guard");
    assert_eq!((calls(&before), calls(&after)), (2, 1));
}

#[tokio::test]
async fn tool_names_are_denied_by_pattern_without_telling_the_model() {
    for (allow, deny, name, wanted) in [
        (&[][..], &[][..], "read_file", true),
        (&[], &["read_*"], "read_file", false),
        (&["read_*"], &[], "read_file", true),
        (&["read_*"], &[], "write_file", false),
        (&["*"], &["*_file"], "read_file", false),
        (&["Read_*"], &[], "read_file", false),
        (&[], &["READ_*"], "read_file", true),
        (&["x", "read_fil?"], &[], "read_file", true),
    ] {
        let policy = ToolNameGuard::new().allow(allow.to_vec()).deny(deny.to_vec());
        let runtime = permissive(vec![quick(read(name))]).guard(policy).build().unwrap();
        let got = runtime.call(name, json!({})).await;
        assert_eq!(got.is_ok(), wanted, "{allow:?} {deny:?} {name}");
        if let Err(failure) = got {
            assert!(!failure.to_string().contains('*'), "{failure}");
            let source = failure.source().unwrap().to_string();
            assert!(allow.iter().chain(deny).any(|p| source.contains(p)), "{source}");
        }
    }
}

#[tokio::test]
async fn guard_with_a_tool_filter_ignores_other_tools() {
    let tools = || vec![quick(read("mail_send")), quick(read("mail_read")), quick(read("search"))];
    let answers = |runtime: Runtime| async move {
        let turn = runtime.run().turn().await.unwrap();
        ends(&turn.run(calls("mail_send mail_read search")).await)
    };
    let runtime = permissive(tools()).guard_for("mail_*", DenyAll::new("no mail")).build().unwrap();
    assert_eq!(answers(runtime).await, ["c1 denied", "c2 denied", "c3 ok"]);
    let runtime = permissive(tools()).guard(ForTools::new("mail_send", DenyAll::new("no"))).build();
    assert_eq!(answers(runtime.unwrap()).await, ["c1 denied", "c2 ok", "c3 ok"]);
}

struct Yes(Arc<AtomicUsize>);

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::test]
async fn destructive_call_needs_approval_and_is_denied_without_an_approver() {
    for (spec, asks) in [
        (read("t"), false),
        (write("t"), true),
        (write("t").destructive(false), false),
        (write("t").destructive(true), true),
        (write("t").destructive(false).capabilities([Capability::Destructive]), true),
    ] {
        let shown = format!("{spec:?}");
        let alone = permissive(vec![quick(spec.clone())]).guard(ConfirmDestructive);
        assert_eq!(code(alone).await, asks.then_some(FailureCode::Denied), "{shown}");
        let asked = Arc::new(AtomicUsize::new(0));
        let person = Yes(Arc::clone(&asked));
        let with = permissive(vec![quick(spec)]).guard(ConfirmDestructive).approver(person);
        assert_eq!(code(with).await, None, "{shown}");
        assert_eq!(asked.load(Ordering::SeqCst), usize::from(asks), "{shown}");
    }
}

/// Counts how many calls it checks concurrently, and in which order they came.
#[derive(Clone, Default)]
struct Busy {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    order: Arc<Mutex<Vec<String>>>,
}

impl Guard for Busy {
    fn name(&self) -> &str {
        "busy"
    }

    fn decide<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(async move {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            self.order.lock().unwrap().push(call.context().call_id().to_string());
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(None)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn guard_with_a_concurrency_limit_runs_in_order() {
    for (limit, wanted) in [(1, 1), (3, 3), (0, 1), (usize::MAX, 6)] {
        let busy = Busy::default();
        let guard = ConcurrencyLimit::at_a_time(busy.clone(), limit);
        let runtime = permissive(vec![quick(read("t"))]).guard(guard).build().unwrap();
        let turn = runtime.run().turn().await.unwrap();
        let answers = turn.run(calls("t t t t t t")).await;
        assert!(answers.iter().all(|a| a.failure().is_none()));
        assert_eq!(busy.most.load(Ordering::SeqCst), wanted, "{limit}");
        assert_eq!(*busy.order.lock().unwrap(), ["c1", "c2", "c3", "c4", "c5", "c6"], "{limit}");
    }
    let busy = Busy::default();
    let guard = ConcurrencyLimit::new(busy.clone());
    let runtime = permissive(vec![quick(read("t"))]).guard(guard).build().unwrap();
    runtime.run().turn().await.unwrap().run(calls("t t t")).await;
    assert_eq!(busy.most.load(Ordering::SeqCst), 1);
}

/// A file system with one symlink, `/work/link` to `/etc`, and one unreadable directory.
#[derive(Debug)]
struct Small;

impl PathResolver for Small {
    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        let mut real = PathBuf::new();
        for part in path.components() {
            match part {
                std::path::Component::ParentDir => {
                    real.pop();
                }
                std::path::Component::CurDir => {}
                part => real.push(part),
            }
            if real == Path::new("/work/link") {
                real = PathBuf::from("/etc");
            }
            if real == Path::new("/work/locked") {
                return Err("permission denied".to_owned());
            }
        }
        Ok(real)
    }
}

fn path_guard() -> PathGuard {
    PathGuard::new(Small).root("/work").root("/tmp/x").deny("/work/secret").deny("/etc/shadow")
}

/// Returns how a call with these arguments ends: `ok`, `ask` or `deny`, and the whole failure.
async fn paths(tool: DynTool, guard: PathGuard, arguments: Value) -> (&'static str, String) {
    let runtime = permissive(vec![tool]).guard(guard).build().unwrap();
    let run = runtime.run_builder().working_directory("/work").start();
    let turn = run.turn().await.unwrap();
    let answers = turn.run(vec![haft::ToolCall::new("c1", "t", arguments)]).await;
    match answers[0].failure() {
        None => ("ok", String::new()),
        Some(failure) => {
            assert_eq!(failure.code(), FailureCode::Denied);
            let asked = failure.message().contains("needs approval");
            (if asked { "ask" } else { "deny" }, failure.to_string())
        }
    }
}

#[tokio::test]
async fn every_path_of_a_call_is_checked_after_resolving_symlinks() {
    let files = || read("t").capabilities([Capability::Filesystem]);
    for (effects, wanted) in [
        (vec!["a/b"], "ok"),
        (vec!["/work"], "ok"),
        (vec!["/tmp/x/y"], "ok"),
        (vec!["/workevil/a"], "ask"),
        (vec!["../a"], "ask"),
        (vec!["a", "b", "../c"], "ask"),
        (vec!["a", "secret/key", "../c"], "deny"),
        (vec!["x/../secret"], "deny"),
        (vec!["secrets"], "ok"),
        (vec!["link/passwd"], "ask"),
        (vec!["link/shadow"], "deny"),
        (vec!["locked/a"], "deny"),
        (vec!["a\0b"], "deny"),
    ] {
        let list: Vec<_> = effects.iter().map(|e| Effect::read(*e)).collect();
        let (got, text) = paths(quick(files().effects(list)), path_guard(), json!({})).await;
        assert_eq!(got, wanted, "{effects:?} {text}");
        assert!(!text.contains("/work/secret") && !text.contains("/etc"), "{text}");
    }
    let silent = paths(quick(files()), path_guard(), json!({})).await;
    assert_eq!(silent.0, "ask", "it does not say which");
    let elsewhere = quick(read("t").capabilities(Capabilities::NONE));
    assert_eq!(paths(elsewhere, path_guard(), json!({})).await.0, "ok", "no files at all");
}

#[tokio::test]
async fn arguments_named_as_paths_are_checked_single_or_list() {
    let schema = json!({"properties": {"path": {}, "deep": {"type": "object"}}});
    let spec = ToolSpec::new("t", "Does it.").read_only().capabilities(Capabilities::NONE);
    let tool = DynTool::new(spec, schema, |_, _| async { "done" });
    for (arguments, wanted) in [
        (json!({}), "ok"),
        (json!({"path": null}), "ok"),
        (json!({"path": "a"}), "ok"),
        (json!({"path": ["a", "b"]}), "ok"),
        (json!({"path": ["a", "/etc/passwd"]}), "ask"),
        (json!({"path": ["/etc/passwd", "secret"]}), "deny"),
        (json!({"path": 7}), "deny"),
        (json!({"path": [["a"]]}), "deny"),
        (json!({"deep": {"file": "secret"}}), "deny"),
        (json!({"path": vec!["a"; 1001]}), "deny"),
    ] {
        let guard = path_guard().argument("path").argument("/deep/file");
        let (got, text) = paths(tool.clone(), guard, arguments.clone()).await;
        assert_eq!(got, wanted, "{arguments} {text}");
    }
}

#[tokio::test]
async fn relative_path_without_a_base_is_refused() {
    let spec = read("t").capabilities([Capability::Filesystem]).effects([Effect::read("a")]);
    let runtime = permissive(vec![quick(spec)]).guard(path_guard()).build().unwrap();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert!(failure.message().contains("cannot be resolved"), "{failure}");
}

struct Opinion(fn() -> Result<Review, Failure>);

impl Reviewer for Opinion {
    fn name(&self) -> &str {
        "reviewer"
    }

    fn review<'a>(&'a self, _: &'a ValidatedCall) -> BoxFuture<'a, Result<Review, Failure>> {
        Box::pin(async move { (self.0)() })
    }
}

struct Silent;

impl Reviewer for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn review<'a>(&'a self, _: &'a ValidatedCall) -> BoxFuture<'a, Result<Review, Failure>> {
        Box::pin(std::future::pending())
    }
}

struct Panics;

impl Reviewer for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn review<'a>(&'a self, _: &'a ValidatedCall) -> BoxFuture<'a, Result<Review, Failure>> {
        panic!("before there is a future")
    }
}

/// Returns how often the approver was asked, and whether the call ran after the approval.
async fn reviewed(reviewer: impl Reviewer) -> (usize, bool) {
    let asked = Arc::new(AtomicUsize::new(0));
    let builder = permissive(vec![quick(read("t"))])
        .guard(ReviewGuard::new(reviewer))
        .approver(Yes(Arc::clone(&asked)));
    let ran = code(builder).await.is_none();
    (asked.load(Ordering::SeqCst), ran)
}

#[tokio::test(start_paused = true)]
async fn reviewer_only_advises_and_its_failure_counts_as_risky() {
    assert_eq!(reviewed(Opinion(|| Ok(Review::Safe))).await, (0, true));
    assert_eq!(reviewed(Opinion(|| Ok(Review::Risky("odd".into())))).await, (1, true));
    assert_eq!(reviewed(Opinion(|| Ok(Review::Deny("bad".into())))).await, (0, false));
    assert_eq!(reviewed(Opinion(|| Err(Failure::failed("down")))).await, (1, true));
    assert_eq!(reviewed(Opinion(|| panic!("on purpose"))).await, (1, true));
    assert_eq!(reviewed(Panics).await, (1, true));
    assert_eq!(reviewed(Silent).await, (1, true));
}

#[tokio::test(start_paused = true)]
async fn reviewer_grants_nothing_and_its_doubt_denies_without_an_approver() {
    let safe = Runtime::builder()
        .registry(ToolRegistry::builder().add(vec![quick(write("t"))]).build().unwrap())
        .guard(ReviewGuard::new(Opinion(|| Ok(Review::Safe))));
    assert_eq!(code(safe).await, Some(FailureCode::Denied), "the default still asks");
    for limit in [1, 10_000] {
        let late = permissive(vec![quick(read("t"))])
            .guard(ReviewGuard::new(Silent).within(Duration::from_secs(limit)));
        let failure = outcome(late).await.unwrap_err();
        let wanted = if limit == 1 { FailureCode::Denied } else { FailureCode::GuardFailed };
        assert_eq!(failure.code(), wanted);
    }
    let long = permissive(vec![quick(read("t"))])
        .guard(ReviewGuard::new(Opinion(|| Ok(Review::Deny("x".repeat(100_000))))));
    assert!(outcome(long).await.unwrap_err().message().len() < 1_000);
}
