//! The tool `fetch_url`: web pages as text, without SSRF.
//!
//! The model chooses the URL, and prompt injection may choose it for the model. So a URL is parsed
//! once (`target`), DNS is resolved in one place and every address is checked
//! (`network`), and the connection goes to exactly the checked address (`client`; DNS rebinding). A
//! redirect repeats all checks and stays on the authorized host: another host needs another call.
//! The response is bounded (`body`) and converted to text (`text`, `html`).

mod target;
mod wire;
mod body;
mod client;
mod writer;
mod html;
mod text;

use std::{sync::Arc, time::Duration};

use haft_core::{
    CallProfile, Capabilities, Capability, Effect, Failure, Interrupt, RetryHint, Tool,
    ToolContext, ToolSpec,
};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use self::{
    client::{Answer, Client},
    target::Target,
};
use crate::network::{self, InvalidHostError, Resolve, Sites, SystemResolver};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// Default length of the returned text in characters: about five thousand tokens.
const DEFAULT_CHARS: usize = 20_000;
/// Maximum length: with its header it stays below the result limit.
const MAX_CHARS: usize = 45_000;
/// A longer `Retry-After` is shortened to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// The tool `fetch_url`: reads a page of the public web.
///
/// Private, loopback and other non-public addresses are refused in every spelling (SSRF). The host
/// program can open single sites:
///
/// ```
/// use haft_tools::Fetch;
///
/// let fetch = Fetch::new().allow("wiki.corp", 80)?.allow("127.0.0.1", 8080)?;
/// # Ok::<(), haft_tools::InvalidHostError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Fetch {
    sites: Sites,
    resolver: Arc<dyn Resolve>,
    /// `None` if TLS setup failed; then every fetch fails.
    client: Option<Client>,
    roots: Vec<Vec<u8>>,
    timeout: Duration,
    max_bytes: usize,
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            sites: Sites::default(),
            resolver: Arc::new(SystemResolver),
            client: Client::new(&[]).ok(),
            roots: Vec::new(),
            // Long enough for a slow page, short enough for a waiting model.
            timeout: Duration::from_secs(30),
            // Few text pages are larger, and several at once fit in memory.
            max_bytes: 5 << 20,
        }
    }
}

impl Fetch {
    /// Allows the public web on the ports 80 and 443.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens one host on one port. A name may then resolve to private and loopback addresses, but
    /// never to link-local or cloud metadata addresses. An IP address is opened as given.
    ///
    /// # Errors
    /// Fails if `host` is neither a plain host name nor an IP address.
    pub fn allow(mut self, host: &str, port: u16) -> Result<Self, InvalidHostError> {
        self.sites.add(host, port)?;
        Ok(self)
    }

    /// Replaces the DNS resolver. Its answers are checked like all others.
    pub fn resolver(mut self, resolver: impl Resolve) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Trusts one more certificate authority in DER, such as a company's own.
    ///
    /// # Errors
    /// Fails for bytes that are not a certificate.
    pub fn trust_root(mut self, der: impl Into<Vec<u8>>) -> Result<Self, haft_core::BoxError> {
        self.roots.push(der.into());
        self.client = Some(Client::new(&self.roots)?);
        Ok(self)
    }

    /// Sets the timeout of one call.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many bytes of a response are kept, after decompression.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Requests a URL and follows redirects on the same host.
    async fn get(&self, mut target: Target, cap: usize) -> Result<FetchOutcome, Failure> {
        let Some(client) = &self.client else {
            return Err(Failure::failed("TLS could not be set up").with_retry(RetryHint::Never));
        };
        for _ in 0..=MAX_REDIRECTS {
            let checked =
                network::checked(target.host(), target.port(), &self.sites, &*self.resolver)
                    .await?;
            let answer = client.get(&target, &checked, cap).await?;
            let Some(location) = redirect_location(&answer) else {
                return Ok(FetchOutcome::Page(target, answer));
            };
            let next = target.follow(location, &self.sites)?;
            // Only this host was authorized. The other one needs a call of its own.
            if next.host() != target.host() {
                return Ok(FetchOutcome::OtherHost(target, next));
            }
            target = next;
        }
        Err(Failure::failed(format!(
            "`{}` redirects too often; {MAX_REDIRECTS} redirects were followed",
            target.host()
        ))
        .with_next("try another URL of the same page"))
    }
}

/// Result of a request.
enum FetchOutcome {
    Page(Target, Answer),
    /// A redirect to another host.
    OtherHost(Target, Target),
}

/// The arguments of `fetch_url`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct FetchArgs {
    /// The full URL of the page, such as `https://example.com/page`. Only http and https.
    #[schemars(extend("x-haft" = "url"))]
    url: String,
    /// Number of characters to skip, to continue a long page.
    #[serde(default)]
    offset: usize,
    /// Maximum number of characters to return.
    #[serde(default = "chars")]
    #[schemars(range(min = 1, max = 45_000))]
    max_chars: usize,
}

fn chars() -> usize {
    DEFAULT_CHARS
}

