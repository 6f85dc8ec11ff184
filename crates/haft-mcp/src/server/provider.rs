//! Resources, prompts and completions of a server, which come from the host: a gateway passes on
//! those of its upstream servers.

use std::fmt;

use haft::BoxFuture;
use rmcp::{ErrorData, model::ErrorCode};
use serde_json::Value;

use super::call_peer::{CallPeer, LogLevel};

/// Answers the requests that are not about tools. Values have the form that MCP gives them.
pub trait ContentProvider: Send + Sync + 'static {
    /// Returns what it offers. Requests for anything else never arrive.
    fn offers(&self) -> Offers;

    /// Answers a request. A prompt or a resource may ask the client behind it.
    ///
    /// # Errors
    /// Fails with the JSON-RPC error that the client receives.
    fn handle<'a>(
        &'a self,
        request: ProviderRequest,
        peer: &'a CallPeer,
    ) -> BoxFuture<'a, Result<Value, ProviderError>>;

    /// Returns where the answer to a request comes from. What comes from another server is
    /// labelled as untrusted, and a run that reads it is tainted.
    fn origin(&self, _request: &ProviderRequest) -> ContentOrigin {
        ContentOrigin::default()
    }
}

/// Where an answer comes from. The default is the host itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContentOrigin {
    /// The server that is asked.
    pub server: Option<String>,
    /// Whether a rule denies this server.
    pub is_denied: bool,
}

/// What a provider offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Offers {
    /// Resources and their templates.
    pub resources: bool,
    /// News about single resources.
    pub subscriptions: bool,
    /// Prompts.
    pub prompts: bool,
    /// Completions of arguments.
    pub completions: bool,
}

impl Offers {
    /// Offers everything.
    #[must_use]
    pub fn all() -> Self {
        Self { resources: true, subscriptions: true, prompts: true, completions: true }
    }
}

/// A request to a provider.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ProviderRequest {
    /// All resources: a list of `Resource`.
    ListResources,
    /// All templates: a list of `ResourceTemplate`.
    ListResourceTemplates,
    /// One resource: a `ReadResourceResult`.
    ReadResource {
        /// Its URI.
        uri: String,
    },
    /// All prompts: a list of `Prompt`.
    ListPrompts,
    /// One prompt: a `GetPromptResult`.
    GetPrompt {
        /// Its name.
        name: String,
        /// Its arguments, an object.
        arguments: Value,
    },
    /// Completions: a `CompleteResult`. The value has the parameters of `completion/complete`.
    Complete(Value),
    /// News about a resource are wanted from now on. The answer is ignored.
    Subscribe {
        /// Its URI.
        uri: String,
    },
    /// News about a resource are no longer wanted. The answer is ignored.
    Unsubscribe {
        /// Its URI.
        uri: String,
    },
    /// A client wants log entries from this level on. The answer is ignored.
    SetLogLevel(LogLevel),
}

/// The JSON-RPC error of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderError {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl ProviderError {
    /// Makes an error with a code of JSON-RPC or MCP.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The resource does not exist.
    #[must_use]
    pub fn no_such_resource(uri: &str) -> Self {
        Self::new(ErrorCode::RESOURCE_NOT_FOUND.0, format!("there is no resource `{uri}`"))
            .with_data(serde_json::json!({"uri": uri}))
    }

    /// The parameters are invalid, for example the name of a prompt.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS.0, message)
    }

    /// Something failed here.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR.0, message)
    }

    /// Returns its code.
    pub(super) fn code(&self) -> i32 {
        self.code
    }

    /// Adds data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(super) fn to_sdk(&self) -> ErrorData {
        ErrorData::new(ErrorCode(self.code), self.message.clone(), self.data.clone())
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ProviderError {}
