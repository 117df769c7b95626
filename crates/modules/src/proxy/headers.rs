//! The header of requests to back ends: what is set, and what of the client's passes.
//!
//! The lists are compiled once per location; a request costs a walk over them and over the client's fields. The same
//! fields are written as lines of HTTP/1.1 and as a block of HTTP/2.

use brisk_conf::Directive;
use brisk_http::HeaderId;
use brisk_http::Version;
use brisk_http::field::write_field;
use brisk_http::framing::connection_tokens;
use brisk_http::range::write_number;
use brisk_server::extended;
use brisk_server::request::Request;
use brisk_server::tls::is_early;
use brisk_server::vars::Template;
use brisk_upstream::http2::RequestHead;
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::BodyShape;
use std::collections::HashSet;
use std::sync::Arc;

/// What is never passed on as the client sent it, unless `proxy_set_header` says otherwise.
const REPLACED: &[HeaderId] = &[
    // The name by which the back end is known, unless it is to see the client's (`proxy_set_header Host $host`).
    HeaderId::Host,
    // These describe the client's connection to us (RFC 9110 §7.6.1); ours to the back end is another one.
    HeaderId::Connection,
    HeaderId::ProxyConnection,
    // Told anew, by the body that is really sent: two servers must not read two lengths (request smuggling).
    HeaderId::ContentLength,
    HeaderId::TransferEncoding,
    // What a client can take behind a body says nothing of what this server passes on.
    HeaderId::Te,
    HeaderId::KeepAlive,
    // The body is asked for by us, before or while it is passed on.
    HeaderId::Expect,
    HeaderId::Upgrade,
];

/// What a request whose answer may be stored does not ask for.
// A 304 or a part would be stored as the answer for everybody.
const CONDITIONS: &[HeaderId] = &[
    HeaderId::IfModifiedSince,
    HeaderId::IfUnmodifiedSince,
    HeaderId::IfNoneMatch,
    HeaderId::IfMatch,
    HeaderId::Range,
    HeaderId::IfRange,
];

/// One field that is set.
struct Line {
    name: Box<[u8]>,
    is_upgrade: bool,
    value: Template,
}

/// Whom a request is for.
pub(crate) struct To<'a> {
    /// The host of `proxy_pass`.
    pub host: &'a [u8],
    pub version: Version,
    /// `proxy_pass_request_headers`.
    pub passes_client: bool,
}

/// `*_set_header`, as written.
#[derive(Clone, Default)]
pub(crate) struct SetHeaders(Arc<Vec<(Box<[u8]>, Template)>>);

impl SetHeaders {
    /// The setter. A block that has any forgets those around it.
    pub fn add(&mut self, is_first: bool, d: &Directive, value: Template) {
        // Shared with the outer block until this one writes.
        let list = Arc::make_mut(&mut self.0);
        if is_first {
            list.clear();
        }
        list.push((d.arg(0).bytes().into(), value));
    }

    /// Fields that do not depend on a request.
    pub fn constants(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let constant =
            |(name, value): &(Box<[u8]>, Template)| Some((name.to_vec(), value.as_literal()?.to_vec()));
        self.0.iter().filter_map(constant).collect()
    }
}

/// `proxy_set_header` with its defaults.
pub(crate) struct Headers {
    /// `None`: the host of `proxy_pass`.
    host: Option<Template>,
    lines: Vec<Line>,
    sets_length: bool,
    sets_coding: bool,
    /// Known names that `proxy_set_header` has a word about.
    set: u64,
    /// Known names of the client's header that do not pass.
    replaced: u64,
    /// Other names.
    replaced_names: HashSet<Box<[u8]>>,
}

impl Headers {
    pub fn new(set: &SetHeaders, cached: bool) -> Headers {
        let mut this = Headers {
            host: None,
            lines: Vec::new(),
            sets_length: false,
            sets_coding: false,
            set: 0,
            replaced: 0,
            replaced_names: HashSet::new(),
        };
        // Names are looked at here, once per location; a request only tests bits.
        for (name, value) in &*set.0 {
            match HeaderId::from_name(name) {
                HeaderId::Other => drop(this.replaced_names.insert(name.to_ascii_lowercase().into())),
                id => this.set |= id.bit(),
            }
            if name.eq_ignore_ascii_case(b"Host") {
                this.host = Some(value.clone());
                continue;
            }
            this.sets_length |= name.eq_ignore_ascii_case(b"Content-Length");
            this.sets_coding |= name.eq_ignore_ascii_case(b"Transfer-Encoding");
            // An empty value removes the field: its name stands among those that do not pass.
            if !value.is_empty() {
                let is_upgrade = HeaderId::from_name(name) == HeaderId::Upgrade;
                this.lines.push(Line { name: name.clone(), is_upgrade, value: value.clone() });
            }
        }
        this.replaced = this.set;
        let conditions = if cached { CONDITIONS } else { &[] };
        REPLACED.iter().chain(conditions).for_each(|id| this.replaced |= id.bit());
        this
    }

