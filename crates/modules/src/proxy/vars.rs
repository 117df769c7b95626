//! `$proxy_…`, and the `$upstream_…` that every `*_pass` module fills.

use super::pass::{Pass, Passed, Url};
use brisk_http::HeaderId;
use brisk_server::request::Request;
use brisk_server::vars::{Reads, Variable, VariableGet};

const fn fixed(name: &'static str, get: fn(&Request, &mut Vec<u8>) -> bool, doc: &'static str) -> Variable {
    Variable { name, get: VariableGet::Fixed(get), reads: Reads::Recorded, doc, ..Variable::SILENT }
}

pub(super) static VARIABLES: &[Variable] = &[
    fixed(
        "proxy_host",
        |r, out| of_url(r, |url| out.extend_from_slice(url.host_header.as_bytes())),
        "Host and port of proxy_pass; the port only if it is not the scheme's.",
    ),
    fixed(
        "proxy_port",
        |r, out| of_url(r, |url| out.extend_from_slice(url.port.as_bytes())),
        "The port of proxy_pass, or the scheme's.",
    ),
    fixed(
        "proxy_add_x_forwarded_for",
        |r, out| {
            // All fields of the name, in order: the last address is the one that this server has seen itself, and the only one to be believed.
            for value in r.headers(HeaderId::XForwardedFor) {
                out.extend_from_slice(value);
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(r.client_text());
            true
        },
        "X-Forwarded-For of the request with $remote_addr behind it.",
    ),
];

fn of_url(r: &Request, show: impl FnOnce(&Url)) -> bool {
    // Of the present location: after an internal redirect it is another one, or there is none.
    match r.snap().location(r.route.loc).plan.data::<Pass>().map(|pass| &pass.passed) {
        None => return false,
        Some(Passed::Fixed(fixed)) => show(&fixed.url),
        // Evaluated anew, so a variable in it that changes shows its present value.
        Some(Passed::Template(variable)) => match variable.url(r) {
            Ok(url) => show(&url),
            Err(_) => return false,
        },
    }
    true
}
