//! `ask_user` through the whole call pipeline.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    BoxFuture, Failure, Runtime, RuntimeBuilder, ToolCall, ToolContext, ToolRegistry, ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    taint::Trust,
    tool::DynTool,
};
use haft_tools::{AskHandler, AskUser, UserQuestion};
use serde_json::{Value, json};

/// A user with one answer, or none.
#[derive(Debug, Clone, Default)]
struct User {
    answer: Option<&'static str>,
    asked: Arc<Mutex<Vec<UserQuestion>>>,
}

impl AskHandler for User {
    fn ask<'a>(
        &'a self,
        question: &'a UserQuestion,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, Result<String, Failure>> {
        self.asked.lock().unwrap().push(question.clone());
        Box::pin(async {
            match self.answer {
                Some(answer) => Ok(answer.to_owned()),
                None => std::future::pending().await,
            }
        })
    }
}

/// An approver that is configured and never used.
struct UnusedApprover;

impl Approver for UnusedApprover {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async { Ok(ApprovalResponse::Deny(None)) })
    }
}

fn runtime_with(tool: AskUser) -> RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(DynTool::of(tool)).build().unwrap())
}

async fn ask(runtime: &Runtime, arguments: Value) -> ToolResult {
    let turn = runtime.run().turn().await.unwrap();
    turn.run(vec![ToolCall::new("c1", "ask_user", arguments)]).await.remove(0)
}

#[tokio::test]
async fn user_answer_is_returned_and_trusted() {
    let user = User { answer: Some(" teal \n"), ..User::default() };
    let runtime =
        runtime_with(AskUser::new(user.clone())).approver(UnusedApprover).build().unwrap();
    let answer = ask(&runtime, json!({"question": "Which?", "choices": ["red", "blue"]})).await;
    assert_eq!(answer.text(), "teal", "something else than the choices is an answer too");
    assert_eq!(answer.label().trust, Trust::Trusted);
    let asked = user.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].question.as_str(), asked[0].choices.len()), ("Which?", 2));
}

#[tokio::test]
async fn spoofing_question_is_refused_before_it_is_shown() {
    let user = User { answer: Some("yes"), ..User::default() };
    let runtime =
        runtime_with(AskUser::new(user.clone())).approver(UnusedApprover).build().unwrap();
    for question in ["", "ok?\u{1b}[2J", "a\u{202e}b"] {
        let answer = ask(&runtime, json!({"question": question})).await;
        assert_eq!(answer.failure().unwrap().code().as_str(), "invalid_value", "{question:?}");
    }
    assert!(user.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn unanswered_question_times_out() {
    let tool = AskUser::new(User::default()).timeout(Duration::from_millis(50));
    let runtime = runtime_with(tool).approver(UnusedApprover).build().unwrap();
    let answer = ask(&runtime, json!({"question": "Is anyone there?"})).await;
    assert_eq!(answer.failure().unwrap().code().as_str(), "timed_out");
}

#[tokio::test]
async fn ask_user_needs_an_approver() {
    let user = User { answer: Some("yes"), ..User::default() };
    let runtime = runtime_with(AskUser::new(user.clone())).build().unwrap();
    let answer = ask(&runtime, json!({"question": "Is anyone there?"})).await;
    assert_eq!(answer.failure().unwrap().code().as_str(), "needs_interaction");
    assert!(user.asked.lock().unwrap().is_empty());
}

/// A user whose questions an approver shows.
#[derive(Debug, Clone, Copy)]
struct Elsewhere;

impl AskHandler for Elsewhere {
    fn ask<'a>(
        &'a self,
        _: &'a UserQuestion,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async { Err(Failure::failed("the body ran")) })
    }

    fn is_asked_by_approver(&self, _: &ToolContext) -> bool {
        true
    }
}

#[tokio::test]
async fn approver_answers_in_place_of_the_body() {
    let approver = |request: &ApprovalRequest<'_>| {
        assert_eq!(request.call.arguments()["question"], "Which?");
        Ok(ApprovalResponse::ReplaceResult(UserQuestion::answer_text(" teal \n")))
    };
    let runtime = runtime_with(AskUser::new(Elsewhere)).approver(approver).build().unwrap();
    let answer = ask(&runtime, json!({"question": "Which?"})).await;
    assert_eq!((&*answer.text(), answer.is_error()), ("teal", false));
    assert_eq!(answer.label().trust, Trust::Trusted);
    let spoofing = ask(&runtime, json!({"question": "a\u{202e}b"})).await;
    assert_eq!(spoofing.failure().unwrap().code().as_str(), "invalid_value", "not shown");
}
