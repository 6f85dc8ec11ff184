//! An address that may be fetched: parsed once, and read only as the parser's typed host.
//!
//! In: the text a model wrote or a server answered with. Out: a `Target`, or a failure that says
//! what would be right. Names of inner networks and inner addresses are refused here, before any
//! lookup; what a name leads to is checked again where it is looked up.
//!
//! INVARIANT: the host stands in the text exactly as the parser read it. So whoever judged the text
//! has judged the host that is reached, and no second spelling of one host exists.

use std::{fmt, net::IpAddr};

use haft_core::{Failure, FailureCode};
use url::{Host, Position, Url};

use super::address::{self, Range, Reach};

/// Longer addresses are refused; few servers take longer ones.
const LONG: usize = 4_096;
/// The longest name the network knows.
const LONG_NAME: usize = 253;

/// Names that lead inside, compared label by label from the right.
const INNER: [&str; 17] = [
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

/// An address that may be looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    url: Url,
    host: Host<String>,
    port: u16,
}

impl Target {
    /// Reads an address.
    pub(super) fn parse(text: &str, sites: &Sites) -> Result<Self, Failure> {
        if text.len() > LONG {
            return Err(bad(format!("`url` is {} bytes long; {LONG} are taken", text.len())));
        }
        if text.contains(|c: char| c.is_ascii_control() || c.is_whitespace() || c == '\\') {
            return Err(bad("`url` holds spaces, control characters or backslashes")
                .with_next("write them percent-encoded, or leave them out"));
        }
        let url = Url::parse(text)
            .map_err(|error| bad(format!("`url` is no whole address: {error}")))
            .map_err(|failure| failure.with_next("give it as `https://host/path`"))?;
        let target = Self::of(url, sites)?;
        match spelled(text, &target.url) {
            true => Ok(target),
            false => Err(target.odd()),
        }
    }

    /// Reads where a server sends us on to.
    pub(super) fn follow(&self, location: &str, sites: &Sites) -> Result<Self, Failure> {
        let odd = location.contains(|c: char| c.is_ascii_control() || c == '\\');
        if odd || location.len() > LONG {
            return Err(bad("the server sends on to something that is no address"));
        }
        let url = self.url.join(location).map_err(|error| {
            bad("the server sends on to something that is no address").with_source(error)
        })?;
        let next = Self::of(url, sites)?;
        if self.url.scheme() == "https" && next.url.scheme() != "https" {
            return Err(denied(format!(
                "{} sends on from https to plain http, where anybody on the way could answer",
                self.host
            )));
        }
        // What does not name a host stays on this one; what names one does it in the one spelling.
        let slashes = location.find("//").filter(|at| !location[..*at].contains(['/', '?', '#']));
        let named = slashes.is_some_and(|at| {
            let (scheme, rest) = location.split_at(at);
            let whole = format!("{}:{rest}", next.url.scheme());
            let same = |scheme: &str| scheme.eq_ignore_ascii_case(next.url.scheme());
            !spelled(&whole, &next.url) || scheme.strip_suffix(':').is_some_and(|s| !same(s))
        });
        let silent = slashes.is_none() && next.host != self.host;
        match named || silent {
            true => Err(next.odd()),
            false => Ok(next),
        }
    }

    fn of(mut url: Url, sites: &Sites) -> Result<Self, Failure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(denied(format!(
                "`{}:` is not fetched; only http and https are",
                url.scheme()
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("`url` holds a user name or a password")
                .with_next("leave out what stands before the `@`"));
        }
        let (Some(host), Some(port)) =
            (url.host().map(|host| host.to_owned()), url.port_or_known_default())
        else {
            return Err(bad("`url` has no host").with_next("give it as `https://host/path`"));
        };
        let allowed = sites.has(&host, port);
        match &host {
            Host::Domain(name) => name_is_sound(name, allowed)?,
            Host::Ipv4(address) => sites.check(&host, port, (*address).into())?,
            Host::Ipv6(address) => sites.check(&host, port, (*address).into())?,
        }
        if !matches!(port, 80 | 443) && !allowed {
            return Err(denied(format!("port {port} is not fetched from; only 80 and 443 are")));
        }
        url.set_fragment(None);
        Ok(Self { url, host, port })
    }

