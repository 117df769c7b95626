//! A connection as those see it who speak a protocol on it: plain, or a TLS session over it.
//!
//! A plain stream costs one branch more than its [`Io`]. What a session must keep between two calls (part of a record,
//! plaintext nobody has taken, records the socket would not take) is kept only while there is any: an idle connection
//! has no buffer.
//!
//! Edges: a session may hold plaintext of which no event will tell again. It counts as readiness here, in
//! [`Stream::poll_readable`] and in [`Stream::set_hot`].

use crate::clock;
use crate::content::Slice;
use crate::io::Io;
use crate::pipe::Pipe;
use crate::tls::{Tls, TlsError};
use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// See the module's head.
pub struct Stream {
    io: Io,
    tls: OnceCell<Box<Tls>>,
    received: Cell<u64>,
    sent: Cell<u64>,
}

impl From<Io> for Stream {
    fn from(io: Io) -> Stream {
        Stream { io, tls: OnceCell::new(), received: Cell::new(0), sent: Cell::new(0) }
    }
}

impl Stream {
    /// A connection over the datagrams of a socket that others use, too. Nothing is read or written by it: who speaks the protocol
    /// does that, and knows the address that the client has sent to.
    pub fn of_datagrams(io: &Io) -> Stream {
        Stream::from(io.share())
    }

    /// Counts bytes of a connection over datagrams, as they are by now.
    pub fn set_moved(&self, received: u64, sent: u64) {
        self.received.set(received);
        self.sent.set(sent);
    }

    /// The handshake of a connection over datagrams is complete: what comes from now on is no replay. `agreed`: what it has come to.
    pub fn complete_handshake(&self, agreed: Option<brisk_tls::Agreed>) {
        if let Some(tls) = self.tls() {
            tls.complete(agreed);
        }
    }

    /// The socket's address, if it is an IP address.
    pub fn local_ip(&self) -> Option<SocketAddr> {
        crate::listen::local_ip(self.io.fd())
    }

