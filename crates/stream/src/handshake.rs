//! `listen … ssl`: TLS with the client is ended here.
//!
//! The ClientHello is looked at in the socket (`MSG_PEEK`), so that the session sees it itself. It leads to a server, whose rules the
//! handshake follows; those of the address's default server where that one has no certificate, as in nginx.

use crate::limits::HELLO_FIRST_BYTES;
use crate::opening::{Looked, go_over, peek};
use crate::proxy::{INTERNAL, Status};
use crate::secure::Secure;
use crate::session::Session;
use brisk_conf::os_text;
use brisk_host::live::log_error;
use brisk_host::log::LogLevel;
use brisk_host::tls::{Certs, Context, Refusal, Rules, Verdict, Verify, Wanted, ocsp};
use brisk_host::vars::Context as _;
use brisk_net::{Io, Stream, timeout};
use brisk_tls::{Certified, HELLO_BYTES_MAX, Hello, Parsed, RECORD_BYTES_MAX};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// nginx's default of `ssl_handshake_timeout` in `stream`.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_mins(1);
/// Shakes hands; the error is the status that the session ends with.
pub async fn accept(session: &Session, io: Io) -> Result<Rc<Stream>, Status> {
    let rules = session.server().tls.clone();
    let limit = rules.and_then(|rules| rules.handshake_timeout).unwrap_or(HANDSHAKE_TIMEOUT);
    match timeout(limit, shake_hands(session, io)).await {
        Ok(done) => done,
        Err(_) => {
            failed(session, format_args!("client timed out (110: Connection timed out)"));
            Err(INTERNAL)
        }
    }
}

async fn shake_hands(session: &Session, io: Io) -> Result<Rc<Stream>, Status> {
    let hello = match hello(&io).await {
        Ok(Some(hello)) => hello,
        Ok(None) => {
            failed(session, format_args!("peer closed connection in SSL handshake"));
            return Err(INTERNAL);
        }
        Err(refusal) => return Err(refuse(session, &io, &refusal)),
    };
    let answer = match choose(session, hello) {
        Ok(answer) => answer,
        Err(refusal) => return Err(refuse(session, &io, &refusal)),
    };
    let made = certified(answer.context(), answer.wanted).await.and_then(|certified| {
        // Nothing is peculiar to a kind of connection here: ALPN is its server's.
        let base = answer.rules.context.as_ref().ok_or("no certificate")?.with(0, |_| {}, certified)?;
        base.session(answer.offered).map_err(|error| error.to_string())
    });
    let tls = match made {
        Ok(tls) => tls,
        Err(why) => return Err(refuse(session, &io, &Refusal::ours(why))),
    };
    let stream = Rc::new(Stream::from(io));
    stream.start_tls(tls, Vec::new());
    let _ = session.secure.set(Box::new(Secure::new(stream.clone(), answer.rules, answer.hello)));
    if let Err(error) = stream.shake_hands().await {
        failed(session, format_args!("{error}"));
        return Err(INTERNAL);
    }
    let_in(session)?;
    ask_about_client(session, &stream).await?;
    Ok(stream)
}

/// `ssl_ocsp`: ends the session if the authority says that the certificate is revoked, or gives no answer.
async fn ask_about_client(session: &Session, stream: &Stream) -> Result<(), Status> {
    let Some((secure, tls)) = session.secure.get().zip(stream.tls()) else { return Ok(()) };
    if *secure.verdict() != Verdict::Good {
        return Ok(());
    }
    let log = |text: fmt::Arguments<'_>| session.log(LogLevel::Error, text);
    let Some(why) = ocsp::revocation(&secure.rules, tls, &names(session), log).await else { return Ok(()) };
    let _ = secure.revocation.set(why);
    session.log(LogLevel::Info, format_args!("client SSL certificate verify error: {why}"));
    Err(INTERNAL)
}

/// Errors that belong to no session.
fn log_of(session: &Session) -> brisk_resolver::Log {
    let live = session.live.clone();
    Rc::new(move |text| log_error(&live, LogLevel::Error, text))
}

/// The resolver for names of responders.
fn names(session: &Session) -> ocsp::Names {
    let server = session.server();
    ocsp::Names { resolver: server.resolver.clone(), timeout: server.resolver_timeout }
}

/// Ends the session if the client's certificate is missing or not trusted.
fn let_in(session: &Session) -> Result<(), Status> {
    let Some(secure) = session.secure.get() else { return Err(INTERNAL) };
    // The server's own rules, which the handshake need not have followed: a server without a certificate has another one's.
    let own = session.server().tls.clone();
    let rules = own.as_ref().unwrap_or(&secure.rules);
    // The certificate must have been verified by this server's authorities (`Rules::clients`); nginx accepts another server's verdict.
    if rules.verify != Verify::Off && rules.clients != secure.rules.clients {
        let text =
            format_args!("client SSL certificate was asked for by another server, which judges otherwise");
        session.log(LogLevel::Info, text);
        return Err(INTERNAL);
    }
    rules.admit(secure.verdict()).map_err(|why| {
        session.log(LogLevel::Info, format_args!("{why}"));
        INTERNAL
    })
}

