//! A connection as those see it who speak a protocol on it, whatever carries it.

use crate::io::Io;
use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

/// See the module's head.
pub struct Stream {
    io: Io,
}

impl From<Io> for Stream {
    fn from(io: Io) -> Stream {
        Stream { io }
    }
}

impl Stream {
    /// The socket, for what concerns it as such (options, addresses). Bytes go through the stream only.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.io.fd()
    }

    /// From now on events go to the driver under `key`. If there is unread readiness it is told at once.
    pub fn set_hot(&self, key: u64) {
        self.io.set_hot(key);
    }

    /// From now on events wake the task that waits.
    pub fn set_task(&self) {
        self.io.set_task();
    }

    /// True once the peer has closed its side or the connection has failed.
    pub fn is_closed(&self) -> bool {
        self.io.is_closed()
    }

    /// Marks the stream readable again, for a caller that stopped reading before the end.
    pub fn mark_readable(&self) {
        self.io.mark_readable();
    }

    /// Whether something has come that was not read yet.
    pub fn has_unread(&self) -> bool {
        let mut probe = [0u8; 1];
        let mut peek = || rustix::net::recv(self.io.fd(), &mut probe[..], rustix::net::RecvFlags::PEEK);
        matches!(peek(), Ok((count, _)) if count > 0)
    }

    /// Reads what is there. A short read means that there is no more, and clears the readiness; so does `WouldBlock`.
    #[inline]
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_read(buf)
    }

    /// Writes once. After `WouldBlock` what is offered again must begin with the same bytes. What it says to have written
    /// has been taken by the kernel.
    #[inline]
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_write(buf)
    }

    /// As [`Stream::try_write`], telling the kernel that more follows at once.
    pub fn try_write_more(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_write_more(buf)
    }

    /// As [`Stream::try_write`], of several pieces.
    #[inline]
    pub fn try_writev(&self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_writev(bufs)
    }

    /// Whether [`Stream::try_sendfile`] works here.
    pub fn can_sendfile(&self) -> bool {
        true
    }

    /// Moves up to `count` bytes of `file` from `offset` without copying; advances `offset`. Only where
    /// [`Stream::can_sendfile`].
    pub fn try_sendfile(&self, file: BorrowedFd<'_>, offset: &mut u64, count: usize) -> io::Result<usize> {
        self.io.try_sendfile(file, offset, count)
    }

    /// Ready when a read may succeed (or report the end).
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_readable(cx)
    }

    /// Ready when the peer has closed its side or the connection has failed. The task is also woken by data, which it
    /// may leave where it is.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_closed(cx)
    }

    /// Ready when a write may succeed (or report the failure).
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_writable(cx)
    }

    pub async fn readable(&self) {
        self.io.readable().await;
    }

    pub async fn writable(&self) {
        self.io.writable().await;
    }

    /// Reads, waiting until there is something; 0 is the end.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.read(buf).await
    }

    /// Writes some bytes, waiting until there is room.
    pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.write(buf).await
    }

    /// Writes everything.
    pub async fn write_all(&self, buf: &[u8]) -> io::Result<()> {
        self.io.write_all(buf).await
    }

    /// Says that nothing more will be written; reading goes on.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self.io.fd(), rustix::net::Shutdown::Write)?)
    }

    /// The stream ends in the middle of something: the peer must not take it for a proper end.
    pub fn abort(&self) {}
}
