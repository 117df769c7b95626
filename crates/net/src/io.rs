//! A non-blocking socket registered with the thread's loop.
//!
//! Registration is edge-triggered and happens once, for both directions. The readiness that events report is kept
//! here until a call returns short or would block, so that no `epoll_ctl` is needed in the life of a connection.
//!
//! Unix sockets report room to write whenever their peer has read something, wanted or not, and each report is a wake-up.
//! They are registered for it only once a task waits for it ([`Io::local`]).
//! Who is told depends on the mode: a *hot* source hands its key to the loop's [`Driver`](crate::Driver); a source
//! owned by a task wakes the task.

use crate::event_loop::Loop;
use crate::pipe::Pipe;
use crate::source::{NOWHERE, Ready, Source};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Has `cx` woken, without a clone of its waker if that waits already.
#[inline]
fn await_with(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|have| have.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}

/// A socket with its readiness. Dropping the last clone closes it.
pub struct Io {
    source: Rc<Source>,
}

impl Io {
    /// Registers `fd`, which must be non-blocking, with this thread's loop.
    pub fn new(fd: OwnedFd) -> io::Result<Io> {
        let io = Io::unregistered(fd, false);
        Loop::current().register(&io.source, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP)?;
        io.source.watched.set(Ready::READ.0 | Ready::WRITE.0);
        Ok(io)
    }

    /// A connected unix socket, non-blocking. It is registered when a task begins to wait, for what it waits for.
    pub fn local(fd: OwnedFd) -> Io {
        let io = Io::unregistered(fd, false);
        io.mark_writable();
        io
    }

    /// Registers a listening socket that other threads' loops watch too: a connection wakes one of them, not all.
    pub fn listener(fd: OwnedFd) -> io::Result<Io> {
        let io = Io::unregistered(fd, true);
        Loop::current().register(&io.source, EventFlags::IN | EventFlags::EXCLUSIVE)?;
        io.source.watched.set(Ready::READ.0);
        Ok(io)
    }

    /// The same socket once more, for one of many connections that it carries (QUIC).
    #[must_use]
    pub fn share(&self) -> Io {
        Io { source: self.source.clone() }
    }

    fn unregistered(fd: OwnedFd, shared: bool) -> Io {
        let source = Rc::new(Source {
            fd,
            shared: Cell::new(shared),
            ready: Cell::new(0),
            key: Cell::new(None),
            wakers: RefCell::default(),
            watched: Cell::new(0),
            slot: Cell::new(NOWHERE),
        });
        Io { source }
    }

    /// A task begins to wait for one of `bits`: makes sure that it will be reported.
    #[inline]
    fn watch(&self, bits: Ready) {
        if self.source.watched.get() & bits.0 != bits.0 {
            self.watch_also(bits);
        }
    }

    #[cold]
    fn watch_also(&self, bits: Ready) {
        // A task that only writes must hear of the end, too.
        let watched = self.source.watched.get() | bits.0 | Ready::READ.0;
        let mut flags = EventFlags::IN | EventFlags::RDHUP;
        flags.set(EventFlags::OUT, watched & Ready::WRITE.0 != 0);
        let home = Loop::current();
        let done = if self.source.slot.get() == NOWHERE {
            home.register(&self.source, flags)
        } else {
            home.change(&self.source, flags)
        };
        self.source.watched.set(watched);
        if done.is_err() {
            // No task would ever be woken: let the next call find the end.
            let _ = rustix::net::shutdown(&self.source.fd, rustix::net::Shutdown::Both);
            let all = Ready::READ.0 | Ready::WRITE.0 | Ready::CLOSED.0 | Ready::BROKEN.0;
            self.source.ready.set(self.source.ready.get() | all);
        }
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.source.fd.as_fd()
    }

    /// From now on events go to the driver under `key`. If there is unread readiness it is told at once.
    pub fn set_hot(&self, key: u64) {
        self.source.key.set(Some(key));
        self.source.wakers.borrow_mut().read = None;
        self.watch(Ready::READ);
        if self.source.ready.get() & (Ready::READ.0 | Ready::CLOSED.0) != 0 {
            Loop::current().push_hot(key);
        }
    }

    /// From now on events wake the task that waits.
    pub fn set_task(&self) {
        self.source.key.set(None);
    }

