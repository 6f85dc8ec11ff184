//! Questions to the user, through the whole walk of a call.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    ApprovalRequest, ApprovalResponse, Approver, BoxFuture, DynTool, Failure, Runtime,
    RuntimeBuilder, ToolCall, ToolRegistry, ToolResult, Trust,
};
use haft_tools::{AskUser, Asks, UserQuestion};
use serde_json::{Value, json};

/// A user with one answer, or none at all.
#[derive(Debug, Clone, Default)]
struct User {
    answer: Option<&'static str>,
    asked: Arc<Mutex<Vec<UserQuestion>>>,
}

impl Asks for User {
    fn ask<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Result<String, Failure>> {
        self.asked.lock().unwrap().push(question.clone());
        Box::pin(async {
            match self.answer {
                Some(answer) => Ok(answer.to_owned()),
                None => std::future::pending().await,
            }
        })
    }
}

/// Somebody is there, and is never asked for permission.
struct Present;

impl Approver for Present {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async { Ok(ApprovalResponse::Deny(None)) })
    }
}

fn over(tool: AskUser) -> RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(DynTool::of(tool)).build().unwrap())
}

async fn ask(runtime: &Runtime, arguments: Value) -> ToolResult {
    let turn = runtime.run().turn().await.unwrap();
    turn.run(vec![ToolCall::new("c1", "ask_user", arguments)]).await.remove(0)
}

#[tokio::test]
async fn the_users_words_are_the_answer_and_are_trusted() {
    let user = User { answer: Some(" teal \n"), ..User::default() };
    let runtime = over(AskUser::new(user.clone())).approver(Present).build().unwrap();
    let answer = ask(&runtime, json!({"question": "Which?", "choices": ["red", "blue"]})).await;
    assert_eq!(answer.text(), "teal", "something else than the choices is an answer too");
    assert_eq!(answer.label().trust, Trust::Trusted);
    let asked = user.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].question.as_str(), asked[0].choices.len()), ("Which?", 2));
}

#[tokio::test]
async fn a_question_that_could_be_something_else_on_a_screen_is_not_shown() {
    let user = User { answer: Some("yes"), ..User::default() };
    let runtime = over(AskUser::new(user.clone())).approver(Present).build().unwrap();
    for question in ["", "ok?\u{1b}[2J", "a\u{202e}b"] {
        let answer = ask(&runtime, json!({"question": question})).await;
        assert_eq!(answer.failure().unwrap().code().as_str(), "invalid_value", "{question:?}");
    }
    assert!(user.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn nobody_is_waited_for_for_ever() {
    let tool = AskUser::new(User::default()).timeout(Duration::from_millis(50));
    let runtime = over(tool).approver(Present).build().unwrap();
    let answer = ask(&runtime, json!({"question": "Anybody?"})).await;
    assert_eq!(answer.failure().unwrap().code().as_str(), "timed_out");
}

#[tokio::test]
async fn in_a_run_without_people_it_is_not_offered() {
    let user = User { answer: Some("yes"), ..User::default() };
    let runtime = over(AskUser::new(user.clone())).build().unwrap();
    let answer = ask(&runtime, json!({"question": "Anybody?"})).await;
    assert_eq!(answer.failure().unwrap().code().as_str(), "needs_interaction");
    assert!(user.asked.lock().unwrap().is_empty());
}
