//! `fastcgi_param`, `scgi_param`, `uwsgi_param`: what an application is told about a request.

use brisk_conf::{Diag, Directive, Token};
use brisk_gateway::Params;
use brisk_gateway::headers::{Taken, write_headers};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::request::Request;
use brisk_server::vars::{Target as _, Template};
use std::sync::Arc;

/// One directive.
pub struct Param {
    name: Box<[u8]>,
    value: Template,
    if_not_empty: bool,
}

/// `*_param NAME VALUE [if_not_empty]`.
pub fn parse(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Arc<Param>, Diag> {
    let if_not_empty = match d.args.get(2) {
        None => false,
        Some(token) if token.bytes() == b"if_not_empty" => true,
        Some(token) => return Err(invalid_parameter(token).help("the only parameter is if_not_empty")),
    };
    let value = cx.template(d.arg(1))?;
    Ok(Arc::new(Param { name: d.arg(0).bytes().into(), value, if_not_empty }))
}

/// One that is no directive's.
pub fn usual(cx: &mut Cx<'_, '_>, d: &Directive, (name, value): (&str, &str)) -> Result<Arc<Param>, Diag> {
    let value = cx.template(&Token { value: value.as_bytes().into(), span: d.span, quoted: true })?;
    Ok(Arc::new(Param { name: name.as_bytes().into(), value, if_not_empty: name == "HTTPS" }))
}

/// What is sent as `HTTP_HOST` if the configuration does not say otherwise: the host as the server understood it.
pub fn host(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Arc<Param>, Diag> {
    let value = b"$host$is_request_port$request_port".as_slice().into();
    let value = cx.template(&Token { value, span: d.span, quoted: true })?;
    Ok(Arc::new(Param { name: HOST.into(), value, if_not_empty: true }))
}

const HOST: &[u8] = b"HTTP_HOST";

/// What a stored answer must not depend on: conditions and ranges of one client. The cache sends its own.
const CACHED: &[&str] = &[
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_IF_UNMODIFIED_SINCE",
    "HTTP_IF_NONE_MATCH",
    "HTTP_IF_MATCH",
    "HTTP_RANGE",
    "HTTP_IF_RANGE",
];

/// All parameters of a location.
pub struct List {
    params: Box<[Arc<Param>]>,
    taken: Taken,
    /// As `taken`, for answers that may be stored.
    taken_cached: Taken,
    pass_headers: bool,
}

impl List {
    /// `own` is what the directives say; `pass_headers` whether the client's header fields follow.
    pub fn new(own: &[Arc<Param>], host: &Arc<Param>, pass_headers: bool) -> List {
        let mut params = own.to_vec();
        if !own.iter().any(|param| param.name.eq_ignore_ascii_case(HOST)) {
            params.push(host.clone());
        }
        let names: Vec<&[u8]> = params.iter().map(|param| &*param.name).collect();
        let cached = names.iter().copied().chain(CACHED.iter().map(|name| name.as_bytes()));
        let (taken, taken_cached) = (Taken::new(names.iter().copied()), Taken::new(cached));
        // A header that is set to nothing is not sent at all.
        params.retain(|param| !(param.value.is_empty() && is_header(&param.name)));
        List { params: params.into(), taken, taken_cached, pass_headers }
    }

    /// Gives everything to `out`. `cacheable`: the answer may be stored; `fields` are what the cache asks with.
    pub fn write(
        &self,
        r: &Request,
        cacheable: bool,
        fields: &[(&'static str, Vec<u8>)],
        out: &mut impl Params,
    ) {
        let mut value = Vec::new();
        for param in &self.params {
            if let Some(text) = param.value.as_literal() {
                if !(text.is_empty() && param.if_not_empty) {
                    out.pair(&param.name, &[text]);
                }
                continue;
            }
            value.clear();
            // RFC 3875 has decoded paths everywhere but here: applications take it apart at its `?`.
            if *param.name == *b"REQUEST_URI" {
                param.value.append_target(r, &mut value);
            } else {
                param.value.append(r, &mut value);
            }
            if !(value.is_empty() && param.if_not_empty) {
                out.pair(&param.name, &[&value]);
            }
        }
        for (field, text) in fields {
            let name: Vec<u8> =
                field.bytes().map(|b| if b == b'-' { b'_' } else { b.to_ascii_uppercase() }).collect();
            let name = [&b"HTTP_"[..], &name].concat();
            if !self.params.iter().any(|param| *param.name == *name) {
                out.pair(&name, &[text]);
            }
        }
        if self.pass_headers {
            let taken = if cacheable { &self.taken_cached } else { &self.taken };
            let (head, buf) = r.sent_head();
            write_headers(buf, head, taken, out);
        }
    }
}

fn is_header(name: &[u8]) -> bool {
    name.len() > 5 && name.starts_with(b"HTTP_")
}
