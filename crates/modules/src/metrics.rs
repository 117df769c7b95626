//! `metrics` and `status`: what the server counts, for machines to watch.
//!
//! Requests are counted by location only where a configuration has one of these directives: elsewhere counting
//! would cost and nobody read it.

use crate::own_page::refuses_name;
use brisk_conf::{Arity, Context, Risk};
use brisk_http::Method;
use brisk_net::blocking;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::metrics::Scrape;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::request::Request;
use brisk_server::text::Text;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "metrics",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(|cx, plan| {
        let form = cx.conf_of::<Conf>().form;
        if let Some(form) = form {
            plan.content = Some(Arc::new(move |r: &mut Request| handle(r, form)));
        }
    }),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("metrics")
        .doc("The location answers with all numbers in Prometheus' text format: requests by server, location and class of status with their times, connections, threads, the file cache and whatever modules count. Requests are recorded only where metrics or status is configured somewhere. Where clients need not log in (auth_basic, auth_jwt, auth_request), it answers only under an address, localhost or a name that is in server_name, and over Unix sockets.")
        .in_(Context::SERVER.or(Context::LOCATION))
        .arity(Arity::NONE)
        .not_inherited()
        .risk(Risk::Security)
        .example("metrics;")
        .set(|cx, _| {
            cx.records_requests();
            cx.conf::<Conf>().form = Some(Form::Text);
            Ok(())
        }),
    directive("status")
        .doc("The location answers with the numbers of metrics as JSON, under the same names.")
        .in_(Context::SERVER.or(Context::LOCATION))
        .arity(Arity::NONE)
        .not_inherited()
        .risk(Risk::Security)
        .example("status;")
        .set(|cx, _| {
            cx.records_requests();
            cx.conf::<Conf>().form = Some(Form::Json);
            Ok(())
        }),
];

#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
}

#[derive(Clone, Default)]
struct Conf {
    form: Option<Form>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, _: Context) -> bool {
        self.form.is_some()
    }

    fn enter(&mut self, into: Context) -> bool {
        // As other handlers: what a location answers is not inherited by those within it.
        if !Context::SAME_LOCATION.has(into) {
            self.form = None;
        }
        true
    }
}

fn handle(r: &mut Request, form: Form) -> Flow {
    if let Some(refusal) = refuses_name(r, "a look at the metrics") {
        return refusal;
    }
    if !matches!(r.route.method, Method::Get | Method::Head) {
        return Flow::Status(405);
    }
    // With thousands of locations there is much to write: not in the event loop.
    // What belongs to this thread is read here; the rest is read on the pool.
    let scrape = Scrape::new(&r.live, &r.thread);
    let job = blocking::run(move || match form {
        Form::Text => (scrape.filled().text(), "text/plain; version=0.0.4"),
        Form::Json => (scrape.filled().json(), "application/json"),
    });
    let Ok(job) = job else { return Flow::Status(503) };
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let (text, content_type) = job.await;
            r.resp.text(200, Text::from(content_type), text);
            // An old count is worse than none.
            r.resp.add("Cache-Control", "no-store");
            Flow::Done
        })
    }))
}

#[cfg(test)]
mod tests {
    use crate::check::http;

    #[test]
    fn requests_are_recorded_where_somebody_asks() {
        assert!(!http("server { }").unwrap().records_requests);
        let text = "server { location /m { metrics; location /m/x { } } location /s { status; } }";
        let snap = http(text).unwrap();
        assert!(snap.records_requests);
        let owned = snap.locations.iter().filter(|l| l.plan.content.is_some()).count();
        assert_eq!(owned, 2, "not inherited");
    }
}
