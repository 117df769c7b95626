//! The configuration of the process.

use crate::memory::limit::MemoryLimit;
use crate::module::ModuleConf;
use crate::peer::Peer;
use brisk_conf::Span;
use brisk_conf::cidr::Cidr;
use std::sync::Arc;
use std::time::Duration;

/// `worker_processes`: the number of event-loop threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Processes {
    /// As many as the smaller of CPU affinity and cgroup quota allows.
    #[default]
    Auto,
    /// Just so many.
    Count(usize),
}

/// `worker_cpu_affinity`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CpuAffinity {
    /// Threads run on any core.
    #[default]
    None,
    /// One core per thread, from the cores of the mask (all if `None`).
    Auto(Option<Vec<usize>>),
    /// The cores of thread 0, 1, …; the last mask counts for all further threads.
    Masks(Vec<Vec<usize>>),
}

/// Directives of `main` and `events`.
#[derive(Clone, Debug, Default)]
pub struct MainConf {
    /// `daemon`.
    pub daemon: bool,
    /// `master_process`.
    pub master_process: bool,
    /// `pid`: a path.
    pub pid: String,
    /// `user`: the user and, if one is named, the group.
    pub user: Option<(String, Option<String>)>,
    /// Where `user` stands.
    pub user_span: Option<Span>,
    /// `worker_processes`.
    pub processes: Processes,
    /// `worker_cpu_affinity`.
    pub affinity: CpuAffinity,
    /// `worker_priority`: the nice value.
    pub priority: i32,
    /// `worker_rlimit_nofile`.
    pub rlimit_nofile: Option<u64>,
    /// `worker_rlimit_core`, in bytes.
    pub rlimit_core: Option<u64>,
    /// Zero: no limit.
    pub shutdown_timeout: Duration,
    /// `working_directory`.
    pub working_directory: Option<String>,
    /// `env`: a name, or a name and a value.
    pub env: Vec<(String, Option<String>)>,
    /// `memory_limit`.
    pub memory_limit: MemoryLimit,
    /// `worker_connections`: of each thread.
    pub connections: u64,
    /// `debug_connection`: clients whose requests are logged at every level.
    pub debug_clients: Vec<DebugClient>,
    /// `multi_accept`.
    pub multi_accept: bool,
    /// `pcre_jit`.
    pub pcre_jit: bool,
    /// `thread_pool`: threads and queue length by name.
    pub thread_pools: Vec<(String, usize, usize)>,
    /// There is an `events` block.
    pub has_events: bool,
    /// There is an `http` block.
    pub has_http: bool,
}

impl ModuleConf for MainConf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// One `debug_connection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugClient {
    /// Those of unix sockets.
    Unix,
    /// Those of a network.
    Net(Cidr),
}

impl MainConf {
    /// Whether everything about a client is to be logged.
    pub fn debugs(&self, peer: &Peer) -> bool {
        self.debug_clients.iter().any(|client| match (client, peer.ip()) {
            (DebugClient::Unix, None) => true,
            (DebugClient::Net(net), Some(ip)) => net.contains(ip) || net.contains_unmapped(ip),
            _ => false,
        })
    }
}
