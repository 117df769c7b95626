//! Answers that are ready to be sent again, byte for byte but for the date.
//!
//! Only answers that depend on nothing but host, target and files are kept, and perhaps on which content codings the
//! client accepts (see [`purity`](crate::purity)); they are used only while every file that was looked at is
//! unchanged. Which codings a client accepts is looked at only where the answer depends on it.
//!
//! What depends on what is not decided here, and none of these answers is made here: they are bytes that were sent
//! once.

use crate::conf::ids::{ListenId, LocationId, ServerId};
use crate::conf::snapshot::Snapshot;
use crate::core::http_conf::CoreConf;
use crate::files::{Dep, Files};
use crate::limits::{
    PREPARED_ANSWER_BYTES_MAX, PREPARED_BYTES_MAX, PREPARED_ENCODINGS_MAX, PREPARED_ENTRIES_MAX,
    PREPARED_SWEEP_SECS,
};
use crate::live::Live;
use crate::logged;
use crate::metrics::places::Ended;
use crate::metrics::requests::{Name, record_ended};
use crate::purity::Purity;
use crate::request::Request;
use crate::request::reply::Persistence;
use crate::request::state::Values;
use crate::table::Thread;
use crate::text::Text;
use brisk_http::uri::Target;
use brisk_http::{HeaderId, Method};
use brisk_net::tally::Part;
use brisk_net::{clock, fault, watch};
use hashbrown::HashMap;
use std::borrow::Cow;
use std::cell::Cell;
use std::hash::BuildHasher as _;
use std::rc::Rc;
use std::sync::Arc;

/// A GET without a field on which its answer might depend: others may get the same.
///
/// Asked twice: before an answer is looked for, and before one is kept. So no field that could matter stands in the
/// request that makes it or in the one that gets it.
#[inline]
pub fn is_usual(r: &Request) -> bool {
    let unusual = &r.live.snap.unusual;
    // HEAD would need another end of the same bytes, and is rare.
    r.head.parsed.method == Method::Get
        && r.head.parsed.present & unusual.ids == 0
        // Two `Host` fields are a 400 (RFC 9112 §3.2), which the full way finds out.
        && r.head.parsed.repeated & HeaderId::Host.bit() == 0
        && r.head.parsed.headers.len() as u64 <= unusual.fields_max
        // Fields that were dropped from the head cannot be looked at any more.
        && r.head.parsed.ignored.is_empty()
        // Answers are kept for each socket apart, and name the scheme that its connections have: this one's is another.
        && !r.conn().is_passed.get()
        // A request in the clear on a port of TLS gets no answer of that port's, but 400.
        && !r.conn().plain_on_tls.get()
        // The debug log is to show the whole way of a request.
        && !(brisk_host::log::may_debug() && r.logs(brisk_host::log::LogLevel::Debug))
        && !unusual.is_named_in(&r.head.parsed, &r.head.buf)
}

/// Whether connections go on after the request as its location of the start says: that one is asked when the answer is given
/// again.
fn keeps_connections_alike(r: &Request) -> bool {
    let start = r.snap().at_start(r.route.loc);
    let of = |core: &CoreConf| {
        let header = core.keepalive_header;
        (core.keepalive_requests, core.keepalive_time, core.keepalive_timeout, header, core.http2)
    };
    // A location that was compiled late is no index of the snapshot that answers are found in.
    start == r.route.loc || of(r.core()) == of(&r.snap().location(start).core)
}

/// A kept answer.
///
/// What a log line and metrics need is kept beside the bytes, because a request that gets them does not go through
/// the phases.
pub struct Answer {
    /// Head, and a small body.
    pub bytes: Box<[u8]>,
    /// A large body, shared with the cache or the file that it comes from.
    pub apart: Option<Text>,
    /// Where the 29 bytes of the date are.
    pub date_at: usize,
    pub head_len: usize,
    pub status: u16,
    pub server: ServerId,
    pub location: LocationId,
    /// The location that was compiled late into that one, where the log needs it.
    late: Option<(Arc<Snapshot>, LocationId)>,
    /// What variables would say: for the log.
    pub target: Target,
    pub uri: Box<[u8]>,
    pub args: Box<[u8]>,
    /// The target as it was sent, where requests are recorded: `uri` is where rewrites and index files have led.
    asked: Box<[u8]>,
    pub host: Box<[u8]>,
    pub port: Option<u16>,
    pub deps: Box<[Dep]>,
    /// When all of them were found to hold: the number of [flags lowered](watch::lowered) until then, and the second since 1970.
    pub held: Cell<(u64, i64)>,
    /// The last second in which it may be given.
    pub until: i64,
    pub has_log: bool,
    /// Where those who get it are counted besides: its body is stored in a cache.
    counted: Option<Arc<Part>>,
    /// [`State::own`](crate::request::State::own), for the log.
    pub own: Values,
}

