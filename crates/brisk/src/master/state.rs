//! What the master knows: the live configuration, its workers, and what is under way. What is done with it is in the files beside
//! this one.

use super::telling::Telling;
use crate::background::Caller;
use crate::bundle::Bundle;
use crate::certificates::Certificates;
use crate::channel::{Channel, Outbox};
use crate::config::Paths;
use crate::control::{Call, Control};
use crate::keeper::Keeper;
use crate::pools::{self, Pools};
use crate::programs::{self, Programs};
use crate::sockets::{Fresh, Sockets};
use crate::takeover::{Adoption, Token};
use crate::upgrade::Predecessor;
use brisk_net::listen::Address;
use brisk_server::conf::{HostKey, LogTarget, Snapshot};
use brisk_server::core::{CoreConf, MainConf};
use brisk_server::log::LogFile;
use brisk_server::news::News;
use brisk_server::tls::{Allowed, Source};
use brisk_supervise::{Family, Orders, Pid};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// The master process.
pub struct Master {
    pub paths: Paths,
    pub current: Current,
    pub sockets: Sockets,
    pub workers: Family<Link>,
    pub certificates: Certificates,
    /// PHP pools.
    pub pools: Pools,
    /// Programs that it supervises.
    pub programs: Programs,
    pub generation: u64,
    pub pid_path: String,
    pub control: Option<Control>,
    pub token: Token,
    pub signals: OwnedFd,
    pub stage: Stage,
    /// A reload under way.
    pub change: Option<Change>,
    /// They wait for its end.
    pub callers: Vec<Call>,
    /// A reload was asked for meanwhile, by these callers or by a signal.
    pub again: Option<Vec<Call>>,
    /// Callers that have not said their order yet.
    pub calls: Vec<Call>,
    pub rounds: Vec<Round>,
    /// What workers are to know of this process.
    pub news: News,
    /// The number of the last order.
    pub orders_given: u64,
    /// Workers of a master that was killed, asked to obey this one.
    pub adoptions: Vec<Adoption>,
    /// The new binary's master during an upgrade.
    pub successor: Option<Pid>,
    /// The old binary's master, if this one was started by it.
    pub predecessor: Option<Predecessor>,
    /// The process that waits until this one serves.
    pub caller: Caller,
}

/// Where the server as a whole stands.
pub enum Stage {
    /// The first worker starts.
    Starting {
        certificates: Vec<Arc<Source>>,
    },
    /// It serves. These workers of a master that was killed may still accept connections.
    Relieving {
        old: Vec<Pid>,
        certificates: Vec<Arc<Source>>,
    },
    Serving,
    /// WINCH: no workers are wanted (an upgrade is being tried).
    Idle,
    /// Ends when the last worker has.
    Ending,
    /// Could not start, for this reason.
    Failed(String),
}

/// What of the configuration concerns the process as a whole, kept when the rest is dropped.
pub struct Current {
    pub main: Arc<MainConf>,
    pub core: Arc<CoreConf>,
    pub logs: Vec<Arc<LogFile>>,
    /// Addresses in the order of the snapshot.
    pub addresses: Vec<Address>,
    pub bundle: Bundle,
    /// What workers may have read for them.
    pub allowed: Arc<Allowed>,
    pub uses_raw_sockets: bool,
    pub quic_host_key: Option<HostKey>,
}

impl Current {
    /// What of a configuration stays; the rest is dropped.
    pub fn new(snap: &Snapshot, bundle: Bundle, logs: Vec<Arc<LogFile>>) -> Current {
        Current {
            main: snap.main.clone(),
            core: snap.core.clone(),
            logs,
            addresses: snap.sockets.iter().map(|l| l.address.clone()).collect(),
            bundle,
            allowed: snap.allowed.clone(),
            uses_raw_sockets: snap.uses_raw_sockets,
            quic_host_key: snap.quic_host_key.clone(),
        }
    }
}

/// A configuration that is accepted and not live yet.
pub struct Next {
    pub current: Current,
    /// Its new sockets.
    pub fresh: Fresh,
    pub generation: u64,
    pub certificates: Vec<Arc<Source>>,
    /// Its PHP pools.
    pub pools: pools::Next,
    /// Its supervised programs.
    pub programs: programs::Next,
}

/// The process that reads a configuration for the master.
pub struct Reader {
    pub pid: Pid,
    /// `None` when it has closed its end.
    pub channel: Option<Channel>,
    /// What it has found, or why there is nothing. Acted on when the process has ended: nothing of a reload is left then.
    pub given: Option<Result<Bundle, String>>,
    /// When it is given up.
    pub until: Instant,
}

/// A reload under way. Its callers are kept beside it: a child that is forked meanwhile must be able to let go of them.
pub enum Change {
    /// The configuration is being read.
    Reading(Reader),
    /// This worker was given the configuration.
    Handed { worker: Pid, next: Box<Next> },
    /// This worker starts with it.
    Starting { worker: Pid, next: Box<Next> },
    /// It is served. These workers may still accept connections for the one before.
    Retiring { old: Vec<Pid> },
}

/// What an order was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A part of the change that is under way.
    Configure,
    Certificates,
    Control,
    News,
    Quit,
    /// A part of the round with this number.
    Round(u64),
}

/// Where a worker comes from.
pub enum Origin {
    Child,
    /// Another master's, taken over when that one was killed. Signals go to this handle.
    Adopted(OwnedFd),
}

/// What the master keeps for a worker.
pub struct Link {
    /// `None` when the worker has closed it.
    pub channel: Option<Channel>,
    /// Orders that it has no room for yet.
    pub outbox: Outbox,
    /// Reads for it what it may not; until it closes its end.
    pub keeper: Option<Keeper>,
    /// In its order: a worker that drains still has those of its configuration.
    pub logs: Vec<LogTarget>,
    pub orders: Orders<Purpose>,
    /// Whether it knows the news of this process.
    pub telling: Telling,
    pub origin: Origin,
}

/// What a round is about.
pub enum Subject {
    Reopen,
    Purge,
}

/// An order to all workers under way.
pub struct Round {
    pub number: u64,
    pub subject: Subject,
    /// Workers that have not answered yet.
    pub left: usize,
    /// What their answers add up to.
    pub sum: u64,
    /// The first thing that went wrong.
    pub problem: Option<String>,
    /// `None`: it came by a signal.
    pub call: Option<Call>,
}

/// A time as messages say it.
pub fn seconds(since: Instant, now: Instant) -> String {
    format!("{:.1} s", now.saturating_duration_since(since).as_secs_f64())
}

/// Another descriptor of the same file.
pub fn copy(fd: &OwnedFd) -> Result<OwnedFd, String> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| format!("dup() failed ({e})"))
}
