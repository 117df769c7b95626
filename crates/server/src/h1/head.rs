//! Serialising a response head, in nginx's order of fields.
//!
//! It decides whether the connection goes on, since fields and framing must tell the same. It must not know how bytes
//! leave.

use crate::request::Request;
use crate::request::reply::Persistence;
use crate::response::{Body, Response};
use crate::special::server_token;
use brisk_http::field::write_field;
use brisk_http::h1::{self, Delimiting};
use brisk_http::range::write_number;
use brisk_http::{Version, date, status};
use brisk_net::clock;

/// Where a written head has its date, for [`prepared`](crate::prepared).
/// The body that follows must be written in the way that this head says.
pub struct Written {
    pub delimiting: Delimiting,
    /// Offset of the date's 29 bytes in `out`.
    pub date_at: Option<usize>,
}

/// Decides what becomes of the connection and appends the head to `out`.
pub fn write(r: &mut Request, out: &mut Vec<u8>) -> Written {
    let start = out.len();
    // First, as `Content-Length`, `Transfer-Encoding` and `Connection` all follow from it.
    let delimiting = delimiting(r);
    // RFC 9112 §6.3: both fields together would leave the length in doubt.
    if delimiting == Delimiting::Chunked {
        r.resp.content_length = None;
    }
    persistence(r, delimiting);
    // Before the first bytes of the answer leave: the option of the socket counts from the next write.
    if !r.core().tcp_nodelay {
        r.conn().delay_small_packets();
    }
    // HTTP/0.9 is a body and nothing else.
    if r.head.parsed.version == Version::Http09 {
        return Written { delimiting, date_at: None };
    }
    let resp = &r.resp;
    status_line(resp, out);
    match &resp.server {
        // An empty value is an order to send none (`more_clear_headers`, a back end's answer passed on as it is).
        // Filters and back ends may say so; a head without `Server` is what was asked for.
        Some(server) if server.is_empty() => {}
        Some(server) => write_field(b"Server", server, out),
        None => {
            out.extend_from_slice(b"Server: ");
            out.extend_from_slice(server_token(&r.core().server_tokens).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    let mut date_at = None;
    match &resp.date {
        Some(date) if date.is_empty() => {}
        Some(date) => write_field(b"Date", date, out),
        None => {
            out.extend_from_slice(b"Date: ");
            // Where the date's bytes are, for a prepared answer. A date that a back end has set does not change, so
            // it has no place.
            // IMF-fixdate has a fixed length, so a kept head can have its date replaced in place.
            date_at = Some(out.len());
            out.extend_from_slice(&r.thread.date());
            out.extend_from_slice(b"\r\n");
        }
    }
    content_type(resp, out);
    if let Some(length) = resp.content_length
        // RFC 9110 §8.6: no Content-Length in a 1xx or 204.
        && !status::is_bodiless(resp.status)
    {
        out.extend_from_slice(b"Content-Length: ");
        write_number(length, out);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(modified) = resp.last_modified {
        write_field(b"Last-Modified", &date::format_imf(modified), out);
    }
    if let Some(location) = &resp.location {
        write_field(b"Location", location, out);
    }
    if delimiting == Delimiting::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    connection(r, out);
    rest(r, out);
    out.extend_from_slice(b"\r\n");
    r.progress.sent.head_bytes = (out.len() - start) as u64;
    Written { delimiting, date_at }
}

fn content_type(resp: &Response, out: &mut Vec<u8>) {
    // RFC 9110 §15.3.5: a 204 describes no content. What a back end says of it is passed on, as by nginx over HTTP/1.
    if resp.status == 204 && resp.reason.is_none() {
        return;
        // Taken back if it turns out to have no value: an empty field would say something else than none.
    }
    let start = out.len();
    out.extend_from_slice(b"Content-Type: ");
    if resp.write_content_type(out) {
        out.extend_from_slice(b"\r\n");
    } else {
        out.truncate(start);
    }
}

fn status_line(resp: &Response, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    match &resp.reason {
        Some(reason) => {
            write_number(u64::from(resp.status), out);
            out.push(b' ');
            out.extend_from_slice(reason);
        }
        None => status::write_status(resp.status, out),
    }
    out.extend_from_slice(b"\r\n");
}

/// nginx writes `keep-alive` also where HTTP/1.1 would assume it; clients of HTTP/1.0 need it.
fn connection(r: &Request, out: &mut Vec<u8>) {
    if r.resp.status == 101 {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    } else if r.reply.persistence == Persistence::KeepAlive {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
        if let Some(secs) = r.core().keepalive_header {
            out.extend_from_slice(b"Keep-Alive: timeout=");
            write_number(secs, out);
            out.extend_from_slice(b"\r\n");
        }
    } else {
        out.extend_from_slice(b"Connection: close\r\n");
    }
}

fn rest(r: &Request, out: &mut Vec<u8>) {
    let resp = &r.resp;
    if let Some(vary) = &resp.vary {
        write_field(b"Vary", vary, out);
    }
    if let Some(coding) = &resp.content_encoding {
        write_field(b"Content-Encoding", coding, out);
    }
    if let Some(etag) = &resp.etag {
        write_field(b"ETag", etag, out);
    }
    for (name, value) in &resp.headers {
        write_field(name, value, out);
    }
}

fn delimiting(r: &Request) -> Delimiting {
    let resp = &r.resp;
    let facts = h1::Response {
        version: r.head.parsed.version,
        to_head: r.is_head(),
        status: resp.status,
        has_length: resp.content_length.is_some(),
        is_empty: matches!(resp.body, Body::Empty),
        has_trailers: resp.trailers.iter().any(|trailers| trailers.needs_chunks()),
        may_chunk: r.core().chunked_transfer_encoding,
    };
    facts.delimiting()
}

/// Whether the connection may live on.
fn persistence(r: &mut Request, delimiting: Delimiting) {
    // A refusal, an error in the body, or the client has decided already: it is never taken back.
    if r.reply.persistence == Persistence::Close {
        return;
    }
    let core = r.core();
    let conn = r.conn();
    let age_ms = clock::mono_ms().saturating_sub(conn.started_ms);
    let over = core.keepalive_timeout.is_zero()
        // The last request that is allowed tells the client, so that it does not send one into a closed
        // connection.
        || conn.requests.get() >= core.keepalive_requests
        || u128::from(age_ms) >= core.keepalive_time.as_millis()
        // RFC 9112 §6.3: without length and chunks only the end of the connection ends the body.
        || delimiting == Delimiting::Close
        // Its socket is no longer listened on.
        || conn.listener.id.get().is_none()
        || r.thread.is_draining()
        // Where the next request begins is not known.
        || r.body.is_broken()
        || r.resp.tunnel
        // A client takes it for an interim answer and waits for the final one.
        || r.resp.status < 200
        || disabled_for_browser(r);
    if over {
        r.reply.persistence = Persistence::Close;
    }
}

/// `keepalive_disable`: browsers of old that mishandle it.
fn disabled_for_browser(r: &Request) -> bool {
    let core = r.core();
    let msie6_matters = core.keepalive_disable_msie6 && r.route.method == brisk_http::Method::Post;
    // The field is read only where it matters: reading it makes the answer one for this client only.
    if !core.keepalive_disable_safari && !msie6_matters {
        return false;
        // The difference test puts this fault in on purpose, and must find it.
    }
    let agent = if brisk_net::fault::is_ordered("lie-keepalive") {
        // As it was: read, and told nobody.
        r.head.field(brisk_http::HeaderId::UserAgent)
    } else {
        r.header(brisk_http::HeaderId::UserAgent)
    };
    let Some(agent) = agent else { return false };
    // Browsers of old name others in their own name, so what they also contain decides.
    let has = |text: &[u8]| memchr::memmem::find(agent, text).is_some();
    let msie6 = memchr::memmem::find(agent, b"MSIE ").is_some_and(|at| {
        matches!(agent.get(at + 5), Some(b'4' | b'5' | b'6')) && agent.get(at + 6) == Some(&b'.')
    }) && !has(b"Opera");
    let safari = has(b"Mac OS X") && has(b"Safari/") && !has(b"Chrome");
    (msie6_matters && msie6) || (core.keepalive_disable_safari && safari)
}