impl Answer {
    /// What was answered, if a request for the same target would get it too: `bytes`, of which the first `head_len` are the head and the
    /// date is at `date_at`, and `apart` behind them.
    pub fn of(
        r: &Request,
        bytes: &[u8],
        apart: Option<&Text>,
        head_len: usize,
        date_at: usize,
    ) -> Option<Answer> {
        let plan = &r.snap().location(r.route.loc).plan;
        // The cheap questions stand behind the one that most answers fail.
        let has_log = !plan.log.is_empty();
        // A log line may show variables that were set on the way; a prepared answer has not gone that way.
        let is_the_same = r.declared().and(plan.of_rest()).purity() != Purity::Impure
            && (!has_log || r.state.shared.vars.is_empty())
            // Only these: an error may be over with the next request, and `error_page` may do anything.
            && (200..400).contains(&r.resp.status)
            // Few larger ones would fill the thread's memory.
            && bytes.len() + apart.map_or(0, |apart| apart.len()) <= PREPARED_ANSWER_BYTES_MAX
            && is_usual(r)
            && keeps_connections_alike(r)
            // A file that has changed since it was read: the answer is sent, but not kept.
            && r.evidence.deps.iter().all(Dep::is_up);
        // A test compares with a server that prepares nothing.
        if !is_the_same || fault::is_ordered("no-prepared") {
            return None;
        }
        Some(Answer {
            bytes: bytes.into(),
            apart: apart.map(|apart| match apart {
                // So that giving it copies nothing.
                Text::Owned(bytes) => Text::Shared(bytes[..].into()),
                shared => shared.clone(),
            }),
            date_at,
            head_len,
            status: r.resp.status,
            server: r.route.server,
            // A number of the configuration as it was started, where the answer is looked up.
            location: r.snap().at_start(r.route.loc),
            late: (has_log && r.live.root.is_some()).then(|| (r.live.snap.clone(), r.route.loc)),
            target: r.head.target.without_path(),
            uri: r.route.uri[..].into(),
            args: r.route.args[..].into(),
            asked: if r.live.places.is_some() { r.unparsed_uri()[..].into() } else { Box::default() },
            host: r.head.host[..].into(),
            port: r.head.port,
            deps: r.evidence.deps[..].into(),
            held: Cell::default(),
            until: r.evidence.same_until.get(),
            has_log,
            counted: r.evidence.deps.iter().find_map(|dep| dep.counted.clone()),
            own: if has_log { r.state.own.clone() } else { Values::default() },
        })
    }

    /// Bytes of head and body.
    fn len(&self) -> usize {
        self.bytes.len() + self.apart.as_ref().map_or(0, |apart| apart.len())
    }

    /// Logs and counts a request that got this answer, with a head of `head_bytes`.
    #[inline]
    pub fn conclude(&self, thread: &Thread, live: &Live, r: &mut Request, head_bytes: u64) {
        thread.counters().prepared.up();
        if let Some(part) = &self.counted {
            part.up();
        }
        let body_bytes = (self.len() - self.head_len) as u64;
        // Only a log needs the request's parts; metrics need numbers.
        if self.has_log {
            // What the phases would have set, so that log lines of both kinds of requests read alike.
            r.route.server = self.server;
            r.route.loc = self.location;
            if let Some((snap, location)) = &self.late {
                r.live = Rc::new(Live::late(r.live.shared_root(), snap.clone()));
                r.route.loc = *location;
            }
            r.head.target.clone_from(&self.target);
            r.route.uri.extend_from_slice(&self.uri);
            r.route.args.extend_from_slice(&self.args);
            r.head.host.extend_from_slice(&self.host);
            r.head.port = self.port;
            r.route.method = Method::Get;
            r.reply.persistence = Persistence::KeepAlive;
            r.resp.status = self.status;
            r.state.own.extend(&self.own);
            r.progress.sent.head_bytes = head_bytes;
            r.progress.sent.body_bytes = body_bytes;
            r.reply.completed = true;
            logged::finish(r);
        } else {
            let ended = || Ended {
                server: self.server,
                location: self.location,
                // Not `status` of the head alone: metrics by class need it, and no head is parsed for that.
                status: self.status,
                sent_bytes: head_bytes + body_bytes,
                received_bytes: r.head.parsed.len as u64,
                started_us: r.progress.started.mono_us,
            };
            let name =
                || Name { host: &self.host, target: Cow::Borrowed(&self.asked), client: r.client_addr() };
            record_ended(thread, live, ended, name);
        }
    }

