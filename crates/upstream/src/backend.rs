//! A group of servers, as the engine sees it.

use crate::head::BackendHead;
use crate::tls::Tls;
use brisk_balance::{Ask, Endpoint, Group, Lease, Selection};
use brisk_net::{Failure, clock};
use brisk_server::request::Request;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::time::Duration;

/// How connections that have done their work are kept (`keepalive…` in `upstream`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle connections that the process keeps to the group's servers; 0: none.
    pub idle_max: usize,
    /// A location uses no other location's connections.
    pub local: bool,
    /// A connection ends with so many requests.
    pub requests_max: u64,
    /// How old a connection may become.
    pub time_ms: u64,
    /// How long it may be idle.
    pub timeout_ms: u64,
}

// nginx's defaults: `keepalive_requests` 1000, `keepalive_time` 1h, `keepalive_timeout` 60s.
impl Keepalive {
    /// For groups that no `upstream` block describes.
    pub const NONE: Keepalive =
        Keepalive { idle_max: 0, local: false, requests_max: 1000, time_ms: 3_600_000, timeout_ms: 60_000 };
    /// For `upstream` blocks without `keepalive`.
    pub const DEFAULT: Keepalive = Keepalive { idle_max: 32, local: true, ..Keepalive::NONE };
}

/// What a location passes its requests to. `*_pass` modules leave it in the plan ([`Plan::put`]) for those who ask the same
/// servers on their own: health checks.
///
/// [`Plan::put`]: brisk_server::plan::Plan::put
#[derive(Clone, Debug, Default)]
pub struct Passes {
    /// [`Backend::id`].
    pub group: u64,
    /// `None`: no TLS.
    pub tls: Option<Tls>,
    /// What `Host` is unless it is among the headers.
    pub host: Vec<u8>,
    /// Fields that do not depend on a request.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// For connecting, and for a handshake.
    pub connect_timeout: Duration,
    /// For the answer.
    pub read_timeout: Duration,
    /// HTTP/2 is spoken.
    pub is_http2: bool,
}

/// A group whose one address is that of processes that the server runs itself: each connection leads to another of them.
/// `pm` may change their number at any time, so it is asked for and not kept.
pub trait ProcessPool: Send + Sync {
    /// How many processes there may be now.
    fn count(&self) -> usize;

    /// Whether a request whose process ended before its first byte, `elapsed_ms` after it was sent, is given to another one. It is
    /// asked once per request.
    fn retries(&self, r: &Request, elapsed_ms: u64) -> bool;

    /// A request is refused because no process has a place for it: the status, and what the answer says besides.
    /// 503 in most cases; only the pool knows when it is worth coming again (`Retry-After`).
    fn refuse(&self, r: &mut Request) -> u16;

    /// A connection could not be made, or has ended without an answer. The status if that is so because the pool cannot be reached now, and
    /// another attempt would find the same; the reason and the remedy have been logged then.
    fn out_of_reach(&self, r: &mut Request, failure: &Failure) -> Option<u16>;
}

/// A group of servers.
pub trait Backend: Send + Sync {
    /// Unique in the process: connections of one group serve no other.
    fn id(&self) -> u64;

    /// As it is named in the configuration.
    fn name(&self) -> &str;

    /// How connections to its peers are kept.
    fn keepalive(&self) -> Keepalive;

    /// Idle connections of all threads.
    fn idle(&self) -> &AtomicUsize;

    /// One request's way through the servers.
    fn selection(&self, r: &Request) -> Selection;

    /// Whether a request may be given a server now if one has a place; else it is asked to wait by [`Self::poll_place`].
    /// A selection that finds a free server is not enough where requests wait in a line: one that has just
    /// come must not pass those that wait.
    fn may_choose(&self, r: &mut Request) -> bool {
        let _ = r;
        true
    }

    /// A server was chosen.
    fn chosen(&self, r: &mut Request, lease: &Lease) {
        let _ = (r, lease);
    }

    /// A server's final head has come and will be passed on.
    fn answered(&self, r: &mut Request, lease: &Lease, head: &BackendHead) {
        let _ = (r, lease, head);
    }

    /// All servers have as many connections as they may. Ready with true when that may have changed, and with false if the
    /// request is to be refused.
    fn poll_place(&self, r: &mut Request, cx: &mut Context<'_>) -> Poll<bool> {
        let _ = (r, cx);
        Poll::Ready(false)
    }

    /// The server runs the group's processes itself, and gives out as many leases as there are.
    fn processes(&self) -> Option<&dyn ProcessPool> {
        None
    }
}

/// A group for one request: the addresses of a name that was known only then.
pub struct Transient {
    name: Box<str>,
    group: Arc<Group>,
    idle: AtomicUsize,
}

impl Transient {
    /// A group of these addresses, for one request.
    pub fn new(name: &str, endpoints: Vec<Endpoint>) -> Transient {
        let group = Arc::new(Group::of_addresses(name, endpoints));
        Transient { name: name.into(), group, idle: AtomicUsize::new(0) }
    }
}

impl Backend for Transient {
    fn id(&self) -> u64 {
        // Never compared: without keepalive no connection of this group is put into the pool.
        0
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn keepalive(&self) -> Keepalive {
        // The group ends with the request, so nobody could find the connection again.
        Keepalive::NONE
    }

    fn idle(&self) -> &AtomicUsize {
        &self.idle
    }

    fn selection(&self, r: &Request) -> Selection {
        let ask = Ask { client: r.client_addr().ip(), ..Ask::default() };
        Selection::new(self.group.clone(), ask, clock::mono_ms())
    }
}
