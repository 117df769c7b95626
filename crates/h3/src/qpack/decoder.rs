//! Decoding: the instructions of the peer's encoder, which fill the dynamic table, and field sections.

use super::table::STATIC;
use crate::error::ErrorCode;
use brisk_mux::integer::{self, IntegerError};
use brisk_mux::table::{ENTRY_OVERHEAD, Table};
use brisk_mux::{Budget, Checks, Field, FieldLimits, FieldSink, LimitError, huffman};
use std::fmt;

/// What is wrong with what the peer's QPACK says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpackError {
    /// A field section cannot be decoded: the connection ends.
    Section(&'static str),
    /// An instruction of the peer's encoder is wrong: the connection ends.
    EncoderStream(&'static str),
    /// An instruction of the peer's decoder is wrong: the connection ends.
    DecoderStream(&'static str),
    /// A head is larger than it may be. Its stream alone is concerned: sections do not change the table.
    Limit(LimitError),
}

impl QpackError {
    /// The code for the peer.
    pub fn code(self) -> ErrorCode {
        match self {
            QpackError::Section(_) => ErrorCode::QPACK_DECOMPRESSION_FAILED,
            QpackError::EncoderStream(_) => ErrorCode::QPACK_ENCODER_STREAM_ERROR,
            QpackError::DecoderStream(_) => ErrorCode::QPACK_DECODER_STREAM_ERROR,
            QpackError::Limit(_) => ErrorCode::EXCESSIVE_LOAD,
        }
    }
}

impl fmt::Display for QpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QpackError::Section(text) => write!(f, "field section with {text}"),
            QpackError::EncoderStream(text) | QpackError::DecoderStream(text) => {
                write!(f, "QPACK instruction with {text}")
            }
            QpackError::Limit(limit) => limit.fmt(f),
        }
    }
}

impl std::error::Error for QpackError {}

impl From<LimitError> for QpackError {
    fn from(limit: LimitError) -> QpackError {
        QpackError::Limit(limit)
    }
}

impl From<IntegerError> for QpackError {
    /// In a field section, which is there as a whole.
    fn from(error: IntegerError) -> QpackError {
        QpackError::Section(match error {
            IntegerError::Truncated => "incorrect length",
            IntegerError::TooLarge => "too long value",
        })
    }
}

/// What a field section begins with (RFC 9204 §4.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// So many insertions must have come before it can be decoded.
    pub required: u64,
    /// What its relative indexes count from.
    base: u64,
    /// Bytes of the prefix.
    len: usize,
}

/// The decoding side's state of a connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Insertions so far: the absolute index of the next entry (§3.2.4).
    inserts: u64,
    /// What we have announced.
    capacity_max: usize,
    /// Insertions that the peer knows to have come (§2.1.4).
    acknowledged: u64,
    /// Bytes that insertions have copied: work that the peer has made us do.
    copied: u64,
    /// An instruction that has not come as a whole.
    partial: Vec<u8>,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// One instruction of the peer's encoder (§4.3), with the bytes behind it.
enum Instruction<'a> {
    Capacity(usize),
    /// `name` is an index of the static table.
    StaticName(usize, Text<'a>),
    /// `name` is relative to the newest entry.
    DynamicName(usize, Text<'a>),
    Literal(Text<'a>, Text<'a>),
    Duplicate(usize),
}

/// A string literal as it was sent (§4.1.2).
#[derive(Clone, Copy)]
struct Text<'a> {
    bytes: &'a [u8],
    coded: bool,
}

impl Text<'_> {
    /// Puts what it means into `out`, which is emptied first.
    fn read(self, out: &mut Vec<u8>) -> Result<(), huffman::Invalid> {
        out.clear();
        if self.coded {
            return huffman::decode(self.bytes, out);
        }
        out.extend_from_slice(self.bytes);
        Ok(())
    }
}

/// Why a string could not be taken.
enum TextError {
    Integer(IntegerError),
    TooLarge,
}