    /// Whether the files that it depends on are unchanged, to be asked after [`Files::sync`](crate::files::Files::sync). Each is asked
    /// for only if a flag was lowered since they were found to hold, whosever it is, or the second is another: an answer may depend on a
    /// dozen files.
    #[inline]
    fn is_confirmed(&self, files: &Files, now: i64) -> bool {
        let asked = (watch::lowered(), now);
        if self.held.get() == asked {
            return true;
        }
        let holds = self.deps.iter().all(|dep| files.holds(dep));
        if holds {
            self.held.set(asked);
        }
        holds
    }

    /// Whether nothing is known against it.
    fn holds(&self, now: i64) -> bool {
        // The flags alone, without draining events: this only chooses what to drop.
        now <= self.until && self.deps.iter().all(Dep::is_up)
    }
}

/// What is kept for one target.
enum Kept {
    /// The same for every client.
    One(Rc<Answer>),
    /// By [`Request::encoding_class`](crate::request::Request::encoding_class).
    ByEncoding(Vec<(u8, Rc<Answer>)>),
}

impl Kept {
    fn bytes(&self) -> usize {
        // Counted by answers alone. Keys are bounded by the number of entries and the size of a head.
        match self {
            Kept::One(answer) => answer.len(),
            Kept::ByEncoding(answers) => answers.iter().map(|(_, answer)| answer.len()).sum(),
        }
    }

    /// Drops what no longer holds; false if nothing is left.
    fn retain(&mut self, now: i64) -> bool {
        match self {
            Kept::One(answer) => answer.holds(now),
            Kept::ByEncoding(answers) => {
                answers.retain(|(_, answer)| answer.holds(now));
                !answers.is_empty()
            }
        }
    }
}

struct Entry {
    listen: ListenId,
    host: Box<[u8]>,
    target: Box<[u8]>,
    kept: Kept,
}

/// One thread's kept answers for one configuration.
#[derive(Default)]
pub struct Prepared {
    // Of two targets with the same hash one replaces the other; the comparison in `get` keeps them apart.
    map: HashMap<Key, Entry, hashbrown::DefaultHashBuilder>,
    bytes: usize,
    /// The second (since 1970) of the last look for answers whose time is over.
    swept: i64,
}

/// The map is keyed by hash alone; the entry holds what is compared.
#[derive(PartialEq, Eq, Hash)]
struct Key(u64);

impl Prepared {
    fn hash(&self, listen: ListenId, host: &[u8], target: &[u8]) -> u64 {
        self.map.hasher().hash_one((listen.0, host, target))
    }

    /// The answer for a request that [is usual](is_usual), if there is one and the file events say that it still holds.
    #[inline]
    pub fn find(&mut self, r: &Request, listen: ListenId) -> Option<Rc<Answer>> {
        // A thread that has prepared nothing computes no hash.
        if self.map.is_empty() {
            return None;
        }
        let host = r.head.field(HeaderId::Host)?;
        let target = r.head.parsed.target.of(&r.head.buf);
        let files = &r.thread.files;
        // Events are drained once for all requests that were read before.
        let now = clock::now().unix_secs;
        let confirm = |answer: &Answer| {
            files.sync();
            answer.is_confirmed(files, now)
        };
        // Computed only for answers that are kept by class.
        // It reads the fields by which answers differ, so it costs more than the rest of the look-up.
        let class = || r.encoding_class();
        self.get(listen, host, target, class, confirm, now)
    }

