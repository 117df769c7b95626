//! `ngx_http_stub_status_module`: a few numbers about connections. The variables are the core's.

use brisk_conf::{Arity, Context, Risk};
use brisk_http::Method;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::request::Request;
use brisk_server::text::Text;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "stub_status",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(|cx, plan| {
        if cx.conf_of::<Conf>().on {
            plan.content = Some(Arc::new(handle));
        }
    }),
    idle_by_default: true,
    ..Module::EMPTY
};

// A security matter: the numbers tell strangers how busy the machine is.
static ROWS: &[Row] = &[directive("stub_status")
    .doc("The location answers with the numbers of connections and requests since the start.")
    .in_(Context::SERVER.or(Context::LOCATION))
    .arity(Arity::between(0, 1))
    .many()
    .not_inherited()
    .risk(Risk::Security)
    .example("stub_status;")
    .set(|cx, _| {
        cx.conf::<Conf>().on = true;
        Ok(())
    })];

#[derive(Clone, Default)]
struct Conf {
    on: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, _: Context) -> bool {
        self.on
    }

    fn enter(&mut self, into: Context) -> bool {
        // A content handler is a location's own, as in nginx.
        self.on &= Context::SAME_LOCATION.has(into);
        true
    }
}

fn handle(r: &mut Request) -> Flow {
    // As in nginx, whose module knows no other methods.
    if !matches!(r.route.method, Method::Get | Method::Head) {
        return Flow::Status(405);
    }
    let totals = r.thread.shared.totals();
    let text = format!(
        // Byte for byte nginx's, trailing spaces included: monitoring programs parse it.
        "Active connections: {} \nserver accepts handled requests\n {} {} {} \nReading: {} Writing: {} Waiting: {} \n",
        totals.active,
        totals.accepted,
        // Less than those accepted only where the limit of connections has refused some.
        totals.handled,
        totals.requests,
        totals.reading,
        totals.writing,
        totals.waiting()
    );
    r.resp.text(200, Text::Static(b"text/plain"), text);
    Flow::Done
}

#[cfg(test)]
mod tests {
    use crate::check::http;

    #[test]
    fn it_owns_its_location_alone() {
        let text =
            "server { location /a { stub_status; location /a/b { } } location /c { stub_status on; } }";
        let owned: Vec<_> = http(text).unwrap().locations.iter().map(|l| l.plan.content.is_some()).collect();
        assert_eq!(owned.iter().filter(|owned| **owned).count(), 2);
    }
}