/// A string whose length has `prefix` bits, with the bit above them for the Huffman code; and what follows. Its length is looked
/// at before it is waited for.
fn text(src: &[u8], prefix: u32, max: usize) -> Result<(Text<'_>, &[u8]), TextError> {
    let first = *src.first().ok_or(TextError::Integer(IntegerError::Truncated))?;
    let (len, rest) = integer::decode(src, prefix).map_err(TextError::Integer)?;
    if len as usize > max {
        return Err(TextError::TooLarge);
    }
    let truncated = TextError::Integer(IntegerError::Truncated);
    let (bytes, rest) = rest.split_at_checked(len as usize).ok_or(truncated)?;
    Ok((Text { bytes, coded: first & 1 << prefix != 0 }, rest))
}

fn section_text(src: &[u8], prefix: u32, limits: FieldLimits) -> Result<(Text<'_>, &[u8]), QpackError> {
    text(src, prefix, limits.string_bytes_max).map_err(|error| match error {
        TextError::Integer(error) => error.into(),
        TextError::TooLarge => QpackError::Limit(LimitError::String),
    })
}

const NO_HUFFMAN: &str = "an invalid Huffman code";
const NO_ENTRY: &str = "an index that no table has";

impl Decoder {
    /// A decoder whose table the peer may give up to `capacity_max` bytes.
    pub fn new(capacity_max: usize) -> Decoder {
        Decoder {
            table: Table::new(0),
            inserts: 0,
            capacity_max,
            acknowledged: 0,
            copied: 0,
            partial: Vec::new(),
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Insertions so far.
    pub fn inserts(&self) -> u64 {
        self.inserts
    }

    /// Whether the peer may refer to a dynamic table.
    pub fn has_table(&self) -> bool {
        self.capacity_max > 0
    }

    /// Bytes of memory besides its own.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.partial.capacity() + self.name.capacity() + self.value.capacity()
    }

    /// Gives scratch memory back: for a connection that has nothing to do.
    pub fn trim(&mut self) {
        self.name = Vec::new();
        self.value = Vec::new();
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
    }

    /// Bytes that insertions have copied since the last call.
    pub(crate) fn take_copied(&mut self) -> u64 {
        std::mem::take(&mut self.copied)
    }

    /// Takes what came on the encoder stream. What is no whole instruction waits; it is smaller than two strings of the table's size.
    pub fn instructions<S: FieldSink>(&mut self, input: &[u8], sink: &mut S) -> Result<(), QpackError> {
        if self.partial.is_empty() {
            let used = self.whole_instructions(input, sink)?;
            self.partial.extend_from_slice(&input[used..]);
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(input);
        let used = self.whole_instructions(&all, sink)?;
        all.drain(..used);
        self.partial = all;
        Ok(())
    }

    fn whole_instructions<S: FieldSink>(&mut self, input: &[u8], sink: &mut S) -> Result<usize, QpackError> {
        let mut rest = input;
        while !rest.is_empty() {
            match self.instruction(rest) {
                Ok((instruction, tail)) => {
                    self.carry_out(instruction, sink)?;
                    rest = tail;
                }
                Err(TextError::Integer(IntegerError::Truncated)) => break,
                Err(_) => return Err(QpackError::EncoderStream("too long value")),
            }
        }
        Ok(input.len() - rest.len())
    }

    fn instruction<'a>(&self, src: &'a [u8]) -> Result<(Instruction<'a>, &'a [u8]), TextError> {
        // No code needs more than 30 bits for a byte: what is longer cannot fit into the table.
        let max = self.capacity_max * 4;
        let number = |prefix| integer::decode(src, prefix).map_err(TextError::Integer);
        let first = src.first().copied().unwrap_or_default();
        match first >> 5 {
            // §4.3.2, Insert with Name Reference; the second bit says which table.
            4..=7 => {
                let (index, rest) = number(6)?;
                let (value, rest) = text(rest, 7, max)?;
                let index = index as usize;
                let insert = if first & 0x40 != 0 {
                    Instruction::StaticName(index, value)
                } else {
                    Instruction::DynamicName(index, value)
                };
                Ok((insert, rest))
            }
            // §4.3.3, Insert with Literal Name.
            2 | 3 => {
                let (name, rest) = text(src, 5, max)?;
                let (value, rest) = text(rest, 7, max)?;
                Ok((Instruction::Literal(name, value), rest))
            }
            // §4.3.1, Set Dynamic Table Capacity.
            1 => number(5).map(|(size, rest)| (Instruction::Capacity(size as usize), rest)),
            // §4.3.4, Duplicate.
            _ => number(5).map(|(index, rest)| (Instruction::Duplicate(index as usize), rest)),
        }
    }

    fn carry_out<S: FieldSink>(
        &mut self,
        instruction: Instruction<'_>,
        sink: &mut S,
    ) -> Result<(), QpackError> {
        const HUFFMAN: QpackError = QpackError::EncoderStream(NO_HUFFMAN);
        const ENTRY: QpackError = QpackError::EncoderStream(NO_ENTRY);
        let (tag, checks) = match instruction {
            Instruction::Capacity(size) if size > self.capacity_max => {
                return Err(QpackError::EncoderStream("too large capacity of the table"));
            }
            Instruction::Capacity(size) => {
                self.table.resize(size);
                return Ok(());
            }
            Instruction::StaticName(index, value) => {
                let (name, _) = *STATIC.get(index).ok_or(ENTRY)?;
                self.name.clear();
                self.name.extend_from_slice(name);
                value.read(&mut self.value).map_err(|_| HUFFMAN)?;
                (sink.static_tag(index, name), static_checks(name))
            }
            Instruction::DynamicName(index, value) => {
                let found = self.copy_name(index).ok_or(ENTRY)?;
                value.read(&mut self.value).map_err(|_| HUFFMAN)?;
                found
            }
            Instruction::Literal(name, value) => {
                name.read(&mut self.name).map_err(|_| HUFFMAN)?;
                value.read(&mut self.value).map_err(|_| HUFFMAN)?;
                (sink.tag(&self.name), Checks::of_name(&self.name))
            }
            Instruction::Duplicate(index) => {
                let found = self.copy_name(index).ok_or(ENTRY)?;
                let (_, value, _) = self.table.get(index).ok_or(ENTRY)?;
                self.value.clear();
                self.value.extend_from_slice(value);
                found
            }
        };
        // §3.2.2: unlike HPACK, what is larger than the table must not be inserted.
        let size = self.name.len() + self.value.len() + ENTRY_OVERHEAD;
        if size > self.table.size_max() {
            return Err(QpackError::EncoderStream("an entry that is larger than the table"));
        }
        self.copied += size as u64;
        let checks = Checks(checks.0 | Checks::of_value(&self.value).0);
        self.table.insert(&self.name, &self.value, tag, checks.0);
        self.inserts += 1;
        Ok(())
    }

    /// Copies the name of an entry, which what is inserted may evict (§3.2.2); gives its tag and what is odd about it.
    fn copy_name(&mut self, newest: usize) -> Option<(u8, Checks)> {
        let (name, _, entry) = self.table.get(newest)?;
        self.name.clear();
        self.name.extend_from_slice(name);
        Some((entry.tag, Checks(entry.checks).of_name_only()))
    }

    // What we say to the peer's encoder (§4.4).

    /// Tells of insertions that the peer does not know to have come, if there are any.
    pub fn acknowledge_inserts(&mut self, out: &mut Vec<u8>) {
        let new = self.inserts - self.acknowledged;
        if new > 0 {
            integer::encode(new as usize, 6, 0, out);
            self.acknowledged = self.inserts;
        }
    }

    /// Tells that a section was decoded that needed entries of the table.
    pub fn acknowledge_section(&mut self, stream: u64, required: u64, out: &mut Vec<u8>) {
        if required > 0 {
            integer::encode(stream as usize, 7, 0x80, out);
            self.acknowledged = self.acknowledged.max(required);
        }
    }

    /// Tells that sections of a stream will not be decoded.
    pub fn cancel(&self, stream: u64, out: &mut Vec<u8>) {
        if self.has_table() {
            integer::encode(stream as usize, 6, 0x40, out);
        }
    }

    // Field sections (§4.5).

    /// What a section begins with.
    pub fn prefix(&self, section: &[u8]) -> Result<Prefix, QpackError> {
        let (encoded, rest) = integer::decode(section, 8)?;
        let required = self.required(encoded.into())?;
        let is_negative = rest.first().is_some_and(|first| first & 0x80 != 0);
        let (delta, rest) = integer::decode(rest, 7)?;
        let delta = u64::from(delta);
        // §4.5.1.2.
        let base = if is_negative {
            required.checked_sub(delta + 1).ok_or(QpackError::Section("an invalid base"))?
        } else {
            required + delta
        };
        Ok(Prefix { required, base, len: section.len() - rest.len() })
    }

    /// §4.5.1.1: the Required Insert Count is sent modulo twice the number of entries that a table can have.
    fn required(&self, encoded: u64) -> Result<u64, QpackError> {
        const INVALID: QpackError = QpackError::Section("an invalid insert count");
        if encoded == 0 {
            return Ok(0);
        }
        let entries = (self.capacity_max / ENTRY_OVERHEAD) as u64;
        let range = 2 * entries;
        if encoded > range {
            return Err(INVALID);
        }
        let value_max = self.inserts + entries;
        let mut required = value_max / range * range + encoded - 1;
        if required > value_max {
            required = required.checked_sub(range).ok_or(INVALID)?;
        }
        if required == 0 { Err(INVALID) } else { Ok(required) }
    }

    /// Decodes a section whose insertions have come (`prefix.required` of them, see [`Decoder::inserts`]).
    pub fn decode<S: FieldSink>(
        &mut self,
        section: &[u8],
        prefix: Prefix,
        limits: FieldLimits,
        sink: &mut S,
    ) -> Result<(), QpackError> {
        debug_assert!(prefix.required <= self.inserts);
        let mut budget = Budget::new(limits);
        let mut rest = section.get(prefix.len..).unwrap_or_default();
        while let Some(&first) = rest.first() {
            rest = match first >> 4 {
                8..=15 => self.indexed(rest, prefix, &mut budget, sink)?,
                1 => self.indexed_behind_base(rest, prefix, &mut budget, sink)?,
                _ => self.literal(rest, prefix, &mut budget, sink)?,
            };
        }
        Ok(())
    }

    /// §4.5.2, an entry of one of the tables.
    #[inline]
    fn indexed<'a, S: FieldSink>(
        &self,
        src: &'a [u8],
        prefix: Prefix,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<&'a [u8], QpackError> {
        let (index, rest) = integer::decode(src, 6)?;
        let index = index as usize;
        if src[0] & 0x40 != 0 {
            let (name, value) = *STATIC.get(index).ok_or(QpackError::Section(NO_ENTRY))?;
            budget.take(name.len(), value.len())?;
            let tag = sink.static_tag(index, name);
            sink.field(Field { name, value, tag, checks: static_checks(name), sensitive: false });
        } else {
            let newest = self.relative(index, prefix)?;
            self.entry(newest, budget, sink)?;
        }
        Ok(rest)
    }

