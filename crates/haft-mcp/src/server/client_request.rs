//! What a server asks a client: a form or a URL for the user, a model response, the client's roots.

use std::fmt;

use haft::Failure;
use rmcp::model::InputRequest;
use serde_json::{Value, json};

/// A question to the client of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    kind: RequestKind,
    params: Value,
}

/// What kind of question it is; each needs a capability of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// The user fills in a form (`elicitation/create`).
    Form,
    /// The user opens a URL (`elicitation/create` with `mode: "url"`).
    Url,
    /// The client's model answers (`sampling/createMessage`).
    Sampling,
    /// The client lists its roots (`roots/list`).
    Roots,
}

impl RequestKind {
    /// Returns the method on the wire.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Form | Self::Url => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Returns the capability that the client must declare.
    #[must_use]
    pub fn capability(self) -> &'static str {
        match self {
            Self::Form | Self::Url => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method())
    }
}

impl ClientRequest {
    /// Asks the user to fill in a form. The schema is an object whose properties are strings,
    /// numbers, booleans, enums, or lists of enum values.
    #[must_use]
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        let message: String = message.into();
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Self { kind: RequestKind::Form, params }
    }

    /// Asks the client's model for a message; `params` are those of `sampling/createMessage`.
    #[must_use]
    pub fn sampling(params: Value) -> Self {
        Self { kind: RequestKind::Sampling, params }
    }

    /// Asks for the client's roots.
    #[must_use]
    pub fn roots() -> Self {
        Self { kind: RequestKind::Roots, params: json!({}) }
    }

    /// Reads a question from its method and parameters; `None` for any other method.
    #[must_use]
    pub fn from_wire(method: &str, params: Value) -> Option<Self> {
        let kind = match method {
            "elicitation/create" if params["mode"] == "url" => RequestKind::Url,
            "elicitation/create" => RequestKind::Form,
            "sampling/createMessage" => RequestKind::Sampling,
            "roots/list" => RequestKind::Roots,
            _ => return None,
        };
        Some(Self { kind, params })
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> RequestKind {
        self.kind
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Value {
        &self.params
    }

    /// Converts it to the type of the SDK.
    pub(super) fn to_sdk(&self) -> Result<InputRequest, Failure> {
        let wire = json!({"method": self.kind.method(), "params": self.params});
        serde_json::from_value(wire)
            .map_err(|e| Failure::failed("the question to the client is malformed").with_source(e))
    }

    /// Returns whether a response of the client has the form of an answer to this question.
    pub(super) fn accepts(&self, response: &Value) -> bool {
        match self.kind {
            RequestKind::Form | RequestKind::Url => {
                let action = response["action"].as_str();
                matches!(action, Some("accept" | "decline" | "cancel"))
            }
            RequestKind::Sampling => response.get("content").is_some(),
            RequestKind::Roots => response["roots"].is_array(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_read_back_as_its_kind() {
        let form = ClientRequest::form("Name?", json!({"type": "object", "properties": {}}));
        let sampling = ClientRequest::sampling(json!({"messages": [], "maxTokens": 10}));
        let url = json!({"mode": "url", "message": "m", "url": "https://a.example"});
        let url = ClientRequest { kind: RequestKind::Url, params: url };
        for request in [form, sampling, ClientRequest::roots(), url] {
            let again = ClientRequest::from_wire(request.kind().method(), request.params().clone());
            assert_eq!(again.as_ref(), Some(&request));
        }
        assert_eq!(ClientRequest::from_wire("tools/list", json!({})), None);
    }

    #[test]
    fn response_must_have_the_form_of_an_answer() {
        let form = ClientRequest::form("Name?", json!({"type": "object", "properties": {}}));
        assert!(form.accepts(&json!({"action": "decline"})));
        for wrong in [json!(12345), json!(null), json!({}), json!({"action": "maybe"})] {
            assert!(!form.accepts(&wrong), "{wrong}");
            assert!(!ClientRequest::roots().accepts(&wrong), "{wrong}");
        }
    }
}
