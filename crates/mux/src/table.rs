//! Dynamic tables (RFC 7541 §2.3.2, §4; RFC 9204 §3.2).

use std::collections::VecDeque;

/// What an entry counts besides its bytes (RFC 7541 §4.1, RFC 9204 §3.2.1).
pub const ENTRY_OVERHEAD: usize = 32;

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
