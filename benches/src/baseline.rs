//! The lower bound: a call written by hand.
//!
//! `Baseline` does what any tool layer must do: find the handler by name, parse the text, decode
//! it, call through a box, return text. `Direct` decodes the text straight into the struct. That is
//! cheaper, and leaves no JSON value for a policy, a cache or a record. It is here for honesty.

use std::{collections::HashMap, pin::Pin};

use serde_json::{Error, Value};

use crate::{
    add::{Add, NAME, Question, add},
    harness::Subject,
};

type Answer = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;
type Handlers<In> = HashMap<String, Box<dyn Fn(In) -> Answer + Send + Sync>>;

/// Text to value, value to struct.
pub(crate) struct Baseline(Handlers<Value>);

impl Baseline {
    pub(crate) fn new() -> Self {
        let mut handlers: Handlers<Value> = HashMap::new();
        handlers.insert(
            NAME.to_owned(),
            Box::new(|value| Box::pin(async { Ok(add(serde_json::from_value(value)?).await) })),
        );
        Self(handlers)
    }

    async fn call(&self, name: &str, arguments: &str) -> Result<String, String> {
        let handler = self.0.get(name).ok_or("no such tool")?;
        let value = serde_json::from_str(arguments).map_err(|e| e.to_string())?;
        handler(value).await.map_err(|e| e.to_string())
    }
}

impl Subject for Baseline {
    async fn ask(&self, question: &'static Question) {
        match self.call(NAME, &question.arguments).await {
            Ok(text) => question.check(&text),
            Err(error) => panic!("baseline: {error}"),
        }
    }
}

/// Text straight to struct.
pub(crate) struct Direct(Handlers<&'static str>);

impl Direct {
    pub(crate) fn new() -> Self {
        let mut handlers: Handlers<&'static str> = HashMap::new();
        handlers.insert(
            NAME.to_owned(),
            Box::new(|text| {
                Box::pin(async move { Ok(add(serde_json::from_str::<Add>(text)?).await) })
            }),
        );
        Self(handlers)
    }

    async fn call(&self, name: &str, arguments: &'static str) -> Result<String, String> {
        let handler = self.0.get(name).ok_or("no such tool")?;
        handler(arguments).await.map_err(|e| e.to_string())
    }
}

impl Subject for Direct {
    async fn ask(&self, question: &'static Question) {
        match self.call(NAME, &question.arguments).await {
            Ok(text) => question.check(&text),
            Err(error) => panic!("baseline-direct: {error}"),
        }
    }
}
