//! The beginning of a TLS connection: from its first byte to a session.

use super::carries::Carries;
use super::facts::Facts;
use crate::conf::ids::ServerId;
use crate::conf::snapshot::{Listen, Prefix};
use crate::connection::{Connection, Stage};
use crate::live::Live;
use crate::request::Request;
use crate::request::client::Carrier;
use crate::table::Thread;
use brisk_host::log::LogLevel;
use brisk_host::metrics::Counter;
use brisk_host::tls::{Certs, Context, Pair, Refusal, Rules, Wanted};
use brisk_http::framing::validate_host;
use brisk_tls::{Certified, HELLO_BYTES_MAX, Hello, NoHello, Offered, Parsed, ServerContext};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// What a handshake goes on with.
struct Answer {
    context: Arc<Context>,
    offer: Offer,
    certificates: Wanted,
}

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
    carrier: Carries,
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
            // 22 is a handshake record (RFC 8446 §5.1); the highest bit marks SSLv2's ClientHello, which the parser refuses with an alert.
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
        // Twice: records add their heads to what the message may have.
        Ok(Parsed::Partial) if conn.input.borrow().len() < 2 * HELLO_BYTES_MAX => return Begun::Partial,
        Ok(Parsed::Complete(hello)) => *hello,
        // Records that are many and small.
        Ok(Parsed::Partial) => {
            return refused(live, conn, &Refusal::unreadable("excessive message size"));
        }
        Err(wrong) => return refused(live, conn, &wrong.into()),
    };
    // Whatever comes of it, the ClientHello is read: the connection's next bytes are the session's.
    conn.stage.replace(Stage::Request);
    // `server_name` and paths of certificates may have variables, which need a request to be computed for.
    let mut r = thread.take_request();
    let answer = choose(live, conn, hello, &mut r, Carries::TCP);
    // What a handshake has computed with it is of no request that follows.
    thread.put_request(r);
    match answer {
        Ok(Answer { context, offer, certificates }) => {
            // The session takes the bytes over: it has to see its ClientHello itself.
            let received = conn.input.take();
            match certificates {
                Wanted::Own => start(live, conn, &context, offer, received, None),
                Wanted::Read(certified) => start(live, conn, &context, offer, received, Some(certified)),
                Wanted::Load(pairs) => Begun::Load(Box::new(Load { pairs, received, context, offer })),
            }
        }
        Err(refusal) => refused(live, conn, &refusal),
    }
}

/// What becomes of a handshake over QUIC.
pub(crate) enum QuicAnswer {
    /// It goes on.
    Begin(ServerContext),
    /// As soon as these certificates have been read.
    Load(QuicLoad),
    /// It is refused.
    Refuse(NoHello),
}

/// Certificates that a handshake over QUIC waits for.
pub(crate) struct QuicLoad {
    pairs: Vec<Pair>,
    context: Arc<Context>,
    offer: Offer,
}

/// The limits that clients over QUIC are told: of all sockets, since a certificate's context serves all of them.
fn announced(live: &Live) -> [u8; 32] {
    let snap = &live.snap;
    let limits = |listen: &Listen| {
        let core = &snap.location(snap.server(listen.default_server).root).core;
        let (count, size) = core.large_client_header_buffers;
        let fields = count.saturating_mul(size) as u32;
        [core.http3.max_concurrent_streams, core.http3.stream_buffer_size, fields]
    };
    let mut all: Vec<[u32; 3]> =
        snap.listens.iter().filter(|listen| listen.prefix.quic).map(limits).collect();
    all.sort_unstable();
    all.dedup();
    let bytes: Vec<u8> = all.as_flattened().iter().flat_map(|limit| limit.to_be_bytes()).collect();
    brisk_tls::context_id(&bytes)
}

