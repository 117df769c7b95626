//! A TLS session over a socket: what of it must be kept between two calls.
//!
//! Writing follows the rule that TLS libraries have in common: once bytes are sealed they must be sent, so a write that
//! the socket would not take must be repeated with the same bytes. In turn what was written has left this process.
//!
//! Where the kernel can (kTLS), it may seal what a server sends, so that files need not come through this process. Reading
//! goes on as before.

use crate::io::Io;
use crate::limits::KERNEL_BYTES_MIN;
use crate::sys;
use brisk_tls::{Agreed, RECORD_BYTES_MAX, RECORD_PLAIN_MAX, Session};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes taken from the socket at a time.
const READ_BYTES: usize = 2 * RECORD_BYTES_MAX;
/// Plaintext sealed at a time.
const SEAL_BYTES: usize = 4 * RECORD_PLAIN_MAX;
/// The type of records with alerts (RFC 8446 §5.1).
const ALERT: u8 = 21;
/// The probe connects within this machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

thread_local! {
    /// Room to read and decrypt in, and room to seal in: a thread works on one session at a time.
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SEALED: RefCell<Outgoing> = const { RefCell::new(Outgoing::new()) };
}

/// Handshakes of this process that came to their end: of clients that came to it, and with those that it went to.
static OF_CLIENTS: Ended = Ended { full: AtomicU64::new(0), resumed: AtomicU64::new(0) };
static WITH_SERVERS: Ended = Ended { full: AtomicU64::new(0), resumed: AtomicU64::new(0) };

struct Ended {
    full: AtomicU64,
    resumed: AtomicU64,
}

/// How many handshakes came to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshakes {
    /// Those that agreed on new keys by a certificate or a key known to both.
    pub full: u64,
    /// Those that went on with an earlier session.
    pub resumed: u64,
}

/// Handshakes in which this process was the server, and those in which it was the client.
pub fn handshakes() -> (Handshakes, Handshakes) {
    let read = |ended: &Ended| Handshakes {
        full: ended.full.load(Ordering::Relaxed),
        resumed: ended.resumed.load(Ordering::Relaxed),
    };
    (read(&OF_CLIENTS), read(&WITH_SERVERS))
}

/// See the module's head.
pub struct Tls {
    session: RefCell<Session>,
    /// The handshake has been counted.
    is_counted: Cell<bool>,
    rest: RefCell<Rest>,
    /// Close without a word: the connection has failed, or what was sent is not whole.
    aborted: Cell<bool>,
    closed: Cell<bool>,
}

/// What is kept between calls.
#[derive(Default)]
struct Rest {
    /// What had come before there was a session; `None` once that has seen it.
    received: Option<Vec<u8>>,
    /// Decrypted, and not taken yet.
    plaintext: Vec<u8>,
    /// Sealed, and not sent yet.
    outgoing: Outgoing,
    /// Bytes of the caller in `outgoing`: told as written when all of it has left.
    in_flight: usize,
}