    /// Keeps the answer of a request for the next one of the same target.
    pub fn keep(&mut self, r: &Request, listen: ListenId, answer: Answer) {
        let Some(host) = r.head.field(HeaderId::Host) else { return };
        let class = (r.declared().purity() == Purity::ByEncoding).then(|| r.encoding_class());
        let target = r.head.parsed.target.of(&r.head.buf);
        self.put(listen, host, target, class, answer, clock::now().unix_secs);
    }

    /// The answer, if it still holds at `now` (seconds since 1970). `class` is asked only if the answer depends on it.
    /// `confirm` says whether the files that it depends on are unchanged.
    #[inline]
    fn get(
        &mut self,
        listen: ListenId,
        host: &[u8],
        target: &[u8],
        class: impl FnOnce() -> u8,
        confirm: impl FnOnce(&Answer) -> bool,
        now: i64,
    ) -> Option<Rc<Answer>> {
        let hash = self.hash(listen, host, target);
        let entry = self.map.get(&Key(hash))?;
        // The whole key is compared and not its hash alone: clients choose targets, and could look for two with one hash.
        if *entry.target != *target || *entry.host != *host || entry.listen != listen {
            return None;
        }
        let answer = match &entry.kept {
            Kept::One(answer) => answer,
            Kept::ByEncoding(answers) => {
                let class = class();
                answers.iter().find(|(have, _)| *have == class).map(|(_, answer)| answer)?
            }
        };
        // The time first: it costs nothing, and an answer that is too old needs no look at its files.
        if now <= answer.until && confirm(answer) {
            return Some(answer.clone());
        }
        self.prune(hash, now);
        None
    }

    /// Drops an entry's answers that no longer hold.
    fn prune(&mut self, hash: u64, now: i64) {
        let Some(entry) = self.map.get_mut(&Key(hash)) else { return };
        // Counted down and up again, since some of its answers may stay.
        self.bytes -= entry.kept.bytes();
        if entry.kept.retain(now) {
            self.bytes += entry.kept.bytes();
        } else {
            self.map.remove(&Key(hash));
        }
    }

    /// Drops what is outdated, and of the rest the entries that may not stay.
    fn retain(&mut self, now: i64, mut may_stay: impl FnMut() -> bool) {
        let mut bytes = 0;
        self.map.retain(|_, entry| {
            let stay = may_stay() && entry.kept.retain(now);
            bytes += if stay { entry.kept.bytes() } else { 0 };
            stay
        });
        self.bytes = bytes;
    }

    /// Drops what is outdated, and half of the rest: what is in use comes back with its next request.
    fn make_room(&mut self, now: i64) {
        // Without an order of use, so that a hit writes nothing.
        let mut turn = false;
        self.retain(now, || {
            turn = !turn;
            turn
        });
    }

    /// Keeps an answer; with a class, for requests of that class only.
    fn put(
        &mut self,
        listen: ListenId,
        host: &[u8],
        target: &[u8],
        class: Option<u8>,
        answer: Answer,
        now: i64,
    ) {
        if self.map.len() >= PREPARED_ENTRIES_MAX || self.bytes + answer.len() > PREPARED_BYTES_MAX {
            self.make_room(now);
        }
        // Answers from a cache are good for a second, and share its bytes and the open file: one that is not asked for again must not hold
        // them for long.
        if answer.until != i64::MAX && now >= self.swept + PREPARED_SWEEP_SECS {
            self.swept = now;
            self.retain(now, || true);
        }
        let hash = self.hash(listen, host, target);
        let answer = Rc::new(answer);
        // Taken out and counted down first: an entry of another target with the same hash is replaced.
        let old = self.map.remove(&Key(hash));
        self.bytes -= old.as_ref().map_or(0, |entry| entry.kept.bytes());
        let same =
            old.filter(|entry| *entry.target == *target && *entry.host == *host && entry.listen == listen);
        let kept = match (class, same.map(|entry| entry.kept)) {
            (None, _) => Kept::One(answer),
            (Some(class), Some(Kept::ByEncoding(mut answers))) => {
                // The newest stands first, so the oldest is cut off.
                answers.retain(|(have, _)| *have != class);
                answers.truncate(PREPARED_ENCODINGS_MAX - 1);
                answers.insert(0, (class, answer));
                Kept::ByEncoding(answers)
            }
            (Some(class), _) => Kept::ByEncoding(vec![(class, answer)]),
        };
        self.bytes += kept.bytes();
        self.map.insert(Key(hash), Entry { listen, host: host.into(), target: target.into(), kept });
    }
}
