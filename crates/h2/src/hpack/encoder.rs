//! Encoding header blocks: with a dynamic table for who keeps one, and without state for blocks that are copied.

use super::table::{ENTRY_OVERHEAD, STATIC, Table, static_name};
use brisk_mux::encode::{self, HeadCoding};
use brisk_mux::integer;

/// Whether a field may go into the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// Into the dynamic table: it is likely to be sent again.
    Add,
    /// Not now.
    Without,
    /// Not here, and not by whoever passes it on (RFC 7541 §7.1.3).
    Never,
}

/// Appends a string: Huffman coded where that is shorter.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    encode::write_string(text, 7, 0, out);
}

/// Appends a field that no table has to keep. The name must be in lower case.
pub fn write_literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if let Some(index) = static_name(name) {
        integer::encode(index, 4, 0, out);
    } else {
        out.push(0);
        write_string(name, out);
    }
    write_string(value, out);
}

/// Appends a field of HTTP/1.1, whatever is in it: see [`encode::foreign`].
pub fn write_foreign(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    encode::foreign(name, value, |name, value| write_literal(name, value, out));
}

/// Appends a field with CR, LF and NUL in its value as spaces. The name must be in lower case.
pub fn write_clean(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    encode::clean(value, |value| write_literal(name, value, out));
}

/// Appends a field whose name has an index of the static table, and a value that stands in the block as it is: it can be
/// replaced later by another one of the same length. Gives its offset.
pub fn write_named(index: usize, value: &[u8], out: &mut Vec<u8>) -> usize {
    integer::encode(index, 4, 0, out);
    integer::encode(value.len(), 7, 0, out);
    let at = out.len();
    out.extend_from_slice(value);
    at
}

/// Appends `:status`.
pub fn write_status(status: u16, out: &mut Vec<u8>) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            integer::encode(8, 4, 0, out);
            write_string(&encode::status_digits(status), out);
            return;
        }
    };
    integer::encode(index, 7, 0x80, out);
}

/// Index of `date` in the static table.
const DATE: usize = 33;

/// The coding of heads that are kept.
#[derive(Clone, Copy, Debug)]
pub struct Hpack;

impl HeadCoding for Hpack {
    #[inline]
    fn status(status: u16, out: &mut Vec<u8>) {
        write_status(status, out);
    }

    fn trailers(_: &mut Vec<u8>) {}

    #[inline]
    fn literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        write_literal(name, value, out);
    }

    #[inline]
    fn date(value: &[u8], out: &mut Vec<u8>) -> usize {
        write_named(DATE, value, out)
    }
}

/// The encoding side's state of a connection that uses a dynamic table.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// Hashes of name and value, and of the name alone, in the order of the table's entries but the oldest first.
    hashes: std::collections::VecDeque<(u32, u32)>,
    /// The peer's table has changed: the next block begins with this smallest size since, and the present one.
    update: Option<usize>,
}

impl Encoder {
    /// A table of `size_max` bytes; no larger than the peer allows (4096 before its SETTINGS come).
    pub fn new(size_max: usize) -> Encoder {
        Encoder { table: Table::new(size_max), hashes: std::collections::VecDeque::new(), update: None }
    }

    /// Uses a table of another size from the next block on.
    pub fn set_size_max(&mut self, size_max: usize) {
        if size_max == self.table.size_max() {
            return;
        }
        let least = self.update.map_or(size_max, |least| least.min(size_max));
        self.update = Some(least);
        self.table.resize(least.min(self.table.size_max()));
        self.table.resize(size_max);
        self.forget_evicted();
    }

    /// Bytes of memory besides its own.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.hashes.capacity() * 8
    }

    fn forget_evicted(&mut self) {
        while self.hashes.len() > self.table.len() {
            self.hashes.pop_front();
        }
    }

    /// Must be called first in each block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(least) = self.update.take() {
            if least < self.table.size_max() {
                integer::encode(least, 5, 0x20, out);
            }
            integer::encode(self.table.size_max(), 5, 0x20, out);
        }
    }

    /// Appends a field. The name must be in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let (mut name_index, exact) = find_static(name, value);
        if let Some(index) = exact {
            return integer::encode(index, 7, 0x80, out);
        }
        let (both, of_name) = (hash(name, value), hash(name, b""));
        if indexing != Indexing::Never {
            match self.find(name, value, both, of_name) {
                (_, Some(index)) => return integer::encode(index, 7, 0x80, out),
                (index, None) => name_index = name_index.or(index),
            }
        }
        let fits = name.len() + value.len() + ENTRY_OVERHEAD <= self.table.size_max();
        let (prefix, bits, add) = match indexing {
            Indexing::Add if fits => (6, 0x40, true),
            Indexing::Add | Indexing::Without => (4, 0, false),
            Indexing::Never => (4, 0x10, false),
        };
        integer::encode(name_index.unwrap_or(0), prefix, bits, out);
        if name_index.is_none() {
            write_string(name, out);
        }
        write_string(value, out);
        if add {
            self.table.insert(name, value, 0, 0);
            self.hashes.push_back((both, of_name));
            self.forget_evicted();
        }
    }

    /// The index of an entry with this name, and of one with this value too.
    fn find(&self, name: &[u8], value: &[u8], both: u32, of_name: u32) -> (Option<usize>, Option<usize>) {
        let mut found = None;
        for (at, &(pair, single)) in self.hashes.iter().rev().enumerate() {
            if single != of_name {
                continue;
            }
            let Some((have_name, have_value, _)) = self.table.get(at) else { break };
            if have_name != name {
                continue;
            }
            let index = STATIC.len() + 1 + at;
            if pair == both && have_value == value {
                return (found, Some(index));
            }
            found = found.or(Some(index));
        }
        (found, None)
    }
}

/// The index of a name in the static table, and of the pair.
fn find_static(name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
    let Some(first) = static_name(name) else { return (None, None) };
    let same = STATIC[first - 1..].iter().take_while(|(have, _)| *have == name);
    let exact = same.enumerate().find(|(_, (_, have))| *have == value).map(|(at, _)| first + at);
    // An empty value in the table stands for none, but means one as well (RFC 7541 §6.1).
    (Some(first), exact)
}

/// FNV-1a: the table is small, and who chooses its contents only slows down his own connection.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    let step = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.iter().fold(0x811c_9dc5, step);
    value.iter().fold(hash ^ 0xff, step)
}
