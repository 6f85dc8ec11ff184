//! A filtering HTTP proxy for one sandboxed command (`CONNECT` and absolute form).
//!
//! In: the listening socket inside the network namespace of the command, and a decision for each
//! host. Out: tunnels to checked addresses, and the contacts for the record. It runs outside the
//! sandbox. A host is parsed (`head`), checked by name and port, decided, resolved once, and its
//! addresses are checked (`sites`, `resolve`); the connection goes to exactly the checked address.
//!
//! INVARIANT: nothing is looked up or sent before the host is allowed. Connections, bytes, the size
//! of a head and every wait are bounded. When the proxy is dropped, all its connections end.

mod contacts;
mod head;
mod tunnel;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use futures_util::{FutureExt as _, future::Shared};
use haft_core::{BoxFuture, Failure, host::RandomState};
use haft_sandbox::{Environment, PROXY_PORT};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use url::Host;

pub(crate) use self::contacts::Contacts;
use self::{
    contacts::{ContactVerdict, Traffic},
    head::{ProxyRequest, RequestKind},
};
use super::{
    resolve::{self, Resolve},
    sites::Sites,
};

/// Timeout of a connection to a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of addresses of one host that are tried.
const MAX_ADDRESSES_TRIED: usize = 3;
/// Hosts that a decision is kept for. Beyond that, new hosts are refused.
const MAX_DECIDED_HOSTS: usize = 1_000;

/// Bounds on the network traffic of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkLimits {
    /// Connections at one time. Further ones wait.
    pub connections: usize,
    /// Bytes of all connections together, both directions.
    pub bytes: u64,
    /// A connection without traffic for this long is closed.
    pub idle: Duration,
    /// Bytes of a request head.
    pub head_bytes: usize,
    /// Time for a request head to arrive.
    pub head_time: Duration,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            connections: 64,                    // package managers open about 16
            bytes: 8 << 30,                     // a large image or toolchain; stops a flood
            idle: Duration::from_secs(120),     // longer than servers keep an idle connection
            head_bytes: 32 << 10,               // servers accept 8 to 16 KiB
            head_time: Duration::from_secs(10), // it is local, so only an attack is slower
        }
    }
}

/// Decides whether a command may contact a host. Asked once for each host, unless it is listed.
pub(crate) trait Decide: Send + Sync + 'static {
    /// Returns whether the host is listed for this port, and no rule restricts it.
    fn is_allowed(&self, host: &str, port: u16) -> bool;
    /// Returns whether the port of this host is listed.
    fn is_port_listed(&self, host: &str, port: u16) -> bool;
    /// Asks about a host that is not allowed yet. Returns the reason if it stays refused.
    fn ask(&self, host: &str, port: u16) -> BoxFuture<'static, Result<(), String>>;
    /// Called after each change of the contacts.
    fn contacted(&self, contacts: &Contacts);
}

type Decision = Shared<BoxFuture<'static, Result<(), String>>>;

/// A proxy for one command.
pub(crate) struct Proxy {
    pub(crate) decide: Arc<dyn Decide>,
    pub(crate) sites: Sites,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) limits: NetworkLimits,
    pub(crate) contacts: Contacts,
}

/// The variables that programs find the proxy by.
pub(crate) fn variables(environment: Environment) -> Environment {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let named = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    let environment = named.into_iter().fold(environment, |all, name| all.set(name, &*proxy));
    // Every host goes through the proxy; nothing else is reachable.
    let none = ["NO_PROXY", "no_proxy"].into_iter();
    none.fold(environment, |all, name| all.set(name, "")).set("NODE_USE_ENV_PROXY", "1")
}

/// The state that all connections share.
struct Shares {
    proxy: Proxy,
    bytes: Arc<AtomicU64>,
    decided: Mutex<HashMap<String, Decision, RandomState>>,
}

/// A refusal: the status, and the reason.
struct Refusal {
    status: u16,
    reason: String,
}

