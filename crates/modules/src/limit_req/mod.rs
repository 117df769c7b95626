//! `ngx_http_limit_req_module`: how many requests per time a key may make.
//!
//! The leaky bucket is in [`zone`]; here limits of a block are asked together, and a request that must wait does so
//! in a future.

mod zone;

use crate::limiting::{self, Outcome, ZoneRef, no_zone, refusal_rows};
use crate::limits::LIMIT_REQ_KEY_BYTES_MAX;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token};
use brisk_net::{clock, sleep};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::LogLevel;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::metrics::Scrape;
use brisk_server::module::{Module, Row, joined, rows_in};
use brisk_server::plan::{Handler, Plan};
use brisk_server::request::Request;
use brisk_server::vars::{Template, Variable, VariableGet};
use brisk_server::zone::{self as zones, Zone};

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use zone::{Counters, Millirequests, Verdict};

const NAME: &str = "limit_req";

pub static MODULE: Module = limiting::module::<Limit>(&ROWS, VARIABLES, install, metrics);

const TABLES: &[&[Row]] = &[OWN, &REFUSAL];

static ROWS: [Row; rows_in(TABLES)] = joined(TABLES);

const OWN: &[Row] = &[
    directive("limit_req_zone")
        .doc("Declares counters of requests: a key, zone=NAME:SIZE and rate=N r/s or r/m (written together: 10r/s). Requests whose key is empty are not counted. When the memory is used up, the keys used least recently are forgotten. A reload keeps the counters of a zone whose key and size are unchanged.")
        .in_(Context::HTTP)
        .arity(Arity::exactly(3))
        .takes("KEY zone=NAME:SIZE rate=RATE")
        .many()
        .definition()
        .risk(Risk::Security)
        .example("limit_req_zone $binary_remote_addr zone=requests:10m rate=10r/s;")
        .set(limit_req_zone),
    // Without `burst` the second of two requests at once is refused, and browsers send several for one page.
    directive("limit_req")
        .doc("Limits the rate of requests per key of zone=NAME. Up to burst=N requests ahead of the rate are delayed, with nodelay or the first delay=N of them not; more are refused. All limits of a block count.")
        .in_(Context::HSL)
        .arity(Arity::between(1, 3))
        .takes("zone=NAME [burst=NUMBER] [nodelay | delay=NUMBER]")
        .many()
        .risk(Risk::Security)
        .example("limit_req zone=requests burst=20 nodelay;")
        .set(limit_req),
];

const REFUSAL: [Row; 3] = refusal_rows!(
    "limit_req",
    Limit,
    Context::HSL,
    "The level of messages about refused requests: info, notice, warn or error; about delayed ones it is one lower.",
    "Whether requests are only counted and logged, not delayed or refused."
);

static VARIABLES: &[Variable] = &[Variable {
    name: "limit_req_status",
    get: VariableGet::Fixed(|r, out| {
        let status = r.state.shared.values.get::<Status>().and_then(|status| status.0.get());
        status.is_some_and(|outcome| {
            out.extend_from_slice(outcome.as_str().as_bytes());
            true
        })
    }),
    doc: "What limit_req did: PASSED, DELAYED, REJECTED, DELAYED_DRY_RUN or REJECTED_DRY_RUN.",
    ..Variable::SILENT
}];

type Conf = limiting::Conf<Limit>;

/// `limit_req`.
#[derive(Clone)]
struct Limit {
    zone: ZoneRef,
    burst: Millirequests,
    /// Excess up to this is not delayed.
    delay: Millirequests,
    /// Set when the block is complete.
    counted: Option<Counted>,
}

impl limiting::Limit for Limit {
    const MODULE: &'static str = NAME;
    type Declared = Counted;

    fn zone(&self) -> &ZoneRef {
        &self.zone
    }

    fn declared(&mut self) -> &mut Option<Counted> {
        &mut self.counted
    }
}

/// `limit_req_zone`, as limits see it.
#[derive(Clone)]
struct Counted {
    zone: Arc<Zone>,
    key: Arc<Template>,
    rate: Millirequests,
}

