//! Pages of the web, as text.
//!
//! A model names an address, and whatever it has read may have told it which. So an address is
//! parsed once (`target`), its name looked up in one place and every answer checked (`resolve`,
//! `address`), and the connection made to the very address that was checked (`client`). A redirect
//! walks the same way again, and only within the host that was judged: another host is another
//! call. What comes back is bounded (`body`) and made readable (`text`, `html`).

mod address;
mod target;
mod resolve;
mod wire;
mod body;
mod client;
mod writer;
mod html;
mod text;

use std::{sync::Arc, time::Duration};

use haft_core::{
    CallProfile, Capabilities, Capability, DynTool, Effect, Failure, Interrupt, RetryHint, Tool,
    ToolContext, ToolSpec,
};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use self::{
    client::{Answer, Client},
    target::{Sites, Target},
};
pub use self::{
    resolve::{Resolve, SystemResolver},
    target::NotAHost,
};
use crate::BuiltinTools;

/// So often a server may send us on.
const MOST_HOPS: usize = 5;
/// How much of a page one call shows unless it says so: about five thousand tokens.
const CHARS: usize = 20_000;
/// And at most: with its heading it stays below the bound of a result.
const MOST_CHARS: usize = 45_000;
/// A server that wants to be left alone for longer is not believed.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Returns the tools.
pub(crate) fn tools(hands: &BuiltinTools) -> Vec<DynTool> {
    hands.fetch.iter().cloned().map(DynTool::of).collect()
}

/// The tool `fetch_url`: reads a page of the public web.
///
/// Addresses of inner networks are refused, whatever they are called and however they are spelled.
/// What should be reached all the same is opened here, by whoever builds the runtime:
///
/// ```
/// use haft_tools::Fetch;
///
/// let fetch = Fetch::new().allow("wiki.corp", 80)?.allow("127.0.0.1", 8080)?;
/// # Ok::<(), haft_tools::NotAHost>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Fetch {
    sites: Sites,
    resolver: Arc<dyn Resolve>,
    /// Nothing where encryption could not be set up; then nothing is fetched.
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
            // Long enough for a slow page, short enough for a model that waits.
            timeout: Duration::from_secs(30),
            // Few pages of text are longer, and a few of these at once fit in memory.
            max_bytes: 5 << 20,
        }
    }
}

impl Fetch {
    /// Reaches the public web, on the ports 80 and 443.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens one host on one port. A name may then lead to private and loopback addresses, and never
    /// to link-local ones or to a cloud's metadata; an address is open as it is.
    ///
    /// # Errors
    /// Fails for what is neither a plain host name nor an IP address.
    pub fn allow(mut self, host: &str, port: u16) -> Result<Self, NotAHost> {
        self.sites.add(host, port)?;
        Ok(self)
    }

    /// Looks names up in another way. What it answers is checked like any other answer.
    pub fn resolver(mut self, resolver: impl Resolve) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Trusts one more certificate authority, as DER: that of a company's own servers.
    ///
    /// # Errors
    /// Fails for bytes that are no certificate.
    pub fn trust_root(mut self, der: impl Into<Vec<u8>>) -> Result<Self, haft_core::BoxError> {
        self.roots.push(der.into());
        self.client = Some(Client::new(&self.roots)?);
        Ok(self)
    }

    /// Sets how long one call may take in all.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many bytes of an answer are kept, after unpacking.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Gets an address, and what it sends on to within its host.
    async fn get(&self, mut target: Target, cap: usize) -> Result<Got, Failure> {
        let Some(client) = &self.client else {
            return Err(
                Failure::failed("encryption could not be set up here").with_retry(RetryHint::Never)
            );
        };
        for _ in 0..=MOST_HOPS {
            let checked = resolve::checked(&target, &self.sites, &*self.resolver).await?;
            let answer = client.get(&target, &checked, cap).await?;
            let Some(location) = sent_on(&answer) else { return Ok(Got::Page(target, answer)) };
            let next = target.follow(location, &self.sites)?;
            // What was judged is this host. The other one is judged when it is called.
            if next.host() != target.host() {
                return Ok(Got::Elsewhere(target, next));
            }
            target = next;
        }
        Err(Failure::failed(format!(
            "`{}` sends on again and again; {MOST_HOPS} times were followed",
            target.host()
        ))
        .with_next("try another address of the same page"))
    }
}

/// What came of getting an address.
enum Got {
    Page(Target, Answer),
    /// It sends on to another host.
    Elsewhere(Target, Target),
}

/// The arguments of `fetch_url`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct FetchArgs {
    /// The whole address of the page, such as `https://example.com/page`. Only http and https.
    #[schemars(extend("x-haft" = "url"))]
    url: String,
    /// How many characters of the text to skip, to go on with a long page.
    #[serde(default)]
    offset: usize,
    /// How many characters of the text to return at most.
    #[serde(default = "chars")]
    #[schemars(range(min = 1, max = 45_000))]
    max_chars: usize,
}

fn chars() -> usize {
    CHARS
}

