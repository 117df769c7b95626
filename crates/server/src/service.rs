//! Requests that no client has sent, for services.

pub use brisk_host::service::{Service, Work};

use crate::connection::Connection;
use crate::h1::intake;
use crate::request::Request;
use crate::request::client::Carrier;
use crate::request::head::Head;
use crate::table::Thread;
use brisk_host::peer::Peer;
use brisk_http::uri::{UriOptions, parse_target};
use brisk_http::{HeadOptions, parse_request};
use brisk_net::{Io, Stream, clock};
use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A GET of `uri` that no client has sent, at the first server: for variables that work of our own wants. Of a client
/// they find nobody: `$remote_addr` is `unix:`.
/// It is never answered: it only gives variables something to read.
pub fn request(uri: &str, host: &[u8]) -> io::Result<Box<Request>> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    // Services run on the first thread; elsewhere there is no configuration to ask.
    let thread = Thread::current().ok_or(io::ErrorKind::NotFound)?;
    let listener = thread
        .listeners
        .borrow()
        .iter()
        // One that the present configuration names: others have no server any more.
        .find(|listener| listener.id.get().is_some())
        .cloned()
        .ok_or(io::ErrorKind::NotFound)?;
    // A connection needs a socket. Its other end is closed at once, so nothing can ever be read from it.
    let (ours, _) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let id = thread.shared.connection_ids.fetch_add(1, Ordering::Relaxed);
    let now = clock::now();
    let conn = Connection::new(Stream::from(Io::local(ours.into())), id, Peer::Unix, listener, now.mono_ms);
    let mut r = Box::new(Request::new(thread.clone(), thread.live()));
    // With a connection, since accessors count on one.
    r.client.carrier = Some(Carrier::Connection(Rc::new(conn)));
    r.progress.started = now;
    r.head.buf = [b"GET ", uri.as_bytes(), b" HTTP/1.0\r\nHost: ", host, b"\r\n\r\n"].concat();
    let Head { buf, parsed, target, .. } = &mut r.head;
    // By the parser for clients: variables find its fields as they find theirs.
    parse_request(buf, &HeadOptions::default(), parsed).map_err(invalid)?;
    let sent = parsed.target.of(buf);
    // A target that is none makes no request.
    parse_target(sent, UriOptions::default(), target).map_err(|_| io::ErrorKind::InvalidInput)?;
    let args = target.args.of(sent).to_vec();
    (r.route.args, r.route.uri) = (args, r.head.target.path.clone());
    r.route.has_decoded_delimiter = intake::has_delimiter(&r.route.uri);
    r.head.host.extend_from_slice(host);
    r.route.loc = r.snap().server(r.route.server).root;
    Ok(r)
}