    /// The socket, for another thread's loop. This one leaves its own when it is dropped.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        let fd = self.source.fd.try_clone()?;
        self.source.shared.set(true);
        Ok(fd)
    }

    /// No event is reported from now on. What has arrived can still be taken, and other loops that watch the same
    /// socket are told of all that comes later.
    pub fn mute(&self) {
        Loop::current().deregister(self.source.slot.get());
    }

    /// True once the peer has closed its side or the connection has failed.
    pub fn is_closed(&self) -> bool {
        self.source.ready.get() & Ready::CLOSED.0 != 0
    }

    /// Whether a read may find something: true until one has found less than it had room for.
    pub fn is_readable(&self) -> bool {
        self.source.ready.get() & (Ready::READ.0 | Ready::CLOSED.0) != 0
    }

    /// Marks the source readable again, for a caller that stopped reading before the end.
    pub fn mark_readable(&self) {
        self.source.ready.set(self.source.ready.get() | Ready::READ.0);
    }

    /// Nothing is left to be read, for a caller that reads by other calls than those here and was told so.
    pub fn mark_drained(&self) {
        self.clear(Ready::READ);
    }

    /// Of a socket of datagrams: what was told of a failure was about one of them, and was read. Otherwise a source that has failed stays
    /// readable, since the end of a connection is still to be found there.
    pub fn mark_sound(&self) {
        self.clear(Ready::CLOSED);
        self.clear(Ready::BROKEN);
    }

    /// Marks the source writable, for a caller that knows before the event comes.
    pub fn mark_writable(&self) {
        self.source.ready.set(self.source.ready.get() | Ready::WRITE.0);
    }

    /// Reads once. `WouldBlock` and short reads clear the readiness.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::net::recv(&self.source.fd, &mut *buf, rustix::net::RecvFlags::empty()) {
                Ok((count, _)) => {
                    // After a hang-up a short read does not mean that the socket is drained: the end is still to come.
                    if count < buf.len() && !self.is_closed() {
                        self.clear(Ready::READ);
                    }
                    return Ok(count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    if error == rustix::io::Errno::AGAIN {
                        self.clear(Ready::READ);
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Writes once.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.attempt(|fd| rustix::net::send(fd, buf, rustix::net::SendFlags::NOSIGNAL))
    }

    /// Writes once, telling the kernel that more follows at once: no packet leaves for these bytes alone.
    pub fn try_write_more(&self, buf: &[u8]) -> io::Result<usize> {
        use rustix::net::SendFlags;
        self.attempt(|fd| rustix::net::send(fd, buf, SendFlags::NOSIGNAL | SendFlags::MORE))
    }

    /// Writes several pieces with one call.
    pub fn try_writev(&self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.attempt(|fd| rustix::io::writev(fd, bufs))
    }

    /// Moves up to `count` bytes of `file` from `offset` without copying; advances `offset`.
    pub fn try_sendfile(&self, file: BorrowedFd<'_>, offset: &mut u64, count: usize) -> io::Result<usize> {
        self.attempt(|fd| rustix::fs::sendfile(fd, file, Some(offset), count))
    }

    /// Fills an empty pipe with what is there; 0 is the end. `WouldBlock` clears the readiness.
    pub fn try_fill(&self, pipe: &mut Pipe) -> io::Result<usize> {
        loop {
            match pipe.fill(self.source.fd.as_fd()) {
                Ok(count) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    if error == rustix::io::Errno::AGAIN {
                        self.clear(Ready::READ);
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Sends what a pipe holds, as far as the socket takes it.
    pub fn try_drain(&self, pipe: &mut Pipe) -> io::Result<usize> {
        self.attempt(|fd| pipe.drain(fd))
    }

    /// Sends a TLS record of another type than data, where the kernel seals.
    pub(crate) fn try_tls_record(&self, kind: u8, plain: &[u8]) -> io::Result<usize> {
        self.attempt(|fd| crate::sys::send_tls_record(fd, kind, plain))
    }

    /// Whether a third of the socket's buffer is free, or it has failed. If not, it is not writable before an event says so.
    pub(crate) fn has_room(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.source.fd, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let has_room = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&now)))? > 0;
        if !has_room {
            self.clear(Ready::WRITE);
        }
        Ok(has_room)
    }

    fn attempt(
        &self,
        mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match call(self.source.fd.as_fd()) {
                Ok(count) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    if error == rustix::io::Errno::AGAIN {
                        self.clear(Ready::WRITE);
                    }
                    return Err(error.into());
                }
            }
        }
    }

    fn clear(&self, bit: Ready) {
        self.source.ready.set(self.source.ready.get() & !bit.0);
    }

    /// Ready when a read may succeed (or report the end).
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_readable() {
            return Poll::Ready(());
        }
        self.watch(Ready::READ);
        await_with(&mut self.source.wakers.borrow_mut().read, cx);
        if self.is_readable() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Ready when the peer has closed its side or the connection has failed. The task is also woken by data, which it
    /// may leave where it is.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_closed() {
            return Poll::Ready(());
        }
        self.watch(Ready::READ);
        await_with(&mut self.source.wakers.borrow_mut().read, cx);
        if self.is_closed() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Ready when the peer hears nothing any more. A peer over TCP that has closed is found out when it is sent something.
    pub fn poll_broken(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_broken = || self.source.ready.get() & Ready::BROKEN.0 != 0;
        if is_broken() {
            return Poll::Ready(());
        }
        self.watch(Ready::READ);
        await_with(&mut self.source.wakers.borrow_mut().read, cx);
        if is_broken() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Ready when a write may succeed (or report the failure). A peer that has closed its own side only may take its time.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_ready = || self.source.ready.get() & (Ready::WRITE.0 | Ready::BROKEN.0) != 0;
        if is_ready() {
            return Poll::Ready(());
        }
        self.watch(Ready::WRITE);
        await_with(&mut self.source.wakers.borrow_mut().write, cx);
        if is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until a read may succeed, or report the end.
    pub async fn readable(&self) {
        poll_fn(|cx| self.poll_readable(cx)).await;
    }

    /// Waits until a write may succeed, or report the failure.
    pub async fn writable(&self) {
        poll_fn(|cx| self.poll_writable(cx)).await;
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if let Some(event_loop) = Loop::try_current() {
            event_loop.deregister(self.source.slot.get());
        }
    }
}
