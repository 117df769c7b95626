//! Serialising a response head, in the order of HTTP/1.1's: a block that hangs on no table's state, so that it can be
//! kept and sent again to anybody.

use crate::request::Request;
use crate::special::server_token;
use crate::text::Text;
use crate::tunnel;
use brisk_h2::hpack::{write_clean, write_foreign, write_literal, write_named, write_status};
use brisk_http::range::write_number;
use brisk_http::{date, status};

/// Index of `date` in the static table.
const DATE: usize = 33;

/// Appends the head's block; gives where the date's 29 bytes are, if it is ours.
pub fn head(r: &Request, out: &mut Vec<u8>) -> Option<usize> {
    let resp = &r.resp;
    write_status(tunnel::wire_status(r), out);
    match &resp.server {
        Some(server) if server.is_empty() => {}
        Some(server) => write_clean(b"server", server, out),
        None => write_literal(b"server", server_token(&r.core().server_tokens).as_bytes(), out),
    }
    let date_at = match &resp.date {
        Some(date) if date.is_empty() => None,
        Some(date) => {
            write_clean(b"date", date, out);
            None
        }
        None => Some(write_named(DATE, &r.thread.date(), out)),
    };
    // RFC 9110 §15.3.5: a 204 describes no content.
    if resp.status != 204 {
        let mut content_type = Vec::with_capacity(40);
        if resp.write_content_type(&mut content_type) {
            write_clean(b"content-type", &content_type, out);
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
            write_clean(name, value, out);
        }
    }
    fields(&resp.headers, out);
    date_at
}

/// Appends fields whose names come from anywhere.
pub fn fields(fields: &[(Text, Text)], out: &mut Vec<u8>) {
    for (name, value) in fields {
        write_foreign(name, value, out);
    }
}