    /// Says that a host must be written as it is read.
    fn odd(&self) -> Failure {
        let right = &self.url[..Position::AfterPort];
        bad("the host of `url` is written in a way that not all readers take alike")
            .with_next(format!("if `{right}` is meant, write it so"))
    }

    /// Returns the whole address, without a fragment.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the host, typed.
    pub(super) fn host(&self) -> &Host<String> {
        &self.host
    }

    /// Returns the port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }
}

/// Returns whether an address begins as the parser writes it, up to the end of its host.
fn spelled(text: &str, url: &Url) -> bool {
    let start = &url[..Position::AfterHost];
    text.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start))
        && matches!(text.as_bytes().get(start.len()), None | Some(b'/' | b':' | b'?' | b'#'))
}

fn name_is_sound(name: &str, allowed: bool) -> Result<(), Failure> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let sound = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(plain);
    if name.len() > LONG_NAME || !name.split('.').all(sound) {
        return Err(bad(format!("`{}` is no name of a host", name.escape_default()))
            .with_next("write the name plainly, without a dot at its end"));
    }
    if allowed {
        return Ok(());
    }
    let inner = INNER.iter().find(|inner| ends_in(name, inner));
    match (inner, name.contains('.')) {
        (None, true) => Ok(()),
        (Some(inner), _) => {
            Err(denied(format!("`{name}` is a name of inner networks (`{inner}`)")))
        }
        (None, false) => Err(denied(format!("`{name}` is a name of the local network"))),
    }
}

/// Compares labels, never text: `notlocal` does not end in `local`.
fn ends_in(name: &str, end: &str) -> bool {
    let mut labels = name.rsplit('.');
    end.rsplit('.').all(|own| labels.next().is_some_and(|label| label.eq_ignore_ascii_case(own)))
}

/// Hosts and ports that whoever runs the tool has opened. Arguments never add to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Sites(Vec<(Host<String>, u16)>);

impl Sites {
    /// Opens one host on one port.
    pub(super) fn add(&mut self, host: &str, port: u16) -> Result<(), NotAHost> {
        // A bare IPv6 address is what people write; the parser wants brackets.
        let parsed = match host.parse() {
            Ok(address) => Host::Ipv6(address),
            Err(_) => Host::parse(host)
                .ok()
                .filter(|parsed| parsed.to_string().eq_ignore_ascii_case(host))
                .ok_or_else(|| NotAHost(host.to_owned()))?,
        };
        self.0.push((parsed, port));
        Ok(())
    }

    fn has(&self, host: &Host<String>, port: u16) -> bool {
        self.0.iter().any(|(own, on)| own == host && *on == port)
    }

    /// Checks an address that a host stands for or leads to.
    pub(super) fn check(
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
        Err(match named {
            // The address itself stays with the operator: it tells of an inner network.
            true => denied(format!("`{host}` leads to {what}"))
                .with_source(format!("{host} resolved to {address}")),
            false => denied(format!("`{host}` is {what}")),
        })
    }
}

/// What was given as a host is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAHost(String);

impl fmt::Display for NotAHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is neither a plain host name nor an IP address", self.0.escape_debug())
    }
}

impl std::error::Error for NotAHost {}

fn bad(message: impl Into<String>) -> Failure {
    Failure::invalid(message)
}

