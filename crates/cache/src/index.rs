//! The index: shards behind locks that are held for a look or a change, never across a system call.

use crate::digest::Digest;
use crate::disk::Seen;
use crate::limits::{ERRORS_MAX, UNSTORABLE_MAX};
use crate::object::Object;
use crate::shard::{BLOCK_BYTES, Busy, Entry, Shard, blocks};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

const SHARDS: usize = 16;

/// See the module's head.
pub struct Index {
    shards: [Mutex<Shard>; SHARDS],
    tickets: AtomicU64,
    /// Sums over all shards, so that limits are checked without locking all of them.
    count: AtomicUsize,
    blocks: AtomicU64,
    memory_bytes: AtomicUsize,
    descriptors: AtomicUsize,
}

/// A look at an entry.
pub enum Look {
    /// It is in memory.
    Object(Arc<Object>),
    /// It is on disk.
    File,
    /// This status was stored without a body.
    Error(u16),
    /// How often it was asked for, this time included.
    Nothing(u16),
}

/// The result of [`Index::lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The right to bring the entry up to date, with the ticket that gives it back.
    Taken(u64),
    /// Another request has it.
    Busy,
}

impl Default for Index {
    fn default() -> Index {
        Index {
            shards: std::array::from_fn(|_| Mutex::default()),
            tickets: AtomicU64::new(1),
            count: AtomicUsize::new(0),
            blocks: AtomicU64::new(0),
            memory_bytes: AtomicUsize::new(0),
            descriptors: AtomicUsize::new(0),
        }
    }
}

/// Tables use the other number: were it this one, some of the few bits by which they tell neighbours apart would be the same
/// in all of a shard.
fn shard_of(digest: Digest) -> usize {
    (digest.number() >> 60) as usize % SHARDS
}

/// A locked shard that brings the sums up to date when it is let go.
struct Held<'a> {
    index: &'a Index,
    shard: MutexGuard<'a, Shard>,
    before: (usize, u64, usize, usize),
}

fn sums(shard: &Shard) -> (usize, u64, usize, usize) {
    (shard.count, shard.blocks, shard.memory.bytes, shard.memory.descriptors)
}

impl Held<'_> {
    /// Whether the entry was purged since that stamp; known while something watches it.
    fn is_purged(&self, digest: Digest, began: u64) -> bool {
        self.shard.fills.get(&digest).is_some_and(|fills| fills.purged >= began)
    }

    /// What was known of the key besides is over with an entry that has a file.
    fn store(&mut self, digest: Digest, blocks: u32, now: i64, object: Option<Arc<Object>>) {
        if blocks > 0 {
            self.shard.errors.remove(&digest);
            self.shard.unstorable.remove(&digest);
        }
        self.shard.insert(digest, blocks, now as u32, object);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let (before, now) = (self.before, sums(&self.shard));
        if before != now {
            // Differences wrap around; the sums come out right.
            self.index.count.fetch_add(now.0.wrapping_sub(before.0), Ordering::Relaxed);
            self.index.blocks.fetch_add(now.1.wrapping_sub(before.1), Ordering::Relaxed);
            self.index.memory_bytes.fetch_add(now.2.wrapping_sub(before.2), Ordering::Relaxed);
            self.index.descriptors.fetch_add(now.3.wrapping_sub(before.3), Ordering::Relaxed);
        }
    }
}

