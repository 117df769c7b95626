//! Error pages: `error_page`, and the built-in ones.

use crate::core::http_conf::{PageTarget, ServerTokens};
use crate::flow::Flow;
use crate::plan::Page;
use crate::request::Request;
use crate::request::reply::{PageOf, Persistence};
use crate::response::Response;
use crate::text::Text;
use crate::trace::told;
use crate::vars::target::Target as _;
use brisk_http::uri::{Escape, escape, resolved};
use brisk_http::{HeaderId, Method, status as http_status};

/// What this server calls itself.
pub const NAME: &str = "brisk";
/// With its version.
pub const NAME_VERSION: &str = concat!("brisk/", env!("CARGO_PKG_VERSION"));

/// The `Server` header's value for a location.
pub fn server_token(tokens: &ServerTokens) -> &'static str {
    match tokens {
        ServerTokens::On => NAME_VERSION,
        ServerTokens::Off => NAME,
        // There is no name of a build to add; nginx shows its version as well.
        ServerTokens::Build => NAME_VERSION,
    }
}

/// Ends a request with a status. Nothing of an earlier response survives but `Location`.
/// Fields of a handler that has failed would say things of a page that is another one.
pub fn status(r: &mut Request, status: u16) -> Flow {
    // Nobody listens: nginx closes without an answer, and logs the status.
    if status == 444 || status == 499 || status == 408 {
        r.resp.status = status;
        r.reply.err_status = status;
        return Flow::Close;
    }
    // An answer in itself, for which no page is looked for.
    if matches!(status, 201 | 204) {
        clear(r);
        r.resp.status = status;
        r.reply.err_status = status;
        r.resp.content_length = (status == 201).then_some(0);
        return Flow::Done;
    }
    if let Some(first) = r.reply.page_of.take() {
        give_up_page(r, *first);
        return Flow::Done;
    }
    // Before a page is looked for: it will have this status, unless it says otherwise.
    r.reply.err_status = status;
    // Where the next request begins is not known, or was never sent.
    // The list is nginx's (`ngx_http_special_response_handler`).
    if http_status::closes_connection(status) {
        r.reply.persistence = Persistence::Close;
    }
    // Without a change of the URI left, the page that failed would be asked for again and again.
    if r.route.uri_changes_left > 0
        && let Some(flow) = found_page(r, status).or_else(|| custom_page(r, status))
    {
        return flow;
    }
    builtin(r, status);
    Flow::Done
}

/// Decides on the status of a response that its handlers have made.
pub(crate) fn settle_status(r: &mut Request) {
    if r.reply.page_of.is_some() && !matches!(r.resp.status, 0 | 200) {
        // A script that makes the page has said another status than usual.
        r.reply.err_status = 0;
    }
    // The page of an error has the error's status, or the one that `error_page … =` has put in its place.
    if r.reply.err_status != 0 {
        // After the handlers: a page may be made by a script that answers 200.
        r.resp.status = r.reply.err_status;
        // It was another status' reason.
        r.resp.reason = None;
    } else if r.resp.status == 0 {
        r.resp.status = 200;
    }
}

/// Puts the built-in page of a status in the place of a response, whatever pages are configured.
pub(crate) fn replace(r: &mut Request, status: u16) {
    r.resp.location = None;
    builtin(r, status);
}

/// Makes room for another response of the same status.
pub fn clear(r: &mut Request) {
    // A redirect's target is the one field that the status is about.
    let location = r.resp.location.take();
    let kept: Vec<_> = r
        .resp
        .headers
        .drain(..)
        .filter(|(name, _)| {
            // A 401 without its challenge is none (RFC 9110 §15.5.2); `Retry-After` belongs to 429 and 503.
            name.eq_ignore_ascii_case(b"WWW-Authenticate") || name.eq_ignore_ascii_case(b"Retry-After")
        })
        .collect();
    r.resp = Response { location, headers: kept, ..Response::default() };
}

