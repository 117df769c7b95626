//! The beginning of a TLS connection: from its first byte to a session.

use super::allowed::Allowed;
use super::context::{Certs, Context, alpn};
use super::facts::Facts;
use super::rules::Rules;
use super::source::Pair;
use crate::conf::ids::ServerId;
use crate::conf::snapshot::Prefix;
use crate::connection::{Connection, Stage};
use crate::live::Live;
use crate::request::Request;
use crate::request::client::Carrier;
use crate::table::Thread;
use brisk_host::log::LogLevel;
use brisk_host::metrics::Counter;
use brisk_host::vars::Template;
use brisk_http::framing::validate_host;
use brisk_tls::{Certified, HELLO_BYTES_MAX, Hello, NoHello, Offered, Parsed, ServerContext};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// RFC 8446 §6: a fatal alert in a record that is not protected.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
/// The lists of the ClientHello are kept only if one of these is asked for.
const HELLO_VARIABLES: [&str; 3] = ["ssl_ciphers", "ssl_curves", "ssl_sigalgs"];
const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];
const DECODE_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// A new connection: what does its socket want first? Gives the time for a handshake, if there is to be one.
pub(crate) fn adopted(live: &Live, conn: &Connection) -> Option<Duration> {
    // By the socket alone: nothing of the connection has been read yet.
    let listen = live.snap.listen(conn.listener.id.get()?);
    let (prefix, server) = match listen.local(|| conn.local()) {
        Some(local) => (local.prefix, local.default_server),
        None => (listen.prefix, listen.default_server),
    };
    conn.stage.replace(match prefix {
        Prefix { proxy_protocol: true, tls, .. } => Stage::ProxyHeader { tls },
        Prefix { tls: true, .. } => Stage::Hello,
        _ => Stage::Request,
    });
    if !prefix.tls {
        return None;
    }
    // The default server's: which one the client means is known after its ClientHello.
    live.snap.server(server).tls.as_ref()?.handshake_timeout
}

/// True until the handshake is complete.
pub(crate) fn is_opening(conn: &Connection) -> bool {
    matches!(*conn.stage.borrow(), Stage::Hello)
        || conn
            .io
            .tls()
            .is_some_and(|tls| !tls.is_established() && !tls.session(brisk_tls::Session::is_early))
}

/// What has come of the first bytes.
pub enum Begun {
    /// The ClientHello is not all there; what has come is in the connection's input.
    Partial,
    /// There is none: somebody speaks plain HTTP.
    Plain,
    /// From now on the connection is a session.
    Session,
    /// As soon as these certificates have been read.
    Load(Box<Load>),
    /// The handshake is refused.
    Refused,
}

/// Certificates that a handshake waits for.
pub struct Load {
    pairs: Vec<Pair>,
    received: Vec<u8>,
    context: Arc<Context>,
    offer: Offer,
}

/// What a session is made for.
#[derive(Clone, Copy)]
struct Offer {
    http2: bool,
    /// What the client brings along.
    offered: Offered,
}

/// Looks at the connection's input, which is the beginning of a connection that wants TLS.
pub(crate) fn begin(thread: &Rc<Thread>, live: &Rc<Live>, conn: &Rc<Connection>) -> Begun {
    let parsed = {
        let input = conn.input.borrow();
        match input.first() {
            None => return Begun::Partial,
            // As nginx: what is no handshake record, nor SSLv2, is taken for HTTP.
            Some(&first) if first != 22 && first & 0x80 == 0 => {
                // The connection is a plain one from here on: its requests get 497 (`plain_on_tls`).
                conn.stage.replace(Stage::Request);
                conn.plain_on_tls.set(true);
                return Begun::Plain;
            }
            _ => Hello::parse(&input),
        }
    };
    let hello = match parsed {
        Ok(Parsed::Partial) if conn.input.borrow().len() < 2 * HELLO_BYTES_MAX => return Begun::Partial,
        Ok(Parsed::Complete(hello)) => *hello,
        // Records that are many and small.
        Ok(Parsed::Partial) => {
            refuse(live, conn, &DECODE_ERROR, "excessive message size");
            return Begun::Refused;
        }
        Err(wrong) => return refused(live, conn, wrong),
    };
    // Whatever comes of it, the ClientHello is read: the connection's next bytes are the session's.
    conn.stage.replace(Stage::Request);
    // `server_name` and paths of certificates may have variables, which need a request to be computed for.
    let mut r = thread.take_request();
    let begun = choose(live, conn, hello, &mut r);
    thread.put_request(r);
    begun
}

