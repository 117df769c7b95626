//! Counters of one thread's work, and their sum.

use crate::histogram::Histogram;

/// Why a request got no usable response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The connection could not be made.
    Connect,
    /// Reading failed (mostly: reset by peer).
    Read,
    /// Writing failed.
    Write,
    /// The peer closed before it answered.
    Closed,
    /// The peer closed in the middle of a response.
    Truncated,
    /// The response broke the protocol.
    Protocol,
    /// No response within the plan's timeout.
    Timeout,
}

impl ErrorKind {
    /// Every kind, in the order in which reports name them.
    pub const ALL: [Self; 7] = [
        Self::Connect,
        Self::Read,
        Self::Write,
        Self::Closed,
        Self::Truncated,
        Self::Protocol,
        Self::Timeout,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Read => "read",
            Self::Write => "write",
            Self::Closed => "closed",
            Self::Truncated => "truncated",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
        }
    }
}

/// What was seen while a plan ran.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// What a user waits, in nanoseconds: from when the request was due (in a closed loop: was sent) to the response's
    /// last byte.
    pub latency: Histogram,
    /// In an open loop, what the server took, in nanoseconds: from sending to the response's last byte.
    pub service: Histogram,
    /// In an open loop, how long after it was due a request was noticed by the generator, in nanoseconds: its own lateness.
    pub lateness: Histogram,
    /// In an open loop, requests that were due and found no connection until the end.
    pub unsent: u64,
    /// Responses by class: index 1 is 1xx, 5 is 5xx, 0 is anything else.
    pub by_class: [u64; 6],
    /// Bytes read, heads and bodies.
    pub bytes: u64,
    /// Connections made.
    pub connects: u64,
    /// Connections that the peer closed after a response, as it may.
    pub closes: u64,
    /// CPU that the generator itself used, in nanoseconds.
    pub generator_cpu_ns: u64,
    errors: [u64; ErrorKind::ALL.len()],
}

impl Stats {
    /// Counts a whole response of an open loop: since it was due, and since it was sent.
    pub fn open_response(&mut self, status: u16, latency_ns: u64, service_ns: u64) {
        self.response(status, latency_ns);
        self.service.record(service_ns);
    }

    /// Counts a whole response.
    #[inline]
    pub fn response(&mut self, status: u16, latency_ns: u64) {
        let class = usize::from(status / 100);
        self.by_class[if class < self.by_class.len() { class } else { 0 }] += 1;
        self.latency.record(latency_ns);
    }

    /// Counts `count` requests that failed for the same reason.
    pub fn error(&mut self, kind: ErrorKind, count: u64) {
        self.errors[kind as usize] += count;
    }

    /// Whole responses of any status.
    pub fn responses(&self) -> u64 {
        self.latency.count()
    }

    /// Responses whose status is not 2xx.
    pub fn non_2xx(&self) -> u64 {
        self.responses() - self.by_class[2]
    }

    /// Failures of one kind.
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors[kind as usize]
    }

    /// Failures of every kind.
    pub fn errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Adds another thread's counters.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        self.unsent += other.unsent;
        for (count, more) in self.by_class.iter_mut().zip(other.by_class) {
            *count += more;
        }
        for (count, more) in self.errors.iter_mut().zip(other.errors) {
            *count += more;
        }
        self.bytes += other.bytes;
        self.connects += other.connects;
        self.closes += other.closes;
        self.generator_cpu_ns += other.generator_cpu_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_index_their_own_counter() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{}", kind.name());
        }
    }

    #[test]
    fn merge_adds_everything() {
        let mut left = Stats::default();
        left.response(200, 10);
        left.error(ErrorKind::Read, 2);
        let mut right = Stats { bytes: 7, connects: 1, closes: 1, generator_cpu_ns: 5, ..Stats::default() };
        right.response(404, 20);
        right.response(999, 20);
        left.merge(&right);
        assert_eq!((left.responses(), left.non_2xx(), left.errors()), (3, 2, 2));
        assert_eq!((left.bytes, left.connects, left.closes, left.generator_cpu_ns), (7, 1, 1, 5));
    }
}
