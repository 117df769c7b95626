//! `ngx_http_grpc_module`: requests are passed on over HTTP/2, both directions as they come, trailers included.

mod rows;

use crate::address::{Address, Schemes};
use crate::proxy::headers::{Headers, SetHeaders, To};
use crate::ssl::peer::{self, PeerTls};
use brisk_conf::{Diag, Directive};
use brisk_http::uri::{Escape, escape, escape_target};
use brisk_http::{HeaderId, Method, Version};
use brisk_server::conf::Cx;
use brisk_server::core::CoreConf;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf};
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::vars::{Variable, VariableGet};
use brisk_upstream::backend::Passes;
use brisk_upstream::codec::Codec;
use brisk_upstream::conf::{PassConf, Settings};
use brisk_upstream::engine::Engine;
use brisk_upstream::http2::{DIALECT, Http2, Question};
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::{BodyShape, Protocol, Target};
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "grpc",
    rows: rows::ROWS,
    variables: VARIABLES,
    conf: initial,
    finish: Some(finish),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static VARIABLES: &[Variable] = &[Variable {
    name: "grpc_internal_trailers",
    get: VariableGet::Fixed(|r, out| {
        let takes = takes_trailers(r);
        if takes {
            // Not found rather than empty, so that `grpc_set_header` with it leaves the field out.
            out.extend_from_slice(b"trailers");
        }
        takes
    }),
    doc: "trailers, if the client takes them (TE); what back ends are told unless grpc_set_header says otherwise.",
    ..Variable::SILENT
}];

const SCHEMES: Schemes = Schemes { plain: "grpc://", tls: Some("grpcs://") };

/// Fields of answers that stay here unless told otherwise.
// As for `proxy`, but for `X-Pad`, as in nginx.
const HIDDEN: &[&str] = &[
    "Date",
    "Server",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

type Conf = PassConf<Arc<Address>, Own>;

/// The module's own directives.
#[derive(Clone, Default)]
struct Own {
    /// `grpc_set_header`, as written.
    set_headers: SetHeaders,
    /// Made when the block is complete.
    tls: Option<Arc<PeerTls>>,
}

/// Before any directive.
fn initial() -> Arc<dyn ModuleConf> {
    let mut settings = Settings::new(HIDDEN, "grpc_temp");
    // A call may be a conversation: each side waits for what the other has just said.
    settings.buffering = false;
    settings.request_buffering = false;
    // The status of a call is a trailer: without it no call would ever succeed.
    settings.pass_trailers = true;
    Arc::new(Conf::new(settings, Own::default()))
}

/// The setter of `grpc_pass`.
fn pass(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let address = Address::parse(cx, d, &SCHEMES)?;
    // Shared: an address with variables is a template and more.
    cx.conf::<Conf>().pass = Some(Arc::new(address));
    Ok(())
}

fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    let Some(pass) = cx.conf_of::<Conf>().pass.clone() else { return Ok(()) };
    cx.reads_bodies();
    // By address: one with variables may turn out to be either.
    if pass.may_be_tls(&SCHEMES) {
        let tls = peer::build::<{ peer::GRPC }>(cx, true)?;
        cx.conf::<Conf>().module.tls = Some(tls);
    }
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.shared::<Conf>();
    let Some(address) = conf.pass.clone() else { return };
    let core = cx.conf_of::<CoreConf>();
    // As with `proxy_pass`.
    plan.auto_redirect |= core.location_text.ends_with(b"/") && !core.location_is_regex;
    // For the server's own HTTP/2, which can hand such requests over without the engine.
    if let Address::Fixed(fixed) = &*address {
        plan.put(Arc::new(Passes {
            group: fixed.group.id(),
            tls: conf.module.tls.as_ref().filter(|_| fixed.is_tls).map(|tls| tls.alone(&fixed.host)),
            host: fixed.host.as_bytes().to_vec(),
            headers: conf.module.set_headers.constants(),
            connect_timeout: conf.settings.connect_timeout,
            read_timeout: conf.settings.read_timeout,
            is_http2: true,
        }));
    }
    let engine =
        Arc::new(Engine::new(Grpc { headers: Headers::new(&conf.module.set_headers, false), address, conf }));
    plan.content = Some(Arc::new(move |r: &mut Request| engine.handle(r)));
}

/// One location.
struct Grpc {
    conf: Arc<Conf>,
    address: Arc<Address>,
    headers: Headers,
}

/// What a request needs besides its own.
struct Way {
    host: Arc<str>,
    uri: Rc<[u8]>,
    is_tls: bool,
}

impl Protocol for Grpc {
    type Way = Way;

    fn settings(&self) -> &Settings {
        &self.conf.settings
    }

    fn target(&self, r: &mut Request, _: &Ask) -> Result<Target<Way>, Flow> {
        let found = self.address.find(r, &SCHEMES)?;
        let tls = self.conf.module.tls.as_ref().filter(|_| found.is_tls);
        let tls = tls.map(|tls| tls.of(r, &found.host, &r.snap().allowed));
        let uri: Rc<[u8]> = uri(r).into();
        let way = Way { host: found.host, uri: uri.clone(), is_tls: found.is_tls };
        Ok(Target { peers: found.peers, tls, scheme: found.scheme, uri, way })
    }