/// The client's first message; `None`: it has closed before.
async fn hello(io: &Io) -> Result<Option<Hello>, Refusal> {
    let mut buffer = vec![0; HELLO_FIRST_BYTES];
    loop {
        let judge = |bytes: &[u8]| match Hello::parse(bytes) {
            Ok(Parsed::Partial) => None,
            Ok(Parsed::Complete(hello)) => Some(Ok(*hello)),
            Err(wrong) => Some(Err(Refusal::from(wrong))),
        };
        match peek(io, &mut buffer, judge).await {
            Ok(Looked::Known(known)) => return known.map(Some),
            Ok(Looked::Closed) => return Ok(None),
            // Twice: records add their heads to what the message may have.
            Ok(Looked::Full) if buffer.len() < 2 * HELLO_BYTES_MAX => {
                let wider = buffer.len() + RECORD_BYTES_MAX;
                buffer.resize(wider.min(2 * HELLO_BYTES_MAX), 0);
            }
            Ok(Looked::Full) => return Err(Refusal::unreadable("excessive message size")),
            Err(error) => return Err(Refusal::unreadable(&os_text(&error))),
        }
    }
}

/// What the handshake needs after the ClientHello.
struct Answer {
    rules: Arc<Rules>,
    wanted: Wanted,
    hello: Option<Box<Hello>>,
    offered: brisk_tls::Offered,
}

impl Answer {
    fn context(&self) -> Option<Arc<Context>> {
        self.rules.context.clone()
    }
}

/// The server by the client's name, its rules, its certificates.
fn choose(session: &Session, mut hello: Hello) -> Result<Answer, Refusal> {
    if let Some(name) = hello.server_name.take() {
        let bare = name.to_ascii_lowercase();
        // Before anything is decided: variables show it, those of paths and of the log.
        let _ = session.asked_name.set(name);
        go_over(session, bare.trim_end_matches('.'))
            .map_err(|_| Refusal::ours("server name is undecided".into()))?;
    }
    let has_some = |rules: &Arc<Rules>| rules.context.is_some() || rules.reject;
    let own = session.server().tls.clone().filter(has_some);
    let rules = own.or_else(|| session.origin.place.server.tls.clone());
    let rules = rules.ok_or_else(|| Refusal::internal("no suitable certificate"))?;
    let Some(context) = rules.context.clone().filter(|_| !rules.reject) else {
        return Err(Refusal::of_name());
    };
    let alpn: Vec<&[u8]> = context.options.alpn.iter().map(Vec::as_slice).collect();
    hello.check(context.options.versions, &alpn)?;
    // Last, since paths with variables may lead to a disk: what is refused must not cost a read.
    let wanted = match &context.certs {
        Certs::Fixed(sources) => {
            if sources.is_stapled {
                ocsp::refresh(&sources.list, &names(session), || log_of(session));
            }
            Wanted::Own
        }
        Certs::Named(named) => named.wanted(session, &session.origin.conf.allowed).map_err(Refusal::ours)?,
    };
    let keeps = session.origin.conf.vars.shows_hello();
    let offered = hello.offered;
    Ok(Answer { rules, wanted, hello: keeps.then(|| Box::new(hello)), offered })
}

async fn certified(
    context: Option<Arc<Context>>,
    wanted: Wanted,
) -> Result<Option<Arc<[Certified]>>, String> {
    match (wanted, context.as_ref().map(|context| &context.certs)) {
        (Wanted::Read(certified), _) => Ok(Some(certified)),
        (Wanted::Load(pairs), Some(Certs::Named(named))) => named.load(pairs).await.map(Some),
        _ => Ok(None),
    }
}

/// Sends the alert to the client, and logs it.
fn refuse(session: &Session, io: &Io, refusal: &Refusal) -> Status {
    // A record of its own, since there is no session yet that could (RFC 8446 §5.1, §6): an alert of version 3.3, two bytes, fatal.
    let _ = io.try_write(&refusal.record());
    // What was only looked at: the kernel resets connections that are closed with something unread, and the client might not see the alert.
    let mut room = [0; HELLO_FIRST_BYTES];
    for _ in 0..2 * HELLO_BYTES_MAX / HELLO_FIRST_BYTES {
        if !matches!(io.try_read(&mut room), Ok(1..)) {
            break;
        }
    }
    session.log(refusal.level(), format_args!("{refusal} while SSL handshaking"));
    INTERNAL
}

/// At level info, as in nginx: scanners make such lines all day.
fn failed(session: &Session, what: fmt::Arguments<'_>) {
    session.log(LogLevel::Info, format_args!("{what} while SSL handshaking"));
}