    /// Gives an entry of the dynamic table to the sink, counted as what it stands for.
    fn entry<S: FieldSink>(
        &self,
        newest: usize,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<(), QpackError> {
        let (name, value, entry) = self.table.get(newest).ok_or(QpackError::Section(NO_ENTRY))?;
        budget.take(name.len(), value.len())?;
        sink.field(Field { name, value, tag: entry.tag, checks: Checks(entry.checks), sensitive: false });
        Ok(())
    }

    /// §3.2.5: where the entry is, counted from the newest.
    fn relative(&self, index: usize, prefix: Prefix) -> Result<usize, QpackError> {
        self.absolute(prefix.base.checked_sub(index as u64 + 1), prefix)
    }

    /// §3.2.6: the same for indexes behind the base.
    fn post_base(&self, index: usize, prefix: Prefix) -> Result<usize, QpackError> {
        self.absolute(prefix.base.checked_add(index as u64), prefix)
    }

    /// §2.2.3: what is referred to must have been inserted by the count that the section has named.
    fn absolute(&self, index: Option<u64>, prefix: Prefix) -> Result<usize, QpackError> {
        let index = index.filter(|&index| index < prefix.required).ok_or(QpackError::Section(NO_ENTRY))?;
        usize::try_from(self.inserts - 1 - index).map_err(|_| QpackError::Section(NO_ENTRY))
    }

    /// §4.5.3, Indexed with Post-Base Index.
    fn indexed_behind_base<'a, S: FieldSink>(
        &self,
        src: &'a [u8],
        prefix: Prefix,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<&'a [u8], QpackError> {
        let (index, rest) = integer::decode(src, 4)?;
        let newest = self.post_base(index as usize, prefix)?;
        self.entry(newest, budget, sink)?;
        Ok(rest)
    }

