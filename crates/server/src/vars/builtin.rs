//! The variables of the core.
//!
//! `recorded` is a promise: the getter reads the request through accessors that note what was read, and nothing
//! else. Without it an answer that shows the variable is not prepared for other requests. What differs between
//! two requests of the same bytes (times, counters, connections, random numbers) is never recorded.
//! A getter gives false where nginx says "not found": an empty value and none are told apart by logs and by
//! `if_not_empty`.

use super::transport;
use crate::body::Content;
use crate::request::Request;
use crate::text::Text;
use crate::vars::Variable;
use crate::{base64, path};
use brisk_host::vars::{Reads, VariableGet, values};
use brisk_http::range::write_number;
use brisk_http::{HeaderId, Version, status};
use brisk_net::{clock, sys};

type Out = Vec<u8>;

const fn fixed(name: &'static str, get: fn(&Request, &mut Out) -> bool, doc: &'static str) -> Variable {
    Variable { name, get: VariableGet::Fixed(get), doc, ..Variable::SILENT }
}

const fn family(
    name: &'static str,
    get: fn(&Request, &str, &mut Out) -> bool,
    doc: &'static str,
) -> Variable {
    Variable { name, get: VariableGet::Family(get), doc, ..Variable::SILENT }
}

/// A variable that reads the request through accessors that record, and nothing else.
const fn recorded(variable: Variable) -> Variable {
    Variable { reads: Reads::Recorded, ..variable }
}