/// Decides about a ClientHello that has come over QUIC (RFC 9001).
pub(crate) fn answer_quic(
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    hello: Hello,
    r: &mut Request,
) -> QuicAnswer {
    let carrier = Carries::Quic { announced: announced(live) };
    let answer = match choose(live, conn, hello, r, carrier) {
        Ok(answer) => answer,
        Err(refusal) => return QuicAnswer::Refuse(told(live, conn, &refusal)),
    };
    let Answer { context, offer, certificates } = answer;
    let certified = match certificates {
        Wanted::Own => None,
        Wanted::Read(certified) => Some(certified),
        Wanted::Load(pairs) => return QuicAnswer::Load(QuicLoad { pairs, context, offer }),
    };
    match base(&context, offer, certified) {
        Ok(context) => QuicAnswer::Begin(context),
        Err(why) => QuicAnswer::Refuse(told(live, conn, &Refusal::internal(&why))),
    }
}

/// Reads certificates from the disk for a handshake over QUIC.
pub(crate) async fn finish_quic(
    live: &Live,
    conn: &Connection,
    load: QuicLoad,
) -> Result<ServerContext, NoHello> {
    let QuicLoad { pairs, context, offer } = load;
    let made = match read(&context, pairs).await {
        Ok(certified) => base(&context, offer, Some(certified)).map_err(|why| Refusal::internal(&why)),
        Err(why) => Err(Refusal::ours(why)),
    };
    made.map_err(|refusal| told(live, conn, &refusal))
}

/// Logs a refusal. The client is told the alert and a reason that says nothing of the server.
fn told(live: &Live, conn: &Connection, refusal: &Refusal) -> NoHello {
    log(live, conn, refusal.level(), format_args!("{refusal}"));
    NoHello { alert: refusal.alert, reason: "handshake refused" }
}

/// The server by the client's name, its context, its certificates.
fn choose(
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    mut hello: Hello,
    r: &mut Request,
    carrier: Carries,
) -> Result<Answer, Refusal> {
    let refuse = |why: &str| Err(Refusal::internal(why));
    let Some(id) = conn.listener.id.get() else { return refuse("the socket is gone") };
    let listen = live.snap.listen(id);
    let (names, default, prefix) = match listen.local(|| conn.local()) {
        Some(local) => (&local.names, local.default_server, local.prefix),
        None => (&listen.names, listen.default_server, listen.prefix),
    };
    r.client.carrier = Some(Carrier::Connection(conn.clone()));
    // For expressions among the names, which may set variables before a server is chosen.
    (r.route.server, r.route.loc) = (default, live.snap.server(default).root);
    let name = hello.server_name.take();
    // A name that is no host is ignored, as if there were none.
    let host = name.as_deref().and_then(|name| validate_host(name.as_bytes()).ok());
    let Ok(found) = host.as_ref().map_or(Ok(None), |host| names.find(r, &host.name)) else {
        return refuse("server name is undecided");
    };
    let server = found.unwrap_or(default);
    (r.route.server, r.route.loc) = (server, live.snap.server(server).root);
    let Some((rules, context)) = context(live, server, default) else {
        return refuse("no suitable certificate");
    };
    // What requests are held to later (`misdirected`): only a name that a server has.
    let accepted = host.filter(|_| found.is_some()).map(|host| host.name.into());
    let keeps = live.snap.vars.shows_hello();
    let http2 = prefix.http2 || live.snap.location(live.snap.server(server).root).core.http2.enabled;
    let carrier = match carrier {
        Carries::Tcp { .. } => Carries::Tcp { http2 },
        Carries::Quic { .. } => carrier,
    };
    let offer = Offer { carrier, offered: hello.offered };
    // Its outcome is used below: the facts must be there first, since variables of the log show them for a refusal, too.
    let checked =
        context.as_ref().map_or(Ok(()), |context| hello.check(context.options.versions, carrier.alpn()));
    let hello = keeps.then(|| Box::new(hello));
    let is_rejected = live.snap.server(server).tls.as_ref().is_some_and(|rules| rules.reject);
    let _ = conn.secure.set(Box::new(Facts {
        name,
        accepted,
        server,
        // The number of a server means something only within its configuration.
        generation: live.generation,
        rules,
        hello,
        revocation: RefCell::default(),
        is_asked: Cell::new(false),
        verdict: OnceCell::new(),
    }));
    let Some(context) = context.filter(|_| !is_rejected) else {
        return Err(Refusal::of_name());
    };
    checked?;
    // Last, since paths with variables may lead to a disk: what is refused must not cost a read.
    let certificates = certify(live, &context, r)?;
    Ok(Answer { context, offer, certificates })
}

