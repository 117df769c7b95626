//! Bodies for filters that must see every byte: files are read, piece by piece, as they are pulled.
//!
//! At most one read is under way. What the pool reads while the body is dropped is dropped with the job; the
//! file's descriptor is a copy.

use crate::failure::broken;
use crate::files::OpenFile;
use crate::limits::COPY_CHUNK_BYTES;
use crate::response::{Body, BodyStream, Chunk, Piece};
use brisk_net::{Failure, blocking, file};
use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A body whose pieces are all in memory when they are given ([`Piece::in_memory`] is `Some`).
/// What a filter has pulled is gone from here, so a body of any size takes the memory of one piece.
pub struct InMemory {
    pieces: VecDeque<Piece>,
    stream: Option<Box<dyn BodyStream>>,
    /// A part of the first piece that the pool reads.
    reading: Option<blocking::Job1<io::Result<Vec<u8>>>>,
}

impl InMemory {
    /// The body as a stream.
    pub fn new(body: Body) -> InMemory {
        // A file stays a file until it is pulled.
        let (pieces, stream) = match body {
            Body::Empty => (VecDeque::new(), None),
            Body::One(piece) => (VecDeque::from([piece]), None),
            Body::Many(pieces) => (pieces.into(), None),
            Body::Stream(stream) => (VecDeque::new(), Some(stream)),
        };
        InMemory { pieces, stream, reading: None }
    }

    /// Reads the next part of the file at the front.
    fn poll_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &Rc<OpenFile>,
        range: Range<u64>,
    ) -> Poll<io::Result<Vec<u8>>> {
        if self.reading.is_none() {
            let fd = file.fd.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?;
            // Bounded: a filter holds one piece at a time, whatever the file's size.
            let want = COPY_CHUNK_BYTES.min(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
            let mut buf = vec![0; want];
            // Without waiting where the kernel has it in memory: no thread is woken for it.
            match file::read_warm(fd, &mut buf, range.start) {
                Ok(count) => {
                    buf.truncate(count);
                    return Poll::Ready(Ok(buf));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            // The cache of files may drop its own while the pool reads.
            let fd = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
            let job = blocking::run(move || {
                let count = file::read_cold(&fd, &mut buf, range.start)?;
                buf.truncate(count);
                Ok(buf)
            });
            self.reading = Some(job.map_err(|_| io::Error::other("the queue of the thread pool is full"))?);
        }
        // Never reached: a job was put there above.
        let Some(job) = &mut self.reading else { return Poll::Pending };
        let read = ready!(Pin::new(job).poll(cx));
        // A job that has ended must not be polled again.
        self.reading = None;
        Poll::Ready(read)
    }
}

impl BodyStream for InMemory {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            let Some(piece) = self.pieces.front() else {
                let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
                match ready!(stream.poll_chunk(cx)) {
                    Some(Ok(Chunk::Piece(piece))) => self.pieces.push_back(piece),
                    other => return Poll::Ready(other),
                }
                // An empty stream, or a piece that was just put there.
                continue;
            };
            if piece.is_empty() {
                self.pieces.pop_front();
                continue;
            }
            if piece.in_memory().is_some() {
                let piece = self.pieces.pop_front();
                return Poll::Ready(piece.map(|piece| Ok(Chunk::Piece(piece))));
            }
            let Piece::File { file, range } = piece.clone() else { return Poll::Ready(None) };
            let bytes = match ready!(self.poll_file(cx, &file, range.clone())) {
                // The file has become shorter since its length was announced.
                Ok(bytes) if bytes.is_empty() => {
                    return Poll::Ready(Some(Err(broken(&io::ErrorKind::UnexpectedEof.into()))));
                }
                Ok(bytes) => bytes,
                Err(error) => return Poll::Ready(Some(Err(broken(&error)))),
            };
            // The piece's range is a promise that the head has made.
            let start = range.start + bytes.len() as u64;
            self.pieces.pop_front();
            // A short read is no end: the rest is the next piece.
            if start < range.end {
                self.pieces.push_front(Piece::File { file, range: start..range.end });
            }
            return Poll::Ready(Some(Ok(Chunk::Piece(Piece::Bytes(bytes.into())))));
        }
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if let Some(stream) = &mut self.stream {
            // Files need none: the kernel reads ahead.
            stream.poll_ahead(cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::task::Waker;

    #[test]
    fn files_are_read_in_parts() {
        let path = std::env::temp_dir().join(format!("brisk-in-memory-{}", std::process::id()));
        let content: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        std::fs::File::create(&path).unwrap().write_all(&content).unwrap();
        let fd = file::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let info = file::info(&fd).unwrap();
        let file = Rc::new(OpenFile { info, fd: Some(fd), content: None });
        let body = Body::Many(vec![
            Piece::Bytes("head".into()),
            Piece::File { file: file.clone(), range: 7..7 },
            Piece::File { file: file.clone(), range: 1000..150_000 },
            Piece::File { file, range: 199_999..200_001 },
        ]);
        let mut body = InMemory::new(body);
        let mut cx = Context::from_waker(Waker::noop());
        let mut got = Vec::new();
        let end = loop {
            match body.poll_chunk(&mut cx) {
                Poll::Ready(Some(Ok(Chunk::Piece(piece)))) => {
                    got.extend_from_slice(piece.in_memory().unwrap());
                }
                Poll::Ready(end) => break end,
                Poll::Pending => std::thread::yield_now(),
            }
        };
        assert!(got == [&b"head"[..], &content[1000..150_000], &content[199_999..]].concat());
        // The file is shorter than the last piece says.
        assert!(matches!(end, Some(Err(failure)) if failure.text() == "unexpected end of file"));
    }
}
