//! Decoding header blocks.

use super::table::{STATIC, Table};
use super::{Checks, Field, FieldSink, Limits, huffman};
use brisk_mux::integer::{self, IntegerError};
use brisk_mux::{Budget, LimitError};
use std::fmt;

/// Why a block cannot be decoded. All but the limits are compression errors, and each ends the connection: its tables
/// are out of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends in a field.
    Truncated,
    /// An integer beyond reason.
    Integer,
    /// An index that no table has.
    Index,
    /// A Huffman code that there is not.
    Huffman,
    /// A table larger than we allow.
    TableSize,
    /// A table's size is changed behind a field.
    LateSizeUpdate,
    /// Our smaller table was not acknowledged in the block (RFC 7541 §4.2).
    MissingSizeUpdate,
    /// A field without a name.
    EmptyName,
    /// A limit: one field is too large, or all together, or there are too many.
    Limit(LimitError),
}

impl HpackError {
    /// True if the peer asks for more than we are willing to take.
    pub fn is_limit(self) -> bool {
        matches!(self, HpackError::Limit(_))
    }
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HpackError::Truncated => "header block with incorrect length",
            HpackError::Integer => "header block with too long value",
            HpackError::Index => "invalid hpack table index",
            HpackError::Huffman => "invalid encoded header field",
            HpackError::TableSize => "invalid table size update",
            HpackError::LateSizeUpdate => "table size update in the middle of a header block",
            HpackError::MissingSizeUpdate => "header block without the table size update that was due",
            HpackError::EmptyName => "zero header name length",
            HpackError::Limit(limit) => return limit.fmt(f),
        })
    }
}

impl std::error::Error for HpackError {}

impl From<LimitError> for HpackError {
    fn from(limit: LimitError) -> HpackError {
        HpackError::Limit(limit)
    }
}

impl From<IntegerError> for HpackError {
    fn from(error: IntegerError) -> HpackError {
        match error {
            IntegerError::Truncated => HpackError::Truncated,
            IntegerError::TooLarge => HpackError::Integer,
        }
    }
}

/// The decoding side's state of a connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What we have announced as SETTINGS_HEADER_TABLE_SIZE and the peer has acknowledged.
    size_max: usize,
    /// The peer's table is larger than we now allow: the next block must begin with a size update.
    update_due: bool,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Whose string is being read.
enum Name<'a> {
    /// An entry's, with its tag and checks.
    Static(usize),
    Dynamic(usize),
    Literal(&'a [u8], bool),
}

impl Decoder {
    /// A decoder whose table may have `size_max` bytes (RFC 7541 §4.1 says which count).
    pub fn new(size_max: usize) -> Decoder {
        Decoder {
            table: Table::new(size_max),
            size_max,
            update_due: false,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// The peer has acknowledged another limit of ours.
    pub fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.update_due |= self.table.size_max() > size_max;
    }

    /// Bytes of memory besides its own.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.name.capacity() + self.value.capacity()
    }

    /// The size of its table as RFC 7541 §4.1 counts it.
    pub fn table_size(&self) -> usize {
        self.table.size()
    }

    /// Gives scratch memory back: for a connection that has nothing to do.
    pub fn trim(&mut self) {
        self.name = Vec::new();
        self.value = Vec::new();
    }

