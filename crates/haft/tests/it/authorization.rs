//! Authorization: defaults, guards, hooks, approvers, and what happens when they fail.

use std::time::Duration;

use haft::{
    BoxFuture, Config, Failure, FailureCode, Runtime, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    hooks::{Hook, PreCallDecision},
    journal::{Journal, WriteStatus},
    policy::{Decision, Guard, Policy, Verdict},
    tool::{Capabilities, Capability, DynTool, Effect, Execution, Permission, ToolSpec},
    turn::ValidatedCall,
};
use serde_json::{Value, json};

use crate::kit::*;

fn strict(tools: Vec<DynTool>) -> haft::RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(tools).build().unwrap())
}

async fn code(builder: haft::RuntimeBuilder) -> Option<FailureCode> {
    builder.build().unwrap().call("t", json!({})).await.err().map(|f| f.code())
}

#[tokio::test]
async fn without_rules_only_plain_reads_inside_the_workspace_are_allowed() {
    let say = || ToolSpec::new("t", "Does it.");
    for (spec, allowed, why) in [
        (say(), false, "silent"),
        (say().read_only(), false, "does not declare what it reaches"),
        (say().read_only().capabilities(Capabilities::NONE), true, "reads and reaches nothing"),
        (say().read_only().capabilities([Capability::Network]), false, "network"),
        (say().read_only().capabilities([Capability::Secrets]), false, "secrets"),
        (say().read_only().capabilities([Capability::Filesystem]), false, "files, not which"),
        (
            say().read_only().capabilities([Capability::Filesystem]).effects([Effect::read("a/b")]),
            true,
            "files inside",
        ),
        (
            say()
                .read_only()
                .capabilities([Capability::Filesystem])
                .effects([Effect::read("../a")]),
            false,
            "files outside",
        ),
        (say().capabilities(Capabilities::NONE), false, "not read-only"),
        (say().permission(Permission::None), true, "the default ask is removed"),
        (say().destructive(true).permission(Permission::Required), false, "destructive"),
    ] {
        let got = code(strict(vec![quick(spec)])).await;
        assert_eq!(got, (!allowed).then_some(FailureCode::Denied), "{why}");
    }
}

#[tokio::test]
async fn denial_gives_the_model_the_reason_and_the_operator_the_rule() {
    let runtime = strict(vec![quick(ToolSpec::new("t", "Does it."))]).build().unwrap();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    insta::assert_snapshot!(failure.model_text(), @r"
    denied: this call needs approval (it is not declared read-only), and no approver is configured
    Next: continue without it, or report to the user what you would have done
    ");
    assert_eq!(failure.execution(), Execution::NotStarted);
    assert!(failure.source().unwrap().to_string().contains("the default"));
}

struct Says(fn(&ValidatedCall) -> Result<Option<Verdict>, Failure>);

impl Guard for Says {
    fn name(&self) -> &str {
        "says"
    }

    fn decide<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(async move { (self.0)(call) })
    }
}

struct Hangs;

impl Guard for Hangs {
    fn name(&self) -> &str {
        "hangs"
    }

