//! What the loop asks of a model: one request in, pieces of a message out, and a stop reason.
//!
//! A host implements [`Model`] over any client. The pieces go into a [`Reply`], so that calls start
//! while the model is still writing.

use std::{fmt, ops::AddAssign, sync::Arc};

use haft_core::{BoxFuture, Error, StopReason};
use haft_dialect::{
    Dialect, ToolExport,
    history::{ContentPart, Message, Transcript},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::reply::Reply;

/// Writes the next message of a conversation.
///
/// ```
/// use haft::{BoxFuture, Error, turn::StopReason};
/// use haft::agent::{Model, ModelRequest, Reply};
///
/// struct Parrot;
///
/// impl Model for Parrot {
///     fn respond<'a>(
///         &'a self,
///         request: ModelRequest<'a>,
///         reply: &'a mut Reply,
///     ) -> BoxFuture<'a, Result<StopReason, Error>> {
///         Box::pin(async move {
///             reply.text(request.last_user_text().unwrap_or("There is no message."));
///             Ok(StopReason::Done)
///         })
///     }
/// }
/// ```
pub trait Model: Send + Sync + 'static {
    /// Writes one message into the reply, piece by piece, and returns how it ended.
    ///
    /// Unless it ends with [`StopReason::Done`], no further call of the message runs. The future is
    /// dropped when the run is interrupted, cancelled or out of time.
    ///
    /// # Errors
    /// Fails if the provider cannot be reached or its response cannot be used. The run then ends as
    /// failed; retries belong into the client.
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>>;

    /// Describes the model: its name, its format of tools, its price and its context window.
    fn info(&self) -> ModelInfo {
        ModelInfo::default()
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>> {
        (**self).respond(request, reply)
    }

    fn info(&self) -> ModelInfo {
        (**self).info()
    }
}

/// What a loop must know about a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its name, for records and saved runs.
    pub name: String,
    /// The format in which it is offered tools.
    pub dialect: Dialect,
    /// What it costs; `None` if unknown. A run with a money limit needs it.
    pub price: Option<Price>,
    /// How many tokens a request and its response may have together; `None` if unknown.
    pub context_tokens: Option<u64>,
    /// How many tokens it writes at most; `None` if unknown.
    pub max_output_tokens: Option<u64>,
}

impl ModelInfo {
    /// Describes a model with this name, of which nothing else is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

impl Default for ModelInfo {
    fn default() -> Self {
        Self {
            name: "model".to_owned(),
            dialect: Dialect::Anthropic,
            price: None,
            context_tokens: None,
            max_output_tokens: None,
        }
    }
}

/// The price of a model, in millionths of the currency unit for a million tokens. Three dollars for
/// a million tokens are 3 000 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A million tokens of input.
    pub input: u64,
    /// A million tokens of output.
    pub output: u64,
    /// A million tokens of input that the provider had in its cache; `None` means as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// A million tokens of input that the provider wrote to its cache; `None` means as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

impl Price {
    /// Returns the price of these tokens in millionths, rounded up.
    #[must_use]
    pub fn of(self, input_tokens: u64, output_tokens: u64) -> u64 {
        rounded(product(input_tokens, self.input) + product(output_tokens, self.output))
    }

    /// Returns the price of a model call in millionths, rounded up. Input from the provider's cache
    /// and input written to it have prices of their own.
    #[must_use]
    pub fn of_usage(self, usage: &Usage) -> u64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let plain = usage.input_tokens - cached - written;
        rounded(
            product(plain, self.input)
                + product(cached, self.cached_input.unwrap_or(self.input))
                + product(written, self.cache_write.unwrap_or(self.input))
                + product(usage.output_tokens, self.output),
        )
    }

    /// Returns the highest price that these tokens can have, in millionths.
    pub(super) fn most_of(self, input_tokens: u64, output_tokens: u64) -> u64 {
        let dearest = self.input.max(self.cache_write.unwrap_or(0));
        Self { input: dearest, ..self }.of(input_tokens, output_tokens)
    }
}

fn product(tokens: u64, price: u64) -> u128 {
    u128::from(tokens) * u128::from(price)
}

