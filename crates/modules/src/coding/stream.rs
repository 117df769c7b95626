//! A body that is compressed while it is sent: pieces of some size on the pool, small ones at once.
//!
//! An encoder is at one place at a time: here, or with the pool's job. Dropping the body while a job runs drops the
//! encoder with the job.

use super::encoder::{Encoder, Op, Params};
use super::kept::{Draft, whole_file};
use crate::limits::{INLINE_PIECE_BYTES_MAX, OUTPUT_BYTES_MIN};
use brisk_net::Failure;
use brisk_net::blocking::{self, Ran};
use brisk_server::failure::broken;
use brisk_server::in_memory::InMemory;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::text::Text;
use std::cell::Cell;
use std::future::Future as _;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Bytes that the pool compresses at a time: what comes of them is sent before the next are taken.
const PART_BYTES: usize = 128 * 1024;
/// Pieces compressed on the event loop in a row before others have their turn.
const PIECES_IN_A_ROW: u32 = 16;

/// How long a body was and is: `$gzip_ratio`.
#[derive(Default)]
pub struct Sizes {
    pub plain: Cell<u64>,
    pub coded: Cell<u64>,
}

impl Sizes {
    pub fn add(&self, plain: usize, coded: usize) {
        // Both of the response as a whole: `$gzip_ratio` asks for it while and after it is sent.
        self.plain.set(self.plain.get() + plain as u64);
        self.coded.set(self.coded.get() + coded as u64);
    }
}

/// Bytes that can go to another thread.
enum Bytes {
    Text(Text),
    /// (Shared among threads already: nothing is copied.)
    Shared(Arc<[u8]>),
}

impl Bytes {
    /// Of a piece that is in memory, and where in them it is.
    fn of(piece: Piece) -> (Bytes, Range<usize>) {
        match piece {
            Piece::Bytes(text) => {
                let range = 0..text.len();
                (Bytes::Text(text), range)
            }
            Piece::File { file, range } => match file.bytes() {
                Some(content) => {
                    let end = (range.end as usize).min(content.len());
                    // Bounded by the content: the range is of the file as it was announced.
                    (Bytes::Shared(content.clone()), (range.start as usize).min(end)..end)
                }
                // Never: `InMemory` has read it.
                None => (Bytes::Text(Text::default()), 0..0),
            },
        }
    }

    fn get(&self, range: Range<usize>) -> &[u8] {
        match self {
            Bytes::Text(text) => &text[range],
            Bytes::Shared(content) => &content[range],
        }
    }
}

/// What the pool was given, with what came of it.
struct Batch {
    encoder: Encoder,
    input: Bytes,
    out: Vec<u8>,
    result: io::Result<()>,
}

enum Work {
    Here(Encoder),
    Away(blocking::Job1<Batch>),
    /// There is no encoder any more: the end was written, or it was lost by an error.
    Over,
}

/// See the module's head.
pub struct Coded {
    inner: InMemory,
    work: Work,
    /// Input that is not yet compressed.
    input: Option<(Bytes, Range<usize>)>,
    /// What was given so far must leave.
    flush: bool,
    in_a_row: u32,
    sizes: Rc<Sizes>,
    /// Output that waits for more, as long as there is some at once: encoders give their first bytes apart.
    held: Vec<u8>,
    /// All output so far, if the body is a file of which it will be kept.
    /// (A stream from a back end is another one each time.)
    draft: Option<Draft>,
}

impl Coded {
    pub fn new(body: Body, params: Params, sizes: Rc<Sizes>) -> io::Result<Coded> {
        let encoder = Encoder::take(params)?;
        // Before the body is taken: from then on its file is not seen.
        let draft = whole_file(&body).map(|file| Draft::of(file, params));
        Ok(Coded {
            inner: InMemory::new(body),
            work: Work::Here(encoder),
            input: None,
            flush: false,
            in_a_row: 0,
            sizes,
            held: Vec::new(),
            draft,
        })
    }

