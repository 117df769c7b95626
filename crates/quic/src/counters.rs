//! What an endpoint counts, for metrics.

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
    /// Clients whose address has changed and was validated.
    pub migrations: u64,
    /// Connections that were over because nothing came.
    pub timeouts: u64,
    /// Panics of the library that were caught.
    pub panics: u64,
}
