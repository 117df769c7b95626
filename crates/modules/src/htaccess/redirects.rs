//! Answers that lead the client elsewhere.

use super::carried::Carried;
use super::facts::{Seen, settled};
use super::pattern::Compiled;
use super::place::Place;
use super::site::Site;
use crate::directory_overrides::files::shown;
use brisk_apache::Facts as _;
use brisk_apache::escape;
use brisk_apache::headers::has_control;
use brisk_apache::redirect::{Answer, Redirect};
use brisk_apache::site::PROXY_HANDLER;
use brisk_http::uri::resolved;
use brisk_server::flow::Flow;
use brisk_server::locate;
use brisk_server::purity::Dependencies;
use brisk_server::request::Request;
use brisk_server::rlog;
use std::sync::Arc;

/// `Redirect` and its relatives.
pub fn redirect(r: &mut Request, redirects: &[Arc<Redirect<Compiled>>], place: &Place) -> Result<(), Flow> {
    if redirects.is_empty() {
        return Ok(());
    }
    let carried = Carried::of(r);
    let answer = settled(r, |r, looked| {
        let carried = carried.borrow();
        let seen = Seen { r, place, carried: &carried, changes: &[], looked, group_file: None };
        let asked = carried.said.asked.as_ref().unwrap_or(&r.route.uri);
        for line in redirects {
            if let Some(answer) = line.answer(asked, &seen)? {
                if seen.is_asked_why() {
                    seen.tell(line.origin(), true, format_args!("is for this path"));
                }
                return Ok(Some(answer));
            }
        }
        Ok(None)
    })?;
    match answer {
        None => Ok(()),
        Some(Answer::Status(status)) => Err(Flow::Status(status)),
        Some(Answer::Redirect { status, mut location }) => {
            if !r.route.args.is_empty() && !location.contains(&b'?') {
                location.push(b'?');
                location.extend_from_slice(&r.route.args);
            }
            Err(lead_away(r, status, location))
        }
    }
}

/// Sends a request to the back end that a rule names (flag P).
pub fn ask_back_end(
    r: &mut Request,
    site: Option<&Site>,
    url: Vec<u8>,
    query: Option<Vec<u8>>,
    is_raw: bool,
) -> Flow {
    let Some(location) = site.and_then(|site| site.handler(PROXY_HANDLER.as_bytes())) else {
        rlog!(r, Error, "a rule asks a back end (flag P), which files of folders may not");
        return Flow::Status(500);
    };
    let scheme = memchr::memmem::find(&url, b"://").map_or(0, |at| at + 3);
    let path = memchr::memchr(b'/', &url[scheme..]).map_or(url.len(), |at| scheme + at);
    let mut whole = url[..path].to_vec();
    if is_raw {
        whole.extend_from_slice(&url[path..]);
    } else {
        whole.extend(escape::uri(&url[path..]));
    }
    if let Some(query) = query {
        whole.push(b'?');
        whole.extend_from_slice(&query);
    }
    // What the client has sent must not become a line of the request to the back end, nor a part of its host's name.
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(byte);
    let host = &url[scheme..path];
    if host.is_empty()
        || !host.iter().all(is_host)
        || whole.iter().any(|byte| byte.is_ascii_control() || *byte == b' ')
    {
        rlog!(r, Error, "a rule leads to no URL (flag P)");
        return Flow::Status(403);
    }
    Carried::of(r).borrow_mut().say().proxy_url = Some(whole);
    r.depends_on(Dependencies::STATE);
    Flow::Named(location.clone())
}

/// Whether a back end is asked for a URI: in Apache what is to be proxied is as good as a file, whether the back end has it or not.
pub fn leads_to_back_end(r: &mut Request, uri: &[u8]) -> bool {
    let live = r.live.clone();
    let snap = &live.snap;
    let root = snap.location(snap.server(r.route.server).root);
    let own = std::mem::replace(&mut r.route.uri, uri.to_vec());
    let found = locate::find(snap, r, root);
    r.route.uri = own;
    // What a pattern's groups are is the present location's to say again.
    let _ = locate::find(snap, r, root);
    matches!(found, Ok(locate::Found::Location(id)) if snap.location(id).plan.content.is_some())
}

/// Goes on with a URI of this server that a file has named. What clients send may be a part of it, so it is resolved as the target of a
/// request is, and leads nowhere above the root, nor to `internal` locations: those are for the configuration, whose writer need not
/// trust the writers of files.
pub fn lead_to(r: &Request, uri: &[u8], args: Option<Vec<u8>>) -> Flow {
    match resolved(uri) {
        Ok(uri) => Flow::RedirectAsClient { uri, args },
        Err(error) => {
            rlog!(
                r,
                Error,
                "\"{}\", to which .htaccess leads, is no path of this server ({error})",
                shown(uri)
            );
            Flow::Status(400)
        }
    }
}

/// Redirects the client. A target with what no field may have is 500, as in Apache.
pub fn lead_away(r: &mut Request, status: u16, location: Vec<u8>) -> Flow {
    if has_control(&location) {
        rlog!(r, Error, "a rule leads to \"{}\", which has a control character", shown(&location));
        return Flow::Status(500);
    }
    r.resp.location = Some(location.into());
    Flow::Status(status)
}

/// A rule's redirect. See [`ruled`].
pub fn ruled_away(r: &mut Request, status: u16, location: Vec<u8>) -> Flow {
    r.reply.page_of = None;
    lead_away(r, status, location)
}

/// A rule's status. As in Apache (mod_rewrite sets the status back before it answers) it counts in the page of an error, too.
pub fn ruled(r: &mut Request, status: u16) -> Flow {
    r.reply.page_of = None;
    Flow::Status(status)
}
