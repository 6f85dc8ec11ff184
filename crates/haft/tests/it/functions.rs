//! Guards, hooks and approvers made from functions or shared behind an `Arc`, and registries that
//! are extended.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft::{
    FailureCode, Runtime, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver, approver_fn},
    hooks::{Hook, PreCallDecision, before_fn},
    policy::{Guard, Verdict, guard_fn},
    turn::ValidatedCall,
};
use serde_json::json;

use crate::kit::*;

#[tokio::test]
async fn guard_from_a_function_denies_and_is_shared_by_two_runtimes() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let guard: Arc<dyn Guard> = Arc::new(guard_fn("one name", move |call| {
        counted.fetch_add(1, Ordering::Relaxed);
        let is_refused = call.tool().name().as_str() == "refused";
        Ok(is_refused.then(|| Verdict::deny("this name is refused")))
    }));
    let runtime = |name| {
        let tools = vec![quick(read(name))];
        permissive(tools).guard(Arc::clone(&guard)).build().unwrap()
    };
    let failure = runtime("refused").call("refused", json!({})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::Denied);
    assert!(failure.message().contains("this name is refused"), "{failure}");
    runtime("other").call("other", json!({})).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn approver_from_a_function_answers_and_a_shared_one_does_too() {
    for answer in [true, false] {
        let approver: Arc<dyn Approver> = Arc::new(approver_fn("the test", move |_| {
            Box::pin(async move {
                Ok(if answer { ApprovalResponse::allow() } else { ApprovalResponse::Deny(None) })
            })
        }));
        let registry = ToolRegistry::builder().add(vec![quick(write("t"))]).build().unwrap();
        let runtime = Runtime::builder().registry(registry).approver(approver).build().unwrap();
        let code = runtime.call("t", json!({})).await.err().map(|failure| failure.code());
        assert_eq!(code, (!answer).then_some(FailureCode::Declined));
    }
}

#[tokio::test]
async fn hook_from_a_function_blocks_a_call() {
    let hook: Arc<dyn Hook> =
        Arc::new(before_fn("blocks", |_| Ok(PreCallDecision::block("not today"))));
    let runtime = permissive(vec![quick(read("t"))]).hook(hook).build().unwrap();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::BlockedByHook);
    assert!(failure.message().contains("not today"), "{failure}");
}

#[tokio::test]
async fn registry_with_more_tools_runs_the_old_and_the_new_ones() {
    let small = ToolRegistry::builder().add(vec![quick(read("old"))]).build().unwrap();
    let large = small.with(vec![quick(read("new"))]).unwrap();
    let clash = small.with(vec![quick(read("old"))]).unwrap_err();
    assert!(clash.to_string().contains("old"), "{clash}");
    let runtime = Runtime::builder().registry(large).build().unwrap();
    for name in ["old", "new"] {
        runtime.call(name, json!({})).await.unwrap();
    }
    let runtime = Runtime::builder().registry(small).build().unwrap();
    let failure = runtime.call("new", json!({})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::UnknownTool);
}

#[tokio::test]
async fn closures_with_a_typed_parameter_are_guards_hooks_and_approvers() {
    let guarded = permissive(vec![quick(read("t"))])
        .guard(|_: &ValidatedCall| Ok(Some(Verdict::deny("a closure denies it"))));
    let failure = guarded.build().unwrap().call("t", json!({})).await.unwrap_err();
    assert!(failure.message().contains("a closure denies it"), "{failure}");
    let hooked = permissive(vec![quick(read("t"))])
        .hook(|_: &ValidatedCall| Ok(PreCallDecision::block("not today")));
    assert!(hooked.build().unwrap().call("t", json!({})).await.is_err());
    for (answer, code) in [
        (ApprovalResponse::allow(), None),
        (ApprovalResponse::Deny(None), Some(FailureCode::Denied)),
    ] {
        let asked = Runtime::builder()
            .registry(ToolRegistry::builder().add(quick(write("t"))).build().unwrap())
            .approver(move |_: &ApprovalRequest<'_>| Ok(answer.clone()));
        let result = asked.build().unwrap().call("t", json!({})).await;
        assert_eq!(result.err().map(|failure| failure.code()), code);
    }
}
