//! Dictionaries that clients were given, by host and hash: one for all threads, outliving a configuration.

use hashbrown::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// SHA-256 of a dictionary.
pub type Hash = [u8; 32];

/// What an entry takes besides its bytes.
/// Its hash, a place in a table, and what the allocator adds: many small ones must not count as nothing.
const ENTRY_BYTES: usize = 160;

/// Whose dictionary it is: what one host gives is nothing to another.
type Key = (Box<[u8]>, Hash);

/// See the module's head. When it is full, the half that was not used of late goes.
pub struct Store(Mutex<Inner>);

struct Inner {
    recent: HashMap<Key, Arc<[u8]>>,
    older: HashMap<Key, Arc<[u8]>>,
    /// Of `recent`.
    bytes: usize,
    bytes_max: usize,
}

impl Store {
    pub fn new(bytes: u64) -> Store {
        // More than can be addressed is as much as there is.
        let bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        Store(Mutex::new(Inner { recent: HashMap::new(), older: HashMap::new(), bytes: 0, bytes_max }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, host: &[u8], hash: &Hash) -> Option<Arc<[u8]>> {
        let mut inner = self.lock();
        let key = (Box::from(host), *hash);
        if let Some(bytes) = inner.recent.get(&key) {
            return Some(bytes.clone());
        }
        // It was used: it belongs to the newer half again.
        let bytes = inner.older.remove(&key)?;
        inner.put(key, bytes.clone());
        Some(bytes)
    }

    pub fn put(&self, host: &[u8], hash: Hash, bytes: Arc<[u8]>) {
        let mut inner = self.lock();
        let key = (Box::from(host), hash);
        inner.older.remove(&key);
        if !inner.recent.contains_key(&key) {
            inner.put(key, bytes);
        }
    }

    /// Entries and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let inner = self.lock();
        let all = || inner.recent.iter().chain(&inner.older);
        (all().count(), all().map(|(key, bytes)| cost(key, bytes)).sum())
    }
}

impl Inner {
    fn put(&mut self, key: Key, bytes: Arc<[u8]>) {
        let cost = cost(&key, &bytes);
        // It would push out all others.
        if cost > self.bytes_max / 2 {
            return;
        }
        // Two halves instead of an order: a look-up moves nothing but its own entry.
        if self.bytes + cost > self.bytes_max / 2 {
            self.older = std::mem::take(&mut self.recent);
            self.bytes = 0;
        }
        self.bytes += cost;
        self.recent.insert(key, bytes);
    }
}

fn cost(key: &Key, bytes: &[u8]) -> usize {
    key.0.len() + bytes.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_hosts_are_apart() {
        let store = Store::new(100_000);
        for n in 0..1000u32 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&n.to_le_bytes());
            store.put(b"a", hash, vec![0; 1000].into());
            // What is used stays.
            assert!(store.get(b"a", &[0; 32]).is_some(), "{n}");
        }
        let (count, bytes) = store.size();
        assert!(count > 20 && bytes <= 100_000, "{count} {bytes}");
        assert!(store.get(b"b", &[0; 32]).is_none());
        store.put(b"a", [9; 32], vec![0; 60_000].into());
        assert!(store.get(b"a", &[9; 32]).is_none(), "too large");
    }
}
