//! The request streams of a connection, found by their numbers.

use crate::frame::Gather;
use crate::qpack::Prefix;
use brisk_mux::Priority;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What may come on a stream next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receive {
    /// A head: a request's, or a response's that is not interim.
    Head,
    /// DATA, or trailers. What `Content-Length` says is still to come.
    Body(Option<u64>),
    /// Nothing but DATA (RFC 9114 §4.4).
    Tunnel,
    /// Nothing but frames of unknown types: trailers have come.
    Ended,
    /// Nothing is looked at any more: the peer has said all, or is not wanted to.
    Closed,
}

/// Where in its frames a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Before a frame, or in its head.
    Head,
    /// In DATA: so many bytes are left.
    Data(u64),
    /// In a field section: so many bytes are left.
    Section(usize),
    /// Behind a field section that waits for insertions (RFC 9204 §2.1.2).
    /// What it needs is kept: later insertions would change what its bytes mean.
    Blocked(Prefix),
    /// In a frame of an unknown type.
    Skip(u64),
}

/// One request's stream. What `T` is, the caller knows.
#[derive(Debug)]
pub(crate) struct Stream<T> {
    pub receive: Receive,
    /// We may still send.
    pub sends: bool,
    pub part: Part,
    /// The head of a frame that comes in pieces.
    pub head: Gather,
    /// A field section that comes in pieces, or waits.
    pub section: Vec<u8>,
    /// What the peer has said of it, and whether by PRIORITY_UPDATE, which overrides the field (RFC 9218 §7).
    pub priority: Priority,
    pub is_updated: bool,
    pub data: T,
}

/// Numbers of streams are given by QUIC one after the other: they need no mixing against a peer that chooses them.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        // The two lowest bits are the stream's kind; the table uses high bits as well.
        self.0 = (number >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Streams by number.
pub(crate) type Streams<T> = HashMap<u64, Stream<T>, BuildHasherDefault<NumberHasher>>;
