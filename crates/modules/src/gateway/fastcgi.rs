//! `ngx_http_fastcgi_module`: requests are answered by FastCGI applications, PHP above all.
//!
//! What SCGI and uwsgi have in common with it is in `super`; the records of the protocol are read and written
//! as data in `records` and the crate `gateway`.

use super::records::{FastCgi, Question};
use super::{Conf, Location, Own, Pass, initial, params};
use crate::address::{Address, Fixed, Schemes};
use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_gateway::fastcgi::RequestWriter;
use brisk_http::Method;
use brisk_server::conf::{Cx, LocationId};
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row};
use brisk_server::plan::Plan;
use brisk_server::regex::Regex;
use brisk_server::request::Request;
use brisk_server::vars::{Variable, VariableGet};
use brisk_upstream::backend::Backend;
use brisk_upstream::codec::{Codec, request_buffer};
use brisk_upstream::conf::Settings;
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::{BodyShape, Protocol, Target};
use brisk_upstream::settings_rows;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "fastcgi",
    rows: ROWS,
    variables: VARIABLES,
    conf: initial::<Fast>,
    finish: Some(super::finish::<Fast>),
    install: Some(install),
    ..Module::EMPTY
};

static ROWS: &[Row] = settings_rows!(
    "fastcgi",
    Conf<Fast>,
    [
        directive("fastcgi_catch_stderr")
            .doc("Text in what an application writes to its standard error that makes its answer invalid (fastcgi_next_upstream invalid_header).")
            // Compared with whole bytes: it may be cut by a record, which the codec joins.
            .in_(Context::HSL)
            .takes("TEXT")
            .many()
            .example("fastcgi_catch_stderr \"PHP Fatal error\";")
            .set(|cx, d| {
                let is_first = cx.first;
                let text = d.arg(0).bytes().into();
                let list = Arc::make_mut(&mut cx.conf::<Conf<Fast>>().module.own.catch);
                if is_first {
                    list.clear();
                }
                list.push(text);
                Ok(())
            }),
        directive("fastcgi_index")
            .doc("What $fastcgi_script_name has behind a URI that ends with a slash.")
            .in_(Context::HSL)
            .takes("NAME")
            .example("fastcgi_index index.php;")
            .set(|cx, d| {
                cx.conf::<Conf<Fast>>().module.own.index = d.arg(0).bytes().into();
                Ok(())
            }),
        directive("fastcgi_keep_conn")
            .doc("Whether applications are told to keep connections open, which the upstream's keepalive then holds for further requests. Unlike nginx, Brisk gives a connection up as soon as another one waits for the application: an idle connection occupies one of its processes.")
            .in_(Context::HSL)
            .takes_flag()
            .default("off")
            .example("fastcgi_keep_conn on;")
            .sets(|cx, on| cx.conf::<Conf<Fast>>().module.own.keep_conn = on),
        directive("fastcgi_param")
            .doc("A parameter for the application; with if_not_empty only if it has a value. Inherited where no fastcgi_param is written. HTTP_… takes the place of a header field of the client; an empty one leaves it out.")
            .in_(Context::HSL)
            .arity(Arity::between(2, 3))
            .takes("NAME VALUE [if_not_empty]")
            .many()
            .example("fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;")
            .set(super::param::<Fast>),
        directive("fastcgi_pass")
            .doc("The application's address (host:port, unix:/path) or an upstream; may contain variables.")
            .in_(Context::LOCATION.or(Context::LOCATION_IF))
            .takes("ADDRESS")
            .not_inherited()
            .example("fastcgi_pass unix:/run/php/php-fpm.sock;")
            .set(super::pass::<Fast>),
        directive("fastcgi_send_lowat")
            .doc("Accepted for compatibility; Linux has no such thing, in nginx neither.")
            .in_(Context::HSL)
            .takes_size()
            .default("0")
            .risk(Risk::Safe)
            .example("fastcgi_send_lowat 0;")
            .set(brisk_upstream::rows::send_lowat::<Conf<Fast>>),
        // A security matter: with an expression that takes too much, `/upload/a.jpg/x.php` has PHP run the image.
        directive("fastcgi_split_path_info")
            .doc("A regular expression with two groups: $fastcgi_script_name and $fastcgi_path_info.")
            .in_(Context::HSL)
            .takes("REGEX")
            .many()
            .example("fastcgi_split_path_info ^(.+\\.php)(/.*)$;")
            .set(split_path_info),
    ]
);

