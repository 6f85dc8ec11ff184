//! Streamable HTTP: one endpoint for both versions of the protocol.
//!
//! A request passes these checks, in this order: connection limit, path, bearer token, rate limit,
//! owner of the session, size and time of the body, `Host` and `Origin` (DNS rebinding), headers
//! against the body.
//!
//! INVARIANT: without a token only loopback addresses are served.

mod limits;
mod sessions;

use std::{convert::Infallible, fmt, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use haft::{Error, ErrorKind};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use self::{
    limits::{RateLimit, Tokens},
    sessions::BoundedSessions,
};
use super::{
    McpServer, conversation::Principal, handler::Handler, request_streams::SESSION_HEADER,
};

/// The path of the endpoint.
const ENDPOINT: &str = "/mcp";
/// How often a waiting response sends a comment, so that no proxy closes it. Proxies wait for a
/// minute or longer. It is longer than the timeout of a request, so that a short call does not set
/// the next timer of the process, which would wake a thread.
const KEEP_ALIVE: Duration = Duration::from_secs(45);
/// How long open requests may take to end when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// How HTTP is served.
#[must_use]
pub struct HttpOptions {
    tokens: Tokens,
    hosts: Vec<String>,
    origins: Vec<String>,
    max_body_bytes: usize,
    max_connections: usize,
    max_sessions: usize,
    session_idle: Duration,
    request_timeout: Duration,
    requests_per_second: u32,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            tokens: Tokens::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            // As long as the longest line of a connection over pipes.
            max_body_bytes: 8 << 20,
            // Each costs a file descriptor, of which a process often has 1 024.
            max_connections: 512,
            max_sessions: 1_000,
            session_idle: Duration::from_secs(30 * 60),
            request_timeout: Duration::from_secs(30),
            // Far more than an agent makes, and what one core can answer.
            requests_per_second: 10_000,
        }
    }
}

impl HttpOptions {
    /// Accepts a bearer token. Its name is the caller's, in records, rules and views.
    pub fn token(mut self, name: &str, token: &str) -> Self {
        self.tokens.add(name, token);
        self
    }

    /// Accepts requests for this host name, in addition to loopback names and the own address.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Accepts requests of web pages of this origin, such as `https://app.example.com:443`, in
    /// addition to the own one.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Sets the largest body of a request, in bytes.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets how many connections are open at once. Further ones wait.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets how many sessions there are at once. A further one ends the one that was used longest
    /// ago.
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets how long a session may be idle before it ends.
    pub fn session_idle(mut self, time: Duration) -> Self {
        self.session_idle = time;
        self
    }

