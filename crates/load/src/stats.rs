//! Counters of one thread's work, their course over time, and their sum.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub use crate::counts::{Counts, ERROR_KINDS, ErrorKind, Errors, Quic};
use crate::histogram::{Histogram, Sparse};

/// One request, as a raw log has it. Moments are nanoseconds from the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When it was due; in a closed loop, when it was sent.
    pub due_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// When the response's first byte came; as `done_ns` when none did.
    pub first_byte_ns: u64,
    /// When its last byte came, or the request failed.
    pub done_ns: u64,
    /// How long the connection took that was made for it; 0 for one that was kept.
    pub connect_ns: u64,
    /// How long that connection's TLS handshake took.
    pub tls_ns: u64,
    /// Bytes of the response, head and body.
    pub bytes: u64,
    /// Of these, its head's.
    pub head_bytes: u32,
    /// The connection's number.
    pub connection: u32,
    /// The target's number, over all sites in their order.
    pub target: u32,
    /// The status; 0 with an error.
    pub status: u16,
    /// Why there was no usable response.
    pub error: Option<ErrorKind>,
}

/// What was under way when the time of a run was over: it is still waited for, because leaving out the slow ones would
/// flatter the server. The figures of [`Stats`] include it, but it does not count towards rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tail {
    /// Requests that were under way then; in a closed loop also connections that were being made.
    pub under_way: u64,
    /// How long they had been so, together, in nanoseconds.
    pub waited_ns: u64,
    /// Those that nobody waited for, because the run was stopped. Nothing else counts them.
    pub left: u64,
    /// Responses that came afterwards, by class.
    pub by_class: [u64; 6],
    /// What these took since they were due, together, in nanoseconds.
    pub latency_ns: u128,
    /// Bytes that were read afterwards.
    pub bytes: u64,
}

impl Tail {
    /// Responses that came afterwards.
    pub fn responses(&self) -> u64 {
        self.by_class.iter().sum()
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.under_way += other.under_way;
        self.waited_ns += other.waited_ns;
        self.left += other.left;
        for (count, more) in self.by_class.iter_mut().zip(other.by_class) {
            *count += more;
        }
        self.latency_ns += other.latency_ns;
        self.bytes += other.bytes;
    }
}

/// What was seen while a plan ran.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// What a user waits for a response that is no refusal, in nanoseconds: from when the request was due (in a closed loop: was
    /// sent) to the response's last byte.
    pub latency: Histogram,
    /// The same for refusals, which are often quick: a server that turns everybody away is not a fast one.
    pub refused: Histogram,
    /// In an open loop, what the server took for what is in `latency`: from sending to the response's last byte.
    pub service: Histogram,
    /// In an open loop, `latency` less the generator's own lateness with each request.
    pub punctual: Histogram,
    /// In an open loop, how long after it was due a request was noticed by the generator, in nanoseconds: its own lateness.
    pub lateness: Histogram,
    /// From sending to the first byte, in nanoseconds; where the plan asks for phases.
    pub first_byte: Histogram,
    /// How long connections took to be made, in nanoseconds.
    pub connect: Histogram,
    /// How long TLS handshakes took, in nanoseconds.
    pub handshake: Histogram,
    /// Why TLS failed the first time.
    pub tls_failure: Option<String>,
    /// Why a proxy made no tunnel the first time.
    pub proxy_failure: Option<String>,
    /// Why QUIC or HTTP/3 ended a connection the first time, and what it was counted as.
    pub quic_failure: Option<(ErrorKind, String)>,
    /// Everything else, whose fields are this one's, too.
    pub counts: Counts,
    /// Of all this, what came after the end.
    pub tail: Tail,
}

/// Whether responses of this class are 4xx, 5xx, or have no status that means anything.
fn is_refusal(class: usize) -> bool {
    matches!(class, 0 | 4 | 5)
}

fn refusals(by_class: &[u64; 6]) -> u64 {
    (0..6).filter(|&class| is_refusal(class)).map(|class| by_class[class]).sum()
}

impl Stats {
    /// Counts a whole response of an open loop: since it was due, and since it was sent; the generator noticed `late_ns` after it
    /// was due that it was.
    pub fn open_response(&mut self, status: u16, latency_ns: u64, service_ns: u64, late_ns: u64) {
        if self.response(status, latency_ns) {
            self.service.record(service_ns);
            self.punctual.record(latency_ns.saturating_sub(late_ns));
        }
    }

    /// Counts a whole response; false if it is a refusal.
    #[inline]
    pub fn response(&mut self, status: u16, latency_ns: u64) -> bool {
        let class = usize::from(status / 100);
        let class = if class < self.by_class.len() { class } else { 0 };
        self.by_class[class] += 1;
        if status != 200 {
            *self.by_status.entry(status).or_default() += 1;
            if is_refusal(class) {
                self.refused.record(latency_ns);
                return false;
            }
        }
        self.latency.record(latency_ns);
        true
    }

    /// Counts `count` requests that failed for the same reason.
    pub fn error(&mut self, kind: ErrorKind, count: u64) {
        self.errors.add(kind, count);
    }

