//! A back end's head becomes the response's: what is hidden, renamed, rewritten and obeyed.
//!
//! It is used for live answers and for cached ones alike, so it must not know where a head has come from.

use crate::conf::Settings;
use crate::head::{BackendHead, Field, is_hop_by_hop};
use crate::origin::{Fetched, ignored};
use crate::protocol::Protocol;
use crate::state::State;
use crate::store;
use brisk_http::uri::unsafe_uri;
use brisk_http::{HeaderId, Method, status};
use brisk_net::{Cause, Failure};
use brisk_server::failure;
use brisk_server::flow::Flow;
use brisk_server::plan::Trailers;
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::rlog;
use brisk_server::text::Text;
use std::rc::Rc;
use std::sync::Arc;

/// The back end's answer, or what became of it, is the response's.
pub(crate) fn conclude<P: Protocol>(protocol: &P, r: &mut Request, result: Result<Fetched, Failure>) -> Flow {
    match result {
        Ok(fetched) => {
            // Before the head is interpreted: `*_store` has the body as the back end has sent it.
            // Only for live answers: one from the cache was stored by whoever filled it.
            let stored = store::wrap(protocol.settings(), r, fetched);
            r.resp.tunnel = stored.tunnel;
            // The back end has answered the client's conditions: a 200 means that they did not hold, and judging it again could make it a 304.
            r.resp.is_judged = true;
            respond(protocol, r, &stored.head, stored.length, stored.body)
        }
        Err(failure) => failed(r, &failure),
    }
}

/// What a handler returns if there is no response.
fn failed(r: &mut Request, failure: &Failure) -> Flow {
    // With an error page for the status the client is better off than with a closed connection.
    let status = failure::status(failure);
    let is_intercepted = r.core().error_pages.iter().any(|page| page.codes.contains(&status));
    if !matches!(failure.cause(), Cause::UnaskedUpgrade) || is_intercepted {
        return failure::flow(failure, r);
    }
    // nginx closes the connection, and its tests (proxy_upgrade.t) count the bytes of a body: there are none.
    r.resp.status = status;
    r.resp.content_length = Some(0);
    Flow::Done
}

/// See [`Origin::respond`](crate::origin::Origin::respond).
pub(crate) fn respond<P: Protocol>(
    protocol: &P,
    r: &mut Request,
    head: &Arc<BackendHead>,
    length: Option<u64>,
    body: Body,
) -> Flow {
    let settings = protocol.settings();
    // First: an error page replaces all of the answer, its fields included.
    if let Some(flow) = intercept(settings, r, head) {
        return flow;
    }
    // Also for `X-Accel-Redirect`: the limit holds for whatever is sent in the end.
    obey(settings, r, head);
    // The body is dropped unread; the location that is named makes another one.
    if let Some(to) =
        head.get(HeaderId::XAccelRedirect).filter(|_| !settings.ignores(ignored::X_ACCEL_REDIRECT))
    {
        return redirect(protocol, r, head, to);
    }
    copy_fields(protocol, r, head);
    // With `*_pass_header` these fields are the back end's word: where it sends none, none of ours takes its place.
    if protocol.is_proxy() {
        if !head.has(HeaderId::Server) && !settings.hides_field(HeaderId::Server, b"Server") {
            r.resp.server = Some(Text::default());
        }
        if !head.has(HeaderId::Date) && !settings.hides_field(HeaderId::Date, b"Date") {
            r.resp.date = Some(Text::default());
        }
    }
    if let Some(charset) =
        head.get(HeaderId::XAccelCharset).filter(|_| !settings.ignores(ignored::X_ACCEL_CHARSET))
    {
        // For the charset filter, which may recode to it.
        r.resp.wanted_charset = Some(charset.to_vec().into());
        if r.resp.charset.is_none() {
            r.resp.charset.clone_from(&r.resp.wanted_charset);
        }
    }
    r.resp.status = head.status;
    let text = head.status_text();
    // The usual reason is not stored for each response.
    if text.len() > 4 && text != b"200 OK" {
        r.resp.reason = Some(text[4..].to_vec().into());
    }
    // A 304 may have the length that a 200 would have (RFC 9110 §8.6).
    if !status::is_bodiless(head.status) || head.status == 304 {
        r.resp.content_length = length;
    }
    // Although the back end has not said so: parts are cut here, of what it sends as a whole.
    if settings.force_ranges {
        r.resp.allow_ranges = true;
    }
    let passes_trailers = settings.pass_trailers && may_have_trailers(r, &body);
    // No body at all, and no word of it: the client must not wait for one.
    if matches!(body, Body::Empty) && !r.is_head() && !status::is_bodiless(head.status) && !passes_trailers {
        r.resp.content_length = Some(0);
    }
    r.resp.body = body;
    if passes_trailers {
        r.resp.trailers.push(Rc::new(Passed { hidden: settings.clone(), has_length: length.is_some() }));
    }
    Flow::Done
}

