//! One side of a session: a connection, and what has come on it without being taken yet. Its client may have asked for compression
//! ([`packed`](crate::packed)), which nobody sees who reads and writes here.

use crate::limits::{
    BUFFER_KEPT_BYTES_MAX, DEFLATED_PER_READ_BYTES, HANDSHAKE_END_MS, HANDSHAKE_PIECE_BYTES,
    READS_PER_TURN_MAX,
};
use crate::packed::Packed;
use crate::preamble::Preamble;
use brisk_conf::os_text;
use brisk_host::memory::{Account, Charge};
use brisk_mysql::ProtocolError;
use brisk_mysql::limits::PACKED_BYTES_MAX;
use brisk_mysql::packet::{Frames, HEADER_BYTES, Messages, put_message};
use brisk_net::{Io, Stream, timeout};
use brisk_stream::conf::Proxy;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Why a side cannot go on.
#[derive(Debug)]
pub enum Broken {
    /// It has closed.
    Closed,
    /// Reading or writing has failed.
    Failed(io::Error),
    /// Nothing has come, or gone, for too long.
    Silent,
    /// It has not kept to the protocol.
    Protocol(ProtocolError),
    /// The check has found that it does not answer.
    Lost,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Closed => f.write_str("closed the connection"),
            Broken::Failed(error) => write!(f, "failed ({})", os_text(error)),
            Broken::Silent => f.write_str("timed out (110: Connection timed out)"),
            Broken::Protocol(error) => write!(f, "sent {error}"),
            Broken::Lost => f.write_str("does not answer its check"),
        }
    }
}

impl From<ProtocolError> for Broken {
    fn from(error: ProtocolError) -> Broken {
        Broken::Protocol(error)
    }
}

/// See the module's head.
pub struct Wire {
    stream: Rc<Stream>,
    received: Vec<u8>,
    start: usize,
    /// The client compresses: `received` has what its packets carry.
    packed: Option<Box<Packed>>,
    /// To a server: what goes in front of the first command, and comes in front of its answer.
    preamble: Option<Box<Preamble>>,
    /// So long a silence is the end.
    limit: Duration,
    /// What is read at a time.
    piece_bytes: usize,
    /// Bytes that were counted already: received, sent.
    counted: (u64, u64),
    /// Reads since others had their turn.
    reads: usize,
    /// The room that `received` has.
    charge: Charge,
}

impl Wire {
    /// A connection with the limits of its server's proxy.
    pub fn new(stream: Rc<Stream>, proxy: &Proxy, account: &Rc<Account>) -> Wire {
        Wire::with(stream, proxy.timeout, proxy.buffer_bytes.max(HEADER_BYTES), account)
    }

    fn with(stream: Rc<Stream>, limit: Duration, piece_bytes: usize, account: &Rc<Account>) -> Wire {
        let (received, charge) = (Vec::new(), account.hold(0));
        Wire {
            stream,
            received,
            start: 0,
            packed: None,
            preamble: None,
            limit,
            piece_bytes,
            counted: (0, 0),
            reads: 0,
            charge,
        }
    }

    /// A connection whose handshake nobody wants any more.
    pub fn of_handshake(stream: Rc<Stream>) -> Wire {
        Wire::with(stream, Duration::from_millis(HANDSHAKE_END_MS), HANDSHAKE_PIECE_BYTES, &Rc::default())
    }

    /// It is another session's from now on.
    pub fn charge_to(&mut self, account: &Rc<Account>) {
        self.charge = account.hold(self.received.capacity());
    }

    /// Counts what it is about to hold of a command.
    pub fn hold(&self, bytes: usize) -> Charge {
        self.charge.account().hold(bytes)
    }

    /// From now on both sides compress; what has come and was not taken is compressed already.
    pub fn compress(&mut self) {
        let packed = self.received.split_off(self.start);
        (self.received, self.start) = (Vec::new(), 0);
        self.packed = Some(Box::new(Packed::new(packed)));
    }

    /// This goes in front of what is sent next, and its answers are taken off what comes.
    pub fn precede(&mut self, preamble: Preamble) {
        self.preamble = Some(Box::new(preamble));
    }

    /// Gives up what was to go in front and was not sent.
    pub fn precede_no_more(&mut self) {
        self.preamble.take_if(|preamble| !preamble.is_sent());
    }

    /// The connection.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What has come and was not taken.
    pub fn unread(&self) -> &[u8] {
        &self.received[self.start..]
    }

