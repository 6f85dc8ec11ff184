//! Calls an HTTP endpoint as a hook: POSTs JSON, and returns the status and the body.
//!
//! No redirects (SSRF), no proxy from the environment, a bounded body. The client blocks, so it
//! runs on a blocking thread; after a cancellation it ends with its own timeout.

use std::{collections::BTreeMap, time::Duration};

use crate::reply::Reply;

/// A longer body is rejected as truncated.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// Posts the input and waits for the answer.
pub(crate) async fn post(
    url: &str,
    headers: Vec<(String, String)>,
    input: Vec<u8>,
    limit: Duration,
) -> Reply {
    let url = url.to_owned();
    let work = tokio::task::spawn_blocking(move || send(&url, &headers, &input, limit));
    match work.await {
        Ok(Ok(reply)) => reply,
        Ok(Err(why)) => Reply::None(why),
        Err(_) => Reply::None("the request thread panicked".to_owned()),
    }
}

fn send(
    url: &str,
    headers: &[(String, String)],
    input: &[u8],
    limit: Duration,
) -> Result<Reply, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(limit))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(None)
        .user_agent("haft")
        .build()
        .into();
    let mut request = agent.post(url).header("Content-Type", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut response = request.send(input).map_err(|error| format!("no answer: {error}"))?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_BODY_BYTES).read_to_vec();
    if let Err(ureq::Error::BodyExceedsLimit(_)) = &body
        && (200..300).contains(&status)
    {
        return Ok(Reply::Truncated);
    }
    let body = body.map_err(|error| format!("status {status}, but no readable body: {error}"))?;
    let body = String::from_utf8(body)
        .map_err(|_| format!("status {status}, but its answer is not UTF-8"))?;
    Ok(Reply::Status { status, body })
}

/// Expands `$NAME` and `${NAME}` in a header. A variable that the hook may not use, or that the
/// host does not have, becomes empty, so that a header cannot leak other secrets.
pub(crate) fn expand_variables(
    text: &str,
    allowed: &[String],
    variables: &BTreeMap<String, String>,
) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (braced, body) = match rest.strip_prefix('{') {
            Some(body) => (true, body),
            None => (false, rest),
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = body.find(|c| !is_part(c)).unwrap_or(body.len());
        let name = &body[..end];
        let after = if braced { body[end..].strip_prefix('}') } else { Some(&body[end..]) };
        match after {
            Some(after) if !name.is_empty() => {
                if allowed.iter().any(|own| own == name) {
                    out.push_str(variables.get(name).map_or("", String::as_str));
                }
                rest = after;
            }
            // A `$` without a name is literal.
            _ => out.push('$'),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_variables_reach_a_header() {
        let variables = BTreeMap::from([
            ("TOKEN".to_owned(), "t0".to_owned()),
            ("SECRET".to_owned(), "s3".to_owned()),
        ]);
        let allowed = ["TOKEN".to_owned(), "MISSING".to_owned()];
        for (text, expanded) in [
            ("Bearer $TOKEN", "Bearer t0"),
            ("${TOKEN}x", "t0x"),
            ("$SECRET", ""),
            ("${SECRET}", ""),
            ("a$MISSING", "a"),
            ("100$", "100$"),
            ("$ x", "$ x"),
            ("${TOKEN", "${TOKEN"),
            ("$TOKENS", ""),
        ] {
            assert_eq!(expand_variables(text, &allowed, &variables), expanded, "{text}");
        }
    }
}
