//! What a provider says and wants to hear, in its own JSON.
//!
//! One file per provider; nothing outside this room knows a provider's shapes. `parse` reads a
//! complete response into calls; `answer` makes the message that answers them.

mod anthropic;
mod openai_responses;

use std::{fmt, str::FromStr};

use serde_json::Value;

use crate::{
    envelope::Envelope,
    error::{Error, ErrorKind},
    near::nearest,
    turn::{Call, Stop},
};

/// A provider's way of speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAiResponses,
}

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
    /// Every dialect.
    pub const ALL: &'static [Dialect] = &[Dialect::Anthropic, Dialect::OpenAiResponses];

    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// Reads a complete response.
    ///
    /// # Errors
    /// Fails when it is not a response of this dialect. Calls that make no sense are no error; they
    /// are calls that will be answered so.
    pub fn parse(self, response: &Value) -> Result<Response, Error> {
        match self {
            Self::Anthropic => anthropic::parse(response),
            Self::OpenAiResponses => openai_responses::parse(response),
        }
    }

    /// Makes the message that answers all calls of a turn.
    #[must_use]
    pub fn answer(self, answers: &[Envelope]) -> Value {
        match self {
            Self::Anthropic => anthropic::answer(answers),
            Self::OpenAiResponses => openai_responses::answer(answers),
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

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.iter().copied().find(|d| d.as_str() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|d| d.as_str()).collect();
            let error = Error::new(
                ErrorKind::BadConfig,
                format!("there is no dialect `{text}`; there are {}", names.join(", ")),
            );
            match nearest(text, names) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error,
            }
        })
    }
}
