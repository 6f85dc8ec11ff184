//! One request and its answer, over a connection to a checked address.
//!
//! No pool, no proxy, no cookies, no credentials, no redirect: whoever calls decides what comes
//! next. Everything ends: connecting, the head and each wait for a piece have a time, the head and
//! the body have a size. Dropping the future closes the connection.

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

/// How long a connection may take, with its handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the head of an answer may take.
const HEAD: Duration = Duration::from_secs(20);
/// How long a server may be silent in the middle of an answer.
const SILENCE: Duration = Duration::from_secs(10);
/// How large the head of an answer may be, and how many lines it may have.
const HEAD_BYTES: usize = 64 << 10;
const HEAD_LINES: usize = 128;
/// So many addresses of one host are tried.
const TRIES: usize = 3;

/// What makes requests.
#[derive(Clone)]
pub(super) struct Client {
    encryption: Arc<ClientConfig>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Content-Type`, as it came.
    pub(super) kind: Option<String>,
    /// `Location`, as it came.
    pub(super) location: Option<String>,
    /// `RetryHint-PostCallResult`, where it is a number of seconds.
    pub(super) after: Option<Duration>,
    /// `Content-Length`, where the body was not read.
    pub(super) announced: Option<u64>,
    /// Nothing where nobody would read it.
    pub(super) body: Option<Vec<u8>>,
    /// The body was longer.
    pub(super) cut: bool,
}

impl Client {
    /// Trusts the usual authorities and, beside them, these.
    pub(super) fn new(extra: &[Vec<u8>]) -> Result<Self, tokio_rustls::rustls::Error> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for der in extra {
            roots.add(CertificateDer::from(der.clone()))?;
        }
        let mut encryption =
            ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
        encryption.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { encryption: Arc::new(encryption) })
    }

    /// Gets one address, from one of the socket addresses that were checked for it.
    pub(super) async fn get(
        &self,
        target: &Target,
        checked: &[SocketAddr],
        cap: usize,
    ) -> Result<Answer, Failure> {
        let wire = self.connect(target, checked).await?;
        let mut settings = http1::Builder::new();
        settings.max_headers(HEAD_LINES).max_header_size(HEAD_BYTES).max_buf_size(2 * HEAD_BYTES);
        let (mut sender, connection) = settings
            .handshake(wire)
            .await
            .map_err(|error| broken(target, "the connection broke").with_source(error))?;
        let request = request(target)?;
        let mut exchange = pin!(async move {
            let answer = timeout(HEAD, sender.send_request(request))
                .await
                .map_err(|_| slow(target, "no answer"))?
                .map_err(|error| unreadable(target, error))?;
            read(target, answer, cap).await
        });
        // The connection does the work of the exchange. It may end first, with all that is left to
        // read handed over already.
        tokio::select! {
            done = &mut exchange => done,
            _ = connection => exchange.await,
        }
    }

    async fn connect(&self, target: &Target, checked: &[SocketAddr]) -> Result<Wire, Failure> {
        let mut last = broken(target, "there is no address to connect to");
        for address in checked.iter().take(TRIES) {
            match timeout(CONNECT, self.connect_to(target, *address)).await {
                Ok(Ok(wire)) => return Ok(wire),
                Ok(Err(failure)) => last = failure,
                Err(_) => last = slow(target, "no connection"),
            }
        }
        Err(last)
    }

    async fn connect_to(&self, target: &Target, address: SocketAddr) -> Result<Wire, Failure> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| broken(target, "nobody answers there").with_source(error))?;
        // What was checked is what is connected to, whatever lies between.
        let reached = stream
            .peer_addr()
            .map_err(|error| broken(target, "the connection broke").with_source(error))?;
        if reached != address {
            return Err(broken(target, "another address answered than the one that was checked"));
        }
        if !target.is_encrypted() {
            return Ok(Wire::Plain(stream));
        }
        let name = match target.host() {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|error| {
                broken(target, "no certificate can be for such a name").with_source(error)
            })?,
            Host::Ipv4(address) => ServerName::IpAddress((*address).into()),
            Host::Ipv6(address) => ServerName::IpAddress((*address).into()),
        };
        let connector = TlsConnector::from(Arc::clone(&self.encryption));
        let stream = connector.connect(name, stream).await.map_err(|error| {
            broken(target, "no trusted encrypted connection could be made").with_source(error)
        })?;
        Ok(Wire::Encrypted(Box::new(stream)))
    }
}

/// Writes the request: nothing in it says who asks, or what was read before.
fn request(target: &Target) -> Result<Request<Empty<Bytes>>, Failure> {
    let url = target.url();
    Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(header::USER_AGENT, concat!("haft/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.1")
        .header(header::ACCEPT_ENCODING, "gzip")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
        .map_err(|error| Failure::invalid("`url` cannot be asked for").with_source(error))
}

async fn read(target: &Target, answer: Response<Incoming>, cap: usize) -> Result<Answer, Failure> {
    let word = |name: HeaderName| {
        let value = answer.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let mut read = Answer {
        status: answer.status(),
        kind: word(header::CONTENT_TYPE),
        location: word(header::LOCATION),
        after: word(header::RETRY_AFTER)
            .and_then(|after| after.trim().parse().ok())
            .map(Duration::from_secs),
        announced: word(header::CONTENT_LENGTH).and_then(|length| length.trim().parse().ok()),
        body: None,
        cut: false,
    };
    if !read.status.is_success() || !text::is_readable(read.kind.as_deref()) {
        return Ok(read);
    }
    let encoding = word(header::CONTENT_ENCODING);
    let Some(mut body) = Body::new(encoding.as_deref(), cap) else {
        return Err(broken(target, "it answers in a packing that was not asked for"));
    };
    let mut incoming = answer.into_body();
    loop {
        let frame = timeout(SILENCE, incoming.frame())
            .await
            .map_err(|_| slow(target, "it fell silent in the middle of its answer"))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| unreadable(target, error))?;
        let Some(piece) = frame.data_ref() else { continue };
        let more = body.push(piece).map_err(|error| damaged(target, error))?;
        if !more {
            break;
        }
    }
    let (bytes, cut) = body.finish().map_err(|error| damaged(target, error))?;
    read.body = Some(bytes);
    read.cut = cut;
    Ok(read)
}

fn broken(target: &Target, why: &str) -> Failure {
    Failure::failed(format!("`{}` could not be fetched: {why}", target.host()))
        .with_next("try another address, or this one later")
}

fn damaged(target: &Target, error: std::io::Error) -> Failure {
    broken(target, "its answer is packed wrongly").with_source(error)
}

fn unreadable(target: &Target, error: hyper::Error) -> Failure {
    let why = match &error {
        _ if error.is_incomplete_message() => "its answer ended too soon",
        _ if error.is_parse() => "its answer is no HTTP, or its head is too large",
        _ => "the connection broke in the middle of its answer",
    };
    broken(target, why).with_source(error)
}

fn slow(target: &Target, why: &str) -> Failure {
    Failure::new(FailureCode::TimedOut, format!("`{}` is too slow: {why}", target.host()))
        .with_retry(RetryHint::Later)
        .with_execution(Execution::Completed)
}
