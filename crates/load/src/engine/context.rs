//! What a thread's connections share: targets, room to work in, counters, and what may still be sent.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::wire::End;
use brisk_net::udp::Receiver;

use crate::jar::Jar;
use crate::plan::{Order, Plan, Target, Version};
use crate::response::HeadCache;
use crate::rng::Rng;
use crate::stats::{ErrorKind, Record, Stats};

/// The read buffer, shared by a thread's connections.
const BUFFER_BYTES: usize = 128 * 1024;

/// A moment: nanoseconds from the run's start.
pub type Ns = u64;

/// Which thread of how many.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// This thread, from 0.
    pub index: usize,
    /// All threads.
    pub of: usize,
}

impl Share {
    /// This thread's part of `total`, so that all parts add up to it.
    pub fn part(self, total: u64) -> u64 {
        total / self.of as u64 + u64::from((self.index as u64) < total % self.of as u64)
    }
}

/// A request of an open loop that waits for a connection, or one that is asked again.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// When it was to be sent.
    pub at: Ns,
    /// How much later the generator noticed that: its own lateness.
    pub late: Ns,
    /// Its target, if it was sent before, on a connection that the server closed without notice.
    pub again: Option<u32>,
}

/// A request that waits for its response.
#[derive(Debug, Clone, Copy)]
pub struct InFlight {
    /// Index into the plan's flat list of targets.
    pub target: u32,
    /// The status, once it is known (HTTP/2).
    pub status: u16,
    /// When it was to be sent; in a closed loop that is when it was.
    pub due: Ns,
    /// In an open loop, how much later the generator noticed that.
    pub late: Ns,
    /// When it was.
    pub sent: Ns,
    /// When the response began; 0: it has not.
    pub first_byte: Ns,
    /// Bytes of the response so far.
    pub bytes: u64,
    /// Of these, its head's.
    pub head_bytes: u32,
    /// Whether it is sent for the second time.
    pub is_again: bool,
}

impl InFlight {
    /// Just sent.
    pub fn new(target: usize, due: Due, sent: Ns) -> Self {
        let Due { at: due, late, again } = due;
        Self {
            target: target as u32,
            status: 0,
            due,
            late,
            sent,
            first_byte: 0,
            bytes: 0,
            head_bytes: 0,
            is_again: again.is_some(),
        }
    }
}

impl Due {
    /// Now, and noticed now: so are all requests of closed loops.
    #[inline]
    pub fn now(now: Ns) -> Self {
        Self { at: now, late: 0, again: None }
    }
}

/// How a connection came about; the first request on it is the one that it was made for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Made {
    /// Its number, over all threads.
    pub number: u32,
    /// Its number within the thread: whose cookies it has.
    pub user: u32,
    /// How long the connect took, until a request has used it.
    pub connect_ns: u64,
    /// How long the TLS handshake took, likewise.
    pub tls_ns: u64,
}

/// What a connection borrows from its thread while it has its turn.
pub struct Context<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// All targets, site after site.
    pub targets: Vec<&'a Target>,
    /// The last head seen on each target.
    pub caches: Vec<HeadCache>,
    /// The read buffer; taken out while it is worked on.
    pub buffer: Box<[u8]>,
    /// Responses as they come out of records.
    pub plain: Vec<u8>,
    /// Room to seal requests in.
    pub sealed: Vec<u8>,
    /// Room to put requests together.
    pub batch: Vec<u8>,
    /// Room for datagrams.
    pub receiver: Receiver,
    /// The counted part, since the last slice.
    pub stats: Stats,
    /// Responses since the start.
    pub responses: u64,
    /// Bytes since the start.
    pub bytes: u64,
    /// Errors since the start.
    pub errors: u64,
    /// Connections between connect and the end of their handshake.
    pub opening: usize,
    /// Whether the clock has not started: connections are opened, and no request is sent.
    pub is_gathering: bool,
    /// Open connections that wait for the clock.
    pub ready: usize,
    /// Requests that this thread may still send.
    pub allowance: u64,
    /// Whether requests are due at times.
    pub is_open_loop: bool,
    /// When the time of the run was over: what was under way then is waited for.
    pub ended_at: Option<Ns>,
    /// In an open loop, the requests that wait for a connection; the first has waited longest.
    pub waiting: VecDeque<Due>,
    /// In a closed loop, by user, the requests that are asked again on the next connection.
    pub owed: BTreeMap<u32, Due>,
    /// The raw log.
    pub records: Vec<Record>,
    /// Requests that found no room in it.
    pub records_dropped: u64,
    /// Draws pauses and targets.
    pub rng: Rng,
    /// By user; empty if the plan does not look at cookies.
    jars: Vec<Jar>,
    records_max: usize,
    origin: Instant,
    picks: Vec<Pick>,
}

