//! Servers whose processes serve one connection until that is closed, as PHP-FPM's do: an idle connection keeps a process
//! from its work. With as many of them as there are processes, every further connection would wait in the accept queue
//! until an idle one is closed for its age.
//!
//! So whoever waits for the first byte on a new connection is known, per address and over all threads. While there is
//! one who has waited for [`GRACE_MS`], no connection to that address becomes idle; and those that are idle already are
//! closed when somebody has waited for [`PATIENCE_MS`]. A connection that becomes idle within somebody's grace is looked
//! at again when that is over.

use brisk_balance::Endpoint;
use brisk_net::{Sleep, clock, sleep_until};
use std::collections::{BTreeSet, HashMap};
use std::future::Future as _;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};

/// How long a new connection waits before idle ones are closed for it: a process that is free answers sooner.
const PATIENCE_MS: u64 = 20;

/// How long an answer may take until it looks as if no process was free: as long as all answer sooner, connections are kept.
const GRACE_MS: u64 = 3;

/// What is known of one address.
#[derive(Default)]
pub(crate) struct Occupancy {
    /// New connections without a byte of answer: since when, with a number that tells them apart.
    waiting: Mutex<BTreeSet<(u64, u64)>>,
    numbers: AtomicU64,
    /// Idle connections.
    idle: AtomicUsize,
    /// Idle connections of an earlier generation are to be closed.
    generation: AtomicU64,
    /// The tasks that close them, one per thread that keeps any.
    keepers: Mutex<Vec<Waker>>,
    /// The processes, where they are counted; 0: nothing is known of them.
    processes: AtomicUsize,
    /// Connections, idle or not, where processes are counted.
    open: AtomicUsize,
}

/// Per address and not per group: two groups, or a `fastcgi_pass` without any, may lead to the same
/// processes.
static ADDRESSES: LazyLock<Mutex<HashMap<Endpoint, Weak<Occupancy>>>> = LazyLock::new(Mutex::default);

impl Occupancy {
    /// That of an address.
    pub fn of(endpoint: &Endpoint) -> Arc<Occupancy> {
        let mut addresses = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(have) = addresses.get(endpoint).and_then(Weak::upgrade) {
            return have;
        }
        // When an address is new, which is rare: peers that come by name and go would stay here for ever.
        addresses.retain(|_, have| have.strong_count() > 0);
        let new = Arc::<Occupancy>::default();
        addresses.insert(endpoint.clone(), Arc::downgrade(&new));
        new
    }

    /// There are so many processes: with no more connections than that, nobody waits for one, however slow answers are.
    pub fn has_processes(&self, count: usize) {
        self.processes.store(count, Ordering::Relaxed);
    }

    /// Whether a connection may become idle.
    pub fn is_free(&self, now_ms: u64) -> bool {
        let processes = self.processes.load(Ordering::Relaxed);
        // Where processes are not counted, slow answers and waiting connections look alike. After the grace
        // connections are given up rather than kept.
        if processes == 0 {
            return self.waiting().first().is_none_or(|(since_ms, _)| now_ms < since_ms + GRACE_MS);
        }
        // With more connections than processes, one that becomes idle would keep the one that waits from its process.
        self.open.load(Ordering::Relaxed) <= processes || self.waiting().is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<(u64, u64)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are idle connections that could be closed.
    pub fn has_idle(&self) -> bool {
        self.idle.load(Ordering::SeqCst) > 0
    }

    /// Has all idle connections closed.
    pub fn vacate(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        // Taken out: a thread that keeps a connection afterwards registers again, and tasks of threads that have ended do not stay.
        let keepers = std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        keepers.iter().for_each(Waker::wake_by_ref);
    }
}

/// A connection, from the moment it is made to its end, on whatever thread.
pub(crate) struct Connected(Arc<Occupancy>);

impl Connected {
    /// One more connection.
    pub fn begin(of: Arc<Occupancy>) -> Connected {
        of.open.fetch_add(1, Ordering::Relaxed);
        Connected(of)
    }
}

impl Deref for Connected {
    type Target = Arc<Occupancy>;

