//! Bytes from one socket to another without a copy: the kernel passes its pages on through a pipe (splice).
//!
//! A pipe belongs to a direction only while there are bytes in it, so that connections at rest hold none. Each thread has at most
//! [`PIPES_MAX`]; where all are in use, or the system gives none, the caller copies.

use crate::limits::{PIPE_BYTES, PIPES_MAX, PIPES_SPARE_MAX};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::cell::{Cell, RefCell};
use std::os::fd::{BorrowedFd, OwnedFd};

thread_local! {
    static SPARE: RefCell<Vec<Ends>> = const { RefCell::new(Vec::new()) };
    static IN_USE: Cell<usize> = const { Cell::new(0) };
}

#[derive(Debug)]
struct Ends {
    out: OwnedFd,
    into: OwnedFd,
}

/// A pipe with what one socket has given and another one has not taken yet.
#[derive(Debug)]
pub struct Pipe {
    ends: Option<Ends>,
    held_bytes: usize,
}

impl Pipe {
    /// An empty one; `None` if this thread has as many as it may, or the system refuses.
    pub fn take() -> Option<Pipe> {
        if IN_USE.get() >= PIPES_MAX {
            return None;
        }
        let ends = SPARE.with_borrow_mut(Vec::pop).or_else(make)?;
        IN_USE.set(IN_USE.get() + 1);
        Some(Pipe { ends: Some(ends), held_bytes: 0 })
    }

    /// Bytes in it.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes what `socket` has, up to [`PIPE_BYTES`]; 0 is its end. Call it only while nothing is held: a full pipe and an empty
    /// socket have the same error, `WouldBlock`.
    pub fn fill(&mut self, socket: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let count = splice(socket, None, &ends.into, None, PIPE_BYTES, flags)?;
        self.held_bytes += count;
        Ok(count)
    }

    /// Gives `socket` as much of what is held as it takes.
    pub fn drain(&mut self, socket: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        let Some(ends) = &self.ends else { return Ok(0) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let count = splice(&ends.out, None, socket, None, self.held_bytes, flags)?;
        self.held_bytes -= count;
        Ok(count)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        IN_USE.set(IN_USE.get() - 1);
        // What is left in it must not reach another connection.
        let Some(ends) = self.ends.take().filter(|_| self.held_bytes == 0) else { return };
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < PIPES_SPARE_MAX {
                spare.push(ends);
            }
        });
    }
}

/// A pipe of the size that pays; users without rights get small ones when they have many (pipe-user-pages-soft).
fn make() -> Option<Ends> {
    let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    let size = fcntl_setpipe_size(&into, PIPE_BYTES).ok()?;
    (size >= PIPE_BYTES).then_some(Ends { out, into })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_filled_is_drained() {
        let (mut source, from) = UnixStream::pair().unwrap();
        let (to, mut sink) = UnixStream::pair().unwrap();
        source.write_all(b"some bytes").unwrap();
        let mut pipe = Pipe::take().unwrap();
        assert_eq!(pipe.fill(from.as_fd()), Ok(10));
        assert_eq!((pipe.drain(to.as_fd()), pipe.held_bytes()), (Ok(10), 0));
        let mut got = [0; 10];
        sink.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"some bytes");
        drop(source);
        assert_eq!(pipe.fill(from.as_fd()), Ok(0));
    }

    #[test]
    fn a_pipe_with_bytes_in_it_is_never_used_again() {
        let (mut source, from) = UnixStream::pair().unwrap();
        source.write_all(b"of somebody").unwrap();
        let mut pipe = Pipe::take().unwrap();
        pipe.fill(from.as_fd()).unwrap();
        drop(pipe);
        assert_eq!(SPARE.with_borrow(Vec::len), 0);
        drop(Pipe::take().unwrap());
        assert_eq!(SPARE.with_borrow(Vec::len), 1);
    }

    #[test]
    fn a_thread_has_so_many_at_most() {
        let pipes: Vec<Pipe> = (0..PIPES_MAX).map_while(|_| Pipe::take()).collect();
        assert!(pipes.len() < PIPES_MAX || Pipe::take().is_none());
        drop(pipes);
        assert!(IN_USE.get() == 0 && SPARE.with_borrow(Vec::len) <= PIPES_SPARE_MAX);
    }
}