impl Tool for Fetch {
    type Args = FetchArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(
            "fetch_url",
            "Fetches a public web page and returns it as text: the main part of an HTML page with \
             its links, indented JSON, other text unchanged. Long pages are split; continue with \
             `offset`. It sends no credentials and no cookies, and does not follow a redirect to \
             another host.",
        )
        .title("Fetch a page")
        .read_only()
        .open_world(true)
        .capabilities(Capabilities::from([Capability::Network]))
        // Cancelling loses nothing, and a slow server should not keep a person waiting.
        .interrupt(Interrupt::Cancel)
        // Limits load on servers and memory.
        .concurrency(8)
        .timeout(self.timeout);
        spec.per_call = vec!["effects"];
        spec
    }

    fn profile(&self, declared: CallProfile, args: &FetchArgs, _: &ToolContext) -> CallProfile {
        match Target::parse(&args.url, &self.sites) {
            Ok(target) => CallProfile {
                effects: [Effect::external(target.host().to_string())].into(),
                ..declared
            },
            // `check` refuses an invalid URL; until then the declared effects apply.
            Err(_) => declared,
        }
    }

    async fn check(&self, args: &FetchArgs, _: &ToolContext) -> Result<(), Failure> {
        Target::parse(&args.url, &self.sites).map(drop)
    }

    async fn call(&self, args: FetchArgs, cx: &ToolContext) -> Result<String, Failure> {
        let target = Target::parse(&args.url, &self.sites)?;
        let cap = self.max_bytes.min(cx.max_result_bytes());
        match self.get(target, cap).await? {
            FetchOutcome::OtherHost(from, to) => Ok(format!(
                "{} redirects to another host:\n{}\nThe redirect was not followed. To read that \
                 page, fetch that URL; it is authorized as a separate call.",
                from.url(),
                to.url()
            )),
            FetchOutcome::Page(target, answer) if answer.status.is_success() => {
                cx.spawn_blocking(move |_| render(&target, answer, &args)).await?
            }
            FetchOutcome::Page(target, answer) => Err(status_failure(&target, &answer)),
        }
    }
}

/// Returns the target of a redirect.
fn redirect_location(answer: &Answer) -> Option<&str> {
    let location = answer.location.as_deref()?;
    matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308).then_some(location)
}

/// Explains an error status.
fn status_failure(target: &Target, answer: &Answer) -> Failure {
    let status = answer.status;
    let failure = Failure::failed(format!("`{}` returned {status}", target.host()));
    let after = |failure: Failure| match answer.after {
        Some(after) => failure.with_retry_after(after.min(MAX_RETRY_AFTER)),
        None => failure.with_retry(RetryHint::Later),
    };
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            failure.with_next("check the path, or look for the page from one that links to it")
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            failure.with_next("the page needs a login; use another source")
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            after(failure).with_next("wait before you call this host again")
        }
        _ if status.is_server_error() => {
            after(failure).with_next("try again later, or use another source")
        }
        _ => failure.with_next("try another address"),
    }
}

/// Builds the result: a header and the requested part of the text.
fn render(target: &Target, answer: Answer, args: &FetchArgs) -> Result<String, Failure> {
    let kind = answer.kind.as_deref().unwrap_or("unknown");
    let kind: String = kind.chars().filter(|c| !c.is_control()).take(100).collect();
    let head = |title: Option<&str>, size: &str| {
        let title = title.map(|title| format!("Title: {title}\n")).unwrap_or_default();
        format!("Address: {}\n{title}Type: {kind}, {size}\n", target.url())
    };
    let no_text = |size: Option<u64>| {
        let size = size.map_or("size unknown".to_owned(), byte_count);
        Ok(head(None, &size) + "\nThis is not text, so its content is not shown.")
    };
    let Some(bytes) = answer.body else { return no_text(answer.announced) };
    let size = if answer.truncated {
        format!("truncated to the first {}", byte_count(bytes.len() as u64))
    } else {
        byte_count(bytes.len() as u64)
    };
    let Some(read) = text::readable(&bytes, answer.kind.as_deref(), answer.truncated, target.url())
    else {
        return no_text(Some(bytes.len() as u64));
    };
    drop(bytes);
    let size = if read.truncated { size + ", text truncated" } else { size };
    let part = text_page(&read.text, args.offset, args.max_chars)?;
    Ok(format!("{}\n{part}", head(read.title.as_deref(), &size)))
}

/// Returns a part of a text, and how to continue.
fn text_page(text: &str, offset: usize, max_chars: usize) -> Result<String, Failure> {
    if text.trim().is_empty() && offset == 0 {
        return Ok(
            "(The page has no text. It may be rendered by scripts, which are not run.)".to_owned()
        );
    }
    let all = text.chars().count();
    if offset >= all {
        return Err(Failure::invalid(format!(
            "`offset` is {offset}, and the text has {all} characters"
        ))
        .with_next("use a smaller `offset`, or leave it out"));
    }
    let part: String = text.chars().skip(offset).take(max_chars.clamp(1, MAX_CHARS)).collect();
    let end = offset + part.chars().count();
    Ok(match (offset, end == all) {
        (0, true) => part,
        (_, true) => format!("{part}\n\n[characters {offset} to {end}, the end]"),
        (_, false) => {
            format!(
                "{part}\n\n[characters {offset} to {end} of {all}; continue with `offset` {end}]"
            )
        }
    })
}

fn byte_count(bytes: u64) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_long_text_join_without_gaps() {
        let text = "é".repeat(25) + "end";
        let mut whole = String::new();
        for offset in [0, 10, 20] {
            let part = text_page(&text, offset, 10).unwrap();
            whole.push_str(part.split("\n\n[").next().unwrap());
            assert_eq!(part.contains("continue with"), offset < 20, "{part}");
        }
        assert_eq!(whole, text);
        assert_eq!(text_page(&text, 0, 100).unwrap(), text);
        assert!(text_page(&text, 28, 10).is_err());
        assert!(text_page("  ", 0, 10).unwrap().contains("no text"));
    }

    #[test]
    fn fetch_is_declared_read_only_open_world_and_untrusted() {
        let spec = Fetch::new().spec();
        assert!(spec.problems().is_empty(), "{:?}", spec.problems());
        assert!(spec.is_read_only() && spec.is_open_world());
        assert_eq!(spec.label, haft_core::Label::default(), "untrusted, as nothing is said");
    }
}