    fn deref(&self) -> &Arc<Occupancy> {
        &self.0
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A new connection that waits for its first byte.
/// One that has its first byte has a process, so it does not wait any more, however long its answer takes.
pub struct Wait {
    of: Arc<Occupancy>,
    key: (u64, u64),
}

impl Wait {
    pub(crate) fn begin(occupancy: &Arc<Occupancy>, now_ms: u64) -> Wait {
        // The time first: the first one of the set has waited longest.
        let key = (now_ms, occupancy.numbers.fetch_add(1, Ordering::Relaxed));
        occupancy.waiting().insert(key);
        Wait { of: occupancy.clone(), key }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.of.waiting().remove(&self.key);
    }
}

/// The time until idle connections are closed for a new one.
pub(crate) struct Patience {
    occupancy: Arc<Occupancy>,
    sleep: Sleep,
}

impl Patience {
    /// `None` if there is nothing to be closed.
    pub fn begin(occupancy: &Arc<Occupancy>) -> Option<Patience> {
        let sleep = || sleep_until(clock::mono_ms() + PATIENCE_MS);
        occupancy.has_idle().then(|| Patience { occupancy: occupancy.clone(), sleep: sleep() })
    }

    /// True once the time is over, and idle connections have been told to go.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        let is_over = Pin::new(&mut self.sleep).poll(cx).is_ready();
        if is_over {
            self.occupancy.vacate();
        }
        is_over
    }
}

/// An idle connection.
pub(crate) struct Stay {
    of: Arc<Occupancy>,
    generation: u64,
}

impl Stay {
    /// `keeper` is woken when the connection must be closed.
    pub fn begin(of: &Arc<Occupancy>, keeper: &Waker) -> Stay {
        of.idle.fetch_add(1, Ordering::SeqCst);
        let mut keepers = of.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        if !keepers.iter().any(|have| have.will_wake(keeper)) {
            keepers.push(keeper.clone());
        }
        Stay { of: of.clone(), generation: of.generation.load(Ordering::SeqCst) }
    }

    /// Whether nobody has to wait.
    pub fn may_stay(&self, now_ms: u64) -> bool {
        self.of.is_free(now_ms)
    }

    /// When the grace is over of those that wait now, and that may have seen no idle connection; never if nobody waits.
    pub fn judged_ms(&self, now_ms: u64) -> u64 {
        if self.of.waiting().is_empty() { u64::MAX } else { now_ms + GRACE_MS }
    }

    /// Whether somebody has waited for too long.
    pub fn is_over(&self) -> bool {
        self.of.generation.load(Ordering::SeqCst) != self.generation
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.of.idle.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    #[derive(Default)]
    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn address(name: &str) -> Endpoint {
        Endpoint::Unix(name.into())
    }

    #[test]
    fn who_waits_is_seen_by_all_who_use_the_address() {
        let (one, same) = (Occupancy::of(&address("/a")), Occupancy::of(&address("/a")));
        let other = Occupancy::of(&address("/b"));
        let wait = Wait::begin(&one, 10);
        let later = Wait::begin(&one, 12);
        assert!(same.is_free(12), "no answer comes at once");
        assert!(!same.is_free(13) && other.is_free(13));
        drop(wait);
        assert!(same.is_free(14) && !same.is_free(15));
        drop(later);
        assert!(same.is_free(15));
    }

    #[test]
    fn slow_answers_count_only_where_processes_are_not_counted() {
        let occupancy = Occupancy::of(&address("/counted"));
        let _wait = Wait::begin(&occupancy, 10);
        let open: Vec<Connected> = (0..3).map(|_| Connected::begin(occupancy.clone())).collect();
        assert!(!occupancy.is_free(50));
        occupancy.has_processes(3);
        assert!(occupancy.is_free(50));
        let more = Connected::begin(occupancy.clone());
        assert!(!occupancy.is_free(50), "one of the connections has no process");
        drop(more);
        assert!(occupancy.is_free(50));
        drop(open);
    }

    #[test]
    fn idle_connections_are_told_to_go() {
        let occupancy = Occupancy::of(&address("/c"));
        assert!(!occupancy.has_idle());
        let bell = Arc::<Bell>::default();
        let stays: Vec<Stay> = (0..3).map(|_| Stay::begin(&occupancy, &Waker::from(bell.clone()))).collect();
        assert!(occupancy.has_idle() && !stays[0].is_over());
        occupancy.vacate();
        assert!(stays.iter().all(Stay::is_over) && bell.0.load(Ordering::SeqCst));
        assert!(!Stay::begin(&occupancy, Waker::noop()).is_over());
        drop(stays);
        assert!(!occupancy.has_idle());
    }

    #[test]
    fn addresses_that_nobody_uses_are_forgotten() {
        drop(Occupancy::of(&address("/gone")));
        let _keep = Occupancy::of(&address("/kept"));
        let addresses = ADDRESSES.lock().unwrap();
        assert!(!addresses.contains_key(&address("/gone")) && addresses.contains_key(&address("/kept")));
    }
}
