//! A request as it is sent to a back end.
//!
//! Nothing that the client sent goes on as bytes: method, target and fields are checked or escaped, and put
//! together anew, so that both servers see the same request.

use super::conf::Conf;
use super::headers::{Headers, To};
use super::pass::{Pass, Passed};
use super::redirect::Rewrite;
use super::{cookie, redirect};
use crate::ssl::peer::PeerTls;
use brisk_http::response::RequestKind;
use brisk_http::uri::{Escape, escape, escape_target};
use brisk_http::{Method, Version};
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_upstream::codec::{Codec, request_buffer};
use brisk_upstream::conf::Settings;
use brisk_upstream::http1::{Http1, Shape};
use brisk_upstream::http2::{DIALECT as HTTP2_DIALECT, Http2, Question};
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::{BodyShape, Peers, Protocol, Target, wants_upgrade};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// HTTP/1.0 and 1.1 to a back end, for one location.
pub(super) struct Http {
    pub conf: Arc<Conf>,
    pub pass: Arc<Pass>,
    pub headers: Headers,
    /// For requests whose answers may be stored.
    pub cached_headers: Headers,
    pub redirects: Arc<Vec<Rewrite>>,
    /// For `https`.
    pub tls: Option<Arc<PeerTls>>,
}

/// What a request needs besides its own.
pub(super) struct Way {
    /// What `Host` is; `None`: as `proxy_pass` says without variables.
    host: Option<String>,
    /// `None`: the request's own.
    method: Option<Vec<u8>>,
    uri: Rc<[u8]>,
    is_tls: bool,
}

impl Http {
    /// What is asked for (nginx: `ngx_http_proxy_create_request`). `part` is the URI in `proxy_pass`.
    fn uri<'a>(&self, r: &'a Request, part: &'a [u8], is_variable: bool) -> Cow<'a, [u8]> {
        // A URI that variables have made is sent as it is (nginx).
        if is_variable && !part.is_empty() {
            return part.into();
        }
        // Nothing has changed it: it is passed on as the client wrote it, escapes included.
        if part.is_empty() && r.route.unparsed_uri_valid {
            return r.unparsed_uri();
        }
        let mut out = Vec::with_capacity(r.route.uri.len() + part.len() + r.route.args.len() + 8);
        let mut cut = 0;
        // The part that the location has matched is replaced; after `rewrite … break` none is known.
        if r.route.location_valid && !part.is_empty() {
            out.extend_from_slice(part);
            cut = self.pass.location.len().min(r.route.uri.len());
        }
        // The path was decoded, so it is escaped again.
        escape(Escape::Uri, &r.route.uri[cut..], &mut out);
        if !r.route.args.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&r.route.args);
        }
        out.into()
    }

    /// The host of `proxy_pass`, for requests that say nothing else.
    fn host<'a>(&'a self, way: &'a Way) -> &'a [u8] {
        match (&way.host, &self.pass.passed) {
            (Some(host), _) => host.as_bytes(),
            (None, Passed::Fixed(fixed)) => fixed.url.host_header.as_bytes(),
            (None, Passed::Template(_)) => b"",
        }
    }
}

impl Protocol for Http {
    type Way = Way;

    fn settings(&self) -> &Settings {
        &self.conf.settings
    }

    fn target(&self, r: &mut Request, ask: &Ask) -> Result<Target<Way>, Flow> {
        let (url, peers, is_variable);
        let evaluated;
        match &self.pass.passed {
            Passed::Fixed(fixed) => {
                (url, peers, is_variable) = (&fixed.url, Peers::Group(fixed.group.clone()), false);
            }
            Passed::Template(variable) => {
                evaluated = variable.url(r).map_err(Flow::Status)?;
                let found = variable.peers(r, &evaluated).map_err(Flow::Status)?;
                (url, peers, is_variable) = (&evaluated, found, true);
            }
        }
        // Whatever variables have brought along, no byte of it ends the request line.
        let uri: Rc<[u8]> = match escape_target(self.uri(r, &url.uri, is_variable)) {
            Cow::Borrowed(uri) => uri.into(),
            Cow::Owned(uri) => uri.into(),
        };
        if uri.is_empty() {
            rlog!(r, Error, "zero length URI to proxy");
            return Err(Flow::Status(500));
        }
        let method = match (&ask.method, &self.conf.module.method) {
            (Some(method), _) => Some(method.as_str().as_bytes().to_vec()),
            (None, template) => template.as_ref().map(|template| template.eval(r)),
        };
        // Without variables it stands in the configuration and need not be copied.
        let host = is_variable.then(|| url.host_header.clone());
        let way = Way { host, method, uri: uri.clone(), is_tls: url.tls };
        let tls = match &self.tls {
            Some(tls) if url.tls => Some(tls.of(r, &url.host_header, &r.snap().allowed)),
            _ => None,
        };
        Ok(Target { peers, tls, scheme: url.scheme(), uri, way })
    }

