//! Requests that no client has sent, for services.

pub use brisk_host::service::{Service, Work};

use crate::connection::{Connection, Peer};
use crate::h1::intake;
use crate::request::Request;
use crate::thread::Thread;
use brisk_http::uri::{UriOptions, parse_target};
use brisk_http::{HeadOptions, parse_request};
use brisk_net::{Io, Stream, clock};
use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A GET of `uri` that no client has sent, at the first server: for variables that work of our own wants. Of a client
/// they find nobody: `$remote_addr` is `unix:`.
pub fn request(uri: &str, host: &[u8]) -> io::Result<Box<Request>> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let thread = Thread::current().ok_or(io::ErrorKind::NotFound)?;
    let listener = thread
        .listeners
        .borrow()
        .iter()
        .find(|listener| listener.id.get().is_some())
        .cloned()
        .ok_or(io::ErrorKind::NotFound)?;
    let (ours, _) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let id = thread.shared.connection_ids.fetch_add(1, Ordering::Relaxed);
    let now = clock::now();
    let conn = Connection::new(Stream::from(Io::local(ours.into())), id, Peer::Unix, listener, now);
    let mut r = Box::new(Request::new(thread.clone(), thread.live()));
    r.conn = Some(Rc::new(conn));
    r.started = now;
    r.buf = [b"GET ", uri.as_bytes(), b" HTTP/1.0\r\nHost: ", host, b"\r\n\r\n"].concat();
    let Request { buf, head, target, .. } = &mut *r;
    parse_request(buf, &HeadOptions::default(), head).map_err(invalid)?;
    let sent = head.target.of(buf);
    parse_target(sent, UriOptions::default(), target).map_err(|_| io::ErrorKind::InvalidInput)?;
    let args = target.args.of(sent).to_vec();
    (r.args, r.uri) = (args, r.target.path.clone());
    r.has_decoded_delimiter = intake::has_delimiter(&r.uri);
    r.host.extend_from_slice(host);
    r.loc = r.snap().server(r.server).root;
    Ok(r)
}
