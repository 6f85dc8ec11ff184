//! Which hosts commands may contact: `network = ["packages.example", "*.example.org"]`.
//!
//! In: texts of a configuration file, a rule, a declared tool or a call. Out: entries that are
//! compared with a typed host and a port. Pure: no DNS lookup, no connection.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use crate::host::{self, HostPattern};

/// The ports of an entry that names none.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Which hosts a command may contact. The default is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkAccess {
    is_all: bool,
    has_proxy: bool,
    hosts: Vec<HostEntry>,
}

/// One entry of a list: a host or a pattern, and a port if it names one.
#[derive(Debug, Clone)]
pub struct HostEntry {
    text: String,
    pattern: HostPattern,
    /// The host itself, if the entry has no wildcard.
    literal: Option<String>,
    port: Option<u16>,
}

/// An entry that is not valid, and how to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkEntryError {
    /// What is wrong.
    pub message: String,
    /// How to write it.
    pub hint: String,
}

impl fmt::Display for NetworkEntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

impl std::error::Error for NetworkEntryError {}

impl NetworkAccess {
    /// No network.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The whole network of the host, without a filter.
    #[must_use]
    pub fn all() -> Self {
        Self { is_all: true, ..Self::default() }
    }

    /// No host is listed: every host needs approval at its first contact.
    #[must_use]
    pub fn ask() -> Self {
        Self { has_proxy: true, ..Self::default() }
    }

    /// Parses entries: hosts (`x.org`, `*.x.org`, `127.0.0.1:4873`), or one of the words `none`,
    /// `ask` and `all`.
    ///
    /// ```
    /// use haft_policy::NetworkAccess;
    ///
    /// let access = NetworkAccess::parse(["packages.example", "*.example.org", "localhost:4873"])?;
    /// assert!(access.allows("packages.example", 443));
    /// assert!(access.allows("a.b.example.org", 80) && !access.allows("example.org", 80));
    /// assert!(!access.allows("packages.example", 22), "other ports must be listed");
    /// # Ok::<(), haft_policy::NetworkEntryError>(())
    /// ```
    ///
    /// # Errors
    /// Fails for an entry that is neither.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, NetworkEntryError> {
        let mut access = Self::none();
        for text in texts {
            access.add(text)?;
        }
        Ok(access)
    }

    /// Adds one entry.
    ///
    /// # Errors
    /// Fails if it is not valid.
    pub fn add(&mut self, text: &str) -> Result<(), NetworkEntryError> {
        match text {
            "none" => {}
            "ask" => self.has_proxy = true,
            "all" => self.is_all = true,
            text => {
                let entry = HostEntry::parse(text)?;
                self.has_proxy = true;
                if !self.hosts.contains(&entry) {
                    self.hosts.push(entry);
                }
            }
        }
        Ok(())
    }

    /// Returns whether nothing can be contacted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.is_all && !self.has_proxy
    }

    /// Returns whether it is the whole network, without a filter.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// Iterates over its entries.
    pub fn hosts(&self) -> impl Iterator<Item = &HostEntry> {
        self.hosts.iter()
    }

    /// Returns its entries as they are written, words included.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let words = [(self.is_all, "all"), (self.has_proxy && self.hosts.is_empty(), "ask")];
        let words = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word.to_owned());
        words.chain(self.hosts.iter().map(|entry| entry.text.clone())).collect()
    }

    /// Returns whether a host is listed for a port. The host is typed: lower case, without a
    /// trailing dot, an IPv6 address without brackets.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16) -> bool {
        self.is_all || self.hosts.iter().any(|entry| entry.matches(host, port))
    }

    /// Returns whether it certainly allows all that the entry allows.
    #[must_use]
    pub fn covers(&self, entry: &HostEntry) -> bool {
        self.is_all || self.hosts.iter().any(|own| own.covers(entry))
    }

    /// Returns what either of the two allows.
    #[must_use]
    pub fn join(mut self, other: &Self) -> Self {
        self.is_all |= other.is_all;
        self.has_proxy |= other.has_proxy;
        for entry in &other.hosts {
            if !self.hosts.contains(entry) {
                self.hosts.push(entry.clone());
            }
        }
        self
    }
}

impl fmt::Display for NetworkAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.texts() {
            texts if texts.is_empty() => f.write_str("none"),
            texts => f.write_str(&texts.join(", ")),
        }
    }
}

impl PartialEq for HostEntry {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for HostEntry {}

impl fmt::Display for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl HostEntry {
    fn parse(text: &str) -> Result<Self, NetworkEntryError> {
        let wrong =
            |message: String, hint: &str| Err(NetworkEntryError { message, hint: hint.to_owned() });
        let shown = text.escape_debug();
        let (host, port) = match split_port(text) {
            Ok(parts) => parts,
            Err(why) => {
                return wrong(format!("`{shown}`: {why}"), "write it as in `x.org:8443`");
            }
        };
        let pattern = match HostPattern::parse(host) {
            Ok(pattern) => pattern,
            Err((_, message, hint)) => return wrong(format!("`{shown}`: {message}"), &hint),
        };
        if host.contains('*') {
            let text = text.to_ascii_lowercase();
            return Ok(Self { text, pattern, literal: None, port });
        }
        let bracketed =
            if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]") } else { host.to_owned() };
        let literal = match host::host(&bracketed) {
            Ok(literal) => literal,
            Err(why) => {
                return wrong(format!("`{shown}`: {why}"), "write the plain host, as in `x.org`");
            }
        };
        if port.is_none() && is_local(&literal) {
            return wrong(
                format!("`{shown}` is not a public host, so it needs a port"),
                "write host and port, as in `localhost:4873`: exactly this is opened",
            );
        }
        Ok(Self { text: text.to_ascii_lowercase(), pattern, literal: Some(literal), port })
    }

