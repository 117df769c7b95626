//! Which URLs and which clients cost most, counted only while somebody looks.
//!
//! Each thread counts in tables of its own. Their locks are taken by that thread alone, but for the moment in which somebody
//! reads them. A table has a bounded number of entries: a new name takes the place of the one with the fewest requests. A
//! thread that ends more than [`TOPS_RECORDED_PER_SECOND`] requests in a second records every second, fourth … of them, each
//! counted as often as it stands for, so that looking costs a busy server next to nothing.

use crate::limits::{
    TOPS_ENTRIES_MAX, TOPS_NAME_BYTES_MAX, TOPS_PERIOD_SECS, TOPS_RECORDED_PER_SECOND, TOPS_STRIDE_MAX,
};
use brisk_host::peer::Peer;
use hashbrown::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was counted of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests that ended.
    pub requests: u64,
    /// Of these, how many ended with a status of 500 or above.
    pub errors: u64,
    /// From the first byte of the request to the last one of the response, in microseconds.
    pub time_us: u64,
    /// Bytes of responses.
    pub sent_bytes: u64,
}

impl Cost {
    fn add(&mut self, more: Cost) {
        self.requests += more.requests;
        self.errors += more.errors;
        self.time_us += more.time_us;
        self.sent_bytes += more.sent_bytes;
    }
}

/// Names with what they cost.
pub type Table = HashMap<Box<[u8]>, Cost>;

/// The tables of one period.
#[derive(Debug, Default)]
pub struct Tables {
    /// By host and path, without arguments.
    pub urls: Table,
    /// By the client's address.
    pub clients: Table,
}

#[derive(Default)]
struct Inner {
    now: Tables,
    before: Tables,
    /// The period that `now` belongs to.
    period: i64,
    /// The second that `recorded` and `ended` belong to.
    second: i64,
    /// Requests that were recorded since `stride` was chosen.
    recorded: u32,
    /// Requests that ended, by what was recorded.
    ended: u64,
    /// One of so many requests is recorded.
    stride: u32,
}

/// One thread's tables.
#[derive(Default)]
pub struct Tops {
    inner: Mutex<Inner>,
    /// Requests to pass over before the next one is recorded; only the thread itself changes it.
    /// Read and written without the lock: passing over a request costs one load and one store.
    skip: AtomicU32,
}

/// Until when requests are recorded, for all threads.
#[derive(Default)]
pub struct Watched(AtomicI64);

impl Watched {
    /// Somebody looks: recording goes on until `unix_secs`.
    pub fn until(&self, unix_secs: i64) {
        self.0.store(unix_secs, Ordering::Relaxed);
    }

    /// Whether requests that end at `unix_secs` are recorded.
    #[inline]
    pub fn is_at(&self, unix_secs: i64) -> bool {
        unix_secs <= self.0.load(Ordering::Relaxed)
    }
}

/// The end of a request, as far as the tables want to know it.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// Without port.
    pub host: &'a [u8],
    /// As it was sent, without arguments.
    pub path: &'a [u8],
    /// Who has asked.
    pub client: Peer,
    /// Of the response.
    pub status: u16,
    /// See [`Cost::time_us`].
    pub time_us: u64,
    /// See [`Cost::sent_bytes`].
    pub sent_bytes: u64,
}

impl Tops {
    /// Records a request that ended at `unix_secs`, or passes over it.
    pub fn record(&self, unix_secs: i64, seen: Seen<'_>) {
        // Only this thread writes it, so there is no race to be lost.
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Ordering::Relaxed);
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.begin(unix_secs);
        let stride = inner.next_stride();
        self.skip.store(stride - 1, Ordering::Relaxed);
        // Each stands for as many as were passed over, so sums are right on average.
        let weight = u64::from(stride);
        let cost = Cost {
            requests: weight,
            errors: if seen.status >= 500 { weight } else { 0 },
            time_us: weight * seen.time_us,
            sent_bytes: weight * seen.sent_bytes,
        };
        // On the stack: a name that is there already costs no allocation.
        let mut name = [0; TOPS_NAME_BYTES_MAX];
        count(&mut inner.now.urls, url(seen, &mut name), cost);
        let mut name = [0; TOPS_NAME_BYTES_MAX];
        count(&mut inner.now.clients, client(seen.client, &mut name), cost);
    }

    /// Adds what this thread has counted in this period and the one before.
    pub fn add_to(&self, unix_secs: i64, to: &mut Tables) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.begin(unix_secs);
        // Both periods, so that a page that looks right after a change still has something to show.
        for tables in [&inner.now, &inner.before] {
            for (from, to) in [(&tables.urls, &mut to.urls), (&tables.clients, &mut to.clients)] {
                from.iter().for_each(|(name, cost)| to.entry(name.clone()).or_default().add(*cost));
            }
        }
    }
}

impl Inner {
    /// How many requests the one that is recorded now stands for.
    // Twice as many as meant within this second: the next ones are recorded half as often.
    fn next_stride(&mut self) -> u32 {
        if self.recorded >= 2 * TOPS_RECORDED_PER_SECOND {
            self.stride = (self.stride * 2).min(TOPS_STRIDE_MAX);
            self.recorded = 0;
        }
        self.recorded += 1;
        self.ended += u64::from(self.stride);
        self.stride
    }