    /// Whole responses of any status.
    pub fn responses(&self) -> u64 {
        self.latency.count() + self.refused.count()
    }

    /// What users waited for responses of any status.
    pub fn latency_of_all(&self) -> Histogram {
        let mut all = self.latency.clone();
        all.merge(&self.refused);
        all
    }

    /// Whole responses of any status that came within the time of the run: what rates are made of.
    pub fn responses_in_time(&self) -> u64 {
        self.responses() - self.tail.responses()
    }

    /// Of these, those that were no refusals.
    pub fn good_in_time(&self) -> u64 {
        let late = self.tail.responses() - refusals(&self.tail.by_class);
        self.latency.count() - late
    }

    /// Bytes that were read within the time of the run.
    pub fn bytes_in_time(&self) -> u64 {
        self.bytes - self.tail.bytes
    }

    /// Responses whose status is not 2xx.
    pub fn non_2xx(&self) -> u64 {
        self.responses() - self.by_class[2]
    }

    /// Responses whose status is 4xx or 5xx, or none at all.
    pub fn refusals(&self) -> u64 {
        refusals(&self.by_class)
    }

    /// Failures of one kind.
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors.of(kind)
    }

    /// Failures of every kind.
    pub fn errors(&self) -> u64 {
        self.errors.sum()
    }

    /// The share of requests that did not get what they asked for: failed, unsent, 4xx or 5xx.
    pub fn error_share(&self) -> f64 {
        let bad = self.errors() + self.unsent + self.refusals();
        bad as f64 / (self.errors() + self.unsent + self.responses()).max(1) as f64
    }

    /// Adds another thread's counters.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.refused.merge(&other.refused);
        self.service.merge(&other.service);
        self.punctual.merge(&other.punctual);
        self.lateness.merge(&other.lateness);
        self.first_byte.merge(&other.first_byte);
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        if self.tls_failure.is_none() {
            self.tls_failure.clone_from(&other.tls_failure);
        }
        if self.proxy_failure.is_none() {
            self.proxy_failure.clone_from(&other.proxy_failure);
        }
        if self.quic_failure.is_none() {
            self.quic_failure.clone_from(&other.quic_failure);
        }
        self.counts.merge(&other.counts);
        self.tail.merge(&other.tail);
    }

    /// Adds what happened in a stretch. Why something failed first, and what came after the end, is known of the whole alone.
    pub fn add(&mut self, slice: &Slice) {
        for (all, more) in [
            (&mut self.latency, &slice.latency),
            (&mut self.refused, &slice.refused),
            (&mut self.service, &slice.service),
            (&mut self.punctual, &slice.punctual),
            (&mut self.lateness, &slice.lateness),
            (&mut self.first_byte, &slice.first_byte),
            (&mut self.connect, &slice.connect),
            (&mut self.handshake, &slice.handshake),
        ] {
            all.merge_sparse(more);
        }
        self.counts.merge(&slice.counts);
    }

    /// The first reason that is known for errors of this kind.
    pub fn reason(&self, kind: ErrorKind) -> Option<&str> {
        match kind {
            ErrorKind::Tls => self.tls_failure.as_deref(),
            ErrorKind::Connect => self.proxy_failure.as_deref(),
            _ => self.quic_failure.as_ref().filter(|(of, _)| *of == kind).map(|(_, why)| why.as_str()),
        }
    }

    /// Starts anew, in the same memory.
    pub fn clear(&mut self) {
        let Self { latency, refused, service, punctual, lateness, first_byte, connect, handshake, .. } = self;
        for histogram in [latency, refused, service, punctual, lateness, first_byte, connect, handshake] {
            histogram.clear();
        }
        self.tls_failure = None;
        self.proxy_failure = None;
        self.quic_failure = None;
        self.counts = Counts::default();
        self.tail = Tail::default();
    }
}

impl Deref for Stats {
    type Target = Counts;

    #[inline]
    fn deref(&self) -> &Counts {
        &self.counts
    }
}

impl DerefMut for Stats {
    #[inline]
    fn deref_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// It does not count.
    Warmup,
    /// What figures are made of.
    #[default]
    Counted,
    /// What was under way at the end is waited for: see [`Tail`].
    Tail,
}

/// What happened in one stretch of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slice {
    /// What it belongs to.
    pub part: Part,
    /// Its beginning, from the run's start.
    pub at: Duration,
    /// Its length.
    pub width: Duration,
    /// What is counted, whose fields are this one's, too.
    pub counts: Counts,
    /// What users waited for responses that are no refusals.
    pub latency: Sparse,
    /// What they waited for refusals.
    pub refused: Sparse,
    /// What the server took, in an open loop.
    pub service: Sparse,
    /// As in [`Stats`], in an open loop.
    pub punctual: Sparse,
    /// Likewise.
    pub lateness: Sparse,
    /// As in [`Stats`].
    pub first_byte: Sparse,
    /// As in [`Stats`].
    pub connect: Sparse,
    /// As in [`Stats`].
    pub handshake: Sparse,
}

