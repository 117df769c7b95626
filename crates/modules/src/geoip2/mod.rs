//! `ngx_http_geoip2_module`, as the usual module of that name outside of nginx has it: variables by an address, from
//! MaxMind's databases.

mod database;

use crate::computed::{define, lines};
use crate::forwarded::forwarded;
use brisk_conf::cidr::{Cidr, parse_address};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token, value};
use brisk_http::HeaderId;
use brisk_server::conf::{Cx, invalid_value};
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::request::Request;
use brisk_server::vars::{Eval, Template};
use brisk_stream::Session;
use database::{Database, Element};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

pub static MODULE: Module = Module {
    name: "geoip2",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("geoip2")
        .doc("Reads a database of MaxMind's format (.mmdb), and defines variables by it: a line is a variable, default= and source= (an address; otherwise the client's), and the path of a value. auto_reload says how often the file is looked at for changes; metadata gives build_epoch, last_check or last_change.")
        .in_(Context::HTTP.or(Context::STREAM))
        .arity(Arity::ONE.block())
        .takes("FILE")
        .many()
        .definition()
        .example("geoip2 GeoLite2-Country.mmdb { auto_reload 1h; $country default=unknown country iso_code; $built metadata build_epoch; }")
        .set(geoip2),
    // A security matter: a proxy that is believed wrongly lets every client choose its country.
    directive("geoip2_proxy")
        .doc("A proxy whose X-Forwarded-For is believed by variables of geoip2 without a source.")
        .in_(Context::HTTP)
        .takes("ADDRESS | CIDR")
        .many()
        .risk(Risk::Security)
        .example("geoip2_proxy 192.0.2.0/24;")
        .set(proxy),
    // Off: the last address is what the nearest proxy has added; those before it may be the client's own words.
    directive("geoip2_proxy_recursive")
        .doc("Whether the last address in X-Forwarded-For that is not a proxy's counts, not the last one.")
        .in_(Context::HTTP)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("geoip2_proxy_recursive on;")
        .sets(|cx, on| cx.conf::<Conf>().trust.recursive = on),
];

/// Whose `X-Forwarded-For` is believed.
#[derive(Clone, Debug, Default)]
struct Trust {
    proxies: Vec<Cidr>,
    recursive: bool,
}

#[derive(Clone, Default)]
struct Conf {
    trust: Trust,
    /// The same, once the whole block has been read: the lines of `geoip2` may stand before those about proxies.
    complete: Arc<OnceLock<Trust>>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    if cx.block == Context::HTTP {
        // The block's own copy: the lines of `geoip2` hold the cell, and read it when requests come.
        let conf = cx.conf_of::<Conf>();
        // Set once: `finish` runs for the block `http` once.
        let _ = conf.complete.set(conf.trust.clone());
    }
    Ok(())
}

fn proxy(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let network = Cidr::parse(token.bytes()).ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid network \"{}\"", token.text()))
            .help("write 192.0.2.0/24, 2001:db8::/32 or a single address")
    })?;
    cx.conf::<Conf>().trust.proxies.push(network.cidr);
    Ok(())
}

/// The setter of `geoip2`.
fn geoip2(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let path = cx.global.loader.resolve(token.str());
    // By the loader, which also reads what only root may.
    // As the loader names it, so that a folder of the configuration is meant and not the process's.
    let bytes = cx.read_file(token)?;
    let mut reload = None;
    for line in lines(cx, d).filter(|line| line.name() == "auto_reload") {
        let [interval] = line.args.as_slice() else {
            return Err(Diag::emerg(line.span, "invalid number of arguments in \"auto_reload\" directive")
                .help("write how often the file is looked at: auto_reload 5m;"));
        };
        // One of 0 means never, as in the usual module.
        let interval = value::msec(interval)?;
        // A check costs a call per interval, and changes within a second cannot be told apart.
        reload = Some(interval.max(std::time::Duration::from_secs(1))).filter(|_| !interval.is_zero());
    }
    let database = Database::new(path.clone(), bytes, reload).map_err(|error| {
        Diag::emerg(token.span, format!("MMDB_open(\"{path}\") failed - {error}"))
            .help("the file must be a database of MaxMind's format, such as GeoLite2-Country.mmdb")
    })?;
    let database = Arc::new(database);
    for line in lines(cx, d).filter(|line| line.name() != "auto_reload") {
        if let Err(diag) = variable(cx, line, &database) {
            // All mistakes of a block are told at once.
            cx.warn(diag);
        }
    }
    // Only then there is something to do beside requests.
    if reload.is_some() {
        cx.global.services.push(database);
    }
    Ok(())
}

