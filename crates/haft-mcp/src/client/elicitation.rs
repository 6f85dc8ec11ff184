//! Questions of a server to a person (elicitation), behind a trait of the host.
//!
//! FAIL CLOSED: without a host that asks a person, the capability is not declared and every
//! question is declined.

use std::fmt;

use haft::BoxFuture;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::Value;

/// A question of a server. Its texts are untrusted: show them with the server's name, and never as
/// a question of haft.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ElicitationRequest {
    /// The configured name of the server.
    pub server: String,
    /// What it asks.
    pub message: String,
    /// What it wants.
    pub kind: ElicitationKind,
}

/// What a server wants from a person.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitationKind {
    /// Values that fit a flat JSON Schema.
    Form {
        /// The schema.
        schema: Value,
    },
    /// That the person opens a URL. Show its host.
    Url {
        /// The URL.
        url: String,
    },
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// The values of a form; `None` for a URL.
    Accept(Option<Value>),
    /// No.
    Decline,
    /// Neither yes nor no: the question was dismissed.
    Cancel,
}

/// Asks a person on behalf of servers.
pub trait Elicitor: Send + Sync + 'static {
    /// Asks.
    fn ask(&self, request: ElicitationRequest) -> BoxFuture<'_, ElicitationAnswer>;
}

impl fmt::Debug for dyn Elicitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elicitor")
    }
}

/// Asks the person of the host; declines without one.
pub(super) async fn answer(
    server: &str,
    elicitor: Option<&dyn Elicitor>,
    params: ElicitRequestParams,
) -> ElicitResult {
    let Some(elicitor) = elicitor else { return ElicitResult::new(ElicitationAction::Decline) };
    let request = match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
            (message, ElicitationKind::Form { schema })
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            (message, ElicitationKind::Url { url })
        }
        _ => return ElicitResult::new(ElicitationAction::Decline),
    };
    let (message, kind) = request;
    let request = ElicitationRequest { server: server.to_owned(), message, kind };
    match elicitor.ask(request).await {
        ElicitationAnswer::Accept(Some(content)) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        ElicitationAnswer::Accept(None) => ElicitResult::new(ElicitationAction::Accept),
        ElicitationAnswer::Decline => ElicitResult::new(ElicitationAction::Decline),
        ElicitationAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    }
}