fn rounded(cost: u128) -> u64 {
    u64::try_from(cost.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The tokens of one or more model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens of requests, including those from the provider's cache.
    pub input_tokens: u64,
    /// Tokens of requests that the provider had in its cache.
    pub cached_input_tokens: u64,
    /// Tokens of requests that the provider wrote to its cache, where it counts them.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens of responses.
    pub output_tokens: u64,
}

impl Usage {
    /// Returns the tokens of requests and responses together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.cached_input_tokens =
            self.cached_input_tokens.saturating_add(more.cached_input_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(more.cache_write_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
    }
}

/// One request to a model.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ModelRequest<'a> {
    /// The system prompt: the agent's instructions, and how to read results.
    pub instructions: &'a str,
    /// The conversation, without the system prompt.
    pub history: &'a Transcript,
    /// The tools of this turn, in the model's format.
    pub tools: &'a Arc<ToolExport>,
    /// How many tokens the response may have.
    pub max_tokens: u64,
    /// How many messages the model has written in this conversation.
    pub turn: u32,
    /// The JSON Schema of the final answer, if the caller wants a typed one.
    pub output_schema: Option<&'a Value>,
}

impl<'a> ModelRequest<'a> {
    /// Returns the request body in a provider's format: the system prompt, the conversation and the
    /// tools, marked for the provider's prompt cache if the tools are. A provider with structured
    /// output is asked for JSON of the output schema. The model's name, the token limit and other
    /// fields are the client's.
    ///
    /// The tools must have been exported in this dialect ([`ModelInfo::dialect`]).
    ///
    /// # Errors
    /// Fails for a dialect that has no conversation.
    pub fn body(&self, dialect: Dialect) -> Result<Map<String, Value>, Error> {
        let mut messages = Vec::with_capacity(self.history.messages.len() + 1);
        if !self.instructions.is_empty() {
            messages.push(Message::System(vec![ContentPart::text(self.instructions)]));
        }
        messages.extend(self.history.messages.iter().cloned());
        let whole = Transcript { messages };
        let written = match self.tools.prompt_cache() {
            Some(keep) => whole.write_cached(dialect, keep)?,
            None => whole.write(dialect)?,
        };
        let mut body = match written.body {
            Value::Object(body) => body,
            other => Map::from_iter([("messages".to_owned(), other)]),
        };
        for (key, value) in self.tools.request() {
            body.insert(key.clone(), value.clone());
        }
        let has_tools = !self.tools.exported_tools().is_empty();
        let format = self.output_schema.and_then(|s| dialect.output_format(s, has_tools));
        body.extend(format.into_iter().flatten());
        Ok(body)
    }

    /// Returns the text of the user's last message.
    #[must_use]
    pub fn last_user_text(&self) -> Option<&'a str> {
        self.history.messages.iter().rev().find_map(|message| match message {
            Message::User(parts) => parts.iter().find_map(|part| match part {
                ContentPart::Text { text, .. } => Some(text.as_str()),
                _ => None,
            }),
            _ => None,
        })
    }
}

impl fmt::Debug for ModelRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest")
            .field("messages", &self.history.messages.len())
            .field("tools", &self.tools.exported_tools().len())
            .field("max_tokens", &self.max_tokens)
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_and_written_tokens_have_prices_of_their_own() {
        let price = Price {
            input: 3_000_000,
            output: 15_000_000,
            cached_input: Some(300_000),
            cache_write: Some(3_750_000),
        };
        let usage = Usage {
            input_tokens: 1_000_000,
            cached_input_tokens: 600_000,
            cache_write_tokens: 200_000,
            output_tokens: 100_000,
        };
        assert_eq!(price.of_usage(&usage), 600_000 + 180_000 + 750_000 + 1_500_000);
        let plain = Price { cached_input: None, cache_write: None, ..price };
        assert_eq!(plain.of_usage(&usage), plain.of(1_000_000, 100_000));
        assert_eq!(price.most_of(1_000_000, 0), 3_750_000, "all of it may be written to the cache");
        // Counts that contradict each other do not make a call cheaper than its input.
        let odd = Usage { cached_input_tokens: 9, cache_write_tokens: 9, ..Usage::default() };
        assert_eq!(price.of_usage(&odd), 0);
    }
}
