//! What `sticky learn` remembers: which peer a session belongs to.

use md5::{Digest as _, Md5};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a session takes, tables included: as in nginx one megabyte holds 8000.
const SESSION_BYTES: u64 = 128;

type Key = [u8; 16];

/// A zone's sessions, by the MD5 of their names. When there is no room, the one unused for longest goes.
pub struct Sessions {
    state: Mutex<State>,
    count_max: usize,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Key, (Arc<str>, u64)>,
    /// By last use.
    by_age: BTreeSet<(u64, Key)>,
}

impl Sessions {
    /// A table that takes `bytes` at most.
    pub fn new(bytes: u64) -> Sessions {
        let count_max = usize::try_from(bytes / SESSION_BYTES).unwrap_or(usize::MAX).max(1);
        Sessions { state: Mutex::default(), count_max }
    }

    /// The peer of a session that was used within `timeout_ms`.
    pub fn find(&self, name: &[u8], timeout_ms: u64, now_ms: u64) -> Option<Arc<str>> {
        let state = self.lock();
        let (sid, last) = state.sessions.get(&key(name))?;
        (now_ms.saturating_sub(*last) < timeout_ms).then(|| sid.clone())
    }

    /// Notes a session's use and its peer. Unless `create`, only one that is known.
    pub fn learn(&self, name: &[u8], sid: &Arc<str>, create: bool, timeout_ms: u64, now_ms: u64) {
        let key = key(name);
        let mut state = self.lock();
        let state = &mut *state;
        state.expire(timeout_ms, now_ms);
        if let Some((have, last)) = state.sessions.get_mut(&key) {
            state.by_age.remove(&(*last, key));
            (*have, *last) = (sid.clone(), now_ms);
        } else {
            if !create {
                return;
            }
            if state.sessions.len() >= self.count_max
                && let Some((_, oldest)) = state.by_age.pop_first()
            {
                state.sessions.remove(&oldest);
            }
            state.sessions.insert(key, (sid.clone(), now_ms));
        }
        state.by_age.insert((now_ms, key));
    }

    /// Sessions that are known.
    pub fn len(&self) -> usize {
        self.lock().sessions.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn expire(&mut self, timeout_ms: u64, now_ms: u64) {
        while let Some((last, key)) = self.by_age.first().copied()
            && now_ms.saturating_sub(last) >= timeout_ms
        {
            self.by_age.pop_first();
            self.sessions.remove(&key);
        }
    }
}

fn key(name: &[u8]) -> Key {
    Md5::digest(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_found_until_they_expire() {
        let sessions = Sessions::new(1 << 20);
        let (a, b) = (Arc::<str>::from("a"), Arc::<str>::from("b"));
        sessions.learn(b"one", &a, true, 100, 0);
        assert_eq!(sessions.find(b"one", 100, 99), Some(a.clone()));
        assert_eq!(sessions.find(b"one", 100, 100), None);
        sessions.learn(b"one", &b, false, 100, 99);
        assert_eq!(sessions.find(b"one", 100, 150), Some(b.clone()));
        sessions.learn(b"two", &b, false, 100, 99);
        assert_eq!(sessions.find(b"two", 100, 99), None);
        sessions.learn(b"three", &b, true, 100, 300);
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let sessions = Sessions::new(32 << 10);
        let sid = Arc::<str>::from("s");
        for n in 0..1000u32 {
            sessions.learn(&n.to_be_bytes(), &sid, true, 1_000_000, u64::from(n));
        }
        assert_eq!(sessions.len(), (32 << 10) / 128);
        assert!(sessions.find(&999u32.to_be_bytes(), 1_000_000, 1000).is_some());
        assert!(sessions.find(&0u32.to_be_bytes(), 1_000_000, 1000).is_none());
    }
}
