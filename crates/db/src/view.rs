//! What is known of a cluster at one moment. It never changes: another one takes its place.

use crate::position::Position;
use std::fmt;
use std::sync::Arc;

/// Names a server among those of its cluster: the number of its peer.
pub type ServerId = u32;

/// All servers, and who may be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// In the order of the configuration.
    pub servers: Vec<ServerView>,
    /// The place of the primary in `servers`.
    pub(crate) primary: Result<usize, NoPrimary>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Its number.
    pub id: ServerId,
    /// Its address.
    pub name: Arc<str>,
    /// What it is now.
    pub role: Role,
    /// Whether it may be read from, else why not. Of the primary: always.
    pub reads: Result<(), Unread>,
    /// Sessions of it begin as read-only ones, although it is the primary.
    pub is_read_only: bool,
    /// How far it is behind, in milliseconds.
    pub lag_ms: Option<u64>,
    /// What it has.
    pub position: Option<Position>,
    /// What was wrong when it was last asked.
    pub trouble: Option<Arc<str>>,
}

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not asked yet, or it did not answer.
    Unknown,
    /// The one that takes writes.
    Primary,
    /// One of several that say that they take writes.
    Contender,
    /// It follows another one, or is a node of the cluster that is not chosen for writes.
    Replica,
    /// It answers, and is neither: read-only without a source, or not synchronous.
    Idle,
}

impl Role {
    /// Its name in documents and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Role::Unknown => "unknown",
            Role::Primary => "primary",
            Role::Contender => "contender",
            Role::Replica => "replica",
            Role::Idle => "idle",
        }
    }
}

/// Why a server is not read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It was not asked yet.
    NotAsked,
    /// It does not answer.
    Lost,
    /// It follows nobody now.
    Stopped,
    /// It is too far behind.
    Lag,
    /// It does not know how far it is behind.
    UnknownLag,
    /// A node of a Galera cluster that is not synchronous, or belongs to another cluster.
    NotSynchronous,
    /// Several servers say that they are the primary: whose replica it is cannot be told.
    Split,
    /// It is no replica.
    NoReplica,
}

impl Unread {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Unread::NotAsked => "not asked yet",
            Unread::Lost => "no answer",
            Unread::Stopped => "replication is stopped",
            Unread::Lag => "too far behind",
            Unread::UnknownLag => "lag unknown",
            Unread::NotSynchronous => "not synchronous",
            Unread::Split => "several primaries",
            Unread::NoReplica => "no replica",
        }
    }
}

/// Why nobody may be written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoPrimary {
    /// Not all servers were asked yet: another primary may be among them.
    #[default]
    NotAsked,
    /// No server says that it takes writes.
    None,
    /// Several say so.
    Several,
}

impl fmt::Display for NoPrimary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoPrimary::NotAsked => "not all servers have been asked yet",
            NoPrimary::None => "no server takes writes",
            NoPrimary::Several => "several servers take writes",
        })
    }
}

impl Default for View {
    fn default() -> View {
        View { servers: Vec::new(), primary: Err(NoPrimary::NotAsked) }
    }
}

impl View {
    /// The server that takes writes.
    pub fn primary(&self) -> Result<&ServerView, NoPrimary> {
        self.primary.map(|at| &self.servers[at])
    }

    /// Servers other than the primary that may be read from, and that have all of `after`.
    pub fn readers<'v>(&'v self, after: Option<&'v Position>) -> impl Iterator<Item = &'v ServerView> {
        self.servers.iter().filter(move |server| {
            server.role == Role::Replica
                && server.reads.is_ok()
                && after.is_none_or(|after| server.position.as_ref().is_some_and(|have| have.covers(after)))
        })
    }

    /// A server by its number.
    pub fn server(&self, id: ServerId) -> Option<&ServerView> {
        self.servers.iter().find(|server| server.id == id)
    }
}
