//! The only way from a name to addresses.
//!
//! The client itself has no resolver: it is given a connection. So what was checked is what is
//! connected to, and a name that answers differently the next time is checked the next time.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use haft_core::{BoxFuture, Failure, RetryHint};
use url::Host;

use super::target::{Sites, Target};

/// No more addresses of one name are looked at.
const MOST: usize = 16;
/// A name that takes longer is as good as none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks up the addresses of a name. A host may bring its own, such as one that asks over HTTPS.
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// Returns every address of a name. They are checked by whoever asks.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the resolver of the operating system.
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
/// FAIL CLOSED: one inner address among public ones refuses them all, because which of them a
/// client takes is left to chance, and so does a lookup that fails or says nothing.
pub(super) async fn checked(
    target: &Target,
    sites: &Sites,
    resolver: &dyn Resolve,
) -> Result<Vec<SocketAddr>, Failure> {
    let (host, port) = (target.host(), target.port());
    let mut addresses = match host {
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
        Host::Domain(name) => looked_up(name, resolver).await?,
    };
    addresses.truncate(MOST);
    for address in &addresses {
        sites.check(host, port, *address)?;
    }
    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}

async fn looked_up(name: &str, resolver: &dyn Resolve) -> Result<Vec<IpAddr>, Failure> {
    let unknown = |why: &str| {
        Failure::failed(format!("`{name}` cannot be looked up: {why}"))
            .with_next("check the spelling of the host; if it is right, try again later")
    };
    match tokio::time::timeout(PATIENCE, resolver.resolve(name)).await {
        Ok(Ok(found)) if !found.is_empty() => Ok(found),
        Ok(Ok(_)) => Err(unknown("it has no address")),
        Ok(Err(error)) => Err(unknown("nobody knows it").with_source(error)),
        Err(_) => Err(unknown("no answer in time").with_retry(RetryHint::Later)),
    }
}
