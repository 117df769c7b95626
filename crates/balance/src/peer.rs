//! One peer: what is configured, what it has done lately, whether it may be asked.

use crate::checks::{Health, Verdicts};
use md5::{Digest as _, Md5};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Weights are counted in this many parts, so that a weight of 1 can grow from nothing (`slow_start`). Choices are the
/// same as with whole numbers.
pub(crate) const SCALE: i64 = 1000;

/// Where a peer listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// TCP.
    Ip(SocketAddr),
    /// A unix socket, by its path.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Ip(address) => write!(f, "{address}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Names a server or peer for as long as its group lives; never used twice.
pub type PeerId = u32;

/// What the administrator says of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admin {
    /// It gets requests.
    #[default]
    Up,
    /// It gets none.
    Down,
    /// Only requests that are bound to it by `sticky`.
    Drain,
}

/// One `server` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// As written: `backend.example:8080`. What `hash … consistent` goes by.
    pub server: Arc<str>,
    /// `weight=`, at least 1.
    pub weight: u32,
    /// 0: any number.
    pub max_conns: u32,
    /// 0: failures are not counted.
    pub max_fails: u32,
    /// `fail_timeout=`: so many seconds failures are counted, and the server is out of service for.
    pub fail_timeout_secs: u64,
    /// `slow_start=`: the time in which its weight grows to its full value; 0: at once.
    pub slow_start_ms: u64,
    /// `backup`: it is asked when no other can be.
    pub backup: bool,
    /// `down`.
    pub down: bool,
    /// `drain`. It holds again when the server is not `down` any more.
    pub drain: bool,
    /// `route=`; otherwise sticky sessions know a peer by the MD5 of its address.
    pub route: Option<Arc<str>>,
    /// The name that is looked up at run time (`resolve`); `None`: addresses are fixed.
    pub host: Option<Arc<str>>,
    /// `service=`: SRV records of it.
    pub service: Option<Arc<str>>,
    /// Those known from the start.
    pub endpoints: Vec<Endpoint>,
}

impl ServerSpec {
    /// nginx's defaults.
    pub fn new(server: &str, endpoints: Vec<Endpoint>) -> ServerSpec {
        ServerSpec {
            server: server.into(),
            weight: 1,
            max_conns: 0,
            max_fails: 1,
            fail_timeout_secs: 10,
            slow_start_ms: 0,
            backup: false,
            down: false,
            drain: false,
            route: None,
            host: None,
            service: None,
            endpoints,
        }
    }
}

impl ServerSpec {
    /// What both flags come to: who is to get nothing does not get what belongs to it either.
    pub fn admin(&self) -> Admin {
        match (self.down, self.drain) {
            (true, _) => Admin::Down,
            (false, true) => Admin::Drain,
            (false, false) => Admin::Up,
        }
    }

    /// The port that addresses of its name get.
    pub fn port(&self) -> u16 {
        self.written_port().unwrap_or(80)
    }

    /// Whether a port is written.
    pub fn has_port(&self) -> bool {
        self.written_port().is_some()
    }

    fn written_port(&self) -> Option<u16> {
        self.server.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
    }
}

/// What a peer has done, for reports. Any thread adds to it.
#[derive(Debug, Default)]
pub struct Stats {
    /// Attempts that were given to it.
    pub requests: AtomicU64,
    /// Answers by class: 1xx … 5xx.
    pub responses: [AtomicU64; 5],
    /// Bytes of requests.
    pub sent_bytes: AtomicU64,
    /// Bytes of responses.
    pub received_bytes: AtomicU64,
    /// Attempts that failed.
    pub fails: AtomicU64,
    /// Times it became unavailable through failures.
    pub unavail: AtomicU64,
    /// Active checks.
    pub checks: AtomicU64,
    /// Active checks that failed.
    pub check_fails: AtomicU64,
    /// Times a check found it bad.
    pub unhealthy: AtomicU64,
}

