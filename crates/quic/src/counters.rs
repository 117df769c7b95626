//! What an endpoint counts, for metrics.

use std::ops::AddAssign;

/// Sums since the endpoint was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that came.
    pub received: u64,
    /// Those of them that belonged to nothing.
    pub ignored: u64,
    /// Datagrams that were given out.
    pub sent: u64,
    /// Handshakes begun.
    pub begun: u64,
    /// Handshakes that were complete.
    pub completed: u64,
    /// Handshakes that were refused or ignored because there were too many.
    pub refused: u64,
    /// Retry packets.
    pub retries: u64,
    /// Stateless resets.
    pub resets: u64,
    /// Version Negotiation packets.
    pub negotiations: u64,
    /// Packets that were declared lost, of connections that are over.
    pub lost: u64,
    /// Connections that are over after a complete handshake.
    pub ended: u64,
    /// Their smoothed round-trip times at the end, added up, in microseconds.
    pub rtt_us: u64,
    /// Clients whose address has changed and was validated.
    pub migrations: u64,
    /// Handshakes that were given up because they took too long.
    pub stalled: u64,
    /// Connections that were over because nothing came.
    pub timeouts: u64,
    /// Panics of the library that were caught.
    pub panics: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        // By name: a new field is missed by the compiler, not by metrics.
        let Counters {
            received,
            ignored,
            sent,
            begun,
            completed,
            refused,
            retries,
            resets,
            negotiations,
            lost,
            ended,
            rtt_us,
            migrations,
            stalled,
            timeouts,
            panics,
        } = other;
        self.received += received;
        self.ignored += ignored;
        self.sent += sent;
        self.begun += begun;
        self.completed += completed;
        self.refused += refused;
        self.retries += retries;
        self.resets += resets;
        self.negotiations += negotiations;
        self.lost += lost;
        self.ended += ended;
        self.rtt_us += rtt_us;
        self.migrations += migrations;
        self.stalled += stalled;
        self.timeouts += timeouts;
        self.panics += panics;
    }
}
