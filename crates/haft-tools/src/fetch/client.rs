//! One HTTP request and its response, over a connection to a checked address (SSRF, DNS rebinding).
//!
//! No pool, proxy, cookies, credentials or redirects: the caller decides what follows. Connecting,
//! the response head and each body chunk have a timeout; head and body have a size limit. Dropping
//! the future closes the connection.
//!
//! On hyper instead of a whole client: the connection goes to the address that was checked, and the
//! size of the response head is limited.

use std::{fmt, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use haft_core::{Execution, Failure, FailureCode, RetryHint};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{self, HeaderName},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName},
    },
};
use url::{Host, Position};

use super::{body::Body, target::Target, text, wire::Wire};

/// Timeout for connecting, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the response head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout between two chunks of the body.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the response head, and maximum number of header lines.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;
/// Number of addresses of one host that are tried.
const MAX_ADDRESSES_TRIED: usize = 3;

/// HTTP client.
#[derive(Clone)]
pub(super) struct Client {
    tls_config: Arc<ClientConfig>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Content-Type`, unparsed.
    pub(super) kind: Option<String>,
    /// `Location`, unparsed.
    pub(super) location: Option<String>,
    /// `Retry-After`, if it is a number of seconds.
    pub(super) after: Option<Duration>,
    /// `Content-Length`.
    pub(super) announced: Option<u64>,
    /// `None` if the status or the type makes it useless to read.
    pub(super) body: Option<Vec<u8>>,
    /// Whether the body was truncated.
    pub(super) truncated: bool,
}

impl Client {
    /// Trusts the public certificate authorities and these additional ones.
    pub(super) fn new(extra: &[Vec<u8>]) -> Result<Self, tokio_rustls::rustls::Error> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for der in extra {
            roots.add(CertificateDer::from(der.clone()))?;
        }
        let mut tls_config =
            ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
        tls_config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls_config: Arc::new(tls_config) })
    }

    /// Requests one URL from one of the socket addresses that were checked for it.
    pub(super) async fn get(
        &self,
        target: &Target,
        checked: &[SocketAddr],
        cap: usize,
    ) -> Result<Answer, Failure> {
        let wire = self.connect(target, checked).await?;
        let mut settings = http1::Builder::new();
        settings
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(2 * MAX_HEAD_BYTES);
        let (mut sender, connection) = settings
            .handshake(wire)
            .await
            .map_err(|error| broken(target, "the connection failed").with_source(error))?;
        let request = request(target)?;
        let mut exchange = pin!(async move {
            let answer = timeout(HEAD_TIMEOUT, sender.send_request(request))
                .await
                .map_err(|_| slow(target, "no response"))?
                .map_err(|error| unreadable(target, error))?;
            read(target, answer, cap).await
        });
        // The connection future drives the exchange. It may finish first, when the rest of the
        // response is already buffered.
        tokio::select! {
            done = &mut exchange => done,
            _ = connection => exchange.await,
        }
    }

    async fn connect(&self, target: &Target, checked: &[SocketAddr]) -> Result<Wire, Failure> {
        let mut last = broken(target, "there is no address to connect to");
        for address in checked.iter().take(MAX_ADDRESSES_TRIED) {
            match timeout(CONNECT_TIMEOUT, self.connect_to(target, *address)).await {
                Ok(Ok(wire)) => return Ok(wire),
                Ok(Err(failure)) => last = failure,
                Err(_) => last = slow(target, "no connection"),
            }
        }
        Err(last)
    }

    async fn connect_to(&self, target: &Target, address: SocketAddr) -> Result<Wire, Failure> {
        let stream = TcpStream::connect(address).await.map_err(|error| {
            broken(target, "connection refused or host unreachable").with_source(error)
        })?;
        // TOCTOU: the peer must be the address that was checked.
        let reached = stream
            .peer_addr()
            .map_err(|error| broken(target, "the connection failed").with_source(error))?;
        if reached != address {
            return Err(broken(target, "the connected address is not the checked one"));
        }
        if !target.is_tls() {
            return Ok(Wire::Plain(stream));
        }
        let name = match target.host() {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|error| {
                broken(target, "the host name is not valid in a certificate").with_source(error)
            })?,
            Host::Ipv4(address) => ServerName::IpAddress((*address).into()),
            Host::Ipv6(address) => ServerName::IpAddress((*address).into()),
        };
        let connector = TlsConnector::from(Arc::clone(&self.tls_config));
        let stream = connector.connect(name, stream).await.map_err(|error| {
            broken(target, "no trusted TLS connection could be made").with_source(error)
        })?;
        Ok(Wire::Encrypted(Box::new(stream)))
    }
}

/// Builds the request. It contains no credentials, cookies or referrer.
fn request(target: &Target) -> Result<Request<Empty<Bytes>>, Failure> {
    let url = target.url();
    Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(header::USER_AGENT, concat!("haft/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.1")
        .header(header::ACCEPT_ENCODING, "gzip")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
        .map_err(|error| Failure::invalid("`url` cannot be requested").with_source(error))
}

async fn read(target: &Target, answer: Response<Incoming>, cap: usize) -> Result<Answer, Failure> {
    let header_text = |name: HeaderName| {
        let value = answer.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let mut read = Answer {
        status: answer.status(),
        kind: header_text(header::CONTENT_TYPE),
        location: header_text(header::LOCATION),
        after: header_text(header::RETRY_AFTER)
            .and_then(|after| after.trim().parse().ok())
            .map(Duration::from_secs),
        announced: header_text(header::CONTENT_LENGTH)
            .and_then(|length| length.trim().parse().ok()),
        body: None,
        truncated: false,
    };
    if !read.status.is_success() || !text::is_readable(read.kind.as_deref()) {
        return Ok(read);
    }
    let encoding = header_text(header::CONTENT_ENCODING);
    let Some(mut body) = Body::new(encoding.as_deref(), cap) else {
        return Err(broken(target, "the response uses a content encoding that was not requested"));
    };
    let mut incoming = answer.into_body();
    loop {
        let frame = timeout(CHUNK_TIMEOUT, incoming.frame())
            .await
            .map_err(|_| slow(target, "the response stopped in the middle"))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| unreadable(target, error))?;
        let Some(piece) = frame.data_ref() else { continue };
        let more = body.push(piece).map_err(|error| damaged(target, error))?;
        if !more {
            break;
        }
    }
    let (bytes, truncated) = body.finish().map_err(|error| damaged(target, error))?;
    read.body = Some(bytes);
    read.truncated = truncated;
    Ok(read)
}

fn broken(target: &Target, why: &str) -> Failure {
    Failure::failed(format!("`{}` could not be fetched: {why}", target.host()))
        .with_next("try another URL, or this one later")
}

fn damaged(target: &Target, error: std::io::Error) -> Failure {
    broken(target, "the response is not valid gzip").with_source(error)
}

fn unreadable(target: &Target, error: hyper::Error) -> Failure {
    let why = match &error {
        _ if error.is_incomplete_message() => "the response ended early",
        _ if error.is_parse() => "the response is not valid HTTP, or its head is too large",
        _ => "the connection failed in the middle of the response",
    };
    broken(target, why).with_source(error)
}

fn slow(target: &Target, why: &str) -> Failure {
    Failure::new(
        FailureCode::TimedOut,
        format!("the request to `{}` timed out: {why}", target.host()),
    )
    .with_retry(RetryHint::Later)
    .with_execution(Execution::Completed)
}
