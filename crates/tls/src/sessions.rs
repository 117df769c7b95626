//! A cache of sessions that all threads share (`ssl_session_cache`).

use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an entry takes besides its bytes, roughly.
const ENTRY_OVERHEAD_BYTES: usize = 128;

/// A bounded map from session ids to sessions; the oldest make room for new ones.
#[derive(Debug)]
pub struct SessionCache {
    state: Mutex<State>,
    bytes_max: usize,
    entries_max: usize,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Box<[u8]>, Entry>,
    /// Ids in the order in which they came; some may be gone or stand in it again.
    order: VecDeque<(Box<[u8]>, u64)>,
    bytes: usize,
    serial: u64,
}

#[derive(Debug)]
struct Entry {
    value: Box<[u8]>,
    until: u64,
    serial: u64,
}

impl SessionCache {
    /// Empty; sessions take at most so many bytes, and there are at most so many.
    pub fn new(bytes_max: usize, entries_max: usize) -> SessionCache {
        SessionCache { state: Mutex::default(), bytes_max, entries_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session until `until` (seconds since 1970).
    pub fn put(&self, id: &[u8], value: &[u8], until: u64) -> bool {
        let size = id.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if size > self.bytes_max {
            return false;
        }
        let mut state = self.lock();
        let state = &mut *state;
        state.remove(id);
        while state.bytes + size > self.bytes_max || state.entries.len() >= self.entries_max {
            let Some((oldest, serial)) = state.order.pop_front() else { break };
            if state.entries.get(&oldest).is_some_and(|entry| entry.serial == serial) {
                state.remove(&oldest);
            }
        }
        state.serial += 1;
        let (id, serial) = (Box::<[u8]>::from(id), state.serial);
        state.bytes += size;
        state.order.push_back((id.clone(), serial));
        state.entries.insert(id, Entry { value: value.into(), until, serial });
        // Ids that are gone must not pile up where sessions are taken, not pushed out.
        if state.order.len() > 2 * state.entries.len() + 64 {
            let State { order, entries, .. } = state;
            order.retain(|(id, serial)| entries.get(id).is_some_and(|entry| entry.serial == *serial));
        }
        true
    }

    /// A session that is kept; `now` in seconds since 1970.
    pub fn get(&self, id: &[u8], now: u64) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let entry = state.entries.get(id)?;
        if now > entry.until {
            state.remove(id);
            return None;
        }
        Some(entry.value.to_vec())
    }

    /// Gives a session once only, to whichever thread asks first: what is resumed with early data is not resumed again.
    pub fn take(&self, id: &[u8], now: u64) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let entry = state.remove(id)?;
        (now <= entry.until).then(|| entry.value.into())
    }
}

impl State {
    fn remove(&mut self, id: &[u8]) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.bytes -= id.len() + entry.value.len() + ENTRY_OVERHEAD_BYTES;
        Some(entry)
    }
}

/// A cache as one configuration uses it: sessions of others are not found.
#[derive(Debug)]
pub(crate) struct ContextSessions {
    pub cache: Arc<SessionCache>,
    pub context: [u8; 32],
    /// `ssl_session_timeout`, in seconds.
    pub timeout: u64,
}

impl ContextSessions {
    fn key(&self, id: &[u8]) -> Vec<u8> {
        [&self.context[..], id].concat()
    }
}

impl StoresServerSessions for ContextSessions {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        self.cache.put(&self.key(&id), &value, crate::ticket::now() + self.timeout)
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(&self.key(id), crate::ticket::now())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(&self.key(id), crate::ticket::now())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let cache = SessionCache::new(1 << 20, 3);
        for id in 0..5u8 {
            assert!(cache.put(&[id], b"session", 100));
        }
        let there: Vec<bool> = (0..5u8).map(|id| cache.get(&[id], 50).is_some()).collect();
        assert_eq!(there, [false, false, true, true, true]);
        assert_eq!(cache.get(&[4], 101), None, "its time is over");
        assert!(cache.take(&[3], 50).is_some() && cache.take(&[3], 50).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let cache = SessionCache::new(10_000, usize::MAX);
        for id in 0..1000u32 {
            cache.put(&id.to_be_bytes(), &[0; 200], 100);
            cache.take(&(id / 2).to_be_bytes(), 50);
        }
        let state = cache.lock();
        assert!(state.bytes <= 10_000 && state.order.len() <= 2 * state.entries.len() + 64);
        drop(state);
        assert!(!cache.put(b"x", &vec![0; 20_000], 100));
    }
}
