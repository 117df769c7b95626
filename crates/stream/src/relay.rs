//! Bytes from one side of a session to the other.
//!
//! What comes in small pieces is copied through a buffer. Where a piece fills the buffer, more is behind it: that goes through a pipe,
//! without a copy, if both sides are sockets without TLS and no rate limits the direction.

use crate::limits::{READS_PER_SPLICE, READS_PER_TURN_MAX};
use brisk_net::{Pipe, clock};
use std::io;
use std::task::{Context, Poll, ready};

/// One side as the relay needs it: a socket, or what a test puts in its place.
pub trait Side {
    /// Reads once; 0 is the end.
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Writes once.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Tells the other end that nothing more comes.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Whether the next two work here.
    fn can_splice(&self) -> bool;
    /// As [`Side::poll_read`], into an empty pipe.
    fn poll_fill(&self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>>;
    /// As [`Side::poll_write`], from a pipe.
    fn poll_drain(&self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>>;
}

/// How far one direction is.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The source has ended; what was read is still to be written.
    Ending,
    /// The destination is being told.
    Closing,
    Over,
}

/// Which side has failed.
#[derive(Debug)]
pub enum Failure {
    /// The side that is read from.
    Read(io::Error),
    /// The side that is written to.
    Write(io::Error),
}

/// What a call of [`Direction::poll`] came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

/// One direction. The buffer is made when the first byte comes.
pub struct Direction {
    state: State,
    buffer: Vec<u8>,
    size: usize,
    start: usize,
    end: usize,
    /// Holds bytes when the buffer does not, and only then.
    pipe: Option<Pipe>,
    /// The last piece was as large as it could be.
    is_bulk: bool,
    rate: Option<Rate>,
    /// Pass the end on when it has come.
    half_close: bool,
}

/// `proxy_upload_rate`, `proxy_download_rate`.
pub struct Rate {
    bytes_per_sec: u64,
    since_ms: u64,
    read_bytes: u64,
}

impl Rate {
    /// So many bytes per second from now on; 0: `None`, as much as comes.
    pub fn new(bytes_per_sec: u64) -> Option<Rate> {
        (bytes_per_sec > 0).then(|| Rate { bytes_per_sec, since_ms: clock::mono_ms(), read_bytes: 0 })
    }

    /// Notes what was read.
    pub fn note(&mut self, bytes: usize) {
        self.read_bytes += bytes as u64;
    }

    /// How many bytes may be read now, or when (monotonic, ms) some may be again.
    pub fn room(&self, now_ms: u64) -> Result<usize, u64> {
        let seconds = now_ms.saturating_sub(self.since_ms) / 1000 + 1;
        let allowed = self.bytes_per_sec.saturating_mul(seconds);
        match allowed.checked_sub(self.read_bytes).filter(|&room| room > 0) {
            Some(room) => Ok(usize::try_from(room).unwrap_or(usize::MAX)),
            None => {
                // The second in which some are allowed again: before it every look would be in vain.
                let second = self.read_bytes / self.bytes_per_sec;
                Err(self.since_ms + second.saturating_mul(1000))
            }
        }
    }
}

impl Direction {
    /// A direction with a buffer of so many bytes and a limit of bytes per second, 0: none.
    pub fn new(buffer_bytes: usize, bytes_per_sec: u64, half_close: bool) -> Direction {
        Direction {
            state: State::Open,
            buffer: Vec::new(),
            size: buffer_bytes.max(1),
            start: 0,
            end: 0,
            pipe: None,
            is_bulk: false,
            rate: Rate::new(bytes_per_sec),
            half_close,
        }
    }

    /// Bytes that are written before what is read.
    pub fn preceded_by(mut self, bytes: &[u8]) -> Direction {
        if !bytes.is_empty() {
            self.size = self.size.max(bytes.len());
            self.buffer = vec![0; self.size];
            self.buffer[..bytes.len()].copy_from_slice(bytes);
            self.end = bytes.len();
        }
        self
    }

    /// Whether the source has ended and all of it is written.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether the source has ended.
    pub fn has_ended(&self) -> bool {
        self.state != State::Open
    }

    /// Whether something waits to be written.
    pub fn is_holding(&self) -> bool {
        self.start < self.end || self.pipe.is_some()
    }

    /// When reading may go on, if the rate has stopped it.
    pub fn resumes_ms(&self) -> Option<u64> {
        if self.state != State::Open || self.is_holding() {
            return None;
        }
        self.rate.as_ref().and_then(|rate| rate.room(clock::mono_ms()).err())
    }