fn copy_fields<P: Protocol>(protocol: &P, r: &mut Request, head: &Arc<BackendHead>) {
    let settings = protocol.settings();
    // A bit for each field that may be there once.
    // nginx takes the first of such fields and warns of the others. To pass both on would leave it to the
    // client which one counts.
    let mut seen = 0;
    for field in head.fields() {
        let bit = field.id.bit() & SINGLE;
        let before = seen;
        seen |= bit;
        if before & bit != 0 {
            duplicate(r, head, field);
        } else if !settings.hides_field(field.id, field.name) {
            copy(protocol, r, head, field);
        }
    }
}

/// Whether there are, or will be, fields behind the body.
fn may_have_trailers(r: &Request, body: &Body) -> bool {
    let has_come = |state: Rc<State>| !state.trailers.borrow().is_empty();
    matches!(body, Body::Stream(_)) || r.state.own.get::<State>().is_some_and(has_come)
}

/// Fields that can be there once; what comes later is ignored, as by nginx.
const SINGLE: u64 = HeaderId::Status.bit()
    | HeaderId::ContentType.bit()
    | HeaderId::Date.bit()
    | HeaderId::LastModified.bit()
    | HeaderId::ETag.bit()
    | HeaderId::Server.bit()
    | HeaderId::Location.bit()
    | HeaderId::Refresh.bit()
    | HeaderId::Expires.bit()
    | HeaderId::XAccelExpires.bit()
    | HeaderId::XAccelRedirect.bit()
    | HeaderId::XAccelLimitRate.bit();

#[cold]
fn duplicate(r: &Request, head: &BackendHead, field: Field<'_>) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let Some(first) = head.fields().find(|first| first.id == field.id) else { return };
    rlog!(
        r,
        Warn,
        "upstream sent duplicate header line: \"{}: {}\", previous value: \"{}: {}\", ignored while reading response header from upstream",
        text(field.name),
        text(field.value),
        text(first.name),
        text(first.value)
    );
}

/// `*_intercept_errors`: an error page in place of what the back end says.
fn intercept(settings: &Settings, r: &mut Request, head: &BackendHead) -> Option<Flow> {
    let status = head.status;
    if status == 404 && settings.intercept_404 {
        return Some(Flow::Status(404));
    }
    if status < 300 || !settings.intercept_errors {
        return None;
    }
    // As in nginx, only where there is a page for the status.
    if !r.core().error_pages.iter().any(|page| page.codes.contains(&status)) {
        return None;
    }
    // The challenge belongs to the status: without it a client cannot log in.
    if status == 401 {
        for challenge in head.all(HeaderId::WwwAuthenticate) {
            r.resp.add("WWW-Authenticate", challenge.to_vec());
        }
    }
    Some(Flow::Status(status))
}

/// Fields that change how the response is sent.
fn obey(settings: &Settings, r: &mut Request, head: &BackendHead) {
    if let Some(value) =
        head.get(HeaderId::XAccelLimitRate).filter(|_| !settings.ignores(ignored::X_ACCEL_LIMIT_RATE))
        && let Some(rate) = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok())
    {
        // In the request and not in the response: an internal redirect keeps it.
        r.reply.limit_rate = Some(rate);
    }
}

/// `X-Accel-Redirect`: another location answers, with some of the back end's fields.
fn redirect<P: Protocol>(protocol: &P, r: &mut Request, head: &Arc<BackendHead>, to: &[u8]) -> Flow {
    // Another location answers: nothing of a back end that has switched is left.
    r.resp.tunnel = false;
    r.resp.is_judged = false;
    // The fields of the answer are judged once more by the location that serves in the end.
    // `X-Accel-…` and what else is meant for this server stays here: only what is listed goes with the
    // redirect.
    for field in head.fields() {
        // nginx's list: what the application says of the file that another location serves.
        let kept = matches!(
            field.id,
            HeaderId::ContentType
                | HeaderId::SetCookie
                | HeaderId::CacheControl
                | HeaderId::Expires
                | HeaderId::AcceptRanges
        ) || field.name.eq_ignore_ascii_case(b"Content-Disposition");
        if kept {
            copy(protocol, r, head, field);
        }
    }
    // A name cannot lead anywhere but to a location of this server: it is not checked as a path is.
    if to.starts_with(b"@") {
        return Flow::Named(to.to_vec());
    }
    // `..` must not lead out of the location's tree (nginx: ngx_http_parse_unsafe_uri).
    let Ok(safe) = unsafe_uri(to) else {
        rlog!(r, Error, "unsafe URI \"{}\" was detected", String::from_utf8_lossy(to));
        return Flow::Status(404);
    };
    // The body was for the application.
    if r.route.method != Method::Head {
        r.route.method = Method::Get;
    }
    Flow::Redirect { uri: safe.path.into_owned(), args: Some(safe.args.unwrap_or_default().to_vec()) }
}

