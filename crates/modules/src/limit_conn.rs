//! `ngx_http_limit_conn_module`: how many requests of a key may be in progress at a time.
//!
//! Counters are those of the zone, shared by all threads and kept over reloads; a request holds its places and gives
//! them back however it ends.

use crate::limiting::{self, Outcome, Outcomes, Parts, ZoneRef, no_zone, refusal_rows};
use crate::limits::LIMIT_CONN_KEY_BYTES_MAX;
use crate::stream::part::BLOCKS;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::LogLevel;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::metrics::Scrape;
use brisk_server::module::{Module, Row, joined, rows_in};
use brisk_server::plan::{Handler, Plan};
use brisk_server::request::Request;
use brisk_server::vars::{Context as VarContext, Template, Variable, VariableGet};
use brisk_server::zone::{self as zones, Zone};
use brisk_stream::conf::Check;
use brisk_stream::{Session, Status, UNAVAILABLE};

use hashbrown::HashTable;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

const NAME: &str = "limit_conn";

pub static MODULE: Module = limiting::module::<Limit>(&ROWS, VARIABLES, install, metrics);

const TABLES: &[&[Row]] = &[OWN, &REFUSAL];

static ROWS: [Row; rows_in(TABLES)] = joined(TABLES);

const OWN: &[Row] = &[
    directive("limit_conn_zone")
        .doc("Declares counters of requests in progress: a key and zone=NAME:SIZE. Requests whose key is empty are not counted. When the memory is used up, requests with other keys are refused. A reload keeps the counters of a zone whose key and size are unchanged.")
        .in_(Context::HTTP.or(Context::STREAM))
        .arity(Arity::TWO)
        .takes("KEY zone=NAME:SIZE")
        .many()
        .definition()
        .risk(Risk::Security)
        .example("limit_conn_zone $binary_remote_addr zone=connections:10m;")
        .set(limit_conn_zone),
    directive("limit_conn")
        .doc("A zone and how many requests of a key may be in progress at a time; a connection counts while it has a request in progress, each stream of HTTP/2 and HTTP/3 for itself; in stream a session. All limits of a block count.")
        .in_(Context::HSL.or(BLOCKS))
        .arity(Arity::TWO)
        .takes("NAME NUMBER")
        .many()
        .risk(Risk::Security)
        .example("limit_conn connections 10;")
        .set(limit_conn),
];

const REFUSAL: [Row; 3] = refusal_rows!(
    "limit_conn",
    Limit,
    Context::HSL.or(BLOCKS),
    "The level of messages about refused requests: info, notice, warn or error.",
    "Whether requests are only counted and logged, not refused."
);

static VARIABLES: &[Variable] = &[Variable {
    name: "limit_conn_status",
    get: VariableGet::Fixed(|r, out| {
        let outcome = r.state.shared.values.get::<Counted>().and_then(|counted| counted.outcome.get());
        outcome.is_some_and(|outcome| {
            out.extend_from_slice(outcome.as_str().as_bytes());
            true
        })
    }),
    doc: "What limit_conn did: PASSED, REJECTED or REJECTED_DRY_RUN.",
    ..Variable::SILENT
}];

type Conf = limiting::Conf<Limit>;

/// `limit_conn`.
#[derive(Clone)]
struct Limit {
    zone: ZoneRef,
    max: u32,
    /// Set when the block is complete.
    keyed: Option<Keyed>,
}

impl limiting::Limit for Limit {
    const MODULE: &'static str = NAME;
    type Declared = Keyed;

    fn zone(&self) -> &ZoneRef {
        &self.zone
    }

    fn declared(&mut self) -> &mut Option<Keyed> {
        &mut self.keyed
    }
}

/// `limit_conn_zone`, as limits see it.
#[derive(Clone)]
struct Keyed {
    zone: Arc<Zone>,
    key: Arc<Template>,
}

fn limit_conn_zone(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let key = Arc::new(cx.template(d.arg(0))?);
    let token = d.arg(1);
    if !token.str().starts_with("zone=") {
        return Err(invalid_parameter(token));
    }
    let named = zones::parse(token)?;
    if named.0.is_empty() {
        return Err(no_zone(d));
    }
    let name = named.0.clone();
    let owner = limiting::owner(cx, NAME);
    let zone = cx.global.add_zone(owner, named, token, d.arg(0), |bytes| Arc::new(Counters::new(bytes)))?;
    cx.global.named.insert((owner, name), Arc::new(Keyed { zone, key }));
    Ok(())
}

