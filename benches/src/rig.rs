//! rig 0.44: the same tool through its own tool path.
//!
//! Its core crate has handlers and no registry; `ToolSet`, which finds a tool by name, is in its
//! agent crate. `Core` is the least one can call: a handler from a map of our own, served inline.
//! `Agent` is what its users call: `ToolSet::execute` with name and JSON text. Neither validates
//! against the schema, authorizes, or bounds the result. Parallel calls are left to the caller.

use std::{collections::HashMap, convert::Infallible};

use rig_agent::tool::ToolSet;
use rig_core::{
    effect::{EffectKind, Outcome},
    serve::{ErasedHandler, adapters::ToolAdapter, serve_inline},
    tool::{Tool, ToolContext, ToolResult},
};
use serde_json::Value;

use crate::{
    add::{Add, DESCRIPTION, NAME, Question, add, schema},
    harness::Subject,
};

pub(crate) struct AddTool;

impl Tool for AddTool {
    const NAME: &'static str = NAME;
    type Args = Add;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        DESCRIPTION.to_owned()
    }

    fn parameters(&self) -> Value {
        schema()
    }

    async fn call(&self, _: &mut ToolContext, args: Add) -> Result<String, Infallible> {
        Ok(add(args).await)
    }
}

fn check(question: &Question, result: &ToolResult) {
    assert!(result.is_success(), "rig: {result:?}");
    question.check(result.output().as_text().unwrap_or_default());
}

/// A handler of the core crate, served inline.
pub(crate) struct Core(HashMap<String, ErasedHandler>);

impl Core {
    pub(crate) fn new() -> Self {
        let handler = ErasedHandler::new(ToolAdapter::new(AddTool));
        Self(HashMap::from([(NAME.to_owned(), handler)]))
    }
}

impl Subject for Core {
    async fn ask(&self, question: &'static Question) {
        let Some(handler) = self.0.get(NAME) else { panic!("rig-core: no such tool") };
        let call = EffectKind::ToolCall { name: NAME.to_owned(), args: question.arguments.clone() };
        match serve_inline(handler, call).await {
            Ok(Outcome::ToolResult { result }) => check(question, &result),
            other => panic!("rig-core: {other:?}"),
        }
    }
}

/// The registry of the agent crate.
pub(crate) struct Agent(ToolSet);

impl Agent {
    pub(crate) fn new() -> Self {
        Self(ToolSet::from_tools(vec![AddTool]))
    }
}

impl Subject for Agent {
    async fn ask(&self, question: &'static Question) {
        let mut context = ToolContext::new();
        let result = self.0.execute(NAME, question.arguments.as_str(), &mut context).await;
        check(question, &result);
    }
}