impl Index {
    fn hold_at(&self, at: usize) -> Held<'_> {
        // Nothing that can panic half-way runs under this lock.
        let shard = self.shards[at].lock().unwrap_or_else(PoisonError::into_inner);
        let before = sums(&shard);
        Held { index: self, shard, before }
    }

    fn hold(&self, digest: Digest) -> Held<'_> {
        self.hold_at(shard_of(digest))
    }

    /// Looks an entry up; with `counts` the use is counted, also of one that is not there.
    pub fn look(&self, digest: Digest, now: i64, counts: bool) -> Look {
        let mut held = self.hold(digest);
        let shard = &mut held.shard;
        if !shard.errors.is_empty() {
            match shard.errors.get(&digest) {
                Some((status, until)) if *until >= now => return Look::Error(*status),
                Some(_) => {
                    shard.errors.remove(&digest);
                }
                None => {}
            }
        }
        match shard.touch(digest, now as u32, counts) {
            Some((_, Some(object), _)) => Look::Object(object),
            Some((true, None, _)) => Look::File,
            Some((false, None, uses)) => Look::Nothing(uses),
            None => {
                if counts {
                    shard.insert(digest, 0, now as u32, None);
                }
                Look::Nothing(1)
            }
        }
    }

    /// Whether there is a file of it.
    pub fn has_file(&self, digest: Digest) -> bool {
        self.hold(digest).shard.get(digest).is_some_and(|entry| entry.blocks > 0)
    }

    /// The object, if it is in memory, without counting as use.
    pub fn peek(&self, digest: Digest) -> Option<Arc<Object>> {
        self.hold(digest).shard.object(digest).cloned()
    }

    /// Adds an entry, or replaces it: its blocks on disk, and the object if it is kept in memory, too.
    pub fn insert(&self, digest: Digest, blocks: u32, now: i64, object: Option<Arc<Object>>) {
        self.hold(digest).store(digest, blocks, now, object);
    }

    /// As [`Index::insert`], for an answer whose fill began at that stamp; false, and nothing is done, if its entry was purged since, or
    /// `is_hidden` says that a purge of many is about it. In one step: a purge comes before it and is seen, or behind it and finds the entry.
    pub fn insert_fill(
        &self,
        object: Arc<Object>,
        blocks: u32,
        now: i64,
        began: u64,
        is_hidden: impl FnOnce() -> bool,
    ) -> bool {
        let digest = object.digest;
        let mut held = self.hold(digest);
        if held.is_purged(digest, began) || is_hidden() {
            return false;
        }
        held.store(digest, blocks, now, Some(object));
        true
    }

    /// Puts `fresh` in the place of `old`, if that is still the entry; false: it was purged, removed, replaced, or left the memory. In one step,
    /// so that no purge is undone.
    pub fn renew(
        &self,
        old: &Arc<Object>,
        fresh: Arc<Object>,
        blocks: u32,
        now: i64,
        is_hidden: impl FnOnce() -> bool,
    ) -> bool {
        let mut held = self.hold(old.digest);
        let is_there = held.shard.object(old.digest).is_some_and(|have| Arc::ptr_eq(have, old));
        if !is_there || is_hidden() {
            return false;
        }
        held.store(old.digest, blocks, now, Some(fresh));
        true
    }

    /// Adds entries that were found on disk, unless they are known.
    pub fn learn(&self, found: &mut [Seen], used: i64) {
        self.with_found(found, |shard, seen| {
            shard.learn(seen.digest, seen.bytes.map(blocks), used as u32);
        });
    }

    /// Gives entries that were learnt by name only their sizes.
    pub fn measure(&self, found: &mut [Seen]) {
        self.with_found(found, |shard, seen| {
            if let Some(bytes) = seen.bytes {
                shard.measure(seen.digest, blocks(bytes));
            }
        });
    }

    /// One lock for all of a shard.
    fn with_found(&self, found: &mut [Seen], mut note: impl FnMut(&mut Shard, &Seen)) {
        found.sort_unstable_by_key(|seen| shard_of(seen.digest));
        for same in found.chunk_by(|one, other| shard_of(one.digest) == shard_of(other.digest)) {
            let mut held = self.hold(same[0].digest);
            same.iter().for_each(|seen| note(&mut held.shard, seen));
        }
    }

    /// Removes an entry; true if it had a file.
    pub fn remove(&self, digest: Digest) -> bool {
        self.hold(digest).shard.remove(digest).is_some_and(|blocks| blocks > 0)
    }

    /// Removes the entry if this is still its object.
    pub fn remove_object(&self, object: &Arc<Object>) {
        let mut held = self.hold(object.digest);
        if held.shard.object(object.digest).is_none_or(|have| Arc::ptr_eq(have, object)) {
            held.shard.remove(object.digest);
        }
        object.flag.lower();
    }

    /// Removes an entry from memory; its file stays.
    pub fn forget_object(&self, digest: Digest) {
        self.hold(digest).shard.forget_object(digest);
    }

    /// Stores a status without a body, and until when, in seconds since 1970; not if it was purged since its question began, as
    /// [`Index::insert_fill`].
    pub fn set_error(
        &self,
        digest: Digest,
        error: (u16, i64),
        now: i64,
        began: u64,
        is_hidden: impl FnOnce() -> bool,
    ) {
        let mut held = self.hold(digest);
        if held.is_purged(digest, began) || is_hidden() {
            return;
        }
        let errors = &mut held.shard.errors;
        if errors.len() >= ERRORS_MAX {
            errors.retain(|_, (_, until)| *until >= now);
        }
        // Beyond the limit the back end is asked again: requests for ever new names must not fill the memory.
        if errors.len() < ERRORS_MAX || errors.contains_key(&digest) {
            errors.insert(digest, error);
        }
    }

    /// Forgets all of these.
    pub fn clear_errors(&self) {
        (0..SHARDS).for_each(|at| self.hold_at(at).shard.errors.clear());
    }

    /// How many in memory match.
    pub fn count_objects(&self, matches: impl Fn(&Object) -> bool) -> usize {
        let count =
            |at: usize| self.hold_at(at).shard.memory.iter().filter(|(_, object)| matches(object)).count();
        (0..SHARDS).map(count).sum()
    }

    /// Removes all in memory that match.
    pub fn remove_matching(&self, matches: impl Fn(&Object) -> bool) -> Vec<Digest> {
        (0..SHARDS).flat_map(|at| self.hold_at(at).shard.remove_matching(&matches)).collect()
    }

    /// Takes the right to bring an entry up to date; a request that has had it for `age_ms` loses it.
    pub fn lock(&self, digest: Digest, now_ms: u64, age_ms: u64) -> Lock {
        let mut held = self.hold(digest);
        let busy = held.shard.busy.entry(digest).or_default();
        if busy.ticket != 0 && now_ms < busy.until_ms {
            return Lock::Busy;
        }
        busy.ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        busy.until_ms = now_ms.saturating_add(age_ms);
        Lock::Taken(busy.ticket)
    }

    /// Whether a request has the right, and until when at the latest.
    pub fn locked_until(&self, digest: Digest, now_ms: u64) -> Option<u64> {
        let held = self.hold(digest);
        held.shard.busy.get(&digest).map(|busy| busy.until_ms).filter(|until| now_ms < *until)
    }

    /// Registers to be woken when the right is given back; false if no request has it.
    pub fn wait(&self, digest: Digest, waker: &Waker) -> bool {
        let mut held = self.hold(digest);
        let Some(busy) = held.shard.busy.get_mut(&digest) else { return false };
        if !busy.wakers.iter().any(|have| have.will_wake(waker)) {
            busy.wakers.push(waker.clone());
        }
        true
    }

    /// Gives the right back and wakes those that wait. With `unstorable_until_ms` they need not try one by one.
    pub fn unlock(&self, digest: Digest, ticket: u64, unstorable_until_ms: Option<u64>) {
        let wakers = {
            let mut held = self.hold(digest);
            if let Some(until) = unstorable_until_ms {
                note_unstorable(&mut held.shard, digest, until);
            }
            match held.shard.busy.get(&digest) {
                Some(Busy { ticket: have, .. }) if *have == ticket => {
                    held.shard.busy.remove(&digest).map(|busy| busy.wakers)
                }
                _ => None,
            }
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether the last answer could not be stored, so that waiting for another's is in vain.
    pub fn is_unstorable(&self, digest: Digest, now_ms: u64) -> bool {
        let mut held = self.hold(digest);
        match held.shard.unstorable.get(&digest) {
            Some(until) if now_ms < *until => true,
            Some(_) => {
                held.shard.unstorable.remove(&digest);
                false
            }
            None => false,
        }
    }

    /// An answer for this entry is being stored.
    pub fn begin_fill(&self, digest: Digest) {
        self.hold(digest).shard.fills.entry(digest).or_default().count += 1;
    }

    /// Ends a fill: its entry is there, or there will be none.
    pub fn end_fill(&self, digest: Digest) {
        let mut held = self.hold(digest);
        let Some(fills) = held.shard.fills.get_mut(&digest) else { return };
        fills.count -= 1;
        if fills.count == 0 {
            held.shard.fills.remove(&digest);
        }
    }

    /// Removes an entry and makes fills of it void that began up to `stamp`.
    pub fn purge(&self, digest: Digest, stamp: u64) -> bool {
        let mut held = self.hold(digest);
        if let Some(fills) = held.shard.fills.get_mut(&digest) {
            fills.purged = stamp;
        }
        held.shard.errors.remove(&digest);
        held.shard.remove(digest).is_some_and(|blocks| blocks > 0)
    }

    /// The entry used longest ago of all.
    pub fn oldest(&self) -> Option<Entry> {
        (0..SHARDS).filter_map(|at| self.hold_at(at).shard.oldest()).min_by_key(|entry| entry.used)
    }

    /// Removes entries unused since `before`, at most `max`; gives those with files.
    pub fn expire(&self, before: i64, max: usize) -> Vec<Digest> {
        let mut out = Vec::new();
        for at in 0..SHARDS {
            let mut held = self.hold_at(at);
            while out.len() < max
                && let Some(entry) = held.shard.oldest().filter(|entry| i64::from(entry.used) < before)
            {
                held.shard.remove(entry.digest);
                if entry.blocks > 0 {
                    out.push(entry.digest);
                }
            }
        }
        out
    }

    /// Gives memory up until limits are kept; begins with the shard of what was put in last.
    pub fn shrink_memory(&self, bytes_max: usize, descriptors_max: usize, from: Digest) {
        let start = shard_of(from);
        for at in (start..SHARDS).chain(0..start).cycle().take(SHARDS * 2) {
            let mut held = self.hold_at(at);
            // Half of the room is everybody's: one shard is not emptied for the others.
            while self.is_over(&held, bytes_max, descriptors_max) {
                if !held.shard.shrink_memory() {
                    break;
                }
            }
            drop(held);
            if self.memory_bytes() <= bytes_max && self.descriptors() <= descriptors_max {
                return;
            }
        }
    }

    fn is_over(&self, held: &Held<'_>, bytes_max: usize, descriptors_max: usize) -> bool {
        let others = |sum: usize, before: usize| sum.wrapping_sub(before);
        let bytes = others(self.memory_bytes(), held.before.2).wrapping_add(held.shard.memory.bytes);
        let descriptors =
            others(self.descriptors(), held.before.3).wrapping_add(held.shard.memory.descriptors);
        bytes > bytes_max || descriptors > descriptors_max
    }

    /// Entries.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes of files, in whole blocks.
    pub fn disk_bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed) * BLOCK_BYTES
    }

    /// Bytes of the memory tier.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Descriptors that the memory tier holds.
    pub fn descriptors(&self) -> usize {
        self.descriptors.load(Ordering::Relaxed)
    }

    /// Bytes that the index takes.
    pub fn index_bytes(&self) -> usize {
        (0..SHARDS).map(|at| self.hold_at(at).shard.index_bytes()).sum()
    }

    /// Bytes of tags in memory.
    pub fn tag_bytes(&self) -> usize {
        (0..SHARDS).map(|at| self.hold_at(at).shard.memory.tag_bytes).sum()
    }

    /// The names of all entries with files.
    pub fn files(&self) -> Vec<Digest> {
        let of =
            |at: usize| -> Vec<Digest> { self.hold_at(at).shard.files().map(|entry| entry.digest).collect() };
        (0..SHARDS).flat_map(of).collect()
    }
}