fn limit_req_zone(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let key = Arc::new(cx.template(d.arg(0))?);
    // One per second, as in nginx, if `rate=` is left out.
    let (mut named, mut rate) = (None, 1000);
    for token in &d.args[1..] {
        let text = token.str();
        if text.starts_with("zone=") {
            named = Some((zones::parse(token)?, token));
        } else if let Some(text) = text.strip_prefix("rate=") {
            rate = parse_rate(text).ok_or_else(|| {
                Diag::emerg(token.span, format!("invalid rate \"{}\"", token.text()))
                    .help("write a number of requests per second or minute: rate=10r/s, rate=30r/m")
            })?;
        } else {
            return Err(invalid_parameter(token));
        }
    }
    let (named, token) = named.filter(|((name, _), _)| !name.is_empty()).ok_or_else(|| no_zone(d))?;
    let name = named.0.clone();
    // The key is the zone's meaning: counters of one key must not be read as those of another. The rate is not,
    // so a reload may change it.
    let zone = cx.global.add_zone(NAME, named, token, d.arg(0), |bytes| Arc::new(Counters::new(bytes)))?;
    cx.global.named.insert((NAME, name), Arc::new(Counted { zone, key, rate }));
    Ok(())
}

fn parse_rate(text: &str) -> Option<Millirequests> {
    let (count, seconds) = match (text.strip_suffix("r/s"), text.strip_suffix("r/m")) {
        (Some(count), _) => (count, 1),
        (_, Some(count)) => (count, 60),
        _ => (text, 1),
    };
    // In thousandths per second, as nginx: 1r/m is 16, and what is lost by rounding makes the limit stricter.
    whole(count).map(|count| count / seconds)
}

/// A positive number of requests.
fn whole(text: &str) -> Option<Millirequests> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    // Larger numbers would not fit in thousandths.
    text.parse().ok().filter(|&n: &u64| digits && n > 0 && n <= i64::MAX as u64 / 1000).map(|n| n * 1000)
}

fn limit_req(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // Without `burst` nothing is over; without `delay` all that is over the rate waits.
    let (mut zone, mut burst, mut delay) = (None, 0, 0);
    let count = |token: &Token, text: &str, what: &str| {
        whole(text)
            .ok_or_else(|| Diag::emerg(token.span, format!("invalid {what} value \"{}\"", token.text())))
    };
    for token in &d.args {
        let text = token.str();
        if let Some(name) = text.strip_prefix("zone=") {
            zone = Some(ZoneRef { name: name.into(), span: token.span });
        } else if let Some(text) = text.strip_prefix("burst=") {
            burst = count(token, text, "burst")?;
        } else if let Some(text) = text.strip_prefix("delay=") {
            delay = count(token, text, "delay")?;
        } else if text == "nodelay" {
            // No excess is so large that it would be delayed.
            delay = Millirequests::MAX;
        } else {
            return Err(invalid_parameter(token));
        }
    }
    let zone = zone.ok_or_else(|| no_zone(d))?;
    limiting::add(cx, d, Limit { zone, burst, delay, counted: None })
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if !conf.limits.is_empty() {
        // Before access, so that guesses at passwords are limited, too.
        plan.preaccess.push(Arc::new(LimitReq { conf: cx.shared() }));
    }
}

#[derive(Default)]
struct Status(Cell<Option<Outcome>>);

fn metrics(to: &mut Scrape) {
    use Outcome::{Delayed, DelayedDryRun, Passed, Rejected, RejectedDryRun};
    const ALL: [Outcome; 5] = [Passed, Delayed, Rejected, DelayedDryRun, RejectedDryRun];
    let what = ("brisk_limit_req_requests_total", "Requests by what limit_req said to them.");
    for zone in to.snap().zones.iter().filter(|zone| zone.module == NAME) {
        zone.state::<Counters>().outcomes.tell(to, what, &zone.name, &ALL);
    }
}

struct LimitReq {
    conf: Arc<Conf>,
}

/// What the limits say together.
#[derive(Clone, Copy, Debug)]
enum Together {
    /// No key was there to be counted.
    Uncounted,
    /// Go on after the longest of the delays; the limit and excess that make it.
    Pass {
        delay_ms: u64,
        excess: Millirequests,
        limit: usize,
    },
    Refuse {
        excess: Option<Millirequests>,
        limit: usize,
    },
}

