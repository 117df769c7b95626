//! Answers that are ready to be sent again, byte for byte but for the date.
//!
//! Only answers that depend on nothing but host, target and files are kept (see
//! [`Purity`](crate::plan::Purity)), and they are used only while every file that was looked at is unchanged.

use crate::conf::{ListenId, LocationId, ServerId};
use crate::limits::{PREPARED_BYTES_MAX, PREPARED_ENTRIES_MAX};
use brisk_http::uri::Target;
use brisk_net::watch::Watch;
use hashbrown::HashMap;
use std::hash::BuildHasher as _;
use std::rc::Rc;

/// A kept answer.
pub struct Answer {
    /// Head and body.
    pub bytes: Box<[u8]>,
    /// Where the 29 bytes of the date are.
    pub date_at: usize,
    pub head_len: usize,
    pub status: u16,
    pub server: ServerId,
    pub location: LocationId,
    /// What variables would say: for the log.
    pub target: Target,
    pub uri: Box<[u8]>,
    pub args: Box<[u8]>,
    pub host: Box<[u8]>,
    pub watches: Box<[Watch]>,
    /// The last second in which it may be given.
    pub until: i64,
    pub has_log: bool,
}

impl Answer {
    fn holds(&self, now: i64) -> bool {
        now <= self.until && self.watches.iter().all(Watch::is_up)
    }
}

struct Entry {
    listen: ListenId,
    host: Box<[u8]>,
    target: Box<[u8]>,
    answer: Rc<Answer>,
}

/// One thread's kept answers for one configuration.
#[derive(Default)]
pub struct Prepared {
    map: HashMap<Key, Entry, hashbrown::DefaultHashBuilder>,
    bytes: usize,
}

/// The map is keyed by hash alone; the entry holds what is compared.
#[derive(PartialEq, Eq, Hash)]
struct Key(u64);

impl Prepared {
    fn hash(&self, listen: ListenId, host: &[u8], target: &[u8]) -> u64 {
        self.map.hasher().hash_one((listen.0, host, target))
    }

    /// The answer for a request, if there is one and it is still true at `now` (seconds since 1970).
    #[inline]
    pub fn get(&mut self, listen: ListenId, host: &[u8], target: &[u8], now: i64) -> Option<Rc<Answer>> {
        if self.map.is_empty() {
            return None;
        }
        let hash = self.hash(listen, host, target);
        let same = |entry: &Entry| *entry.target == *target && *entry.host == *host && entry.listen == listen;
        match self.map.get(&Key(hash)) {
            Some(entry) if same(entry) => {
                if entry.answer.holds(now) {
                    return Some(entry.answer.clone());
                }
            }
            _ => return None,
        }
        if let Some(entry) = self.map.remove(&Key(hash)) {
            self.bytes -= entry.answer.bytes.len();
        }
        None
    }

    /// Drops what is outdated, and half of the rest: what is in use comes back with its next request.
    fn make_room(&mut self, now: i64) {
        let mut turn = false;
        let mut bytes = 0;
        self.map.retain(|_, entry| {
            turn = !turn;
            let stay = turn && entry.answer.holds(now);
            bytes += if stay { entry.answer.bytes.len() } else { 0 };
            stay
        });
        self.bytes = bytes;
    }

    pub fn put(&mut self, listen: ListenId, host: &[u8], target: &[u8], answer: Answer, now: i64) {
        if self.map.len() >= PREPARED_ENTRIES_MAX || self.bytes + answer.bytes.len() > PREPARED_BYTES_MAX {
            self.make_room(now);
        }
        self.bytes += answer.bytes.len();
        let hash = self.hash(listen, host, target);
        let entry = Entry { listen, host: host.into(), target: target.into(), answer: Rc::new(answer) };
        if let Some(old) = self.map.insert(Key(hash), entry) {
            self.bytes -= old.answer.bytes.len();
        }
    }
}