impl Proxy {
    /// Serves until it is dropped.
    ///
    /// # Errors
    /// Fails if the socket cannot be used.
    pub(crate) async fn serve(self, listener: std::net::TcpListener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let slots = Arc::new(Semaphore::new(self.limits.connections.max(1)));
        let shares =
            Arc::new(Shares { proxy: self, bytes: Arc::default(), decided: Mutex::default() });
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return Ok(()) };
            match listener.accept().await {
                Ok((client, _)) => {
                    let shares = Arc::clone(&shares);
                    connections.spawn(async move {
                        shares.connection(client).await;
                        drop(slot);
                    });
                }
                // Out of file descriptors, or the client left again.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

impl Shares {
    async fn connection(&self, mut client: TcpStream) {
        let limits = &self.proxy.limits;
        let read = read_head(&mut client, limits.head_bytes);
        let (head, rest) = match timeout(limits.head_time, read).await {
            Ok(Ok(Some(parts))) => parts,
            Ok(Ok(None)) => {
                let reason = "the request head is too large".to_owned();
                return refuse(client, &Refusal { status: 431, reason }).await;
            }
            Ok(Err(_)) => return,
            Err(_) => {
                let reason = "the request head did not arrive in time".to_owned();
                return refuse(client, &Refusal { status: 408, reason }).await;
            }
        };
        let request = match head::parse(&head) {
            Ok(request) => request,
            Err(bad) => {
                let reason = bad.reason.to_owned();
                return refuse(client, &Refusal { status: bad.status, reason }).await;
            }
        };
        match self.open(&request).await {
            Ok((server, traffic)) => {
                let _ = self.exchange(client, server, request.kind, rest, &traffic).await;
                self.proxy.decide.contacted(&self.proxy.contacts);
            }
            Err(refusal) => refuse(client, &refusal).await,
        }
    }

    /// Decides, resolves, and connects to a checked address.
    async fn open(&self, request: &ProxyRequest) -> Result<(TcpStream, Traffic), Refusal> {
        let Proxy { decide, sites, resolver, contacts, .. } = &self.proxy;
        let (host, port) = (&request.host, request.port);
        let name = typed(host);
        let refused = |reason: String, status: u16| {
            contacts.add(&name, port, ContactVerdict::Refused, Some(&reason));
            decide.contacted(contacts);
            Refusal { status, reason }
        };
        let is_port_listed = decide.is_port_listed(&name, port);
        if let Err(failure) = sites.admit(host, port, is_port_listed) {
            return Err(refused(format!("{}{}", text(&failure), local_hint(&failure)), 403));
        }
        let verdict = if decide.is_allowed(&name, port) {
            ContactVerdict::Allowed
        } else {
            self.decision(&name, port).await.map_err(|reason| refused(reason, 403))?;
            ContactVerdict::Approved
        };
        let addresses = resolve::checked(host, port, sites, &**resolver)
            .await
            .map_err(|failure| refused(text(&failure), 403))?;
        let traffic = contacts.add(&name, port, verdict, None);
        decide.contacted(contacts);
        match connect(&addresses).await {
            Ok(server) => Ok((server, traffic)),
            Err(error) => {
                let reason = format!("`{name}:{port}` cannot be reached: {error}");
                Err(Refusal { status: 502, reason })
            }
        }
    }

    /// Asks about a host, once. Concurrent contacts wait for the same answer.
    fn decision(&self, name: &str, port: u16) -> Decision {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = decided.get(name) {
            return known.clone();
        }
        if decided.len() >= MAX_DECIDED_HOSTS {
            let refused = Err("the command contacts too many hosts".to_owned());
            return std::future::ready(refused).boxed().shared();
        }
        let asked = self.proxy.decide.ask(name, port).shared();
        decided.insert(name.to_owned(), asked.clone());
        asked
    }

    async fn exchange(
        &self,
        mut client: TcpStream,
        mut server: TcpStream,
        kind: RequestKind,
        rest: Vec<u8>,
        traffic: &Traffic,
    ) -> io::Result<()> {
        let bounds = tunnel::Bounds {
            idle: self.proxy.limits.idle,
            most: self.proxy.limits.bytes,
            bytes: &self.bytes,
        };
        match kind {
            RequestKind::Tunnel => {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                tunnel::pass(&mut client, &mut server, rest, u64::MAX, traffic, bounds).await
            }
            RequestKind::Forward { head, body } => {
                bounds.count(&head, &traffic.sent)?;
                server.write_all(&head).await?;
                tunnel::pass(&mut client, &mut server, rest, body, traffic, bounds).await
            }
        }
    }
}

/// Reads up to the empty line. Returns the head and what follows; `None` if it is too large.
async fn read_head(client: &mut TcpStream, most: usize) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        let from = bytes.len().saturating_sub(3);
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let found = bytes[from..].windows(4).position(|part| part == b"\r\n\r\n");
        match found.map(|at| from + at + 4) {
            Some(end) if end <= most => {
                let rest = bytes.split_off(end);
                return Ok(Some((bytes, rest)));
            }
            _ if bytes.len() > most => return Ok(None),
            _ => {}
        }
    }
}

/// Connects to one of the checked addresses.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses.iter().take(MAX_ADDRESSES_TRIED) {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            // TOCTOU: the peer must be the address that was checked.
            Ok(Ok(stream)) if stream.peer_addr()? == *address => return Ok(stream),
            Ok(Ok(_)) => last = io::Error::other("the connected address is not the checked one"),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Answers a request that is refused. Many programs show only the reason in the status line.
async fn refuse(mut client: TcpStream, refusal: &Refusal) {
    let name = match refusal.status {
        403 => "Forbidden",
        408 => "Request Timeout",
        411 => "Length Required",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        505 => "HTTP Version Not Supported",
        _ => "Bad Request",
    };
    let plain: String = refusal
        .reason
        .chars()
        .map(|c| if c.is_ascii_graphic() { c } else { ' ' })
        .take(200)
        .collect();
    let body = format!("haft: {}\n", refusal.reason);
    let answer = format!(
        "HTTP/1.1 {} {name} (haft: {plain})\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        refusal.status,
        body.len()
    );
    let send = async {
        client.write_all(answer.as_bytes()).await?;
        client.shutdown().await?;
        // Unread bytes would reset the connection before the answer is read.
        let mut discarded = [0; 4096];
        for _ in 0..64 {
            if client.read(&mut discarded).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(2), send).await;
}

/// Returns a host as lists and rules compare it: an IPv6 address without brackets, an IPv4 address
/// inside IPv6 as it is.
fn typed(host: &Host<String>) -> String {
    match host {
        Host::Domain(name) => name.clone(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

fn text(failure: &Failure) -> String {
    failure.message().to_owned()
}

/// Explains how a local host is opened.
fn local_hint(failure: &Failure) -> &'static str {
    let is_local = ["loopback", "private", "internal name", "local network", "unique local"]
        .iter()
        .any(|word| failure.message().contains(word));
    if is_local { "; only an entry with its port, as in `localhost:4873`, opens it" } else { "" }
}