static VARIABLES: &[Variable] = &[
    Variable {
        name: "fastcgi_path_info",
        get: VariableGet::Fixed(path_info),
        doc: "The second group of fastcgi_split_path_info.",
        ..Variable::SILENT
    },
    Variable {
        name: "fastcgi_script_name",
        get: VariableGet::Fixed(script_name),
        doc: "The URI, or the first group of fastcgi_split_path_info; with fastcgi_index behind it if it ends with a slash.",
        ..Variable::SILENT
    },
];

/// What the module has beside the common settings.
#[derive(Clone)]
pub struct Fast {
    index: Arc<[u8]>,
    /// Run for each URI that is asked for; kept by [`Parts`].
    split: Option<Arc<Regex>>,
    catch: Arc<Vec<Box<[u8]>>>,
    keep_conn: bool,
}

impl Own for Fast {
    const PREFIX: &'static str = "fastcgi";
    const TEMP: &'static str = "fastcgi_temp";
    // FastCGI over TLS is defined nowhere, so there is no scheme for it.
    const SCHEMES: Schemes = Schemes { plain: "fastcgi://", tls: None };

    fn new() -> Fast {
        Fast { index: Arc::default(), split: None, catch: Arc::default(), keep_conn: false }
    }

    fn keep(&mut self) {
        self.keep_conn = true;
    }
}

