//! Lets the HTTP client read and write a tokio stream, plain or encrypted.
//!
//! Bytes are read into a buffer of our own first: one copy more, and no `unsafe`.

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

/// So much is read at once.
const PIECE: usize = 16 << 10;

/// A connection to a checked address.
pub(super) enum Wire {
    /// Readable by anybody on the way.
    Plain(TcpStream),
    /// Encrypted, with a certificate that was verified. Boxed: it is two kilobytes.
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; PIECE];
        let room = into.remaining().min(PIECE);
        let mut read = ReadBuf::new(&mut piece[..room]);
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