impl Handler for LimitReq {
    fn handle(&self, r: &mut Request) -> Flow {
        if r.route.is_look_up() {
            return Flow::Next;
        }
        // Shared by a request and its subrequests.
        let status = r.state.shared.values.get_or(Status::default);
        // Once for a request with its redirects and subrequests, as in nginx.
        if status.0.get().is_some() {
            return Flow::Next;
        }
        // In a dry run everything is done but the waiting and refusing: counters and messages are as they would
        // be.
        let dry_run = self.conf.dry_run;
        let note = if dry_run { ", dry run" } else { "" };
        let choose = |real, dry| if dry_run { dry } else { real };
        let together = self.ask(r, clock::mono_ms());
        brisk_server::dlog!(r, "limit_req: {together:?}");
        match together {
            // No status is set: a subrequest may have a key where this request had none.
            Together::Uncounted => Flow::Next,
            Together::Refuse { excess, limit } => {
                // Without an excess the key was larger than the zone: refused, without this message.
                if let Some(excess) = excess {
                    let (zone, level) = (&self.conf.limits[limit].zone.name, self.conf.level);
                    let (whole, rest) = (excess / 1000, excess % 1000);
                    if r.logs(level) {
                        r.log(
                            level,
                            format_args!(
                                "limiting requests{note}, excess: {whole}.{rest:03} by zone \"{zone}\""
                            ),
                        );
                    }
                }
                let outcome = choose(Outcome::Rejected, Outcome::RejectedDryRun);
                status.0.set(Some(outcome));
                self.note(limit, outcome);
                if dry_run { Flow::Next } else { Flow::Status(self.conf.status) }
            }
            Together::Pass { delay_ms: 0, limit, .. } => {
                status.0.set(Some(Outcome::Passed));
                self.note(limit, Outcome::Passed);
                Flow::Next
            }
            Together::Pass { delay_ms, excess, limit } => {
                let (zone, level) = (&self.conf.limits[limit].zone.name, one_lower(self.conf.level));
                let (whole, rest) = (excess / 1000, excess % 1000);
                if r.logs(level) {
                    r.log(
                        level,
                        format_args!("delaying request{note}, excess: {whole}.{rest:03}, by zone \"{zone}\""),
                    );
                }
                let outcome = choose(Outcome::Delayed, Outcome::DelayedDryRun);
                status.0.set(Some(outcome));
                self.note(limit, outcome);
                if dry_run { Flow::Next } else { delay(delay_ms) }
            }
        }
    }
}

impl LimitReq {
    /// All must agree before any counts, so that a refused request costs nothing.
    fn ask(&self, r: &Request, now_ms: u64) -> Together {
        let limits = &self.conf.limits;
        let key =
            |limit: &Limit| limit.zone.key(&limit.counted.as_ref()?.key, r, NAME, LIMIT_REQ_KEY_BYTES_MAX);
        // Evaluated once: the loops below ask twice, and a variable may be volatile.
        let keys: Vec<Option<Vec<u8>>> = limits.iter().map(key).collect();
        // Limits behind it have empty keys and count nothing.
        let Some(last) = keys.iter().rposition(Option::is_some) else { return Together::Uncounted };
        let ask = |at: usize, burst: Millirequests, account: bool| {
            let (counted, key) = (limits[at].counted.as_ref()?, keys[at].as_ref()?);
            Some(counted.zone.state::<Counters>().ask(key, counted.rate, burst, now_ms, account))
        };
        for (at, limit) in limits.iter().enumerate().take(last + 1) {
            // The last one counts while it is asked; the others only answer, and are counted below when all have
            // agreed.
            match ask(at, limit.burst, at == last) {
                Some(Verdict::Over(excess)) => return Together::Refuse { excess: Some(excess), limit: at },
                Some(Verdict::TooLarge) => return Together::Refuse { excess: None, limit: at },
                Some(Verdict::Within(excess)) if at == last => {
                    let mut longest = (self.delay_ms(at, excess), excess, at);
                    // Between asking and counting another thread may have counted: the burst is not asked
                    // again, so the excess may pass it by what came in between.
                    for at in (0..last).rev() {
                        if let Some(Verdict::Within(excess)) = ask(at, Millirequests::MAX, true) {
                            let delay_ms = self.delay_ms(at, excess);
                            // The delays are not added up: while a request waits for the slowest bucket the
                            // others empty, too.
                            if delay_ms > longest.0 {
                                longest = (delay_ms, excess, at);
                            }
                        }
                    }
                    return Together::Pass { delay_ms: longest.0, excess: longest.1, limit: longest.2 };
                }
                Some(Verdict::Within(_)) | None => {}
            }
        }
        Together::Uncounted
    }

    fn note(&self, limit: usize, outcome: Outcome) {
        if let Some(counted) = &self.conf.limits[limit].counted {
            counted.zone.state::<Counters>().outcomes.note(outcome);
        }
    }

    fn delay_ms(&self, limit: usize, excess: Millirequests) -> u64 {
        let limit = &self.conf.limits[limit];
        // Never 0: the directive refuses that, but a division by it would end the process.
        let rate = limit.counted.as_ref().map_or(1, |counted| counted.rate).max(1);
        // Thousandths of requests over thousandths per second, in milliseconds.
        excess.saturating_sub(limit.delay) * 1000 / rate
    }
}

