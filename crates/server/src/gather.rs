//! Bodies that are made while they are sent, and might as well be made at once: what needs no waiting is collected
//! before the head is written, so that the response has a length and leaves in one write.

use crate::response::{Body, BodyStream, Chunk, Piece};
use brisk_net::Failure;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// Pulls `stream` until it ends, must wait or has given `bytes_max` bytes. A body that came to its end is whole, and
/// one piece if all of it is in memory.
/// `bytes_max` bounds what is collected before a byte leaves. Without it a page of many parts would be in
/// memory as a whole.
pub fn at_once(mut stream: Box<dyn BodyStream>, bytes_max: u64) -> Body {
    let mut cx = Context::from_waker(Waker::noop());
    let mut pieces = VecDeque::new();
    let mut bytes = 0;
    let last = loop {
        // Asked before the next pull, so at most one piece goes beyond the bound.
        // The rest stays a stream: the head is written without a length.
        if bytes > bytes_max {
            break None;
        }
        match stream.poll_chunk(&mut cx) {
            Poll::Ready(Some(Ok(Chunk::Piece(piece)))) => {
                bytes += piece.len();
                // Empty pieces would become empty chunks, which end a body (RFC 9112 §7.1).
                if !piece.is_empty() {
                    pieces.push_back(piece);
                }
            }
            Poll::Ready(None) => return whole(pieces.into(), bytes),
            // A flush or an error behind the pieces: both keep their place.
            Poll::Ready(last) => break last,
            // The next pull gives a waker of its own.
            Poll::Pending => break None,
        }
    };
    Body::Stream(Box::new(Resumed { pieces, last, stream }))
}

/// A stream behind pieces that were pulled from it before.
pub fn behind(pieces: Vec<Piece>, stream: Box<dyn BodyStream>) -> Body {
    Body::Stream(Box::new(Resumed { pieces: pieces.into(), last: None, stream }))
}

fn whole(mut pieces: Vec<Piece>, bytes: u64) -> Body {
    match pieces.len() {
        0 => Body::Empty,
        1 => Body::One(pieces.remove(0)),
        // In one piece it can be copied behind its head and leave in one write.
        _ if pieces.iter().all(|piece| matches!(piece, Piece::Bytes(_)) || piece.in_memory().is_some()) => {
            let mut text = Vec::with_capacity(bytes as usize);
            pieces.iter().filter_map(Piece::in_memory).for_each(|part| text.extend_from_slice(part));
            Body::bytes(text)
        }
        _ => Body::Many(pieces),
    }
}

/// What a stream has given already, then the rest of it.
struct Resumed {
    pieces: VecDeque<Piece>,
    /// A flush or an error behind the pieces.
    last: Option<Result<Chunk, Failure>>,
    stream: Box<dyn BodyStream>,
}

impl BodyStream for Resumed {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(Chunk::Piece(piece))));
        }
        match self.last.take() {
            Some(last) => Poll::Ready(Some(last)),
            None => self.stream.poll_chunk(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its chunks; `None` stands for waiting.
    struct Script(VecDeque<Option<Result<Chunk, Failure>>>);

    impl BodyStream for Script {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
            match self.0.pop_front() {
                Some(Some(chunk)) => Poll::Ready(Some(chunk)),
                Some(None) => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn text(text: &'static str) -> Option<Result<Chunk, Failure>> {
        Some(Ok(Chunk::Piece(Piece::Bytes(text.into()))))
    }

    fn gather(script: Vec<Option<Result<Chunk, Failure>>>) -> Body {
        at_once(Box::new(Script(script.into())), 10)
    }

    fn rest(body: Body) -> String {
        let Body::Stream(mut stream) = body else { return "whole".into() };
        let mut cx = Context::from_waker(Waker::noop());
        let mut out = String::new();
        loop {
            match stream.poll_chunk(&mut cx) {
                Poll::Ready(Some(Ok(Chunk::Piece(piece)))) => {
                    out.push_str(std::str::from_utf8(piece.in_memory().unwrap()).unwrap());
                }
                Poll::Ready(Some(Ok(Chunk::Flush))) => out.push('|'),
                Poll::Ready(Some(Err(_))) => out.push('!'),
                Poll::Ready(None) => return out,
                Poll::Pending => out.push('~'),
            }
        }
    }

    #[test]
    fn what_is_ready_becomes_one_piece() {
        assert!(matches!(gather(vec![]), Body::Empty));
        let body = gather(vec![text("ab"), text(""), text("c")]);
        assert!(matches!(body, Body::One(piece) if piece.in_memory() == Some(b"abc")));
    }

    #[test]
    fn what_is_not_goes_on_where_it_stopped() {
        assert_eq!(rest(gather(vec![text("ab"), None, text("c")])), "abc");
        assert_eq!(rest(gather(vec![text("ab"), Some(Ok(Chunk::Flush)), None, text("c")])), "ab|~c");
        assert_eq!(rest(gather(vec![text("0123456789"), text("a"), text("b")])), "0123456789ab");
        assert_eq!(rest(gather(vec![text("a"), Some(Err(Failure::reported()))])), "a!");
    }
}
