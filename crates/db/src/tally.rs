//! What sessions have done, for reports. Any thread adds to it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one cluster. A session adds to them; nothing is decided by them.
#[derive(Debug, Default)]
pub struct Tally {
    /// Sessions that have begun.
    pub sessions: AtomicU64,
    /// Sessions that are open.
    pub open_sessions: AtomicU64,
    /// Sessions that found no server, or lost theirs.
    pub failed_sessions: AtomicU64,
    /// Sessions that were ended, or moved, because their server was lost or has another role now.
    pub moved_sessions: AtomicU64,
    /// Statements that were sent to the primary because they may write, or cannot be judged.
    pub writes: AtomicU64,
    /// Reads that were sent to a replica.
    pub replica_reads: AtomicU64,
    /// Reads that were sent to the primary: the session is kept there, or no replica had what it wrote.
    pub primary_reads: AtomicU64,
    /// Of `primary_reads`, those for want of a replica that is near enough.
    pub late_reads: AtomicU64,
    /// Statements that clients have had prepared.
    pub prepared: AtomicU64,
    /// Times that such a statement was prepared at a further server, where it was to be executed.
    pub prepared_again: AtomicU64,
    /// Connections to servers that wait for the next session.
    pub idle_connections: AtomicU64,
    /// Connections to servers that were made.
    pub made_connections: AtomicU64,
    /// Connections to servers that served another session before.
    pub reused_connections: AtomicU64,
    pins: [AtomicU64; Pin::ALL.len()],
}

/// Why a session is kept on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// A transaction is open.
    Transaction,
    /// `LOCK TABLES`, `GET_LOCK` and their kin.
    Lock,
    /// A temporary table.
    TemporaryTable,
    /// A user variable (`@name`).
    UserVariable,
    /// A setting that cannot be made elsewhere: a session variable, a character set.
    Setting,
    /// `HANDLER … OPEN`, `PREPARE … FROM`.
    OpenStatement,
    /// A stored routine, which may leave anything.
    Routine,
    /// A two-phase transaction.
    Xa,
    /// A database that each server has for itself.
    OwnDatabase,
    /// What was not understood.
    Unknown,
}

impl Pin {
    /// All of them, in the order of the counters.
    pub const ALL: [Pin; 10] = [
        Pin::Transaction,
        Pin::Lock,
        Pin::TemporaryTable,
        Pin::UserVariable,
        Pin::Setting,
        Pin::OpenStatement,
        Pin::Routine,
        Pin::Xa,
        Pin::OwnDatabase,
        Pin::Unknown,
    ];

    /// Its name in documents and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Pin::Transaction => "transaction",
            Pin::Lock => "lock",
            Pin::TemporaryTable => "temporary_table",
            Pin::UserVariable => "user_variable",
            Pin::Setting => "setting",
            Pin::OpenStatement => "open_statement",
            Pin::Routine => "routine",
            Pin::Xa => "xa",
            Pin::OwnDatabase => "own_database",
            Pin::Unknown => "unknown",
        }
    }
}

impl Tally {
    /// One more.
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One less, of those that say how many there are now.
    pub fn subtract(counter: &AtomicU64) {
        counter.fetch_sub(1, Ordering::Relaxed);
    }

    /// A statement has bound a session to its connection.
    pub fn pinned(&self, why: Pin) {
        Tally::add(&self.pins[why as usize]);
    }

    /// How often a session was bound for this reason.
    pub fn pins(&self, why: Pin) -> u64 {
        self.pins[why as usize].load(Ordering::Relaxed)
    }
}
