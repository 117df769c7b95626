//! Answers that are ready to be sent again, byte for byte but for the date.
//!
//! Only answers that depend on nothing but host, target and files are kept, and perhaps on which content codings the
//! client accepts (see [`Purity`](crate::plan::Purity)); they are used only while every file that was looked at is
//! unchanged. Which codings a client accepts is looked at only where the answer depends on it.

use crate::conf::{ListenId, LocationId, ServerId};
use crate::limits::{PREPARED_BYTES_MAX, PREPARED_ENCODINGS_MAX, PREPARED_ENTRIES_MAX};
use brisk_http::uri::Target;
use brisk_net::watch::Watch;
use hashbrown::HashMap;
use std::any::Any;
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
    /// [`Request::finding`](crate::request::Request::finding), for the log.
    pub findings: Vec<Rc<dyn Any>>,
}

impl Answer {
    fn holds(&self, now: i64) -> bool {
        now <= self.until && self.watches.iter().all(Watch::is_up)
    }
}

/// What is kept for one target.
enum Kept {
    /// The same for every client.
    One(Rc<Answer>),
    /// By [`Request::encoding_class`](crate::request::Request::encoding_class).
    ByEncoding(Vec<(u8, Rc<Answer>)>),
}

impl Kept {
    fn bytes(&self) -> usize {
        match self {
            Kept::One(answer) => answer.bytes.len(),
            Kept::ByEncoding(answers) => answers.iter().map(|(_, answer)| answer.bytes.len()).sum(),
        }
    }

    /// Drops what no longer holds; false if nothing is left.
    fn retain(&mut self, now: i64) -> bool {
        match self {
            Kept::One(answer) => answer.holds(now),
            Kept::ByEncoding(answers) => {
                answers.retain(|(_, answer)| answer.holds(now));
                !answers.is_empty()
            }
        }
    }
}

struct Entry {
    listen: ListenId,
    host: Box<[u8]>,
    target: Box<[u8]>,
    kept: Kept,
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

    /// The answer for a request, if there is one and it still holds at `now` (seconds since 1970). `class` is asked
    /// only if the answer depends on it, and `confirm` lowers the flags of files that have changed.
    #[inline]
    pub fn get(
        &mut self,
        listen: ListenId,
        host: &[u8],
        target: &[u8],
        class: impl FnOnce() -> u8,
        confirm: impl FnOnce(),
        now: i64,
    ) -> Option<Rc<Answer>> {
        if self.map.is_empty() {
            return None;
        }
        let hash = self.hash(listen, host, target);
        let entry = self.map.get(&Key(hash))?;
        if *entry.target != *target || *entry.host != *host || entry.listen != listen {
            return None;
        }
        let answer = match &entry.kept {
            Kept::One(answer) => answer,
            Kept::ByEncoding(answers) => {
                let class = class();
                answers.iter().find(|(have, _)| *have == class).map(|(_, answer)| answer)?
            }
        };
        confirm();
        if answer.holds(now) {
            return Some(answer.clone());
        }
        self.prune(hash, now);
        None
    }

    /// Drops an entry's answers that no longer hold.
    fn prune(&mut self, hash: u64, now: i64) {
        let Some(entry) = self.map.get_mut(&Key(hash)) else { return };
        self.bytes -= entry.kept.bytes();
        if entry.kept.retain(now) {
            self.bytes += entry.kept.bytes();
        } else {
            self.map.remove(&Key(hash));
        }
    }

    /// Drops what is outdated, and half of the rest: what is in use comes back with its next request.
    fn make_room(&mut self, now: i64) {
        let mut turn = false;
        let mut bytes = 0;
        self.map.retain(|_, entry| {
            turn = !turn;
            let stay = turn && entry.kept.retain(now);
            bytes += if stay { entry.kept.bytes() } else { 0 };
            stay
        });
        self.bytes = bytes;
    }

    /// Keeps an answer; with a class, for requests of that class only.
    pub fn put(
        &mut self,
        listen: ListenId,
        host: &[u8],
        target: &[u8],
        class: Option<u8>,
        answer: Answer,
        now: i64,
    ) {
        if self.map.len() >= PREPARED_ENTRIES_MAX || self.bytes + answer.bytes.len() > PREPARED_BYTES_MAX {
            self.make_room(now);
        }
        let hash = self.hash(listen, host, target);
        let answer = Rc::new(answer);
        let old = self.map.remove(&Key(hash));
        self.bytes -= old.as_ref().map_or(0, |entry| entry.kept.bytes());
        let same =
            old.filter(|entry| *entry.target == *target && *entry.host == *host && entry.listen == listen);
        let kept = match (class, same.map(|entry| entry.kept)) {
            (None, _) => Kept::One(answer),
            (Some(class), Some(Kept::ByEncoding(mut answers))) => {
                answers.retain(|(have, _)| *have != class);
                answers.truncate(PREPARED_ENCODINGS_MAX - 1);
                answers.insert(0, (class, answer));
                Kept::ByEncoding(answers)
            }
            (Some(class), _) => Kept::ByEncoding(vec![(class, answer)]),
        };
        self.bytes += kept.bytes();
        self.map.insert(Key(hash), Entry { listen, host: host.into(), target: target.into(), kept });
    }
}