    fn decide<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn strictest_policy_wins_and_a_failing_one_denies() {
    let tool = || vec![quick(read("t"))];
    let cases: Vec<(haft::RuntimeBuilder, Option<FailureCode>)> = vec![
        (permissive(tool()).guard(Says(|_| Ok(None))), None),
        (permissive(tool()).guard(Says(|_| Ok(Some(Verdict::allow("yes"))))), None),
        (
            permissive(tool()).guard(Says(|_| Ok(Some(Verdict::deny("no"))))),
            Some(FailureCode::Denied),
        ),
        (
            permissive(tool()).guard(Says(|_| Ok(Some(Verdict::ask("?"))))),
            Some(FailureCode::Denied),
        ),
        (
            permissive(tool()).guard(Says(|_| Err(Failure::failed("broken")))),
            Some(FailureCode::GuardFailed),
        ),
        (permissive(tool()).guard(Says(|_| panic!("on purpose"))), Some(FailureCode::GuardFailed)),
        (permissive(tool()).guard(Hangs), Some(FailureCode::GuardFailed)),
        // An allow of a guard does not lift the default ask.
        (
            strict(vec![quick(write("t"))]).guard(Says(|_| Ok(Some(Verdict::allow("yes"))))),
            Some(FailureCode::Denied),
        ),
    ];
    for (n, (builder, wanted)) in cases.into_iter().enumerate() {
        assert_eq!(code(builder).await, wanted, "case {n}");
    }
    let own = quick(read("t")).with_guard(|_, _| Ok(Some(Verdict::deny("not this"))));
    assert_eq!(code(permissive(vec![own])).await, Some(FailureCode::Denied));
    let broken = quick(read("t")).with_guard(|_, _| panic!("on purpose"));
    assert_eq!(code(permissive(vec![broken])).await, Some(FailureCode::GuardFailed));
}

struct Panics;

impl Policy for Panics {
    fn decide(&self, _: &haft::policy::PolicyRequest<'_>) -> Verdict {
        panic!("on purpose")
    }
}

struct NoTools;

impl Policy for NoTools {
    fn decide(&self, _: &haft::policy::PolicyRequest<'_>) -> Verdict {
        Verdict::allow("would be fine")
    }

    fn hides(&self, tool: &haft::policy::PolicyTool<'_>, _: &haft::tool::Scope) -> Option<String> {
        (*tool.name == "t").then(|| "a rule denies it".to_owned())
    }
}

#[tokio::test]
async fn panicking_policy_denies_and_a_hiding_policy_refuses() {
    let tools = vec![quick(read("t"))];
    let panics = strict(tools.clone()).policy(Panics);
    assert_eq!(code(panics).await, Some(FailureCode::GuardFailed));
    let runtime = strict(tools).policy(NoTools).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    assert_eq!(turn.snapshot().entries().count(), 0);
    let answers = turn.run(calls("t")).await;
    assert_eq!(ends(&answers), ["c1 not_offered"]);
}

struct Person(fn(&ApprovalRequest<'_>) -> ApprovalResponse);

impl Approver for Person {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async move { Ok((self.0)(question)) })
    }
}

struct SilentApprover;

impl Approver for SilentApprover {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(std::future::pending())
    }
}

async fn asked(person: impl Approver) -> Result<String, Failure> {
    let runtime = strict(vec![quick(write("t"))]).approver(person).build().unwrap();
    runtime.call("t", json!({"x": "model"})).await.map(|o| o.to_text())
}

#[tokio::test(start_paused = true)]
async fn approver_may_allow_edit_deny_or_not_answer() {
    assert_eq!(asked(Person(|_| ApprovalResponse::allow())).await.unwrap(), "t(model)");
    let declined =
        asked(Person(|_| ApprovalResponse::Deny(Some("use the other file".into())))).await;
    let declined = declined.unwrap_err();
    assert_eq!(declined.code(), FailureCode::Declined);
    assert!(declined.message().contains("use the other file"));
    // Edited arguments are authorized again and asked about again.
    let edited = asked(Person(|q| match q.call.arguments()["x"].as_str() {
        Some("person") => ApprovalResponse::allow(),
        _ => ApprovalResponse::Edit(json!({"x": "person"})),
    }));
    assert_eq!(edited.await.unwrap(), "t(person)");
    let invalid = asked(Person(|_| ApprovalResponse::Edit(json!({"x": 1})))).await.unwrap_err();
    assert_eq!(
        (invalid.code(), invalid.execution()),
        (FailureCode::Declined, Execution::NotStarted)
    );
    let restless = asked(Person(|_| ApprovalResponse::Edit(json!({})))).await.unwrap_err();
    assert_eq!(restless.code(), FailureCode::Denied, "at most two rounds");
    assert_eq!(asked(SilentApprover).await.unwrap_err().code(), FailureCode::ApprovalExpired);
    assert_eq!(
        asked(Person(|_| ApprovalResponse::Input(json!(1)))).await.unwrap_err().code(),
        FailureCode::GuardFailed
    );
    assert_eq!(
        asked(Person(|_| panic!("on purpose"))).await.unwrap_err().code(),
        FailureCode::GuardFailed
    );
}

