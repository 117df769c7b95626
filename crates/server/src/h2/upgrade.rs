//! `Upgrade: h2c` (RFC 7540 §3.2): an HTTP/1.1 request after which the connection is one of HTTP/2, and whose answer is
//! that of stream 1. RFC 9113 §3.1 has done away with it, and nginx never had it: it is off by default.

use super::hot;
use crate::base64;
use crate::connection::Connection;
use crate::request::Request;
use crate::stream::answer::{self, Arrival};
use crate::stream::exchange::Exchange;
use crate::table::Thread;
use brisk_http::framing::connection_tokens;
use brisk_http::head::Span;
use brisk_http::{HeaderId, Version};
use std::rc::Rc;

/// What the client is told before the first frame.
pub const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

/// The payload of the client's SETTINGS, if it asks for HTTP/2 and may have it (`http2_upgrade`). A request with a body is answered as it
/// came: the body would have to be read first.
pub fn wanted(r: &Request) -> Option<Vec<u8>> {
    let value = r.header(HeaderId::Upgrade)?;
    let asks = connection_tokens(value).any(|token| token.eq_ignore_ascii_case(b"h2c"));
    let listed = |name: &[u8]| {
        let mut values = r.head.fields(HeaderId::Connection);
        values.any(|value| connection_tokens(value).any(|token| token.eq_ignore_ascii_case(name)))
    };
    // RFC 7540 §3.2.1: exactly one such field, and named by `Connection`, as it is for this hop only.
    let once = r.head.parsed.has(HeaderId::Http2Settings)
        && r.head.parsed.repeated & HeaderId::Http2Settings.bit() == 0;
    let may = asks
        // `Connection` must name both, or an intermediary could have passed them on for somebody else.
        && once
        && listed(b"upgrade")
        && listed(b"http2-settings")
        && r.has_no_body()
        && r.head.parsed.version == Version::Http11
        // Only the first request: behind it others may be pipelined already, in HTTP/1.1.
        && r.conn().requests.get() == 1
        && hot::may_upgrade(&r.live, r.conn());
    if !may {
        return None;
    }
    let settings = base64::decode_url(r.header(HeaderId::Http2Settings)?)?;
    // Tried before 101 is said: afterwards a mistake could only end the connection.
    brisk_h2::Settings::default().apply(&settings).ok().map(|()| settings)
}

/// Makes the connection one of HTTP/2 and answers the request; [`SWITCHING`] has been said. `rest` is what the client has
/// sent behind it, and whether there may be more in the socket.
pub fn begin(
    thread: &Rc<Thread>,
    index: u32,
    conn: &Rc<Connection>,
    mut r: Box<Request>,
    settings: &[u8],
    (rest, full): (&[u8], bool),
) {
    // From here on the request owns what it is served by.
    let live = r.live.clone();
    // To everybody behind this it is a request of HTTP/2: what was about the connection is done with.
    r.head.parsed.version = Version::Http2;
    let hop = [HeaderId::Upgrade, HeaderId::Connection, HeaderId::Http2Settings];
    r.head.parsed.headers.retain(|header| !hop.contains(&header.id));
    hop.iter().for_each(|id| r.head.parsed.present &= !id.bit());
    // Logs and variables show the request line, so it tells the version that is spoken now.
    let start = r.head.buf.len();
    let (method, target) = (r.head.parsed.method_name, r.head.parsed.target);
    for span in [method, target] {
        r.head.buf.extend_from_within(span.start as usize..span.end as usize);
        r.head.buf.push(b' ');
    }
    r.head.buf.extend_from_slice(Version::Http2.as_str().as_bytes());
    r.head.parsed.request_line = Span::new(start, r.head.buf.len());
    let (Some(session), Some(listen)) = (hot::begin(thread, &live, index, conn), conn.listener.id.get())
    // The socket is not listened on any more: the connection is dropped with its 101.
    else {
        return;
    };
    // Stream 1 is half closed from the client's side (RFC 7540 §3.2): its request was the one over HTTP/1.1.
    let upgraded = session.engine.borrow_mut().upgrade(settings, None::<Rc<Exchange>>);
    // Settings that cannot be applied were found by `wanted`.
    if upgraded.is_ok() {
        let at = Arrival { live: &live, conn, listen, stream: 1 };
        answer::answer(&*session, at, r, Ok(()), true, false);
    }
    // Behind the answer, as the frames come: the preface is checked there like any other.
    hot::input(&session, conn, rest, full, &mut Vec::new());
}