    /// Moves what can be moved now. Not pending: something moved, or the direction came further.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &impl Side,
        to: &impl Side,
        moved: &mut Moved,
    ) -> Poll<Result<(), Failure>> {
        let mut reads = 0;
        while reads < READS_PER_TURN_MAX {
            match self.poll_flush(cx, to, moved) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Write(error))),
                Poll::Pending => return Poll::Pending,
            }
            if self.state != State::Open {
                match self.poll_end(cx, to) {
                    Poll::Ready(()) => return Poll::Ready(Ok(())),
                    Poll::Pending => return Poll::Pending,
                }
            }
            let filled = if self.may_splice(from, to) { self.poll_splice(cx, from) } else { None };
            reads += if filled.is_some() { READS_PER_SPLICE } else { 1 };
            match filled.unwrap_or_else(|| self.poll_fill(cx, from)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Read(error))),
                Poll::Ready(Ok(0)) => self.state = State::Ending,
                Poll::Ready(Ok(count)) => moved.read_bytes += count as u64,
            }
        }
        // Others have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Goes from the source's end to its own, when all is written.
    fn poll_end(&mut self, cx: &mut Context<'_>, to: &impl Side) -> Poll<()> {
        if self.state == State::Ending {
            self.state = if self.half_close { State::Closing } else { State::Over };
        }
        if self.state == State::Closing {
            // A side that is gone is not told.
            let _ = ready!(to.poll_end(cx));
            self.state = State::Over;
        }
        Poll::Ready(())
    }

    /// Writes what is held.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        to: &impl Side,
        moved: &mut Moved,
    ) -> Poll<io::Result<()>> {
        while self.start < self.end {
            let count = ready!(to.poll_write(cx, &self.buffer[self.start..self.end]))?;
            self.start += count;
            moved.written_bytes += count as u64;
        }
        (self.start, self.end) = (0, 0);
        while let Some(pipe) = &mut self.pipe {
            if pipe.held_bytes() == 0 {
                self.pipe = None;
                break;
            }
            let count = ready!(to.poll_drain(cx, pipe))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            moved.written_bytes += count as u64;
        }
        Poll::Ready(Ok(()))
    }

    fn may_splice(&self, from: &impl Side, to: &impl Side) -> bool {
        self.is_bulk && self.rate.is_none() && from.can_splice() && to.can_splice()
    }

    /// Fills a pipe; `None` if there is none: then bytes are copied.
    fn poll_splice(&mut self, cx: &mut Context<'_>, from: &impl Side) -> Option<Poll<io::Result<usize>>> {
        let mut pipe = Pipe::take()?;
        let filled = from.poll_fill(cx, &mut pipe);
        match &filled {
            Poll::Pending => {}
            // Some sandboxes refuse the call: nothing was taken, so it can be read.
            Poll::Ready(Err(error)) if is_refused(error) => {
                self.is_bulk = false;
                return None;
            }
            Poll::Ready(_) => self.is_bulk = pipe.held_bytes() >= self.size,
        }
        self.pipe = (pipe.held_bytes() > 0).then_some(pipe);
        Some(filled)
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, from: &impl Side) -> Poll<io::Result<usize>> {
        let room = match &self.rate {
            Some(rate) => match rate.room(clock::mono_ms()) {
                Ok(room) => room.min(self.size),
                // The caller of `poll` waits until `resumes_ms`.
                Err(_) => return Poll::Pending,
            },
            None => self.size,
        };
        if self.buffer.is_empty() {
            self.buffer = vec![0; self.size];
        }
        let count = ready!(from.poll_read(cx, &mut self.buffer[..room]))?;
        self.end = count;
        self.is_bulk = count == self.size;
        if let Some(rate) = &mut self.rate {
            rate.note(count);
        }
        Poll::Ready(Ok(count))
    }
}

fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::task::Waker;

    /// What a side does: pieces to be read, and how many bytes it takes at a time.
    #[derive(Default)]
    struct Scripted {
        pieces: RefCell<VecDeque<&'static [u8]>>,
        ends: bool,
        takes: Cell<usize>,
        got: RefCell<Vec<u8>>,
        told: Cell<bool>,
    }

    impl Side for Scripted {
        fn poll_read(&self, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
            match self.pieces.borrow_mut().pop_front() {
                Some(piece) => {
                    buf[..piece.len()].copy_from_slice(piece);
                    Poll::Ready(Ok(piece.len()))
                }
                None if self.ends => Poll::Ready(Ok(0)),
                None => Poll::Pending,
            }
        }

        fn poll_write(&self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.takes.get());
            if count == 0 {
                return Poll::Pending;
            }
            self.takes.set(self.takes.get() - count);
            self.got.borrow_mut().extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_end(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.told.set(true);
            Poll::Ready(Ok(()))
        }

        fn can_splice(&self) -> bool {
            false
        }

        fn poll_fill(&self, _: &mut Context<'_>, _: &mut Pipe) -> Poll<io::Result<usize>> {
            unreachable!()
        }

        fn poll_drain(&self, _: &mut Context<'_>, _: &mut Pipe) -> Poll<io::Result<usize>> {
            unreachable!()
        }
    }

    /// A socket, and how often a pipe was filled from it.
    struct Socket {
        stream: UnixStream,
        fills: Cell<usize>,
        refuses: bool,
    }

    fn polled(result: io::Result<usize>) -> Poll<io::Result<usize>> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        }
    }

    impl Side for Socket {
        fn poll_read(&self, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
            polled((&self.stream).read(buf))
        }

        fn poll_write(&self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            polled((&self.stream).write(bytes))
        }

        fn poll_end(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.stream.shutdown(std::net::Shutdown::Write))
        }

        fn can_splice(&self) -> bool {
            true
        }

        fn poll_fill(&self, _: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
            if self.refuses {
                return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()));
            }
            self.fills.set(self.fills.get() + 1);
            polled(pipe.fill(self.stream.as_fd()).map_err(Into::into))
        }

        fn poll_drain(&self, _: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
            polled(pipe.drain(self.stream.as_fd()).map_err(Into::into))
        }
    }

    fn sockets(refuses: bool) -> (UnixStream, Socket) {
        let (far, stream) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        (far, Socket { stream, fills: Cell::new(0), refuses })
    }

    /// Passes all of `bytes` on, with a receiver that reads `step` bytes at a time; gives how often a pipe was filled.
    fn pass_on(bytes: &[u8], step: usize, bytes_per_sec: u64, refuses: bool) -> usize {
        let (mut source, from) = sockets(refuses);
        let (mut sink, to) = sockets(false);
        let mut direction = Direction::new(4096, bytes_per_sec, true);
        let (mut sent, mut got, mut piece) = (0, Vec::new(), vec![0; step]);
        let mut moved = Moved::default();
        let mut source_open = true;
        loop {
            sent += source.write(&bytes[sent..]).unwrap_or(0);
            if sent == bytes.len() && source_open {
                source.shutdown(std::net::Shutdown::Write).unwrap();
                source_open = false;
            }
            if let Poll::Ready(Err(error)) =
                direction.poll(&mut Context::from_waker(Waker::noop()), &from, &to, &mut moved)
            {
                panic!("{error:?}");
            }
            match sink.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => got.extend_from_slice(&piece[..count]),
                Err(_) => {}
            }
        }
        assert!(got == bytes && direction.is_over());
        assert_eq!((moved.read_bytes, moved.written_bytes), (bytes.len() as u64, bytes.len() as u64));
        from.fills.get()
    }

    #[test]
    fn much_goes_through_a_pipe_and_all_of_it_arrives() {
        let bytes: Vec<u8> =
            (0..3_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for step in [1 << 20, 5000] {
            assert!(pass_on(&bytes, step, 0, false) > 0);
        }
        assert_eq!(pass_on(&bytes[..3000], 5000, 0, false), 0, "little is copied");
        assert_eq!(pass_on(&bytes, 1 << 20, 1 << 30, false), 0, "a rate is kept");
        assert_eq!(pass_on(&bytes, 1 << 20, 0, true), 0, "what the system refuses is copied");
    }

    fn check(half_close: bool, ends: bool, takes: usize, want: (&str, bool, bool)) {
        let from = Scripted { pieces: RefCell::new([&b"ab"[..], b"cd"].into()), ends, ..Scripted::default() };
        let to = Scripted { takes: Cell::new(takes), ..Scripted::default() };
        let mut direction = Direction::new(4, 0, half_close);
        let mut moved = Moved::default();
        let _ = direction.poll(&mut Context::from_waker(Waker::noop()), &from, &to, &mut moved);
        let got = String::from_utf8(to.got.borrow().clone()).unwrap();
        assert_eq!((got.as_str(), direction.is_over(), to.told.get()), want);
        assert_eq!(moved.written_bytes, got.len() as u64);
    }

    #[test]
    fn the_end_is_passed_on_when_all_is_written() {
        check(false, false, 10, ("abcd", false, false));
        check(false, true, 10, ("abcd", true, false));
        check(true, true, 10, ("abcd", true, true));
        check(true, true, 3, ("abc", false, false));
        check(false, false, 0, ("", false, false));
    }

    #[test]
    fn a_rate_gives_each_second_its_bytes() {
        let rate = |read_bytes| Rate { bytes_per_sec: 10, since_ms: 1000, read_bytes };
        assert_eq!(rate(0).room(1000), Ok(10));
        assert_eq!(rate(4).room(1999), Ok(6));
        assert_eq!(rate(10).room(1000), Err(2000));
        assert_eq!(rate(10).room(2000), Ok(10));
        // At the time that is told there is room, and not a moment before.
        assert_eq!((rate(30).room(1000), rate(30).room(3999)), (Err(4000), Err(4000)));
        assert_eq!((rate(35).room(1000), rate(35).room(4000)), (Err(4000), Ok(5)));
    }
}