#[tokio::test]
async fn required_input_fills_the_argument_and_is_authorized_again() {
    let tool = quick(read("t")).with_guard(|args, _| {
        Ok(args.get("key").is_none().then(|| Verdict::need_input("key", "which key?")))
    });
    let person = Person(|q| match &q.verdict.decision {
        Decision::NeedInput(name) if name == "key" => ApprovalResponse::Input(json!("k1")),
        _ => ApprovalResponse::Deny(None),
    });
    let runtime = permissive(vec![tool]).approver(person).build().unwrap();
    assert!(runtime.call("t", json!({})).await.is_ok());
}

struct Rewrites(&'static str, fn(&Value) -> Result<PreCallDecision, Failure>);

impl Hook for Rewrites {
    fn name(&self) -> &str {
        self.0
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(async move { (self.1)(call.arguments()) })
    }
}

#[tokio::test]
async fn rewrites_compose_and_are_validated_and_authorized_again() {
    let builder = permissive(vec![quick(read("t"))])
        .hook(Rewrites("one", |args| {
            Ok(PreCallDecision::rewrite(
                json!({"x": format!("{}1", args["x"].as_str().unwrap_or(""))}),
            ))
        }))
        .hook(Rewrites("two", |args| {
            Ok(PreCallDecision::rewrite(
                json!({"x": format!("{}2", args["x"].as_str().unwrap_or(""))}),
            ))
        }))
        .guard(Says(|call| {
            assert_eq!(call.arguments()["x"], "a12", "judged is what runs");
            Ok(None)
        }));
    let output = builder.build().unwrap().call("t", json!({"x": "a"})).await.unwrap();
    assert_eq!(output.to_text(), "t(a12)");

    let bad = permissive(vec![quick(read("t"))])
        .hook(Rewrites("bad", |_| Ok(PreCallDecision::rewrite(json!({"x": 1})))));
    assert_eq!(code(bad).await, Some(FailureCode::HookFailed));
    let stops = permissive(vec![quick(read("t"))])
        .hook(Rewrites("no", |_| Ok(PreCallDecision::block("not now"))));
    assert_eq!(code(stops).await, Some(FailureCode::BlockedByHook));
    let breaks =
        permissive(vec![quick(read("t"))]).hook(Rewrites("breaks", |_| panic!("on purpose")));
    assert_eq!(code(breaks).await, Some(FailureCode::HookFailed));
}

#[tokio::test(start_paused = true)]
async fn a_rewrite_into_a_stricter_class_waits_until_it_is_alone() {
    let transcript = Transcript::default();
    let tool = slow(read("t"), 10).with_profile(|declared, args, _| match args["x"].as_str() {
        Some("write") => haft::tool::CallProfile {
            class: haft::tool::ConcurrencyClass::WriteExclusive,
            ..declared
        },
        _ => declared,
    });
    let runtime = permissive(vec![tool])
        .hook(Rewrites("stricter", |args| {
            Ok(match args["x"].as_str() {
                Some("b") => PreCallDecision::rewrite(json!({"x": "write"})),
                _ => PreCallDecision::proceed(),
            })
        }))
        .observer(transcript.observer())
        .build()
        .unwrap();
    runtime.run().turn().await.unwrap().run(calls("t:a t:b t:c")).await;
    let lines = transcript.lines();
    let at = |what: &str| lines.iter().position(|l| l.starts_with(what)).unwrap();
    assert!(at("c1 finished") < at("c2 running"), "{lines:#?}");
    assert!(at("c2 finished") < at("c3 running"), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn semantic_check_has_its_own_code_and_runs_before_authorization() {
    let check = |text: &'static str| {
        quick(read("t")).with_check(move |_, _| {
            Box::pin(async move {
                match text {
                    "panic" => panic!("on purpose"),
                    "hang" => std::future::pending().await,
                    text => Err(Failure::failed(text)),
                }
            })
        })
    };
    assert_eq!(
        code(permissive(vec![check("no such file")])).await,
        Some(FailureCode::InvalidValue)
    );
    for broken in ["panic", "hang"] {
        let runtime = permissive(vec![check(broken)]).build().unwrap();
        let failure = runtime.call("t", json!({})).await.unwrap_err();
        assert_eq!(
            (failure.code(), failure.execution()),
            (FailureCode::Panicked, Execution::NotStarted),
            "{broken}"
        );
    }
}

struct Broken {
    intend: bool,
    settle: bool,
}

impl Journal for Broken {
    fn intend(&self, _: &haft::journal::CallIntent<'_>) -> WriteStatus {
        WriteStatus::Now(if self.intend { Ok(()) } else { Err("disk full".into()) })
    }

    fn settle(&self, _: &haft::journal::CallOutcome<'_>) -> WriteStatus {
        let ok = self.settle;
        WriteStatus::Later(Box::pin(async move {
            if ok {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(())
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn no_effect_without_a_journaled_intent_and_no_result_without_an_outcome() {
    let ran = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let tool = || {
        let ran = ran.clone();
        DynTool::new(read("t"), json!({}), move |_, _| {
            ran.store(true, std::sync::atomic::Ordering::SeqCst);
            async { "secret result" }
        })
    };
    let no_intent = permissive(vec![tool()]).journal(Broken { intend: false, settle: true });
    let failure = no_intent.build().unwrap().call("t", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::Unrecorded, Execution::NotStarted)
    );
    assert!(!ran.load(std::sync::atomic::Ordering::SeqCst));
    let no_end = permissive(vec![tool()]).journal(Broken { intend: true, settle: false });
    let failure = no_end.build().unwrap().call("t", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::Unrecorded, Execution::Completed)
    );
}

struct Shouts;

impl Hook for Shouts {
    fn name(&self) -> &str {
        "shouts"
    }

    fn after<'a>(
        &'a self,
        _: &'a haft::hooks::CompletedCall,
        outcome: Result<haft::Output, Failure>,
    ) -> BoxFuture<'a, haft::hooks::PostCallResult> {
        Box::pin(async move {
            let shout = |output: haft::Output| {
                let text = output.to_text();
                assert!(!text.contains("boom"), "on purpose");
                haft::Output::text(text.to_uppercase())
            };
            haft::hooks::PostCallResult::from(outcome.map(shout))
        })
    }
}

#[tokio::test]
async fn transform_changes_the_output_and_its_failure_fails_the_call() {
    let runtime = permissive(vec![quick(read("t"))]).hook(Shouts).build().unwrap();
    assert_eq!(runtime.call("t", json!({"x": "a"})).await.unwrap().to_text(), "T(A)");
    let failure = runtime.call("t", json!({"x": "boom"})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::HookFailed, Execution::Completed)
    );
}

#[tokio::test]
async fn zero_limit_is_a_build_error() {
    let mut config = Config::default();
    config.max_concurrency = 0;
    let error = Runtime::builder().config(config).build().unwrap_err();
    assert!(error.to_string().contains("`max_concurrency`"));
}

#[tokio::test]
async fn operator_record_has_details_hidden_from_the_model() {
    let journal = haft::journal::MemoryJournal::new(10);
    let tool = DynTool::new(read("t"), json!({}), |_, _| async {
        Err::<(), _>(Failure::hidden(std::io::Error::other("password is hunter2")))
    });
    let runtime = permissive(vec![tool]).journal(journal.clone()).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
    assert!(!answers[0].text().contains("hunter2"));
    let end = journal.records()[0].end.clone().unwrap();
    assert_eq!(end.cause.as_deref(), Some("password is hunter2"));
}
