//! One model call: sends the request, again after failures that may pass, and reads the response.
//!
//! In: the body of a request. Out: the message in a reply. Every wait has a timeout; dropping the
//! future closes the connection. A response whose content has begun is never requested again; an
//! error event before it counts as the status that it replaces.

use std::time::Duration;

use bytes::Bytes;
use haft::{
    Error,
    agent::{ModelRequest, Reply},
    dialect::StreamStart,
    turn::StopReason,
};
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::{Provider, backoff, failed::FailedAttempt, model::ProviderModel};

/// The longest response that is read whole. The decoders of streams have the same limit.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// The longest body of an error that is read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// The most bytes of a stream that are read before its content begins.
const MAX_START_BYTES: usize = 64 << 10;
/// How long the body of an error may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

impl ProviderModel {
    /// Returns the whole body of a request, as it is sent.
    ///
    /// # Errors
    /// Fails if the conversation cannot be written in the provider's format.
    pub fn body(&self, request: &ModelRequest<'_>) -> Result<Map<String, Value>, Error> {
        let of = &*self.inner;
        let mut body = request.body(of.provider.dialect())?;
        // Servers that constrain the output to a schema call no tool then.
        if of.provider == Provider::Compatible && !request.tools.exported_tools().is_empty() {
            body.remove("response_format");
        }
        of.provider.complete(&mut body, &of.name, request.max_tokens, of.is_streaming);
        for (key, value) in &of.extra {
            merge(body.entry(key.as_str()).or_insert(Value::Null), value);
        }
        Ok(body)
    }

    pub(crate) async fn ask(
        &self,
        request: ModelRequest<'_>,
        reply: &mut Reply,
    ) -> Result<StopReason, Error> {
        let of = &*self.inner;
        let body = Bytes::from(serde_json::to_vec(&self.body(&request)?).unwrap_or_default());
        let total = of.timeouts.total;
        let asked = timeout(total, async {
            let opened = self.send(body, Instant::now() + total).await?;
            self.read(opened, reply).await
        });
        match asked.await {
            Ok(ended) => ended.map_err(|error| of.about.redacted(error)),
            Err(_) => Err(of.about.out_of_time(total)),
        }
    }

    /// Sends the request until there is a response that is a success.
    async fn send(&self, body: Bytes, until: Instant) -> Result<Opened, Error> {
        let of = &*self.inner;
        let mut attempts = 0;
        loop {
            let failed = match self.attempt(body.clone()).await {
                Ok(opened) => return Ok(opened),
                Err(failed) => failed,
            };
            attempts += 1;
            if !failed.may_pass || attempts > of.retries.max {
                return Err(after_attempts(failed.error, attempts));
            }
            let wait = failed.wait.unwrap_or_else(|| backoff::wait(&of.retries, attempts - 1));
            if wait > of.retries.max_wait || Instant::now() + wait >= until {
                let error = after_attempts(failed.error, attempts);
                return Err(match failed.wait {
                    Some(wait) => error.hint(format!(
                        "the provider asks to wait {} s before the next request",
                        wait.as_secs_f64().ceil()
                    )),
                    None => error,
                });
            }
            sleep(wait).await;
        }
    }

    async fn attempt(&self, body: Bytes) -> Result<Opened, FailedAttempt> {
        let of = &*self.inner;
        let accepted = if of.is_streaming { "text/event-stream" } else { "application/json" };
        let request = of.client.post(of.url.clone()).header(ACCEPT, accepted).body(body);
        let response = match timeout(of.timeouts.first_byte, request.send()).await {
            Err(_) => return Err(of.about.no_first_byte(of.timeouts.first_byte)),
            Ok(Err(error)) => return Err(of.about.no_response(&error, of.timeouts.connect)),
            Ok(Ok(response)) => response,
        };
        if response.status() == StatusCode::OK {
            return self.open(response).await;
        }
        let status = response.status();
        let headers = response.headers().clone();
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let body = timeout(ERROR_BODY_TIMEOUT, start_of(response)).await.unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let wait = backoff::requested_wait(&headers, &body);
        Err(of.about.status(status, location, &body, wait))
    }