    fn codec(&self, r: &Request, way: &Way, ask: &Ask, body: BodyShape) -> Result<Box<dyn Codec>, Flow> {
        let method = way.method.as_deref().unwrap_or_else(|| method_of(r));
        // The method may come from a variable, and a space in it would begin another target.
        if method.is_empty() || !method.iter().all(u8::is_ascii_graphic) {
            let method = String::from_utf8_lossy(method);
            rlog!(r, Error, "invalid method to proxy: {method:?}");
            return Err(Flow::Status(500));
        }
        // Conditions and ranges of one client must not shape an answer that is stored for others.
        let headers = if ask.cacheable { &self.cached_headers } else { &self.headers };
        let passes_client = self.conf.settings.pass_request_headers;
        let to = To { host: self.host(way), version: self.conf.module.version, passes_client };
        let is_head = method.eq_ignore_ascii_case(b"HEAD");
        if to.version == Version::Http2 {
            let head = headers.block(r, &to, (method, way.is_tls, &way.uri), ask, body);
            return Ok(Box::new(Http2::new(Question {
                head,
                is_bodiless: matches!(body, BodyShape::None | BodyShape::Length(0)),
                is_head,
                head_bytes_max: self.conf.settings.buffer_size as usize,
            })));
        }
        let http10 = to.version == Version::Http10;
        // About what it will be: the request line, `Host` and `Connection` beside the client's fields.
        let mut head = request_buffer(256 + r.head_len());
        head.extend_from_slice(method);
        head.push(b' ');
        head.extend_from_slice(&way.uri);
        head.extend_from_slice(if http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        headers.write(r, &to, ask, body, &mut head);
        let kind = if is_head { RequestKind::Head } else { RequestKind::Other };
        // Both: the client must have asked for it, and the configuration must have passed it on.
        let upgrade = !http10 && wants_upgrade(r) && asks_upgrade(&head);
        let chunked = body == BodyShape::Unknown;
        Ok(Box::new(Http1::new(head, Shape { kind, chunked, upgrade })))
    }

    fn dialect(&self) -> u8 {
        if self.conf.module.version == Version::Http2 { HTTP2_DIALECT } else { 0 }
    }

    /// As nginx: where the request goes, and what is asked for.
    fn default_key(&self, r: &Request, out: &mut Vec<u8>) {
        let evaluated;
        let (url, is_variable) = match &self.pass.passed {
            Passed::Fixed(fixed) => (&fixed.url, false),
            Passed::Template(variable) => match variable.url(r) {
                Ok(url) => {
                    evaluated = url;
                    (&evaluated, true)
                }
                Err(_) => return,
            },
        };
        out.extend_from_slice(url.scheme().as_bytes());
        out.extend_from_slice(url.address.as_bytes());
        out.extend_from_slice(&self.uri(r, &url.uri, is_variable));
    }

    fn has_own_body(&self) -> bool {
        self.conf.module.set_body.is_some()
    }

    fn own_body(&self, r: &Request) -> Option<Vec<u8>> {
        self.conf.module.set_body.as_ref().map(|body| body.eval(r))
    }

    fn is_proxy(&self) -> bool {
        true
    }

    fn streams_unknown_length(&self) -> bool {
        // HTTP/1.0 has no chunks: a body of unknown length is read first.
        self.conf.module.version >= Version::Http11
    }

    fn rewrite_location(&self, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
        redirect::rewrite(&self.redirects, r, value)
    }

    fn rewrite_cookie(&self, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
        cookie::rewrite(&self.conf.module.cookies, r, value)
    }
}

/// Whether a request's head asks for an upgrade: the client's own field is not passed on, `proxy_set_header` does that.
fn asks_upgrade(head: &[u8]) -> bool {
    const NAME: &[u8] = b"upgrade:";
    head.split(|&b| b == b'\n')
        .any(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))
}

/// A subrequest has a method of its own. One without a name of ours is the client's, in a copy of its request.
fn method_of(r: &Request) -> &[u8] {
    let is_own = r.route.depth > 0 && r.route.method != Method::Other;
    if is_own { r.route.method.as_str().as_bytes() } else { r.method_name() }
}