/// Where a site's targets lie in the flat list, and which is next.
struct Pick {
    first: usize,
    count: usize,
    next: usize,
}

impl<'a> Context<'a> {
    /// For one thread. Moments count from `origin`.
    pub fn new(plan: &'a Plan, share: Share, origin: Instant) -> Self {
        let users = share.part(plan.connections as u64) as usize;
        let mut picks = Vec::new();
        let mut first = 0;
        for site in &plan.sites {
            let count = site.targets.len();
            // Threads start at different targets, as far as there are any.
            picks.push(Pick { first, count, next: share.index * count / share.of });
            first += count;
        }
        Self {
            plan,
            targets: plan.sites.iter().flat_map(|site| &site.targets).collect(),
            caches: (0..first).map(|_| HeadCache::default()).collect(),
            buffer: vec![0; BUFFER_BYTES].into(),
            plain: Vec::new(),
            sealed: Vec::new(),
            batch: Vec::new(),
            receiver: Receiver::default(),
            stats: Stats::default(),
            responses: 0,
            bytes: 0,
            errors: 0,
            opening: 0,
            is_gathering: plan.gathers(),
            ready: 0,
            allowance: plan.stop.requests().map_or(u64::MAX, |total| share.part(total)),
            is_open_loop: plan.rate.is_some(),
            ended_at: None,
            waiting: VecDeque::new(),
            owed: BTreeMap::new(),
            records: Vec::new(),
            records_dropped: 0,
            rng: Rng::new(Rng::from_clock().next_u64() ^ share.index as u64),
            jars: plan.jar.iter().flat_map(|jar| vec![jar.clone(); users]).collect(),
            records_max: plan.record.map_or(0, |max| share.part(max as u64) as usize),
            origin,
            picks,
        }
    }

    /// The clock starts: moments count from `origin` on, and what was before is 0.
    pub fn start(&mut self, origin: Instant) {
        let before = origin.saturating_duration_since(self.origin).as_nanos() as Ns;
        self.is_gathering = false;
        self.origin = origin;
        self.stats.failed_ns = 0;
        for record in &mut self.records {
            for moment in
                [&mut record.due_ns, &mut record.sent_ns, &mut record.first_byte_ns, &mut record.done_ns]
            {
                *moment = moment.saturating_sub(before);
            }
        }
    }

    /// What time it is.
    #[inline]
    pub fn now(&self) -> Ns {
        self.origin.elapsed().as_nanos() as u64
    }

    /// The same moment by the system's clock.
    #[inline]
    pub fn instant(&self, at: Ns) -> Instant {
        self.origin + Duration::from_nanos(at)
    }

    /// Requests in flight per connection.
    #[inline]
    pub fn depth(&self) -> usize {
        self.plan.pipeline
    }

    /// What is spoken.
    pub fn version(&self) -> Version {
        self.plan.version
    }

    /// The next target of a site.
    #[inline]
    pub fn next_target(&mut self, site: usize) -> usize {
        let pick = &mut self.picks[site];
        if pick.count == 1 {
            return pick.first;
        }
        match self.plan.order {
            Order::RoundRobin => {
                let target = pick.first + pick.next;
                pick.next = (pick.next + 1) % pick.count;
                target
            }
            Order::Random => pick.first + self.rng.below(pick.count),
        }
    }

    /// Whether cookies are looked at.
    #[inline]
    pub fn has_jars(&self) -> bool {
        !self.jars.is_empty()
    }

