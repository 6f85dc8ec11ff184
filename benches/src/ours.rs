//! haft: the same tool through the whole walk of one call.
//!
//! Everything of the default walk is on: the text is parsed and validated, the call is planned,
//! checked, judged by what the tool declares (never by a switch that turns judging off), written
//! down before and after, bounded and shaped. `Turn` is the way of an agent: one run, a turn per
//! response. `Direct` is `Runtime::call`, a run of its own for each call.

use haft::{Arguments, Call, Catalog, Run, Runtime, tool};

use crate::{
    add::{FAN, NAME, Question, questions},
    harness::Subject,
};

/// Adds two numbers.
#[tool(read_only, capabilities())]
async fn add(#[param(min = 0)] a: u64, #[param(min = 0)] b: u64) -> String {
    (a + b).to_string()
}

fn runtime() -> Runtime {
    let catalog = Catalog::builder().add(Add).build();
    catalog
        .and_then(|catalog| Runtime::builder().catalog(catalog).build())
        .unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) struct Turn {
    run: Run,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { run: runtime().run() }
    }

    async fn turn(&self, questions: impl Iterator<Item = &'static Question>, ids: &[String]) {
        let questions: Vec<_> = questions.collect();
        let turn = self.run.turn().await.unwrap_or_else(|e| panic!("{e}"));
        let calls = questions.iter().zip(ids).map(|(question, id)| {
            Call::new(id.as_str(), NAME, Arguments::Text(question.arguments.clone()))
        });
        let answers = turn.run(calls).await;
        assert_eq!(answers.len(), questions.len());
        for (answer, question) in answers.iter().zip(questions) {
            question.check(&answer.text());
        }
    }
}

impl Subject for Turn {
    async fn ask(&self, question: &'static Question) {
        self.turn(std::iter::once(question), &["call".to_owned()]).await;
    }

    async fn fan100(&self) {
        let ids: Vec<String> = (0..FAN).map(|n| format!("call_{n}")).collect();
        self.turn(questions(FAN), &ids).await;
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
