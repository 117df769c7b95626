//! A request's search in a cache: what all its steps know.

use super::caching::Caching;
use super::note::Note;
use brisk_cache::{Cache, Digest, Object};
use brisk_upstream::origin::Origin;
use std::rc::Rc;
use std::sync::Arc;

/// See the module's head.
#[derive(Clone)]
pub struct Lookup {
    /// The location's cache.
    pub caching: Arc<Caching>,
    /// The back end.
    pub origin: Arc<dyn Origin>,
    /// Where answers are stored.
    pub cache: Arc<Cache>,
    /// Of the key.
    pub main: Digest,
    /// Of the key, or of the request's variant.
    pub digest: Digest,
    /// The entry of the key, if there is one.
    pub entry: Option<Arc<Object>>,
    /// What variables and logs tell of the request.
    pub note: Rc<Note>,
}

impl Lookup {
    /// Before anything was looked for; `main` is of the request's key.
    pub fn new(
        caching: Arc<Caching>,
        origin: Arc<dyn Origin>,
        cache: Arc<Cache>,
        main: Digest,
        note: Rc<Note>,
    ) -> Lookup {
        Lookup { caching, origin, cache, main, digest: main, entry: None, note }
    }
}