    /// Decodes a whole block.
    pub fn decode<S: FieldSink>(
        &mut self,
        block: &[u8],
        limits: Limits,
        sink: &mut S,
    ) -> Result<(), HpackError> {
        let mut budget = Budget::new(limits);
        let mut rest = self.size_updates(block)?;
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let (index, tail) = integer::decode(rest, 7)?;
                rest = tail;
                self.indexed(index as usize, &mut budget, sink)?;
                continue;
            }
            // RFC 7541 §6.2: with incremental indexing, without indexing, never indexed.
            let (prefix, add, sensitive) = match first >> 4 {
                4..=7 => (6, true, false),
                1 => (4, false, true),
                0 => (4, false, false),
                // §4.2: size updates stand at the beginning.
                _ => return Err(HpackError::LateSizeUpdate),
            };
            rest = self.literal(rest, prefix, add, sensitive, &mut budget, sink)?;
        }
        Ok(())
    }

    /// RFC 7541 §6.3; at most two of them make sense.
    fn size_updates<'a>(&mut self, mut block: &'a [u8]) -> Result<&'a [u8], HpackError> {
        while let Some(&first) = block.first()
            && first >> 5 == 1
        {
            let (size, rest) = integer::decode(block, 5)?;
            if size as usize > self.size_max {
                return Err(HpackError::TableSize);
            }
            self.table.resize(size as usize);
            self.update_due = false;
            block = rest;
        }
        if self.update_due && !block.is_empty() {
            return Err(HpackError::MissingSizeUpdate);
        }
        Ok(block)
    }

    #[inline]
    fn indexed<S: FieldSink>(
        &mut self,
        index: usize,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<(), HpackError> {
        let field = if (1..=STATIC.len()).contains(&index) {
            let (name, value) = STATIC[index - 1];
            Field {
                name,
                value,
                tag: sink.static_tag(index, name),
                checks: static_checks(index),
                sensitive: false,
            }
        } else {
            let at = index.checked_sub(STATIC.len() + 1).ok_or(HpackError::Index)?;
            let (name, value, entry) = self.table.get(at).ok_or(HpackError::Index)?;
            Field { name, value, tag: entry.tag, checks: Checks(entry.checks), sensitive: false }
        };
        budget.take(field.name.len(), field.value.len())?;
        sink.field(field);
        Ok(())
    }

    fn literal<'a, S: FieldSink>(
        &mut self,
        src: &'a [u8],
        prefix: u32,
        add: bool,
        sensitive: bool,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<&'a [u8], HpackError> {
        let (index, mut rest) = integer::decode(src, prefix)?;
        let index = index as usize;
        let name = if index == 0 {
            let (bytes, coded, tail) = string(rest, budget.limits.string_bytes_max)?;
            rest = tail;
            Name::Literal(bytes, coded)
        } else if index <= STATIC.len() {
            Name::Static(index)
        } else {
            Name::Dynamic(index - STATIC.len() - 1)
        };
        let (bytes, coded, rest) = string(rest, budget.limits.string_bytes_max)?;
        let (name_tag, name_checks) = self.take_name(name, budget.limits.long_padding, sink)?;
        let value: &[u8] = if coded {
            self.value.clear();
            let long = budget.limits.long_padding;
            huffman::decode_padded(bytes, long, &mut self.value).map_err(|_| HpackError::Huffman)?;
            &self.value
        } else {
            bytes
        };
        budget.take(self.name.len(), value.len())?;
        let checks = Checks(name_checks.0 | Checks::of_value(value).0);
        if add {
            self.table.insert(&self.name, value, name_tag, checks.0);
        }
        sink.field(Field { name: &self.name, value, tag: name_tag, checks, sensitive });
        Ok(rest)
    }

    /// Puts the name into `self.name`: what is inserted may evict the entry whose name it is (RFC 7541 §4.4).
    fn take_name<S: FieldSink>(
        &mut self,
        name: Name<'_>,
        long_padding: bool,
        sink: &mut S,
    ) -> Result<(u8, Checks), HpackError> {
        self.name.clear();
        match name {
            Name::Static(index) => {
                self.name.extend_from_slice(STATIC[index - 1].0);
                Ok((sink.static_tag(index, STATIC[index - 1].0), static_checks(index)))
            }
            Name::Dynamic(at) => {
                let (name, _, entry) = self.table.get(at).ok_or(HpackError::Index)?;
                self.name.extend_from_slice(name);
                Ok((entry.tag, Checks(entry.checks).of_name_only()))
            }
            Name::Literal(bytes, coded) => {
                if coded {
                    huffman::decode_padded(bytes, long_padding, &mut self.name)
                        .map_err(|_| HpackError::Huffman)?;
                } else {
                    self.name.extend_from_slice(bytes);
                }
                if self.name.is_empty() {
                    return Err(HpackError::EmptyName);
                }
                Ok((sink.tag(&self.name), Checks::of_name(&self.name)))
            }
        }
    }
}

#[inline]
fn static_checks(index: usize) -> Checks {
    // The pseudo headers are the first seven and the statuses behind them.
    if index <= 14 { Checks::PSEUDO } else { Checks::default() }
}

/// A string literal (RFC 7541 §5.2): its bytes as sent, whether they are coded, and what follows.
fn string(src: &[u8], max: usize) -> Result<(&[u8], bool, &[u8]), HpackError> {
    let coded = src.first().ok_or(HpackError::Truncated)? & 0x80 != 0;
    let (len, rest) = integer::decode(src, 7)?;
    let len = len as usize;
    if len > max {
        return Err(HpackError::Limit(LimitError::String));
    }
    let (bytes, rest) = rest.split_at_checked(len).ok_or(HpackError::Truncated)?;
    Ok((bytes, coded, rest))
}
