//! SSRF: which hosts may be contacted at all, by name, address and port. `fetch_url` and the proxy
//! of commands use the same checks.
//!
//! In: a typed host and a port. Out: nothing, or the failure that says why not. Internal names and
//! addresses are refused before any DNS lookup; `resolve` checks what a name resolves to.

use std::{fmt, net::IpAddr};

use haft_core::{Failure, FailureCode};
use url::Host;

use super::address::{self, Range, Reach};

/// Maximum length of a DNS name.
const MAX_NAME_BYTES: usize = 253;

/// Suffixes of internal names, compared label by label from the right.
const INTERNAL_SUFFIXES: [&str; 17] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "in-addr.arpa",
    "ip6.arpa",
    "svc",
    "consul",
    "onion",
    "metadata.goog",
    "instance-data.com",
];

fn check_name(name: &str, allowed: bool) -> Result<(), Failure> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(plain);
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
        return Err(Failure::invalid(format!(
            "`{}` is not a valid host name",
            name.escape_default()
        ))
        .with_next("write the plain name, without a trailing dot"));
    }
    if allowed {
        return Ok(());
    }
    let internal = INTERNAL_SUFFIXES.iter().find(|internal| has_suffix(name, internal));
    match (internal, name.contains('.')) {
        (None, true) => Ok(()),
        (Some(internal), _) => Err(denied(format!("`{name}` is an internal name (`{internal}`)"))),
        (None, false) => Err(denied(format!("`{name}` is a name in the local network"))),
    }
}

/// Compares labels, not text: `notlocal` does not end in `local`.
fn has_suffix(name: &str, end: &str) -> bool {
    let mut labels = name.rsplit('.');
    end.rsplit('.').all(|own| labels.next().is_some_and(|label| label.eq_ignore_ascii_case(own)))
}

/// Hosts and ports opened by the host program. Arguments never add to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sites(Vec<(Host<String>, u16)>);

impl Sites {
    /// Opens one host on one port.
    pub(crate) fn add(&mut self, host: &str, port: u16) -> Result<(), InvalidHostError> {
        self.0.push((parse_host(host)?, port));
        Ok(())
    }

    /// Checks a host and a port before any DNS lookup. Besides 80 and 443 a port needs an entry
    /// here, or a list elsewhere that has it.
    pub(crate) fn admit(
        &self,
        host: &Host<String>,
        port: u16,
        is_port_listed: bool,
    ) -> Result<(), Failure> {
        let allowed = self.has(host, port);
        match host {
            Host::Domain(name) => check_name(name, allowed)?,
            Host::Ipv4(address) => self.check(host, port, (*address).into())?,
            Host::Ipv6(address) => self.check(host, port, (*address).into())?,
        }
        if matches!(port, 80 | 443) || allowed || is_port_listed {
            return Ok(());
        }
        Err(denied(format!("port {port} is not allowed; only 80 and 443 are")))
    }

    fn has(&self, host: &Host<String>, port: u16) -> bool {
        self.0.iter().any(|(own, on)| own == host && *on == port)
    }

    /// Checks an address that a host is or resolves to.
    pub(crate) fn check(
        &self,
        host: &Host<String>,
        port: u16,
        address: IpAddr,
    ) -> Result<(), Failure> {
        let Some(Range { what, reach }) = address::range(address) else { return Ok(()) };
        let named = matches!(host, Host::Domain(_));
        if self.has(host, port) && (!named || reach == Reach::Private) {
            return Ok(());
        }
        if named {
            // Only the operator sees the address: it reveals an internal network.
            Err(denied(format!("`{host}` resolves to {what}"))
                .with_source(format!("{host} resolved to {address}")))
        } else {
            Err(denied(format!("`{host}` is {what}")))
        }
    }
}

/// Parses a host that is spelled exactly as the parser writes it, an IPv6 address without brackets.
/// Other spellings of an address (decimal, octal, hexadecimal, short) are errors.
pub(crate) fn parse_host(host: &str) -> Result<Host<String>, InvalidHostError> {
    // People write a bare IPv6 address; the parser needs brackets.
    match host.parse() {
        Ok(address) => Ok(Host::Ipv6(address)),
        Err(_) => Host::parse(host)
            .ok()
            .filter(|parsed| parsed.to_string().eq_ignore_ascii_case(host))
            .ok_or_else(|| InvalidHostError(host.to_owned())),
    }
}

/// The given text is not a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidHostError(String);

impl fmt::Display for InvalidHostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is neither a plain host name nor an IP address", self.0.escape_debug())
    }
}

impl std::error::Error for InvalidHostError {}

/// Refuses permanently: another spelling of the same host does not help.
pub(crate) fn denied(message: impl Into<String>) -> Failure {
    Failure::new(FailureCode::Denied, message)
        .with_next("use a public http or https URL, or ask the user for what you need")
}