/// The server by the client's name, its context, its certificates.
fn choose(live: &Rc<Live>, conn: &Rc<Connection>, mut hello: Hello, r: &mut Request) -> Begun {
    let Some(id) = conn.listener.id.get() else { return Begun::Refused };
    let listen = live.snap.listen(id);
    let (names, default, prefix) = match listen.local(|| conn.local()) {
        Some(local) => (&local.names, local.default_server, local.prefix),
        None => (&listen.names, listen.default_server, listen.prefix),
    };
    r.client.carrier = Some(Carrier::Connection(conn.clone()));
    (r.route.server, r.route.loc) = (default, live.snap.server(default).root);
    let name = hello.server_name.take();
    // A name that is no host is ignored, as if there were none.
    let host = name.as_deref().and_then(|name| validate_host(name.as_bytes()).ok());
    let Ok(found) = host.as_ref().map_or(Ok(None), |host| names.find(r, &host.name)) else {
        refuse(live, conn, &INTERNAL_ERROR, "server name is undecided");
        return Begun::Refused;
    };
    let server = found.unwrap_or(default);
    (r.route.server, r.route.loc) = (server, live.snap.server(server).root);
    let Some((rules, context)) = context(live, server, default) else {
        refuse(live, conn, &INTERNAL_ERROR, "no suitable certificate");
        return Begun::Refused;
    };
    let accepted = host.filter(|_| found.is_some()).map(|host| host.name.into());
    // Kept only if a variable shows it: a ClientHello is large, and connections are many.
    let keeps = HELLO_VARIABLES.iter().any(|name| live.snap.vars.is_used(name));
    let http2 = prefix.http2 || live.snap.location(live.snap.server(server).root).core.http2.enabled;
    let offer = Offer { http2, offered: hello.offered };
    let checked =
        context.as_ref().map_or(Ok(()), |context| hello.check(context.options.versions, alpn(http2)));
    let hello = keeps.then(|| Box::new(hello));
    let is_rejected = live.snap.server(server).tls.as_ref().is_some_and(|rules| rules.reject);
    let _ = conn.secure.set(Box::new(Facts {
        name,
        accepted,
        server,
        generation: live.generation,
        rules,
        hello,
        revocation: RefCell::default(),
        is_asked: Cell::new(false),
        verdict: OnceCell::new(),
    }));
    let Some(context) = context.filter(|_| !is_rejected) else {
        refuse(live, conn, &UNRECOGNIZED_NAME, "callback failed");
        return Begun::Refused;
    };
    if let Err(wrong) = checked {
        return refused(live, conn, wrong);
    }
    certify(live, conn, context, offer, r)
}

/// Begins the handshake with the certificates of the server that was chosen, or says which are to be loaded first.
fn certify(
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    context: Arc<Context>,
    offer: Offer,
    r: &mut Request,
) -> Begun {
    let server = r.route.server;
    // The session takes the bytes over: it has to see its ClientHello itself.
    let received = conn.input.take();
    match &context.certs {
        Certs::Fixed(sources) => {
            if sources.is_stapled {
                let core = &live.snap.location(live.snap.server(server).root).core;
                super::ocsp::refresh(&sources.list, core, live);
            }
            start(live, conn, &context, offer, received, None)
        }
        Certs::Named { pairs, prefix, cache, .. } => {
            let pairs = match evaluate(pairs, prefix, r, &live.snap.allowed) {
                Ok(pairs) => pairs,
                Err(why) => {
                    log(live, conn, LogLevel::Error, format_args!("{why}"));
                    // The alert is all that the client is told: paths of files are for the log.
                    let _ = conn.io.try_write(&INTERNAL_ERROR);
                    return Begun::Refused;
                }
            };
            let cached = pairs.iter().map(|pair| cache.as_ref()?.get(pair)).collect::<Option<Arc<[_]>>>();
            match cached {
                Some(certified) => start(live, conn, &context, offer, received, Some(certified)),
                None => Begun::Load(Box::new(Load { pairs, received, context, offer })),
            }
        }
    }
}

/// The rules and the context of a server; of the default one if it has no certificates, as in nginx.
fn context(live: &Live, server: ServerId, default: ServerId) -> Option<(Arc<Rules>, Option<Arc<Context>>)> {
    let rules = |server| live.snap.server(server).tls.clone();
    let own = rules(server).filter(|rules| rules.context.is_some() || rules.reject);
    let rules = own.or_else(|| rules(default))?;
    let context = rules.context.clone();
    Some((rules, context))
}

