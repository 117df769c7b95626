//! One part of the index: what is on disk, how long ago it was used, and what of it is in memory.
//!
//! An entry takes 40 bytes and its place in a hash table; everything rarer is kept beside it.

use crate::digest::Digest;
use crate::list::{Links, List, NONE, Slots};
use crate::memory::Memory;
use crate::object::Object;
use hashbrown::{HashMap, HashTable};
use std::sync::Arc;
use std::task::Waker;

/// The unit in which sizes are counted: a block of most file systems.
pub const BLOCK_BYTES: u64 = 4096;

/// Blocks that a file of so many bytes takes.
pub fn blocks(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK_BYTES).max(1)).unwrap_or(u32::MAX)
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Of its key.
    pub digest: Digest,
    /// On disk; 0: there is no file, only a count of requests.
    pub blocks: u32,
    /// When it was used last, in seconds since 1970.
    pub used: u32,
    links: Links,
    /// Its slot in the memory tier.
    memory: u32,
    /// How often it was asked for, up to a bound.
    pub uses: u16,
    /// False: it was found on disk, and its size was not asked for.
    is_measured: bool,
}

const _: () = assert!(size_of::<Entry>() <= 40);

const CHUNK: usize = 1024;

/// Entries in pieces, so that growing copies nothing and wastes little.
#[derive(Default)]
struct Entries(Vec<Vec<Entry>>);