impl Stats {
    /// Counts an answer.
    pub fn answered(&self, status: u16) {
        if let Some(class) = usize::from(status / 100).checked_sub(1).and_then(|at| self.responses.get(at)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn reset(&self) {
        let each = [
            &self.requests,
            &self.sent_bytes,
            &self.received_bytes,
            &self.fails,
            &self.unavail,
            &self.checks,
            &self.check_fails,
            &self.unhealthy,
        ];
        each.into_iter().chain(&self.responses).for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// Counts up; the order among counters does not matter.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// What does not change of a peer.
#[derive(Debug)]
pub struct PeerInfo {
    /// Its number in the group.
    pub id: PeerId,
    /// Its address, as `$upstream_addr` shows it.
    pub name: Arc<str>,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Its server as written; for SRV the record's name.
    pub server: Arc<str>,
    /// What a session is bound to.
    pub sid: Arc<str>,
    /// It is asked when no other can be.
    pub backup: bool,
    /// What it has done.
    pub stats: Stats,
}

/// The MD5 of an address in hexadecimal: how cookies name a peer without telling its address.
pub(crate) fn address_id(name: &str) -> Arc<str> {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(name.as_bytes()).into())).into()
}

/// A peer with its state, owned by its group.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub info: Arc<PeerInfo>,
    /// The server that it comes from.
    pub parent: PeerId,
    /// Configured, times [`SCALE`].
    pub weight: i64,
    /// Lowered by failures, comes back step by step.
    pub effective: i64,
    /// How much it is owed.
    pub current: i64,
    pub conns: u32,
    pub max_conns: u32,
    pub fails: u32,
    /// When it last failed, in seconds.
    pub accessed: u64,
    /// When it was last tried after a pause, or failed.
    pub checked: u64,
    pub max_fails: u32,
    pub fail_timeout: u64,
    pub slow_start_ms: u64,
    /// When it came back; its weight grows from then on.
    pub back_since_ms: Option<u64>,
    pub admin: Admin,
    pub verdicts: Verdicts,
    /// Averages in milliseconds; 0: unknown.
    pub header_time: u64,
    pub response_time: u64,
    pub inflight_time: u64,
    pub inflight_last: u64,
    pub inflight_changed: u64,
    pub inflight: u64,
    /// For reports.
    pub down_since_ms: Option<u64>,
    pub downtime_ms: u64,
    pub selected_ms: Option<u64>,
    pub last_check_passed: Option<bool>,
}

impl Peer {
    /// A peer of a server; `weight` is its share of the server's, `verdicts` what checks say of a peer that is new.
    pub fn new(
        info: Arc<PeerInfo>,
        parent: PeerId,
        spec: &ServerSpec,
        weight: u32,
        verdicts: Verdicts,
    ) -> Peer {
        let weight = i64::from(weight) * SCALE;
        Peer {
            info,
            parent,
            weight,
            effective: weight,
            current: 0,
            conns: 0,
            max_conns: spec.max_conns,
            fails: 0,
            accessed: 0,
            checked: 0,
            max_fails: spec.max_fails,
            fail_timeout: spec.fail_timeout_secs,
            slow_start_ms: spec.slow_start_ms,
            back_since_ms: None,
            admin: spec.admin(),
            verdicts,
            header_time: 0,
            response_time: 0,
            inflight_time: 0,
            inflight_last: 0,
            inflight_changed: 0,
            inflight: 0,
            down_since_ms: None,
            downtime_ms: 0,
            selected_ms: None,
            last_check_passed: None,
        }
    }

    /// Takes over the parameters of a server that was changed.
    pub fn configure(&mut self, spec: &ServerSpec, weight: u32) {
        let weight = i64::from(weight) * SCALE;
        if weight != self.weight {
            (self.weight, self.effective) = (weight, weight);
        }
        self.max_conns = spec.max_conns;
        self.max_fails = spec.max_fails;
        self.fail_timeout = spec.fail_timeout_secs;
        self.slow_start_ms = spec.slow_start_ms;
        self.admin = spec.admin();
    }

    /// What all active checks say of it together.
    pub fn health(&self) -> Health {
        self.verdicts.worst()
    }

    /// Whether it is out of service for its failures.
    pub fn has_failed_lately(&self, now: Clock) -> bool {
        self.max_fails > 0
            && self.fails >= self.max_fails
            && now.secs.saturating_sub(self.checked) <= self.fail_timeout
    }

    /// Whether it has as many connections as it may have (`max_conns=`).
    pub fn is_full(&self) -> bool {
        self.max_conns > 0 && self.conns >= self.max_conns
    }

    /// Neither taken out of service nor found bad.
    pub fn is_in_service(&self) -> bool {
        self.admin == Admin::Up && self.health() == Health::Good
    }

    /// Whether it may be given a request now.
    pub fn is_available(&self, now: Clock) -> bool {
        self.is_in_service() && !self.has_failed_lately(now) && !self.is_full()
    }

    /// As [`Peer::is_available`], for a request that belongs to this peer: draining does not turn it away.
    pub fn takes_its_own(&self, now: Clock) -> bool {
        self.admin != Admin::Down
            && self.health() == Health::Good
            && !self.has_failed_lately(now)
            && !self.is_full()
    }

    /// The weight that it may have by now: all of it, or what `slow_start` allows.
    pub fn present_weight(&mut self, now: Clock) -> i64 {
        let Some(since) = self.back_since_ms else { return self.weight };
        let passed = now.ms.saturating_sub(since);
        if passed >= self.slow_start_ms {
            self.back_since_ms = None;
            return self.weight;
        }
        let part = self.weight.saturating_mul(i64::try_from(passed).unwrap_or(i64::MAX));
        (part / i64::try_from(self.slow_start_ms).unwrap_or(i64::MAX)).max(1)
    }

    /// One step of smooth weighted round robin; returns what was added.
    pub fn step(&mut self, now: Clock) -> i64 {
        let share = self.effective.min(self.present_weight(now));
        self.current += share;
        if self.effective < self.weight {
            self.effective = (self.effective + SCALE).min(self.weight);
        }
        share
    }

    /// It is in service again after an absence.
    pub fn comes_back(&mut self, now: Clock) {
        if self.slow_start_ms > 0 {
            self.back_since_ms = Some(now.ms);
        }
    }

    /// Keeps account of when it can be used, for reports.
    pub fn note_downtime(&mut self, now: Clock) {
        let is_down = !self.is_in_service() || self.has_failed_lately(now);
        match (is_down, self.down_since_ms) {
            (true, None) => self.down_since_ms = Some(now.ms),
            (false, Some(since)) => {
                self.downtime_ms += now.ms.saturating_sub(since);
                self.down_since_ms = None;
            }
            _ => {}
        }
    }
}

/// The time in both resolutions that nginx uses: failures are counted in whole seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub ms: u64,
    pub secs: u64,
}

impl Clock {
    /// That many milliseconds on the monotonic clock.
    pub fn at(ms: u64) -> Clock {
        Clock { ms, secs: ms / 1000 }
    }
}