    /// Sets how long a client may take to send the head of a request, and as long again for its
    /// body (slow-loris). It is also how long an idle connection is kept.
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = time;
        self
    }

    /// Checks that an address may be served with these options.
    ///
    /// # Errors
    /// Fails if it is not a loopback address and there is no token.
    pub fn check(&self, address: SocketAddr) -> Result<(), Error> {
        if address.ip().is_loopback() || !self.tokens.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::BadConfig,
            format!("{address} is not a loopback address, and there is no token"),
        )
        .hint("serve on 127.0.0.1, or set a bearer token"))
    }

    /// Sets how many requests each caller may make per second.
    pub fn requests_per_second(mut self, requests: u32) -> Self {
        self.requests_per_second = requests;
        self
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

/// What all connections share.
struct HttpServer {
    service: StreamableHttpService<Handler, BoundedSessions>,
    sessions: Arc<BoundedSessions>,
    tokens: Tokens,
    rate: RateLimit,
    max_body_bytes: usize,
    request_timeout: Duration,
}

impl McpServer {
    /// Serves clients over HTTP at `/mcp`, until `stop` is cancelled.
    ///
    /// # Errors
    /// Fails as [`HttpOptions::check`] does.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        options: HttpOptions,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let address = listener.local_addr().map_err(|e| {
            Error::new(ErrorKind::BadConfig, format!("the address is unknown: {e}"))
        })?;
        options.check(address)?;
        self.warm_up().await;
        let connections = Arc::new(Semaphore::new(options.max_connections.max(1)));
        let server = Arc::new(self.http_server(address, options, &stop));
        let mut open = JoinSet::new();
        loop {
            let permit = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = open.join_next(), if !open.is_empty() => continue,
                permit = Arc::clone(&connections).acquire_owned() => permit,
            };
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Too many open files, for example: it may be over in a moment.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (server, stop) = (Arc::clone(&server), stop.clone());
            open.spawn(async move {
                serve_connection(server, stream, stop).await;
                drop(permit);
            });
        }
        let _ =
            tokio::time::timeout(STOP_GRACE, async { while open.join_next().await.is_some() {} })
                .await;
        Ok(())
    }

    fn http_server(
        &self,
        address: SocketAddr,
        options: HttpOptions,
        stop: &CancellationToken,
    ) -> HttpServer {
        let sessions = Arc::new(BoundedSessions::new(options.max_sessions, options.session_idle));
        let port = address.port();
        let own = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}"));
        let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let hosts = loopback.into_iter().chain([address.ip().to_string()]).chain(options.hosts);
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_allowed_hosts(hosts)
            .with_allowed_origins(own.into_iter().chain(options.origins))
            .enforce_origin_validation()
            .with_max_request_body_bytes(options.max_body_bytes)
            .with_cancellation_token(stop.child_token());
        let core = Arc::clone(&self.0);
        let factory = move || Ok(Handler::new(Arc::clone(&core), true));
        HttpServer {
            service: StreamableHttpService::new(factory, Arc::clone(&sessions), config),
            sessions,
            tokens: options.tokens,
            rate: RateLimit::new(options.requests_per_second),
            max_body_bytes: options.max_body_bytes,
            request_timeout: options.request_timeout,
        }
    }
}

async fn serve_connection(server: Arc<HttpServer>, stream: TcpStream, stop: CancellationToken) {
    // Without it a response in several writes waits 40 ms for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let head_timeout = server.request_timeout;
    let respond = service_fn(move |request: Request<Incoming>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.respond(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(stream), respond);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

impl HttpServer {
    async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        if request.uri().path() != ENDPOINT {
            return plain(StatusCode::NOT_FOUND, "the endpoint is /mcp");
        }
        let Some(caller) = self.tokens.caller(request.headers()) else {
            let mut response = plain(StatusCode::UNAUTHORIZED, "a bearer token is required");
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            return response;
        };
        if let Err(wait) = self.rate.count(&caller) {
            let mut response = plain(StatusCode::TOO_MANY_REQUESTS, "too many requests");
            let seconds = HeaderValue::from(wait.as_secs() + 1);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            return response;
        }
        let session = request.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        if let Some(id) = session
            && !self.sessions.is_owner(id, &caller)
        {
            // The same answer as for a session that does not exist.
            return plain(StatusCode::NOT_FOUND, "Not Found: Session not found");
        }
        let is_new = session.is_none();
        let request = match self.read(request, &caller).await {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        let response = self.service.handle(request).await;
        let opened = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        if let Some(id) = opened.filter(|_| is_new) {
            self.sessions.bind(id, &caller);
        }
        response
    }

    /// Reads the body within its limits, and adds the caller.
    async fn read(
        &self,
        request: Request<Incoming>,
        caller: &Principal,
    ) -> Result<Request<Full<Bytes>>, HttpResponse> {
        let (mut parts, body) = request.into_parts();
        let body = Limited::new(body, self.max_body_bytes);
        let body = match tokio::time::timeout(self.request_timeout, body.collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(e)) if e.is::<LengthLimitError>() => {
                return Err(plain(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large"));
            }
            Ok(Err(_)) => {
                return Err(plain(StatusCode::BAD_REQUEST, "the request is incomplete"));
            }
            Err(_) => {
                return Err(plain(StatusCode::REQUEST_TIMEOUT, "the request took too long"));
            }
        };
        parts.extensions.insert(caller.clone());
        parts.extensions.insert(Arc::clone(&self.sessions.streams));
        Ok(Request::from_parts(parts, Full::new(body)))
    }
}

fn plain(status: StatusCode, text: &'static str) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