impl Deref for Slice {
    type Target = Counts;

    #[inline]
    fn deref(&self) -> &Counts {
        &self.counts
    }
}

impl Slice {
    /// The counters of a stretch.
    pub fn of(stats: &Stats, at: Duration, width: Duration) -> Self {
        Self {
            part: Part::Counted,
            at,
            width,
            counts: stats.counts.clone(),
            latency: stats.latency.sparse(),
            refused: stats.refused.sparse(),
            service: stats.service.sparse(),
            punctual: stats.punctual.sparse(),
            lateness: stats.lateness.sparse(),
            first_byte: stats.first_byte.sparse(),
            connect: stats.connect.sparse(),
            handshake: stats.handshake.sparse(),
        }
    }

    /// Responses of any status.
    pub fn responses(&self) -> u64 {
        self.by_class.iter().sum()
    }

    /// Responses per second.
    pub fn rate(&self) -> f64 {
        self.responses() as f64 / self.width.as_secs_f64().max(1e-9)
    }

    /// Responses per second that were no refusals.
    pub fn good_rate(&self) -> f64 {
        (self.responses() - refusals(&self.by_class)) as f64 / self.width.as_secs_f64().max(1e-9)
    }

    /// Failed requests, and responses of 4xx and 5xx.
    pub fn failures(&self) -> u64 {
        self.errors.sum() + refusals(&self.by_class)
    }

    /// Adds another thread's slice of the same stretch.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.width = self.width.max(other.width);
        for (mine, more) in [
            (&mut self.latency, &other.latency),
            (&mut self.refused, &other.refused),
            (&mut self.service, &other.service),
            (&mut self.punctual, &other.punctual),
            (&mut self.lateness, &other.lateness),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.connect, &other.connect),
            (&mut self.handshake, &other.handshake),
        ] {
            if more.count() == 0 {
                continue;
            }
            let mut both = mine.whole();
            both.merge_sparse(more);
            *mine = both.sparse();
        }
    }
}

/// Puts the threads' slices together: those that begin at the same time are one.
pub fn join_slices(threads: impl IntoIterator<Item = Vec<Slice>>) -> Vec<Slice> {
    let mut all: BTreeMap<Duration, Slice> = BTreeMap::new();
    for slice in threads.into_iter().flatten() {
        match all.entry(slice.at) {
            std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(slice)),
            std::collections::btree_map::Entry::Occupied(mut have) => have.get_mut().merge(&slice),
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_adds_everything() {
        let mut left = Stats::default();
        left.response(200, 10);
        left.error(ErrorKind::Read, 2);
        left.tail = Tail { under_way: 2, waited_ns: 3, left: 1, latency_ns: 5, bytes: 4, ..Tail::default() };
        let counts = Counts {
            bytes: 7,
            connects: 1,
            closes: 1,
            generator_cpu_ns: 5,
            failed_ns: 9,
            ..Counts::default()
        };
        let mut right = Stats { counts, ..Stats::default() };
        right.response(404, 20);
        right.response(999, 20);
        right.tail = Tail { by_class: [0, 0, 0, 0, 1, 0], ..left.tail };
        left.merge(&right);
        let tail = left.tail;
        assert_eq!((tail.under_way, tail.waited_ns, tail.left), (4, 6, 2));
        assert_eq!((tail.responses(), tail.latency_ns, tail.bytes), (1, 10, 8));
        assert_eq!((left.responses(), left.non_2xx(), left.errors()), (3, 2, 2));
        // Refusals are apart; one of these two came after the end.
        assert_eq!((left.latency.max(), left.refused.min(), left.latency_of_all().count()), (10, 20, 3));
        assert_eq!((left.responses_in_time(), left.good_in_time()), (2, 1));
        assert_eq!((left.bytes, left.connects, left.closes, left.generator_cpu_ns), (7, 1, 1, 5));
        assert_eq!(left.failed_ns, 9);
        assert_eq!((left.by_status[&404], left.by_status[&999]), (1, 1));
        assert!((left.error_share() - 4.0 / 5.0).abs() < 1e-9);
        left.clear();
        assert_eq!((left.responses(), left.errors(), left.bytes, left.by_status.len()), (0, 0, 0, 0));
        assert_eq!((left.tail, left.failed_ns), (Tail::default(), 0));
    }

    #[test]
    fn slices_of_threads_are_joined_by_their_beginning() {
        let slice = |at: u64, latency: u64| {
            let mut stats = Stats { counts: Counts { bytes: 3, ..Counts::default() }, ..Stats::default() };
            stats.response(200, latency);
            Slice::of(&stats, Duration::from_secs(at), Duration::from_secs(1))
        };
        let joined = join_slices([vec![slice(0, 5), slice(1, 6)], vec![slice(0, 70)]]);
        let counts: Vec<u64> = joined.iter().map(Slice::responses).collect();
        assert_eq!((counts, joined[0].bytes, joined[0].latency.whole().max()), (vec![2, 1], 6, 70));
    }
}
