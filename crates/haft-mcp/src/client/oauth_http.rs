//! The HTTP requests of OAuth: metadata, registration and tokens (SSRF).
//!
//! Metadata of a server names other hosts. They may be loopback or private addresses only if the
//! server itself is at such an address. FAIL CLOSED: the check is on the resolved address, and no
//! redirect is followed.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};

use super::http;

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest response.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Sends the requests of one server's OAuth.
pub(super) struct OAuthTransport {
    client: Client,
    reach: Reach,
}

/// Which addresses may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Public addresses.
    Public,
    /// Private ones too.
    Private,
    /// Loopback too.
    Loopback,
}

impl OAuthTransport {
    pub(super) fn new(server: &Url, ca_roots: &[Vec<u8>]) -> Result<Self, String> {
        let reach = match host_address(server) {
            Some(address) => class(address).unwrap_or(Reach::Public),
            None if server.host_str() == Some("localhost") => Reach::Loopback,
            None => Reach::Public,
        };
        let client = http::builder(ca_roots)?
            .timeout(REQUEST_TIMEOUT)
            .dns_resolver(std::sync::Arc::new(CheckedResolver(reach)))
            .build()
            .map_err(|why| format!("the HTTP client cannot be made: {}", why.without_url()))?;
        Ok(Self { client, reach })
    }

    /// An address in a URL is not resolved, so it is checked here.
    fn may_reach(&self, url: &Url) -> bool {
        let is_literal_allowed = host_address(url).is_none_or(|address| self.reach.allows(address));
        let is_secure = url.scheme() == "https" || self.reach > Reach::Public;
        is_literal_allowed && is_secure
    }
}

/// The address of a URL whose host is one.
fn host_address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

impl Reach {
    fn allows(self, address: IpAddr) -> bool {
        class(address).is_some_and(|class| class <= self)
    }
}

/// What kind of address it is; `None` for one that is never reached.
fn class(address: IpAddr) -> Option<Reach> {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => class_v4(address),
            None => class_v6(address),
        },
    }
}

fn class_v4(address: Ipv4Addr) -> Option<Reach> {
    let [a, b, ..] = address.octets();
    if address.is_loopback() {
        Some(Reach::Loopback)
    } else if address.is_private() || (a == 100 && (64..128).contains(&b)) {
        Some(Reach::Private)
    } else {
        let is_special = a == 0
            || a >= 224
            || address.is_link_local()
            || address.is_documentation()
            || (a == 198 && (18..20).contains(&b))
            || (a == 192 && b == 0);
        (!is_special).then_some(Reach::Public)
    }
}

fn class_v6(address: Ipv6Addr) -> Option<Reach> {
    let [first, second, ..] = address.segments();
    if address.is_loopback() {
        Some(Reach::Loopback)
    } else if first & 0xfe00 == 0xfc00 {
        Some(Reach::Private)
    } else {
        // Only global unicast, without the ranges that embed IPv4 addresses.
        let is_global = first & 0xe000 == 0x2000;
        let embeds = first == 0x2002 || (first == 0x2001 && (second == 0 || second == 0xdb8));
        (is_global && !embeds).then_some(Reach::Public)
    }
}

/// Resolves names to allowed addresses only (DNS rebinding).
struct CheckedResolver(Reach);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|at| reach.allows(at.ip())).collect();
            if allowed.is_empty() {
                return Err("the address of this host is not allowed".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

impl OAuthHttpClient for OAuthTransport {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request)?;
            if !self.may_reach(request.url()) {
                return Err("the URL is not allowed: a private address, or not HTTPS".into());
            }
            let mut response =
                self.client.execute(request).await.map_err(reqwest::Error::without_url)?;
            let mut answer = ::http::Response::builder().status(response.status());
            for (name, value) in response.headers() {
                answer = answer.header(name, value);
            }
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
                body.extend_from_slice(&chunk);
                if body.len() > MAX_BODY_BYTES {
                    return Err(
                        format!("the response is larger than {MAX_BODY_BYTES} bytes").into()
                    );
                }
            }
            Ok(answer.body(body)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(server: &str, url: &str) -> bool {
        let url = Url::parse(url).unwrap();
        OAuthTransport::new(&Url::parse(server).unwrap(), &[]).unwrap().may_reach(&url)
    }

    #[test]
    fn metadata_of_a_public_server_cannot_name_a_private_address() {
        let public = "https://mcp.example.com/";
        assert!(may(public, "https://auth.example.com/token"));
        for bad in [
            "https://127.0.0.1/",
            "https://10.0.0.1/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "http://auth.example.com/",
            "https://[2002:7f00:1::]/",
            "https://0.0.0.0/",
        ] {
            assert!(!may(public, bad), "{bad}");
        }
        assert!(may("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token"));
        assert!(!may("http://10.0.0.1/mcp", "http://127.0.0.1:2/token"));
        assert!(!may("http://127.0.0.1:1/mcp", "http://169.254.169.254/"), "never link-local");
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_loopback_is_refused() {
        let public = OAuthTransport::new(&Url::parse("https://mcp.example.com").unwrap(), &[]);
        let refused = public.unwrap().client.get("https://localhost:1/").send().await.unwrap_err();
        assert!(format!("{refused:?}").contains("not allowed"), "{refused:?}");
    }
}
