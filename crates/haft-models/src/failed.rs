//! What went wrong with a request, as an error for the operator: what happened, and the next step.
//!
//! INVARIANT: no error contains the key. Texts of a server are redacted and bounded.

use std::{error::Error as StdError, io, time::Duration};

use haft::{Error, ErrorKind, secrets::Secret};
use reqwest::StatusCode;
use serde_json::Value;

use crate::Provider;

/// The longest text of a server in an error.
const MAX_SERVER_TEXT_CHARS: usize = 300;

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) error: Error,
    /// Whether the same request may succeed later.
    pub(crate) may_pass: bool,
    /// How long the provider asks to wait.
    pub(crate) wait: Option<Duration>,
}

impl FailedAttempt {
    /// A failure that is the same next time.
    pub(crate) fn lasting(error: Error) -> Self {
        Self { error, may_pass: false, wait: None }
    }
}

/// What errors say about a request.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) provider: Provider,
    pub(crate) model: String,
    /// The address without user and password.
    pub(crate) url: String,
    /// The address of the proxy, likewise.
    pub(crate) proxy: Option<String>,
    pub(crate) key: Option<Secret>,
}

impl About {
    /// The host and the port of the server.
    fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        rest.split(['/', '?', '#']).next().unwrap_or(rest)
    }

    fn route(&self) -> String {
        match &self.proxy {
            Some(proxy) => format!("{} through the proxy {proxy}", self.host()),
            None => self.host().to_owned(),
        }
    }

    /// A server's text, redacted, on one line, and bounded.
    fn clean(&self, text: &str) -> String {
        let text = self.redact(text);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut short: String = text.chars().take(MAX_SERVER_TEXT_CHARS).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    }

    fn redact(&self, text: &str) -> String {
        match &self.key {
            Some(key) if !key.reveal().is_empty() => text.replace(key.reveal(), "(hidden)"),
            _ => text.to_owned(),
        }
    }

    /// An error without the key. What a decoder quotes from a response may contain it.
    pub(crate) fn redacted(&self, error: Error) -> Error {
        let mut clean = Error::new(error.kind(), self.redact(error.message()));
        for hint in error.hints() {
            clean = clean.hint(self.redact(hint));
        }
        clean
    }

    /// A request that got no response.
    pub(crate) fn no_response(&self, error: &reqwest::Error, connect: Duration) -> FailedAttempt {
        let route = self.route();
        if let Some(why) = certificate_problem(error) {
            let message = format!("the certificate of {} is not accepted: {why}", self.host());
            return FailedAttempt::lasting(
                Error::new(ErrorKind::Unreachable, message)
                    .hint("name the certificate of its authority with `ca_root` (`ca_file` in `[model]`), or check the address"),
            );
        }
        let (kind, message) = if error.is_timeout() {
            let seconds = connect.as_secs_f64();
            (ErrorKind::TimedOut, format!("no connection to {route} within {seconds} s"))
        } else if error.is_connect() {
            let why = root_cause(error);
            (ErrorKind::Unreachable, format!("cannot connect to {route}: {why}"))
        } else {
            let why = root_cause(error);
            (
                ErrorKind::Unreachable,
                format!("{route} closed the connection without a response: {why}"),
            )
        };
        let hint = match &self.proxy {
            Some(_) => "check that the proxy runs, that it may reach the server, and the network",
            None if self.provider == Provider::Compatible => {
                "check that the server runs, and its address"
            }
            None => "check the network; behind a firewall, set a proxy",
        };
        let error = Error::new(kind, self.redact(&message)).hint(hint);
        FailedAttempt { error, may_pass: true, wait: None }
    }

    /// A head of a response that did not arrive in time.
    pub(crate) fn no_first_byte(&self, after: Duration) -> FailedAttempt {
        let (route, after) = (self.route(), after.as_secs_f64());
        let message = format!("{route} did not begin its response within {after} s");
        let error = Error::new(ErrorKind::TimedOut, message)
            .hint("raise the timeout of the first byte (`first_byte_timeout` in `[model]`) if the model needs longer");
        FailedAttempt { error, may_pass: true, wait: None }
    }

    /// A response that stopped arriving.
    pub(crate) fn gap(&self, after: Duration) -> Error {
        let (route, after) = (self.route(), after.as_secs_f64());
        Error::new(
            ErrorKind::TimedOut,
            format!("the response of {route} stopped: nothing arrived for {after} s"),
        )
        .hint("continue the run; if the model needs longer pauses, raise the timeout between chunks (`gap_timeout` in `[model]`)")
    }

    /// A call that took too long in all.
    pub(crate) fn out_of_time(&self, total: Duration) -> Error {
        let (host, total) = (self.host(), total.as_secs_f64());
        Error::new(
            ErrorKind::TimedOut,
            format!("{host} did not complete its response within {total} s"),
        )
        .hint("ask for less at once, or raise the timeout of the whole call (`total_timeout` in `[model]`)")
    }

    /// A response that was cut off.
    pub(crate) fn cut_off(&self, error: Option<&reqwest::Error>) -> Error {
        let why = error.map(|error| format!(": {}", root_cause(error))).unwrap_or_default();
        let message = format!("the response of {} ended before it was complete{why}", self.route());
        Error::new(ErrorKind::BadResponse, self.redact(&message))
            .hint("continue the run: the conversation up to this message is kept")
    }

    /// A response that is not the API's.
    pub(crate) fn not_the_api(&self, kind: &str) -> Error {
        let kind = self.clean(kind);
        let message = format!("{} answered with `{kind}` and not with JSON or events", self.host());
        Error::new(ErrorKind::BadResponse, message).hint(format!(
            "check the address: `{}` must be the API, and no page of a proxy or a login",
            self.redact(&self.url)
        ))
    }

    /// A response that is longer than it may be.
    pub(crate) fn too_long(&self, max: usize) -> Error {
        let message = format!("the response of {} is longer than {max} bytes", self.host());
        Error::new(ErrorKind::BadResponse, message).hint("ask for less at once")
    }

    /// A response with a status that is not a success.
    pub(crate) fn status(
        &self,
        status: StatusCode,
        location: Option<&str>,
        body: &Value,
        wait: Option<Duration>,
    ) -> FailedAttempt {
        let (code, provider, model) = (status.as_u16(), self.provider, &self.model);
        let server = match provider {
            Provider::Compatible => self.host().to_owned(),
            other => other.to_string(),
        };
        let text = match server_text(body) {
            Some(text) => format!(": {}", self.clean(&text)),
            None => String::new(),
        };
        let at = format!("({code}){text}");
        let (kind, message, hint) = match code {
            300..=399 => (
                ErrorKind::ProviderError,
                format!(
                    "{server} redirects to `{}` ({code})",
                    self.clean(&crate::provider::without_user(location.unwrap_or_default()))
                ),
                "redirects are not followed, because the key would go to another address; set the base URL to the final one".to_owned(),
            ),
            401 | 403 if self.key.is_none() => (
                ErrorKind::Authentication,
                format!("{server} needs a key {at}"),
                "set the key of the provider".to_owned(),
            ),
            401 | 403 => (
                ErrorKind::Authentication,
                format!("{server} does not accept the key {at}"),
                "check that the key is valid, belongs to this provider and may use the model".to_owned(),
            ),
            407 => (
                ErrorKind::Authentication,
                format!("the proxy does not accept the request {at}"),
                "add user and password to the proxy's address, as in `http://user:password@host:3128`".to_owned(),
            ),
            404 => (
                ErrorKind::ProviderError,
                format!("{server} has no model `{model}` {at}"),
                format!("check the name of the model, and that `{}` is the API", self.redact(&self.url)),
            ),
            429 => (
                ErrorKind::ProviderError,
                format!("{server} has reached a rate limit or quota {at}"),
                "wait and continue the run, or check limits and billing of the account".to_owned(),
            ),
            500..=599 => (
                ErrorKind::ProviderError,
                format!("{server} failed {at}"),
                "continue the run later; the provider's status page may say more".to_owned(),
            ),
            _ => (
                ErrorKind::ProviderError,
                format!("{server} refused the request {at}"),
                format!("check the settings of the model `{model}`; the message is the provider's"),
            ),
        };
        let may_pass = matches!(code, 408 | 409 | 429 | 500..=599) && !is_out_of_quota(body);
        let error = Error::new(kind, message).hint(hint);
        FailedAttempt { error, may_pass, wait }
    }
}

