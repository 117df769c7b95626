//! The phases of a session before it is passed on: the client's address, access, and the choice of the server.
//!
//! nginx's phases, in its order: the PROXY header, `set_real_ip_from`, `set`, `limit_conn`, `allow` and `deny`, TLS that is ended here
//! ([`handshake`](crate::handshake)), `ssl_preread`.
//!
//! Bytes are looked at in the socket (`MSG_PEEK`); only the PROXY header is taken. The rest stays there for the peer, or for another
//! server (`pass`).

use crate::conf::{Preread, Server};
use crate::limits::HELLO_PEEK_BYTES_MIN;
use crate::proxy::{BAD_REQUEST, INTERNAL, OK, Status};
use crate::session::Session;
use brisk_conf::os_text;
use brisk_host::log::LogLevel;
use brisk_host::peer::Peer;
use brisk_host::server_name::is_host_name;
use brisk_host::vars::Context as _;
use brisk_net::{Io, Stream, timeout};
use brisk_proxy_protocol::limits::PROXY_V2_BYTES_MAX;
use brisk_proxy_protocol::{Progress, ProxyError, parse};
use brisk_tls::{Hello, Parsed};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;

/// Looks at the bytes in the socket, without taking them, until `judge` returns a result.
pub(crate) async fn peek<T>(
    io: &Io,
    buffer: &mut [u8],
    mut judge: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<Looked<T>> {
    loop {
        // Asked before the look: all that the client has sent is there then. With something unread, the end is not seen by reading.
        let is_closed = io.is_closed();
        let seen = match recv(io.fd(), &mut *buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, seen)) => seen,
            Err(Errno::AGAIN) => {
                io.mark_drained();
                io.readable().await;
                continue;
            }
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if let Some(known) = judge(&buffer[..seen]) {
            return Ok(Looked::Known(known));
        }
        if seen == 0 || is_closed && seen < buffer.len() {
            return Ok(Looked::Closed);
        }
        if seen == buffer.len() {
            return Ok(Looked::Full);
        }
        // More bytes are another event, whatever is left unread.
        io.mark_drained();
        io.readable().await;
    }
}

/// How [`peek`] ended.
pub(crate) enum Looked<T> {
    /// `judge` has returned a result.
    Known(T),
    /// The client has closed, and `judge` needs more bytes.
    Closed,
    /// The buffer is full, and `judge` needs more bytes.
    Full,
}

/// Takes the PROXY header that the connection begins with.
pub async fn take_header(session: &Session, io: &Io) -> Result<(), Status> {
    let mut buffer = vec![0; PROXY_V2_BYTES_MAX];
    let mut last = Vec::new();
    let judge = |bytes: &[u8]| match parse(bytes) {
        Ok(Progress::Partial) => {
            last = bytes.to_vec();
            None
        }
        Ok(Progress::Complete { len, header }) => Some(Ok((len, header))),
        Err(error) => Some(Err(error)),
    };
    let limit = session.server().proxy_protocol_timeout;
    let looked = timeout(limit, peek(io, &mut buffer, judge)).await;
    let while_reading = |level, what: &dyn std::fmt::Display| {
        session.log(level, format_args!("{what} while reading PROXY protocol"));
    };
    let (len, header) = match looked {
        Err(_) => {
            while_reading(LogLevel::Info, &"client timed out (110: Connection timed out)");
            return Err(OK);
        }
        Ok(Err(error)) => {
            while_reading(LogLevel::Info, &format_args!("recv() failed ({})", os_text(&error)));
            return Err(BAD_REQUEST);
        }
        Ok(Ok(Looked::Known(Ok(known)))) => known,
        Ok(Ok(Looked::Known(Err(error)))) => {
            while_reading(LogLevel::Error, &error);
            return Err(BAD_REQUEST);
        }
        Ok(Ok(Looked::Closed | Looked::Full)) => {
            while_reading(LogLevel::Error, &ProxyError::broken(&last));
            return Err(BAD_REQUEST);
        }
    };
    // It is all there.
    match recv(io.fd(), &mut buffer[..len], RecvFlags::DONTWAIT) {
        Ok((_, taken)) if taken == len => {}
        _ => return Err(INTERNAL),
    }
    session.moved(len as u64, 0);
    if let Some(header) = header {
        let _ = session.header.set(header);
    }
    Ok(())
}

/// The phases that connections and datagrams have in common.
pub fn begin(session: &Session) -> Result<(), Status> {
    let server = session.server();
    let told = session.header.get().map(|header| header.source);
    if let (Some(real_ip), Some(source)) = (&server.real_ip, told)
        && real_ip.trusts(session.origin.peer)
    {
        session.client.set(Peer::Ip(source));
    }
    for (variable, value) in &server.sets {
        let value = value.eval(session);
        session.store().set(*variable, Some(value.into()));
    }
    server.checks.iter().try_for_each(|check| check.check(session))?;
    if session.store().have_failed() { Err(INTERNAL) } else { Ok(()) }
}