    fn codec(&self, r: &Request, way: &Way, ask: &Ask, body: BodyShape) -> Result<Box<dyn Codec>, Flow> {
        // A subrequest's method is the server's word; the client's own may be one that has no number.
        let method = if r.route.depth > 0 { r.route.method.as_str().as_bytes() } else { r.method_name() };
        let to = To { host: way.host.as_bytes(), version: Version::Http2, passes_client: true };
        let mut head = self.headers.block(r, &to, (method, way.is_tls, &way.uri), ask, body);
        // RFC 9113 §8.2.2 allows this one value. gRPC servers ask for it, since the status of a call is a trailer.
        if takes_trailers(r) && !self.headers.replaces(HeaderId::Te) {
            head.field(b"te", b"trailers");
        }
        // gRPC knows HTTP/2 alone, whatever the client has come by.
        Ok(Box::new(Http2::new(Question {
            head,
            // The head then ends the stream, which spares a frame.
            is_bodiless: matches!(body, BodyShape::None | BodyShape::Length(0)),
            is_head: r.route.method == Method::Head,
            head_bytes_max: self.conf.settings.buffer_size as usize,
        })))
    }

    fn dialect(&self) -> u8 {
        DIALECT
    }

    // `Date` and `Server` are the back end's where it sends them and they pass.
    fn is_proxy(&self) -> bool {
        true
    }
}

/// Whether the client has said so.
fn takes_trailers(r: &Request) -> bool {
    // Anywhere in the field: `TE` is a list with weights.
    let says = |value: &[u8]| value.windows(8).any(|part| part.eq_ignore_ascii_case(b"trailers"));
    r.header(HeaderId::Te).is_some_and(says)
}

/// What is asked for: the client's own words, unless they were changed.
fn uri(r: &Request) -> Vec<u8> {
    if r.route.unparsed_uri_valid {
        return r.unparsed_uri().into_owned();
    }
    let mut out = Vec::with_capacity(r.route.uri.len() + r.route.args.len() + 8);
    escape(Escape::Uri, &r.route.uri, &mut out);
    // Arguments are never decoded, so they are not encoded again.
    if !r.route.args.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&r.route.args);
    }
    // What a rewrite has made must still be one word of a request line.
    escape_target(out.into()).into_owned()
}

#[cfg(test)]
mod tests {
    use crate::check::{http, refused};

    #[test]
    fn addresses_and_files_that_cannot_be_are_refused() {
        refused(&[
            ("server { location / { grpc_pass grpc://127.0.0.1; } }", "no port in upstream \"127.0.0.1\""),
            (
                "server { location / { grpc_pass grpcs://127.0.0.1:1; grpc_ssl_verify on; } }",
                "no grpc_ssl_trusted_certificate for grpc_ssl_verify",
            ),
            (
                "server { location / { grpc_pass grpcs://127.0.0.1:1; grpc_ssl_certificate a; } }",
                "no \"grpc_ssl_certificate_key\" is defined for certificate \"a\"",
            ),
            ("grpc_ssl_crl $a;", "\"grpc_ssl_crl\" with variables is not supported (yet)"),
            (
                "grpc_ssl_conf_command Bad;",
                "invalid number of arguments in \"grpc_ssl_conf_command\" directive",
            ),
            (
                "grpc_ssl_certificate_cache inactive=1;",
                "\"grpc_ssl_certificate_cache\" must have the \"max\" parameter",
            ),
            ("grpc_ssl_password_file /nowhere;", "open() \"/nowhere\" failed (2: No such file or directory)"),
        ]);
    }

    #[test]
    fn every_directive_is_taken() {
        let text = "grpc_bind 127.0.0.2; grpc_buffer_size 8k; grpc_connect_timeout 1s; grpc_hide_header X-A;
            grpc_ignore_headers X-Accel-Charset; grpc_intercept_errors on; grpc_next_upstream http_503 non_idempotent;
            grpc_next_upstream_timeout 1s; grpc_next_upstream_tries 2; grpc_pass_header Date; grpc_read_timeout 1s;
            grpc_send_timeout 1s; grpc_set_header X-B $host; grpc_socket_keepalive on; grpc_socket_rcvbuf 8k;
            grpc_socket_sndbuf 8k; grpc_ssl_ciphers DEFAULT; grpc_ssl_name $host; grpc_ssl_protocols TLSv1.3;
            grpc_ssl_server_name on; grpc_ssl_session_reuse off; grpc_ssl_verify_depth 2; grpc_ssl_certificate $a.pem;
            grpc_ssl_certificate_key $a.key; grpc_ssl_certificate_cache max=8 inactive=1s valid=1m;
            upstream u { server 127.0.0.1:1; }
            server { set $a b; location / { grpc_pass u; location /b { } if ($args) { set $a 1; } }
                location /c { grpc_pass grpcs://unix:/s; } location /d { grpc_pass $a:1; } }";
        let locations = http(text).unwrap().locations;
        let handlers: Vec<_> = locations.iter().map(|l| l.plan.content.is_some()).collect();
        assert_eq!(handlers, [false, true, false, true, true, true]);
    }
}
