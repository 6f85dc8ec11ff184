//! Calls that are allowed because their body runs confined: the preconditions, and what the body is
//! reported.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use haft::{
    BoxFuture, Failure, FailureCode, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    host::{Confinement, HostContext},
    policy::Verdict,
    tool::{CallProfile, Capabilities, Capability, DynTool, ToolSpec},
};
use serde_json::json;

/// What a body saw: `None`, confined, or not confined.
#[derive(Clone, Default)]
struct Seen(Arc<AtomicU8>);

impl Seen {
    fn word(&self) -> &'static str {
        match self.0.load(Ordering::SeqCst) {
            0 => "did not run",
            1 => "confined",
            _ => "free",
        }
    }
}

/// The preconditions of one case.
#[derive(Clone, Copy)]
struct Says {
    sandbox: bool,
    confinable: bool,
    offered: bool,
    secrets: bool,
}

const ALL: Says = Says { sandbox: true, confinable: true, offered: true, secrets: false };

fn tool(says: Says, seen: &Seen) -> DynTool {
    let mut capabilities = Capabilities::from([Capability::Subprocess, Capability::Filesystem]);
    if says.secrets {
        capabilities = capabilities.with(Capability::Secrets);
    }
    let mut spec = ToolSpec::new("work", "Works.").capabilities(capabilities);
    spec.per_call = vec!["read_only"];
    let seen = seen.clone();
    let tool = DynTool::new(spec, json!({"type": "object"}), move |_, cx| {
        seen.0.store(if cx.is_confined() { 1 } else { 2 }, Ordering::SeqCst);
        async { "done" }
    })
    .with_profile(move |profile, _, _| CallProfile { confinable: says.confinable, ..profile })
    .with_check(move |_, cx| {
        cx.set_confinement(if says.offered {
            Ok(Confinement::default())
        } else {
            Err("not here".to_owned())
        });
        Box::pin(async { Ok(()) })
    });
    if says.sandbox { tool.in_sandbox() } else { tool }
}

fn runtime(says: Says, seen: &Seen) -> RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(tool(says, seen)).build().unwrap())
}

async fn call(runtime: RuntimeBuilder) -> Option<FailureCode> {
    let run = runtime.build().unwrap().run();
    let answers = run.turn().await.unwrap().run([ToolCall::new("c", "work", json!({}))]).await;
    answers[0].failure().map(Failure::code)
}

#[tokio::test]
async fn confinement_requires_every_precondition() {
    for (says, runs) in [
        (ALL, true),
        (Says { sandbox: false, ..ALL }, false),
        (Says { confinable: false, ..ALL }, false),
        (Says { offered: false, ..ALL }, false),
        (Says { secrets: true, ..ALL }, false),
    ] {
        let seen = Seen::default();
        let code = call(runtime(says, &seen)).await;
        if runs {
            assert_eq!((code, seen.word()), (None, "confined"))
        } else {
            assert_eq!((code, seen.word()), (Some(FailureCode::Denied), "did not run"))
        }
    }
}

struct Yes;

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

/// A guard with one verdict for every call.
struct Opinion(Verdict);

impl haft::policy::Guard for Opinion {
    fn name(&self) -> &str {
        "one opinion"
    }

    fn decide<'a>(
        &'a self,
        _: &'a haft::turn::ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }
}

#[tokio::test]
async fn only_an_approval_lifts_the_confinement() {
    let seen = Seen::default();
    let allowed = runtime(ALL, &seen).guard(Opinion(Verdict::allow("fine")));
    assert_eq!((call(allowed).await, seen.word()), (None, "confined"), "a guard lifts nothing");
    let seen = Seen::default();
    let asked = runtime(ALL, &seen).guard(Opinion(Verdict::ask("look")));
    assert_eq!((call(asked).await, seen.word()), (Some(FailureCode::Denied), "did not run"));
    let seen = Seen::default();
    let answered = runtime(ALL, &seen).guard(Opinion(Verdict::ask("look"))).approver(Yes);
    assert_eq!((call(answered).await, seen.word()), (None, "free"));
    let seen = Seen::default();
    let unneeded = runtime(ALL, &seen).approver(Yes);
    assert_eq!((call(unneeded).await, seen.word()), (None, "confined"), "no question is asked");
    let seen = Seen::default();
    let denied = runtime(ALL, &seen).guard(Opinion(Verdict::deny("no"))).approver(Yes);
    assert_eq!((call(denied).await, seen.word()), (Some(FailureCode::Denied), "did not run"));
}
