//! The HTTP client of the exporter.
//!
//! It blocks: the exporter calls it from its own threads. No redirects, no proxy from the
//! environment, a bounded response.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, Uri};
use opentelemetry_http::{HttpClient, HttpError};

use crate::OtlpError;

/// A longer response of a collector is an error.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// Sends requests with `ureq`.
#[derive(Debug, Clone)]
pub(crate) struct Client(ureq::Agent);

impl Client {
    pub(crate) fn new(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .proxy(None)
            .user_agent("haft")
            .build();
        Self(config.into())
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let mut answer = self.0.run(Request::from_parts(head, body.to_vec()))?;
        let bytes = answer.body_mut().with_config().limit(MAX_BODY_BYTES).read_to_vec()?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = answer.headers().clone();
        }
        Ok(response.body(Bytes::from(bytes))?)
    }
}

/// Validates the address of a collector, and returns it without a trailing slash.
pub(crate) fn base(endpoint: &str) -> Result<&str, OtlpError> {
    let uri: Uri = endpoint
        .parse()
        .map_err(|e| OtlpError::new(format!("`{endpoint}` is not a collector address"), e))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) if uri.query().is_none() => {
            Ok(endpoint.trim_end_matches('/'))
        }
        _ => Err(OtlpError::plain(format!(
            "`{endpoint}` is not a collector address; write it as `http://127.0.0.1:4318`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_address_needs_a_scheme_and_a_host() {
        assert_eq!(base("http://127.0.0.1:4318/").unwrap(), "http://127.0.0.1:4318");
        assert_eq!(base("https://c.example/otlp").unwrap(), "https://c.example/otlp");
        for bad in ["", "127.0.0.1:4318", "ftp://x", "http://", "http://x?y=1", "http://a b", "/x"]
        {
            assert!(base(bad).is_err(), "{bad}");
        }
    }
}