/// Copies a field to where the response has it.
fn copy<P: Protocol>(protocol: &P, r: &mut Request, head: &Arc<BackendHead>, field: Field<'_>) {
    let settings = protocol.settings();
    let value = || field.value_text(head);
    match field.id {
        // What an upgrade is to is for whoever asked for it.
        id if id != HeaderId::Upgrade && head.is_for_next_hop(field.name) => {}
        // RFC 9110 §7.6.1: our connection to the client is ours to describe.
        id if is_hop_by_hop(id) && id != HeaderId::Upgrade => {}
        // HTTP/2 has no upgrade (RFC 9113 §8.6).
        HeaderId::Upgrade if head_may_upgrade(r) => r.resp.add("Upgrade", value()),
        // HTTP/2 and HTTP/3 tell a switch by their extended CONNECT.
        HeaderId::Upgrade => {}
        // The key was ours (RFC 8441 §5).
        HeaderId::Other
            if r.head.extended.is_some() && field.name.eq_ignore_ascii_case(b"Sec-WebSocket-Accept") => {}
        // The first one counts, as for all fields that may be there once.
        HeaderId::ContentType if r.resp.content_type.is_some() => {}
        HeaderId::ContentType => r.resp.say_content_type(value()),
        HeaderId::Date => r.resp.date = Some(value()),
        HeaderId::Server => r.resp.server = Some(value()),
        HeaderId::LastModified if r.resp.last_modified.is_none() => {
            // An error page's status (`error_page`) takes the place of the back end's.
            let status = if r.reply.err_status == 0 { head.status } else { r.reply.err_status };
            let (name, value) = field.texts(head);
            r.resp.say_last_modified(name, value, status);
        }
        HeaderId::LastModified => {}
        HeaderId::ETag if r.resp.etag.is_none() => r.resp.etag = Some(value()),
        HeaderId::ETag => {}
        HeaderId::Location => {
            let rewritten = protocol.rewrite_location(r, field.value);
            // Without a rewrite nothing is added to a path: it is the back end's word.
            match rewritten {
                Some(text) => r.resp.location = Some(text.into()),
                None => r.resp.headers.push(field.texts(head)),
            }
        }
        HeaderId::Refresh => {
            let text = refresh(protocol, r, field.value).unwrap_or_else(|| field.value.to_vec());
            r.resp.headers.push((field.name.to_vec().into(), text.into()));
        }
        HeaderId::SetCookie => {
            let text = protocol.rewrite_cookie(r, field.value).unwrap_or_else(|| field.value.to_vec());
            r.resp.headers.push((field.name.to_vec().into(), text.into()));
        }
        // The range filter says it by itself.
        HeaderId::AcceptRanges if settings.force_ranges => {}
        HeaderId::ContentEncoding if r.resp.content_encoding.is_none() => {
            r.resp.content_encoding = Some(value());
        }
        _ => r.resp.headers.push(field.texts(head)),
    }
}

fn head_may_upgrade(r: &Request) -> bool {
    r.version() <= brisk_http::Version::Http11
}

/// `5; url=http://…`
fn refresh<P: Protocol>(protocol: &P, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
    // Only the URL is rewritten, the seconds stay.
    let at = value.windows(4).position(|part| part.eq_ignore_ascii_case(b"url="))? + 4;
    let url = protocol.rewrite_location(r, &value[at..])?;
    Some([&value[..at], &url].concat())
}

/// `*_pass_trailers`.
struct Passed {
    hidden: Settings,
    /// The body's length is known.
    has_length: bool,
}

impl Trailers for Passed {
    fn append(&self, r: &Request) {
        let Some(state) = r.state.own.get::<State>() else { return };
        // For `$sent_trailer_…`, and for what is sent.
        let mut sent = r.resp.sent_trailers.borrow_mut();
        let head = state.head();
        // Trailers are judged as fields of the head are: what was hidden there must not come behind the body.
        let passes = |name: &[u8]| {
            !self.hidden.hides(name)
                && !is_hop_by_hop(HeaderId::from_name(name))
                && !head.as_ref().is_some_and(|head| head.is_for_next_hop(name))
        };
        for (name, value) in state.trailers.borrow().iter().filter(|(name, _)| passes(name)) {
            sent.push((name.clone().into(), value.clone().into()));
        }
    }

    fn needs_chunks(&self) -> bool {
        // With a length the body's end is known, and there is no place for trailers behind it (RFC 9112 §7.1.2).
        !self.has_length
    }
}
