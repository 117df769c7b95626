//! The file of an entry: a header with its checksum, then the body.
//!
//! The header has a line `KEY: …` as nginx's files have one: purge scripts look for it. A file counts only if the header
//! is whole by its checksum and the file is as long as the header says; what a killed process leaves behind is none.

use crate::digest::Digest;
pub use crate::limits::HEADER_BYTES_MAX;
use brisk_cachepolicy::Terms;
use brisk_cachepolicy::partial::Part;
use std::fmt;

/// The first bytes of every file; the last one is the version.
const MAGIC: [u8; 8] = *b"brisk\0c\x01";
/// Everything before the line with the key.
const FIXED_BYTES: usize = 192;
const KEY_LINE: &[u8] = b"\nKEY: ";
/// Room for a later head that is longer: then the body need not be copied.
const SPARE_BYTES: usize = 192;

/// What a key begins with if it is that of a HEAD, is otherwise like that of a GET, and is not to be answered with what a GET has
/// stored: the answer to a HEAD has no body, and none of them may be given for the other. No key that is made of a request (text, a
/// scheme, a host, a path) begins with this byte.
pub const OF_HEAD: &[u8] = b"\x01HEAD ";

/// What is known of an entry beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The key.
    pub key: Box<[u8]>,
    /// The answer's status.
    pub status: u16,
    /// What it may be used for, and how long.
    pub terms: Terms,
    /// When its request was sent, as a stamp of the cache: purges look at that.
    pub began: u64,
    /// Shared by the variants of a key; a purge of the key starts another.
    pub family: u64,
    /// The fields on which the answer varies, in lower case, separated by commas.
    pub vary: Box<[u8]>,
    /// Of the request that it answered.
    pub variant: Digest,
    /// What is there of the whole, if not all.
    pub part: Option<Part>,
    /// Separated by line feeds.
    pub tags: Box<[u8]>,
    /// The head as it is given out: a status line and fields, with line ends.
    pub head: Box<[u8]>,
}

impl Meta {
    /// The key as an operator writes it: what was stored for a HEAD belongs to the same page as what was stored for a GET.
    pub fn page_key(&self) -> &[u8] {
        self.key.strip_prefix(OF_HEAD).unwrap_or(&self.key)
    }
}

/// Why a file is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// It has other first bytes: another program's file, or another version's.
    Foreign,
    /// Its header is not what its checksum says, or the body is not.
    Damaged,
    /// It is shorter or longer than it says.
    Length,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FormatError::Foreign => "version mismatch",
            FormatError::Damaged => "is damaged",
            FormatError::Length => "is too small",
        })
    }
}

impl std::error::Error for FormatError {}

/// A header as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What stands in it.
    pub meta: Meta,
    /// Where the body begins.
    pub bytes: u32,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// CRC-32 of the body.
    pub body_crc: u32,
}

/// The bytes that [`header_bytes`] needs.
pub const PREFIX_BYTES: usize = 16;

/// How long the header is that begins so.
pub fn header_bytes(prefix: &[u8]) -> Result<usize, FormatError> {
    let prefix = prefix.get(..PREFIX_BYTES).ok_or(FormatError::Length)?;
    if prefix[..8] != MAGIC {
        return Err(FormatError::Foreign);
    }
    let bytes = u32::from_le_bytes([prefix[12], prefix[13], prefix[14], prefix[15]]) as usize;
    if (FIXED_BYTES..=HEADER_BYTES_MAX).contains(&bytes) { Ok(bytes) } else { Err(FormatError::Damaged) }
}

/// The header of a new file; `None` if it would be too long.
pub fn encode(meta: &Meta, body_bytes: u64, body_crc: u32) -> Option<Vec<u8>> {
    let bytes = needed(meta) + SPARE_BYTES;
    encode_in(meta, body_bytes, body_crc, bytes)
}

