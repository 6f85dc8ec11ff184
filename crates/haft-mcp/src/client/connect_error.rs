//! Why a server could not be reached, in words for a person: the errors of the SDK name Rust types.

use std::{error::Error, io};

use rmcp::{
    service::{ClientInitializeError, ServiceError},
    transport::{
        DynamicTransportError,
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
        },
    },
};

/// The reason if a program ends at once.
const ENDED: &str = "it ended before it answered";

/// Why a server could not be reached.
#[derive(Debug, Clone)]
pub(super) struct ConnectError {
    pub(super) message: String,
    /// Whether the server wants an OAuth login.
    pub(super) needs_login: bool,
    /// What it said about the login.
    pub(super) challenge: Option<String>,
}

impl ConnectError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), needs_login: false, challenge: None }
    }
}

impl From<ClientInitializeError> for ConnectError {
    fn from(error: ClientInitializeError) -> Self {
        Self {
            needs_login: error.is_authorization_required(),
            challenge: error.auth_challenge().map(str::to_owned),
            message: reason(&error),
        }
    }
}

/// The challenge of a server that refused a request for its token.
pub(super) fn challenge_of(error: &ServiceError) -> Option<String> {
    let ServiceError::TransportSend(error) = error else { return None };
    chain(error.error.as_ref()).find_map(|current| {
        let refused = current.downcast_ref::<AuthRequiredError>();
        let refused = refused.map(|refused| &refused.www_authenticate_header);
        let scope = current.downcast_ref::<InsufficientScopeError>();
        let scope = scope.map(|scope| &scope.www_authenticate_header);
        refused.or(scope).cloned()
    })
}

/// Why a request failed.
pub(super) fn reason_of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => reason_of_transport(error),
        ServiceError::McpError(error) => format!("error {}: {}", error.code.0, error.message),
        other => other.to_string(),
    }
}

/// Why a connection could not be opened.
fn reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => reason_of_transport(error),
        ClientInitializeError::ConnectionClosed(_) => ENDED.to_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused the first request: {}", error.message)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => reason(fallback),
        // Their texts have the whole message of the server.
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_) => {
            "its answer to the first request is not one of the protocol".to_owned()
        }
        other => other.to_string(),
    }
}

fn reason_of_transport(error: &DynamicTransportError) -> String {
    for current in chain(error.error.as_ref()) {
        let client = match current.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::Client(client)) => Some(client),
            Some(StreamableHttpError::UnexpectedServerResponse(what)) => {
                return format!("its answer was unexpected: {what}");
            }
            _ => current.downcast_ref::<reqwest::Error>(),
        };
        if let Some(client) = client {
            return unreachable(client);
        }
        if let Some(status) = current.downcast_ref::<HttpStatusError>() {
            return format!("it answered with {status}");
        }
        let pipe = current.downcast_ref::<io::Error>().map(io::Error::kind);
        if pipe == Some(io::ErrorKind::BrokenPipe) {
            return ENDED.to_owned();
        }
    }
    error.error.to_string()
}

/// A request that had no response. The URL is left out: the caller knows the server.
fn unreachable(error: &reqwest::Error) -> String {
    let innermost = chain(error).last().map(ToString::to_string).unwrap_or_default();
    if error.is_timeout() {
        format!("it cannot be reached in time: {innermost}")
    } else {
        format!("it cannot be reached: {innermost}")
    }
}

/// An error and its sources.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let current = next?;
        next = current.source();
        Some(current)
    })
}