    /// Takes so many bytes of it.
    pub fn take(&mut self, count: usize) {
        self.start += count;
        if self.start == self.received.len() {
            self.received.clear();
            self.start = 0;
            if self.received.capacity() > BUFFER_KEPT_BYTES_MAX {
                self.received = Vec::new();
                self.charge.set(0);
            }
        }
    }

    /// Writes over what has come and was not taken, from this byte of it on, as far as it goes.
    pub fn write_over(&mut self, at: usize, bytes: &[u8]) {
        let unread = self.received.get_mut(self.start + at..).unwrap_or_default();
        unread.iter_mut().zip(bytes).for_each(|(old, new)| *old = *new);
    }

    /// Bytes that have come and gone since this was asked the last time.
    pub fn moved(&mut self) -> (u64, u64) {
        let now = (self.stream.received(), self.stream.sent());
        let before = std::mem::replace(&mut self.counted, now);
        (now.0 - before.0, now.1 - before.1)
    }

    /// Gives a message that is coming the numbers that it should have, where its frames need not have them: within compressed packets.
    pub fn renumber(&mut self, frames: &Frames) {
        if self.packed.is_some() {
            frames.renumber(&mut self.received[self.start..]);
        }
    }

    /// Before a command: waits until something may have come; meanwhile it holds no buffer if that is empty.
    pub async fn rest(&mut self) -> Result<(), Broken> {
        let is_packed = self.packed.as_mut().is_some_and(|packed| packed.begin_command());
        if is_packed || !self.unread().is_empty() {
            return Ok(());
        }
        self.received = Vec::new();
        self.charge.set(0);
        timeout(self.limit, self.stream.readable()).await.map_err(|_| Broken::Silent)
    }

    /// Waits for more. A side that always has more does not keep other sessions waiting.
    pub async fn fill(&mut self) -> Result<(), Broken> {
        if self.start > 0 {
            self.received.drain(..self.start);
            self.start = 0;
        }
        let piece = self.piece_bytes;
        if let Some(packed) = &mut self.packed {
            loop {
                turn(&mut self.reads, 1).await;
                self.charge.set(packed.held() + self.received.capacity().max(self.received.len() + piece));
                if packed.unpack(&mut self.received, piece)? {
                    return Ok(());
                }
                let beside = self.received.capacity();
                read(&self.stream, self.limit, packed.bytes(), piece, (&mut self.charge, beside)).await?;
            }
        }
        loop {
            turn(&mut self.reads, 1).await;
            read(&self.stream, self.limit, &mut self.received, piece, (&mut self.charge, 0)).await?;
            if self.is_past_preamble()? {
                return Ok(());
            }
        }
    }

    /// Takes the preamble's answers off what has come; whether there is something behind them.
    fn is_past_preamble(&mut self) -> Result<bool, Broken> {
        let Some(preamble) = self.preamble.as_deref_mut().filter(|preamble| preamble.is_sent()) else {
            return Ok(true);
        };
        let mut rest = &self.received[self.start..];
        let before = rest.len();
        let is_whole = preamble.answered(&mut rest)?;
        let taken = before - rest.len();
        self.take(taken);
        if is_whole {
            self.preamble = None;
        }
        Ok(is_whole && !self.unread().is_empty())
    }

