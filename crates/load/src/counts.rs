//! What is counted of requests and connections: the same in a stretch of a run and in all of it.

use std::collections::BTreeMap;

/// Why a request got no usable response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The server's name has no address.
    Dns,
    /// The connection could not be made.
    Connect,
    /// The connection was refused.
    Refused,
    /// The connection was not made within the plan's timeout.
    ConnectTimeout,
    /// The TLS handshake or a record failed.
    Tls,
    /// Reading failed.
    Read,
    /// The connection was reset by the peer.
    Reset,
    /// Writing failed.
    Write,
    /// The peer closed before it answered.
    Closed,
    /// The peer closed in the middle of a response.
    Truncated,
    /// The response broke the protocol.
    Protocol,
    /// The peer reset the stream (HTTP/2, HTTP/3).
    Stream,
    /// No response within the plan's timeout.
    Timeout,
    /// A response that was not what a scenario asks for.
    Check,
}

/// Kinds of errors.
pub const ERROR_KINDS: usize = ErrorKind::ALL.len();

impl ErrorKind {
    /// Every kind, in the order in which reports name them.
    pub const ALL: [Self; 14] = [
        Self::Dns,
        Self::Connect,
        Self::Refused,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Read,
        Self::Reset,
        Self::Write,
        Self::Closed,
        Self::Truncated,
        Self::Protocol,
        Self::Stream,
        Self::Timeout,
        Self::Check,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Refused => "refused",
            Self::ConnectTimeout => "connect timeout",
            Self::Tls => "tls",
            Self::Read => "read",
            Self::Reset => "reset",
            Self::Write => "write",
            Self::Closed => "closed",
            Self::Truncated => "truncated",
            Self::Protocol => "protocol",
            Self::Stream => "stream reset",
            Self::Timeout => "timeout",
            Self::Check => "check",
        }
    }
}

/// Failures by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Errors([u64; ERROR_KINDS]);

impl Errors {
    /// Counts `count` more of a kind.
    pub fn add(&mut self, kind: ErrorKind, count: u64) {
        self.0[kind as usize] += count;
    }

    /// Of one kind.
    pub fn of(&self, kind: ErrorKind) -> u64 {
        self.0[kind as usize]
    }

    /// Of every kind.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// The kinds that have occurred.
    pub fn seen(&self) -> impl Iterator<Item = (ErrorKind, u64)> {
        ErrorKind::ALL.into_iter().zip(self.0).filter(|&(_, count)| count > 0)
    }
}

/// What QUIC did beneath HTTP/3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quic {
    /// Packets that were sent.
    pub sent: u64,
    /// Those of them that were lost; what they carried was sent again.
    pub lost: u64,
    /// Datagrams that came.
    pub received: u64,
    /// Connections whose first requests went with the first packets (0-RTT), and were taken.
    pub early: u64,
    /// Those where the server did not take them: they were sent again.
    pub early_refused: u64,
    /// Moves of connections to another port.
    pub moves: u64,
}

impl Quic {
    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.received += other.received;
        self.early += other.early;
        self.early_refused += other.early_refused;
        self.moves += other.moves;
    }

    /// The share of the packets that were lost.
    pub fn lost_share(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// Counters; see the module's head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Beneath HTTP/3.
    pub quic: Quic,
    /// In an open loop, requests that were due and found no connection until the end.
    pub unsent: u64,
    /// Responses by class: index 1 is 1xx, 5 is 5xx, 0 is anything else.
    pub by_class: [u64; 6],
    /// Responses by status that are not 200.
    pub by_status: BTreeMap<u16, u64>,
    /// Bytes read, heads and bodies.
    pub bytes: u64,
    /// Connections made.
    pub connects: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Connections that the peer closed after a response, as it may.
    pub closes: u64,
    /// Requests that were sent once more, because the server had closed a kept connection without notice.
    pub asked_again: u64,
    /// CPU that the generator itself used, in nanoseconds.
    pub generator_cpu_ns: u64,
    /// How long its threads were ready to run and had no CPU, in nanoseconds.
    pub generator_waited_ns: u64,
    /// How often they were given one.
    pub generator_turns: u64,
    /// Failures.
    pub errors: Errors,
    /// How long failed requests had been waited for within the time of the run, together, in nanoseconds.
    pub failed_ns: u64,
}

impl Counts {
    /// Adds those of another thread, or of another stretch.
    pub fn merge(&mut self, other: &Self) {
        self.quic.merge(&other.quic);
        self.unsent += other.unsent;
        for (count, more) in self.by_class.iter_mut().zip(other.by_class) {
            *count += more;
        }
        for (&status, more) in &other.by_status {
            *self.by_status.entry(status).or_default() += more;
        }
        self.bytes += other.bytes;
        self.connects += other.connects;
        self.resumed += other.resumed;
        self.closes += other.closes;
        self.asked_again += other.asked_again;
        self.generator_cpu_ns += other.generator_cpu_ns;
        self.generator_waited_ns += other.generator_waited_ns;
        self.generator_turns += other.generator_turns;
        self.errors.merge(&other.errors);
        self.failed_ns += other.failed_ns;
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
}
