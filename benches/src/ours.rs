//! haft: the same tool through the whole walk of one call.
//!
//! NOT WIRED YET. To wire it:
//!   1. `benches/Cargo.toml`: `haft.workspace = true`
//!   2. `main.rs`: uncomment `mod ours;` and the `bench.add("haft", …)` line
//!   3. fill in `new` and `ask`; override `one` and `fan100` where the runtime has a better way
//!
//! What a fair figure needs: the default walk (validate, judge, events, shape, memory journal), the
//! JSON text parsed inside the measured part, no cache, and `fan100` as one turn of a hundred calls.
//! The tool must be allowed by what it declares (`read_only`, `capabilities()`), not by a switch that
//! turns judging off.

use crate::{
    add::{FAN, Question, questions},
    harness::Subject,
};

pub(crate) struct Haft {
    // runtime: haft::Runtime,
}

impl Haft {
    pub(crate) fn new() -> Self {
        // #[tool(read_only, capabilities())] async fn add(#[param(min = 0)] a: u64, …) -> String
        Self {}
    }
}

impl Subject for Haft {
    async fn ask(&self, question: &'static Question) {
        // One call: name `add::NAME`, arguments `&question.arguments` (JSON text). Then:
        question.check("the text of the answer");
    }

    async fn one(&self, calls: u32) {
        for question in questions(calls) {
            self.ask(question).await;
        }
    }

    async fn fan100(&self) {
        // One turn with FAN calls; every answer checked, in the order of the questions.
        for question in questions(FAN) {
            question.check("the text of the answer");
        }
    }
}