/// A line that defines a variable.
fn variable(cx: &mut Cx<'_, '_>, line: &Directive, database: &Arc<Database>) -> Result<(), Diag> {
    let missing = || {
        Diag::emerg(line.span, format!("no path of \"{}\"", line.name.text())).help(
            "write $variable [default=VALUE] [source=$ADDRESS] PATH ..., or $variable metadata build_epoch",
        )
    };
    if line.args.first().is_some_and(|first| first.bytes() == b"metadata") {
        let [_, field] = line.args.as_slice() else { return Err(missing()) };
        let fields = [
            ("build_epoch", Field::BuildEpoch),
            ("last_check", Field::LastCheck),
            ("last_change", Field::LastChange),
        ];
        let field = value::choice(field, &fields)?;
        let eval = Metadata { database: database.clone(), field };
        return define(cx, &line.name, Arc::new(eval), false).map(drop);
    }
    let (mut default, mut source, mut path) = (None, None, Vec::new());
    for token in &line.args {
        // Behind the path's first element these are elements: a map may have such keys.
        let rest = |prefix: &[u8]| token.bytes().strip_prefix(prefix).filter(|_| path.is_empty());
        if let Some(value) = rest(b"default=") {
            default = Some(value.into());
        } else if let Some(value) = rest(b"source=") {
            let token = Token { value: value.into(), ..token.clone() };
            let template = cx.template(&token)?;
            // A fixed address has a fixed answer: a variable was meant.
            if template.is_literal() {
                return Err(invalid_value(line, &token, "a variable with an address"));
            }
            source = Some(template);
        } else {
            path.push(Element::new(token.str()));
        }
    }
    if path.is_empty() {
        return Err(missing());
    }
    // The cell and not its content, which is not known yet.
    let trust = cx.conf::<Conf>().complete.clone();
    let eval = Looked { database: database.clone(), default, source, path, trust };
    define(cx, &line.name, Arc::new(eval), false).map(drop)
}

/// A variable with a value of the database.
struct Looked {
    database: Arc<Database>,
    default: Option<Box<[u8]>>,
    /// `None`: the client's address.
    source: Option<Template>,
    path: Vec<Element>,
    trust: Arc<OnceLock<Trust>>,
}

impl Looked {
    fn address(&self, r: &Request) -> Option<IpAddr> {
        if let Some(source) = &self.source {
            // What is no address has the default.
            return parse_address(&source.eval(r));
        }
        let start = r.client_addr().ip()?;
        let Some(trust) = self.trust.get() else { return Some(start) };
        // Without proxies the field is not read, so the answer does not depend on it.
        if trust.proxies.is_empty() || !r.has_header(HeaderId::XForwardedFor) {
            return Some(start);
        }
        let fields: Vec<&[u8]> = r.headers(HeaderId::XForwardedFor).collect();
        // As `geo` has it.
        let is_trusted = trust.proxies.iter().any(|proxy| proxy.contains_unmapped(start));
        let client = forwarded(is_trusted, fields.into_iter(), &trust.proxies, trust.recursive);
        Some(client.map_or(start, |address| address.ip()))
    }
}

impl Eval<Request> for Looked {
    fn eval(&self, r: &Request, out: &mut Vec<u8>) -> bool {
        self.look_up(self.address(r), out)
    }
}

impl Eval<Session> for Looked {
    fn eval(&self, session: &Session, out: &mut Vec<u8>) -> bool {
        let address = match &self.source {
            Some(source) => parse_address(&source.eval(session)),
            None => session.client.get().ip(),
        };
        self.look_up(address, out)
    }
}

impl Looked {
    fn look_up(&self, address: Option<IpAddr>, out: &mut Vec<u8>) -> bool {
        // IPv4-mapped addresses are looked up as IPv4: databases have them so.
        let address = address.map(|address| address.to_canonical());
        if address.is_some_and(|address| self.database.find(address, &self.path, out)) {
            return true;
        }
        match &self.default {
            Some(default) => out.extend_from_slice(default),
            None => return false,
        }
        true
    }
}

/// What is known of a database as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    BuildEpoch,
    LastCheck,
    LastChange,
}

struct Metadata {
    database: Arc<Database>,
    field: Field,
}

impl<C> Eval<C> for Metadata {
    fn eval(&self, _: &C, out: &mut Vec<u8>) -> bool {
        let known = self.database.known();
        let seconds = match self.field {
            Field::BuildEpoch => known.reader.metadata().build_epoch,
            Field::LastCheck => self.database.last_check(),
            Field::LastChange => known.last_change,
        };
        out.extend_from_slice(seconds.to_string().as_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::check::refused;

    #[test]
    fn what_cannot_be_read_is_refused() {
        refused(&[
            (
                "geoip2 /nowhere.mmdb { $a country; }",
                "open() \"/nowhere.mmdb\" failed (2: No such file or directory)",
            ),
            ("geoip2_proxy 10.0.0.0/40;", "invalid network \"10.0.0.0/40\""),
            (
                "geoip2_proxy_recursive x;",
                "invalid value \"x\" in \"geoip2_proxy_recursive\" directive, it must be \"on\" or \"off\"",
            ),
        ]);
    }
}
