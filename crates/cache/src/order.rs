//! Files of one entry get their place in the order in which they were begun.
//!
//! Files are written by the threads of a pool, and a thread may be held up: without an order, an older answer could take
//! the place of a newer one, and be given out once the newer one has left the memory.

use crate::digest::Digest;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks, so that entries seldom wait for each other's renaming.
const SHARDS: usize = 16;

/// The entries that files are written for just now.
#[derive(Default)]
pub struct Order {
    shards: [Mutex<HashMap<Digest, Writes>>; SHARDS],
}

/// The files that are written for one entry.
#[derive(Default)]
struct Writes {
    /// Those that have neither their place nor been given up.
    count: u32,
    /// How many were begun.
    begun: u64,
    /// The number of the newest one that has its place.
    placed: u64,
}

impl Order {
    fn shard(&self, digest: Digest) -> MutexGuard<'_, HashMap<Digest, Writes>> {
        self.shards[usize::from(digest.0[0]) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something about the entry's file while no other one gets its place.
    pub fn alone<T>(&self, digest: Digest, job: impl FnOnce() -> T) -> T {
        let _shard = self.shard(digest);
        job()
    }

    /// Begins a file: it is newer than all that were begun before.
    pub fn begin(self: &Arc<Order>, digest: Digest) -> Write {
        let mut shard = self.shard(digest);
        let writes = shard.entry(digest).or_default();
        writes.count += 1;
        writes.begun += 1;
        Write { order: self.clone(), digest, number: writes.begun }
    }
}

/// A file on its way to its place.
pub struct Write {
    order: Arc<Order>,
    digest: Digest,
    number: u64,
}

impl Write {
    /// Gives the file its place by `place`; `None`, and nothing is done, if a newer one has it.
    ///
    /// # Errors
    /// Those of `place`.
    pub fn place<T, E>(self, place: impl FnOnce() -> Result<T, E>) -> Result<Option<T>, E> {
        let mut shard = self.order.shard(self.digest);
        let writes = shard.entry(self.digest).or_default();
        if writes.placed > self.number {
            return Ok(None);
        }
        let placed = place()?;
        writes.placed = self.number;
        drop(shard);
        Ok(Some(placed))
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let mut shard = self.order.shard(self.digest);
        if let Some(writes) = shard.get_mut(&self.digest) {
            writes.count -= 1;
            if writes.count == 0 {
                shard.remove(&self.digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(write: Write) -> bool {
        write.place(|| Ok::<_, ()>(())).unwrap().is_some()
    }

    #[test]
    fn the_newest_file_has_the_place() {
        let order = Arc::new(Order::default());
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let writes = [one, one, one, other].map(|digest| order.begin(digest));
        let [first, second, third, unrelated] = writes;
        assert!(placed(second));
        assert!(!placed(first), "an older one comes too late");
        assert!(placed(unrelated));
        assert!(third.place(|| Err::<(), _>("no space")).is_err());
        // Nothing is on its way: what comes now is newer than all.
        assert!(order.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
        assert!(placed(order.begin(one)));
    }
}