    /// Compresses the next part of the input; `None` if the pool does it.
    fn part(
        &mut self,
        mut encoder: Encoder,
        input: Bytes,
        range: Range<usize>,
    ) -> io::Result<Option<Vec<u8>>> {
        let end = range.end.min(range.start + PART_BYTES);
        let part = range.start..end;
        let rest = end..range.end;
        let length = part.len();
        // Counted when it is given out, whoever compresses it.
        self.sizes.add(length, 0);
        // Less than a switch to another thread and back costs.
        if length <= INLINE_PIECE_BYTES_MAX {
            let mut out = Vec::new();
            encoder.encode(input.get(part), Op::Run, &mut out)?;
            self.work = Work::Here(encoder);
            self.input = (!rest.is_empty()).then_some((input, rest));
            return Ok(Some(out));
        }
        // Encoder and bytes go along: nothing is shared while it runs.
        let job = blocking::run_or_here(move || {
            let mut out = Vec::new();
            let result = encoder.encode(input.get(part), Op::Run, &mut out);
            Batch { encoder, input, out, result }
        });
        // The bytes are with the pool; here only what is left of them is known.
        self.input = (!rest.is_empty()).then_some((Bytes::Text(Text::default()), rest));
        match job {
            Ran::Away(job) => {
                self.work = Work::Away(job);
                Ok(None)
            }
            // The pool is full: what has been announced is sent all the same, but others have their turn first.
            Ran::Here(batch) => {
                self.in_a_row = PIECES_IN_A_ROW;
                self.take_back(batch).map(Some)
            }
        }
    }

    /// What the pool was given is here again.
    fn take_back(&mut self, batch: Batch) -> io::Result<Vec<u8>> {
        let Batch { encoder, input, out, result } = batch;
        result?;
        self.work = Work::Here(encoder);
        if let Some((bytes, _)) = &mut self.input {
            *bytes = input;
        }
        Ok(out)
    }

    /// Compresses what follows no bytes.
    fn mark(&mut self, mut encoder: Encoder, op: Op) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        encoder.encode(b"", op, &mut out)?;
        if op == Op::Finish {
            encoder.put();
        // An encoder in the middle of a body is this body's.
        } else {
            self.work = Work::Here(encoder);
        }
        Ok(out)
    }

    /// What was held back, as a chunk.
    fn release(&mut self) -> Poll<Option<Result<Chunk, Failure>>> {
        let out = std::mem::take(&mut self.held);
        self.sizes.add(0, out.len());
        if let Some(draft) = &mut self.draft {
            draft.push(&out);
        }
        // After an error nothing is released.
        if matches!(self.work, Work::Over)
            && let Some(draft) = self.draft.take()
        {
            draft.keep();
        }
        Poll::Ready(Some(Ok(Chunk::Piece(Piece::Bytes(out.into())))))
    }

    /// One step: what there is to send, if anything.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>, Failure>> {
        if let Work::Away(job) = &mut self.work {
            let batch = ready!(Pin::new(job).poll(cx));
            // It has waited for the pool: others had their turn.
            self.in_a_row = 0;
            return Poll::Ready(self.take_back(batch).map_err(|error| broken(&error)));
        }
        if self.in_a_row >= PIECES_IN_A_ROW {
            self.in_a_row = 0;
            cx.waker().wake_by_ref();
            // The task stays ready and comes again when the loop has seen to others.
            return Poll::Pending;
        }
        let (input, range) = match self.input.take() {
            Some(input) => input,
            None => match ready!(self.inner.poll_chunk(cx)) {
                Some(Ok(Chunk::Piece(piece))) => Bytes::of(piece),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                // The end, or a flush.
                other => {
                    let Work::Here(encoder) = std::mem::replace(&mut self.work, Work::Over) else {
                        return Poll::Ready(Ok(Vec::new()));
                    };
                    self.flush = other.is_some();
                    let marked = self.mark(encoder, if self.flush { Op::Flush } else { Op::Finish });
                    return Poll::Ready(marked.map_err(|error| broken(&error)));
                }
            },
        };
        self.in_a_row += 1;
        let Work::Here(encoder) = std::mem::replace(&mut self.work, Work::Over) else {
            // `Over` while the encoder is in use: an error on the way leaves the body ended, not begun anew.
            return Poll::Ready(Err(Failure::broken("the encoder is gone")));
        };
        let part = self.part(encoder, input, range).map_err(|error| broken(&error));
        Poll::Ready(part.map(Option::unwrap_or_default))
    }
}

