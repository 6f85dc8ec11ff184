//! Parses the head of a proxy request: `CONNECT host:port`, or a method with an `http://` URL.
//!
//! In: the bytes up to the empty line. Out: the host and the port, and for a plain request the head
//! that is forwarded. Pure.
//!
//! FAIL CLOSED: what two parsers could read differently is refused (request smuggling): bare CR or
//! LF, folded lines, blanks before a colon, NUL, several lengths, `Transfer-Encoding`.

use url::Host;

use super::super::sites::parse_host;

/// Maximum number of header lines.
const MAX_HEADERS: usize = 100;
/// Headers about one connection. They are not forwarded.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
];

/// A request of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    pub(super) kind: RequestKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Bytes are passed in both directions.
    Tunnel,
    /// One request and its response.
    Forward {
        /// The head that the server gets.
        head: Vec<u8>,
        /// Bytes of the body.
        body: u64,
    },
}

/// Why a head is refused: the status, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadHead {
    pub(super) status: u16,
    pub(super) reason: &'static str,
}

fn bad(reason: &'static str) -> BadHead {
    BadHead { status: 400, reason }
}

/// Parses a head that ends with an empty line.
pub(super) fn parse(bytes: &[u8]) -> Result<ProxyRequest, BadHead> {
    let text = bytes.strip_suffix(b"\r\n\r\n").ok_or(bad("the request head is incomplete"))?;
    if !text.iter().all(|b| *b == b'\r' || *b == b'\n' || *b == b'\t' || *b >= b' ' && *b != 0x7f) {
        return Err(bad("the request head has control characters"));
    }
    let text = std::str::from_utf8(text).map_err(|_| bad("the request head is not UTF-8"))?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
    if first.contains(['\r', '\n']) {
        return Err(bad("the request line has a bare line break"));
    }
    if headers.len() > MAX_HEADERS {
        return Err(BadHead { status: 431, reason: "the request has too many header lines" });
    }
    let [method, target, version] = first.split(' ').collect::<Vec<_>>()[..] else {
        return Err(bad("the request line must be a method, a target and a version"));
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(bad("the method is not valid"));
    }
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(BadHead { status: 505, reason: "only HTTP/1.1 and HTTP/1.0 are supported" });
    }
    if !target.is_ascii() || target.contains(['\\', '\t']) {
        return Err(bad("the target has characters outside ASCII; write an IDN as `xn--…`"));
    }
    let length = body_length(&headers)?;
    if method == "CONNECT" {
        if length != 0 {
            return Err(bad("CONNECT has no body"));
        }
        let (host, port) = authority(target, None)?;
        return Ok(ProxyRequest { host, port, kind: RequestKind::Tunnel });
    }
    let Some(rest) = strip_scheme(target) else {
        return Err(bad(
            "this is a proxy: it takes `CONNECT host:port`, or a full `http://` URL; for https use CONNECT",
        ));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (named, path) = rest.split_at(end);
    if path.contains('#') {
        return Err(bad("the target has a fragment"));
    }
    let (host, port) = authority(named, Some(80))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {}\r\n", shown(&host, port));
    let is_named_hop = |name: &str| {
        headers.iter().any(|(own, value)| {
            own.eq_ignore_ascii_case("connection")
                && value.split(',').any(|item| item.trim().eq_ignore_ascii_case(name))
        })
    };
    for (name, value) in &headers {
        let is_hop = HOP_BY_HOP.iter().any(|hop| hop.eq_ignore_ascii_case(name));
        if !is_hop && !name.eq_ignore_ascii_case("host") && !is_named_hop(name) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    // One request for each connection: what follows cannot be a request to another host.
    head.push_str("Connection: close\r\n\r\n");
    let kind = RequestKind::Forward { head: head.into_bytes(), body: length };
    Ok(ProxyRequest { host, port, kind })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Splits a header line into name and value.
fn header(line: &str) -> Result<(&str, &str), BadHead> {
    if line.contains(['\r', '\n']) {
        return Err(bad("a header line has a bare line break"));
    }
    let (name, value) = line.split_once(':').ok_or(bad("a header line has no colon"))?;
    // A folded line starts with a blank, so its name is not a token.
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(bad("a header name is not valid"));
    }
    Ok((name, value.trim_matches([' ', '\t'])))
}

/// Returns the length of the body. Two statements about it are refused, even if they agree.
fn body_length(headers: &[(&str, &str)]) -> Result<u64, BadHead> {
    let named = |wanted: &'static str| {
        headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    if named("host").count() > 1 {
        return Err(bad("there are several Host headers"));
    }
    let (coded, mut lengths) = (named("transfer-encoding").count(), named("content-length"));
    match (coded, lengths.next(), lengths.next()) {
        (0, None, _) => Ok(0),
        (0, Some((_, length)), None) => {
            let is_number = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
            let length = length.parse().ok().filter(|_| is_number);
            length.ok_or(bad("the Content-Length is not a number"))
        }
        (_, None, _) => Err(BadHead {
            status: 411,
            reason: "a plain request needs a Content-Length; Transfer-Encoding is not supported",
        }),
        _ => Err(bad("the length of the body is stated more than once")),
    }
}

fn strip_scheme(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_at_checked("http://".len())?;
    scheme.eq_ignore_ascii_case("http://").then_some(rest)
}

/// Parses `host:port`. A host must be spelled as the URL parser writes it, so no spelling of an
/// address hides what it is.
fn authority(text: &str, default: Option<u16>) -> Result<(Host<String>, u16), BadHead> {
    const HOST: &str = "the host is not a plain host name or IP address";
    const PORT: &str = "the port is not a number from 1 to 65535";
    if text.contains('@') {
        return Err(bad("the target has a user name or a password"));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(bad(HOST))?;
            let address: std::net::Ipv6Addr = host.parse().map_err(|_| bad(HOST))?;
            (Host::Ipv6(address), port)
        }
        None => {
            let at = text.find(':').unwrap_or(text.len());
            let (host, port) = text.split_at(at);
            (parse_host(host).map_err(|_| bad(HOST))?, port)
        }
    };
    let port = match (port.strip_prefix(':'), default) {
        (None, Some(default)) if port.is_empty() => default,
        (Some(digits), _) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or(bad(PORT))?
        }
        _ => return Err(bad(PORT)),
    };
    Ok((host, port))
}