/// Whether waiting does not help: the account has no money.
fn is_out_of_quota(body: &Value) -> bool {
    let code = body.pointer("/error/code").and_then(Value::as_str);
    matches!(code, Some("insufficient_quota" | "billing_hard_limit_reached"))
}

/// The message of an error body, in the forms of all providers.
fn server_text(body: &Value) -> Option<String> {
    let error = match body {
        Value::Array(list) => list.first()?.get("error")?,
        other => other.get("error").or_else(|| other.get("detail")).unwrap_or(other),
    };
    let text = match error {
        Value::String(text) => text.as_str(),
        other => other.get("message")?.as_str()?,
    };
    (!text.trim().is_empty()).then(|| text.to_owned())
}

/// The last cause in a chain, which has the text of the operating system.
fn root_cause(error: &reqwest::Error) -> String {
    let mut last: &dyn StdError = error;
    while let Some(source) = last.source() {
        last = source;
    }
    // The chain of a request may begin with its URL.
    if std::ptr::addr_eq(last, error) { "no further reason".to_owned() } else { last.to_string() }
}

/// Why TLS did not accept a certificate; `None` if that was not the reason.
fn certificate_problem(error: &reqwest::Error) -> Option<String> {
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(error) = next {
        match innermost(error).downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(why)) => return Some(why.to_string()),
            Some(_) => return None,
            None => next = error.source(),
        }
    }
    None
}

/// The error inside of I/O errors. Their `source` leaves it out.
fn innermost<'a>(mut error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    while let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        error = inner;
    }
    error
}
