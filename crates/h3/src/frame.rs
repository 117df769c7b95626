//! Frames and the types of unidirectional streams (RFC 9114 §6.2, §7).

use crate::varint;

/// Types of frames (RFC 9114 §11.2.1, RFC 9218 §7.2).
pub mod kind {
    /// A piece of a body.
    pub const DATA: u64 = 0x0;
    /// A field section.
    pub const HEADERS: u64 = 0x1;
    /// A push is not wanted, or does not come.
    pub const CANCEL_PUSH: u64 = 0x3;
    /// What holds for the connection.
    pub const SETTINGS: u64 = 0x4;
    /// A request that the server makes up.
    pub const PUSH_PROMISE: u64 = 0x5;
    /// The peer goes away.
    pub const GOAWAY: u64 = 0x7;
    /// How many pushes there may be.
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// Another priority of a request.
    pub const PRIORITY_UPDATE: u64 = 0xf0700;
    /// Another priority of a push.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;
}

/// Types of unidirectional streams (RFC 9114 §11.2.4, RFC 9204 §8.2).
pub mod stream_kind {
    /// SETTINGS and what concerns the connection.
    pub const CONTROL: u64 = 0;
    /// A pushed answer.
    pub const PUSH: u64 = 1;
    /// Instructions of QPACK's encoder.
    pub const ENCODER: u64 = 2;
    /// Instructions of QPACK's decoder.
    pub const DECODER: u64 = 3;
}

/// The most bytes that type and length of a frame take.
pub const HEAD_BYTES_LONGEST: usize = 2 * varint::BYTES;

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// One of [`kind`], or an unknown one.
    pub kind: u64,
    /// Bytes of payload.
    pub len: u64,
}

impl FrameHead {
    /// Reads one from the beginning; gives it and its length. `None`: there is not enough.
    #[inline]
    pub fn parse(src: &[u8]) -> Option<(FrameHead, usize)> {
        let (kind, first) = varint::decode(src)?;
        let (len, second) = varint::decode(&src[first..])?;
        Some((FrameHead { kind, len }, first + second))
    }
}

/// Appends what a frame begins with.
#[inline]
pub fn write_head(kind: u64, len: u64, out: &mut Vec<u8>) {
    varint::encode(kind, out);
    varint::encode(len, out);
}

/// Bytes of [`write_head`].
#[inline]
pub fn head_len(kind: u64, len: u64) -> usize {
    varint::len(kind) + varint::len(len)
}

/// Appends a whole frame.
pub fn write(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    write_head(kind, payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// Appends a frame that holds one integer.
pub fn write_integer(kind: u64, value: u64, out: &mut Vec<u8>) {
    write_head(kind, varint::len(value) as u64, out);
    varint::encode(value, out);
}

/// Types that HTTP/2 had and HTTP/3 has not: a peer that sends them mistakes one for the other (RFC 9114 §7.2.8).
pub fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// The reserved type or setting of this number (RFC 9114 §7.2.8): without meaning, so that peers learn to ignore what they do not
/// know.
pub fn reserved(number: u64) -> u64 {
    0x1f * (number % (varint::INTEGER_MAX / 0x1f - 2)) + 0x21
}

/// Puts together what comes in pieces of a few bytes: the head of a frame, or a stream's type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gather {
    bytes: [u8; HEAD_BYTES_LONGEST],
    len: u8,
}

impl Gather {
    /// Whether part of it has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.len > 0
    }

    /// Takes as much of the input as `parse` needs; `None`: all was taken, and it is not enough.
    #[inline]
    pub(crate) fn take<R>(
        &mut self,
        input: &mut &[u8],
        parse: impl Fn(&[u8]) -> Option<(R, usize)>,
    ) -> Option<R> {
        if self.len == 0
            && let Some((found, used)) = parse(input)
        {
            *input = &input[used..];
            return Some(found);
        }
        while let Some((&byte, rest)) = input.split_first() {
            self.bytes[usize::from(self.len)] = byte;
            self.len += 1;
            *input = rest;
            if let Some((found, _)) = parse(&self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some(found);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_in_pieces() {
        let mut bytes = Vec::new();
        write_head(kind::PRIORITY_UPDATE, 1 << 40, &mut bytes);
        assert_eq!(bytes.len(), head_len(kind::PRIORITY_UPDATE, 1 << 40));
        bytes.push(7);
        for step in 1..=bytes.len() {
            let (mut gather, mut found) = (Gather::default(), None);
            let mut left = bytes.len();
            for piece in bytes.chunks(step) {
                let mut input = piece;
                if found.is_none() {
                    found = gather.take(&mut input, FrameHead::parse);
                    left -= piece.len() - input.len();
                }
            }
            assert_eq!(found, Some(FrameHead { kind: kind::PRIORITY_UPDATE, len: 1 << 40 }));
            assert_eq!(left, 1, "not a byte behind it is taken");
            assert!(!gather.has_begun());
        }
    }

    #[test]
    fn reserved_types() {
        for number in [0, 1, 1000, u64::MAX] {
            let kind = reserved(number);
            assert!(kind <= varint::INTEGER_MAX && (kind - 0x21).is_multiple_of(0x1f));
        }
    }
}