impl BodyStream for Coded {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            let is_over = matches!(self.work, Work::Over);
            let is_due = self.flush || is_over || self.held.len() >= OUTPUT_BYTES_MIN;
            // Before the flush itself: what was held back is what the flush is for.
            if is_due && !self.held.is_empty() {
                return self.release();
            }
            if std::mem::take(&mut self.flush) {
                return Poll::Ready(Some(Ok(Chunk::Flush)));
            }
            if is_over {
                return Poll::Ready(None);
            }
            match self.poll_step(cx) {
                Poll::Pending if self.held.is_empty() => return Poll::Pending,
                // The body has no more for now: what is ready leaves while it waits.
                Poll::Pending => return self.release(),
                // (Not copied where nothing is held.)
                Poll::Ready(Ok(out)) if self.held.is_empty() => self.held = out,
                Poll::Ready(Ok(out)) => self.held.extend_from_slice(&out),
                Poll::Ready(Err(error)) => {
                    // What was held back is not sent: the client must not take a body that is cut off for a whole
                    // one.
                    self.work = Work::Over;
                    self.held.clear();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        self.inner.poll_ahead(cx);
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::encoder::tests::{decode, params, text};
    use super::*;
    use brisk_http::negotiate::Coding;
    use std::collections::VecDeque;
    use std::task::Waker;

    /// A body in pieces; an empty one stands for a flush.
    pub struct Pieces(pub VecDeque<Vec<u8>>);

    impl BodyStream for Pieces {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
            Poll::Ready(self.0.pop_front().map(|bytes| {
                Ok(if bytes.is_empty() { Chunk::Flush } else { Chunk::Piece(Piece::Bytes(bytes.into())) })
            }))
        }
    }

    /// All that a stream gives, and how many flushes came after how many bytes.
    pub fn drain(mut stream: impl BodyStream) -> io::Result<(Vec<u8>, Vec<usize>)> {
        let mut cx = Context::from_waker(Waker::noop());
        let (mut out, mut flushes) = (Vec::new(), Vec::new());
        loop {
            match stream.poll_chunk(&mut cx) {
                Poll::Ready(Some(Ok(Chunk::Piece(piece)))) => {
                    out.extend_from_slice(piece.in_memory().unwrap());
                }
                Poll::Ready(Some(Ok(Chunk::Flush))) => flushes.push(out.len()),
                Poll::Ready(Some(Err(failure))) => return Err(io::Error::other(failure.text().to_string())),
                Poll::Ready(None) => return Ok((out, flushes)),
                Poll::Pending => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn bodies_of_all_sizes_come_back() {
        for coding in Coding::ALL {
            for length in
                [0, 5, INLINE_PIECE_BYTES_MAX, INLINE_PIECE_BYTES_MAX + 1, PART_BYTES * 2 + 1, 1_000_000]
            {
                let text = text(length);
                let sizes = Rc::new(Sizes::default());
                let body = Body::bytes(text.clone());
                let (out, _) = drain(Coded::new(body, params(coding), sizes.clone()).unwrap()).unwrap();
                assert!(decode(coding, &out) == text, "{coding:?} {length}");
                assert_eq!((sizes.plain.get(), sizes.coded.get()), (length as u64, out.len() as u64));
            }
        }
    }

    #[test]
    fn flushes_are_handed_on() {
        for coding in Coding::ALL {
            let small = vec![b"DA".to_vec(), Vec::new(), Vec::new(), b"TA".to_vec()];
            let many = std::iter::repeat_n(b"x".to_vec(), 100);
            let body = Body::Stream(Box::new(Pieces(small.into_iter().chain(many).collect())));
            let stream = Coded::new(body, params(coding), Rc::default()).unwrap();
            let (out, flushes) = drain(stream).unwrap();
            assert_eq!(decode(coding, &out), [&b"DATA"[..], &[b'x'; 100]].concat());
            assert_eq!(flushes.len(), 2, "{coding:?}");
            assert!(flushes[0] > 0);
        }
    }
}