/// Rows of the core's variables.
pub static VARIABLES: &[Variable] = &[
    // Of the arguments as they are now: after a `rewrite` they are those that it has made, as in nginx.
    recorded(family("arg_*", arg, "The argument of this name.")),
    Variable {
        name: "args",
        get: VariableGet::Fixed(args),
        set: Some(|r, value| {
            // The line that was sent is no longer what is asked for: what is passed on is put together anew.
            r.route.args = value.to_vec();
            r.route.unparsed_uri_valid = false;
        }),
        reads: Reads::Recorded,
        doc: "The arguments of the request line.",
    },
    recorded(fixed("query_string", args, "Same as $args.")),
    fixed("quic", transport::quic, "quic over QUIC, else empty."),
    recorded(fixed(
        "is_args",
        |r, out| r.route.args.is_empty() || put(out, b"?"),
        "? if there are arguments, else empty.",
    )),
    recorded(fixed(
        // For keys of zones: 4 or 16 bytes where the text has up to 39, and an address has one form.
        "binary_remote_addr",
        transport::binary_remote_addr,
        "The client's address in binary form: 4 or 16 bytes.",
    )),
    fixed(
        // Not recorded: an answer that shows it shows how far this response has come, which is another one for each.
        "body_bytes_sent",
        |r, out| number(out, r.progress.sent.body_bytes),
        "Bytes of body sent to the client.",
    ),
    fixed(
        "bytes_sent",
        |r, out| number(out, r.progress.sent.head_bytes + r.progress.sent.body_bytes),
        "Bytes sent to the client.",
    ),
    // Of the client's connection, not of a subrequest: all that is made for one request shows the same.
    fixed("connection", |r, out| number(out, r.conn().id), "The connection's serial number."),
    fixed(
        "connection_requests",
        |r, out| number(out, r.conn().requests.get()),
        "Requests on the connection so far.",
    ),
    fixed("connection_time", connection_time, "Age of the connection in seconds with milliseconds."),
    fixed(
        // All threads' counters are added up when it is asked for; nothing is counted for it besides.
        "connections_active",
        |r, out| number(out, r.thread.shared.totals().active),
        "Connections of the process.",
    ),
    fixed(
        "connections_reading",
        |r, out| number(out, r.thread.shared.totals().reading),
        "Connections whose request's head is being read.",
    ),
    fixed(
        "connections_waiting",
        |r, out| number(out, r.thread.shared.totals().waiting()),
        "Connections between requests.",
    ),
    fixed(
        "connections_writing",
        |r, out| number(out, r.thread.shared.totals().writing),
        "Requests that are being answered.",
    ),
    fixed(
        // Not recorded although it begins with a field: the length of a body that was read is not in the head.
        "content_length",
        content_length,
        "Content-Length of the request, or the length of its body once that was read.",
    ),
    recorded(fixed("content_type", |r, out| http(r, "content_type", out), "Content-Type of the request.")),
    recorded(family("cookie_*", cookie, "The cookie of this name.")),
    fixed(
        // The time is never recorded by its variables: `Request::now` is for those who can say until when an answer holds.
        "date_gmt",
        |_, out| local_or_gmt(out, true),
        "The present time, GMT: Sunday, 06-Nov-1994 08:49:37 GMT.",
    ),
    fixed("date_local", |_, out| local_or_gmt(out, false), "The same in the local zone."),
    recorded(fixed("document_root", document_root, "The root or alias of the request.")),
    recorded(fixed("document_uri", uri, "Same as $uri.")),
    recorded(fixed(
        "host",
        host,
        "The host of the request line, else of the Host header, else the server's name.",
    )),
    // The machine's, from the snapshot: it is the same for every request, so nothing is read of one.
    recorded(fixed("hostname", |r, out| put(out, r.snap().hostname.as_bytes()), "This machine's name.")),
    // An absent field is recorded, too: the next client may send it.
    recorded(family("http_*", http, "The request header of this name, with underscores for dashes.")),
    recorded(fixed("http_host", |r, out| header(r, HeaderId::Host, out), "The Host header.")),
    fixed("http2", transport::http2, "The protocol negotiated for HTTP/2: h2 or h2c, else empty."),
    fixed("http3", transport::http3, "The protocol negotiated for HTTP/3: h3 or hq, else empty."),
    // `scheme` follows from the socket, and prepared answers are kept per socket.
    recorded(fixed("https", |r, out| r.scheme() != "https" || put(out, b"on"), "on with TLS, else empty.")),
    recorded(fixed("is_request_port", is_request_port, ": if the client named a port, else empty.")),
    Variable {
        // Read back it gives what was set for this response, which no other one has to have.
        name: "limit_rate",
        get: VariableGet::Fixed(|r, out| number(out, r.reply.limit_rate.unwrap_or(0))),
        set: Some(set_limit_rate),
        reads: Reads::Anything,
        doc: "Assigning to it limits the rate of the response, in bytes per second.",
    },
    fixed("msec", |_, out| values::msec(out), "The present time in seconds with milliseconds."),
    recorded(fixed(
        // Not nginx's: an application that asks for it is to learn which server it talks to.
        "nginx_version",
        |_, out| put(out, env!("CARGO_PKG_VERSION").as_bytes()),
        "The version of this server.",
    )),
    recorded(fixed(
        // One process answers, and prepared answers do not outlive it.
        "pid",
        |_, out| number(out, rustix::process::getpid().as_raw_nonzero().get() as u64),
        "The worker's process id.",
    )),
    fixed(
        "pipe",
        |r, out| put(out, if r.conn().pipelined.get() { b"p" } else { b"." }),
        "p if the request was pipelined, else a dot.",
    ),
    recorded(fixed(
        "proxy_protocol_addr",
        transport::proxy_addr,
        "The client's address as the PROXY header tells it.",
    )),
    recorded(fixed(
        "proxy_protocol_port",
        transport::proxy_port,
        "The client's port as the PROXY header tells it.",
    )),
    recorded(fixed(
        "proxy_protocol_server_addr",
        transport::proxy_server_addr,
        "The address that the client connected to, as the PROXY header tells it.",
    )),
    recorded(fixed(
        "proxy_protocol_server_port",
        transport::proxy_server_port,
        "The port that the client connected to, as the PROXY header tells it.",
    )),
    recorded(family(
        "proxy_protocol_tlv_*",
        transport::proxy_tlv,
        "A field of the PROXY header: alpn, authority, unique_id, netns, ssl, ssl_verify, ssl_version, ssl_cn, ssl_cipher, ssl_sig_alg, ssl_key_alg, or a type as 0xNN or ssl_0xNN.",
    )),
    // Not recorded: links on the way may change, and no watch is set on them.
    fixed("realpath_root", realpath_root, "The root or alias with symbolic links resolved."),
    recorded(fixed("remote_addr", |r, out| put(out, r.client_text()), "The client's address.")),
    recorded(fixed("remote_port", transport::remote_port, "The client's port.")),
    recorded(fixed("remote_user", remote_user, "The user name of Basic authentication.")),
    // The raw line tells more than the target that prepared answers are keyed by (the version, a host in it).
    fixed("request", request_line, "The request line as sent."),
    fixed("request_body", request_body, "The body of the request, if it was read and is in memory."),
    fixed(
        "request_body_file",
        request_body_file,
        "The temporary file with the body of the request, if it was read and is in one.",
    ),
    fixed(
        // Known at the end only, so it is for logs; an answer that shows it is not prepared.
        "request_completion",
        |r, out| !r.reply.completed || put(out, b"OK"),
        "OK if the whole response was sent, else empty.",
    ),
    recorded(fixed("request_filename", request_filename, "The path of the file for the request.")),
    // Random per request: the reason for which answers that show it can never be shared.
    fixed("request_id", request_id, "16 random bytes in hexadecimal."),
    fixed("request_length", request_length, "Bytes of the request, body included."),
    recorded(fixed("request_method", |r, out| some(out, r.method_name()), "The method.")),
    recorded(fixed("request_port", request_port, "The port that the client named, if any.")),
    fixed("request_time", request_time, "Seconds since the first bytes of the request, with milliseconds."),
    recorded(fixed(
        // The host and the target are the key of a prepared answer, so what follows from them needs no further record.
        "request_uri",
        |r, out| r.head.parsed.has_request_line() && put(out, &r.unparsed_uri()),
        "The URI with arguments as sent.",
    )),
    recorded(fixed("scheme", |r, out| put(out, r.scheme().as_bytes()), "http or https.")),
    // Reads the response as it is so far, and that may come from anything before.
    family("sent_http_*", sent_http, "The response header of this name."),
    family("sent_trailer_*", sent_trailer, "The response trailer of this name."),
    recorded(fixed("server_addr", transport::server_addr, "The address that took the request.")),
    recorded(fixed(
        "server_name",
        |r, out| put(out, &r.snap().server(r.route.server).name),
        "The first name of the server.",
    )),
    recorded(fixed("server_port", transport::server_port, "The port that took the request.")),
    recorded(fixed(
        "server_protocol",
        |r, out| r.head.parsed.has_request_line() && put(out, r.head.parsed.version.as_str().as_bytes()),
        "HTTP/1.0, HTTP/1.1, HTTP/2.0 or HTTP/3.0.",
    )),
    // In a header it would be the status before the filters; a log sees the last one.
    fixed("status", response_status, "The status of the response."),
    fixed(
        // A system call for each, and only where asked for.
        "tcpinfo_rcv_space",
        |r, out| transport::tcp_info(r, out, |i| i.receive_space_bytes),
        "Receive buffer of the connection in bytes, as the kernel sizes it.",
    ),
    fixed(
        "tcpinfo_rtt",
        |r, out| transport::tcp_info(r, out, |i| i.rtt_us),
        "Round-trip time of the connection in microseconds.",
    ),
    fixed(
        "tcpinfo_rttvar",
        |r, out| transport::tcp_info(r, out, |i| i.rtt_variation_us),
        "Its variation in microseconds.",
    ),
    fixed(
        "tcpinfo_snd_cwnd",
        |r, out| transport::tcp_info(r, out, |i| i.send_window_segments),
        "Congestion window of the connection in segments.",
    ),
    fixed("time_iso8601", |_, out| values::time_iso8601(out), "Local time as 2026-11-20T22:46:01+00:00."),
    fixed("time_local", |_, out| values::time_local(out), "Local time as 20/Nov/2026:22:46:01 +0000."),
    recorded(fixed("uri", uri, "The URI, decoded and normalised, as rewrites have left it.")),
];