    /// A user's answer of a target has this `Set-Cookie`.
    pub fn set_cookie(&mut self, user: u32, target: u32, text: &str) {
        if let (Some(jar), Some(url)) = (self.jars.get_mut(user as usize), &self.targets[target as usize].url)
        {
            jar.set(url, text);
        }
    }

    /// What a user's `Cookie` for a target is.
    pub fn cookies(&self, user: u32, target: usize) -> Option<String> {
        self.jars.get(user as usize)?.header(self.targets[target].url.as_ref()?)
    }

    /// Counts a whole response.
    #[inline]
    pub fn answered(&mut self, request: &InFlight, status: u16, now: Ns, made: &mut Made) {
        let latency = now - request.due;
        if self.is_open_loop {
            self.stats.open_response(status, latency, now - request.sent, request.late);
        } else {
            self.stats.response(status, latency);
        }
        self.responses += 1;
        if self.plan.phases || self.plan.record.is_some() {
            self.stats.first_byte.record(request.first_byte.saturating_sub(request.sent));
            self.keep(request, status, None, now, made);
        }
    }

    /// Whether a request may be sent twice without harm (RFC 9110 §9.2.2).
    pub fn is_repeatable(&self, target: u32) -> bool {
        const IDEMPOTENT: [&[u8]; 6] = [b"GET ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"TRACE "];
        let request = &self.targets[target as usize].request;
        IDEMPOTENT.iter().any(|method| request.starts_with(method))
    }

    /// Counts a request that got no usable response.
    pub fn failed(&mut self, request: &InFlight, kind: ErrorKind, now: Ns, made: &mut Made) {
        self.failures(kind, 1);
        self.waited_in_vain(request.due, now);
        if self.plan.record.is_some() {
            self.keep(request, 0, Some(kind), now, made);
        }
    }

    /// Somebody has waited for nothing, since then.
    pub fn waited_in_vain(&mut self, since: Ns, now: Ns) {
        self.stats.failed_ns += self.ended_at.unwrap_or(now).saturating_sub(since);
    }

    /// Counts failures that are no single request's.
    pub fn failures(&mut self, kind: ErrorKind, count: u64) {
        self.stats.error(kind, count);
        self.errors += count;
    }

    /// TLS has failed: remembers why, the first time.
    #[cold]
    pub fn tls_failed(&mut self, why: &str) -> End {
        self.stats.tls_failure.get_or_insert_with(|| why.to_owned());
        End::Lost(ErrorKind::Tls)
    }

    /// A proxy gives no tunnel: remembers why, the first time.
    #[cold]
    pub fn proxy_failed(&mut self, why: &str) -> End {
        self.stats.proxy_failure.get_or_insert_with(|| why.to_owned());
        End::Lost(ErrorKind::Connect)
    }

    /// QUIC or HTTP/3 has ended a connection: remembers why, the first time.
    #[cold]
    pub fn quic_failed(&mut self, kind: ErrorKind, why: &str) -> End {
        self.stats.quic_failure.get_or_insert_with(|| (kind, why.to_owned()));
        End::Lost(kind)
    }

    /// Counts a connection that could not be made, for the request that it was meant for.
    pub fn not_connected(&mut self, kind: ErrorKind, begun: Ns, mut made: Made) {
        let now = self.now();
        made.connect_ns = now - begun;
        let request = InFlight::new(0, Due::now(begun), begun);
        self.failed(&request, kind, now, &mut made);
    }

    fn keep(&mut self, request: &InFlight, status: u16, error: Option<ErrorKind>, now: Ns, made: &mut Made) {
        if self.records.len() >= self.records_max {
            self.records_dropped += u64::from(self.records_max > 0);
            return;
        }
        self.records.push(Record {
            due_ns: request.due,
            sent_ns: request.sent,
            first_byte_ns: if request.first_byte == 0 { now } else { request.first_byte },
            done_ns: now,
            connect_ns: std::mem::take(&mut made.connect_ns),
            tls_ns: std::mem::take(&mut made.tls_ns),
            bytes: request.bytes,
            head_bytes: request.head_bytes,
            connection: made.number,
            target: request.target,
            status,
            error,
        });
    }
}