    /// Returns it as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host and the port, if it names exactly one of each. Such an entry opens this
    /// host even if its address is not public.
    #[must_use]
    pub fn exact(&self) -> Option<(&str, u16)> {
        Some((self.literal.as_deref()?, self.port?))
    }

    /// Returns the host, if it names one host and the usual ports.
    pub(crate) fn public_host(&self) -> Option<&str> {
        self.literal.as_deref().filter(|_| self.port.is_none())
    }

    fn matches(&self, host: &str, port: u16) -> bool {
        let is_port = self.port.map_or(DEFAULT_PORTS.contains(&port), |own| own == port);
        is_port && self.pattern.matches(host)
    }

    fn covers(&self, other: &Self) -> bool {
        self.port == other.port && self.pattern.covers(&other.pattern)
    }
}

/// Splits a port off. An IPv6 address has brackets if a port follows.
fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match text.rfind(']') {
        Some(end) => match text[end + 1..].strip_prefix(':') {
            Some(port) => (&text[..=end], port),
            None => return Ok((text, None)),
        },
        None if text.matches(':').count() == 1 && !text.contains('/') => {
            text.split_once(':').ok_or("the port is missing")?
        }
        None => return Ok((text, None)),
    };
    // `+1` would parse too.
    let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse() {
        Ok(port @ 1..) if is_number => Ok((host, Some(port))),
        _ => Err("a port is a number from 1 to 65535"),
    }
}

/// Returns whether a host is certainly not a public one.
fn is_local(host: &str) -> bool {
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_unspecified()
        }
        Ok(IpAddr::V6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
        Err(_) => !host.contains('.') || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_hosts_label_by_label_and_ports_exactly() {
        for (entry, host, port, is) in [
            ("x.org", "x.org", 443, true),
            ("x.org", "x.org", 80, true),
            ("x.org", "x.org", 8443, false),
            ("x.org", "a.x.org", 443, false),
            ("x.org", "evilx.org", 443, false),
            ("X.ORG.", "x.org", 443, true),
            ("*.x.org", "a.b.x.org", 443, true),
            ("*.x.org", "x.org", 443, false),
            ("x.org:8443", "x.org", 8443, true),
            ("x.org:8443", "x.org", 443, false),
            ("*.x.org:8443", "a.x.org", 8443, true),
            ("*", "anything.example", 443, true),
            ("*", "anything.example", 22, false),
            ("127.0.0.1:4873", "127.0.0.1", 4873, true),
            ("localhost:4873", "localhost", 4873, true),
            ("[::1]:4873", "::1", 4873, true),
            ("2001:4860::1", "2001:4860::1", 443, true),
        ] {
            let access = NetworkAccess::parse([entry]).unwrap();
            assert_eq!(access.allows(host, port), is, "{entry} {host}:{port}");
        }
    }

    #[test]
    fn entry_with_an_exact_port_is_the_only_one_that_opens_a_local_host() {
        let exact = |text: &str| {
            let access = NetworkAccess::parse([text]).unwrap();
            let entry = access.hosts().next().unwrap();
            entry.exact().map(|(host, port)| format!("{host} {port}"))
        };
        assert_eq!(exact("127.0.0.1:4873").as_deref(), Some("127.0.0.1 4873"));
        assert_eq!(exact("[::1]:80").as_deref(), Some("::1 80"));
        assert_eq!(exact("x.org"), None);
        assert_eq!(exact("*.x.org:80"), None, "a pattern opens no private address");
        for local in ["localhost", "127.0.0.1", "10.0.0.1", "::1", "registry", "a.localhost"] {
            let error = NetworkAccess::parse([local]).unwrap_err().to_string();
            assert!(error.contains("needs a port"), "{local}: {error}");
        }
    }

    #[test]
    fn words_and_invalid_entries() {
        assert!(NetworkAccess::parse(["none"]).unwrap().is_none());
        assert!(NetworkAccess::parse([]).unwrap().is_none());
        let ask = NetworkAccess::parse(["ask"]).unwrap();
        assert!(!ask.is_none() && !ask.is_all() && !ask.allows("x.org", 443));
        assert!(NetworkAccess::parse(["all"]).unwrap().is_all());
        for bad in [
            "",
            "https://x.org",
            "x.org/p",
            "x.org:",
            "x.org:0",
            "x.org:65536",
            "x.org:+1",
            "x.org:a",
            "a..b",
            "127.1:80",
            "0x7f000001:80",
            "2130706433:80",
            "b\u{fc}cher.example",
            "x.org\0",
            "x y.org",
            "a@b.org",
            "[::1",
            "x.org:80:90",
        ] {
            assert!(NetworkAccess::parse([bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn joined_access_covers_both() {
        let access = |texts: &[&str]| NetworkAccess::parse(texts.iter().copied()).unwrap();
        let joined = access(&["a.org"]).join(&access(&["*.b.org", "a.org"]));
        assert_eq!(joined.texts(), ["a.org", "*.b.org"]);
        let entry = |text: &str| access(&[text]).hosts().next().unwrap().clone();
        assert!(joined.covers(&entry("x.b.org")) && joined.covers(&entry("*.c.b.org")));
        assert!(!joined.covers(&entry("*")) && !joined.covers(&entry("a.org:8080")));
        assert_eq!(NetworkAccess::none().join(&NetworkAccess::all()).to_string(), "all");
    }
}
