//! What the threads of a worker share of HTTP, and what each counts there.

use crate::counters::{Count, Counters, Totals};
use crate::metrics::history::History;
use crate::metrics::places::PlacesOfThread;
use crate::metrics::tops::{Tops, Watched};
use crate::quic::common::Common;
use brisk_net::watch::Watcher;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// What the threads of a worker share. Nothing here is locked on the request path.
/// What is counted often is in cells per thread; what is locked is read by dashboards, once in a while.
pub struct Shared {
    pub(crate) base: Arc<brisk_host::thread::Shared>,
    /// What each thread counts, by thread. Others only read it.
    pub counters: Vec<Counters>,
    /// Numbers of requests, by thread.
    pub places: Vec<PlacesOfThread>,
    /// What happened lately, where a dashboard is configured.
    pub history: Mutex<History>,
    /// What costs most, by thread.
    pub tops: Vec<Tops>,
    /// Whether [`Shared::tops`] is wanted.
    pub watched: Watched,
    /// What they have in common of QUIC.
    pub quic: Common,
}

impl Deref for Shared {
    type Target = brisk_host::thread::Shared;

    fn deref(&self) -> &brisk_host::thread::Shared {
        &self.base
    }
}

impl Shared {
    /// For so many threads.
    pub fn new(threads: usize, watcher: Option<Arc<Watcher>>) -> std::io::Result<Shared> {
        Ok(Shared {
            base: Arc::new(brisk_host::thread::Shared::new(threads, watcher)?),
            counters: (0..threads).map(|_| Counters::default()).collect(),
            places: (0..threads).map(|_| PlacesOfThread::default()).collect(),
            history: Mutex::default(),
            tops: (0..threads).map(|_| Tops::default()).collect(),
            watched: Watched::default(),
            quic: Common::new(threads),
        })
    }

    /// The counters of all threads together.
    pub fn totals(&self) -> Totals {
        // Read one after the other while the threads go on: sums may be off by what happens meanwhile.
        let mut totals = Totals {
            active: self.loads.iter().map(|load| load.load(Ordering::Relaxed) as u64).sum(),
            ..Totals::default()
        };
        for counters in &self.counters {
            totals.requests += counters.requests.get();
            totals.reading += counters.reading.get();
            totals.writing += counters.writing.get();
        }
        for arrivals in &self.arrivals {
            totals.accepted += arrivals.accepted.get();
            totals.handled += arrivals.handled.get();
        }
        totals
    }
}

/// One thread's place among them.
pub(crate) struct Seat {
    pub shared: Arc<Shared>,
    /// Threads are numbered from 0 on; the first one also runs services.
    pub index: usize,
}

impl Deref for Seat {
    type Target = Counters;

    /// The thread's own counters.
    #[inline]
    fn deref(&self) -> &Counters {
        &self.shared.counters[self.index]
    }
}

/// One more in a count of what goes on, for as long as this lives.
/// A task that is dropped, a panic and a normal end count alike.
pub(crate) struct Ongoing {
    seat: Rc<Seat>,
    which: fn(&Counters) -> &Count,
}

impl Ongoing {
    pub(crate) fn new(seat: &Rc<Seat>, which: fn(&Counters) -> &Count) -> Ongoing {
        which(seat).up();
        Ongoing { seat: seat.clone(), which }
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        (self.which)(&self.seat).down();
    }
}