    /// The socket, for datagrams: they have no session over it.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// How connecting has ended, once it is writable; other errors are found by reading and writing.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::socket_error(self.io.fd())??)
    }

    /// What the kernel measures of a TCP connection; an error for others.
    pub fn tcp_info(&self) -> io::Result<crate::sys::TcpInfo> {
        crate::sys::tcp_info(self.io.fd())
    }

    /// Small packets may wait until they are filled: TCP's usual way, which connections of this server do not have from the start.
    pub fn delay_small_packets(&self) {
        let _ = rustix::net::sockopt::set_tcp_nodelay(self.io.fd(), false);
    }

    /// When it is dropped the peer is told of a failure, and the kernel keeps nothing of the connection.
    pub fn reset_when_dropped(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.io.fd(), Some(Duration::ZERO));
    }

    /// Ends both directions at once, whatever else holds the stream.
    pub fn shutdown(&self) {
        let _ = rustix::net::shutdown(self.io.fd(), rustix::net::Shutdown::Both);
    }

    /// The session, if there is one.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.get().map(|tls| &**tls)
    }

    /// From now on this is a session over the socket. `received` has come already and belongs to it.
    ///
    /// Nothing is sent or read before the next call of [`Stream::try_read`].
    pub fn start_tls(&self, session: brisk_tls::Session, received: Vec<u8>) {
        let _ = self.tls.set(Box::new(Tls::new(session, received)));
    }

    /// A session with a server over a connected socket, complete and checked. `name` is the server's, which is sent to
    /// it if `send_name` (RFC 6066 §3).
    pub async fn connect_tls(
        io: Io,
        context: &brisk_tls::ClientContext,
        name: &str,
        send_name: bool,
    ) -> Result<Stream, TlsError> {
        let stream = Stream::from(io);
        stream.start_tls(context.session(name, send_name).map_err(TlsError::Handshake)?, Vec::new());
        stream.shake_hands().await?;
        let now = crate::clock::now().unix_secs;
        let checked = stream.tls().map(|tls| tls.session(|session| context.check(session, name, now)));
        checked.unwrap_or(Ok(())).map_err(TlsError::Distrust)?;
        Ok(stream)
    }

    /// Waits until the handshake of a session is complete. Without a session there is nothing to wait for.
    pub async fn shake_hands(&self) -> Result<(), TlsError> {
        let Some(tls) = self.tls() else { return Ok(()) };
        loop {
            match tls.advance(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(TlsError::from(error)),
                Ok(()) if tls.is_established() => return Ok(()),
                Ok(()) => {}
            }
            self.readable().await;
        }
    }

    /// From now on events go to the driver under `key`. If there is unread readiness it is told at once.
    pub fn set_hot(&self, key: u64) {
        if self.tls().is_some_and(|tls| tls.has_plaintext() || tls.is_retired()) {
            self.io.mark_readable();
        }
        self.io.set_hot(key);
    }

    /// From now on events wake the task that waits.
    pub fn set_task(&self) {
        self.io.set_task();
    }

    /// True once the peer has closed its side or the connection has failed.
    pub fn is_closed(&self) -> bool {
        self.io.is_closed() || self.tls().is_some_and(Tls::is_peer_closed)
    }

    /// Marks the stream readable again, for a caller that stopped reading before the end.
    pub fn mark_readable(&self) {
        self.io.mark_readable();
    }

    /// Whether something has come that was not read yet.
    pub fn has_unread(&self) -> bool {
        let mut probe = [0u8; 1];
        let mut peek = || rustix::net::recv(self.io.fd(), &mut probe[..], rustix::net::RecvFlags::PEEK);
        self.tls().is_some_and(Tls::has_plaintext) || matches!(peek(), Ok((count, _)) if count > 0)
    }

    /// Reads what is there. A short read means that there is no more, and clears the readiness; so does `WouldBlock`.
    #[inline]
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let count = match self.tls.get() {
            None => self.io.try_read(buf),
            Some(tls) => tls.try_read(&self.io, buf),
        }?;
        self.received.set(self.received.get() + count as u64);
        Ok(count)
    }

    /// Bytes that were read, without what a session adds to them.
    #[inline]
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// Bytes that were written, without what a session adds to them.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    #[inline]
    fn count_sent(&self, written: io::Result<usize>) -> io::Result<usize> {
        let count = written?;
        self.sent.set(self.sent.get() + count as u64);
        Ok(count)
    }

    /// Bytes of memory that a session keeps in buffers.
    pub fn memory(&self) -> usize {
        self.tls().map_or(0, Tls::memory)
    }

    /// Writes once. After `WouldBlock` what is offered again must begin with the same bytes: a session has sealed them
    /// already. What it says to have written has been taken by the kernel.
    #[inline]
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.count_sent(match self.tls.get() {
            None => self.io.try_write(buf),
            Some(tls) => tls.try_write(&self.io, &[io::IoSlice::new(buf)], false),
        })
    }

    /// As [`Stream::try_write`], of the last bytes before the end: a session says so along with them. If the stream is dropped
    /// at once when all of it is taken, the kernel does, too: one packet less, and the peer is woken once.
    pub fn try_write_last(&self, buf: &[u8], drops_at_once: bool) -> io::Result<usize> {
        self.count_sent(match self.tls.get() {
            None if drops_at_once => self.io.try_write_more(buf),
            None => self.io.try_write(buf),
            Some(tls) => tls.try_write(&self.io, &[io::IoSlice::new(buf)], true),
        })
    }

    /// As [`Stream::try_write`], telling the kernel that more follows at once.
    pub fn try_write_more(&self, buf: &[u8]) -> io::Result<usize> {
        self.count_sent(match self.tls.get() {
            None => self.io.try_write_more(buf),
            Some(tls) => tls.try_write_more(&self.io, buf),
        })
    }

    /// As [`Stream::try_write`], of several pieces.
    #[inline]
    pub fn try_writev(&self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.count_sent(match self.tls.get() {
            None => self.io.try_writev(bufs),
            Some(tls) => tls.try_write(&self.io, bufs, false),
        })
    }

    /// As [`Stream::try_writev`] of `head` and `body`. A plain stream is sent the body from its file, if it stands in one and
    /// `sendfile` says so.
    pub fn try_write_slice(&self, head: &[u8], body: &Slice, sendfile: bool) -> io::Result<usize> {
        let place =
            (sendfile && self.tls.get().is_none()).then(|| body.in_file(clock::now().unix_secs)).flatten();
        let Some((file, mut offset)) = place else {
            return self.try_writev(&[io::IoSlice::new(head), io::IoSlice::new(body)]);
        };
        let count = if head.is_empty() { 0 } else { self.try_write_more(head)? };
        if count < head.len() {
            return Ok(count);
        }
        let is_full = |sent: &io::Result<usize>| {
            sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        let mut sent = self.try_sendfile(file, &mut offset, body.len());
        if !is_full(&sent) && !sent.as_ref().is_ok_and(|&sent| sent > 0) {
            // The file has become shorter, or its file system cannot do this. A failure of the socket's own comes again.
            sent = self.try_write(body);
        }
        if count > 0 && is_full(&sent) { Ok(count) } else { sent.map(|sent| count + sent) }
    }

    /// Whether [`Stream::try_sendfile`] works here, for `count` bytes that are to be sent now. A session may have the kernel
    /// seal from now on, for this.
    pub fn can_sendfile(&self, count: u64) -> bool {
        self.tls.get().is_none_or(|tls| tls.hand_over(&self.io, count))
    }

    /// Moves up to `count` bytes of `file` from `offset` without copying; advances `offset`. Only where
    /// [`Stream::can_sendfile`].
    pub fn try_sendfile(&self, file: BorrowedFd<'_>, offset: &mut u64, count: usize) -> io::Result<usize> {
        self.count_sent(match self.tls.get() {
            None => self.io.try_sendfile(file, offset, count),
            Some(tls) => tls.try_sendfile(&self.io, file, offset, count),
        })
    }

    /// Whether [`Stream::try_fill`] and [`Stream::try_drain`] work here: the bytes are the socket's own.
    pub fn can_splice(&self) -> bool {
        self.tls.get().is_none()
    }

    /// As [`Stream::try_read`], into an empty pipe. Only where [`Stream::can_splice`].
    pub fn try_fill(&self, pipe: &mut Pipe) -> io::Result<usize> {
        let count = self.io.try_fill(pipe)?;
        self.received.set(self.received.get() + count as u64);
        Ok(count)
    }

    /// As [`Stream::try_write`], from a pipe. Only where [`Stream::can_splice`].
    pub fn try_drain(&self, pipe: &mut Pipe) -> io::Result<usize> {
        self.count_sent(self.io.try_drain(pipe))
    }

    /// Ready when a read may succeed (or report the end).
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(tls) = self.tls() {
            if tls.has_plaintext() || tls.is_peer_closed() || tls.is_retired() {
                return Poll::Ready(());
            }
            // Records of the handshake that would not leave: nobody else waits for the socket meanwhile.
            while tls.has_control() && self.io.poll_writable(cx).is_ready() {
                if tls.flush_control(&self.io).is_err() {
                    return Poll::Ready(());
                }
            }
        }
        self.io.poll_readable(cx)
    }

    /// Ready when the peer has closed its side or the connection has failed. The task is also woken by data, which it
    /// may leave where it is.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_closed(cx)
    }

    /// See [`Io::poll_broken`].
    pub fn poll_broken(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_broken(cx)
    }

    /// Ready when a write may succeed (or report the failure).
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_writable(cx)
    }

    /// Waits until a read may succeed, or report the end.
    pub async fn readable(&self) {
        poll_fn(|cx| self.poll_readable(cx)).await;
    }

    /// Waits until a write may succeed, or report the failure.
    pub async fn writable(&self) {
        poll_fn(|cx| self.poll_writable(cx)).await;
    }

    /// Reads, waiting until there is something; 0 is the end.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.try_read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable().await,
                done => return done,
            }
        }
    }

    /// Writes some bytes, waiting until there is room.
    pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
        loop {
            match self.try_write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await,
                done => return done,
            }
        }
    }

    /// Writes everything.
    pub async fn write_all(&self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let count = self.write(buf).await?;
            buf = &buf[count..];
        }
        Ok(())
    }

    /// Has a session say that nothing more will be written, and waits until that has left. Dropping the stream says so, too,
    /// if there is room at that time.
    pub async fn finish(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_finish(cx)).await
    }

    fn poll_finish(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = self.tls() else { return Poll::Ready(Ok(())) };
        loop {
            match tls.close(&self.io) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.io.poll_writable(cx)),
                closed => return Poll::Ready(closed),
            }
        }
    }

    /// Says that nothing more will be written; reading goes on.
    pub fn shutdown_write(&self) -> io::Result<()> {
        if let Some(tls) = self.tls() {
            let _ = tls.close(&self.io);
        }
        Ok(rustix::net::shutdown(self.io.fd(), rustix::net::Shutdown::Write)?)
    }

    /// As [`Stream::shutdown_write`], when all that a session has to say before has left (RFC 8446 §6.1). Nothing is to be
    /// written any more once it was called.
    pub fn poll_shutdown_write(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_finish(cx))?;
        Poll::Ready(self.shutdown_write())
    }

    /// The socket of a plain stream, for another thread's loop: the stream that is dropped then says nothing to its peer.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        if self.tls().is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.io.hand_over()
    }

    /// The stream ends in the middle of something: the peer must not take it for a proper end.
    pub fn abort(&self) {
        if let Some(tls) = self.tls() {
            tls.abort();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(tls) = self.tls.get() {
            let _ = tls.close(&self.io);
        }
    }
}