/// Bytes that wait to be sent. The room behind them has been cleared once and is used again.
#[derive(Default)]
struct Outgoing {
    room: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outgoing {
    const fn new() -> Outgoing {
        Outgoing { room: Vec::new(), start: 0, end: 0 }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.end]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Room behind what is there.
    fn room(&mut self, count: usize) -> &mut [u8] {
        let need = self.end + count;
        if self.room.len() < need {
            self.room.resize(need, 0);
        }
        &mut self.room[self.end..need]
    }

    /// So many bytes of the room are to be sent.
    fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// Sends; true when nothing is left.
    fn send(&mut self, io: &Io) -> io::Result<bool> {
        let sent = io.try_write(self.bytes())?;
        self.start += sent;
        Ok(self.is_empty())
    }

    /// Sends everything. `WouldBlock`: some of it is left.
    fn flush(&mut self, io: &Io) -> io::Result<()> {
        while !self.is_empty() {
            self.send(io)?;
        }
        let done = std::mem::take(self);
        // Large room is good for the next one.
        if done.room.len() >= RECORD_PLAIN_MAX {
            SEALED.with_borrow_mut(|sealed| {
                if sealed.room.is_empty() {
                    *sealed = Outgoing { room: done.room, ..Outgoing::new() };
                }
            });
        }
        Ok(())
    }
}

/// Why there is no session with a server.
#[derive(Debug)]
pub enum TlsError {
    /// Reading or writing has failed.
    Io(io::Error),
    /// The protocol has failed.
    Handshake(brisk_tls::Error),
    /// The server's certificate is not taken.
    Distrust(brisk_tls::Distrust),
    /// The server has closed the connection.
    Closed,
}

impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> TlsError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => TlsError::Closed,
            io::ErrorKind::InvalidData => match error.downcast::<brisk_tls::Error>() {
                Ok(error) => TlsError::Handshake(error),
                Err(error) => TlsError::Io(error),
            },
            _ => TlsError::Io(error),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Io(error) => write!(f, "SSL_do_handshake() failed ({error})"),
            TlsError::Handshake(error) => write!(f, "SSL_do_handshake() failed ({error})"),
            TlsError::Distrust(distrust) => distrust.fmt(f),
            TlsError::Closed => f.write_str("peer closed connection in SSL handshake"),
        }
    }
}

impl std::error::Error for TlsError {}

/// Tries whether the kernel can seal records, on a connection of its own. An error says what it refuses.
pub fn kernel_seals() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let socket = TcpStream::connect_timeout(&listener.local_addr()?, PROBE_TIMEOUT)?;
    // TLS 1.3 and AES-128-GCM, which every kernel has that has any of it, with nothing for a key.
    let mut info = [0; 40];
    info[..2].copy_from_slice(&0x0304u16.to_ne_bytes());
    info[2..4].copy_from_slice(&51u16.to_ne_bytes());
    sys::seal_in_kernel(socket.as_fd(), &info)
}

