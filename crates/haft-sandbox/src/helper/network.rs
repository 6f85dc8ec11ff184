//! The listening socket of a proxy: made inside the new network namespace, sent to the runtime.
//!
//! Out: a socket that listens on loopback there. The runtime accepts its connections outside, so
//! the namespace needs no route and no bridge. The command gets no copy of the socket.

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::{SetupError, sys};
use crate::{Network, PROXY_PORT, Profile};

/// Connections that wait to be accepted. The proxy has its own, smaller bound.
const BACKLOG: i32 = 128;

/// Opens the listening socket if the profile has a proxy. Call it in the new network namespace,
/// before privileges are dropped.
pub(super) fn listener(profile: &Profile) -> Result<Option<OwnedFd>, SetupError> {
    if profile.network != Network::Proxy {
        return Ok(None);
    }
    open().map(Some).map_err(SetupError::machine("proxy socket"))
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Bubblewrap has done it already, and leaves no right to do it.
    let _ = sys::bring_up(socket.as_fd(), b"lo");
    // Without `SO_REUSEPORT` no other socket can share the port.
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Writes a line to the control socket, with the listening socket attached to it.
pub(super) fn send_line(control: &mut File, line: &[u8], socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [socket];
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let data = [IoSlice::new(line)];
    let sent = rustix::net::sendmsg(&*control, &data, &mut ancillary, SendFlags::empty())?;
    control.write_all(line.get(sent..).unwrap_or_default())
}