fn limit_conn(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let zone = ZoneRef { name: d.arg(0).str().into(), span: d.arg(0).span };
    let token = d.arg(1);
    // 0 would refuse everybody: `return` or `deny` say that more plainly.
    let max = value::number(token).ok().filter(|&max| max > 0).ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid number of connections \"{}\"", token.text()))
    })?;
    // nginx counts in 16 bits; here more would fit, but a configuration is to mean the same to both.
    if max > 65_535 {
        return Err(Diag::emerg(token.span, "connection limit must be less 65536"));
    }
    limiting::add(cx, d, Limit { zone, max: max as u32, keyed: None })
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if !conf.limits.is_empty() {
        // Before access, so that guesses at passwords are limited, too.
        plan.preaccess.push(Arc::new(LimitConn { conf: cx.shared() }));
    }
}

/// What a request has done to the counters: undone when it and its subrequests are gone.
#[derive(Default)]
struct Counted {
    outcome: Cell<Option<Outcome>>,
    places: RefCell<Vec<Place>>,
}

/// One more of a key; one less when it is dropped.
struct Place {
    zone: Arc<Zone>,
    key: Box<[u8]>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.zone.state::<Counters>().leave(&self.key);
    }
}

fn metrics(to: &mut Scrape) {
    let what = ("brisk_limit_conn_requests_total", "Requests by what limit_conn said to them.");
    let is_ours = |zone: &&Arc<Zone>| [NAME, limiting::SESSIONS].contains(&zone.module);
    for zone in to.snap().zones.iter().filter(is_ours) {
        let outcomes = [Outcome::Passed, Outcome::Rejected, Outcome::RejectedDryRun];
        zone.state::<Counters>().outcomes.tell(to, what, &zone.name, &outcomes);
    }
}

struct LimitConn {
    conf: Arc<Conf>,
}

/// The limits of the present block of `stream`.
pub fn of_sessions(cx: &Cx<'_, '_>) -> Option<Arc<dyn Check>> {
    let has_limits = !cx.conf_of::<Conf>().limits.is_empty();
    has_limits.then(|| -> Arc<dyn Check> { Arc::new(LimitConn { conf: cx.shared() }) })
}

/// The variables of sessions.
pub static SESSION_VARIABLES: &[brisk_host::vars::Variable<Session>] = &[brisk_host::vars::Variable {
    name: "limit_conn_status",
    get: VariableGet::Fixed(|session: &Session, out| {
        let outcome = session.kept(|counted: &Counted| counted.outcome.get()).flatten();
        outcome.is_some_and(|outcome| {
            out.extend_from_slice(outcome.as_str().as_bytes());
            true
        })
    }),
    set: None,
    reads: brisk_host::vars::Reads::Anything,
    doc: "What limit_conn did: PASSED, REJECTED or REJECTED_DRY_RUN.",
}];

impl Check for LimitConn {
    fn check(&self, session: &Session) -> Result<(), Status> {
        let counted = Counted::default();
        let may_go_on = self.enter(session, &counted);
        session.keep(counted);
        if may_go_on { Ok(()) } else { Err(UNAVAILABLE) }
    }
}

impl Handler for LimitConn {
    fn handle(&self, r: &mut Request) -> Flow {
        if r.route.is_look_up() {
            return Flow::Next;
        }
        // Once for a request with its redirects and subrequests, as in nginx.
        // In what subrequests share: dropped with the last of them, wherever the request has gone meanwhile.
        let counted = r.state.shared.values.get_or(Counted::default);
        if counted.outcome.get().is_some() {
            return Flow::Next;
        }
        if self.enter(r, &counted) { Flow::Next } else { Flow::Status(self.conf.status) }
    }
}

impl LimitConn {
    /// Takes a place for each limit; false if one of them has none left.
    fn enter<C: VarContext>(&self, of: &C, counted: &Counted) -> bool {
        for limit in &self.conf.limits {
            let Some(keyed) = &limit.keyed else { continue };
            let Some(key) = limit.zone.key(&keyed.key, of, NAME, LIMIT_CONN_KEY_BYTES_MAX) else { continue };
            counted.outcome.set(Some(Outcome::Passed));
            let counters = keyed.zone.state::<Counters>();
            // Asked and counted under one lock: two requests cannot both get the last place.
            let entered = counters.enter(&key, limit.max);
            let (name, max) = (&limit.zone.name, limit.max);
            of.log(LogLevel::Debug, format_args!("limit conn: zone \"{name}\", at most {max}: {entered:?}"));
            match entered {
                Enter::Counted => {
                    counters.outcomes.note(Outcome::Passed);
                    counted.places.borrow_mut().push(Place { zone: keyed.zone.clone(), key: key.into() });
                    continue;
                }
                Enter::Over => {
                    let note = if self.conf.dry_run { ", dry run," } else { "" };
                    of.log(self.conf.level, format_args!("limiting connections{note} by zone \"{name}\""));
                }
                // nginx refuses when the zone has no memory, too: a limit that cannot be counted must not be open.
                Enter::Full => {}
            }
            // A refused request counts nowhere: places of the limits before are given back.
            counted.places.borrow_mut().clear();
            if self.conf.dry_run {
                counted.outcome.set(Some(Outcome::RejectedDryRun));
                counters.outcomes.note(Outcome::RejectedDryRun);
                return true;
            }
            counted.outcome.set(Some(Outcome::Rejected));
            counters.outcomes.note(Outcome::Rejected);
            return false;
        }
        true
    }
}

