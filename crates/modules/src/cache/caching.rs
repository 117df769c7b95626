//! The cache of a location, and whether what is stored answers a request.

use super::answer;
use super::conf::Rules;
use super::note::Note;
use super::path::Zones;
use brisk_cache::Object;
use brisk_cachepolicy::directives::Request as RequestDirectives;
use brisk_cachepolicy::reuse::{self, Mode, Reuse};
use brisk_server::request::Request;

/// The cache of a location.
pub struct Caching {
    /// What its directives say.
    pub(super) rules: Rules,
    /// Where answers are stored.
    pub(super) zones: Zones,
    /// A GET can be sent for a HEAD; the other protocols leave the method to the configuration.
    pub(super) converts_head: bool,
}

impl Caching {
    pub(super) fn new(rules: Rules, zones: Zones, converts_head: bool) -> Caching {
        Caching { rules, zones, converts_head }
    }

    /// Whether the entry was stored under this request's key: other keys may have the same MD5.
    pub(super) fn is_of_key(&self, object: &Object, r: &Request) -> bool {
        *object.meta.key == **Note::of(r).key.borrow()
    }

    pub(super) fn judge(&self, object: &Object, r: &Request, now: i64) -> Reuse {
        let request = match self.rules.mode {
            // nginx heeds no field of a request in this: a client cannot make it ask.
            Mode::Nginx => RequestDirectives::default(),
            Mode::Rfc9111 => answer::with_fields(r, RequestDirectives::of),
        };
        reuse::judge(&object.meta.terms, self.rules.mode, &request, now)
    }
}
