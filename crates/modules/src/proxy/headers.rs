//! The header of requests to back ends: what is set, and what of the client's passes.

use brisk_http::HeaderId;
use brisk_http::field::write_field;
use brisk_http::framing::connection_tokens;
use brisk_http::range::write_number;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::BodyShape;
use std::collections::HashSet;

/// What is never passed on as the client sent it, unless `proxy_set_header` says otherwise.
const REPLACED: &[HeaderId] = &[
    HeaderId::Host,
    HeaderId::Connection,
    HeaderId::ProxyConnection,
    HeaderId::ContentLength,
    HeaderId::TransferEncoding,
    HeaderId::Te,
    HeaderId::KeepAlive,
    HeaderId::Expect,
    HeaderId::Upgrade,
];

/// What a request whose answer may be stored does not ask for.
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
    value: Template,
}

/// Whom a request is for.
pub(super) struct To<'a> {
    /// The host of `proxy_pass`.
    pub host: &'a [u8],
    pub is_http10: bool,
    /// `proxy_pass_request_headers`.
    pub passes_client: bool,
}

/// `proxy_set_header` with its defaults.
pub(super) struct Headers {
    /// `None`: the host of `proxy_pass`.
    host: Option<Template>,
    lines: Vec<Line>,
    sets_length: bool,
    sets_coding: bool,
    /// Known names of the client's header that do not pass.
    replaced: u64,
    /// Other names.
    replaced_names: HashSet<Box<[u8]>>,
}

impl Headers {
    pub fn new(set: &[(Box<[u8]>, Template)], cached: bool) -> Headers {
        let mut this = Headers {
            host: None,
            lines: Vec::new(),
            sets_length: false,
            sets_coding: false,
            replaced: 0,
            replaced_names: HashSet::new(),
        };
        for (name, value) in set {
            match HeaderId::from_name(name) {
                HeaderId::Other => drop(this.replaced_names.insert(name.to_ascii_lowercase().into())),
                id => this.replaced |= id.bit(),
            }
            if name.eq_ignore_ascii_case(b"Host") {
                this.host = Some(value.clone());
                continue;
            }
            this.sets_length |= name.eq_ignore_ascii_case(b"Content-Length");
            this.sets_coding |= name.eq_ignore_ascii_case(b"Transfer-Encoding");
            if !value.is_empty() {
                this.lines.push(Line { name: name.clone(), value: value.clone() });
            }
        }
        let conditions = if cached { CONDITIONS } else { &[] };
        REPLACED.iter().chain(conditions).for_each(|id| this.replaced |= id.bit());
        this
    }

    /// Appends all fields and the blank line.
    pub fn write(&self, r: &Request, to: &To<'_>, ask: &Ask, body: BodyShape, out: &mut Vec<u8>) {
        let own = self.host.as_ref().map(|host| host.eval(r));
        match own {
            Some(own) if !own.is_empty() => write_field(b"Host", &own, out),
            // HTTP/1.1 needs one; 1.0 can do without.
            Some(_) if to.is_http10 => {}
            _ => write_field(b"Host", to.host, out),
        }
        let mut value = Vec::new();
        for line in &self.lines {
            value.clear();
            line.value.append(r, &mut value);
            if !value.is_empty() {
                write_field(&line.name, &value, out);
            }
        }
        match body {
            BodyShape::Length(length) if !self.sets_length => {
                out.extend_from_slice(b"Content-Length: ");
                write_number(length, out);
                out.extend_from_slice(b"\r\n");
            }
            BodyShape::Unknown if !self.sets_coding => {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            }
            _ => {}
        }
        for (name, value) in &ask.fields {
            if !self.sets(name) {
                write_field(name.as_bytes(), value, out);
            }
        }
        if to.passes_client {
            self.write_clients(r, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Whether `proxy_set_header` names it.
    fn sets(&self, name: &str) -> bool {
        self.lines.iter().any(|line| line.name.eq_ignore_ascii_case(name.as_bytes()))
    }

    fn write_clients(&self, r: &Request, out: &mut Vec<u8>) {
        // RFC 9110 §7.6.1: what `Connection` names is for us alone.
        let named: Vec<&[u8]> = if r.head.has(HeaderId::Connection) {
            let fields = r.head.all(HeaderId::Connection);
            fields.flat_map(|field| connection_tokens(field.value.of(&r.buf))).collect()
        } else {
            Vec::new()
        };
        for field in &r.head.headers {
            let name = field.name.of(&r.buf);
            let replaced = match field.id {
                HeaderId::Other if self.replaced_names.is_empty() => false,
                HeaderId::Other => self.replaced_names.contains(&*name.to_ascii_lowercase()),
                id => self.replaced & id.bit() != 0,
            };
            if !replaced && !named.iter().any(|token| token.eq_ignore_ascii_case(name)) {
                write_field(name, field.value.of(&r.buf), out);
            }
        }
    }
}