/// The certificates of the server that was chosen.
fn certify(live: &Rc<Live>, context: &Context, r: &mut Request) -> Result<Wanted, Refusal> {
    let server = r.route.server;
    match &context.certs {
        Certs::Fixed(sources) => {
            if sources.is_stapled {
                let core = &live.snap.location(live.snap.server(server).root).core;
                // Started by handshakes and not by a timer: certificates that are not asked for need no fresh answers.
                brisk_host::tls::ocsp::refresh(&sources.list, &super::ocsp::names(core), || log_of(live));
            }
            Ok(Wanted::Own)
        }
        Certs::Named(named) => named.wanted(&*r, &live.snap.allowed).map_err(Refusal::ours),
    }
}

/// Errors that belong to no connection.
fn log_of(live: &Rc<Live>) -> brisk_resolver::Log {
    let live = live.clone();
    Rc::new(move |text| brisk_host::live::log_error(&live, LogLevel::Error, text))
}

/// The rules and the context of a server; of the default one if it has no certificates, as in nginx.
fn context(live: &Live, server: ServerId, default: ServerId) -> Option<(Arc<Rules>, Option<Arc<Context>>)> {
    let rules = |server| live.snap.server(server).tls.clone();
    // A server without certificates of its own shakes hands as the default one and is then found by its name, as in nginx.
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
    let made = base(context, offer, certified)
        .and_then(|base| base.session(offer.offered).map_err(|error| error.to_string()));
    match made {
        Ok(session) => {
            conn.io.start_tls(session, received);
            Begun::Session
        }
        Err(why) => refused(live, conn, &Refusal::internal(&why)),
    }
}

/// What sessions are made with, with these certificates if there are any.
fn base(
    context: &Context,
    offer: Offer,
    certified: Option<Arc<[Certified]>>,
) -> Result<ServerContext, String> {
    let carrier = offer.carrier;
    context.with(carrier.index(), |options| carrier.complete(options), certified)
}

/// Reads certificates from the disk, then begins the session; false if there is none.
pub(crate) async fn finish(live: &Live, conn: &Connection, load: Load) -> bool {
    let Load { pairs, received, context, offer } = load;
    match read(&context, pairs).await {
        Ok(certified) => {
            matches!(start(live, conn, &context, offer, received, Some(certified)), Begun::Session)
        }
        Err(why) => {
            refused(live, conn, &Refusal::ours(why));
            false
        }
    }
}

/// Reads certificates. The error is for the log.
async fn read(context: &Context, pairs: Vec<Pair>) -> Result<Arc<[Certified]>, String> {
    match &context.certs {
        Certs::Named(named) => named.load(pairs).await,
        Certs::Fixed(_) => Err("no certificates".into()),
    }
}

/// The alert is written as a record of its own, since there is no session yet that could (RFC 8446 §6).
fn refused(live: &Live, conn: &Connection, refusal: &Refusal) -> Begun {
    // A record of type alert, with the legacy version 3.3 (RFC 8446 §5.1), two bytes long, fatal. One attempt: a client whose window is closed
    // before it has said anything is no loss.
    let _ = conn.io.try_write(&refusal.record());
    log(live, conn, refusal.level(), format_args!("{refusal}"));
    Begun::Refused
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
        // At level info, as in nginx: scanners make such lines all day.
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
