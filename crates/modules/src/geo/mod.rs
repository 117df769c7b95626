//! `ngx_http_geo_module`: a variable whose value is looked up by an address.

mod builder;
mod intervals;

use crate::computed::{define, lines, variable_name};
use crate::forwarded::forwarded;
use brisk_conf::cidr::{Cidr, parse_address};
use brisk_conf::{Arity, Context, Diag, Directive};
use brisk_http::HeaderId;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, Row};
use brisk_server::request::Request;
use brisk_server::vars::{Context as VarContext, Eval, Reads, Template, VarId};
use brisk_stream::Session;
use builder::Builder;
use intervals::Intervals;
use std::net::IpAddr;
use std::sync::Arc;

pub static MODULE: Module = Module { name: "geo", rows: ROWS, ..Module::EMPTY };

/// In `stream` too, where the variable is a session's.
static ROWS: &[Row] = &[directive("geo")
    .doc("Defines a variable by the client's address, or by the address in another variable: the smallest network that holds it decides, or with ranges the range. Tables in nginx's binary form are not read; the text beside them is.")
    .in_(Context::HTTP.or(Context::STREAM))
    .arity(Arity::between(1, 2).block())
    .takes("[$ADDRESS] $VARIABLE")
    .many()
    .definition()
    .example("geo $office { default 0; 192.0.2.0/24 1; }")
    .set(geo)];

/// Index of a value in [`Geo::values`].
type ValueId = u32;

/// The empty value of addresses for which nothing is said.
// No table has as many values, so `values.get` gives none for it.
const EMPTY: ValueId = ValueId::MAX;

struct Geo {
    /// Where the address comes from; `None`: the client.
    source: Option<VarId>,
    table: Table,
    values: Box<[Box<[u8]>]>,
    proxies: Box<[Cidr]>,
    proxy_recursive: bool,
}

enum Table {
    /// Boxed: a table of ranges needs one of the two only.
    /// (A pair of sorted lists.)
    Networks(Box<(Intervals<u32, ValueId>, Intervals<u128, ValueId>)>),
    Ranges(Intervals<u32, ValueId>),
}

impl Table {
    fn networks(v4: Intervals<u32, ValueId>, v6: Intervals<u128, ValueId>) -> Table {
        Table::Networks(Box::new((v4, v6)))
    }

    /// No address, a unix socket, and IPv6 in a table of ranges are looked up as 255.255.255.255: nginx's rule.
    fn find(&self, address: Option<IpAddr>) -> ValueId {
        // A client that came over an IPv6 socket by IPv4 is looked up as IPv4 (RFC 4291 §2.5.5.2).
        match (self, address.map(|ip| ip.to_canonical())) {
            (Table::Networks(nets), Some(IpAddr::V4(ip))) => nets.0.find(ip.to_bits()),
            (Table::Networks(nets), Some(IpAddr::V6(ip))) => nets.1.find(ip.to_bits()),
            (Table::Networks(nets), None) => nets.0.find(u32::MAX),
            (Table::Ranges(ranges), Some(IpAddr::V4(ip))) => ranges.find(ip.to_bits()),
            (Table::Ranges(ranges), _) => ranges.find(u32::MAX),
        }
    }
}

fn geo(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (source, target) = match d.args.as_slice() {
        // By name: the variable may be defined further on.
        [source, target] => {
            let name = variable_name(source)?;
            (Some(cx.names().refer(name, Some(source.span))), target)
        }
        _ => (None, d.arg(0)),
    };
    let mut builder = Builder::default();
    for line in lines(cx, d) {
        if let Err(diag) = builder.line(cx, line) {
            // Told, and the next line is read: a table of thousands has its mistakes told at once.
            cx.warn(diag);
        }
    }
    let volatile = builder.volatile;
    // An error, not a warning: without it the proxy's address would decide for all clients.
    if builder.has_proxies() && crate::stream::part::is_in_stream(cx.block) {
        return Err(Diag::emerg(
            d.span,
            "\"proxy\" in \"geo\" is for http: a session has no X-Forwarded-For",
        )
        .help("remove it"));
    }
    define(cx, target, Arc::new(builder.finish(source)), volatile).map(|_| ())
}

impl Geo {
    /// The address that is looked up, as far as it is that of the connection or a variable's. The connection's is asked for
    /// only if it is wanted: who reads it depends on it.
    fn start<C: VarContext>(&self, of: &C, client: impl FnOnce() -> Option<IpAddr>) -> Option<IpAddr> {
        match self.source {
            None => client(),
            Some(source) => {
                let mut text = Vec::new();
                of.var(source, &mut text);
                // No address in it is no address: the value of 255.255.255.255.
                parse_address(&text)
            }
        }
    }

    fn address(&self, r: &Request) -> Option<IpAddr> {
        let start = self.start(r, || r.client_addr().ip())?;
        // The presence of the field is recorded: an answer given without it is not given to a client that sends
        // one.
        if self.proxies.is_empty() || !r.has_header(HeaderId::XForwardedFor) {
            return Some(start);
        }
        let fields: Vec<&[u8]> = r.headers(HeaderId::XForwardedFor).collect();
        // Anyone can write X-Forwarded-For: it is believed of listed proxies alone.
        let is_trusted = self.proxies.iter().any(|proxy| proxy.contains_unmapped(start));
        let client = forwarded(is_trusted, fields.into_iter(), &self.proxies, self.proxy_recursive);
        Some(client.map_or(start, |addr| addr.ip()))
    }

    fn append(&self, address: Option<IpAddr>, out: &mut Vec<u8>) -> bool {
        if let Some(value) = self.values.get(self.table.find(address) as usize) {
            out.extend_from_slice(value);
        }
        // An empty value is a value: the variable is never "not found".
        true
    }

    /// All that the variable can be, the empty value included: what is built from it (`proxy_pass`, files) is
    /// checked before the start.
    fn all_values(&self) -> Vec<Template> {
        self.values.iter().map(|value| Template::literal(value)).chain([Template::default()]).collect()
    }
}

impl Eval<Request> for Geo {
    fn eval(&self, r: &Request, out: &mut Vec<u8>) -> bool {
        self.append(self.address(r), out)
    }

    fn values(&self) -> Option<Vec<Template>> {
        Some(self.all_values())
    }

    fn reads(&self) -> Reads {
        Reads::Recorded
    }
}

impl Eval<Session> for Geo {
    fn eval(&self, session: &Session, out: &mut Vec<u8>) -> bool {
        self.append(self.start(session, || session.client.get().ip()), out)
    }

    fn values(&self) -> Option<Vec<Template>> {
        Some(self.all_values())
    }
}

#[cfg(test)]
mod tests;
