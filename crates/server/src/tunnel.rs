//! What a response to an extended CONNECT may be, and what HTTP/2 says for one that switches protocols.

use crate::request::Request;
use crate::special;
use brisk_http::Version;

/// The last word about a response's status, before its filters.
pub(crate) fn settle(r: &mut Request) {
    // HTTP/1.1 has a 101, and a subrequest's status is not sent.
    if r.version() < Version::Http2 || r.route.depth > 0 {
        return;
    }
    let status = r.resp.status;
    if r.head.extended.is_none() {
        // RFC 9113 §8.6: there is no 101, and RFC 9110 §15.2: no 1xx is final.
        if status < 200 {
            crate::rlog!(
                r,
                Error,
                "response with status {status} cannot be sent over {}",
                r.version().as_str()
            );
            special::replace(r, 500);
        }
        return;
    }
    // A refusal is an answer to a CONNECT; a success would say that there is a tunnel (RFC 9110 §9.3.6).
    if is_tunnel(r) || (status >= 300 && status != 304) {
        return;
    }
    // What a back end has said is its mistake. What was made here is for a GET.
    if r.resp.is_judged {
        crate::rlog!(r, Error, "upstream answered extended CONNECT with status {status}, not with a tunnel");
        special::replace(r, 502);
    } else {
        crate::rlog!(r, Info, "client sent extended CONNECT for what is no tunnel");
        special::replace(r, 405);
        // A 405 must have it (RFC 9110 §15.5.6).
        r.resp.add("Allow", "GET, HEAD");
    }
}

/// Whether the response is a tunnel's, which a stream may become.
pub(crate) fn is_tunnel(r: &Request) -> bool {
    r.resp.tunnel && r.resp.status == 101
}

/// The status that HTTP/2 says for the response's. That which is no tunnel has been settled; a filter may have made
/// another answer of it since.
pub(crate) fn wire_status(r: &Request) -> u16 {
    match r.resp.status {
        // RFC 8441 §5: what a 101 is to HTTP/1.1.
        101 if is_tunnel(r) && r.head.extended.is_some() => 200,
        status if status < 200 => 500,
        status if r.head.extended.is_some() && status < 300 => 502,
        status => status,
    }
}
