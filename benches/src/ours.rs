//! haft: the same tool through the whole pipeline of one call.
//!
//! All default steps are on: the text is parsed and validated, the call is planned, guarded,
//! authorized by what the tool declares (never by a switch that turns authorization off), journaled
//! before and after, bounded and framed. `Turn` is the path of an agent: one run, a turn per
//! response. `Direct` is `Runtime::call`, a run of its own for each call.

use haft::{Run, Runtime, ToolCall, ToolRegistry, tool, turn::Arguments};

use crate::{
    add::{FAN, NAME, Question, questions, wait},
    harness::Subject,
};

/// Adds two numbers.
#[tool(read_only, capabilities())]
pub(crate) async fn add(#[param(min = 0)] a: u64, #[param(min = 0)] b: u64) -> String {
    wait().await;
    (a + b).to_string()
}

fn runtime() -> Runtime {
    let registry = ToolRegistry::builder().add(AddTool).build();
    registry
        .and_then(|registry| Runtime::builder().registry(registry).build())
        .unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) struct Turn {
    run: Run,
}

/// Makes runs of one runtime.
pub(crate) struct Turns(Runtime);

impl Turns {
    pub(crate) fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self(runtime()))
    }

    pub(crate) fn turn(&self) -> Turn {
        Turn { run: self.0.run() }
    }
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { run: runtime().run() }
    }

    async fn turn(&self, calls: impl IntoIterator<Item = ToolCall>) -> Vec<haft::ToolResult> {
        self.run.turn().await.unwrap_or_else(|e| panic!("{e}")).run(calls).await
    }
}

/// The call as a provider's response would bring it: an id, a name, and JSON text.
fn call(id: &str, question: &Question) -> ToolCall {
    ToolCall::new(id, NAME, Arguments::Text(question.arguments.clone()))
}

impl Subject for Turn {
    async fn ask(&self, question: &'static Question) {
        let answers = self.turn([call("call", question)]).await;
        assert_eq!(answers.len(), 1);
        question.check(&answers[0].text());
    }

    async fn fan100(&self) {
        let calls = questions(FAN).enumerate().map(|(n, q)| call(&format!("call_{n}"), q));
        let answers = self.turn(calls).await;
        assert_eq!(answers.len(), FAN as usize);
        for (answer, question) in answers.iter().zip(questions(FAN)) {
            question.check(&answer.text());
        }
    }
}

pub(crate) struct Direct {
    runtime: Runtime,
}

impl Direct {
    pub(crate) fn new() -> Self {
        Self { runtime: runtime() }
    }
}

impl Subject for Direct {
    async fn ask(&self, question: &'static Question) {
        match self.runtime.call(NAME, question.arguments.as_str()).await {
            Ok(output) => question.check(&output.to_text()),
            Err(failure) => panic!("{failure}"),
        }
    }
}