    /// §4.5.4 to §4.5.6: a field with a value of its own.
    fn literal<'a, S: FieldSink>(
        &mut self,
        src: &'a [u8],
        prefix: Prefix,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<&'a [u8], QpackError> {
        const HUFFMAN: QpackError = QpackError::Section(NO_HUFFMAN);
        let first = src[0];
        let (tag, name_checks, rest, sensitive) = match first >> 4 {
            // §4.5.4, Literal with Name Reference.
            4..=7 => {
                let (index, rest) = integer::decode(src, 4)?;
                let index = index as usize;
                let (tag, checks) = if first & 0x10 != 0 {
                    let (name, _) = *STATIC.get(index).ok_or(QpackError::Section(NO_ENTRY))?;
                    self.name.clear();
                    self.name.extend_from_slice(name);
                    (sink.static_tag(index, name), static_checks(name))
                } else {
                    let newest = self.relative(index, prefix)?;
                    self.copy_name(newest).ok_or(QpackError::Section(NO_ENTRY))?
                };
                (tag, checks, rest, first & 0x20 != 0)
            }
            // §4.5.6, Literal with Literal Name.
            2 | 3 => {
                let (name, rest) = section_text(src, 3, budget.limits)?;
                name.read(&mut self.name).map_err(|_| HUFFMAN)?;
                (sink.tag(&self.name), Checks::of_name(&self.name), rest, first & 0x10 != 0)
            }
            // §4.5.5, Literal with Post-Base Name Reference.
            _ => {
                let (index, rest) = integer::decode(src, 3)?;
                let newest = self.post_base(index as usize, prefix)?;
                let (tag, checks) = self.copy_name(newest).ok_or(QpackError::Section(NO_ENTRY))?;
                (tag, checks, rest, first & 0x08 != 0)
            }
        };
        let (value, rest) = section_text(rest, 7, budget.limits)?;
        let value: &[u8] = if value.coded {
            value.read(&mut self.value).map_err(|_| HUFFMAN)?;
            &self.value
        } else {
            value.bytes
        };
        budget.take(self.name.len(), value.len())?;
        let checks = Checks(name_checks.0 | Checks::of_value(value).0);
        sink.field(Field { name: &self.name, value, tag, checks, sensitive });
        Ok(rest)
    }
}

#[inline]
fn static_checks(name: &[u8]) -> Checks {
    if name.first() == Some(&b':') { Checks::PSEUDO } else { Checks::default() }
}
