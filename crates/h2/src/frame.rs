//! Frames as bytes (RFC 9113 §4, §6).

use crate::error::ErrorCode;
pub use crate::limits::{PAYLOAD_BYTES_MAX, WINDOW_MAX};

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 9;
/// The smallest and usual limit of a frame's payload (RFC 9113 §4.2).
pub const PAYLOAD_BYTES_DEFAULT: u32 = 1 << 14;
/// The window of connections and streams before anything is said (RFC 9113 §6.9.2).
pub const WINDOW_DEFAULT: u32 = 65_535;

/// Frame types; others are ignored (RFC 9113 §4.1).
pub mod kind {
    /// Part of a body (RFC 9113 §6.1).
    pub const DATA: u8 = 0;
    /// The beginning of a header block (§6.2).
    pub const HEADERS: u8 = 1;
    /// A priority of the old kind, which is ignored (§6.3).
    pub const PRIORITY: u8 = 2;
    /// The end of a stream at once (§6.4).
    pub const RST_STREAM: u8 = 3;
    /// Settings, or their acknowledgement (§6.5).
    pub const SETTINGS: u8 = 4;
    /// A request that a server makes itself (§6.6).
    pub const PUSH_PROMISE: u8 = 5;
    /// A question whether the peer is there, or its answer (§6.7).
    pub const PING: u8 = 6;
    /// No further stream is begun (§6.8).
    pub const GOAWAY: u8 = 7;
    /// More may be sent (§6.9).
    pub const WINDOW_UPDATE: u8 = 8;
    /// The next part of a header block (§6.10).
    pub const CONTINUATION: u8 = 9;
    /// RFC 9218 §7.1.
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Frame flags.
pub mod flag {
    /// DATA, HEADERS: the sender's side of the stream ends.
    pub const END_STREAM: u8 = 0x1;
    /// SETTINGS, PING: an answer.
    pub const ACK: u8 = 0x1;
    /// HEADERS, CONTINUATION: the header block is complete.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS: padding follows the content.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: a priority of the old kind comes first.
    pub const PRIORITY: u8 = 0x20;
}

/// A frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload.
    pub len: u32,
    /// Its type, one of [`kind`].
    pub kind: u8,
    /// Bits of [`flag`]; others are ignored.
    pub flags: u8,
    /// The stream; 0: the connection.
    pub stream: u32,
}

impl FrameHead {
    /// The head at the beginning of `input`, if it is there as a whole.
    #[inline]
    pub fn parse(input: &[u8]) -> Option<FrameHead> {
        let head: &[u8; HEAD_BYTES] = input.first_chunk()?;
        Some(FrameHead {
            len: u32::from_be_bytes([0, head[0], head[1], head[2]]),
            kind: head[3],
            flags: head[4],
            // The reserved bit is ignored (RFC 9113 §4.1).
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & WINDOW_MAX,
        })
    }

    /// Whether a flag of [`flag`] is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame's head.
#[inline]
pub fn write_head(len: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    debug_assert!(len <= PAYLOAD_BYTES_MAX as usize);
    let (len, stream) = ((len as u32).to_be_bytes(), stream.to_be_bytes());
    let id = [stream[0], stream[1], stream[2], stream[3]];
    out.extend_from_slice(&[len[1], len[2], len[3], kind, flags, id[0], id[1], id[2], id[3]]);
}

/// Appends RST_STREAM.
pub fn write_rst_stream(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    write_head(4, kind::RST_STREAM, 0, stream, out);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE; `increment` is from 1 to 2³¹ − 1, `stream` 0 for the connection.
pub fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    debug_assert!((1..=WINDOW_MAX).contains(&increment));
    write_head(4, kind::WINDOW_UPDATE, 0, stream, out);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends GOAWAY: streams above `last_stream` were not looked at. `text` is for people who look at the
/// connection.
pub fn write_goaway(last_stream: u32, code: ErrorCode, text: &[u8], out: &mut Vec<u8>) {
    write_head(8 + text.len(), kind::GOAWAY, 0, 0, out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(text);
}

/// Appends PING, or the answer to one.
pub fn write_ping(payload: [u8; 8], is_ack: bool, out: &mut Vec<u8>) {
    write_head(8, kind::PING, if is_ack { flag::ACK } else { 0 }, 0, out);
    out.extend_from_slice(&payload);
}

/// Appends the acknowledgement of SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write_head(0, kind::SETTINGS, flag::ACK, 0, out);
}

/// Appends a header block as HEADERS and as many CONTINUATION frames as it needs.
pub fn write_headers(stream: u32, block: &[u8], end_stream: bool, payload_max: u32, out: &mut Vec<u8>) {
    let max = payload_max as usize;
    let (first, mut rest) = block.split_at(block.len().min(max));
    let end = if end_stream { flag::END_STREAM } else { 0 };
    let last = |rest: &[u8]| if rest.is_empty() { flag::END_HEADERS } else { 0 };
    write_head(first.len(), kind::HEADERS, end | last(rest), stream, out);
    out.extend_from_slice(first);
    while !rest.is_empty() {
        let (part, tail) = rest.split_at(rest.len().min(max));
        rest = tail;
        write_head(part.len(), kind::CONTINUATION, last(rest), stream, out);
        out.extend_from_slice(part);
    }
}

/// The 32 bits at the beginning.
#[inline]
pub(crate) fn u32_of(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The payload without padding; `None` if that is more than there is (RFC 9113 §6.1).
pub(crate) fn unpadded(head: FrameHead, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(flag::PADDED) {
        return Some(payload);
    }
    let (&padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(padding))?)
}
