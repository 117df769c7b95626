//! One connection to a back end.

use crate::http2::Session;
use crate::occupancy::{Connected, Patience, Wait};
use crate::scratch::scratch;
use crate::tls::Identity;
use brisk_balance::{Endpoint, Seat};
use brisk_net::{Deadline, clock};
use brisk_server::thread::Thread;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

pub use brisk_net::Stream;

/// What a connection is good for: only requests with the same key may use it.
/// Whatever could make a connection mean something else for another request is a part of it: whom it was
/// verified for, from where it comes, what is spoken on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// [`Backend::id`].
    pub group: u64,
    /// Where the peer is.
    pub endpoint: Endpoint,
    /// The location, where connections are not shared (`keepalive … local`); else 0.
    pub location: usize,
    /// `*_bind`.
    pub bind: Option<SocketAddr>,
    /// What its TLS session was verified for; `None`: plain.
    pub tls: Option<Identity>,
    /// [`Protocol::dialect`](crate::protocol::Protocol::dialect).
    pub dialect: u8,
}

/// Told when anything happens on an idle connection: it can only be its end.
pub(crate) struct Alarm {
    /// Something has happened.
    pub rung: AtomicBool,
    /// The pool's task, which looks at it.
    pub keeper: Waker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Relaxed);
        self.keeper.wake_by_ref();
    }
}

/// A connection with what has to be known of it.
pub struct Link {
    /// The connection.
    pub stream: Stream,
    /// What it is good for.
    pub key: Key,
    /// Requests so far.
    pub requests: u64,
    /// When it was made, on the monotonic clock.
    pub started_ms: u64,
    /// [`Thread::generation`] when it was opened.
    pub(crate) generation: u64,
    /// It has served a request before the present one.
    pub is_reused: bool,
    /// Between two reads, and between two writes.
    pub read_limit: Deadline,
    /// Between two writes.
    pub write_limit: Deadline,
    /// What its protocol keeps between two exchanges.
    pub(crate) session: Option<Box<Session>>,
    pub(crate) alarm: Option<Arc<Alarm>>,
    /// The connection occupies a process of its server.
    pub(crate) occupancy: Option<Connected>,
    /// Until the first byte of its first answer.
    pub(crate) wait: Option<Wait>,
    /// It leads to a process of a pool of this server's.
    pub(crate) process: Option<Process>,
}

/// A process of a pool at the other end of a connection.
pub(crate) struct Process {
    /// For its place in the pool.
    pub seat: Seat,
    /// It has got a request, and has not said that it is done with it. Dropped now, the connection leaves it at work.
    pub is_busy: bool,
}

impl Drop for Link {
    // A process that was given a request, and has not said that it is done, may go on with it. Its place must
    // not be given to another request.
    fn drop(&mut self) {
        if let Some(process) = self.process.take().filter(|process| process.is_busy) {
            crate::abandoned::watch(&process.seat, &self.stream, self.occupancy.take());
        }
    }
}

impl Link {
    /// A connection that has just been made.
    pub fn new(stream: Stream, key: Key) -> Link {
        Link {
            stream,
            key,
            requests: 0,
            started_ms: clock::mono_ms(),
            generation: Thread::current().map_or(0, |thread| thread.generation()),
            is_reused: false,
            read_limit: Deadline::default(),
            write_limit: Deadline::default(),
            session: None,
            alarm: None,
            occupancy: None,
            wait: None,
            process: None,
        }
    }

    /// Whether it is open and nothing has come that nobody asked for.
    /// Asked when it is put into the pool and when it is taken. Unasked bytes would be taken for the
    /// beginning of the next response, so that every later client of the connection gets the response of the
    /// one before.
    pub fn is_quiet(&mut self) -> bool {
        if self.stream.is_closed() {
            return false;
        }
        if self.session.is_some() {
            return self.is_settled();
        }
        if self.stream.poll_readable(&mut Context::from_waker(Waker::noop())).is_pending() {
            return true;
        }
        // The loop may know of an event whose bytes were read: only a read tells.
        let mut probe = [0];
        matches!(self.stream.try_read(&mut probe), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The same where frames come between exchanges: they are taken, and answered. False where nobody keeps a session.
    pub fn is_settled(&mut self) -> bool {
        let Some(session) = &mut self.session else { return false };
        let mut out = Vec::new();
        while self.stream.poll_readable(&mut Context::from_waker(Waker::noop())).is_ready() {
            // The end of the connection, or what HTTP/2 does not allow between exchanges.
            let taken = scratch(|buf| match self.stream.try_read(buf) {
                Ok(0) => false,
                Ok(count) => session.idle(&buf[..count], &mut out),
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            });
            if !taken {
                return false;
            }
        }
        // Written whole or not at all: what waited here would stand behind the next request's first frame.
        out.is_empty() || self.stream.try_write(&out).is_ok_and(|count| count == out.len())
    }
    /// The time until idle connections are closed for this one; `None` if it has its answer already, or there is nothing to
    /// be closed.
    pub(crate) fn patience(&self) -> Option<Patience> {
        let occupancy = self.occupancy.as_ref().filter(|_| self.wait.is_some())?;
        Patience::begin(occupancy)
    }
}
