//! DNS resolution, the only path from a host name to addresses (SSRF, DNS rebinding).
//!
//! INVARIANT: neither the HTTP client nor the proxy has a resolver of its own. They connect to the
//! addresses checked here, and every lookup is checked again.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use haft_core::{BoxFuture, Failure, RetryHint};
use url::Host;

use super::sites::Sites;

/// Maximum number of addresses of one name.
const MAX_ADDRESSES: usize = 16;
/// Timeout of a DNS lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A DNS resolver. A host program may bring its own, such as DNS over HTTPS.
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// Returns every address of a name. The caller checks them.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Returns the addresses that may be connected to.
///
/// FAIL CLOSED: one non-public address among public ones refuses all, because the choice among them
/// is arbitrary. A failed or empty lookup is refused too.
pub(crate) async fn checked(
    host: &Host<String>,
    port: u16,
    sites: &Sites,
    resolver: &dyn Resolve,
) -> Result<Vec<SocketAddr>, Failure> {
    let mut addresses = match host {
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
        Host::Domain(name) => lookup(name, resolver).await?,
    };
    addresses.truncate(MAX_ADDRESSES);
    for address in &addresses {
        sites.check(host, port, *address)?;
    }
    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}

async fn lookup(name: &str, resolver: &dyn Resolve) -> Result<Vec<IpAddr>, Failure> {
    let unknown = |why: &str| {
        Failure::failed(format!("DNS lookup of `{name}` failed: {why}"))
            .with_next("check the spelling of the host; if it is right, try again later")
    };
    match tokio::time::timeout(LOOKUP_TIMEOUT, resolver.resolve(name)).await {
        Ok(Ok(found)) if !found.is_empty() => Ok(found),
        Ok(Ok(_)) => Err(unknown("it has no address")),
        Ok(Err(error)) => Err(unknown("the name does not resolve").with_source(error)),
        Err(_) => Err(unknown("no answer before the timeout").with_retry(RetryHint::Later)),
    }
}
