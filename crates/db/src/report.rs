//! What a server says of itself when it is asked.

use crate::position::Position;

/// An answer to all questions of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether it takes writes.
    pub writes: Writes,
    /// Whether it follows another server.
    pub replication: Replication,
    /// What it has; `None` if it cannot say.
    pub position: Option<Position>,
    /// Of a node of a Galera cluster.
    pub galera: Option<Galera>,
}

/// Whether a server takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It does.
    Taken,
    /// It would, but sessions begin as read-only ones (PostgreSQL's `default_transaction_read_only`).
    NotByDefault,
    /// `read_only` is on, or it is in recovery.
    Refused,
}

/// Whether a server follows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// It has no source.
    None,
    /// It has a source, and does not follow it now: what it has grows older.
    Stopped,
    /// It follows its source.
    Running {
        /// How far it says that it is behind, in milliseconds; `None`: it does not know.
        behind_ms: Option<u64>,
    },
}

/// What a node of a Galera cluster says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Galera {
    /// `wsrep_cluster_state_uuid`.
    pub cluster: Box<str>,
    /// `wsrep_local_state`; 4: synchronous.
    pub state: u32,
    /// `wsrep_ready`.
    pub is_ready: bool,
    /// `wsrep_cluster_status`: it belongs to the part that has the majority.
    pub is_in_majority: bool,
}

impl Galera {
    /// Whether it may be read from and written to: any other one is a donor, joins, or has lost the others.
    pub fn is_synchronous(&self) -> bool {
        const SYNCED: u32 = 4;
        self.state == SYNCED && self.is_ready && self.is_in_majority
    }
}