/// The page that the location's [`Pages`](crate::plan::Pages) have for this status.
fn found_page(r: &mut Request, status: u16) -> Option<Flow> {
    // Of the location that has failed, not of the server.
    let pages = r.snap().location(r.route.loc).plan.pages.clone()?;
    // A page that fails has none of its own: a folder's files could lead in a circle.
    if r.reply.error_page {
        return None;
    }
    match pages.page(r, status)? {
        Page::Builtin => builtin(r, status),
        Page::Text(text) => {
            clear(r);
            r.resp.text(status, Text::Static(b"text/html"), text);
        }
        Page::Path(target) => {
            let mark = memchr::memchr(b'?', &target).unwrap_or(target.len());
            let (uri, args) = (target[..mark].to_vec(), target.get(mark + 1..).unwrap_or_default().to_vec());
            r.reply.error_page = true;
            prepare_page(r);
            r.reply.page_of =
                Some(Box::new(PageOf { status, loc: r.route.loc, fields: r.resp.headers.clone() }));
            return Some(Flow::RedirectAsClient { uri, args: Some(args) });
        }
        // As Apache does for `ErrorDocument` with a URL; the client then sees 302 in the place of the error.
        // 302, whatever the error was.
        Page::Url(url) => redirect_to_page(r, 302, url),
    }
    Some(Flow::Done)
}

/// The page of an error has failed in its turn. As in Apache the client is told of the error itself.
fn give_up_page(r: &mut Request, PageOf { status: first, loc, fields }: PageOf) {
    if let Some(pages) = r.snap().location(loc).plan.pages.clone() {
        pages.given_up(r);
    }
    // The page's own target and challenge are not the error's.
    (r.resp.location, r.resp.headers) = (None, fields);
    (r.reply.error_page, r.reply.has_no_more_pages) = (false, false);
    builtin(r, first);
}

/// Asks for a page of this server with GET.
fn to_page(r: &mut Request, uri: Vec<u8>, args: Vec<u8>) -> Flow {
    prepare_page(r);
    Flow::Redirect { uri, args: Some(args) }
}

fn prepare_page(r: &mut Request) {
    clear(r);
    // HEAD stays: its client must not get a body (RFC 9110 §9.3.2).
    if r.route.method != Method::Head {
        r.route.method = Method::Get;
    }
}

fn redirect_to_page(r: &mut Request, code: u16, url: Vec<u8>) {
    clear(r);
    r.reply.err_status = code;
    r.resp.location = Some(url.into());
    builtin(r, code);
}

/// The `error_page` for this status, if one is configured.
fn custom_page(r: &mut Request, status: u16) -> Option<Flow> {
    let live = r.live.clone();
    let core = &live.snap.location(r.route.loc).core;
    if core.error_pages.is_empty() {
        return None;
    }
    if r.reply.has_no_more_pages {
        return None;
    }
    // Before the search: also a status without a page is an error whose page has no other.
    r.reply.has_no_more_pages = !core.recursive_error_pages;
    // The first one, in the order of the text.
    let page = core.error_pages.iter().find(|page| page.codes.contains(&status))?;
    r.reply.error_page = true;
    if brisk_host::log::may_debug() {
        told::page(r, status, &page.target);
    }
    // `=` alone takes the status of whatever makes the page; `=200` gives it that one.
    if let Some(code) = page.overwrite {
        // 0 is "no word": the handler's own status stands.
        r.reply.err_status = code.unwrap_or(0);
    }
    let template = match &page.target {
        PageTarget::Named(name) => {
            clear(r);
            // The URI and the method stay: a named location answers for the request as it was, POST included.
            return Some(Flow::Named(name.to_vec()));
        }
        PageTarget::Uri(template) => template,
    };
    // Arguments are split off first, so that a question mark within a variable stays part of the path.
    let (path, args) = template.split_target(r);
    // The part before the question mark: variables of the arguments must not decide whether it is a path.
    if path.starts_with(b"/") && page.is_of_file {
        let Ok(uri) = resolved(&path) else { return None };
        prepare_page(r);
        return Some(Flow::RedirectAsClient { uri, args: Some(args.unwrap_or_default()) });
    }
    if path.starts_with(b"/") {
        return Some(to_page(r, path, args.unwrap_or_default()));
    }
    let uri = template.eval_target(r);
    let code = match page.overwrite {
        // Another number is no redirect, and a `Location` without one leads nowhere.
        Some(Some(code @ (301 | 302 | 303 | 307 | 308))) => code,
        _ => 302,
    };
    redirect_to_page(r, code, uri);
    Some(Flow::Done)
}