fn one_lower(level: LogLevel) -> LogLevel {
    match level {
        // A delayed request is answered, so that it matters less than a refused one.
        LogLevel::Error => LogLevel::Warn,
        LogLevel::Warn => LogLevel::Notice,
        _ => LogLevel::Info,
    }
}

/// Waits; a client that leaves meanwhile is not waited for.
fn delay(ms: u64) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            // Its place in the bucket stays taken: it was counted before.
            if r.gone_before(sleep(Duration::from_millis(ms))).await {
                brisk_server::rlog!(r, Info, "client prematurely closed connection");
                return Flow::Status(499);
            }
            Flow::Next
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, refused};

    #[test]
    fn rates() {
        let check = |text: &str, want: Option<u64>| assert_eq!(parse_rate(text), want, "{text}");
        check("2r/s", Some(2000));
        check("30r/m", Some(500));
        check("1r/m", Some(16));
        check("5", Some(5000));
        for bad in ["", "0r/s", "r/s", "-1r/s", "1r/h", "+1", "99999999999999999999r/s"] {
            check(bad, None);
        }
    }

    #[test]
    fn parameters_are_checked() {
        let zone = "limit_req_zone $uri zone=one:1m rate=1r/s;";
        let with = |text: &str| format!("{zone} server {{ {text} }}");
        let cases = [
            ("limit_req zone=two;", "zero size shared memory zone \"two\""),
            ("limit_req burst=1;", "\"limit_req\" must have \"zone\" parameter"),
            ("limit_req zone=one burst=0;", "invalid burst value \"burst=0\""),
            ("limit_req zone=one delay=x;", "invalid delay value \"delay=x\""),
            ("limit_req zone=one fast;", "invalid parameter \"fast\""),
            ("limit_req zone=one; limit_req zone=one;", "\"limit_req\" directive is duplicate"),
            ("limit_req_status 200;", "value must be between 400 and 599"),
        ];
        for (text, want) in cases {
            refused(&[(&with(text), want)]);
        }
        refused(&[
            ("limit_req_zone $uri zone=one rate=1r/s;", "invalid zone size \"zone=one\""),
            ("limit_req_zone $uri zone=one:x rate=1r/s;", "invalid zone size \"zone=one:x\""),
            ("limit_req_zone $uri zone=one:4k rate=1r/s;", "zone \"zone=one:4k\" is too small"),
            ("limit_req_zone $uri zone=one:1m rate=0r/s;", "invalid rate \"rate=0r/s\""),
            ("limit_req_zone $uri rate=1r/s rate=1r/s;", "\"limit_req_zone\" must have \"zone\" parameter"),
            (
                "limit_req_zone $uri zone=one:1m rate=1r/s; limit_req_zone $args zone=one:1m rate=1r/s;",
                "limit_req_zone \"one\" is already bound to key \"$uri\"",
            ),
        ]);
        accepted(&[
            &format!(
                "limit_req zone=one burst=2 nodelay; {zone} server {{ location / {{ limit_req zone=one; }} }}"
            ),
            &with("limit_req zone=one burst=5 delay=3; limit_req_log_level WARN; limit_req_dry_run on;"),
        ]);
    }

    #[test]
    fn a_block_has_its_own_limits_or_those_around_it() {
        let text = "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $args zone=b:1m rate=1r/s; \
                    server { limit_req zone=a; location /a { } location /b { limit_req zone=b; } }";
        let snapshot = crate::check::http(text).unwrap();
        assert_eq!(snapshot.zones.len(), 2);
        assert!(
            snapshot.locations.iter().all(|l| l.plan.preaccess.len() == 1 && l.plan.purity() == brisk_server::plan::Purity::Impure)
        );
    }

    #[test]
    fn counters_outlive_a_reload_that_leaves_the_zone_as_it_is() {
        let zones = |text: &str| crate::check::http(text).unwrap().zones.clone();
        let full =
            |zones: &[Arc<Zone>]| zones[0].state::<Counters>().ask(b"k", 1, 0, 0, true) != Verdict::Within(0);
        let old = zones("limit_req_zone $uri zone=a:1m rate=1r/s;");
        assert!(!full(&old) && full(&old));
        for (text, keeps) in [
            ("limit_req_zone $uri zone=a:1m rate=9r/s;", true),
            ("limit_req_zone $uri zone=a:2m rate=1r/s;", false),
            ("limit_req_zone $args zone=a:1m rate=1r/s;", false),
            ("limit_req_zone $uri zone=b:1m rate=1r/s;", false),
        ] {
            let new = zones(text);
            brisk_server::zone::inherit(&new, &old);
            assert_eq!(full(&new), keeps, "{text}");
        }
    }
}
