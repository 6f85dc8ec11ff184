//! Adapts a tokio stream, plain or TLS, to the HTTP client.
//!
//! Reads into its own buffer first: one more copy, but no `unsafe`.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// Bytes per read.
const READ_BYTES: usize = 16 << 10;

/// A connection to a checked address.
pub(super) enum Wire {
    /// Unencrypted.
    Plain(TcpStream),
    /// TLS, with a verified certificate. Boxed: it is two kilobytes.
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; READ_BYTES];
        let space = into.remaining().min(READ_BYTES);
        let mut read = ReadBuf::new(&mut piece[..space]);
        ready!(match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(task, &mut read),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(task, &mut read),
        })?;
        into.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(task, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(task, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(task),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(task),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(task),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(task),
        }
    }
}