fn note_unstorable(shard: &mut Shard, digest: Digest, until_ms: u64) {
    if shard.unstorable.len() >= UNSTORABLE_MAX {
        shard.unstorable.clear();
    }
    shard.unstorable.insert(digest, until_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u32) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn one_has_the_right_until_it_is_given_back_or_too_old() {
        let index = Index::default();
        let Lock::Taken(first) = index.lock(digest(1), 0, 100) else { panic!("free") };
        assert_eq!(index.lock(digest(1), 99, 100), Lock::Busy);
        let Lock::Taken(second) = index.lock(digest(1), 100, 100) else { panic!("too old") };
        // The first one's time is over: giving back what it has lost changes nothing.
        index.unlock(digest(1), first, None);
        assert_eq!(index.lock(digest(1), 150, 100), Lock::Busy);
        assert!(index.wait(digest(1), Waker::noop()));
        index.unlock(digest(1), second, Some(1000));
        assert!(!index.wait(digest(1), Waker::noop()));
        assert!(index.is_unstorable(digest(1), 999) && !index.is_unstorable(digest(1), 1000));
    }

    #[test]
    fn a_purge_makes_fills_void() {
        let index = Index::default();
        index.begin_fill(digest(1));
        index.begin_fill(digest(1));
        index.insert(digest(1), 1, 5, None);
        assert!(index.purge(digest(1), 1000));
        let object = crate::shard::tests::object(1, 10);
        let insert = |began, is_hidden: bool| index.insert_fill(object.clone(), 1, 5, began, || is_hidden);
        assert!(!insert(999, false) && !insert(1000, false) && !insert(1001, true));
        index.end_fill(digest(1));
        assert!(!insert(1000, false), "another one is under way still");
        index.end_fill(digest(1));
        index.begin_fill(digest(1));
        assert!(!index.has_file(digest(1)));
        assert!(insert(999, false) && index.has_file(digest(1)));
        assert!(index.purge(digest(1), 2000));
        index.end_fill(digest(1));
        assert!(!index.purge(digest(1), 2000));
    }

    #[test]
    fn a_renewed_entry_is_known_instead_of_an_error() {
        let index = Index::default();
        let (old, fresh) = (crate::shard::tests::object(1, 10), crate::shard::tests::object(1, 10));
        index.insert(digest(1), 1, 5, Some(old.clone()));
        index.set_error(digest(1), (502, 100), 5, 0, || false);
        assert!(matches!(index.look(digest(1), 6, false), Look::Error(502)));
        assert!(!index.renew(&old, fresh.clone(), 1, 6, || true));
        assert!(index.renew(&old, fresh.clone(), 1, 6, || false));
        assert!(matches!(index.look(digest(1), 6, false), Look::Object(have) if Arc::ptr_eq(&have, &fresh)));
        assert!(!index.renew(&old, fresh, 1, 6, || false), "it is not the entry any more");
    }

    #[test]
    fn statuses_are_bounded_and_end_with_a_purge() {
        let index = Index::default();
        let is_error = |number| matches!(index.look(digest(number), 6, false), Look::Error(_));
        index.begin_fill(digest(1));
        index.purge(digest(1), 1000);
        index.set_error(digest(1), (404, 100), 5, 1000, || false);
        index.set_error(digest(1), (404, 100), 5, 1001, || true);
        assert!(!is_error(1), "the question came before a purge");
        index.set_error(digest(1), (404, 100), 5, 1001, || false);
        assert!(is_error(1));
        index.clear_errors();
        assert!(!is_error(1));
        let most = (SHARDS * ERRORS_MAX) as u32;
        (0..2 * most).for_each(|number| index.set_error(digest(number), (404, 100), 5, 0, || false));
        let count = || (0..SHARDS).map(|at| index.hold_at(at).shard.errors.len()).sum::<usize>();
        assert_eq!(count(), SHARDS * ERRORS_MAX);
        // Those whose time is over make room.
        index.set_error(digest(2 * most), (404, 200), 101, 0, || false);
        assert!(is_error(2 * most) && count() <= SHARDS * ERRORS_MAX - ERRORS_MAX + 1);
    }

    #[test]
    fn entries_are_counted_and_expire() {
        let index = Index::default();
        for number in 0..100 {
            index.insert(digest(number), 2, i64::from(number), None);
        }
        assert_eq!((index.count(), index.disk_bytes()), (100, 200 * BLOCK_BYTES));
        assert_eq!(index.oldest().unwrap().digest, digest(0));
        let gone = index.expire(10, 1000);
        assert_eq!((gone.len(), index.count()), (10, 90));
        assert!(matches!(index.look(digest(3), 200, true), Look::Nothing(1)));
        // Looks alone are not counted: a request may look more than once.
        assert!(matches!(index.look(digest(3), 200, false), Look::Nothing(1)));
        assert!(matches!(index.look(digest(3), 200, true), Look::Nothing(2)));
        assert!(matches!(index.look(digest(50), 200, true), Look::File));
    }

    #[test]
    fn what_is_learnt_by_name_is_measured_once() {
        let index = Index::default();
        let seen = |number, bytes| Seen { digest: digest(number), bytes };
        index.insert(digest(1), 5, 3, None);
        index.look(digest(2), 3, true);
        index.learn(&mut [seen(1, None), seen(2, None), seen(3, None), seen(4, Some(2 * BLOCK_BYTES))], 4);
        let blocks = || index.disk_bytes() / BLOCK_BYTES;
        // 5 is known, 2 was counted only, two sizes are not known yet.
        assert_eq!((index.count(), blocks(), index.files().len()), (4, 5 + 1 + 1 + 2, 4));
        index.insert(digest(3), 7, 5, None);
        index.remove(digest(4));
        let mut all = [1, 2, 3, 4].map(|number| seen(number, Some(3 * BLOCK_BYTES)));
        index.measure(&mut all);
        // What was written meanwhile is larger than what was seen; what has gone stays away.
        assert_eq!((index.count(), blocks()), (3, 5 + 3 + 7));
        index.measure(&mut [seen(2, Some(9 * BLOCK_BYTES))]);
        assert_eq!(blocks(), 5 + 3 + 7);
    }

    #[test]
    fn errors_are_answered_for_their_time() {
        let index = Index::default();
        index.set_error(digest(1), (404, 10), 5, 0, || false);
        assert!(matches!(index.look(digest(1), 10, false), Look::Error(404)));
        assert!(matches!(index.look(digest(1), 11, false), Look::Nothing(_)));
    }
}