    /// Appends all fields and the blank line.
    pub fn write(&self, r: &Request, to: &To<'_>, ask: &Ask, body: BodyShape, out: &mut Vec<u8>) {
        match self.own_host(r) {
            Some(own) if !own.is_empty() => write_field(b"Host", &own, out),
            // HTTP/1.1 needs one; 1.0 can do without.
            Some(_) if to.version == Version::Http10 => {}
            _ => write_field(b"Host", to.host, out),
        }
        // `write_field` takes CR, LF and NUL out of values: a variable with a client's text cannot add a field.
        self.each(r, to, ask, body, |name, value| write_field(name, value, out));
        out.extend_from_slice(b"\r\n");
    }

    /// The head of a request over HTTP/2: `Host` is its `:authority`.
    pub fn block(
        &self,
        r: &Request,
        to: &To<'_>,
        (method, is_tls, path): (&[u8], bool, &[u8]),
        ask: &Ask,
        body: BodyShape,
    ) -> RequestHead {
        let own = self.own_host(r).filter(|own| !own.is_empty());
        let mut head = RequestHead::new(method, is_tls, path, own.as_deref().unwrap_or(to.host));
        self.each(r, to, ask, body, |name, value| head.field(name, value));
        head
    }

    /// `Host`, as `proxy_set_header` has it.
    pub fn own_host(&self, r: &Request) -> Option<Vec<u8>> {
        self.host.as_ref().map(|host| host.eval(r))
    }

    /// Gives all fields but `Host`.
    pub fn each(
        &self,
        r: &Request,
        to: &To<'_>,
        ask: &Ask,
        body: BodyShape,
        mut field: impl FnMut(&[u8], &[u8]),
    ) {
        let mut value = Vec::new();
        for line in &self.lines {
            value.clear();
            line.value.append(r, &mut value);
            // HTTP/2 inside of a tunnel would be spoken past this server's rules (h2c smuggling).
            if line.is_upgrade && extended::names_h2c(&value) {
                value = without_h2c(&value);
            }
            if !value.is_empty() {
                field(&line.name, &value);
            }
        }
        match body {
            BodyShape::Length(length) if !self.sets_length => {
                value.clear();
                write_number(length, &mut value);
                field(b"Content-Length", &value);
            }
            // Over HTTP/2 the end of the stream is the end of the body (RFC 9113 §8.1).
            BodyShape::Unknown if !self.sets_coding && to.version < Version::Http2 => {
                field(b"Transfer-Encoding", b"chunked");
            }
            _ => {}
        }
        // RFC 8470 §5.1: a request that may be a replay is marked when it is passed on.
        if is_early(r) && !self.sets("Early-Data") && r.header_named(b"early-data").is_none() {
            field(b"Early-Data", b"1");
        }
        // A cache's own questions (`If-None-Match` of what it has, a range of a slice).
        for (name, value) in &ask.fields {
            if !self.sets(name) {
                field(name.as_bytes(), value);
            }
        }
        // Last, as in nginx, so that fields of the configuration stand first.
        if to.passes_client {
            self.each_of_client(r, field);
        }
    }

    /// Whether `proxy_set_header` has a word about it, be it that it is not to be sent.
    pub fn replaces(&self, id: HeaderId) -> bool {
        self.set & id.bit() != 0
    }

    /// Whether `proxy_set_header` names it.
    fn sets(&self, name: &str) -> bool {
        self.lines.iter().any(|line| line.name.eq_ignore_ascii_case(name.as_bytes()))
    }

    fn each_of_client(&self, r: &Request, mut field: impl FnMut(&[u8], &[u8])) {
        // RFC 9110 §7.6.1: what `Connection` names is for us alone.
        let named: Vec<&[u8]> = if r.has_header(HeaderId::Connection) {
            r.headers(HeaderId::Connection).flat_map(connection_tokens).collect()
        } else {
            Vec::new()
        };
        // As the client sent it, in its order: a list that is spread over several fields keeps its meaning (RFC 9110 §5.3).
        let (head, buf) = r.sent_head();
        for line in &head.headers {
            let name = line.name.of(buf);
            let replaced = match line.id {
                HeaderId::Other if self.replaced_names.is_empty() => false,
                HeaderId::Other => self.replaced_names.contains(&*name.to_ascii_lowercase()),
                id => self.replaced & id.bit() != 0,
            };
            if !replaced && !named.iter().any(|token| token.eq_ignore_ascii_case(name)) {
                field(name, line.value.of(buf));
            }
        }
    }
}

/// `Upgrade` as it may be passed on: HTTP/2 to the back end is spoken by this server, not by its client through it.
fn without_h2c(value: &[u8]) -> Vec<u8> {
    let others: Vec<&[u8]> = connection_tokens(value).filter(|token| !extended::names_h2c(token)).collect();
    others.join(&b", "[..])
}
