//! The cache as its users see it.

use crate::digest::Digest;
use crate::disk::{self, LoadError};
use crate::fill::Report;
use crate::format::{self, FormatError, Meta, OF_HEAD};
use crate::housekeeping::{self, Bell, Pace};
use crate::index::{Index, Lock, Look};
use crate::limits::{BODY_BYTES_MAX, DESCRIPTORS_MAX};
use crate::object::{Body, Identity, Object};
use crate::order::Order;
use crate::purge::{Pattern, Purge, Rule, Rules, STAMPS_PER_MS};
use crate::shard::{BLOCK_BYTES, blocks};
use brisk_net::tally::Tally;
use brisk_net::{Content, blocking, clock, fault, file};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

/// How long an answer that could not be stored keeps others from waiting for one another.
const UNSTORABLE_MS: u64 = 3000;

/// What can change with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes on disk.
    pub bytes_max: Option<u64>,
    /// Entries in the index.
    pub entries_max: usize,
    /// Entries that are not asked for in this time go.
    pub inactive: Duration,
    /// Bytes of the file system that stay free.
    pub min_free: u64,
    /// Bytes of the memory tier.
    pub memory_bytes_max: usize,
    /// `None`: as fast as it goes.
    pub loader: Option<Pace>,
    /// For the task that removes what is not used; `None`: as fast as it goes.
    pub manager: Option<Pace>,
    /// `purger=on`: what is purged is looked for on disk; the inner `None`: as fast as it goes.
    pub purger: Option<Option<Pace>>,
}

/// What is known of an entry at once.
pub enum Found {
    /// It is in memory.
    Object(Arc<Object>),
    /// It may be on disk: [`Cache::load`]; how often it was asked for, as far as that is counted.
    Load(u16),
    /// This status was stored without a body.
    Error(u16),
    /// It is not there; how often it was asked for, this time included.
    Nothing(u16),
}

/// For `brisk cache stats` and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries of the index.
    pub entries: usize,
    /// Bytes of files.
    pub disk_bytes: u64,
    /// The most of them; `None`: no limit.
    pub disk_bytes_max: Option<u64>,
    /// Bytes of the memory tier.
    pub memory_bytes: usize,
    /// The most of them.
    pub memory_bytes_max: usize,
    /// Bytes of tags: those of answers in memory, as part of `memory_bytes`; the others are on disk.
    pub tag_bytes: usize,
    /// Bytes that the index takes.
    pub index_bytes: usize,
    /// The disk has not been read to its end yet.
    pub loading: bool,
    /// Requests that were answered from memory or disk.
    pub hits: u64,
    /// Requests that were not.
    pub misses: u64,
    /// Answers that were stored.
    pub stored: u64,
    /// Entries that were removed for want of room.
    pub evicted: u64,
    /// Tags that answers had beyond the limits.
    pub tags_dropped: u64,
    /// Purges of many that are still in force.
    pub purges: usize,
}

/// See the crate's head.
pub struct Cache {
    pub(crate) folder: PathBuf,
    pub(crate) levels: Box<[u8]>,
    settings: RwLock<Arc<Settings>>,
    pub(crate) index: Index,
    pub(crate) rules: Rules,
    /// Held while the rules are written to their file.
    pub(crate) saving: Mutex<()>,
    pub(crate) order: Arc<Order>,
    /// Bytes of temporary files: answers on their way, which the index does not know.
    on_the_way: AtomicU64,
    cold: AtomicBool,
    started: AtomicBool,
    bell: Arc<Bell>,
    reporter: Mutex<Option<Report>>,
    families: AtomicU64,
    /// See [`Cache::stamp`].
    stamps: AtomicU64,
    /// Requests that were answered from memory or disk; callers count.
    pub hits: Tally,
    /// Requests that were not; callers count.
    pub misses: AtomicU64,
    stored: AtomicU64,
    evicted: AtomicU64,
    tags_dropped: AtomicU64,
}