    /// Begins another second or period if it has come.
    fn begin(&mut self, unix_secs: i64) {
        if self.second != unix_secs {
            // As many are recorded as are meant to be, if this second is like the one before.
            // An estimate for the new second; a sudden burst is caught by `next_stride`.
            let stride = self.ended / u64::from(TOPS_RECORDED_PER_SECOND);
            self.stride = stride.clamp(1, u64::from(TOPS_STRIDE_MAX)) as u32;
            (self.second, self.recorded, self.ended) = (unix_secs, 0, 0);
        }
        let period = unix_secs.div_euclid(TOPS_PERIOD_SECS);
        if self.period != period {
            let now = std::mem::take(&mut self.now);
            // What was counted long ago is no part of what goes on now.
            self.before = if self.period + 1 == period { now } else { Tables::default() };
            self.period = period;
        }
    }
}

/// Counts for a name; a name that finds no room takes the place and the count of the one with the fewest requests, so that
/// what is asked for often cannot be pushed out by many that are asked for once.
fn count(table: &mut Table, name: &[u8], cost: Cost) {
    if let Some(have) = table.get_mut(name) {
        have.add(cost);
        return;
    }
    // The space-saving algorithm: a new name inherits the count of the one that it replaces, so counts are
    // never too low.
    let mut start = Cost::default();
    if table.len() >= TOPS_ENTRIES_MAX {
        let least =
            table.iter().min_by_key(|(_, cost)| cost.requests).map(|(name, cost)| (name.clone(), *cost));
        if let Some((least, had)) = least {
            table.remove(&least);
            start.requests = had.requests;
        }
    }
    start.add(cost);
    table.insert(name.into(), start);
}

fn url<'a>(seen: Seen<'_>, name: &'a mut [u8; TOPS_NAME_BYTES_MAX]) -> &'a [u8] {
    let mut len = 0;
    for &byte in seen.host.iter().chain(seen.path).take(TOPS_NAME_BYTES_MAX) {
        name[len] = byte;
        len += 1;
    }
    &name[..len]
}

fn client(peer: Peer, name: &mut [u8; TOPS_NAME_BYTES_MAX]) -> &[u8] {
    use std::io::Write as _;
    let mut rest = &mut name[..];
    let _ = match peer.ip() {
        Some(ip) => write!(rest, "{ip}"),
        None => write!(rest, "unix:"),
    };
    let left = rest.len();
    &name[..TOPS_NAME_BYTES_MAX - left]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &[u8], status: u16) -> Seen<'_> {
        Seen { host: b"h", path, client: Peer::Unix, status, time_us: 100, sent_bytes: 7 }
    }

    fn tables(tops: &Tops, unix_secs: i64) -> Tables {
        let mut tables = Tables::default();
        tops.add_to(unix_secs, &mut tables);
        tables
    }

    #[test]
    fn a_request_counts_for_its_url_and_its_client() {
        let tops = Tops::default();
        tops.record(60, seen(b"/a", 200));
        tops.record(60, seen(b"/a", 502));
        tops.record(61, seen(b"/b", 404));
        let tables = tables(&tops, 61);
        let a = Cost { requests: 2, errors: 1, time_us: 200, sent_bytes: 14 };
        assert_eq!(tables.urls[&b"h/a"[..]], a);
        assert_eq!(tables.clients[&b"unix:"[..]].requests, 3);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let tops = Tops::default();
        tops.record(60, seen(b"/a", 200));
        assert_eq!(tables(&tops, 60 + TOPS_PERIOD_SECS).urls.len(), 1);
        assert_eq!(tables(&tops, 60 + 2 * TOPS_PERIOD_SECS).urls.len(), 0);
    }

    #[test]
    fn many_names_take_no_more_room_and_push_out_no_frequent_one() {
        let tops = Tops::default();
        (0..100).for_each(|_| tops.record(60, seen(b"/often", 200)));
        for n in 0..2 * TOPS_ENTRIES_MAX {
            // One second each: nothing is passed over.
            tops.record(60, seen(format!("/{n}").as_bytes(), 200));
        }
        let tables = tables(&tops, 60);
        assert_eq!(tables.urls.len(), TOPS_ENTRIES_MAX);
        assert!(tables.urls[&b"h/often"[..]].requests >= 100);
        let long = vec![b'x'; 10_000];
        tops.record(61, seen(&long, 200));
        assert!(super::tests::tables(&tops, 61).urls.keys().all(|name| name.len() <= TOPS_NAME_BYTES_MAX));
    }

    #[test]
    fn a_busy_thread_records_few_and_counts_all() {
        let tops = Tops::default();
        let each = 20 * u64::from(TOPS_RECORDED_PER_SECOND);
        for second in [60, 61, 62] {
            (0..each).for_each(|_| tops.record(second, seen(b"/a", 200)));
        }
        let counted = tables(&tops, 62).urls[&b"h/a"[..]].requests;
        let ended = 3 * each;
        assert!(counted.abs_diff(ended) <= ended / 20, "{counted} of {ended}");
        let inner = tops.inner.lock().unwrap();
        assert!(inner.stride >= 15, "{}", inner.stride);
    }

    #[test]
    fn nothing_is_recorded_unless_somebody_looks() {
        let watched = Watched::default();
        assert!(!watched.is_at(1_000_000));
        watched.until(1_000_010);
        assert!(watched.is_at(1_000_010) && !watched.is_at(1_000_011));
    }
}
