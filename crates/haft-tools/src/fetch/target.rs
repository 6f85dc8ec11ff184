//! URL validation: parses a URL once and refuses non-public hosts (SSRF).
//!
//! In: a URL from the model or a `Location` header. Out: a `Target`, or a failure with the correct
//! form. Internal names and addresses are refused before any DNS lookup; `resolve` checks what a
//! name resolves to.
//!
//! INVARIANT: the text spells the host exactly as the parser reads it. So the host that the policy
//! authorized is the host that is reached (parser differential).

use haft_core::Failure;
use url::{Host, Position, Url};

use crate::network::{Sites, denied};

/// Maximum URL length; few servers accept more.
const MAX_URL_BYTES: usize = 4_096;

/// A URL that may be resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    url: Url,
    host: Host<String>,
    port: u16,
}

impl Target {
    /// Parses a URL.
    pub(super) fn parse(text: &str, sites: &Sites) -> Result<Self, Failure> {
        if text.len() > MAX_URL_BYTES {
            return Err(bad(format!(
                "`url` has {} bytes; the maximum is {MAX_URL_BYTES}",
                text.len()
            )));
        }
        if text.contains(|c: char| c.is_ascii_control() || c.is_whitespace() || c == '\\') {
            return Err(bad("`url` contains spaces, control characters or backslashes")
                .with_next("percent-encode them, or remove them"));
        }
        let url = Url::parse(text)
            .map_err(|error| bad(format!("`url` is not a full URL: {error}")))
            .map_err(|failure| failure.with_next("give it as `https://host/path`"))?;
        let target = Self::of(url, sites)?;
        if is_canonical(text, &target.url) { Ok(target) } else { Err(target.not_canonical()) }
    }

    /// Parses the target of a redirect.
    pub(super) fn follow(&self, location: &str, sites: &Sites) -> Result<Self, Failure> {
        let not_canonical = location.contains(|c: char| c.is_ascii_control() || c == '\\');
        if not_canonical || location.len() > MAX_URL_BYTES {
            return Err(bad("the server redirects to an invalid URL"));
        }
        let url = self
            .url
            .join(location)
            .map_err(|error| bad("the server redirects to an invalid URL").with_source(error))?;
        let next = Self::of(url, sites)?;
        if self.url.scheme() == "https" && next.url.scheme() != "https" {
            return Err(denied(format!(
                "{} redirects from https to plain http, which is not encrypted",
                self.host
            )));
        }
        // A location without a host stays on this one; a location with a host must use the
        // canonical spelling.
        let slashes = location.find("//").filter(|at| !location[..*at].contains(['/', '?', '#']));
        let named = slashes.is_some_and(|at| {
            let (scheme, rest) = location.split_at(at);
            let whole = format!("{}:{rest}", next.url.scheme());
            let same = |scheme: &str| scheme.eq_ignore_ascii_case(next.url.scheme());
            !is_canonical(&whole, &next.url) || scheme.strip_suffix(':').is_some_and(|s| !same(s))
        });
        let host_changed = slashes.is_none() && next.host != self.host;
        if named || host_changed { Err(next.not_canonical()) } else { Ok(next) }
    }

    fn of(mut url: Url, sites: &Sites) -> Result<Self, Failure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(denied(format!(
                "the scheme `{}:` is not supported; use http or https",
                url.scheme()
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("`url` contains a user name or a password")
                .with_next("remove the part before the `@`"));
        }
        let (Some(host), Some(port)) =
            (url.host().map(|host| host.to_owned()), url.port_or_known_default())
        else {
            return Err(bad("`url` has no host").with_next("give it as `https://host/path`"));
        };
        sites.admit(&host, port, false)?;
        url.set_fragment(None);
        Ok(Self { url, host, port })
    }

    /// Refuses a host that is not in canonical spelling.
    fn not_canonical(&self) -> Failure {
        let right = &self.url[..Position::AfterPort];
        bad("the host of `url` is not in canonical form, so parsers may read it differently")
            .with_next(format!("if you mean `{right}`, write it like that"))
    }

    /// Returns the URL without a fragment.
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
    pub(super) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }
}

/// Returns whether the text starts as the parser writes it, up to the end of the host.
fn is_canonical(text: &str, url: &Url) -> bool {
    let start = &url[..Position::AfterHost];
    text.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start))
        && matches!(text.as_bytes().get(start.len()), None | Some(b'/' | b':' | b'?' | b'#'))
}

fn bad(message: impl Into<String>) -> Failure {
    Failure::invalid(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, Failure> {
        Target::parse(text, &Sites::default())
    }

    #[test]
    fn plain_public_urls_are_accepted() {
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
    fn redirects_are_checked_like_the_first_url() {
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
    fn an_allowed_site_is_one_host_on_one_port() {
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
        for not_canonical in
            ["", "127.1", "0x7f000001", "a b", "http://x", "x:80", "[::1", "b\u{fc}cher.example"]
        {
            assert!(sites.add(not_canonical, 80).is_err(), "{not_canonical}");
        }
    }

    #[test]
    fn internal_address_is_shown_to_the_operator_only() {
        let host = Host::Domain("rebound.example".to_owned());
        let failure =
            Sites::default().check(&host, 80, "10.11.12.13".parse().unwrap()).unwrap_err();
        assert!(!failure.model_text().contains("10.11"), "{failure}");
        assert!(failure.cause().unwrap().contains("10.11.12.13"));
    }
}
