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
    Count(usize),
}

/// `worker_cpu_affinity`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CpuAffinity {
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
    pub daemon: bool,
    pub master_process: bool,
    pub pid: String,
    pub user: Option<(String, Option<String>)>,
    /// Where `user` stands.
    pub user_span: Option<Span>,
    pub processes: Processes,
    pub affinity: CpuAffinity,
    pub priority: i32,
    pub rlimit_nofile: Option<u64>,
    pub rlimit_core: Option<u64>,
    /// Zero: no limit.
    pub shutdown_timeout: Duration,
    pub working_directory: Option<String>,
    /// `env`: a name, or a name and a value.
    pub env: Vec<(String, Option<String>)>,
    pub memory_limit: MemoryLimit,
    pub connections: u64,
    /// `debug_connection`: clients whose requests are logged at every level.
    pub debug_clients: Vec<DebugClient>,
    pub multi_accept: bool,
    pub pcre_jit: bool,
    /// `thread_pool`: threads and queue length by name.
    pub thread_pools: Vec<(String, usize, usize)>,
    pub has_events: bool,
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
    Unix,
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
