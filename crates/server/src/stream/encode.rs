//! Serialising a response head, in the order of HTTP/1.1's, by a coding that hangs on no table's state: what is written can be
//! kept and sent again to anybody.

use crate::request::Request;
use crate::special::server_token;
use crate::text::Text;
use crate::tunnel;
use brisk_http::range::write_number;
use brisk_http::{date, status};
use brisk_mux::encode::{HeadCoding, clean, foreign};

/// Appends the head; gives where the date's 29 bytes are, if it is ours.
pub fn head<C: HeadCoding>(r: &Request, out: &mut Vec<u8>) -> Option<usize> {
    let resp = &r.resp;
    // First: RFC 9113 §8.3 has pseudo fields before all others.
    C::status(tunnel::wire_status(r), out);

    match &resp.server {
        // As in `h1/head.rs`: an empty value is an order to send none.
        Some(server) if server.is_empty() => {}
        Some(server) => write_clean::<C>(b"server", server, out),
        // Literal and not from a dynamic table: the bytes must mean the same on every connection.
        None => C::literal(b"server", server_token(&r.core().server_tokens).as_bytes(), out),
    }
    let date_at = match &resp.date {
        Some(date) if date.is_empty() => None,
        Some(date) => {
            write_clean::<C>(b"date", date, out);
            // A back end's date does not change, so such an answer has no place for one.
            None
        }
        None => Some(C::date(&r.thread.date(), out)),
    };
    // RFC 9110 §15.3.5: a 204 describes no content.
    if resp.status != 204 {
        let mut content_type = Vec::with_capacity(40);
        if resp.write_content_type(&mut content_type) {
            write_clean::<C>(b"content-type", &content_type, out);
        }
    }
    if let Some(length) = resp.content_length
        && !status::is_bodiless(resp.status)
    {
        let mut digits = Vec::with_capacity(20);
        write_number(length, &mut digits);
        C::literal(b"content-length", &digits, out);
    }
    if let Some(modified) = resp.last_modified {
        C::literal(b"last-modified", &date::format_imf(modified), out);
    }
    let known = [
        (&b"location"[..], &resp.location),
        (b"vary", &resp.vary),
        (b"content-encoding", &resp.content_encoding),
        (b"etag", &resp.etag),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            write_clean::<C>(name, value, out);
        }
    }
    fields::<C>(&resp.headers, out);
    date_at
}

/// Appends a field with CR, LF and NUL in its value as spaces. The name must be in lower case.
fn write_clean<C: HeadCoding>(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    // A line break in a value would split the response for a gateway that passes it on in HTTP/1.1 (RFC 9113
    // §8.2.1).
    clean(value, |value| C::literal(name, value, out));
}

/// Appends fields whose names come from anywhere.
pub fn fields<C: HeadCoding>(fields: &[(Text, Text)], out: &mut Vec<u8>) {
    // Names of back ends and of the configuration are in any case, and HTTP/2 wants lower case (RFC 9113
    // §8.2).
    for (name, value) in fields {
        foreign(name, value, |name, value| C::literal(name, value, out));
    }
}

/// Appends the head of an interim response.
pub fn interim<C: HeadCoding>(status: u16, headers: &[(Text, Text)], out: &mut Vec<u8>) {
    C::status(status, out);
    fields::<C>(headers, out);
}

/// Appends trailers; nothing, if there are none.
pub fn trailers<C: HeadCoding>(trailers: &[(Text, Text)], out: &mut Vec<u8>) {
    let start = out.len();
    // QPACK's blocks have a prefix even where nothing follows; it is taken back below if there is nothing.
    C::trailers(out);
    let begun = out.len();
    fields::<C>(trailers, out);
    if out.len() == begun {
        out.truncate(start);
    }
}