pub(super) fn put(out: &mut Out, value: &[u8]) -> bool {
    out.extend_from_slice(value);
    true
}

/// An empty value is one that was never there.
fn some(out: &mut Out, value: &[u8]) -> bool {
    !value.is_empty() && put(out, value)
}

/// Of a target that could not be read there is an empty one; without a target there is none.
fn uri(r: &Request, out: &mut Out) -> bool {
    (!r.route.uri.is_empty() || r.head.parsed.has_request_line()) && put(out, &r.route.uri)
}

/// Empty arguments are found if there was a question mark.
fn args(r: &Request, out: &mut Out) -> bool {
    (!r.route.args.is_empty() || r.head.target.has_args) && put(out, &r.route.args)
}

/// Of a request that could not be read: what was there instead of a request line.
fn request_line(r: &Request, out: &mut Out) -> bool {
    if r.head.parsed.has_request_line() {
        return put(out, r.head.parsed.request_line.of(&r.head.buf));
    }
    // Of a head of HTTP/2 or HTTP/3 that made no request line there are fields, one behind the other.
    if r.head.parsed.version >= Version::Http2 {
        return false;
    }
    // Up to the line's end only: the rest may be another request's head, or the garbage that made this one unreadable.
    let end = r.head.buf.iter().position(|b| matches!(b, b'\r' | b'\n')).unwrap_or(r.head.buf.len());
    some(out, &r.head.buf[..end])
}