/// Writes an authority as a server expects it in `Host`.
fn shown(host: &Host<String>, port: u16) -> String {
    if port == 80 { host.to_string() } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<ProxyRequest, BadHead> {
        parse(format!("{text}\r\n\r\n").as_bytes())
    }

    #[test]
    fn connect_and_absolute_form_are_parsed() {
        let tunnel = of("CONNECT Packages.Example:443 HTTP/1.1\r\nHost: other").unwrap();
        assert_eq!((tunnel.host.to_string().as_str(), tunnel.port), ("packages.example", 443));
        assert_eq!(tunnel.kind, RequestKind::Tunnel);
        let plain =
            of("GET http://x.org/a?b=http://y.org HTTP/1.1\r\nHost: evil.org\r\nAccept: a\r\n\
            Proxy-Authorization: secret\r\nConnection: X-Drop\r\nX-Drop: 1\r\nUpgrade: h2c")
            .unwrap();
        let RequestKind::Forward { head, body } = plain.kind else { panic!("not forwarded") };
        assert_eq!((plain.host.to_string().as_str(), plain.port, body), ("x.org", 80, 0));
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "GET /a?b=http://y.org HTTP/1.1\r\nHost: x.org\r\nAccept: a\r\nConnection: close\r\n\r\n"
        );
        let post = of("POST HTTP://[::1]:8080?q HTTP/1.0\r\nContent-Length: 12").unwrap();
        let RequestKind::Forward { head, body } = post.kind else { panic!("not forwarded") };
        assert_eq!(body, 12);
        assert!(head.starts_with(b"POST /?q HTTP/1.1\r\nHost: [::1]:8080\r\n"));
    }

    #[test]
    fn request_smuggling_forms_are_refused() {
        for (status, head) in [
            (400, "GET / HTTP/1.1\r\nHost: x.org"),
            (400, "GET https://x.org/ HTTP/1.1"),
            (400, "GET ftp://x.org/ HTTP/1.1"),
            (400, "OPTIONS * HTTP/1.1"),
            (400, "GET http://x.org/\tHTTP/1.1"),
            (400, "GET  http://x.org/ HTTP/1.1"),
            (400, "GET http://x.org/ HTTP/1.1 x"),
            (505, "GET http://x.org/ HTTP/2.0"),
            (400, "GET http://x.org/ HTTP/1.1\rX: 1"),
            (400, "GET http://x.org/ HTTP/1.1\nX: 1"),
            (400, "GET http://x.org/ HTTP/1.1\r\nA: 1\nB: 2"),
            (400, "GET http://x.org/ HTTP/1.1\r\nA: 1\r B: 2"),
            (400, "GET http://x.org/ HTTP/1.1\r\nA: 1\r\n folded"),
            (400, "GET http://x.org/ HTTP/1.1\r\nA : 1"),
            (400, "GET http://x.org/ HTTP/1.1\r\n: 1"),
            (400, "GET http://x.org/ HTTP/1.1\r\nno colon"),
            (400, "GET http://x.org/ HTTP/1.1\r\nHost: a\r\nHost: a"),
            (400, "POST http://x.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1"),
            (400, "POST http://x.org/ HTTP/1.1\r\nContent-Length: 1, 1"),
            (400, "POST http://x.org/ HTTP/1.1\r\nContent-Length: +1"),
            (400, "POST http://x.org/ HTTP/1.1\r\nContent-Length: 0x1"),
            (400, "POST http://x.org/ HTTP/1.1\r\nContent-Length: 99999999999999999999"),
            (411, "POST http://x.org/ HTTP/1.1\r\nTransfer-Encoding: chunked"),
            (400, "POST http://x.org/ HTTP/1.1\r\nTransfer-Encoding: x\r\nContent-Length: 1"),
            (400, "CONNECT x.org:443 HTTP/1.1\r\nContent-Length: 5"),
            (411, "CONNECT x.org:443 HTTP/1.1\r\nTransfer-Encoding: chunked"),
            (400, "GET http://x.org/#a HTTP/1.1"),
            (400, "GET http://x.org\\@y.org/ HTTP/1.1"),
            (400, "G\u{e9}T http://x.org/ HTTP/1.1"),
        ] {
            assert_eq!(of(head).map_err(|bad| bad.status), Err(status), "{head:?}");
        }
        let many = (0..101).map(|n| format!("\r\nA{n}: 1")).collect::<String>();
        assert_eq!(of(&format!("GET http://x.org/ HTTP/1.1{many}")).unwrap_err().status, 431);
    }

    #[test]
    fn only_canonical_spellings_of_a_host_are_parsed() {
        for odd in [
            "",
            "x.org",
            ":443",
            "x.org:",
            "x.org:0",
            "x.org:65536",
            "x.org:+443",
            "x.org:443:443",
            "2130706433:443",
            "0x7f000001:443",
            "0x7f.1:443",
            "0177.0.0.1:443",
            "127.1:443",
            "127.0.0.1.:443",
            "::1:443",
            "[::1]",
            "[::1",
            "[127.0.0.1]:443",
            "[::1%25lo]:443",
            "user@x.org:443",
            "x.org/a:443",
            "b\u{fc}cher.example:443",
            "x%2eorg:443",
            "x y:443",
            "x.org\0.evil.org:443",
            "x.org\u{200b}:443",
            "xn--\u{fc}:443",
            "https://x.org:443",
        ] {
            assert!(of(&format!("CONNECT {odd} HTTP/1.1")).is_err(), "{odd:?}");
        }
        for fine in
            ["127.0.0.1:443", "[::1]:443", "[::ffff:127.0.0.1]:443", "xn--bcher-kva.example:443"]
        {
            assert!(of(&format!("CONNECT {fine} HTTP/1.1")).is_ok(), "{fine}");
        }
    }
}
