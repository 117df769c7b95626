//! What the threads of a worker have in common of QUIC.

use super::passage::Passage;
use super::secret;
use brisk_quic::{Counters, Keys, Place};
use std::ops::AddAssign;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Made with the first configuration that listens on QUIC.
#[derive(Default)]
pub struct Common {
    // Once for the life of a worker: tokens and connection IDs that clients have must stay good.
    begun: OnceLock<Begun>,
    /// What each thread has told last.
    told: Vec<Mutex<Told>>,
}

struct Begun {
    keys: Keys,
    /// `None`: the system does not let workers find each other.
    passage: Option<Passage>,
}

/// Numbers of one thread, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// What its endpoint has counted.
    pub counters: Counters,
    /// Handshakes under way.
    pub half_open: u64,
    /// Datagrams that sockets have dropped because their buffers were full.
    pub dropped: u64,
    /// Datagrams that could not be sent because too many waited.
    pub unsent: u64,
}

impl AddAssign for Told {
    fn add_assign(&mut self, other: Told) {
        self.counters += other.counters;
        self.half_open += other.half_open;
        self.dropped += other.dropped;
        self.unsent += other.unsent;
    }
}

impl Common {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Common {
        Common { begun: OnceLock::new(), told: (0..threads).map(|_| Mutex::default()).collect() }
    }

    /// Makes keys and the way between workers. `host_key`: `quic_host_key`. To be called before a thread listens on QUIC; true if
    /// it is the first call.
    pub(crate) fn begin(&self, host_key: Option<&[u8]>) -> bool {
        let mut is_first = false;
        self.begun.get_or_init(|| {
            is_first = true;
            let drawn = secret::drawn();
            // A configured key is the same on several machines, the drawn one on this one only.
            let keys = Keys::new(host_key.unwrap_or(&drawn));
            // Without it packets are lost while one worker replaces another, and no connection is reset wrongly: clients begin anew.
            // An error is no reason not to start.
            Begun { keys, passage: Passage::open(&drawn).ok() }
        });
        is_first
    }

    /// The keys, once there are any.
    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.begun.get().map(|begun| &begun.keys)
    }

    /// The way to other workers.
    pub(crate) fn passage(&self) -> Option<&Passage> {
        self.begun.get()?.passage.as_ref()
    }

    /// Where a thread's connections are.
    pub(crate) fn place(&self, thread: usize, threads: usize) -> Place {
        Place { thread, threads, generation: self.passage().map_or(0, Passage::generation) }
    }

    /// Takes what a thread tells of itself; not if it is being read in this moment.
    pub(crate) fn tell(&self, thread: usize, told: Told) {
        // A missed update comes with the next turn; a thread must not wait for whoever reads metrics.
        if let Some(mut have) = self.told.get(thread).and_then(|have| have.try_lock().ok()) {
            *have = told;
        }
    }

    /// The numbers of all threads; `None` where QUIC was never listened on.
    pub(crate) fn totals(&self) -> Option<Told> {
        self.begun.get()?;
        let mut all = Told::default();
        for told in &self.told {
            all += *told.lock().unwrap_or_else(PoisonError::into_inner);
        }
        Some(all)
    }
}
