//! OAuth 2.1 for HTTP servers.

/// How a token is obtained for an HTTP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthSettings {
    /// The client id, if one was registered beforehand.
    pub client_id: Option<String>,
    /// The scopes to ask for; `None` means what the server names.
    pub scopes: Option<Vec<String>>,
    /// The port of the redirect URI on loopback; `None` means any free one.
    pub callback_port: Option<u16>,
}
