//! The `$upstream_…` variables.
//!
//! They change until the request is over, so none is kept for it: each is computed when it is asked for. Not
//! declared as recorded: an answer that shows one is not prepared.

use crate::state::{AttemptRecord, State};
use brisk_http::range::write_number;
use brisk_server::request::Request;
use brisk_server::vars::{Variable, VariableGet};
use std::cell::Cell;
use std::io::Write as _;

// Nothing is said of what they read, so an answer that shows one is never prepared (`Variable::SILENT`).
const fn fixed(name: &'static str, get: fn(&Request, &mut Vec<u8>) -> bool, doc: &'static str) -> Variable {
    Variable { name, get: VariableGet::Fixed(get), doc, ..Variable::SILENT }
}

const fn family(
    name: &'static str,
    get: fn(&Request, &str, &mut Vec<u8>) -> bool,
    doc: &'static str,
) -> Variable {
    Variable { name, get: VariableGet::Family(get), doc, ..Variable::SILENT }
}

/// Rows of the variables that any `*_pass` module fills.
pub static VARIABLES: &[Variable] = &[
    fixed(
        "upstream_addr",
        |r, out| each(r, out, |attempt, out| out.extend_from_slice(attempt.peer.as_bytes())),
        "The addresses of the back ends that were asked: those of one location's work joined by \", \", those before and after an internal redirect by \" : \".",
    ),
    fixed(
        // From the peer, heads and framing included: what a network is charged for.
        "upstream_bytes_received",
        |r, out| each(r, out, |attempt, out| write_number(attempt.received, out)),
        "Bytes received from each of them.",
    ),
    fixed(
        "upstream_bytes_sent",
        |r, out| each(r, out, |attempt, out| write_number(attempt.sent, out)),
        "Bytes sent to each of them.",
    ),
    fixed(
        // 0.000 where a kept connection was used, a dash where there was none: in a list each attempt has its place.
        "upstream_connect_time",
        |r, out| each(r, out, |attempt, out| time(attempt.connect_ms, out)),
        "Seconds with milliseconds until each connection was there.",
    ),
    family("upstream_cookie_*", cookie, "The value of this cookie in the last answer's Set-Cookie."),
    fixed(
        "upstream_header_time",
        |r, out| each(r, out, |attempt, out| time(attempt.header_ms, out)),
        "Seconds until each response head was there.",
    ),
    family("upstream_http_*", http, "This field of the last answer."),
    fixed(
        // Of the body as it was passed on, without chunks.
        "upstream_response_length",
        |r, out| each(r, out, |attempt, out| write_number(attempt.length, out)),
        "Bytes of each answer's body.",
    ),
    fixed("upstream_response_time", response_time, "Seconds until each answer was complete."),
    fixed(
        // nginx has a dash there while nothing has come.
        "upstream_status",
        |r, out| {
            each(r, out, |attempt, out| match attempt.status {
                0 => out.push(b'-'),
                status => write_number(u64::from(status), out),
            })
        },
        "The status of each answer; 502 or 504 where there was none.",
    ),
    // Known only behind the body: for logs, and for trailers.
    family("upstream_trailer_*", trailer, "This trailer field of the last answer."),
];

fn each(r: &Request, out: &mut Vec<u8>, show: fn(&AttemptRecord, &mut Vec<u8>)) -> bool {
    // A subrequest has a state of its own: its attempts are not its parent's.
    r.state.own.get::<State>().is_some_and(|state| state.join(out, show))
}

fn time(ms: Option<u64>, out: &mut Vec<u8>) {
    match ms {
        Some(ms) => {
            // Milliseconds with three digits, as logs and scripts expect it of nginx.
            let _ = write!(out, "{}.{:03}", ms / 1000, ms % 1000);
        }
        // It keeps the place of an attempt that has no such time.
        None => out.push(b'-'),
    }
}

/// As in nginx an answer that is passed on is not complete while the response's head is made, though all of it may be here.
fn response_time(r: &Request, out: &mut Vec<u8>) -> bool {
    let Some(state) = r.state.own.get::<State>() else { return false };
    // In logs the head has been sent, and the time is there.
    let is_open = r.route.depth == 0 && r.progress.sent.head_bytes == 0 && state.head().is_some();
    // Only the last attempt can be open: the others have ended, or it would not have been made.
    let last = state.len().saturating_sub(1);
    let at = Cell::new(0);
    state.join(out, |attempt, out| {
        let is_last = at.replace(at.get() + 1) == last;
        time(attempt.response_ms.filter(|_| !(is_last && is_open)), out);
    })
}

/// Whether a field's name is a variable's: any case, `-` for `_`.
fn is_named(field: &[u8], name: &str) -> bool {
    field.len() == name.len()
        && field.iter().zip(name.bytes()).all(|(have, want)| {
            // Names of variables have no dashes (nginx: `ngx_http_variable_unknown_header`).
            let have = if *have == b'-' { b'_' } else { have.to_ascii_lowercase() };
            have == want
        })
}

/// Values of one name, joined by `, ` as nginx joins them.
fn values<'a>(found: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> bool {
    let mut any = false;
    for value in found {
        if std::mem::replace(&mut any, true) {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value);
    }
    any
}

fn http(r: &Request, name: &str, out: &mut Vec<u8>) -> bool {
    // As the back end sent them: also those that the client does not get.
    let Some(head) = r.state.own.get::<State>().and_then(|state| state.head()) else { return false };
    values(head.fields().filter(|field| is_named(field.name, name)).map(|field| field.value), out)
}

fn trailer(r: &Request, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(state) = r.state.own.get::<State>() else { return false };
    let trailers = state.trailers.borrow();
    values(trailers.iter().filter(|(have, _)| is_named(have, name)).map(|(_, value)| &**value), out)
}

/// The value of a cookie: what stands behind `NAME=` at the beginning of a `Set-Cookie`.
fn cookie(r: &Request, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(head) = r.state.own.get::<State>().and_then(|state| state.head()) else { return false };
    let spaces = |text: &[u8]| text.iter().take_while(|&&b| b == b' ').count();
    for value in head.all(brisk_http::HeaderId::SetCookie) {
        let Some((have, rest)) = value.split_at_checked(name.len()) else { continue };
        // As nginx compares names of cookies.
        if !have.eq_ignore_ascii_case(name.as_bytes()) {
            continue;
        }
        // `name2=` is another cookie, whose name only begins so.
        let Some(rest) = rest[spaces(rest)..].strip_prefix(b"=") else { continue };
        let rest = &rest[spaces(rest)..];
        // Attributes (RFC 6265 §4.1.1) are no part of the value.
        let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..end]);
        return true;
    }
    false
}
