//! The HTTP client of the transport, with a bound on every response body. The SDK bounds events of
//! a stream; a body that is plain JSON it reads whole, whatever its size.
//!
//! INVARIANT: no more than the limit of one response is kept in memory. A request whose response is
//! larger is answered with an error, so that its call ends at once.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ::http::{HeaderName, HeaderValue, StatusCode, header};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use reqwest::{Client, Response};
use rmcp::{
    ErrorData,
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
        StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Sse, SseStream};

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// How much of an error page is shown.
const MAX_ERROR_CHARS: usize = 300;

type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A client that never reads more of a response than it may.
#[derive(Debug, Clone)]
pub(super) struct BoundedHttp(pub(super) Client);

impl BoundedHttp {
    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        token: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut request = self.0.post(uri).headers(headers.into_iter().collect());
        request = request.header(header::ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let response = request.json(message).send().await.map_err(HttpError::Client)?;
        check_challenge(&response)?;
        let status = response.status();
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            StatusCode::NOT_FOUND if session.is_some() => return Err(HttpError::SessionExpired),
            _ => {}
        }
        let opened = text_of(&response, SESSION);
        let kind = text_of(&response, header::CONTENT_TYPE.as_str());
        let is = |mime: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(mime));
        if status.is_success() && is(EVENTS) {
            let events = SseStream::from_bytes_stream(BoundedEvents::new(response, max));
            return Ok(StreamableHttpPostResponse::Sse(events.boxed(), opened));
        }
        let retry_after = text_of(&response, header::RETRY_AFTER.as_str());
        let failed = || HttpStatusError::new(status.as_u16(), retry_after.clone());
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() && !is(JSON) {
            return Err(failed().into());
        }
        let is_json = is(JSON);
        let Some(body) = read(response, max).await? else { return Ok(too_large(message, max)) };
        if !status.is_success() {
            return refused(message, session, status, is_json, &body, failed);
        }
        match (serde_json::from_slice(&body), request_id(message)) {
            (Ok(answer), _) if is_json => Ok(StreamableHttpPostResponse::Json(answer, opened)),
            // What is not a request needs no answer.
            (_, None) if is_json || body.is_empty() => Ok(StreamableHttpPostResponse::Accepted),
            _ if !is_json => Err(HttpError::UnexpectedContentType(kind)),
            _ => Err(unexpected(format!("the response is not JSON-RPC: {}", shown(&body)))),
        }
    }
}

/// The error for a request that the server refused with a status.
fn refused(
    message: &ClientJsonRpcMessage,
    session: Option<&str>,
    status: StatusCode,
    is_json: bool,
    body: &[u8],
    failed: impl FnOnce() -> HttpStatusError,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
        Ok(JsonRpcMessage::Error(error)) if !is_auth => Some(error),
        _ => None,
    };
    // A server of the older protocol may refuse the probe without knowing its id.
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && session.is_none()
        && status.is_client_error()
        && !is_auth
    {
        let why = format!("HTTP {status}: {}", shown(body));
        let error = error.map(|error| error.error);
        let error = error.unwrap_or_else(|| ErrorData::invalid_request(why, None));
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match error {
        Some(error) if is_json => {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None))
        }
        _ if status.is_server_error() => Err(failed().into()),
        _ => Err(unexpected(format!("HTTP {status}: {}", shown(body)))),
    }
}

fn unexpected(what: String) -> HttpError {
    HttpError::UnexpectedServerResponse(what.into())
}

/// The start of a body, for a message.
fn shown(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(MAX_ERROR_CHARS).collect()
}

