//! Passes bytes between a command and a host, in both directions, until both have ended.
//!
//! A tunnel without traffic is closed, and so is one that exceeds the bytes of the command. Both
//! are counted without a clock: a wait that saw no byte in either direction ends the tunnel.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::contacts::Traffic;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 32 << 10;

/// What bounds a tunnel.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
    pub(super) idle: Duration,
    /// Bytes of all tunnels together.
    pub(super) most: u64,
    /// The bytes that all tunnels have passed so far.
    pub(super) bytes: &'a AtomicU64,
}

impl Bounds<'_> {
    /// Counts bytes, and fails above the bound.
    pub(super) fn count(&self, bytes: &[u8], own: &AtomicU64) -> io::Result<()> {
        let n = bytes.len() as u64;
        own.fetch_add(n, Ordering::Relaxed);
        if self.bytes.fetch_add(n, Ordering::Relaxed).saturating_add(n) > self.most {
            return Err(io::Error::other("the command has used all its network traffic"));
        }
        Ok(())
    }
}

/// Passes bytes. The command sends at most `body` bytes after its request head, of which `rest` was
/// read already.
pub(super) async fn pass(
    client: &mut TcpStream,
    server: &mut TcpStream,
    mut rest: Vec<u8>,
    body: u64,
    traffic: &Traffic,
    bounds: Bounds<'_>,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let seen = AtomicU64::new(0);
    // Bytes beyond the body would be a second request, to a host that was not checked for it.
    rest.truncate(usize::try_from(body).unwrap_or(usize::MAX));
    let left = body - rest.len() as u64;
    let sending = async {
        bounds.count(&rest, &traffic.sent)?;
        timeout(bounds.idle, to_server.write_all(&rest)).await??;
        let limited = (&mut from_client).take(left);
        copy(limited, &mut to_server, &traffic.sent, &seen, bounds).await?;
        // A server may close on the end of input before it has answered, so a request is not ended.
        if body == u64::MAX { to_server.shutdown().await } else { Ok(()) }
    };
    let receiving = async {
        copy(&mut from_server, &mut to_client, &traffic.received, &seen, bounds).await?;
        to_client.shutdown().await
    };
    if body == u64::MAX {
        return tokio::try_join!(sending, receiving).map(drop);
    }
    // The response of a plain request may end while the body is still being sent.
    let mut receiving = std::pin::pin!(receiving);
    tokio::select! {
        done = &mut receiving => done,
        sent = sending => {
            sent?;
            receiving.await
        }
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    own: &AtomicU64,
    seen: &AtomicU64,
    bounds: Bounds<'_>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let before = seen.load(Ordering::Relaxed);
        let n = match timeout(bounds.idle, from.read(&mut chunk)).await {
            Ok(n) => n?,
            // The other direction had traffic.
            Err(_) if seen.load(Ordering::Relaxed) != before => continue,
            Err(idle) => return Err(idle.into()),
        };
        let Some(bytes) = chunk.get(..n).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        seen.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        bounds.count(bytes, own)?;
        timeout(bounds.idle, to.write_all(bytes)).await??;
    }
}