/// Bytes of a temporary file, counted until it has its place or is gone.
pub(crate) struct Reserved {
    cache: Arc<Cache>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.cache.on_the_way.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Cache {
    /// A cache in `folder`, whose files lie below `levels` of folders. Nothing is read before [`Cache::start`].
    pub fn new(folder: &Path, levels: &[u8], settings: Settings) -> Arc<Cache> {
        Arc::new(Cache {
            folder: folder.to_owned(),
            levels: levels.into(),
            settings: RwLock::new(Arc::new(settings)),
            index: Index::default(),
            rules: Rules::default(),
            saving: Mutex::default(),
            order: Arc::default(),
            on_the_way: AtomicU64::new(0),
            cold: AtomicBool::new(true),
            started: AtomicBool::new(false),
            bell: Arc::default(),
            reporter: Mutex::default(),
            // Another number in each process, so that no family comes back.
            families: AtomicU64::new(disk::unix_now_ms() << 20),
            stamps: AtomicU64::new(disk::unix_now_ms() * STAMPS_PER_MS),
            hits: Tally::default(),
            misses: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            tags_dropped: AtomicU64::new(0),
        })
    }

    /// Begins to learn what is on disk, in the background; only once.
    pub fn start(self: &Arc<Cache>) {
        if self.started.swap(true, Ordering::Relaxed) {
            return;
        }
        self.load_rules();
        let (weak, bell) = (Arc::downgrade(self), self.bell.clone());
        let work = move || housekeeping::run(&weak, &bell);
        if std::thread::Builder::new().name("brisk-cache".into()).spawn(work).is_err() {
            // Without the thread limits are kept when something is stored; nothing else depends on it.
            self.set_warm();
        }
    }

    /// Where errors that belong to no request go.
    pub fn set_report(&self, report: Report) {
        *self.reporter.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    pub(crate) fn report(&self, text: &str) {
        let report = self.reporter.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(report) = report {
            report(text);
        }
    }

    /// The present settings.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Other settings from now on, as after a reload.
    pub fn configure(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.bell.ring();
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of an entry, whether it exists or not.
    pub fn path(&self, digest: Digest) -> PathBuf {
        digest.path(&self.folder, &self.levels)
    }

    pub(crate) fn set_warm(&self) {
        self.cold.store(false, Ordering::Release);
    }

    /// A number for the variants of a key that is stored for the first time.
    pub fn new_family(&self) -> u64 {
        self.families.fetch_add(1, Ordering::Relaxed)
    }

    /// The present moment for purges: what begins now is not touched by purges that are over, and is by those that come.
    pub fn stamp(&self) -> u64 {
        self.stamps.load(Ordering::Acquire)
    }

    /// The last stamp that a purge is about.
    pub(crate) fn purge_stamp(&self) -> u64 {
        let now = disk::unix_now_ms() * STAMPS_PER_MS;
        let next = |stamp: u64| Some(now.max(stamp + 1));
        match self.stamps.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
            Ok(before) | Err(before) => now.max(before + 1) - 1,
        }
    }

    /// Looks an entry up at `now` (seconds since 1970) and counts the use. With `counts` uses of what is not there
    /// are counted too.
    ///
    /// Once per second the file is looked at, without waiting for the disk: if it was removed, the entry is gone.
    pub fn find(&self, digest: Digest, now: i64, counts: bool) -> Found {
        match self.index.look(digest, now, counts) {
            // For a test that compares answers from memory with those from the disk.
            Look::Object(object)
                if fault::is_ordered("no-memory-hits") && object.identity.get().is_some() =>
            {
                self.index.forget_object(digest);
                Found::Load(1)
            }
            Look::Object(object) => self.confirm(object, now),
            Look::File => Found::Load(1),
            Look::Error(status) => Found::Error(status),
            Look::Nothing(uses) if self.cold.load(Ordering::Acquire) => Found::Load(uses),
            Look::Nothing(uses) => Found::Nothing(uses),
        }
    }

    fn confirm(&self, object: Arc<Object>, now: i64) -> Found {
        let Some(identity) = object.identity.get().copied() else { return Found::Object(object) };
        if !object.is_due(now) {
            return Found::Object(object);
        }
        let found = file::locate_warm(&self.path(object.digest)).and_then(file::info);
        match found {
            Ok(info) if (info.device, info.inode) == identity => Found::Object(object),
            Err(error) if disk::is_missing(&error) => {
                self.index.remove_object(&object);
                Found::Nothing(1)
            }
            // Another process has written it anew, or it cannot be told without waiting.
            _ => {
                self.index.forget_object(object.digest);
                Found::Load(1)
            }
        }
    }

    /// Reads an entry from the disk; `None` if there is none, or none that is valid.
    pub async fn load(self: &Arc<Cache>, digest: Digest) -> io::Result<Option<Arc<Object>>> {
        let path = self.path(digest);
        let body_max = self.body_bytes_max();
        // As an answer from the back end: a purge from here on is about it.
        let began = self.stamp();
        let _purges = self.watch(digest);
        let loaded = {
            let path = path.clone();
            match blocking::run(move || disk::load(&path, digest, body_max)) {
                Ok(job) => job.await,
                Err(blocking::QueueFull) => {
                    return Err(io::Error::other("the queue of the thread pool is full"));
                }
            }
        };
        match loaded {
            Ok(Some(object)) if self.rules.hides(&object.meta) => {
                self.drop_entry(digest);
                Ok(None)
            }
            Ok(Some(object)) => {
                // A newer one that was stored meanwhile stays.
                if let Some(newer) = self.index.peek(digest) {
                    return Ok(Some(newer));
                }
                object.note_checked(clock::now().unix_secs);
                let object = Arc::new(object);
                let bytes = u64::from(object.header_bytes) + object.body.len();
                let (now, is_hidden) = (clock::now().unix_secs, || self.rules.hides(&object.meta));
                if !self.index.insert_fill(object.clone(), blocks(bytes), now, began, is_hidden) {
                    return Ok(None);
                }
                self.shrink_memory(digest);
                Ok(Some(object))
            }
            Ok(None) => {
                self.index.remove(digest);
                Ok(None)
            }
            Err(LoadError::Format(FormatError::Foreign)) => Ok(None),
            Err(LoadError::Format(error)) => {
                self.drop_entry(digest);
                Err(io::Error::other(format!("cache file \"{}\" {error}", path.display())))
            }
            Err(LoadError::Io(error)) => Err(error),
        }
    }

    fn shrink_memory(&self, latest: Digest) {
        let bytes_max = self.settings().memory_bytes_max;
        if self.index.memory_bytes() > bytes_max || self.index.descriptors() > DESCRIPTORS_MAX {
            self.index.shrink_memory(bytes_max, DESCRIPTORS_MAX, latest);
        }
    }

    pub(crate) fn body_bytes_max(&self) -> u64 {
        BODY_BYTES_MAX.min(self.settings().memory_bytes_max as u64 / 4)
    }

    /// Larger answers are not stored.
    pub(crate) fn entry_bytes_max(&self) -> u64 {
        self.settings().bytes_max.unwrap_or(u64::MAX)
    }

    /// A new entry, whose fill began at that stamp, is complete; false if it was purged since: then it is none. At `now` (seconds since 1970).
    pub(crate) fn publish(&self, object: &Arc<Object>, bytes: u64, began: u64, now: i64) -> bool {
        object.note_checked(now);
        let is_hidden = || self.rules.hides(&object.meta);
        if !self.index.insert_fill(object.clone(), blocks(bytes), now, began, is_hidden) {
            return false;
        }
        self.stored.fetch_add(1, Ordering::Relaxed);
        self.shrink_memory(object.digest);
        true
    }

    /// Its file is in its place.
    pub(crate) fn placed(&self, object: &Arc<Object>, identity: Identity, bytes: u64) {
        let _ = object.identity.set(identity);
        if object.flag.is_up() && !self.index.has_file(object.digest) {
            // It was pushed out of the index before it was written.
            self.index.insert(object.digest, blocks(bytes), disk::unix_now(), None);
        } else if !object.flag.is_up() && !self.index.has_file(object.digest) {
            // It was purged before it was written.
            self.unlink(object.digest);
        }
    }

    /// Puts other terms and another head to a stored body (a 304 has come). Gives the new entry; the disk follows. If the entry was purged
    /// meanwhile, has left the memory, or another one is in its place, what is given is for the present client only.
    pub fn freshen(self: &Arc<Cache>, object: &Arc<Object>, meta: Meta, report: Report) -> Arc<Object> {
        let (body, crc) = (object.body.clone(), object.body_crc);
        let in_place = format::encode_in(&meta, body.len(), crc, object.header_bytes as usize);
        let is_in_place = in_place.is_some();
        let Some(header) = in_place.or_else(|| format::encode(&meta, body.len(), crc)) else {
            return object.clone();
        };
        // The file whose header is written anew in its place, if that can be done.
        let same_file = object.identity.get().copied().filter(|_| is_in_place);
        let body = match body {
            // They will stand in another file.
            Body::Memory(bytes) if same_file.is_none() => {
                Body::Memory(Arc::new(Content::new((**bytes).clone())))
            }
            // The old descriptor holds the old file, and its body is the same.
            body => body,
        };
        let fresh = Arc::new(Object::new(object.digest, meta, body.clone(), header.len() as u32, crc));
        if let Some(identity) = same_file {
            let _ = fresh.identity.set(identity);
        }
        fresh.note_checked(clock::now().unix_secs);
        let bytes = header.len() as u64 + body.len();
        let is_hidden = || self.rules.hides(&fresh.meta);
        let now = clock::now().unix_secs;
        let is_entry = self.index.renew(object, fresh.clone(), blocks(bytes), now, is_hidden);
        if !is_entry {
            fresh.flag.lower();
            return fresh;
        }
        let (cache, path, stored) = (self.clone(), self.path(object.digest), fresh.clone());
        let write = self.order.begin(object.digest);
        let job = move || {
            let written = match (same_file, &body) {
                // The identity alone does not tell: the file of another answer may have got the inode of one that was removed.
                (Some(identity), _) => cache.order.alone(stored.digest, || {
                    let is_entry =
                        cache.index.peek(stored.digest).is_some_and(|have| Arc::ptr_eq(&have, &stored));
                    let rewritten = is_entry.then(|| disk::rewrite_header(&path, identity, &header));
                    rewritten.transpose().map(|_| None)
                }),
                (None, Body::Memory(body)) => {
                    let written = disk::write(&path, &header, body);
                    written.and_then(|temp| write.place(|| temp.place_of(body, header.len())))
                }
                (None, Body::File { fd, offset, len }) => {
                    let copied = disk::copy_with_header(&path, &header, fd, *offset, *len);
                    copied.and_then(|temp| write.place(|| temp.place()))
                }
            };
            match written {
                Ok(Some(identity)) => cache.placed(&stored, identity, bytes),
                Ok(None) => {}
                Err(error) => report(&format!("updating \"{}\" failed ({error})", path.display())),
            }
        };
        let _ = blocking::run(job);
        fresh
    }

    /// Removes an entry and its file.
    pub fn drop_entry(self: &Arc<Cache>, digest: Digest) {
        self.index.remove(digest);
        let cache = self.clone();
        let _ = blocking::run(move || cache.unlink(digest));
    }

    /// As [`Cache::drop_entry`], unless another object has taken this one's place.
    pub fn drop_object(self: &Arc<Cache>, object: &Arc<Object>) {
        self.index.remove_object(object);
        let (cache, digest) = (self.clone(), object.digest);
        let _ = blocking::run(move || cache.unlink(digest));
    }

    /// Removes a file, unless it belongs to an entry again: an entry whose file gets its place meanwhile is in the index before.
    pub(crate) fn unlink(&self, digest: Digest) -> bool {
        let path = self.path(digest);
        // The last close of a large file frees its blocks, which takes time: not under the lock that event loops take, too.
        let _open = file::open(&path);
        let remove = || (!self.index.has_file(digest)).then(|| disk::remove(&path)).transpose();
        match self.order.alone(digest, remove) {
            Ok(was_there) => was_there.unwrap_or(false),
            Err(error) => {
                self.report(&format!("unlink() \"{}\" failed ({error})", self.path(digest).display()));
                false
            }
        }
    }

    pub(crate) fn is_full(&self, more_bytes: u64) -> bool {
        let settings = self.settings();
        let more = more_bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES + self.on_the_way.load(Ordering::Relaxed);
        settings.bytes_max.is_some_and(|max| self.index.disk_bytes() + more > max)
            || self.index.count() > settings.entries_max
    }

    /// Removes what was used longest ago; false if there is nothing to remove.
    pub(crate) fn evict_oldest(&self) -> bool {
        let Some(oldest) = self.index.oldest() else { return false };
        self.index.remove(oldest.digest);
        self.evicted.fetch_add(1, Ordering::Relaxed);
        if oldest.blocks > 0 {
            self.unlink(oldest.digest);
        }
        true
    }

    /// Counts bytes that are about to be written to a temporary file. `None`: answers on their way would take all of the
    /// cache's room.
    pub(crate) fn reserve(self: &Arc<Cache>, bytes: u64) -> Option<Reserved> {
        let reserved = Reserved { cache: self.clone(), bytes };
        let all = self.on_the_way.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.settings().bytes_max.is_none_or(|max| all <= max).then_some(reserved)
    }

    /// Before so many bytes are added: on the pool. The entry itself may be counted already.
    pub(crate) fn make_room(&self, bytes: u64, digest: Option<Digest>) {
        let more = if digest.is_some_and(|digest| self.index.has_file(digest)) { 0 } else { bytes };
        // One that is larger than all is its own business.
        for _ in 0..100_000 {
            if !self.is_full(more) || !self.evict_oldest() {
                return;
            }
        }
    }

    /// Takes the right to ask for an entry; it is given back when the result is dropped.
    pub fn lock(self: &Arc<Cache>, digest: Digest, age: Duration) -> Option<Updating> {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        match self.index.lock(digest, clock::mono_ms(), age_ms) {
            Lock::Taken(ticket) => Some(Updating { cache: self.clone(), digest, ticket, in_vain: false }),
            Lock::Busy => None,
        }
    }

    /// Whether a request for the entry is on its way to the back end.
    pub fn is_locked(&self, digest: Digest) -> bool {
        self.index.locked_until(digest, clock::mono_ms()).is_some()
    }

    /// Waits until whoever asks for the entry has its answer, or until the time is over (`mono` milliseconds): false.
    pub async fn wait_unlocked(&self, digest: Digest, deadline_ms: u64) -> bool {
        loop {
            let now = clock::mono_ms();
            let Some(until) = self.index.locked_until(digest, now) else { return true };
            if now >= deadline_ms {
                return false;
            }
            let wait = until.min(deadline_ms).saturating_sub(now).max(1);
            let woken = poll_fn(|cx| {
                let is_busy = self.index.wait(digest, cx.waker());
                if is_busy && self.index.locked_until(digest, clock::mono_ms()).is_some() {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            });
            let _ = brisk_net::timeout(Duration::from_millis(wait), woken).await;
        }
    }

    /// Counts tags that an answer had beyond the limits; true for the first of all.
    pub fn note_dropped_tags(&self, count: u64) -> bool {
        self.tags_dropped.fetch_add(count, Ordering::Relaxed) == 0
    }

    /// Whether the last answer could not be stored: waiting for another's is in vain.
    pub fn is_unstorable(&self, digest: Digest) -> bool {
        self.index.is_unstorable(digest, clock::mono_ms())
    }

    /// Stores the status of an answer without its body, for as long as the answer would be fresh. One that depends on fields of requests is
    /// not stored: a status belongs to the key, and would be given to everybody.
    pub(crate) fn store_status(&self, digest: Digest, meta: &Meta, status: u16) {
        if meta.vary.is_empty() {
            let is_hidden = || self.rules.hides(meta);
            self.index.set_error(
                digest,
                (status, meta.terms.stale_at()),
                disk::unix_now(),
                meta.began,
                is_hidden,
            );
        }
    }

    /// Notes purges of an entry from here on, until the result is dropped: an answer that is asked for now is not stored after one.
    pub fn watch(self: &Arc<Cache>, digest: Digest) -> Watch {
        self.index.begin_fill(digest);
        Watch { cache: self.clone(), digest }
    }

    /// Removes one entry, whatever its variants; false if there was none.
    pub async fn purge_key(self: &Arc<Cache>, digest: Digest) -> bool {
        let was_known = self.index.purge(digest, self.purge_stamp());
        let cache = self.clone();
        let was_there = match blocking::run(move || cache.unlink(digest)) {
            Ok(job) => job.await,
            Err(blocking::QueueFull) => false,
        };
        was_known || was_there
    }

    /// As [`Cache::purge_key`], without waiting for the disk.
    pub fn purge_key_soon(self: &Arc<Cache>, digest: Digest) {
        self.index.purge(digest, self.purge_stamp());
        let cache = self.clone();
        let _ = blocking::run(move || cache.unlink(digest));
    }

    /// Hides whatever matches, at once. Gives how many entries were in memory.
    pub fn purge(self: &Arc<Cache>, pattern: Pattern) -> usize {
        let rule = Rule { pattern, stamp: self.purge_stamp() };
        let pattern = rule.pattern.clone();
        self.rules.add(rule);
        let gone = self.index.remove_matching(|object| pattern.matches(&object.meta));
        // Nothing tells which of them the pattern is about.
        self.index.clear_errors();
        let count = gone.len();
        let cache = self.clone();
        let _ = blocking::run(move || {
            for digest in gone {
                cache.unlink(digest);
            }
            cache.save_rules();
            cache.bell.ring();
        });
        count
    }

    /// Carries an order out, at once. Gives how many entries went that no file told of yet: whoever gives the order
    /// looks through the files himself.
    pub fn obey(self: &Arc<Cache>, order: &Purge) -> usize {
        let is_unwritten = |object: &Object| order.matches(&object.meta) && object.identity.get().is_none();
        let count = self.index.count_objects(is_unwritten);
        match order {
            Purge::Key(key) => {
                self.purge_key_soon(Digest::of(key));
                self.purge_key_soon(Digest::of(&[OF_HEAD, key].concat()));
                // Without the key's own entry its variants cannot be found, but they take room.
                let gone = self.index.remove_matching(|object| order.matches(&object.meta));
                let cache = self.clone();
                let _ = blocking::run(move || {
                    for digest in gone {
                        cache.unlink(digest);
                    }
                });
            }
            Purge::Many(pattern) => drop(self.purge(pattern.clone())),
        }
        count
    }

    /// The names of all entries with files.
    pub fn entries(&self) -> Vec<Digest> {
        self.index.files()
    }

    /// What it holds and has done, for reports.
    pub fn stats(&self) -> Stats {
        let settings = self.settings();
        Stats {
            entries: self.index.count(),
            disk_bytes: self.index.disk_bytes(),
            disk_bytes_max: settings.bytes_max,
            memory_bytes: self.index.memory_bytes(),
            memory_bytes_max: settings.memory_bytes_max,
            tag_bytes: self.index.tag_bytes(),
            index_bytes: self.index.index_bytes(),
            loading: self.cold.load(Ordering::Acquire),
            hits: self.hits.sum(),
            misses: self.misses.load(Ordering::Relaxed),
            stored: self.stored.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
            tags_dropped: self.tags_dropped.load(Ordering::Relaxed),
            purges: self.rules.count(),
        }
    }
}

/// See [`Cache::watch`].
pub struct Watch {
    cache: Arc<Cache>,
    digest: Digest,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cache.index.end_fill(self.digest);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.bell.ring();
    }
}

/// The right to ask for an entry.
pub struct Updating {
    cache: Arc<Cache>,
    digest: Digest,
    ticket: u64,
    in_vain: bool,
}

impl Updating {
    /// The answer could not be stored: requests that wait need not ask one after the other.
    pub fn note_unstorable(&mut self) {
        self.in_vain = true;
    }
}

impl Drop for Updating {
    fn drop(&mut self) {
        let until = self.in_vain.then(|| clock::mono_ms() + UNSTORABLE_MS);
        self.cache.index.unlock(self.digest, self.ticket, until);
    }
}

#[cfg(test)]
mod tests;