impl Entries {
    fn get(&self, slot: u32) -> &Entry {
        &self.0[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn get_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.0[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn push(&mut self, entry: Entry) -> u32 {
        if self.0.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.0.push(Vec::with_capacity(CHUNK));
        }
        let chunks = self.0.len();
        let chunk = self.0.last_mut().expect("just pushed");
        chunk.push(entry);
        ((chunks - 1) * CHUNK + chunk.len() - 1) as u32
    }
}

impl Slots for Entries {
    fn links(&mut self, slot: u32) -> &mut Links {
        &mut self.get_mut(slot).links
    }
}

/// The request that brings an entry up to date, and the tasks that wait for it.
#[derive(Default)]
pub struct Busy {
    /// Tells the present right from later ones.
    pub ticket: u64,
    /// Monotonic; afterwards another may try.
    pub until_ms: u64,
    /// The tasks that wait.
    pub wakers: Vec<Waker>,
}

/// Fills of one entry that are under way.
#[derive(Default)]
pub struct Fills {
    /// How many.
    pub count: u32,
    /// The entry was purged: fills that began up to then (a stamp) are void.
    pub purged: u64,
}

/// See the module's head.
#[derive(Default)]
pub struct Shard {
    table: HashTable<u32>,
    entries: Entries,
    free: Vec<u32>,
    list: List,
    /// Entries, with and without a file.
    pub count: usize,
    /// Blocks on disk.
    pub blocks: u64,
    /// Objects in memory.
    pub memory: Memory,
    /// Entries that are being brought up to date.
    pub busy: HashMap<Digest, Busy>,
    /// Entries that are being stored.
    pub fills: HashMap<Digest, Fills>,
    /// Statuses that are answered without a body being kept (intercepted errors), and until when.
    pub errors: HashMap<Digest, (u16, i64)>,
    /// Answers that could not be stored lately, and until when (monotonic): requests need not wait for one.
    pub unstorable: HashMap<Digest, u64>,
}

impl Shard {
    fn slot(&self, digest: Digest) -> Option<u32> {
        let is_it = |slot: &u32| self.entries.get(*slot).digest == digest;
        self.table.find(digest.other_number(), is_it).copied()
    }

    /// The entry of a key.
    pub fn get(&self, digest: Digest) -> Option<&Entry> {
        self.slot(digest).map(|slot| self.entries.get(slot))
    }

    /// Notes a use, and `counts` it. Gives whether there is a file, the object if it is in memory, and the number of uses.
    pub fn touch(
        &mut self,
        digest: Digest,
        now: u32,
        counts: bool,
    ) -> Option<(bool, Option<Arc<Object>>, u16)> {
        let slot = self.slot(digest)?;
        self.list.touch(&mut self.entries, slot);
        let entry = self.entries.get_mut(slot);
        entry.used = now;
        entry.uses = entry.uses.saturating_add(u16::from(counts));
        let (exists, memory, uses) = (entry.blocks > 0, entry.memory, entry.uses);
        let object = (memory != NONE).then(|| self.memory.get(memory).clone());
        Some((exists, object, uses))
    }

    /// The object, without counting as use.
    pub fn object(&self, digest: Digest) -> Option<&Arc<Object>> {
        let memory = self.get(digest)?.memory;
        (memory != NONE).then(|| self.memory.peek(memory))
    }

    /// Adds an entry or changes its size; the object is replaced by `object` if there is one.
    pub fn insert(&mut self, digest: Digest, blocks: u32, now: u32, object: Option<Arc<Object>>) {
        let slot = match self.slot(digest) {
            Some(slot) => {
                self.list.touch(&mut self.entries, slot);
                slot
            }
            None => self.add(digest, now),
        };
        let entry = self.entries.get_mut(slot);
        self.blocks = self.blocks - u64::from(entry.blocks) + u64::from(blocks);
        entry.blocks = blocks;
        entry.is_measured = true;
        entry.used = now;
        if let Some(object) = object {
            self.drop_object(slot);
            self.entries.get_mut(slot).memory = self.memory.insert(slot, object);
        }
    }

    /// Adds an entry that was found on disk, unless it is known; without a size it counts as one block.
    pub fn learn(&mut self, digest: Digest, blocks: Option<u32>, used: u32) {
        let slot = match self.slot(digest) {
            Some(slot) if self.entries.get(slot).blocks > 0 => return,
            Some(slot) => slot,
            None => self.add(digest, used),
        };
        let entry = self.entries.get_mut(slot);
        entry.blocks = blocks.unwrap_or(1);
        entry.is_measured = blocks.is_some();
        self.blocks += u64::from(entry.blocks);
    }

    /// Gives an entry its size, if it was learnt without one.
    pub fn measure(&mut self, digest: Digest, blocks: u32) {
        let Some(slot) = self.slot(digest) else { return };
        let entry = self.entries.get_mut(slot);
        if !entry.is_measured {
            self.blocks = self.blocks - u64::from(entry.blocks) + u64::from(blocks);
            (entry.blocks, entry.is_measured) = (blocks, true);
        }
    }

    fn add(&mut self, digest: Digest, now: u32) -> u32 {
        let entry = Entry {
            digest,
            blocks: 0,
            used: now,
            links: Links::default(),
            memory: NONE,
            uses: 1,
            is_measured: true,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.entries.get_mut(slot) = entry;
                slot
            }
            None => self.entries.push(entry),
        };
        let entries = &self.entries;
        self.table
            .insert_unique(digest.other_number(), slot, |&slot| entries.get(slot).digest.other_number());
        self.list.push(&mut self.entries, slot);
        self.count += 1;
        slot
    }

    /// Takes an entry's object out of memory and lowers its flag.
    fn drop_object(&mut self, slot: u32) -> Option<Arc<Object>> {
        let memory = std::mem::replace(&mut self.entries.get_mut(slot).memory, NONE);
        if memory == NONE {
            return None;
        }
        let object = self.memory.remove(memory)?;
        object.flag.lower();
        Some(object)
    }

    /// As [`Shard::drop_object`], by name.
    pub fn forget_object(&mut self, digest: Digest) -> Option<Arc<Object>> {
        let slot = self.slot(digest)?;
        self.drop_object(slot)
    }

    /// Removes an entry; gives its size in blocks.
    pub fn remove(&mut self, digest: Digest) -> Option<u32> {
        let slot = self.slot(digest)?;
        self.drop_object(slot);
        self.list.remove(&mut self.entries, slot);
        let entries = &self.entries;
        if let Ok(found) = self.table.find_entry(digest.other_number(), |&s| entries.get(s).digest == digest)
        {
            found.remove();
        }
        self.free.push(slot);
        self.count -= 1;
        let blocks = self.entries.get(slot).blocks;
        self.blocks -= u64::from(blocks);
        Some(blocks)
    }

    /// The entry used longest ago that no request is working on.
    pub fn oldest(&mut self) -> Option<Entry> {
        let mut at = self.list.oldest();
        for _ in 0..32 {
            let entry = self.entries.get(at?).clone();
            if !self.busy.contains_key(&entry.digest) {
                return Some(entry);
            }
            at = self.list.newer(&mut self.entries, at?);
        }
        None
    }

    /// Takes what was used longest ago out of memory; false if nothing is there.
    pub fn shrink_memory(&mut self) -> bool {
        let Some((slot, entry)) = self.memory.oldest() else { return false };
        self.entries.get_mut(entry).memory = NONE;
        // Its flag stays up: the entry is as valid as before, and prepared answers of it count for a second only.
        self.memory.remove(slot);
        true
    }

    /// Removes from memory and index whatever matches; gives the names.
    pub fn remove_matching(&mut self, matches: impl Fn(&Object) -> bool) -> Vec<Digest> {
        let found: Vec<Digest> = self
            .memory
            .iter()
            .filter(|(_, object)| matches(object))
            .map(|(_, object)| object.digest)
            .collect();
        for digest in &found {
            self.remove(*digest);
        }
        found
    }

    /// All entries with a file.
    pub fn files(&self) -> impl Iterator<Item = &Entry> {
        self.table.iter().map(|&slot| self.entries.get(slot)).filter(|entry| entry.blocks > 0)
    }

    /// Bytes of memory that the index takes, without the memory tier.
    pub fn index_bytes(&self) -> usize {
        self.entries.0.len() * CHUNK * size_of::<Entry>()
            + self.table.capacity() * 8 / 7 * 5
            + self.free.capacity() * 4
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::tests::meta;
    use crate::object::Body;
    use proptest::prelude::*;

    fn digest(number: u32) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    pub(crate) fn object(number: u32, bytes: usize) -> Arc<Object> {
        let body = Body::Memory(Arc::new(vec![0; bytes].into()));
        Arc::new(Object::new(digest(number), meta(&number.to_le_bytes()), body, 0, 0))
    }

    #[test]
    fn a_million_entries_take_less_than_150_bytes_each() {
        let mut shard = Shard::default();
        for number in 0..1_000_000 {
            shard.insert(digest(number), 1, number, None);
        }
        let each = shard.index_bytes() / 1_000_000;
        assert!((41..100).contains(&each), "{each} bytes");
        assert_eq!((shard.count, shard.blocks), (1_000_000, 1_000_000));
        assert_eq!(shard.oldest().map(|entry| entry.digest), Some(digest(0)));
    }

    #[test]
    fn what_is_replaced_or_removed_has_its_flag_lowered() {
        let mut shard = Shard::default();
        let (one, two) = (object(1, 10), object(1, 20));
        shard.insert(digest(1), 1, 5, Some(one.clone()));
        assert!(one.flag.is_up());
        shard.insert(digest(1), 3, 6, Some(two.clone()));
        assert!(!one.flag.is_up() && two.flag.is_up());
        assert_eq!((shard.blocks, shard.memory.bytes), (3, two.memory_bytes()));
        let (exists, found, uses) = shard.touch(digest(1), 7, true).unwrap();
        assert!(exists && Arc::ptr_eq(&found.unwrap(), &two) && uses == 2);
        assert_eq!(shard.remove(digest(1)), Some(3));
        assert!(!two.flag.is_up());
        assert_eq!((shard.blocks, shard.memory.bytes, shard.count), (0, 0, 0));
        assert!(shard.touch(digest(1), 8, true).is_none());
    }

    #[test]
    fn memory_is_given_up_by_age_and_the_entry_stays() {
        let mut shard = Shard::default();
        for number in 0..3 {
            shard.insert(digest(number), 1, 5, Some(object(number, 10)));
        }
        shard.touch(digest(0), 6, true);
        assert!(shard.shrink_memory());
        let in_memory: Vec<bool> = (0..3).map(|n| shard.object(digest(n)).is_some()).collect();
        assert_eq!(in_memory, [true, false, true]);
        assert!(shard.get(digest(1)).is_some_and(|entry| entry.blocks == 1));
    }

    #[test]
    fn who_is_worked_on_is_not_the_oldest() {
        let mut shard = Shard::default();
        shard.insert(digest(1), 1, 5, None);
        shard.insert(digest(2), 1, 5, None);
        shard.busy.insert(digest(1), Busy::default());
        assert_eq!(shard.oldest().map(|entry| entry.digest), Some(digest(2)));
    }

    proptest! {
        #[test]
        fn sums_are_kept(steps in proptest::collection::vec((0u32..12, 0u8..4, 1u32..9), 0..80)) {
            let mut shard = Shard::default();
            let mut model: HashMap<u32, (u32, bool)> = HashMap::new();
            for (number, step, size) in steps {
                match step {
                    0 => {
                        shard.insert(digest(number), size, 1, None);
                        model.entry(number).or_insert((0, false)).0 = size;
                    }
                    1 => {
                        shard.insert(digest(number), size, 1, Some(object(number, size as usize)));
                        model.insert(number, (size, true));
                    }
                    2 => {
                        prop_assert_eq!(shard.remove(digest(number)), model.remove(&number).map(|(size, _)| size));
                    }
                    _ => {
                        let dropped = shard.forget_object(digest(number)).is_some();
                        let had = model.get_mut(&number).map(|entry| std::mem::take(&mut entry.1));
                        prop_assert_eq!(dropped, had == Some(true));
                    }
                }
                prop_assert_eq!(shard.count, model.len());
                prop_assert_eq!(shard.blocks, model.values().map(|(size, _)| u64::from(*size)).sum::<u64>());
                prop_assert_eq!(shard.memory.iter().count(), model.values().filter(|(_, memory)| *memory).count());
            }
        }
    }
}
