//! The server's side of a connection: the body of the present request, and how its response ends.

use super::body::{Body, BodyEvent};
use crate::chunked::ChunkError;
use crate::framing::BodyFraming;
use crate::head::{HeaderId, RequestHead, Version};
use crate::status::is_bodiless;

/// Why a body cannot be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingError {
    /// Its chunks are wrong.
    Chunk(ChunkError),
    /// Its chunks come to more than the limit.
    TooLarge {
        /// Bytes of data before the chunk that is too much.
        received: u64,
        /// Bytes of that chunk, as far as they are known.
        chunk: u64,
    },
}

/// The body of a request, while it is received.
#[derive(Clone, Debug)]
pub struct Incoming {
    body: Body,
    /// Bytes of data that chunks may come to; 0: any number.
    limit: u64,
    data: u64,
    received: u64,
    expects: bool,
}

impl Incoming {
    /// The body of the request with this head, from its start. A length was compared with the limit before; chunks are as they
    /// come.
    pub fn new(buf: &[u8], head: &RequestHead, framing: BodyFraming, limit: u64) -> Incoming {
        // RFC 9110 §10.1.1: ignored in HTTP/1.0 requests.
        let expects = head.version >= Version::Http11
            && head
                .find(HeaderId::Expect)
                .is_some_and(|field| field.value.of(buf).eq_ignore_ascii_case(b"100-continue"));
        let limit = if framing == BodyFraming::Chunked { limit } else { 0 };
        Incoming { body: Body::of_request(framing), limit, data: 0, received: 0, expects }
    }

    /// A body that was received already.
    pub fn spent() -> Incoming {
        Incoming { body: Body::Done, limit: 0, data: 0, received: 0, expects: false }
    }

    /// Whether all of it was received.
    pub fn is_done(&self) -> bool {
        self.body.is_done()
    }

    /// Whether the connection cannot be used for another request.
    pub fn is_broken(&self) -> bool {
        self.body.is_broken()
    }

    /// It will not be received as a whole.
    pub fn abandon(&mut self) {
        self.body = Body::Broken;
    }

    /// Bytes that were received, framing included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether the client waits for a `100 Continue` before it sends the body.
    pub fn expects(&self) -> bool {
        self.expects
    }

    /// True once, if a `100 Continue` is to be sent now, before the body is waited for.
    pub fn take_expectation(&mut self) -> bool {
        std::mem::take(&mut self.expects)
    }

    /// The client has begun to send, or the body is of no interest: its size is, too.
    pub fn ignore(&mut self, has_begun: bool) {
        self.expects &= !has_begun;
        self.limit = 0;
    }

    /// Appends the data of `input` to `out`; gives how much of `input` is done with. After an error it is broken.
    pub fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, IncomingError> {
        let mut at = 0;
        while at < input.len() && !self.body.is_done() {
            let (event, used) = self.body.next(&input[at..]).map_err(IncomingError::Chunk)?;
            let range = match event {
                BodyEvent::Data(range) => range,
                BodyEvent::NeedMore | BodyEvent::End => 0..0,
            };
            // As soon as a chunk's size is known: its data need not come to be too much.
            let chunk = range.len() as u64 + self.body.chunk_left();
            if self.limit > 0 && chunk > self.limit.saturating_sub(self.data) {
                let received = self.data;
                self.abandon();
                return Err(IncomingError::TooLarge { received, chunk });
            }
            self.data += range.len() as u64;
            self.expects &= range.is_empty();
            out.extend_from_slice(&input[at..][range]);
            at += used;
            if used == 0 {
                break;
            }
        }
        self.received += at as u64;
        Ok(at)
    }

    /// How much may be read straight into the body's own memory: [`Body::plain_room`].
    pub fn plain_room(&self) -> Option<u64> {
        self.body.plain_room()
    }

    /// So many bytes were read in that way.
    pub fn receive_plain(&mut self, count: u64) {
        self.received += count;
        self.body.received(count);
    }
}

/// How the end of a response's body is told (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiting {
    /// By `Content-Length`, or there is no body.
    Length,
    /// By the last chunk.
    Chunked,
    /// By closing the connection.
    Close,
}

/// What the framing of a response follows from.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// The version of the request.
    pub version: Version,
    /// It answers HEAD.
    pub to_head: bool,
    /// The final status.
    pub status: u16,
    /// The length of the body is known.
    pub has_length: bool,
    /// There is no body at all.
    pub is_empty: bool,
    /// It has trailers that cannot be left out.
    pub has_trailers: bool,
    /// Chunks are allowed (`chunked_transfer_encoding`).
    pub may_chunk: bool,
}

impl Response {
    /// How its end is told.
    pub fn delimiting(self) -> Delimiting {
        if self.to_head || is_bodiless(self.status) {
            return Delimiting::Length;
        }
        let can_chunk = self.version >= Version::Http11 && self.may_chunk;
        if can_chunk && self.has_trailers {
            return Delimiting::Chunked;
        }
        match () {
            () if self.has_length || self.is_empty => Delimiting::Length,
            () if can_chunk => Delimiting::Chunked,
            () => Delimiting::Close,
        }
    }
}