/// `ssl_preread`: looks at the client's ClientHello, and goes over to the server that its name leads to.
pub async fn preread(session: &Session, io: &Io, wanted: Preread) -> Result<(), Status> {
    let mut buffer = vec![0; wanted.buffer_bytes.max(HELLO_PEEK_BYTES_MIN)];
    let looked = timeout(wanted.timeout, peek(io, &mut buffer, judge)).await;
    looked.map_or_else(|_| Err(preread_late(session)), |looked| preread_done(session, looked))
}

/// The same inside of TLS that is ended here. Bytes cannot be left there, so the session keeps them.
pub async fn preread_within(session: &Session, stream: &Stream, wanted: Preread) -> Result<(), Status> {
    let bytes_max = wanted.buffer_bytes.max(HELLO_PEEK_BYTES_MIN);
    let look = async {
        let mut buffer = vec![0; bytes_max];
        loop {
            let seen = session.looked_at.borrow().len();
            match stream.read(&mut buffer[seen..]).await? {
                0 => return Ok(Looked::Closed),
                count => {
                    session.moved(count as u64, 0);
                    session.looked_at.borrow_mut().extend_from_slice(&buffer[seen..seen + count]);
                }
            }
            let looked_at = session.looked_at.borrow();
            if let Some(known) = judge(&looked_at) {
                return Ok(Looked::Known(known));
            }
            if looked_at.len() == bytes_max {
                return Ok(Looked::Full);
            }
        }
    };
    let looked = timeout(wanted.timeout, look).await;
    looked.map_or_else(|_| Err(preread_late(session)), |looked| preread_done(session, looked))
}

/// What a client begins with.
enum Beginning {
    Hello(Box<Hello>),
    /// Another protocol, which is passed on as it is.
    Other,
}

/// Which protocol the bytes begin; `None`: more are needed.
fn judge(bytes: &[u8]) -> Option<Beginning> {
    match (ssl2(bytes), Hello::glance(bytes)) {
        (Some(hello), _) | (None, Ok(Parsed::Complete(hello))) => Some(Beginning::Hello(hello)),
        (None, Ok(Parsed::Partial)) => None,
        (None, Err(_)) => Some(Beginning::Other),
    }
}

fn preread_late(session: &Session) -> Status {
    session.info(format_args!("client timed out (110: Connection timed out) while prereading"));
    OK
}

fn preread_done(session: &Session, looked: io::Result<Looked<Beginning>>) -> Result<(), Status> {
    match looked {
        Ok(Looked::Known(Beginning::Other)) => Ok(()),
        Ok(Looked::Known(Beginning::Hello(hello))) => {
            let name = hello.server_name.as_deref().map(str::to_ascii_lowercase);
            session.step(format_args!(
                "ssl preread: a ClientHello for \"{}\"",
                name.as_deref().unwrap_or_default()
            ));
            let _ = session.hello.set(hello);
            name.map_or(Ok(()), |name| go_over(session, name.trim_end_matches('.')))
        }
        Ok(Looked::Closed) => Err(OK),
        Ok(Looked::Full) => {
            session.log(LogLevel::Error, format_args!("preread buffer full"));
            Err(BAD_REQUEST)
        }
        Err(error) => {
            session.info(format_args!("recv() failed ({}) while prereading", os_text(&error)));
            Err(BAD_REQUEST)
        }
    }
}

/// A ClientHello in the form of SSL 2.0 (RFC 5246 appendix E.2), which tells its version only: a length with the highest bit set, the type 1,
/// the version.
fn ssl2(bytes: &[u8]) -> Option<Box<Hello>> {
    match bytes {
        [length, _, 1, major, minor, ..] if length & 0x80 != 0 => {
            Some(Box::new(Hello { version: u16::from_be_bytes([*major, *minor]), ..Hello::default() }))
        }
        _ => None,
    }
}

/// Moves the session to the server that has this name.
pub(crate) fn go_over(session: &Session, name: &str) -> Result<(), Status> {
    // As in nginx: what is no host's name is no name. Captures of it may stand in paths.
    if !is_host_name(name.as_bytes()) {
        return Ok(());
    }
    let place = &session.origin.place;
    match place.names.find(session, name.as_bytes()) {
        Ok(None) => Ok(()),
        Ok(Some(number)) => {
            let server: Option<&std::sync::Arc<Server>> = place.servers.get(number as usize);
            server.into_iter().for_each(|server| session.move_to(server));
            Ok(())
        }
        Err(error) => {
            session.log(LogLevel::Error, format_args!("{error}"));
            Err(INTERNAL)
        }
    }
}
