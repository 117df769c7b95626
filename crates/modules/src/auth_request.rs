//! `ngx_http_auth_request_module`: a subrequest decides who may come in.
//!
//! The question is a subrequest like any other: it may be cached, passed on or answered here, and what it costs
//! is up to its location.

use crate::computed::{taken, variable_name};
use crate::limits::DRAINED_BYTES_MAX;
use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_http::Method;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Handler, Plan};
use brisk_server::request::Request;
use brisk_server::response::{Body, Chunk};
use brisk_server::subrequest::Parent;
use brisk_server::text::Text;
use brisk_server::vars::{Template, VarId};
use std::future::poll_fn;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "auth_request",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // Any other status is a fault of what decides, and no fault must let a request in.
    directive("auth_request")
        .doc("A URI whose answer decides: any 2xx lets the request in; 401 (with its WWW-Authenticate) and 403 are given to the client, anything else is a 500.")
        .in_(Context::HSL)
        .takes("URI | off")
        .default("off")
        .risk(Risk::Security)
        .example("auth_request /_auth;")
        .set(|cx, d| {
            let uri = d.arg(0).bytes();
            cx.conf::<Conf>().uri = (uri != b"off").then(|| uri.into());
            Ok(())
        }),
    // A security matter: an application that gets the user's name from such a variable believes it.
    directive("auth_request_set")
        .doc("Sets a variable when auth_request has its answer; the value may contain variables of that answer, such as $sent_http_… and $upstream_http_….")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("$VARIABLE VALUE")
        .many()
        .risk(Risk::Security)
        .example("auth_request_set $user $upstream_http_x_user;")
        .set(auth_request_set),
];

#[derive(Clone, Default)]
struct Conf {
    uri: Option<Arc<[u8]>>,
    sets: Vec<(VarId, Arc<Template>)>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn auth_request_set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = variable_name(d.arg(0))?;
    let id = cx.global.vars.define_slot(name).ok_or_else(|| taken(d.arg(0), name))?;
    let value = Arc::new(cx.template(d.arg(1))?);
    let is_first = cx.first;
    let conf = cx.conf::<Conf>();
    if is_first {
        // The first of a block ends what was inherited.
        conf.sets.clear();
    }
    conf.sets.push((id, value));
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let Some(uri) = &conf.uri {
        // In the access phase, so that `satisfy` counts it among the others.
        plan.access.push(Arc::new(AuthRequest { uri: uri.clone(), sets: conf.sets.clone().into() }));
    }
}

struct AuthRequest {
    uri: Arc<[u8]>,
    sets: Arc<[(VarId, Arc<Template>)]>,
}

impl Handler for AuthRequest {
    fn identifies(&self) -> bool {
        // What it is told may depend on credentials: what is behind it is not prepared for everybody.
        true
    }

    fn handle(&self, _: &mut Request) -> Flow {
        // Cheap copies: the request outlives this call, and the handler may be replaced by a reload
        // meanwhile.
        let (uri, sets) = (self.uri.clone(), self.sets.clone());
        Flow::Wait(Box::new(move |r| Box::pin(ask(r, uri, sets))))
    }
}

async fn ask(r: &mut Request, uri: Arc<[u8]>, sets: Arc<[(VarId, Arc<Template>)]>) -> Flow {
    let (path, args) = match memchr::memchr(b'?', &uri) {
        Some(at) => (&uri[..at], &uri[at + 1..]),
        None => (&*uri, &b""[..]),
    };
    // As in nginx the question has no body: it is the main request's.
    let mut answer = Parent::without_body(r).run(Method::Get, path, args).await;
    // Before its fields are used: a connection that still has a body to give is not kept.
    if let Some(answer) = &mut answer {
        drain(std::mem::take(&mut answer.resp.body)).await;
    }
    // No answer is no permission: it is reported below as an unexpected status.
    let status = answer.as_ref().map_or(0, |answer| answer.resp.status);
    brisk_server::dlog!(r, "auth request done s:{status}");
    if let Some(answer) = &answer {
        // All values first: none is to see what another has set.
        let values: Vec<_> = sets.iter().map(|(id, value)| (*id, value.eval(&**answer))).collect();
        let live = r.live.clone();
        for (id, value) in values {
            // Variables such as `$args` are not slots: setting them changes the request.
            if let Some(assign) = live.snap.vars.get(id).assign {
                assign(r, &value);
            } else {
                r.state.shared.vars.set(id, Some(value.into()));
            }
        }
    }
    match status {
        // The statuses of nginx's module: all others say that the question failed, which must not let anybody in.
        200..300 => Flow::Allowed,
        401 => {
            // The challenge belongs to the status: without it a client cannot log in.
            // As many as there are: a server may offer several schemes, each in a field of its own.
            let fields = answer.into_iter().flat_map(|mut answer| std::mem::take(&mut answer.resp.headers));
            let is_challenge = |name: &Text| name.eq_ignore_ascii_case(b"WWW-Authenticate");
            r.resp.headers.extend(fields.filter(|(name, _)| is_challenge(name)));
            Flow::Status(401)
        }
        // Its page is of the location that was asked for, not the one that decides.
        403 => Flow::Status(403),
        _ => {
            brisk_server::rlog!(r, Error, "auth request unexpected status: {status}");
            Flow::Status(500)
        }
    }
}

/// Only the head of the answer counts. What has come of its body is thrown away, so that a cache may keep the answer and
/// the connection to its back end be used again; a body that does not end soon is given up.
async fn drain(body: Body) {
    let Body::Stream(mut stream) = body else { return };
    let mut bytes = 0;
    // Bounded: an answer of that purpose is short, and this one is not looked at.
    while bytes < DRAINED_BYTES_MAX
        && let Some(Ok(chunk)) = poll_fn(|cx| stream.poll_chunk(cx)).await
    {
        if let Chunk::Piece(piece) = chunk {
            bytes += piece.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{http, refused};

    #[test]
    fn off_ends_what_is_inherited() {
        let text = "auth_request /a; server { location /b { } location /c { auth_request off; } }";
        let counts: Vec<_> = http(text).unwrap().locations.iter().map(|l| l.plan.access.len()).collect();
        assert_eq!(counts, [1, 1, 0]);
    }

    #[test]
    fn only_variables_that_can_change_are_set() {
        refused(&[
            ("auth_request_set x y;", "invalid variable name \"x\""),
            ("auth_request_set $status y;", "the duplicate \"status\" variable"),
        ]);
    }
}
