//! `ngx_http_mirror_module`: copies of requests go to other locations, whose answers nobody gets.
//!
//! Copies are sent on their own: what becomes of them changes nothing for the client.

use brisk_conf::{Context, Diag, Directive};
use brisk_server::body;
use brisk_server::conf::{Cx, LocationId};
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Handler, Plan};
use brisk_server::request::Request;
use brisk_server::subrequest::Parent;
use std::cell::RefCell;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "mirror",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // What a copy is answered is thrown away: it must not matter to the client.
    directive("mirror")
        .doc("A URI to which a copy of each request goes, with its arguments; may be written several times. The client does not wait for the copies, and a worker that ends finishes them first.")
        .in_(Context::HSL)
        .takes("URI | off")
        .default("off")
        .many()
        .example("mirror /copy;")
        .set(mirror),
    // It goes to two places, while a body that is passed on as it comes can be sent once.
    directive("mirror_request_body")
        .doc("Whether copies have the request's body. It is read before anything else is done with the request then.")
        .in_(Context::HSL)
        .takes_flag()
        .default("on")
        .example("mirror_request_body off;")
        .sets(|cx, on| cx.conf::<Conf>().request_body = on),
];

#[derive(Clone, Default)]
struct Conf {
    uris: Arc<[Arc<[u8]>]>,
    /// `mirror off` stands here.
    is_off: bool,
    request_body: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn mirror(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let is_first = cx.first;
    let uri = d.arg(0).bytes();
    let conf = cx.conf::<Conf>();
    if !is_first && (conf.is_off || uri == b"off") {
        return Err(Diag::emerg(d.span, "\"mirror\" directive is duplicate")
            .help("off stands alone; write either it or URIs"));
    }
    conf.is_off = uri == b"off";
    let have = if is_first { &[][..] } else { &*conf.uris };
    conf.uris = have.iter().cloned().chain((uri != b"off").then(|| uri.into())).collect();
    // Copies may have the body, which is read as a whole and may need its folder for temporary files.
    if uri != b"off" {
        cx.reads_bodies();
    }
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    if conf.uris.is_empty() {
        return;
    }
    plan.precontent.push(Arc::new(conf.clone()));
}

impl Handler for Conf {
    fn handle(&self, r: &mut Request) -> Flow {
        // A copy is not copied again.
        if r.route.depth > 0 || !is_first(r) {
            return Flow::Next;
        }
        let uris = self.uris.clone();
        if self.request_body {
            return body::with_body(r, move |r| {
                send(&uris, r, true);
                Flow::Next
            });
        }
        send(&uris, r, false);
        Flow::Next
    }
}

/// Visits of locations whose copies were asked for.
#[derive(Default)]
struct Copied(RefCell<Vec<(LocationId, u8)>>);

/// Whether this handler is asked for the first time in a visit, which may go through its steps once more ([`Flow::Anew`]).
fn is_first(r: &Request) -> bool {
    let copied = r.state.own.get_or(Copied::default);
    let (mut copied, visit) = (copied.0.borrow_mut(), r.route.visit());
    let is_first = !copied.contains(&visit);
    if is_first {
        copied.push(visit);
    }
    is_first
}

fn send(uris: &[Arc<[u8]>], r: &Request, with_body: bool) {
    let parent = if with_body { Parent::of(r) } else { Parent::without_body(r) };
    for uri in uris {
        // A back end that does not keep up costs copies, not memory.
        if !parent.run_aside(r.route.method, uri, &r.route.args) {
            let uri = String::from_utf8_lossy(uri);
            brisk_server::rlog!(r, Error, "too many copies are on their way, none is sent to \"{uri}\"");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{messages_in_location, refused};

    #[test]
    fn off_stands_alone() {
        messages_in_location("mirror /a; mirror /b; mirror_request_body off;", &[]);
        messages_in_location("mirror off;", &[]);
        refused(&[
            ("mirror /a; mirror off;", "\"mirror\" directive is duplicate"),
            ("mirror off; mirror /a;", "\"mirror\" directive is duplicate"),
        ]);
    }
}