pub(super) fn number(out: &mut Out, value: u64) -> bool {
    write_number(value, out);
    true
}

fn header(r: &Request, id: HeaderId, out: &mut Out) -> bool {
    r.header(id).is_some_and(|value| put(out, value))
}

fn content_length(r: &Request, out: &mut Out) -> bool {
    // The client's own words first: they are what a back end is told.
    header(r, HeaderId::ContentLength, out) || r.body_len().is_some_and(|length| number(out, length))
}

fn request_length(r: &Request, out: &mut Out) -> bool {
    // A block of fields is longer once it is decoded.
    let head = if r.head.parsed.version >= brisk_http::Version::Http2 {
        r.head.parsed.len
    } else {
        r.head.buf.len()
    };
    number(out, head as u64 + r.progress.body_received.get())
}

fn request_body(r: &Request, out: &mut Out) -> bool {
    match r.body.content().map(|content| &**content) {
        Some(Content::Memory(bytes)) => put(out, bytes),
        // A body in a file is not read into memory for a variable: it may be as large as `client_max_body_size` allows.
        Some(Content::File(_) | Content::None) | None => false,
    }
}

fn request_body_file(r: &Request, out: &mut Out) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    match r.body.content().map(|content| &**content) {
        Some(Content::File(file)) => put(out, file.path().as_os_str().as_bytes()),
        Some(Content::Memory(_) | Content::None) | None => false,
    }
}

/// The value of an argument, names compared without regard to case.
pub fn find_arg<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args.split(|&b| b == b'&').find_map(|pair| {
        let at = pair.iter().position(|&b| b == b'=')?;
        pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
    })
}

fn arg(r: &Request, name: &str, out: &mut Out) -> bool {
    !name.is_empty() && find_arg(&r.route.args, name.as_bytes()).is_some_and(|value| put(out, value))
}

/// The value of a cookie.
pub fn find_cookie<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    value.split(|&b| b == b';').find_map(|pair| {
        let pair = pair.trim_ascii_start();
        let at = pair.iter().position(|&b| b == b'=')?;
        // Browsers tell apart names that differ in case; nginx does not, and configurations are written for nginx.
        pair[..at].trim_ascii_end().eq_ignore_ascii_case(name).then(|| pair[at + 1..].trim_ascii())
    })
}

