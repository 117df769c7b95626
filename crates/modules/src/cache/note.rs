//! What the cache did with a request, for variables and headers.

use brisk_cachepolicy::cache_status::{Forwarded, Status as CacheStatus};
use brisk_server::dlog;
use brisk_server::request::Request;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// `$upstream_cache_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing was stored.
    Miss,
    /// The cache was not to be asked.
    Bypass,
    /// What was stored had expired, and the back end was asked.
    Expired,
    /// An expired answer was given, since the back end has failed.
    Stale,
    /// An expired answer was given, since another request asks the back end.
    Updating,
    /// The back end has said that what was stored is still right.
    Revalidated,
    /// The answer was stored, and fresh.
    Hit,
    /// It was asked for too seldom to be stored.
    Scarce,
}

impl Status {
    /// As `$upstream_cache_status` shows it.
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
    /// `Last-Modified`.
    pub last_modified: Option<Vec<u8>>,
    /// `ETag`.
    pub etag: Option<Vec<u8>>,
}

/// See the module's head.
#[derive(Default)]
pub struct Note {
    /// What has become of the request; `None`: nothing yet.
    pub status: Cell<Option<Status>>,
    /// Its key.
    pub key: RefCell<Vec<u8>>,
    /// What the stored answer says of itself, for conditional requests.
    pub validators: RefCell<Validators>,
    /// Why the back end was asked.
    pub forwarded: Cell<Option<Forwarded>>,
    /// What the back end has answered, if it was asked.
    pub forwarded_status: Cell<Option<u16>>,
    /// Seconds of freshness that are left; negative if it is stale.
    pub ttl: Cell<Option<i64>>,
    /// The answer was stored.
    pub stored: Cell<bool>,
    /// Another request's answer was waited for.
    pub collapsed: Cell<bool>,
    /// One word for logs, such as why it was not stored.
    pub detail: Cell<Option<&'static str>>,
}

impl Note {
    /// The request's, made on first use.
    // Not at the request's beginning: most requests have nothing to do with a cache.
    pub fn of(r: &Request) -> Rc<Note> {
        r.state.own.get_or(Note::default)
    }

    /// As [`Note::set`], with a line in the debug log.
    pub fn decide(&self, r: &Request, status: Status) {
        dlog!(r, "http upstream cache: {}", String::from_utf8_lossy(status.text()));
        self.set(status);
    }

    /// Notes what has become of the request.
    pub fn set(&self, status: Status) {
        self.status.set(Some(status));
    }

    /// The member of `Cache-Status` for this cache; `None` if no cache was asked. With `zone`, the cache's name, and the key.
    pub fn cache_status(&self, zone: Option<&[u8]>) -> Option<Vec<u8>> {
        let detail = self.detail.get();
        // A request that never came to a cache must not claim that there is one (RFC 9211 §2).
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
