//! The static table (RFC 7541 Appendix A) and the dynamic table (§2.3.2, §4).

use std::collections::VecDeque;

/// Names and values of the static table; the first has index 1.
pub static STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// What an entry counts besides its bytes (RFC 7541 §4.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// The first index (from 1) of a name in the static table.
pub fn static_name(name: &[u8]) -> Option<usize> {
    let index = match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => 8,
        b"accept-charset" => 15,
        b"accept-encoding" => 16,
        b"accept-language" => 17,
        b"accept-ranges" => 18,
        b"accept" => 19,
        b"access-control-allow-origin" => 20,
        b"age" => 21,
        b"allow" => 22,
        b"authorization" => 23,
        b"cache-control" => 24,
        b"content-disposition" => 25,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-length" => 28,
        b"content-location" => 29,
        b"content-range" => 30,
        b"content-type" => 31,
        b"cookie" => 32,
        b"date" => 33,
        b"etag" => 34,
        b"expect" => 35,
        b"expires" => 36,
        b"from" => 37,
        b"host" => 38,
        b"if-match" => 39,
        b"if-modified-since" => 40,
        b"if-none-match" => 41,
        b"if-range" => 42,
        b"if-unmodified-since" => 43,
        b"last-modified" => 44,
        b"link" => 45,
        b"location" => 46,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        b"proxy-authorization" => 49,
        b"range" => 50,
        b"referer" => 51,
        b"refresh" => 52,
        b"retry-after" => 53,
        b"server" => 54,
        b"set-cookie" => 55,
        b"strict-transport-security" => 56,
        b"transfer-encoding" => 57,
        b"user-agent" => 58,
        b"vary" => 59,
        b"via" => 60,
        b"www-authenticate" => 61,
        _ => return None,
    };
    Some(index)
}

/// One entry of a dynamic table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where its name begins in the table's bytes; the value follows.
    start: usize,
    name_len: u32,
    value_len: u32,
    /// The caller's number for the name.
    pub tag: u8,
    /// What was found out about its bytes when it came in.
    pub checks: u8,
}

impl Entry {
    fn size(&self) -> usize {
        self.name_len as usize + self.value_len as usize + ENTRY_OVERHEAD
    }

    fn end(&self) -> usize {
        self.start + self.name_len as usize + self.value_len as usize
    }
}

/// A dynamic table. Its entries lie one behind another in one piece of memory, which grows with use only.
#[derive(Debug, Default)]
pub struct Table {
    bytes: Vec<u8>,
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    size_max: usize,
}

impl Table {
    /// Empty, for entries of at most `size_max` bytes together, counted as RFC 7541 §4.1 does.
    pub fn new(size_max: usize) -> Table {
        Table { size_max, ..Table::default() }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As RFC 7541 §4.1 counts it.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes that its entries may have together.
    pub fn size_max(&self) -> usize {
        self.size_max
    }

    /// The entry with this index, 0 being the newest.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8], &Entry)> {
        let entry = self.entries.get(index)?;
        let value = entry.start + entry.name_len as usize;
        Some((&self.bytes[entry.start..value], &self.bytes[value..value + entry.value_len as usize], entry))
    }

    /// Evicts until the table is no larger than `size_max`, its new limit.
    pub fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(size_max);
    }

    fn evict(&mut self, to: usize) {
        while self.size > to {
            let Some(entry) = self.entries.pop_back() else { break };
            self.size -= entry.size();
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }

    /// Adds an entry. One that is larger than the table empties it and is not added, which is no error (§4.4).
    pub fn insert(&mut self, name: &[u8], value: &[u8], tag: u8, checks: u8) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        if size > self.size_max {
            self.evict(0);
            return;
        }
        self.evict(self.size_max - size);
        self.make_room(name.len() + value.len());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        self.entries.push_front(Entry { start, name_len, value_len, tag, checks });
        self.size += size;
    }

    /// What was evicted leaves a gap in front: closed when the end is reached, so that memory stays in proportion to
    /// what is in the table.
    fn make_room(&mut self, count: usize) {
        let Some(oldest) = self.entries.back() else { return };
        let gap = oldest.start;
        if gap > 0 && self.bytes.len() + count > self.bytes.capacity() {
            let newest_end = self.entries.front().map_or(gap, Entry::end);
            self.bytes.copy_within(gap..newest_end, 0);
            self.bytes.truncate(newest_end - gap);
            self.entries.iter_mut().for_each(|entry| entry.start -= gap);
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}