fn text_of(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Returns the challenge of a server that wants another token as an error.
fn check_challenge(response: &Response) -> Result<(), HttpError> {
    let Some(challenge) = text_of(response, header::WWW_AUTHENTICATE.as_str()) else {
        return Ok(());
    };
    match response.status() {
        StatusCode::UNAUTHORIZED => Err(HttpError::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            let scope = scope(&challenge);
            Err(HttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        _ => Ok(()),
    }
}

/// The scope that a challenge names: `scope="a b"` or `scope=a`.
fn scope(challenge: &str) -> Option<String> {
    let at = challenge.to_ascii_lowercase().find("scope=")?;
    let value = challenge.get(at + "scope=".len()..)?;
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([',', ' ']).next(),
    };
    scope.filter(|scope| !scope.is_empty()).map(str::to_owned)
}

/// Reads a body; `None` if it is too large.
async fn read(mut response: Response, max: usize) -> Result<Option<Vec<u8>>, HttpError> {
    let is_too_large = |length: u64| length > max as u64;
    if response.content_length().is_some_and(is_too_large) {
        return Ok(None);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(HttpError::Client)? {
        if chunk.len() > max - body.len() {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Answers a request in place of a response that is too large.
fn too_large(message: &ClientJsonRpcMessage, max: usize) -> StreamableHttpPostResponse {
    match request_id(message) {
        Some(id) => {
            let why = format!("the response is larger than {max} bytes");
            let error = ErrorData::internal_error(why, None);
            StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None)
        }
        None => StreamableHttpPostResponse::Accepted,
    }
}

/// The bytes of a stream of events, each with a bound. A larger one ends the stream.
struct BoundedEvents {
    inner: BoxStream<'static, reqwest::Result<Bytes>>,
    max: usize,
    /// The length of the current event and of its current line.
    event: usize,
    line: usize,
}

impl BoundedEvents {
    fn new(response: Response, max: usize) -> Self {
        Self { inner: response.bytes_stream().boxed(), max, event: 0, line: 0 }
    }

    /// Counts a chunk; `false` if an event is too large.
    fn admits(&mut self, chunk: &[u8]) -> bool {
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.event += line.len();
            if self.event > self.max {
                return false;
            }
            let text = line.iter().filter(|byte| !matches!(byte, b'\r' | b'\n')).take(1).count();
            self.line += text;
            if line.ends_with(b"\n") {
                if self.line == 0 {
                    self.event = 0; // an empty line ends an event
                }
                self.line = 0;
            }
        }
        true
    }
}

impl Stream for BoundedEvents {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        Poll::Ready(match ready!(this.inner.poll_next_unpin(cx)) {
            Some(Ok(chunk)) if this.admits(&chunk) => Some(Ok(chunk)),
            Some(Ok(_)) => {
                let why = format!("an event is larger than {} bytes", this.max);
                Some(Err(std::io::Error::other(why)))
            }
            Some(Err(error)) => Some(Err(std::io::Error::other(error))),
            None => None,
        })
    }
}

impl StreamableHttpClient for BoundedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let max = super::connection::MAX_MESSAGE_BYTES;
        self.post(&uri, &message, session.as_deref(), token, headers, max).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.post(&uri, &message, session.as_deref(), token, headers, max).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        self.0.get_stream(uri, session, last_event, token, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let stream = self
            .0
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max);
        stream.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(max: usize) -> BoundedEvents {
        BoundedEvents { inner: futures_util::stream::empty().boxed(), max, event: 0, line: 0 }
    }

    #[test]
    fn events_are_bounded_one_by_one_whatever_their_chunks() {
        let mut counter = counter(12);
        for chunk in ["data: a\n\n", "da", "ta: b\r", "\n\r\n", "data: c\n", "\n"] {
            assert!(counter.admits(chunk.as_bytes()), "{chunk:?}");
        }
        assert!(counter.admits(b"data: 123456"), "twelve bytes without an end");
        assert!(!counter.admits(b"7"), "no end in sight");
    }

    #[test]
    fn scope_of_a_challenge_is_found_in_both_forms() {
        for (challenge, found) in [
            ("Bearer error=\"x\", scope=\"a b\", realm=\"r\"", Some("a b")),
            ("Bearer SCOPE=a,error=x", Some("a")),
            ("Bearer scope=\"\"", None),
            ("Bearer", None),
        ] {
            assert_eq!(scope(challenge).as_deref(), found, "{challenge}");
        }
    }
}