impl Tool for Fetch {
    type Args = FetchArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(
            "fetch_url",
            "Fetches a page of the public web and returns it as text: the main part of an HTML page \
             with its links, JSON in lines, other text as it is. Long pages come in pieces; go on \
             with `offset`. It sends no login and no cookies, and does not follow a redirect to \
             another host.",
        )
        .title("Fetch a page")
        .read_only()
        .open_world(true)
        .capabilities(Capabilities::from([Capability::Network]))
        // Nothing is lost when it stops, and a slow server should not hold up a person.
        .interrupt(Interrupt::Cancel)
        // A polite client, and a bound on memory.
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
            // What cannot be read is refused by `check`; until then it may be anything.
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
            Got::Elsewhere(from, to) => Ok(format!(
                "{} sends on to another host:\n{}\nNothing was read there. To read it, fetch that \
                 address; it is judged as a call of its own.",
                from.url(),
                to.url()
            )),
            Got::Page(target, answer) if answer.status.is_success() => {
                cx.spawn_blocking(move |_| shown(&target, answer, &args)).await?
            }
            Got::Page(target, answer) => Err(refused(&target, &answer)),
        }
    }
}

/// Returns where an answer sends on to.
fn sent_on(answer: &Answer) -> Option<&str> {
    let location = answer.location.as_deref()?;
    matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308).then_some(location)
}

/// Says what a status means for whoever wanted to read.
fn refused(target: &Target, answer: &Answer) -> Failure {
    let status = answer.status;
    let failure = Failure::failed(format!("`{}` answers {status}", target.host()));
    let after = |failure: Failure| match answer.after {
        Some(after) => failure.with_retry_after(after.min(LONGEST_WAIT)),
        None => failure.with_retry(RetryHint::Later),
    };
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            failure.with_next("check the path, or look for the page from one that links to it")
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            failure.with_next("the page is not for everybody; use another source")
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            after(failure).with_next("wait a while before asking this host again")
        }
        _ if status.is_server_error() => {
            after(failure).with_next("try again later, or use another source")
        }
        _ => failure.with_next("try another address"),
    }
}

/// Writes what the model reads: what it is, and the part that was asked for.
fn shown(target: &Target, answer: Answer, args: &FetchArgs) -> Result<String, Failure> {
    let kind = answer.kind.as_deref().unwrap_or("of no stated type");
    let kind: String = kind.chars().filter(|c| !c.is_control()).take(100).collect();
    let head = |title: Option<&str>, size: &str| {
        let title = title.map(|title| format!("Title: {title}\n")).unwrap_or_default();
        format!("Address: {}\n{title}Type: {kind}, {size}\n", target.url())
    };
    let no_text = |size: Option<u64>| {
        let size = size.map_or("size unknown".to_owned(), |size| format!("{size} bytes"));
        Ok(head(None, &size) + "\nThis is no text, so there is nothing to show.")
    };
    let Some(bytes) = answer.body else { return no_text(answer.announced) };
    let size = match answer.cut {
        true => format!("the first {} bytes of more", bytes.len()),
        false => format!("{} bytes", bytes.len()),
    };
    let Some(read) = text::readable(&bytes, answer.kind.as_deref(), answer.cut, target.url())
    else {
        return no_text(Some(bytes.len() as u64));
    };
    drop(bytes);
    let size = if read.cut { size + ", with text left out" } else { size };
    let part = page(&read.text, args.offset, args.max_chars)?;
    Ok(format!("{}\n{part}", head(read.title.as_deref(), &size)))
}

/// Returns a part of a text, and how to go on.
fn page(text: &str, offset: usize, most: usize) -> Result<String, Failure> {
    if text.trim().is_empty() && offset == 0 {
        return Ok(
            "(The page has no text. It may be made by scripts, which are not run.)".to_owned()
        );
    }
    let all = text.chars().count();
    if offset >= all {
        return Err(Failure::invalid(format!(
            "`offset` is {offset}, and the text has {all} characters"
        ))
        .with_next("use a smaller `offset`, or leave it out"));
    }
    let part: String = text.chars().skip(offset).take(most.clamp(1, MOST_CHARS)).collect();
    let end = offset + part.chars().count();
    Ok(match (offset, end == all) {
        (0, true) => part,
        (_, true) => format!("{part}\n\n[characters {offset} to {end}, the end]"),
        (_, false) => {
            format!("{part}\n\n[characters {offset} to {end} of {all}; go on with `offset` {end}]")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_comes_in_pieces_that_join_without_a_seam() {
        let text = "é".repeat(25) + "end";
        let mut whole = String::new();
        for offset in [0, 10, 20] {
            let part = page(&text, offset, 10).unwrap();
            whole.push_str(part.split("\n\n[").next().unwrap());
            assert_eq!(part.contains("go on with"), offset < 20, "{part}");
        }
        assert_eq!(whole, text);
        assert_eq!(page(&text, 0, 100).unwrap(), text);
        assert!(page(&text, 28, 10).is_err());
        assert!(page("  ", 0, 10).unwrap().contains("no text"));
    }

    #[test]
    fn a_silent_judge_is_told_which_host_is_reached() {
        let spec = Fetch::new().spec();
        assert!(spec.problems().is_empty(), "{:?}", spec.problems());
        assert!(spec.is_read_only() && spec.is_open_world());
        assert_eq!(spec.label, haft_core::Label::default(), "untrusted, as nothing is said");
    }
}
