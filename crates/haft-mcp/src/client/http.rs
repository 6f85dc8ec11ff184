//! The HTTP client of a server: TLS roots, headers, no redirect to another origin.
//!
//! INVARIANT: a token of one server is never sent to another host: redirects are not followed.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ::http::{HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Url, redirect::Policy};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::{config::HttpEndpoint, connection::MAX_MESSAGE_BYTES};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// How many requests of one server may be open at once.
const MAX_REQUESTS: usize = 256;

/// Headers that the transport sets.
const RESERVED: [&str; 4] = ["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];

/// Parses the URL of a server.
pub(super) fn checked_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|why| format!("`{text}` is not a URL: {why}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("`{text}` is not an HTTP URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL contains a user or a password; use a header".to_owned());
    }
    Ok(url)
}

/// Makes the HTTP client of a server. It reads no environment and follows no redirect.
pub(super) fn client(endpoint: &HttpEndpoint) -> Result<Client, String> {
    builder(&endpoint.ca_roots)?
        .build()
        .map_err(|why| format!("the HTTP client cannot be made: {}", why.without_url()))
}

/// The settings of every client.
pub(super) fn builder(ca_roots: &[Vec<u8>]) -> Result<ClientBuilder, String> {
    Ok(Client::builder()
        .tls_backend_preconfigured(tls(ca_roots)?)
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION"))))
}

/// Makes the settings of the transport.
pub(super) fn transport_config(
    endpoint: &HttpEndpoint,
) -> Result<StreamableHttpClientTransportConfig, String> {
    let url = checked_url(&endpoint.url)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .max_concurrent_requests(MAX_REQUESTS)
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        .custom_headers(headers(endpoint)?)
        .reinit_on_expired_session(true);
    if let Some(token) = &endpoint.token {
        config = config.auth_header(token.reveal());
    }
    Ok(config)
}

fn headers(endpoint: &HttpEndpoint) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut headers = HashMap::new();
    for (name, value) in &endpoint.headers {
        let wrong = |_| format!("the header `{name}` has a character that no header may contain");
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("`{name}` is not the name of a header"))?;
        if RESERVED.contains(&key.as_str()) {
            return Err(format!("the header `{name}` belongs to the protocol"));
        }
        let mut value = HeaderValue::from_str(value.reveal()).map_err(wrong)?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// The settings without own authorities. They are made once, because a hundred servers start at
/// once and a list of authorities is long.
static PUBLIC_ROOTS: OnceLock<ClientConfig> = OnceLock::new();

/// Trusts the public certificate authorities and these additional ones.
fn tls(ca_roots: &[Vec<u8>]) -> Result<ClientConfig, String> {
    if !ca_roots.is_empty() {
        return tls_of(ca_roots);
    }
    if let Some(config) = PUBLIC_ROOTS.get() {
        return Ok(config.clone());
    }
    let config = tls_of(&[])?;
    Ok(PUBLIC_ROOTS.get_or_init(|| config).clone())
}

fn tls_of(ca_roots: &[Vec<u8>]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for certificate in ca_roots.iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem)) {
        let added = certificate
            .map_err(|why| why.to_string())
            .and_then(|der| roots.add(der).map_err(|why| why.to_string()));
        added.map_err(|why| format!("a certificate of an own authority cannot be used: {why}"))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| format!("TLS cannot be set up: {why}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
