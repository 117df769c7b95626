//! Bytes from one side of a session to the other.

use crate::limits::READS_PER_TURN_MAX;
use brisk_net::clock;
use std::io;
use std::task::{Context, Poll};

/// One side as the relay needs it: a socket, or what a test puts in its place.
pub trait Side {
    /// Reads once; 0 is the end.
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Writes once.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Tells the other end that nothing more comes.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
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
                let wait_ms = (self.read_bytes - allowed).saturating_mul(1000) / self.bytes_per_sec + 1;
                Err(now_ms + wait_ms)
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
        self.start < self.end
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
        for _ in 0..READS_PER_TURN_MAX {
            while self.is_holding() {
                match to.poll_write(cx, &self.buffer[self.start..self.end]) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Write(error))),
                    Poll::Ready(Ok(count)) => {
                        self.start += count;
                        moved.written_bytes += count as u64;
                    }
                }
            }
            (self.start, self.end) = (0, 0);
            match self.state {
                State::Open => {}
                State::Ending if self.half_close => self.state = State::Closing,
                State::Ending => self.state = State::Over,
                State::Closing => match to.poll_end(cx) {
                    Poll::Pending => return Poll::Pending,
                    // A side that is gone is not told.
                    Poll::Ready(_) => self.state = State::Over,
                },
                State::Over => return Poll::Ready(Ok(())),
            }
            if self.state != State::Open {
                continue;
            }
            match self.poll_fill(cx, from) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Read(error))),
                Poll::Ready(Ok(0)) => self.state = State::Ending,
                Poll::Ready(Ok(count)) => {
                    self.end = count;
                    moved.read_bytes += count as u64;
                }
            }
        }
        // Others have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
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
        let result = from.poll_read(cx, &mut self.buffer[..room]);
        if let (Poll::Ready(Ok(count)), Some(rate)) = (&result, &mut self.rate) {
            rate.note(*count);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;
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
        assert_eq!(rate(10).room(1000), Err(1001));
        assert_eq!(rate(10).room(2000), Ok(10));
        assert_eq!(rate(30).room(1000), Err(1000 + 2001));
    }
}
