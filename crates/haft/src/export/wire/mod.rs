//! What a provider says, and what it wants to hear.
//!
//! `parse` reads a complete response into calls; `answer` makes the message that answers them.

mod anthropic;
mod openai_responses;

use serde_json::Value;

use super::Dialect;
use crate::{
    envelope::Envelope,
    error::{Error, ErrorKind},
    turn::{Call, Stop},
};

/// What a response asks for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The calls, in the model's order.
    pub calls: Vec<Call>,
    /// How the message ended.
    pub stop: Stop,
}

impl Dialect {
    /// Reads a complete response.
    ///
    /// # Errors
    /// Fails when it is not a response of this dialect. Calls that make no sense are no error; they
    /// are calls that will be answered so.
    pub fn parse(self, response: &Value) -> Result<Response, Error> {
        match self {
            Self::Anthropic => anthropic::parse(response),
            Self::OpenAiResponses => openai_responses::parse(response),
            other => Err(unreadable(other, response, "reading it is not built yet")),
        }
    }

    /// Makes the message that answers all calls of a turn.
    #[must_use]
    pub fn answer(self, answers: &[Envelope]) -> Value {
        match self {
            Self::Anthropic => anthropic::answer(answers),
            _ => openai_responses::answer(answers),
        }
    }

    /// Returns the dialect that a response seems to be of.
    #[must_use]
    pub fn guess(response: &Value) -> Option<Dialect> {
        if response.get("content").is_some_and(Value::is_array) {
            Some(Self::Anthropic)
        } else if response.get("output").is_some_and(Value::is_array) {
            Some(Self::OpenAiResponses)
        } else {
            None
        }
    }
}

fn unreadable(dialect: Dialect, response: &Value, wanted: &str) -> Error {
    let error =
        Error::new(ErrorKind::BadResponse, format!("this is no {dialect} response: {wanted}"));
    match Dialect::guess(response) {
        Some(other) if other != dialect => error.hint(format!("it looks like {other}")),
        _ => error,
    }
}