/// What a PHP pool is sent if no `fastcgi_param` is written: nginx's `fastcgi.conf`.
const USUAL: &[(&str, &str)] = &[
    ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("HTTPS", "$https"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    // Applications look for a server whose habits they know: WordPress takes rewriting for granted where this
    // says nginx.
    ("SERVER_SOFTWARE", "nginx/$nginx_version"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    // php-cgi refuses to run without it (`cgi.force_redirect`): it tells it from a request that calls the
    // binary itself.
    ("REDIRECT_STATUS", "200"),
];

/// `php_pass`: the location's requests go to a pool of this server's.
pub fn pass_to_pool(cx: &mut Cx<'_, '_>, d: &Directive, group: Arc<dyn Backend>) -> Result<(), Diag> {
    let params = USUAL.iter().map(|param| params::usual(cx, d, *param)).collect::<Result<Vec<_>, _>>()?;
    // The host is no name that is looked up: the group says where the pool listens.
    let fixed = Fixed { group, scheme: Fast::SCHEMES.plain, is_tls: false, host: "localhost".into() };
    let host = params::host(cx, d)?;
    let pass = Pass { address: Address::Fixed(fixed), host, pool: Some(Arc::new(params)) };
    cx.conf_of_mut::<Conf<Fast>>().pass = Some(pass);
    Ok(())
}

/// Whether the present block's requests are answered by an application behind FastCGI.
pub fn passes(cx: &Cx<'_, '_>) -> bool {
    cx.conf_of::<Conf<Fast>>().pass.is_some()
}

/// Whether that application is another server's (`fastcgi_pass`), and no pool of this one (`php_pass`).
pub fn passes_elsewhere(cx: &Cx<'_, '_>) -> bool {
    cx.conf_of::<Conf<Fast>>().pass.as_ref().is_some_and(|pass| pass.pool.is_none())
}

fn split_path_info(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let regex = cx.regex(token, token.bytes(), false)?;
    // Numbers are how the two parts are found; a third group would be read by nobody.
    if regex.groups() != 2 {
        return Err(Diag::emerg(token.span, format!("pattern \"{}\" must have 2 captures", token.text()))
            .help("the first group is the script's name, the second the path behind it"));
    }
    cx.conf::<Conf<Fast>>().module.own.split = Some(Arc::new(regex));
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    // (With or without them the location passes on.)
    super::install::<Fast>(cx, plan);
    let own = &cx.conf_of::<Conf<Fast>>().module.own;
    // Without either the variables are the URI itself, and the plan holds nothing to look up.
    if own.split.is_some() || !own.index.is_empty() {
        plan.put(Arc::new(Script { index: own.index.clone(), split: own.split.clone() }));
    }
}

impl Protocol for Location<Fast> {
    type Way = ();

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn target(&self, r: &mut Request, _: &Ask) -> Result<Target<()>, Flow> {
        self.target(r)
    }

    fn codec(&self, r: &Request, (): &(), ask: &Ask, _: BodyShape) -> Result<Box<dyn Codec>, Flow> {
        let mut head = request_buffer(2048);
        // The record of parameters is written in place: its length is filled in at the end.
        let mut writer = RequestWriter::new(self.own.keep_conn, &mut head);
        self.params.write(r, ask.cacheable, &ask.fields, &mut writer);
        if let Err(size) = writer.finish() {
            // A record's length has 16 bits.
            brisk_server::rlog!(r, Error, "fastcgi request record is too big: {size}");
            return Err(Flow::Status(500));
        }
        Ok(Box::new(FastCgi::new(Question {
            head,
            keep_conn: self.own.keep_conn,
            is_head: r.route.method == Method::Head,
            cacheable: ask.cacheable,
            head_bytes_max: self.settings.buffer_size as usize,
            catch: self.own.catch.clone(),
        })))
    }

    /// A process serves one connection at a time: an idle connection is a process that nobody else has.
    fn occupies(&self) -> bool {
        true
    }
}

/// How a location's URIs become names of scripts.
struct Script {
    index: Arc<[u8]>,
    split: Option<Arc<Regex>>,
}

/// Where the parts of a URI are; kept because a request asks for them several times.
#[derive(Default)]
struct Parts {
    /// For which URI, in which location.
    of: Option<(LocationId, Vec<u8>)>,
    name: Range<usize>,
    path_info: Range<usize>,
}

/// Gives the parts of the URI and what stands behind a slash; false if they cannot be found out.
fn parts(r: &Request, then: impl FnOnce(&[u8], &[u8], &[u8])) -> bool {
    let then = |name: &[u8], path_info: &[u8], index: &[u8]| {
        then(name, path_info, index);
        true
    };
    let snap = r.snap();
    let Some(script) = snap.location(r.route.loc).plan.data::<Script>() else {
        return then(&r.route.uri, b"", b"");
    };
    let Some(split) = &script.split else { return then(&r.route.uri, b"", &script.index) };
    // Several of the usual parameters ask for it; the expression is run once.
    let kept = r.state.own.get_or(RefCell::<Parts>::default);
    let mut kept = kept.borrow_mut();
    // `rewrite` and `try_files` change the URI, and redirects the location, after the parts were first asked
    // for.
    if kept.of.as_ref().is_none_or(|(loc, uri)| *loc != r.route.loc || *uri != r.route.uri) {
        // An expression that gives up finds nothing: the request fails, as a script of another name must not be
        // run instead.
        let Ok(spans) = split.spans(r, &r.route.uri) else { return false };
        let group = |index: usize| match spans.as_ref().and_then(|spans| spans.get(index)) {
            // A group that took no part has no place.
            Some(&(start, end)) if start <= end => start..end,
            _ => 0..0,
        };
        // No match: the whole URI is the script, as in nginx.
        let name = if spans.is_some() { group(1) } else { 0..r.route.uri.len() };
        *kept = Parts { of: Some((r.route.loc, r.route.uri.clone())), name, path_info: group(2) };
    }
    then(&r.route.uri[kept.name.clone()], &r.route.uri[kept.path_info.clone()], &script.index)
}

fn script_name(r: &Request, out: &mut Vec<u8>) -> bool {
    parts(r, |name, _, index| {
        out.extend_from_slice(name);
        // Also behind a script that a group has cut off with its slash.
        if name.ends_with(b"/") {
            out.extend_from_slice(index);
        }
    })
}

fn path_info(r: &Request, out: &mut Vec<u8>) -> bool {
    parts(r, |_, path_info, _| out.extend_from_slice(path_info))
}