/// What a counter takes besides its key, allocator and table included.
const COUNTER_BYTES: usize = 48;

/// A zone's state: how many requests of each key are in progress.
struct Counters {
    parts: Parts<Part>,
    outcomes: Outcomes,
}

struct Part {
    table: HashTable<Counter>,
    bytes: usize,
    bytes_max: usize,
}

struct Counter {
    hash: u64,
    key: Box<[u8]>,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enter {
    Counted,
    Over,
    /// No memory for another key.
    Full,
}

impl Counters {
    fn new(bytes: u64) -> Counters {
        let part = |bytes_max| Part { table: HashTable::new(), bytes: 0, bytes_max };
        Counters { parts: Parts::new(bytes, part), outcomes: Outcomes::default() }
    }

    fn enter(&self, key: &[u8], max: u32) -> Enter {
        let (mut part, hash) = self.parts.of(key);
        if let Some(counter) = part.table.find_mut(hash, |counter| *counter.key == *key) {
            // Compared with this limit's number: limits of several blocks may share a zone and differ in it.
            if counter.count >= max {
                return Enter::Over;
            }
            counter.count += 1;
            return Enter::Counted;
        }
        // Bounded by the zone's size, counted as nginx counts it, so that a zone holds about as many keys.
        let bytes = cost(key);
        if part.bytes + bytes > part.bytes_max {
            return Enter::Full;
        }
        part.bytes += bytes;
        part.table.insert_unique(hash, Counter { hash, key: key.into(), count: 1 }, |counter| counter.hash);
        Enter::Counted
    }

    fn leave(&self, key: &[u8]) {
        let (mut part, hash) = self.parts.of(key);
        let Ok(mut entry) = part.table.find_entry(hash, |counter| *counter.key == *key) else { return };
        let counter = entry.get_mut();
        counter.count -= 1;
        // A counter at zero is dropped at once: what is not counted takes no memory.
        if counter.count == 0 {
            entry.remove();
            part.bytes -= cost(key);
        }
    }
}

/// As nginx's allocator: powers of two.
fn cost(key: &[u8]) -> usize {
    (COUNTER_BYTES + key.len()).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, refused};

    #[test]
    fn who_leaves_makes_room() {
        let counters = Counters::new(1 << 20);
        assert_eq!(counters.enter(b"a", 2), Enter::Counted);
        assert_eq!(counters.enter(b"a", 2), Enter::Counted);
        assert_eq!(counters.enter(b"a", 2), Enter::Over);
        assert_eq!(counters.enter(b"a", 3), Enter::Counted);
        assert_eq!(counters.enter(b"b", 1), Enter::Counted);
        counters.leave(b"a");
        counters.leave(b"a");
        assert_eq!(counters.enter(b"a", 2), Enter::Counted);
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let counters = Counters::new(32 << 10);
        let key = |n: u32| n.to_be_bytes();
        let entered = (0..1000).filter(|&n| counters.enter(&key(n), 1) == Enter::Counted).count();
        assert_eq!(entered, (32 << 10) / 64);
        (0..entered as u32).for_each(|n| counters.leave(&key(n)));
        assert_eq!(counters.enter(&key(999), 1), Enter::Counted);
        let (part, _) = counters.parts.of(&key(999));
        assert_eq!((part.table.len(), part.bytes), (1, 64));
    }

    #[test]
    fn parameters_are_checked() {
        let with = |text: &str| format!("limit_conn_zone $uri zone=one:1m; server {{ {text} }}");
        for (text, want) in [
            ("limit_conn two 1;", "zero size shared memory zone \"two\""),
            ("limit_conn one 0;", "invalid number of connections \"0\""),
            ("limit_conn one x;", "invalid number of connections \"x\""),
            ("limit_conn one 65536;", "connection limit must be less 65536"),
            ("limit_conn one 1; limit_conn one 2;", "\"limit_conn\" directive is duplicate"),
        ] {
            refused(&[(&with(text), want)]);
        }
        refused(&[
            ("limit_conn_zone $uri one:1m;", "invalid parameter \"one:1m\""),
            ("limit_conn_zone $uri zone=:1m;", "\"limit_conn_zone\" must have \"zone\" parameter"),
            (
                "limit_req_zone $uri zone=one:1m rate=1r/s; limit_conn_zone $uri zone=one:1m;",
                "the shared memory zone \"one\" is already declared for a different use",
            ),
        ]);
        accepted(&[&with(
            "limit_conn one 1; location / { limit_conn_log_level info; limit_conn_status 501; }",
        )]);
    }
}