/// Refuses for good: another spelling of the same place is not worth a try.
pub(super) fn denied(message: impl Into<String>) -> Failure {
    Failure::new(FailureCode::Denied, message)
        .with_next("use a public http or https address, or tell the user what you would need")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, Failure> {
        Target::parse(text, &Sites::default())
    }

    #[test]
    fn plain_public_addresses_are_taken() {
        for text in [
            "https://example.com",
            "HTTPS://Example.COM/Path?q=1#part",
            "http://example.com:80/",
            "https://example.com:443/a%20b",
            "http://example.com:443/",
            "https://xn--bcher-kva.example/",
            "https://8.8.8.8/",
            "https://[2001:4860:4860::8888]/",
            "https://a-b.c_d.example.org?x",
            "https://notlocal.example/ü",
            "https://local.example.org/",
        ] {
            let target = parse(text).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            assert!(target.url().fragment().is_none());
        }
    }

    #[test]
    fn a_way_on_is_checked_like_a_first_address() {
        let at = |text: &str| parse(text).unwrap();
        let plain = at("http://example.com/a/b");
        let none = Sites::default();
        let follow = |from: &Target, to: &str| {
            from.follow(to, &none).map(|next| next.url.to_string()).map_err(|f| f.code().as_str())
        };
        assert_eq!(follow(&plain, "c"), Ok("http://example.com/a/c".into()));
        assert_eq!(
            follow(&plain, "/c?u=http://127.0.0.1/"),
            Ok("http://example.com/c?u=http://127.0.0.1/".into())
        );
        assert_eq!(follow(&plain, "//other.org/x"), Ok("http://other.org/x".into()));
        assert_eq!(follow(&plain, "https://example.com/"), Ok("https://example.com/".into()));
        let safe = at("https://example.com/");
        for (from, to, code) in [
            (&safe, "http://example.com/", "denied"),
            (&plain, "http://127.0.0.1/", "denied"),
            (&plain, "http://0x7f.1/", "denied"),
            (&plain, "//localhost/", "denied"),
            (&plain, "file:///etc/passwd", "denied"),
            (&plain, "gopher://example.com/", "denied"),
            (&plain, "javascript:alert(1)", "denied"),
            (&plain, "http://user@example.com/", "invalid_value"),
            (&plain, "http://example.com:22/", "denied"),
            (&plain, "http://0x08080808/", "invalid_value"),
            (&plain, "//0x08080808/", "invalid_value"),
            (&plain, "http:\\\\other.org/", "invalid_value"),
            (&plain, "https:other.org/", "invalid_value"),
            (&plain, "https:/other.org/", "invalid_value"),
            (&plain, "http://b\u{fc}cher.example/", "invalid_value"),
            (&plain, "/a\tb", "invalid_value"),
        ] {
            assert_eq!(follow(from, to), Err(code), "{to}");
        }
    }

    #[test]
    fn what_is_opened_is_one_host_on_one_port() {
        let mut sites = Sites::default();
        for (host, port) in
            [("127.0.0.1", 8080), ("wiki.corp", 80), ("::1", 8080), ("example.com", 8443)]
        {
            sites.add(host, port).unwrap();
        }
        for text in [
            "http://127.0.0.1:8080/",
            "http://wiki.corp/",
            "http://[::1]:8080/",
            "https://example.com:8443/",
        ] {
            assert!(Target::parse(text, &sites).is_ok(), "{text}");
        }
        for text in [
            "http://127.0.0.1/",
            "http://127.0.0.2:8080/",
            "http://127.1:8080/",
            "http://wiki.corp:81/",
            "http://x.wiki.corp/",
            "http://[::1]/",
            "http://other.com:8443/",
        ] {
            assert!(Target::parse(text, &sites).is_err(), "{text}");
        }
        let wiki = Host::Domain("wiki.corp".to_owned());
        assert!(sites.check(&wiki, 80, "10.0.0.7".parse().unwrap()).is_ok());
        assert!(sites.check(&wiki, 81, "10.0.0.7".parse().unwrap()).is_err());
        assert!(sites.check(&wiki, 80, "169.254.169.254".parse().unwrap()).is_err());
        for odd in
            ["", "127.1", "0x7f000001", "a b", "http://x", "x:80", "[::1", "b\u{fc}cher.example"]
        {
            assert!(sites.add(odd, 80).is_err(), "{odd}");
        }
    }

    #[test]
    fn where_an_inner_name_leads_is_told_to_the_operator_alone() {
        let host = Host::Domain("rebound.example".to_owned());
        let failure =
            Sites::default().check(&host, 80, "10.11.12.13".parse().unwrap()).unwrap_err();
        assert!(!failure.to_string().contains("10.11"), "{failure}");
        assert!(failure.cause().unwrap().contains("10.11.12.13"));
    }
}