/// `absolute_redirect`, `server_name_in_redirect`, `port_in_redirect`.
pub(crate) fn absolute_location(r: &mut Request) {
    let Some(location) = &r.resp.location else { return };
    let core = r.core();
    // RFC 9110 §10.2.2 allows relative references. nginx makes them absolute unless `absolute_redirect off`.
    if !location.starts_with(b"/") || !core.absolute_redirect {
        return;
    }
    let mut out = Vec::with_capacity(location.len() + 64);
    out.extend_from_slice(r.scheme().as_bytes());
    out.extend_from_slice(b"://");
    if core.server_name_in_redirect {
        out.extend_from_slice(&r.snap().server(r.route.server).name);
    } else if !r.head.host.is_empty() {
        // Without its port, which `port_in_redirect` decides about.
        out.extend_from_slice(&r.head.host);
    } else {
        // A request of HTTP/1.0 may have named no host: the address that it reached names the server.
        match r.local_addr() {
            Some(std::net::SocketAddr::V6(addr)) => {
                out.extend_from_slice(format!("[{}]", addr.ip()).as_bytes());
            }
            Some(addr) => out.extend_from_slice(addr.ip().to_string().as_bytes()),
            None => out.extend_from_slice(b"localhost"),
        }
    }
    if core.port_in_redirect {
        // The socket's, not the one that the client has named: nginx does the same.
        // A server behind a mapping of ports turns it off by `port_in_redirect`.
        let port = r.local_port().unwrap_or(0);
        let usual = if r.scheme() == "https" { 443 } else { 80 };
        if port != usual && port != 0 {
            out.extend_from_slice(format!(":{port}").as_bytes());
        }
    }
    out.extend_from_slice(location);
    r.resp.location = Some(Text::Owned(out));
}

/// What nginx's pages lack: they fit a phone's screen, and are dark where everything else is.
const HEAD: &str = "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
                    <meta name=\"color-scheme\" content=\"light dark\">";

/// nginx's page, under our name.
fn builtin(r: &mut Request, status: u16) {
    clear(r);
    // nginx's own numbers (494 to 497) are 400 for clients; the page still says what it was.
    let wire = http_status::wire_status(status);
    r.resp.status = wire;
    r.reply.err_status = wire;
    if http_status::is_bodiless(wire) {
        return;
    }
    if matches!(wire, 301 | 302) && r.core().msie_refresh && refresh(r) {
        return;
    }
    // A status that HTTP does not know has no page: an empty one.
    let Some(title) = http_status::error_title(status) else {
        r.resp.content_length = Some(0);
        return;
    };
    // The page shows what the `Server` field shows.
    let server = server_token(&r.core().server_tokens);
    let heading = http_status::error_heading(status).unwrap_or(title);
    let note =
        http_status::error_note(status).map_or(String::new(), |note| format!("<center>{note}</center>\r\n"));
    let body = format!(
        "<html>\r\n<head><title>{title}</title>{HEAD}</head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n\
         {note}<hr><center>{server}</center>\r\n</body>\r\n</html>\r\n"
    );
    r.resp.text(wire, Text::Static(b"text/html"), body);
}

/// `msie_refresh`: a page that leads on instead of a redirect; false for whoever is not MSIE.
fn refresh(r: &mut Request) -> bool {
    // Read through the accessor, so the answer is one for this browser only.
    let is_msie =
        r.header(HeaderId::UserAgent).is_some_and(|agent| memchr::memmem::find(agent, b"MSIE ").is_some());
    if !is_msie {
        return false;
    }
    let Some(location) = r.resp.location.take() else { return false };
    let mut page = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    // The target stands in an attribute: a quote in it would end that, and be a client's markup in our page.
    // The answer is a 200 for all who look at statuses, logs included.
    escape(Escape::Refresh, &location, &mut page);
    page.extend_from_slice(b"\"></head><body></body></html>\r\n");
    r.reply.err_status = 200;
    r.resp.text(200, Text::Static(b"text/html"), page);
    true
}