fn cookie(r: &Request, name: &str, out: &mut Out) -> bool {
    // HTTP/2 splits cookies into fields (RFC 9113 §8.2.3): all of them are looked through.
    let mut fields = r.headers(HeaderId::Cookie);
    fields.find_map(|value| find_cookie(value, name.as_bytes())).is_some_and(|value| put(out, value))
}

/// Whether a header name, with dashes as underscores and in lower case, is `name`.
fn is_named(header: &[u8], name: &[u8]) -> bool {
    header.len() == name.len()
        && header.iter().zip(name).all(|(&a, &b)| {
            // Variables are written in lower case, and have no dashes.
            let a = if a == b'-' { b'_' } else { a.to_ascii_lowercase() };
            a == b
        })
}

fn http(r: &Request, name: &str, out: &mut Out) -> bool {
    // Several fields of one name are a list (RFC 9110 §5.3); cookies are joined by a semicolon.
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    let mut found = false;
    for (_, value) in r.fields().filter(|(have, _)| is_named(have, name.as_bytes())) {
        if found {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(value);
        found = true;
    }
    found
}

fn sent_http(r: &Request, name: &str, out: &mut Out) -> bool {
    let resp = &r.resp;
    // Fields that the response keeps in a form of its own: they are written only when the head is.
    match name {
        "content_type" => resp.write_content_type(out),
        "content_length" => resp.content_length.is_some_and(|n| number(out, n)),
        "location" => resp.location.as_deref().is_some_and(|value| put(out, value)),
        "last_modified" => {
            resp.last_modified.is_some_and(|secs| put(out, &brisk_http::date::format_imf(secs)))
        }
        "etag" => resp.etag.as_deref().is_some_and(|value| put(out, value)),
        // What `h1/head.rs` will write, by the same facts; that file has the last word on whether the connection goes on.
        "connection" => {
            let keep = r.reply.persistence == crate::request::reply::Persistence::KeepAlive;
            put(
                out,
                if resp.status == 101 {
                    b"upgrade"
                } else if keep {
                    b"keep-alive"
                } else {
                    b"close"
                },
            )
        }
        "keep_alive" => r.core().keepalive_header.is_some_and(|secs| {
            put(out, b"timeout=");
            number(out, secs)
        }),
        "transfer_encoding" => {
            // As `delimiting` in `h1/head.rs` decides for a usual client of HTTP/1.1.
            let chunked = resp.content_length.is_none() && !status::is_bodiless(resp.status) && !r.is_head();
            chunked && !matches!(resp.body, crate::response::Body::Empty) && put(out, b"chunked")
        }
        _ => joined(&resp.headers, name, out),
    }
}

fn sent_trailer(r: &Request, name: &str, out: &mut Out) -> bool {
    joined(&r.resp.sent_trailers.borrow(), name, out)
}

/// All values of one name, as a list (RFC 9110 §5.3).
fn joined(fields: &[(Text, Text)], name: &str, out: &mut Out) -> bool {
    let mut found = false;
    for (have, value) in fields {
        if is_named(have, name.as_bytes()) && !value.is_empty() {
            if found {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(value);
            found = true;
        }
    }
    found
}

fn connection_time(r: &Request, out: &mut Out) -> bool {
    values::seconds(out, clock::mono_ms().saturating_sub(r.conn().started_ms))
}

fn request_time(r: &Request, out: &mut Out) -> bool {
    values::seconds(out, clock::mono_ms().saturating_sub(r.progress.started.mono_ms))
}

fn host(r: &Request, out: &mut Out) -> bool {
    // nginx's order: the request line, the Host field, the server that was found.
    put(out, if r.head.host.is_empty() { &r.snap().server(r.route.server).name } else { &r.head.host })
}

fn is_request_port(r: &Request, out: &mut Out) -> bool {
    r.head.port.is_none() || put(out, b":")
}

fn request_port(r: &Request, out: &mut Out) -> bool {
    r.head.port.is_none_or(|port| number(out, u64::from(port)))
}

fn set_limit_rate(r: &mut Request, value: &[u8]) {
    // What follows the digits is a unit or an error: a rate that is half read would be a wrong one.
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    // The suffixes of sizes in configurations; a variable has no row that would check it.
    let scale = match &value[digits..] {
        b"" => Some(1),
        b"k" | b"K" => Some(1 << 10),
        b"m" | b"M" => Some(1 << 20),
        _ => None,
    };
    let count = std::str::from_utf8(&value[..digits]).ok().and_then(|t| t.parse::<u64>().ok());
    if let (Some(count), Some(scale)) = (count, scale) {
        // Saturating: a rate beyond all bounds is none.
        r.reply.limit_rate = Some(count.saturating_mul(scale));
    } else {
        crate::rlog!(r, Error, "invalid $limit_rate \"{}\"", String::from_utf8_lossy(value));
    }
}

fn document_root(r: &Request, out: &mut Out) -> bool {
    path::document_root(r, out);
    true
}

fn realpath_root(r: &Request, out: &mut Out) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let mut root = Vec::new();
    path::document_root(r, &mut root);
    // A system call on the event loop, as in nginx: the folders on the way are nearly always in the kernel's
    // memory.
    match std::fs::canonicalize(std::ffi::OsStr::from_bytes(&root)) {
        Ok(real) => put(out, real.as_os_str().as_bytes()),
        Err(error) => {
            let (root, why) = (String::from_utf8_lossy(&root), brisk_conf::os_text(&error));
            crate::rlog!(r, Crit, "realpath() \"{root}\" failed ({why})");
            false
        }
    }
}

fn request_filename(r: &Request, out: &mut Out) -> bool {
    path::map(r, 0).is_some_and(|mapped| put(out, &mapped.bytes))
}

/// The name and password of `Authorization: Basic …`.
pub fn basic_credentials(r: &Request) -> Option<(Vec<u8>, Vec<u8>)> {
    let value = r.header(HeaderId::Authorization)?;
    // RFC 7617: the scheme's name in any case, then the credentials in base64.
    let coded =
        value.get(..6).filter(|s| s.eq_ignore_ascii_case(b"basic ")).map(|_| value[6..].trim_ascii())?;
    // What is no base64 has no user: logs must not show a guess.
    let plain = base64::decode(coded)?;
    // The first colon: RFC 7617 §2 forbids it in names and allows it in passwords.
    let at = plain.iter().position(|&b| b == b':')?;
    Some((plain[..at].to_vec(), plain[at + 1..].to_vec()))
}

fn remote_user(r: &Request, out: &mut Out) -> bool {
    basic_credentials(r).is_some_and(|(user, _)| put(out, &user))
}

fn request_id(r: &Request, out: &mut Out) -> bool {
    put(out, r.state.shared.id())
}

fn response_status(r: &Request, out: &mut Out) -> bool {
    // The status that was first decided: an error page has one of its own.
    let code = match (r.resp.status, r.reply.err_status) {
        (_, code) if code != 0 => code,
        (code, _) => code,
    };
    // nginx's way to show HTTP/0.9, whose answers have no status: 009.
    let code = if code == 0 && r.head.parsed.version == brisk_http::Version::Http09 { 9 } else { code };
    let text = format!("{code:03}");
    put(out, text.as_bytes())
}

/// As strftime's `%A, %d-%b-%Y %H:%M:%S %Z`, nginx's form of it.
fn local_or_gmt(out: &mut Out, gmt: bool) -> bool {
    let secs = clock::now().unix_secs;
    let (shift, zone) = if gmt {
        (0, "GMT".to_string())
    } else {
        (i64::from(sys::local_time(secs).offset_minutes) * 60, sys::time_zone(secs))
    };
    let t = brisk_http::date::Civil::from_unix(secs + shift);
    let (weekday, month) = (t.weekday_long_name(), t.month_name());
    let (day, hour, minute, second) = (t.day, t.hour, t.minute, t.second);
    let text = format!("{weekday}, {day:02}-{month}-{:04} {hour:02}:{minute:02}:{second:02} {zone}", t.year);
    put(out, text.as_bytes())
}
