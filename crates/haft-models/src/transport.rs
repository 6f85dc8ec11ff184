//! The HTTP client: TLS roots, proxy, connection timeout, headers.
//!
//! It follows no redirect, reads no environment, and uses HTTP/1.1. A key is a sensitive header: no
//! debug output has it.

use std::{sync::Arc, time::Duration};

use haft::{Error, ErrorKind, secrets::Secret};
use reqwest::{
    Client, Proxy, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::{Provider, provider::without_user};

/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a client is made of.
pub(crate) struct ClientOptions<'a> {
    pub(crate) provider: Provider,
    pub(crate) key: Option<&'a Secret>,
    pub(crate) proxy: Option<&'a str>,
    /// Certificates of own authorities, as PEM.
    pub(crate) ca_roots: &'a [Vec<u8>],
    pub(crate) connect: Duration,
}

/// Makes a client.
pub(crate) fn client(options: &ClientOptions<'_>) -> Result<Client, Error> {
    let mut client = Client::builder()
        .tls_backend_preconfigured(tls(options.ca_roots)?)
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(options.connect)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers(options)?);
    if let Some(address) = options.proxy {
        client = client.proxy(proxy(address)?);
    }
    client
        .build()
        .map_err(|error| bad(format!("the HTTP client cannot be made: {}", error.without_url())))
}

/// Parses the address of a server.
pub(crate) fn address(text: &str) -> Result<Url, Error> {
    let shown = without_user(text);
    let url = Url::parse(text).map_err(|why| {
        bad(format!("`{shown}` is not an address: {why}"))
            .hint("write it as in `https://host/v1` or `http://localhost:8000/v1`")
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad(format!("`{shown}` is not an HTTP address"))
            .hint("write it as in `https://host/v1` or `http://localhost:8000/v1`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(format!("the address of `{shown}` contains a user or a password"))
            .hint("pass the key as a key; it is sent in a header"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad(format!("`{shown}` has a `?` or a `#`"))
            .hint("the base URL ends with a path, as in `https://host/v1`"));
    }
    Ok(url)
}

fn proxy(address: &str) -> Result<Proxy, Error> {
    let wrong = || {
        bad(format!("`{}` is not the address of an HTTP proxy", without_user(address)))
            .hint("write it as in `http://proxy.example:3128`")
    };
    // Other schemes would be accepted and then fail at the first request.
    if !address.starts_with("http://") && !address.starts_with("https://") {
        return Err(wrong());
    }
    Proxy::all(address).map_err(|_| wrong())
}

fn headers(options: &ClientOptions<'_>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in options.provider.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = options.key {
        let (name, before) = options.provider.key_header();
        let mut value =
            HeaderValue::from_str(&format!("{before}{}", key.reveal())).map_err(|_| {
                bad("the key has a character that no header may contain")
                    .hint("copy it again, without line breaks")
            })?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// Trusts the public certificate authorities and these additional ones.
fn tls(ca_roots: &[Vec<u8>]) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for pem in ca_roots {
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let added = certificate
                .map_err(|why| why.to_string())
                .and_then(|der| roots.add(der).map_err(|why| why.to_string()));
            added.map_err(|why| {
                bad(format!("a certificate of an own authority cannot be used: {why}"))
                    .hint("it must be PEM, with the lines BEGIN CERTIFICATE and END CERTIFICATE")
            })?;
            count += 1;
        }
        if count == 0 {
            return Err(bad("the file of an own authority has no certificate")
                .hint("it must be PEM, with the lines BEGIN CERTIFICATE and END CERTIFICATE"));
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| bad(format!("TLS cannot be set up: {why}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadConfig, message)
}
