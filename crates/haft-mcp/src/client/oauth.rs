//! OAuth 2.1 for HTTP servers: tokens from a store of the host, and a login in a browser.
//!
//! Discovery, registration, PKCE, `resource`, `iss` and refresh are the SDK's. Here are the limits:
//! which hosts metadata may name, how often a login is tried, and what is kept.
//!
//! INVARIANT: a token belongs to one server. It is never sent to another URL.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use haft::{BoxFuture, secrets::Secret, tool::BoxError};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore,
    StoredCredentials, WWWAuthenticateParams,
};

use super::{config::HttpEndpoint, http, oauth_http::OAuthTransport};

/// How a token is obtained for an HTTP server.
#[derive(Debug, Clone, Default)]
pub struct OAuthSettings {
    /// The client id, if one was registered beforehand.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// The URL of a client metadata document, which is the client id where a server accepts it.
    pub client_metadata_url: Option<String>,
    /// The scopes to ask for; empty means what the server names.
    pub scopes: Vec<String>,
    /// The port of the redirect URI on loopback; `None` means any free one.
    pub callback_port: Option<u16>,
}

/// Lets a person log in: opens a URL, and returns the redirect that follows.
pub trait Browser: Send + Sync + 'static {
    /// Returns the redirect URI, on loopback.
    fn redirect_uri(&self) -> String;

    /// Opens a URL and waits until the browser is redirected. Returns the whole redirect URL.
    fn authorize(&self, url: String) -> BoxFuture<'_, Result<String, BoxError>>;
}

impl fmt::Debug for dyn Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Browser")
    }
}

/// Keeps the credentials of servers: the text is a secret.
pub trait Credentials: Send + Sync + 'static {
    /// Returns what is kept of a server.
    ///
    /// # Errors
    /// Fails if the store cannot be read. FAIL CLOSED: that is not the same as nothing.
    fn load(&self, server: &str) -> Result<Option<Secret>, BoxError>;

    /// Keeps the credentials of a server, or removes them.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    fn save(&self, server: &str, credentials: Option<Secret>) -> Result<(), BoxError>;
}

impl fmt::Debug for dyn Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// The credentials of one server in the store of the host. They are bound to the URL of the server:
/// under another URL they are not used.
#[derive(Clone)]
struct ServerCredentials {
    server: String,
    url: String,
    store: Arc<dyn Credentials>,
}

/// What is kept of one server.
#[derive(serde::Serialize, serde::Deserialize)]
struct KeptCredentials {
    url: String,
    credentials: StoredCredentials,
}

fn store_error(why: impl fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(why.to_string())
}

#[async_trait]
impl CredentialStore for ServerCredentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let Some(text) = self.store.load(&self.server).map_err(store_error)? else {
            return Ok(None);
        };
        let kept: KeptCredentials = serde_json::from_str(text.reveal()).map_err(store_error)?;
        Ok((kept.url == self.url).then_some(kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = KeptCredentials { url: self.url.clone(), credentials };
        let text = serde_json::to_string(&kept).map_err(store_error)?;
        self.store.save(&self.server, Some(Secret::from(text.as_str()))).map_err(store_error)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.store.save(&self.server, None).map_err(store_error)
    }
}

/// What OAuth needs to know about one server.
pub(super) struct ServerAuth<'a> {
    pub(super) server: &'a str,
    pub(super) endpoint: &'a HttpEndpoint,
    pub(super) credentials: &'a Arc<dyn Credentials>,
}

impl ServerAuth<'_> {
    /// Makes a manager with what is kept.
    pub(super) async fn manager(&self) -> Result<AuthorizationManager, AuthError> {
        let mut manager = self.empty_manager().await?;
        // Metadata that cannot be found now is found with the first challenge.
        if let Err(error) = manager.initialize_from_store().await
            && matches!(error, AuthError::CredentialStoreError(_))
        {
            return Err(error);
        }
        Ok(manager)
    }

    async fn empty_manager(&self) -> Result<AuthorizationManager, AuthError> {
        let url = http::checked_url(&self.endpoint.url).map_err(AuthError::InternalError)?;
        let transport =
            OAuthTransport::new(&url, &self.endpoint.ca_roots).map_err(AuthError::InternalError)?;
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(url.as_str(), Arc::new(transport))
                .await?;
        manager.set_credential_store(self.kept()?);
        Ok(manager)
    }

    fn kept(&self) -> Result<ServerCredentials, AuthError> {
        let url = http::checked_url(&self.endpoint.url).map_err(AuthError::InternalError)?;
        Ok(ServerCredentials {
            server: self.server.to_owned(),
            url: url.to_string(),
            store: Arc::clone(self.credentials),
        })
    }

    /// Logs in: a person allows it in a browser, and the tokens are kept.
    pub(super) async fn login(
        &self,
        browser: &dyn Browser,
        challenge: Option<&str>,
    ) -> Result<(), AuthError> {
        let settings = self.endpoint.oauth.clone().unwrap_or_default();
        let mut manager = self.empty_manager().await?;
        let kept = self.kept()?.load().await?;
        let granted = kept.map(|kept| kept.granted_scopes).unwrap_or_default();
        let resolution = manager.resolve_metadata_from_challenge(challenge).await?;
        manager.set_metadata(resolution.metadata);
        let mut request =
            AuthorizationRequest::new(browser.redirect_uri()).with_client_name("haft");
        if let Some(challenge) = challenge {
            request = request.with_challenge(challenge);
        }
        let scopes = self.scopes(&settings, challenge, granted);
        if !scopes.is_empty() {
            request = request.with_scopes(scopes);
        }
        if let Some(id) = settings.client_id {
            request = request.with_preregistered_client(id);
        }
        if let Some(secret) = settings.client_secret {
            request = request.with_client_secret(secret.reveal());
        }
        if let Some(url) = settings.client_metadata_url {
            request = request.with_client_metadata_url(url);
        }
        let session =
            AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
        let opened = browser.authorize(session.get_authorization_url().to_owned()).await;
        let redirect = opened.map_err(|why| AuthError::AuthorizationFailed(why.to_string()))?;
        session.handle_callback_url(&redirect).await?;
        Ok(())
    }

    /// The scopes to ask for: those that are configured, or, for a step-up, the granted ones and
    /// those that the server wants.
    fn scopes(
        &self,
        settings: &OAuthSettings,
        challenge: Option<&str>,
        granted: Vec<String>,
    ) -> Vec<String> {
        let url = http::checked_url(&self.endpoint.url).ok();
        let wanted = challenge
            .zip(url)
            .map(|(challenge, url)| WWWAuthenticateParams::parse(challenge, &url));
        let is_step_up = wanted.as_ref().is_some_and(|wanted| wanted.is_insufficient_scope());
        let mut scopes = settings.scopes.clone();
        if is_step_up {
            scopes.extend(granted);
            let named = wanted.and_then(|wanted| wanted.scope).unwrap_or_default();
            scopes.extend(named.split_whitespace().map(str::to_owned));
        }
        let mut seen = std::collections::BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }
}
