//! Passes file descriptors over the control socket (`SCM_RIGHTS`).

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use tokio::net::UnixStream;

/// Sends one byte with a file descriptor.
pub(crate) async fn send_file(control: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let send = || {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let data = [io::IoSlice::new(&[0])];
        sendmsg(control, &data, &mut ancillary, SendFlags::empty()).map_err(io::Error::from)
    };
    control.async_io(tokio::io::Interest::WRITABLE, send).await.map(drop)
}

/// Reads bytes, and a file descriptor if one comes with them.
pub(crate) async fn receive(
    control: &UnixStream,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let flags = RecvFlags::empty();
    #[cfg(target_os = "linux")]
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let read = || {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let data = &mut [io::IoSliceMut::new(buffer)];
        let received = recvmsg(control, data, &mut ancillary, flags)?;
        let file = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((received.bytes, file))
    };
    control.async_io(tokio::io::Interest::READABLE, read).await
}