fn start(
    live: &Live,
    conn: &Connection,
    context: &Context,
    offer: Offer,
    received: Vec<u8>,
    certified: Option<Arc<[Certified]>>,
) -> Begun {
    let made = context.get(offer.http2).map_err(str::to_string).and_then(|base| {
        let session =
            |context: &ServerContext| context.session(offer.offered).map_err(|error| error.to_string());
        match certified {
            None => session(base),
            Some(certified) => session(&base.with_certificates(Arc::new(brisk_tls::Fixed(certified)))),
        }
    });
    match made {
        Ok(session) => {
            conn.io.start_tls(session, received);
            Begun::Session
        }
        Err(why) => {
            refuse(live, conn, &INTERNAL_ERROR, &why);
            Begun::Refused
        }
    }
}

/// Reads certificates from the disk, then begins the session; false if there is none.
pub(crate) async fn finish(live: &Live, conn: &Connection, load: Load) -> bool {
    let Load { pairs, received, context, offer } = load;
    let Certs::Named { passwords, cache, .. } = &context.certs else { return false };
    let mut certified = Vec::new();
    for pair in pairs {
        match pair.load(passwords, cache.as_deref()).await {
            Ok(one) => certified.push(one),
            Err(why) => {
                log(live, conn, LogLevel::Error, format_args!("{why}"));
                let _ = conn.io.try_write(&INTERNAL_ERROR);
                return false;
            }
        }
    }
    matches!(start(live, conn, &context, offer, received, Some(certified.into())), Begun::Session)
}

/// The ClientHello is wrong.
fn refused(live: &Live, conn: &Connection, wrong: NoHello) -> Begun {
    refuse(live, conn, &wrong.record(), wrong.reason);
    Begun::Refused
}

/// The alert is written as a record of its own, since there is no session yet that could.
fn refuse(live: &Live, conn: &Connection, alert: &[u8], why: &str) {
    let _ = conn.io.try_write(alert);
    log(live, conn, LogLevel::Info, format_args!("SSL_do_handshake() failed (SSL: error:{why})"));
}

/// The client has gone in the middle of the handshake.
pub(crate) fn closed(live: &Live, conn: &Connection) {
    if is_opening(conn) {
        log(live, conn, LogLevel::Info, format_args!("peer closed connection in SSL handshake"));
    }
}

/// The time for the handshake is over.
pub(crate) fn timed_out(live: &Live, conn: &Connection) {
    if is_opening(conn) {
        log(live, conn, LogLevel::Info, format_args!("client timed out (110: Connection timed out)"));
    }
}

/// A read has failed.
pub(crate) fn failed(live: &Live, conn: &Connection, error: &io::Error) {
    if conn.io.tls().is_none() {
        return;
    }
    let why = error.get_ref().map_or_else(|| brisk_conf::os_text(error), ToString::to_string);
    if is_opening(conn) {
        return log(live, conn, LogLevel::Info, format_args!("SSL_do_handshake() failed ({why})"));
    }
    let text = format_args!("SSL_read() failed ({why}) while waiting for request");
    crate::log::connection(live, conn, LogLevel::Info, text);
}

/// Handshakes that came to nothing.
pub(crate) static FAILED: Counter = Counter::new();

/// To be called once for a handshake that comes to nothing.
fn log(live: &Live, conn: &Connection, level: LogLevel, what: fmt::Arguments<'_>) {
    FAILED.add(1);
    crate::log::connection(live, conn, level, format_args!("{what} while SSL handshaking"));
}

/// What several paths with variables have come to in one handshake. The error is for the log: a client's value would lead
/// to files that the configuration does not mean.
fn evaluate(
    pairs: &[(Template, Template)],
    prefix: &str,
    r: &Request,
    allowed: &Allowed,
) -> Result<Vec<Pair>, String> {
    let pair = |(certificate, key): &(Template, Template)| {
        let pair = Pair::named(&certificate.eval(r), &key.eval(r), prefix);
        for path in [&pair.certificate, &pair.key] {
            if !path.starts_with("data:") && !allowed.has(path) {
                return Err(format!(
                    "cannot load certificate \"{path}\": the value of a variable is empty or leads out of its folder"
                ));
            }
        }
        Ok(pair)
    };
    pairs.iter().map(pair).collect()
}
