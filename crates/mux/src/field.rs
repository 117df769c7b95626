//! Decoded fields, who takes them, and what they may come to.

use crate::check::Checks;
use std::fmt;

/// One decoded field. Its bytes are the decoder's: what is to be kept must be copied.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// In the spelling that was sent.
    pub name: &'a [u8],
    /// Any bytes; see `checks`.
    pub value: &'a [u8],
    /// What [`FieldSink::tag`] gave for the name.
    pub tag: u8,
    /// What is odd or wrong about name and value.
    pub checks: Checks,
    /// A literal that must never be indexed (RFC 7541 §7.1.3, RFC 9204 §7.1.3): it must be passed on as one.
    pub sensitive: bool,
}

/// Takes the fields of a head.
pub trait FieldSink {
    /// A number for a field's name. It is asked for once per literal name; entries of the tables keep it.
    fn tag(&mut self, name: &[u8]) -> u8;

    /// The same for an entry of the static table of the coding that is decoded, by the index that its RFC gives it.
    #[inline]
    fn static_tag(&mut self, index: usize, name: &[u8]) -> u8 {
        let _ = index;
        self.tag(name)
    }

    /// The next field; it is within the limits.
    fn field(&mut self, field: Field<'_>);
}

/// What a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// A request's head.
    Request,
    /// Interim ones too.
    Response,
    /// Fields behind a body (RFC 9113 §8.1, RFC 9114 §4.1).
    Trailers,
}

/// Takes the heads of a connection's streams.
pub trait HeadSink: FieldSink {
    /// Fields of this head follow.
    fn begin(&mut self, stream: u64, kind: HeadKind);

    /// After a response's fields: its status is 1xx, and another head follows on the stream.
    fn is_interim(&self) -> bool {
        false
    }
}

/// Takes no field: for blocks that are decoded only because the tables must stay in step. What comes into the tables is tagged as
/// the sink would have it, because blocks of other streams refer to it.
#[derive(Debug)]
pub struct Discard<'a, S>(pub &'a mut S);

impl<S: FieldSink> FieldSink for Discard<'_, S> {
    fn tag(&mut self, name: &[u8]) -> u8 {
        self.0.tag(name)
    }

    fn static_tag(&mut self, index: usize, name: &[u8]) -> u8 {
        self.0.static_tag(index, name)
    }

    fn field(&mut self, _: Field<'_>) {}
}

/// What a head may come to. Fields are counted before anything of them is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLimits {
    /// Bytes of a name or value, as they are sent.
    pub string_bytes_max: usize,
    /// Bytes of all names and values together.
    pub list_bytes_max: usize,
    /// Fields, cookie crumbs too.
    pub fields_max: usize,
    /// Against RFC 7541 §5.2, Huffman codes may be padded with a whole byte: nginx takes such from its back ends.
    pub long_padding: bool,
}

impl FieldLimits {
    /// Bytes of a block: no coding needs more than 30 bits for a byte, and no field more than a few bytes besides.
    pub fn block_bytes_max(&self) -> usize {
        self.list_bytes_max.saturating_mul(4).saturating_add(1024)
    }
}

impl Default for FieldLimits {
    fn default() -> FieldLimits {
        FieldLimits {
            string_bytes_max: 8 << 10,
            list_bytes_max: 32 << 10,
            fields_max: 2048,
            long_padding: false,
        }
    }
}

/// The limit that a head has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// One name or value is too large.
    String,
    /// All fields together are too large.
    List,
    /// There are too many fields.
    Fields,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LimitError::String => "too large header field",
            LimitError::List => "too large header",
            LimitError::Fields => "too many header fields",
        })
    }
}

impl std::error::Error for LimitError {}

/// What counts of a head so far.
#[derive(Debug)]
pub struct Budget {
    /// What it may come to.
    pub limits: FieldLimits,
    bytes: usize,
    fields: usize,
}

impl Budget {
    /// Nothing was taken yet.
    pub fn new(limits: FieldLimits) -> Budget {
        Budget { limits, bytes: 0, fields: 0 }
    }

    /// Counts a field; `name` and `value` are bytes. An indexed field counts as what it stands for: a byte of a block may stand
    /// for a whole entry.
    #[inline]
    pub fn take(&mut self, name: usize, value: usize) -> Result<(), LimitError> {
        self.bytes += name + value;
        self.fields += 1;
        if self.bytes > self.limits.list_bytes_max {
            return Err(LimitError::List);
        }
        if self.fields > self.limits.fields_max { Err(LimitError::Fields) } else { Ok(()) }
    }
}