fn failed(error: brisk_tls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn would_block<T>() -> io::Result<T> {
    Err(io::ErrorKind::WouldBlock.into())
}

impl Tls {
    pub(crate) fn new(session: Session, received: Vec<u8>) -> Tls {
        Tls {
            session: RefCell::new(session),
            is_counted: Cell::new(false),
            rest: RefCell::new(Rest { received: Some(received), ..Rest::default() }),
            aborted: Cell::new(false),
            closed: Cell::new(false),
        }
    }

    /// Looks at the session.
    pub fn session<T>(&self, look: impl FnOnce(&Session) -> T) -> T {
        look(&self.session.borrow())
    }

    /// See [`Stream::complete_handshake`](crate::Stream::complete_handshake).
    pub(crate) fn complete(&self, agreed: Option<Agreed>) {
        self.session.borrow_mut().complete_quic(agreed);
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.session.borrow().is_established()
    }

    /// Bytes of memory in buffers.
    pub(crate) fn memory(&self) -> usize {
        let rest = self.rest.borrow();
        self.session.borrow().left()
            + rest.received.as_ref().map_or(0, Vec::capacity)
            + rest.plaintext.capacity()
            + rest.outgoing.room.capacity()
    }

    pub(crate) fn has_plaintext(&self) -> bool {
        !self.rest.borrow().plaintext.is_empty()
    }

    pub(crate) fn is_peer_closed(&self) -> bool {
        self.session.borrow().is_peer_closed()
    }

    /// Nothing more is to be read, because nothing more can be answered.
    pub(crate) fn is_retired(&self) -> bool {
        self.session.borrow().is_retired()
    }

    /// Whether the protocol itself has something to send that would not leave.
    pub fn has_control(&self) -> bool {
        let rest = self.rest.borrow();
        !rest.outgoing.is_empty() && rest.in_flight == 0
    }

    pub(crate) fn flush_control(&self, io: &Io) -> io::Result<()> {
        match self.rest.borrow_mut().outgoing.flush(io) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            done => done,
        }
    }

    /// To be called with whatever a session has received.
    fn count(&self, session: &Session) {
        if self.is_counted.get() || !session.is_established() {
            return;
        }
        self.is_counted.set(true);
        let side = if session.is_server() { &OF_CLIENTS } else { &WITH_SERVERS };
        let count = if session.is_resumed() { &side.resumed } else { &side.full };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Goes on with a handshake as far as that can be done now. `WouldBlock`: the peer's turn. The end is
    /// `UnexpectedEof`; plaintext is kept.
    pub(crate) fn advance(&self, io: &Io) -> io::Result<()> {
        let mut rest = self.rest.borrow_mut();
        let rest = &mut *rest;
        let mut session = self.session.borrow_mut();
        let worked = READ.with_borrow_mut(|room| {
            let (count, _) = rest.receive(io, &mut session, room)?;
            let (plaintext, mut out) = (&mut rest.plaintext, Vec::new());
            let mut take = |text: &[u8]| plaintext.extend_from_slice(text);
            let received = session.receive(&mut room[..count], &mut take, &mut out).map_err(failed);
            self.count(&session);
            rest.outgoing.push(&out);
            received
        });
        match rest.outgoing.flush(io) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock && worked.is_ok() => Err(error),
            _ => worked,
        }
    }

    /// Reads until `buf` is full or the socket is empty.
    pub(crate) fn try_read(&self, io: &Io, buf: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.rest.borrow_mut();
        let rest = &mut *rest;
        let mut filled = rest.take_plaintext(buf);
        if filled == buf.len() {
            return Ok(filled);
        }
        let mut session = self.session.borrow_mut();
        let end = READ.with_borrow_mut(|room| {
            loop {
                if filled == buf.len() || session.is_peer_closed() || session.is_retired() {
                    return Ok(());
                }
                let (count, may_have_more) = rest.receive(io, &mut session, room)?;
                let (plaintext, mut out) = (&mut rest.plaintext, Vec::new());
                let mut take = |text: &[u8]| {
                    let fits = text.len().min(buf.len() - filled);
                    buf[filled..filled + fits].copy_from_slice(&text[..fits]);
                    filled += fits;
                    plaintext.extend_from_slice(&text[fits..]);
                };
                let received = session.receive(&mut room[..count], &mut take, &mut out).map_err(failed);
                self.count(&session);
                if !out.is_empty() {
                    rest.put(io, &session, &out);
                }
                received?;
                if !may_have_more {
                    return would_block();
                }
            }
        });
        match end {
            // What was read before is told first; the end comes with the next call.
            Err(error) if filled == 0 || error.kind() == io::ErrorKind::InvalidData => {
                // No answer follows, so what the protocol has to say leaves by itself — an alert with an error.
                let flushed = rest.outgoing.flush(io);
                if error.kind() == io::ErrorKind::UnexpectedEof {
                    return Ok(0);
                }
                match (error.kind(), flushed) {
                    (io::ErrorKind::WouldBlock, Err(broken))
                        if broken.kind() != io::ErrorKind::WouldBlock =>
                    {
                        Err(broken)
                    }
                    _ => Err(error),
                }
            }
            _ => Ok(filled),
        }
    }

    /// Seals and sends; up to [`SEAL_BYTES`] at a time. What `is_last` has a close_notify behind it.
    pub(crate) fn try_write(&self, io: &Io, bufs: &[IoSlice<'_>], is_last: bool) -> io::Result<usize> {
        if self.is_handed_over() {
            return self.write_to_kernel(io, bufs, is_last);
        }
        let mut rest = self.rest.borrow_mut();
        let rest = &mut *rest;
        if rest.in_flight > 0 {
            rest.outgoing.flush(io)?;
            return Ok(std::mem::take(&mut rest.in_flight));
        }
        let mut session = self.session.borrow_mut();
        let mut sealed = SEALED.take();
        (sealed.start, sealed.end) = (0, 0);
        // The last records of a handshake leave together with the first answer.
        if !rest.outgoing.is_empty() {
            sealed.push(rest.outgoing.bytes());
            rest.outgoing = Outgoing::default();
        }
        let count = match seal(&mut session, bufs, &mut sealed) {
            Ok(count) if count > 0 => count,
            other => {
                rest.outgoing.push(sealed.bytes());
                SEALED.set(sealed);
                return other.map_err(failed);
            }
        };
        if is_last && count == bufs.iter().map(|buf| buf.len()).sum::<usize>() {
            let mut end = Vec::new();
            if session.is_established() && session.close(&mut end).is_ok() {
                sealed.push(&end);
                self.closed.set(true);
            }
        }
        match sealed.send(io) {
            Ok(true) => {
                SEALED.set(sealed);
                return Ok(count);
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        // A connection that is stuck does not hold much more than it must.
        if sealed.bytes().len() < sealed.room.len() / 4 {
            rest.outgoing.push(sealed.bytes());
            SEALED.set(sealed);
        } else {
            rest.outgoing = sealed;
        }
        rest.in_flight = count;
        would_block()
    }

    /// As [`Tls::try_write`]; if the kernel seals, what follows at once comes into the same record.
    pub(crate) fn try_write_more(&self, io: &Io, buf: &[u8]) -> io::Result<usize> {
        if self.is_handed_over() {
            let room = self.room(io)?.min(buf.len());
            return self.by_kernel(io.try_write_more(&buf[..room]));
        }
        self.try_write(io, &[IoSlice::new(buf)], false)
    }

    fn is_handed_over(&self) -> bool {
        self.session.borrow().is_handed_over()
    }

    /// Has the kernel seal from now on, if that is worth it for `count` bytes, allowed and possible.
    pub(crate) fn hand_over(&self, io: &Io, count: u64) -> bool {
        let mut session = self.session.borrow_mut();
        if session.is_handed_over() {
            return true;
        }
        if count < KERNEL_BYTES_MIN {
            return false;
        }
        let Some(info) = session.crypto_info(count) else { return false };
        // What was sealed here comes first.
        let mut rest = self.rest.borrow_mut();
        if rest.in_flight > 0 || rest.outgoing.flush(io).is_err() {
            return false;
        }
        let is_taken = sys::seal_in_kernel(io.fd(), &info).is_ok();
        session.handed_over(is_taken);
        is_taken
    }

    /// Sends a part of a file. Only after [`Tls::hand_over`].
    pub(crate) fn try_sendfile(
        &self,
        io: &Io,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> io::Result<usize> {
        if !self.is_handed_over() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let room = self.room(io)?.min(count);
        self.by_kernel(io.try_sendfile(file, offset, room))
    }

    fn write_to_kernel(&self, io: &Io, bufs: &[IoSlice<'_>], is_last: bool) -> io::Result<usize> {
        let all = bufs.iter().map(|buf| buf.len()).sum();
        let room = self.room(io)?;
        let sent = if room < all {
            let first = bufs.iter().find(|buf| !buf.is_empty()).map_or(&[][..], |buf| &buf[..]);
            io.try_write(&first[..room.min(first.len())])
        } else {
            io.try_writev(bufs)
        };
        let count = self.by_kernel(sent)?;
        if is_last && count == all {
            let _ = self.close(io);
        }
        Ok(count)
    }

    /// How much the kernel may be given now to seal. Records for which there is no room in the socket wait where they are
    /// lost when it closes, so it never gets more than the socket takes at once.
    fn room(&self, io: &Io) -> io::Result<usize> {
        if !io.has_room()? {
            return would_block();
        }
        // A third of the buffer is free. Half of that leaves room for what sealing and the kernel's accounts add.
        Ok((rustix::net::sockopt::socket_send_buffer_size(io.fd())? / 6).max(1))
    }

    fn by_kernel(&self, count: io::Result<usize>) -> io::Result<usize> {
        let count = count?;
        self.session.borrow_mut().sent_by_kernel(count as u64).map_err(failed)?;
        Ok(count)
    }

    pub(crate) fn abort(&self) {
        self.aborted.set(true);
    }

    /// Sends a close_notify, unless something is half sent. `WouldBlock`: it has not left yet.
    pub(crate) fn close(&self, io: &Io) -> io::Result<()> {
        let mut rest = self.rest.borrow_mut();
        let mut session = self.session.borrow_mut();
        if self.aborted.get() || rest.in_flight > 0 || !session.is_established() {
            return Ok(());
        }
        let mut out = Vec::new();
        if !self.closed.get() && session.close(&mut out).is_err() {
            return Ok(());
        }
        if !session.is_handed_over() {
            self.closed.set(true);
            rest.outgoing.push(&out);
            return rest.outgoing.flush(io);
        }
        if !self.closed.get() {
            self.room(io)?;
            io.try_tls_record(ALERT, &out)?;
            self.closed.set(true);
        }
        Ok(())
    }
}

impl Rest {
    /// Has an answer of the protocol sent. The alert that it is where the kernel seals leaves now or never.
    fn put(&mut self, io: &Io, session: &Session, bytes: &[u8]) {
        if session.is_handed_over() {
            let _ = io.try_tls_record(ALERT, bytes);
        } else {
            self.outgoing.push(bytes);
        }
    }

    fn take_plaintext(&mut self, buf: &mut [u8]) -> usize {
        let count = self.plaintext.len().min(buf.len());
        if count == 0 {
            return 0;
        }
        buf[..count].copy_from_slice(&self.plaintext[..count]);
        if count == self.plaintext.len() {
            self.plaintext = Vec::new();
        } else {
            self.plaintext.drain(..count);
        }
        count
    }

    /// Puts what the session keeps and what the socket has behind it into `room`: how many bytes that is, and whether the
    /// socket may have more. The end is `UnexpectedEof`.
    fn receive(&mut self, io: &Io, session: &mut Session, room: &mut Vec<u8>) -> io::Result<(usize, bool)> {
        if let Some(received) = self.received.take() {
            // A client begins without having received anything.
            *room = received;
            return Ok((room.len(), io.is_readable()));
        }
        let have = session.left();
        if room.len() < have + READ_BYTES {
            room.resize(have + READ_BYTES, 0);
        }
        match io.try_read(&mut room[have..have + READ_BYTES])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                room[..have].copy_from_slice(&session.take_left());
                Ok((have + count, count == READ_BYTES || io.is_closed()))
            }
        }
    }
}

/// Seals the start of `bufs`; gives how many bytes. The first record takes from several of them, so that a head and its
/// body are one.
fn seal(session: &mut Session, bufs: &[IoSlice<'_>], out: &mut Outgoing) -> Result<usize, brisk_tls::Error> {
    let mut put = |plain: &[u8]| {
        let room = out.room(session.sealed_len_max(plain.len()));
        let filled = session.seal_into(plain, room)?;
        out.filled(filled);
        Ok::<(), brisk_tls::Error>(())
    };
    let mut sealed = 0;
    let mut bufs = bufs.iter().map(|buf| &buf[..]).filter(|buf| !buf.is_empty());
    let Some(first) = bufs.next() else { return Ok(0) };
    let mut next = bufs.next();
    let mut tail = &first[..first.len().min(SEAL_BYTES)];
    if let Some(second) = next
        && first.len() < RECORD_PLAIN_MAX
    {
        let taken = second.len().min(RECORD_PLAIN_MAX - first.len());
        put(&[first, &second[..taken]].concat())?;
        sealed = first.len() + taken;
        tail = &second[taken..];
        next = bufs.next();
    }
    loop {
        let count = tail.len().min(SEAL_BYTES - sealed);
        if count > 0 {
            put(&tail[..count])?;
            sealed += count;
        }
        match next {
            Some(buf) if sealed < SEAL_BYTES && count == tail.len() => {
                tail = buf;
                next = bufs.next();
            }
            _ => return Ok(sealed),
        }
    }
}
