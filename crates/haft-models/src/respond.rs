//! One model call: sends the request, again after failures that may pass, and reads the response.
//!
//! In: the body of a request. Out: the message in a reply. Every wait has a timeout; dropping the
//! future closes the connection. A response that has begun is never requested again.

use std::time::Duration;

use bytes::Bytes;
use haft::{
    Error,
    agent::{ModelRequest, Reply},
    turn::StopReason,
};
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::{backoff, failed::FailedAttempt, model::ProviderModel};

/// The longest response that is read whole. The decoders of streams have the same limit.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// The longest body of an error that is read.
const MAX_ERROR_BYTES: usize = 64 << 10;
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
            let response = self.send(body, Instant::now() + total).await?;
            self.read(response, reply).await
        });
        match asked.await {
            Ok(ended) => ended.map_err(|error| of.about.redacted(error)),
            Err(_) => Err(of.about.out_of_time(total)),
        }
    }

    /// Sends the request until there is a response that is a success.
    async fn send(&self, body: Bytes, until: Instant) -> Result<Response, Error> {
        let of = &*self.inner;
        let mut attempts = 0;
        loop {
            let failed = match self.attempt(body.clone()).await {
                Ok(response) => return Ok(response),
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

    async fn attempt(&self, body: Bytes) -> Result<Response, FailedAttempt> {
        let of = &*self.inner;
        let accepted = if of.is_streaming { "text/event-stream" } else { "application/json" };
        let request = of.client.post(of.url.clone()).header(ACCEPT, accepted).body(body);
        let response = match timeout(of.timeouts.first_byte, request.send()).await {
            Err(_) => return Err(of.about.no_first_byte(of.timeouts.first_byte)),
            Ok(Err(error)) => return Err(of.about.no_response(&error, of.timeouts.connect)),
            Ok(Ok(response)) => response,
        };
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let status = response.status();
        let headers = response.headers().clone();
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let body = timeout(ERROR_BODY_TIMEOUT, start_of(response)).await.unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let wait = backoff::requested_wait(&headers, &body);
        Err(of.about.status(status, location, &body, wait))
    }

    /// Reads a response that is a success.
    async fn read(&self, response: Response, reply: &mut Reply) -> Result<StopReason, Error> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        // Some servers ignore that a stream was requested.
        if kind.starts_with("text/event-stream") {
            self.read_stream(response, reply).await
        } else if kind.starts_with("application/json") {
            self.read_whole(response, reply).await
        } else if kind.starts_with("text/html") || kind.starts_with("application/xml") {
            Err(self.inner.about.not_the_api(&kind))
        } else if self.inner.is_streaming {
            self.read_stream(response, reply).await
        } else {
            self.read_whole(response, reply).await
        }
    }

    async fn read_stream(
        &self,
        mut response: Response,
        reply: &mut Reply,
    ) -> Result<StopReason, Error> {
        let of = &*self.inner;
        let mut cut = None;
        while !reply.has_failed() {
            match timeout(of.timeouts.gap, response.chunk()).await {
                Ok(Ok(Some(bytes))) => reply.feed(&bytes),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    cut = Some(of.about.cut_off(Some(&error)));
                    break;
                }
                Err(_) => {
                    cut = Some(of.about.gap(of.timeouts.gap));
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
        loop {
            match timeout(of.timeouts.gap, response.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(of.about.cut_off(Some(&error))),
                Err(_) => return Err(of.about.gap(of.timeouts.gap)),
            }
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
