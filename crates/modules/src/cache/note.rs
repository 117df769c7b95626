//! What the cache did with a request, for variables and headers.

use brisk_cachepolicy::cache_status::{Forwarded, Status as CacheStatus};
use brisk_server::dlog;
use brisk_server::request::Request;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// `$upstream_cache_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
    Scarce,
}

impl Status {
    pub fn text(self) -> &'static [u8] {
        match self {
            Status::Miss => b"MISS",
            Status::Bypass => b"BYPASS",
            Status::Expired => b"EXPIRED",
            Status::Stale => b"STALE",
            Status::Updating => b"UPDATING",
            Status::Revalidated => b"REVALIDATED",
            Status::Hit => b"HIT",
            // As in nginx, which has no word for it.
            Status::Scarce => b"MISS",
        }
    }
}

/// Validators of an expired answer that is asked for anew.
#[derive(Clone, Debug, Default)]
pub struct Validators {
    pub last_modified: Option<Vec<u8>>,
    pub etag: Option<Vec<u8>>,
}

/// See the module's head.
#[derive(Default)]
pub struct Note {
    pub status: Cell<Option<Status>>,
    pub key: RefCell<Vec<u8>>,
    pub validators: RefCell<Validators>,
    /// Why the back end was asked.
    pub forwarded: Cell<Option<Forwarded>>,
    pub forwarded_status: Cell<Option<u16>>,
    pub ttl: Cell<Option<i64>>,
    pub stored: Cell<bool>,
    pub collapsed: Cell<bool>,
    pub detail: Cell<Option<&'static str>>,
}

impl Note {
    /// The request's, made on first use.
    pub fn of(r: &Request) -> Rc<Note> {
        r.finding(Note::default)
    }

    /// As [`Note::set`], and tells those who debug.
    pub fn decide(&self, r: &Request, status: Status) {
        dlog!(r, "http upstream cache: {}", String::from_utf8_lossy(status.text()));
        self.set(status);
    }

    pub fn set(&self, status: Status) {
        self.status.set(Some(status));
    }

    /// The member of `Cache-Status` for this cache; `None` if no cache was asked. With `zone`, the cache's name, and the key.
    pub fn cache_status(&self, zone: Option<&[u8]>) -> Option<Vec<u8>> {
        let detail = self.detail.get();
        if self.status.get().is_none() && detail.is_none() {
            return None;
        }
        let key = self.key.borrow();
        let status = CacheStatus {
            forwarded: self.forwarded.get(),
            forwarded_status: self.forwarded_status.get(),
            ttl: self.ttl.get(),
            stored: self.stored.get(),
            collapsed: self.collapsed.get(),
            detail,
            place: zone.map(|zone| (zone, &**key)),
        };
        Some(status.text("brisk"))
    }
}
