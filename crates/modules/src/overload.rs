//! Overload protection, which nginx lacks: requests that have waited too long are turned away at once.
//!
//! When more comes in than the machine can do, queues grow until every answer is too late for whoever asked, and the
//! work on it was in vain. So the time that requests wait is measured: for the event loop, which sees what has come in
//! only when it is done with what came before, and for the pool of threads. A request that comes to a location when
//! that time is over the target is answered with 503 and `Retry-After`, which costs next to nothing. What is served is
//! thereby served in time, and as much of it as the machine can do.
//!
//! Answers that are ready to be sent again as they are cost less than a refusal; they are always given.

use brisk_conf::{Context, Diag, Directive, Risk, value};
use brisk_net::{Loop, blocking, clock};
use brisk_server::conf::{Cx, invalid_value};
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::metrics::{Counter, Scrape};
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Effects, Handler, Plan};
use brisk_server::request::Request;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

pub static MODULE: Module = Module {
    name: "overload",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    metrics: Some(metrics),
    idle_by_default: true,
    ..Module::EMPTY
};

static REFUSED: Counter = Counter::new();

static ROWS: &[Row] = &[
    directive("overload_target")
        .doc("Turns requests away, with 503 and Retry-After, while requests wait longer than this time for the event loop or for a thread of the pool. 50ms is a good start. off: they wait as long as it takes, as in nginx. Answers that are kept ready are always given.")
        .in_(Context::HSL)
        .takes("TIME | off")
        .default("off")
        .risk(Risk::Resource)
        .example("overload_target 50ms;")
        .set(target),
    directive("overload_retry_after")
        .doc("The value of Retry-After in answers to requests that overload_target turns away; 0 leaves it out.")
        .in_(Context::HSL)
        .takes_seconds()
        .default("1s")
        .risk(Risk::Resource)
        .example("overload_retry_after 5s;")
        .sets(|cx, secs| cx.conf::<Conf>().retry_after = secs),
    directive("overload_status")
        .doc("The status of requests that overload_target turns away, 400 to 599.")
        .in_(Context::HSL)
        .takes_number()
        .range(400, 599)
        .unit("status code")
        .default("503")
        .risk(Risk::Resource)
        .example("overload_status 429;")
        .sets(|cx, status| cx.conf::<Conf>().status = status as u16),
];

#[derive(Clone, Default)]
struct Conf {
    target: Option<Duration>,
    /// Seconds.
    retry_after: u64,
    status: u16,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn target(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    if token.str() == "off" {
        cx.conf::<Conf>().target = None;
        return Ok(());
    }
    let time = value::msec(token)?;
    if time.is_zero() {
        return Err(invalid_value(d, token, "off, or a time such as 50ms"));
    }
    cx.measures_lag();
    cx.conf::<Conf>().target = Some(time);
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let Some(target) = conf.target {
        plan.preaccess.push(Arc::new(Overload {
            target_us: target.as_micros() as u64,
            retry_after_secs: conf.retry_after,
            status: conf.status,
        }));
    }
}

struct Overload {
    target_us: u64,
    retry_after_secs: u64,
    status: u16,
}

/// The request was let in: what it was let in for is finished, wherever it leads.
#[derive(Default)]
struct Admitted(Cell<bool>);

impl Handler for Overload {
    fn declares(&self) -> Declared {
        Declared::RECORDED.does(Effects::SHEDS)
    }

    fn handle(&self, r: &mut Request) -> Flow {
        if r.route.is_look_up() {
            return Flow::Next;
        }
        let admitted = r.state.shared.values.get_or(Admitted::default);
        if admitted.0.replace(true) {
            return Flow::Next;
        }
        let waited_us = loop_delay_us(r).max(blocking::delay_us());
        if waited_us <= self.target_us {
            return Flow::Next;
        }
        REFUSED.add(1);
        complain(r, waited_us);
        if self.retry_after_secs > 0 {
            r.resp.set("Retry-After", self.retry_after_secs.to_string());
        }
        Flow::Status(self.status)
    }
}

/// How long a request has waited for the event loop. The first of a wake-up has waited for nothing that would be done
/// sooner without it: it is always let in, so that a pause of the whole machine turns nobody away who comes alone.
fn loop_delay_us(r: &Request) -> u64 {
    let turn = Loop::current().turn();
    if TURN.replace(turn) == turn { r.waited_us() } else { 0 }
}

thread_local! {
    /// The last wake-up that brought a request.
    static TURN: Cell<u64> = const { Cell::new(0) };
    /// The second in which it was last complained, and how many were refused since without a complaint.
    static COMPLAINED: Cell<(i64, u64)> = const { Cell::new((0, 0)) };
}

/// One line per second and thread says it all: a line per request would be work again.
fn complain(r: &Request, waited_us: u64) {
    let (at, more) = COMPLAINED.get();
    let now = clock::now().unix_secs;
    if at == now {
        return COMPLAINED.set((at, more + 1));
    }
    COMPLAINED.set((now, 0));
    let ms = waited_us / 1000;
    brisk_server::rlog!(
        r,
        Warn,
        "overloaded: requests wait for {ms} ms, refusing this one and {more} before it"
    );
}

fn metrics(to: &mut Scrape) {
    to.counter(
        "brisk_overload_refused_total",
        "Requests that overload_target has turned away.",
        &[],
        REFUSED.get(),
    );
}

#[cfg(test)]
mod tests {
    use crate::check::{http, refused};

    #[test]
    fn it_is_measured_only_where_it_is_asked_for() {
        assert!(!http("server { overload_target off; }").unwrap().measures_lag);
        let snap =
            http("overload_target 50ms; server { location /health { overload_target off; } }").unwrap();
        assert!(snap.measures_lag);
        let counts: Vec<_> = snap.locations.iter().map(|l| l.plan.preaccess.len()).collect();
        assert_eq!(counts, [1, 0]);
    }

    #[test]
    fn parameters_are_checked() {
        refused(&[
            ("overload_target 0;", "invalid value \"0\""),
            ("overload_status 200;", "value must be between 400 and 599"),
        ]);
    }
}
