//! Serialising a response head, in the order of HTTP/1.1's: a block that hangs on no table's state, so that it can be
//! kept and sent again to anybody.

use crate::request::Request;
use crate::special::server_token;
use crate::text::Text;
use brisk_h2::hpack::{write_literal, write_named, write_status};
use brisk_http::range::write_number;
use brisk_http::{date, status};

/// Index of `date` in the static table.
const DATE: usize = 33;

/// Appends the head's block; gives where the date's 29 bytes are, if it is ours.
pub fn head(r: &Request, out: &mut Vec<u8>) -> Option<usize> {
    let resp = &r.resp;
    // RFC 8441 §5: what a 101 is to HTTP/1.1.
    write_status(if resp.status == 101 { 200 } else { resp.status }, out);
    match &resp.server {
        Some(server) if server.is_empty() => {}
        Some(server) => field(b"server", server, out),
        None => write_literal(b"server", server_token(&r.core().server_tokens).as_bytes(), out),
    }
    let date_at = match &resp.date {
        Some(date) if date.is_empty() => None,
        Some(date) => {
            field(b"date", date, out);
            None
        }
        None => Some(write_named(DATE, &r.thread.date(), out)),
    };
    // RFC 9110 §15.3.5: a 204 describes no content.
    if let Some(content_type) = resp.content_type.as_ref().filter(|value| !value.is_empty())
        && resp.status != 204
    {
        match resp.charset.as_ref().filter(|charset| !charset.is_empty()) {
            Some(charset) => {
                let whole = [&content_type[..], b"; charset=", charset].concat();
                field(b"content-type", &whole, out);
            }
            None => field(b"content-type", content_type, out),
        }
    }
    if let Some(length) = resp.content_length
        && !status::is_bodiless(resp.status)
    {
        let mut digits = Vec::with_capacity(20);
        write_number(length, &mut digits);
        write_literal(b"content-length", &digits, out);
    }
    if let Some(modified) = resp.last_modified {
        write_literal(b"last-modified", &date::format_imf(modified), out);
    }
    let known = [
        (&b"location"[..], &resp.location),
        (b"vary", &resp.vary),
        (b"content-encoding", &resp.content_encoding),
        (b"etag", &resp.etag),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            field(name, value, out);
        }
    }
    fields(&resp.headers, out);
    date_at
}

/// Appends fields whose names come from anywhere.
pub fn fields(fields: &[(Text, Text)], out: &mut Vec<u8>) {
    for (name, value) in fields {
        any_field(name, value, out);
    }
}

fn any_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if name.is_empty() || name.iter().any(|&b| b <= b' ' || b == b':' || b == 0x7f) {
        return;
    }
    let mut lower = [0; 64];
    let owned;
    let name = match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            &*lower
        }
        None => {
            owned = name.to_ascii_lowercase();
            &owned
        }
    };
    // RFC 9113 §8.2.2: what is of the connection's business has no place here.
    let is_hop = matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade"
    );
    if !is_hop {
        field(name, value, out);
    }
}

/// The name is in lower case. CR, LF and NUL in a value become spaces, as for HTTP/1.1.
fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if memchr::memchr3(b'\r', b'\n', 0, value).is_none() {
        return write_literal(name, value, out);
    }
    let clean: Vec<u8> =
        value.iter().map(|&b| if matches!(b, b'\r' | b'\n' | 0) { b' ' } else { b }).collect();
    write_literal(name, &clean, out);
}