    /// Writes all of it, behind the preamble.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        if let Some(commands) = self.preamble.as_deref_mut().and_then(Preamble::send) {
            return write(&self.stream, self.limit, &[&commands, bytes].concat()).await;
        }
        let Some(packed) = &mut self.packed else { return write(&self.stream, self.limit, bytes).await };
        for piece in bytes.chunks(PACKED_BYTES_MAX) {
            turn(&mut self.reads, 1 + piece.len() / DEFLATED_PER_READ_BYTES).await;
            let packets = packed.pack(piece);
            if !packets.is_empty() {
                write(&self.stream, self.limit, &packets).await?;
            }
        }
        Ok(())
    }

    /// Writes one message; gives the number of the next frame.
    pub async fn send_message(&mut self, mut sequence: u8, message: &[u8]) -> Result<u8, Broken> {
        let mut bytes = Vec::with_capacity(message.len() + HEADER_BYTES);
        put_message(&mut bytes, &mut sequence, message);
        self.send(&bytes).await.map(|()| sequence)
    }

    /// Waits for one message of at most so many bytes.
    pub async fn message(&mut self, sequence: u8, limit_bytes: usize) -> Result<Vec<u8>, Broken> {
        let mut messages = Messages::new(sequence, limit_bytes);
        loop {
            self.renumber(messages.frames());
            let mut rest = self.unread();
            let before = rest.len();
            let found = messages.next(&mut rest)?;
            let taken = before - rest.len();
            self.take(taken);
            match found {
                Some(message) => return Ok(message),
                None => self.fill().await?,
            }
        }
    }

    /// Between two commands: whether the other side has closed, or has sent what nobody has asked for.
    pub fn is_stale(&self) -> bool {
        let is_awaited = self.preamble.as_deref().is_some_and(Preamble::is_sent);
        if is_awaited || !self.unread().is_empty() || self.stream.is_closed() {
            return true;
        }
        // No event since the last read found nothing more.
        if !self.stream.io().is_readable() {
            return false;
        }
        let seen = self.stream.try_read(&mut [0]);
        !matches!(seen, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Writes what fits at once to a server, for what nobody answers.
    pub fn send_at_once(&self, bytes: &[u8]) {
        let _ = self.stream.try_write(bytes);
    }

    /// Says at once that the end is not a regular one.
    pub fn abort(&self) {
        self.stream.abort();
    }
}

/// Lets other sessions have their turn after some reads, of which these are more.
async fn turn(reads: &mut usize, more: usize) {
    *reads += more;
    if *reads > READS_PER_TURN_MAX {
        *reads = 0;
        brisk_net::one_turn().await;
    }
}

/// Reads once, behind what is there, at least `piece_bytes` at a time. What that takes is charged before, with what is held beside it.
async fn read(
    stream: &Stream,
    limit: Duration,
    into: &mut Vec<u8>,
    piece_bytes: usize,
    (charge, beside): (&mut Charge, usize),
) -> Result<(), Broken> {
    let have = into.len();
    let room = have + piece_bytes.max(have);
    charge.set(beside + room.max(into.capacity()));
    into.reserve_exact(room - have);
    into.resize(room, 0);
    // What is asked for comes later: to try it at once is in vain.
    let work = async {
        stream.readable().await;
        stream.read(&mut into[have..]).await
    };
    let read = timeout(limit, work).await;
    let count = match &read {
        Ok(Ok(count)) => *count,
        _ => 0,
    };
    into.truncate(have + count);
    match read {
        Err(_) => Err(Broken::Silent),
        Ok(Err(error)) => Err(Broken::Failed(error)),
        Ok(Ok(0)) => Err(Broken::Closed),
        Ok(Ok(_)) => Ok(()),
    }
}

async fn write(stream: &Stream, limit: Duration, bytes: &[u8]) -> Result<(), Broken> {
    match timeout(limit, stream.write_all(bytes)).await {
        Err(_) => Err(Broken::Silent),
        Ok(Err(error)) => Err(Broken::Failed(error)),
        Ok(Ok(())) => Ok(()),
    }
}

/// Waits for exactly one message of an early part of a handshake, and reads nothing behind it: TLS may begin there.
pub async fn first_message(
    io: &Io,
    sequence: u8,
    limit_bytes: usize,
    account: &Rc<Account>,
) -> Result<Vec<u8>, Broken> {
    let mut messages = Messages::new(sequence, limit_bytes);
    let mut header = [0; HEADER_BYTES];
    exactly(io, &mut header).await?;
    if let Some(message) = messages.next(&mut &header[..])? {
        return Ok(message);
    }
    // It was accepted, so it is no more than the limit.
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
    // The message is a copy.
    let _charge = account.hold(2 * length);
    let mut body = vec![0; length];
    exactly(io, &mut body).await?;
    let whole = messages.next(&mut &body[..])?;
    whole.ok_or(Broken::Protocol(ProtocolError::Malformed("message of a handshake")))
}

async fn exactly(io: &Io, mut room: &mut [u8]) -> Result<(), Broken> {
    while !room.is_empty() {
        match io.try_read(room) {
            Ok(0) => return Err(Broken::Closed),
            Ok(count) => room = &mut room[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => io.readable().await,
            Err(error) => return Err(Broken::Failed(error)),
        }
    }
    Ok(())
}

/// Writes bytes where there is no session of TLS yet.
pub async fn put(io: &Io, mut bytes: &[u8]) -> Result<(), Broken> {
    while !bytes.is_empty() {
        match io.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => io.writable().await,
            Err(error) => return Err(Broken::Failed(error)),
        }
    }
    Ok(())
}

/// A message in its frame.
pub fn framed(mut sequence: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + HEADER_BYTES);
    put_message(&mut bytes, &mut sequence, message);
    bytes
}