    /// Reads the start of a stream, up to its content.
    async fn open(&self, mut response: Response) -> Result<Opened, FailedAttempt> {
        let of = &*self.inner;
        let format = Format::of(&response, of.is_streaming);
        let mut opened = Vec::new();
        while format == Format::Stream && opened.len() < MAX_START_BYTES {
            match self.next_chunk(&mut response).await {
                Ok(Some(bytes)) => opened.extend_from_slice(&bytes),
                end => return Ok(Opened { response, format, start: opened, end: Some(end.err()) }),
            }
            match StreamStart::of(&opened) {
                StreamStart::Pending => {}
                StreamStart::Failed { status, body } => {
                    let wait = backoff::requested_wait(response.headers(), &body);
                    let status = StatusCode::from_u16(status);
                    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    return Err(of.about.status(status, None, &body, wait));
                }
                _ => break,
            }
        }
        Ok(Opened { response, format, start: opened, end: None })
    }

    /// Reads the next bytes of a response; `None` at its end.
    async fn next_chunk(&self, response: &mut Response) -> Result<Option<Bytes>, Error> {
        let of = &*self.inner;
        match timeout(of.timeouts.gap, response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(of.about.cut_off(Some(&error))),
            Err(_) => Err(of.about.gap(of.timeouts.gap)),
        }
    }

    /// Reads a response that is a success.
    async fn read(&self, opened: Opened, reply: &mut Reply) -> Result<StopReason, Error> {
        match &opened.format {
            Format::Stream => self.read_stream(opened, reply).await,
            Format::Whole => self.read_whole(opened.response, reply).await,
            Format::Other(kind) => Err(self.inner.about.not_the_api(kind)),
        }
    }

    async fn read_stream(&self, opened: Opened, reply: &mut Reply) -> Result<StopReason, Error> {
        let of = &*self.inner;
        let Opened { mut response, start, end, .. } = opened;
        reply.feed(&start);
        let has_ended = end.is_some();
        let mut cut = end.flatten();
        while !has_ended && !reply.has_failed() {
            match self.next_chunk(&mut response).await {
                Ok(Some(bytes)) => reply.feed(&bytes),
                Ok(None) => break,
                Err(error) => {
                    cut = Some(error);
                    break;
                }
            }
        }
        // The connection is closed here if there is more to read.
        drop(response);
        let stop = reply.end().map_err(with_next_step)?;
        match cut {
            _ if !reply.was_cut_off() => Ok(stop),
            Some(error) => Err(error),
            None => Err(of.about.cut_off(None)),
        }
    }

    async fn read_whole(
        &self,
        mut response: Response,
        reply: &mut Reply,
    ) -> Result<StopReason, Error> {
        let of = &*self.inner;
        let mut body = Vec::new();
        while let Some(bytes) = self.next_chunk(&mut response).await? {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_RESPONSE_BYTES {
                return Err(of.about.too_long(MAX_RESPONSE_BYTES));
            }
        }
        let value: Value = serde_json::from_slice(&body).map_err(|why| {
            let message = format!("the response of the provider is not valid JSON: {why}");
            with_next_step(Error::new(haft::ErrorKind::BadResponse, message))
        })?;
        reply.response(&value).map_err(with_next_step)
    }
}

/// A response that is a success, up to the start of its content.
struct Opened {
    response: Response,
    format: Format,
    /// What was read of a stream.
    start: Vec<u8>,
    /// How a stream has ended already, with the error if there is one.
    end: Option<Option<Error>>,
}

/// How a response is read.
#[derive(PartialEq)]
enum Format {
    Stream,
    Whole,
    /// Something that is not the API, with its type.
    Other(String),
}

impl Format {
    fn of(response: &Response, is_streaming: bool) -> Self {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        // Some servers ignore that a stream was requested.
        if kind.starts_with("text/event-stream") {
            Self::Stream
        } else if kind.starts_with("application/json") {
            Self::Whole
        } else if kind.starts_with("text/html") || kind.starts_with("application/xml") {
            Self::Other(kind)
        } else if is_streaming {
            Self::Stream
        } else {
            Self::Whole
        }
    }
}

/// Reads the start of a body.
async fn start_of(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        let free = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(bytes.get(..free).unwrap_or(&bytes));
        if body.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    body
}

/// Says after how many attempts a request failed.
fn after_attempts(error: Error, attempts: u32) -> Error {
    if attempts < 2 {
        return error;
    }
    let mut counted =
        Error::new(error.kind(), format!("{} (after {attempts} attempts)", error.message()));
    for hint in error.hints() {
        counted = counted.hint(hint.clone());
    }
    counted
}

/// Adds a next step to the error of a decoder that has none.
fn with_next_step(error: Error) -> Error {
    if error.hints().is_empty() {
        error.hint("continue the run: the conversation up to this message is kept")
    } else {
        error
    }
}

/// Puts a value over another. Objects are merged, so that one field of `generationConfig` keeps the
/// others.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}