/// The header in exactly so many bytes, to take another one's place; `None` if it does not fit.
pub fn encode_in(meta: &Meta, body_bytes: u64, body_crc: u32, bytes: usize) -> Option<Vec<u8>> {
    if needed(meta) > bytes || bytes > HEADER_BYTES_MAX {
        return None;
    }
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(bytes as u32).to_le_bytes());
    out.extend_from_slice(&body_bytes.to_le_bytes());
    out.extend_from_slice(&body_crc.to_le_bytes());
    out.extend_from_slice(&meta.status.to_le_bytes());
    let terms = &meta.terms;
    let flags = u16::from(terms.must_revalidate)
        | u16::from(terms.no_cache) << 1
        | u16::from(terms.immutable) << 2
        | u16::from(meta.part.is_some()) << 3
        | u16::from(meta.part.is_some_and(|part| part.total.is_some())) << 4;
    out.extend_from_slice(&flags.to_le_bytes());
    let part = meta.part.unwrap_or(Part { start: 0, end: 0, total: None });
    for number in [
        meta.began,
        meta.family,
        terms.response_time as u64,
        terms.initial_age,
        terms.lifetime,
        terms.stale_while_revalidate,
        terms.stale_if_error,
        part.start,
        part.end,
        part.total.unwrap_or(0),
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&meta.variant.0);
    for length in [meta.key.len(), meta.vary.len(), meta.tags.len(), meta.head.len()] {
        out.extend_from_slice(&(length as u32).to_le_bytes());
    }
    out.resize(FIXED_BYTES, 0);
    out.extend_from_slice(KEY_LINE);
    out.extend_from_slice(&meta.key);
    out.push(b'\n');
    out.extend_from_slice(&meta.head);
    out.extend_from_slice(&meta.vary);
    out.extend_from_slice(&meta.tags);
    out.resize(bytes, 0);
    let crc = crc32fast::hash(&out[12..]);
    out[8..12].copy_from_slice(&crc.to_le_bytes());
    Some(out)
}

fn needed(meta: &Meta) -> usize {
    FIXED_BYTES + KEY_LINE.len() + meta.key.len() + 1 + meta.head.len() + meta.vary.len() + meta.tags.len()
}

/// Reads a whole header.
pub fn decode(header: &[u8]) -> Result<Header, FormatError> {
    let bytes = header_bytes(header)?;
    let header = header.get(..bytes).ok_or(FormatError::Length)?;
    let mut fixed = Fixed(&header[8..FIXED_BYTES]);
    if fixed.u32() != crc32fast::hash(&header[12..]) {
        return Err(FormatError::Damaged);
    }
    let _ = fixed.u32();
    let (body_bytes, body_crc) = (fixed.u64(), fixed.u32());
    let (status, flags) = (fixed.u16(), fixed.u16());
    let (began, family) = (fixed.u64(), fixed.u64());
    let terms = Terms {
        response_time: fixed.u64() as i64,
        initial_age: fixed.u64(),
        lifetime: fixed.u64(),
        stale_while_revalidate: fixed.u64(),
        stale_if_error: fixed.u64(),
        must_revalidate: flags & 1 != 0,
        no_cache: flags & 2 != 0,
        immutable: flags & 4 != 0,
    };
    let (start, end, total) = (fixed.u64(), fixed.u64(), fixed.u64());
    let total = (flags & 16 != 0).then_some(total);
    let part = (flags & 8 != 0).then_some(Part { start, end, total });
    let mut variant = Digest::default();
    variant.0.copy_from_slice(fixed.take(16));
    let lengths = [fixed.u32(), fixed.u32(), fixed.u32(), fixed.u32()].map(|length| length as usize);
    let mut rest = header[FIXED_BYTES..].strip_prefix(KEY_LINE).ok_or(FormatError::Damaged)?;
    let mut cut = |length: usize| -> Result<Box<[u8]>, FormatError> {
        let (text, tail) = rest.split_at_checked(length).ok_or(FormatError::Damaged)?;
        rest = tail;
        Ok(text.into())
    };
    let [key, vary, tags, head] = lengths;
    let key = cut(key)?;
    if *cut(1)? != *b"\n" {
        return Err(FormatError::Damaged);
    }
    let (head, vary, tags) = (cut(head)?, cut(vary)?, cut(tags)?);
    let meta = Meta { key, status, terms, began, family, vary, variant, part, tags, head };
    Ok(Header { meta, bytes: bytes as u32, body_bytes, body_crc })
}

