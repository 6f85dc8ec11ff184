//! Extracts the host of a URL (against SSRF), typed, so that rules compare labels and never text.
//!
//! FAIL CLOSED: if two URL parsers could disagree about the host, it is an error, and callers take
//! the strict side.

mod pattern;

use std::net::{Ipv4Addr, Ipv6Addr};

use fluent_uri::Uri;

pub(crate) use self::pattern::HostPattern;

/// The longest DNS name.
const MAX_HOST_BYTES: usize = 253;

/// Returns the host of a URL, or of a text that is a host with or without a port.
pub(crate) fn host(address: &str) -> Result<String, String> {
    if address.bytes().any(|b| b.is_ascii_control()) {
        return Err("the URL contains control characters".to_owned());
    }
    let authority = authority(address)?;
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    let authority = &authority[..end];
    if authority.len() > 4 * MAX_HOST_BYTES {
        return Err("the URL is too long".to_owned());
    }
    if authority.contains(['\\', '%', ' ']) || !authority.is_ascii() {
        return Err("the host is ambiguous: URL parsers read it differently".to_owned());
    }
    let whole = format!("x://{authority}");
    let parsed = Uri::parse(whole.as_str()).map_err(|_| "it is not a valid URL".to_owned())?;
    let parsed = parsed.authority().ok_or_else(|| "the URL has no host".to_owned())?;
    typed(parsed.host())
}

/// Returns the authority of a URL.
fn authority(address: &str) -> Result<&str, String> {
    if let Some(rest) = address.strip_prefix("//") {
        return Ok(rest);
    }
    let Some((before, after)) = address.split_once(':') else { return Ok(address) };
    let is_scheme = before.starts_with(|c: char| c.is_ascii_alphabetic())
        && before.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if let Some(rest) = after.strip_prefix("//").filter(|_| is_scheme) {
        if before.eq_ignore_ascii_case("file") {
            return Err("a `file:` URL names a file, not a host".to_owned());
        }
        return Ok(rest);
    }
    // `https:evil.org` is a host to some parsers; `evil.org:80` is one to all.
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let port = &after[..end];
    let bare = address.starts_with('[') || before.contains(['/', '?', '#']);
    if bare || (!port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())) {
        Ok(address)
    } else {
        Err("it is not a complete URL".to_owned())
    }
}

/// Normalizes a host: lower case, no trailing dot, IP addresses as numbers.
fn typed(host: &str) -> Result<String, String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address: Ipv6Addr =
            inner.parse().map_err(|_| format!("`{host}` is not a valid address"))?;
        return Ok(plain(address));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if name.is_empty() {
        return Err("the URL has no host".to_owned());
    }
    if name.len() > MAX_HOST_BYTES {
        return Err("the host is too long".to_owned());
    }
    for label in name.split('.') {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if label.is_empty() || label.len() > 63 || !label.bytes().all(plain) {
            return Err(format!("`{label}` is not a valid host label"));
        }
    }
    // A name that ends in a number is an IPv4 address to some parsers, even in octal or
    // hexadecimal.
    let last = name.rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if number && name.parse::<Ipv4Addr>().is_err() {
        return Err(format!("`{name}` is an unusual spelling of an IP address"));
    }
    Ok(name)
}

/// Normalizes an IPv6 address; an IPv4-mapped one becomes the IPv4 address.
pub(crate) fn plain(address: Ipv6Addr) -> String {
    match address.to_ipv4_mapped() {
        Some(short) => short.to_string(),
        None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_what_the_url_parser_returns() {
        for (address, is) in [
            ("https://X.org/p?q#f", "x.org"),
            ("HTTPS://x.org.", "x.org"),
            ("https://good.org@evil.org/", "evil.org"),
            ("https://user:pw@a.b:8080", "a.b"),
            ("//x.org/p", "x.org"),
            ("x.org", "x.org"),
            ("x.org:443/p", "x.org"),
            ("x.org/?u=https://good.org", "x.org"),
            ("https://xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("http://127.0.0.1:1/", "127.0.0.1"),
            ("http://[0:0::1]:80/", "::1"),
            ("[::1]:80", "::1"),
            ("http://[::ffff:127.0.0.1]/", "127.0.0.1"),
            ("http://[::ffff:7f00:1]/", "127.0.0.1"),
            ("https://x.org/a b\\c%00", "x.org"),
        ] {
            assert_eq!(host(address), Ok(is.to_owned()), "{address}");
        }
    }

    #[test]
    fn ambiguous_url_has_no_host() {
        for odd in [
            "",
            "https://",
            "https:///p",
            "https:evil.org",
            "https:/evil.org",
            "mailto:bob@x.org",
            "data:text/plain,x",
            "file:///etc/passwd",
            "https://evil.org\\@good.org/",
            "https://e%76il.org/",
            "https://good.org%00.evil.org",
            "https://b\u{fc}cher.example/",
            "https://go\u{200b}od.org/",
            "https://x.org\n.evil.org/",
            "ht\ttps://x.org",
            "https://a..b/",
            "https://.a/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://2130706433/",
            "https://127.1/",
            "https://0x7f000001/",
            "https://1.2.3.4.5/",
            "https://[::1%25eth0]/",
            "https://[v1.x]/",
            "https://x.org:80:90/",
            "https://x y.org/",
        ] {
            assert!(host(odd).is_err(), "{odd:?} gave {:?}", host(odd));
        }
    }
}