/// Numbers of the fixed part, in order. It is long enough for all of them.
struct Fixed<'a>(&'a [u8]);

impl<'a> Fixed<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight bytes"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn meta(key: &[u8]) -> Meta {
        Meta {
            key: key.into(),
            status: 200,
            terms: Terms {
                response_time: 1_800_000_000,
                initial_age: 3,
                lifetime: 60,
                stale_while_revalidate: 4,
                stale_if_error: 5,
                must_revalidate: true,
                no_cache: false,
                immutable: true,
            },
            began: 1_800_000_000_123,
            family: 7,
            vary: b"accept-encoding,foo"[..].into(),
            variant: Digest::of(b"x"),
            part: Some(Part { start: 1, end: 3, total: Some(9) }),
            tags: b"a\nb"[..].into(),
            head: b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"[..].into(),
        }
    }

    #[test]
    fn headers_come_back() {
        let meta = meta(b"http://a/\nb");
        let bytes = encode(&meta, 1 << 40, 99).unwrap();
        assert!(bytes.windows(17).any(|w| w == b"\nKEY: http://a/\nb"));
        assert_eq!(header_bytes(&bytes), Ok(bytes.len()));
        let header = decode(&[&bytes[..], b"body"].concat()).unwrap();
        assert_eq!((header.bytes as usize, header.body_bytes, header.body_crc), (bytes.len(), 1 << 40, 99));
        assert_eq!(header.meta, meta);
        let longer = Meta { head: vec![b'x'; meta.head.len() + SPARE_BYTES].into(), ..meta.clone() };
        assert!(encode_in(&longer, 0, 0, bytes.len()).is_some());
        let too_long = Meta { head: vec![b'x'; meta.head.len() + SPARE_BYTES + 1].into(), ..meta };
        assert!(encode_in(&too_long, 0, 0, bytes.len()).is_none());
    }

    #[test]
    fn what_is_not_whole_is_none() {
        let bytes = encode(&meta(b"k"), 4, 5).unwrap();
        assert_eq!(decode(&bytes[..bytes.len() - 1]), Err(FormatError::Length));
        assert_eq!(decode(b""), Err(FormatError::Length));
        assert_eq!(decode(&[0; 300]), Err(FormatError::Foreign));
        for at in 8..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x40;
            assert!(decode(&broken).is_err(), "byte {at}");
        }
        let huge = Meta { head: vec![b'x'; HEADER_BYTES_MAX].into(), ..meta(b"k") };
        assert_eq!(encode(&huge, 0, 0), None);
    }

    proptest! {
        #[test]
        fn any_meta_comes_back(
            key in proptest::collection::vec(any::<u8>(), 0..60), status: u16, time: i64, numbers: [u64; 5],
            flags: [bool; 3], tags in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let [initial_age, lifetime, stale_while_revalidate, stale_if_error, began] = numbers;
            let terms = Terms {
                response_time: time, initial_age, lifetime, stale_while_revalidate, stale_if_error,
                must_revalidate: flags[0], no_cache: flags[1], immutable: flags[2],
            };
            let meta = Meta { status, terms, began, tags: tags.into(), part: None, ..meta(&key) };
            let bytes = encode(&meta, 5, 6).unwrap();
            prop_assert_eq!(decode(&bytes).unwrap().meta, meta);
        }
    }
}
