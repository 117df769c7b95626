//! The order in which a request's handlers run: nginx's phases, as a table walked by [`run`].
//!
//! The walk itself waits for nothing: it comes back with what must be waited for ([`Run`]) and goes on when that is
//! there, whether it is asked by the hot path, a parked request or a task. It must not know protocols and sockets.

use crate::conf::entrance::Entrance;
use crate::conf::ids::LocationId;
use crate::conf::snapshot::Snapshot;
use crate::core::http_conf::Satisfy;
use crate::files::{self, Wanted};
use crate::flow::{Flow, Pending, Waiter};
use crate::h1::intake;
use crate::locate::{self, Found};
use crate::plan::Handler;
use crate::purity::{Declared, Dependencies};
use crate::request::flight::Waits;
use crate::request::route::{Cursor, Phase};
use crate::request::{Refusal, Request};
use crate::trace::{self, told};
use crate::{body, dlog, special, tunnel};
use brisk_http::Method;
use std::future::poll_fn;
use std::sync::Arc;

/// Why [`run`] came back.
/// Each way to wait is a value of its own, so that the hot path, a parked request and a task can each do it
/// in their way.
pub enum Run {
    /// [`Request::resp`] is complete and filtered.
    Respond,
    /// A file must be fetched; then [`run`] again.
    Disk(Wanted),
    /// A future must be awaited; then [`resume`] with what it gave.
    Wait(Waiter),
    /// The same without a future.
    Pending(Box<dyn Pending>),
    /// Close without an answer.
    Close,
}

/// Runs handlers until the response is there or something must be waited for.
///
/// Called again, it goes on with the handler that the cursor names: a handler that came back with [`Run::Disk`] is
/// called a second time and must not have done before what it is not to do twice.
pub fn run(r: &mut Request) -> Run {
    loop {
        let flow = step(r);
        if let Some(run) = act(r, flow) {
            return run;
        }
    }
}

/// Goes on after [`Run::Wait`].
pub fn resume(r: &mut Request, flow: Flow) -> Run {
    match act(r, flow) {
        Some(run) => run,
        None => run(r),
    }
}

/// Runs a request until it has its response or is given up, whatever it must wait for.
pub async fn drive(r: &mut Request, mut run: Run) -> Run {
    loop {
        match run {
            Run::Respond | Run::Close => return run,
            Run::Disk(wanted) => {
                r.before_waiting();
                r.flight.waits_for(Waits::Disk);
                let found = files::fetch(wanted.clone()).await;
                // What was found is kept with the request, not only in the cache: the handler that is called again
                // must find it, whatever the cache has dropped meanwhile.
                r.evidence.fetched.push((wanted, found));
                // Time has passed: what is known of files must be confirmed by events that came meanwhile.
                r.thread.files.must_confirm();
                run = self::run(r);
            }
            Run::Wait(waiter) => {
                r.before_waiting();
                // The request is lent to the future and comes back with the flow, so nothing else may act on it meanwhile.
                let flow = waiter(r).await;
                r.thread.files.must_confirm();
                run = resume(r, flow);
            }
            Run::Pending(mut pending) => {
                r.before_waiting();
                let flow = poll_fn(|cx| pending.poll(r, cx)).await;
                r.thread.files.must_confirm();
                run = resume(r, flow);
            }
        }
    }
}

/// Ends a request that failed before the phases, with an error page.
pub fn fail(r: &mut Request, status: u16) -> Run {
    // What was wrong with it is not what answers are kept by, and an error page may have any status.
    // Such an answer is never prepared.
    r.note(Declared::ANYTHING);
    match act(r, Flow::Status(status)) {
        Some(run) => run,
        None => run(r),
    }
}

/// Starts over at a URI or named location, after the response.
pub fn post_action(r: &mut Request, target: &[u8]) -> Run {
    // What the answer was must not mark the location's own response as an error page.
    r.reply.err_status = 0;
    (r.reply.error_page, r.reply.has_no_more_pages) = (false, false);
    r.reply.page_of = None;
    let flow = if target.starts_with(b"@") {
        Flow::Named(target.to_vec())
    } else {
        let (uri, args) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], target[at + 1..].to_vec()),
            None => (target, Vec::new()),
        };
        Flow::Redirect { uri: uri.to_vec(), args: Some(args) }
    };
    resume(r, flow)
}

/// Runs the next handler.
fn step(r: &mut Request) -> Flow {
    // One function per phase; each leaves for the next phase when its handlers are through.
    match r.route.cursor.phase {
        Phase::EarlyBody => early_body(r),
        Phase::PostRead => listed(r, |p| &p.post_read),
        Phase::ServerRewrite => rewrite(r),
        Phase::FindConfig => find_config(r),
        Phase::Rewrite => rewrite(r),
        Phase::PreAccess => listed(r, |p| &p.preaccess),
        Phase::Access => access(r),
        Phase::PreContent => precontent(r),
        Phase::Content => content(r),
        // A filter that waited goes on in `act`.
        Phase::Filters => Flow::Next,
    }
}

/// Acts on a handler's decision; `None`: go on with [`step`].
fn act(r: &mut Request, flow: Flow) -> Option<Run> {
    if r.state.shared.vars.take_failure() {
        // The decision hangs on a value that could not be found out: as in nginx, where a match fails.
        // A `Close` stands: refusing would send an answer where none is wanted.
        // A value that failed may be what a rule of access was made of, so the request ends here.
        return if matches!(flow, Flow::Close) { Some(Run::Close) } else { refuse(r, 500) };
    }
    match flow {
        // A filter that waited has done its work: the next one has its turn. This stands before the other arms, in
        // which `Next` and `Done` are about handlers.
        Flow::Next | Flow::Done if r.route.cursor.phase == Phase::Filters => return Some(filters(r)),
        Flow::Next => advance(r),
        Flow::Allowed => {
            let any = r.core().satisfy == Satisfy::Any;
            if r.route.cursor.phase == Phase::Access && any {
                // `satisfy any`: one handler that allows is enough. What others have refused before does not count,
                // nor do their challenges.
                r.route.cursor.denied = 0;
                r.resp.remove("WWW-Authenticate");
                enter(r, Phase::PreContent);
            } else {
                advance(r);
            }
        }
        Flow::Done => return Some(finish(r)),
        Flow::Status(status) => return refuse(r, status),
        Flow::Redirect { uri, args } => {
            if !redirect(r, uri, args) {
                return refuse(r, 500);
            }
        }
        Flow::RedirectAsClient { uri, args } => {
            if !redirect(r, uri, args) {
                return refuse(r, 500);
            }
            // Even where the request was led by the configuration before: `index` does so for each folder.
            r.route.internal = false;
        }
        Flow::Named(name) => {
            if !named(r, &name) {
                return refuse(r, 500);
            }
        }
        Flow::Enter(entrance) => return extended(r, &entrance),
        // The cursor still names it.
        Flow::Again => {}
        Flow::Anew => r.route.cursor = Cursor::at(Phase::PreContent),
        Flow::Disk(wanted) => return Some(Run::Disk(wanted)),
        Flow::Wait(waiter) => {
            // Whatever is awaited may differ for the next request, so the answer is for this one only.
            r.depends_on(Dependencies::AWAITED);
            return Some(Run::Wait(waiter));
        }
        Flow::Pending(pending) => {
            r.depends_on(Dependencies::AWAITED);
            return Some(Run::Pending(pending));
        }
        // Without a word to the client: `return 444`, and requests that cannot be answered.
        Flow::Close => return Some(Run::Close),
    }
    None
}

/// Goes on in a location that was compiled late: it stays entered until a redirect leads out of it, and the URI does not change.
fn extended(r: &mut Request, entrance: &Entrance) -> Option<Run> {
    if !r.enter_late(entrance) {
        return refuse(r, 500);
    }
    dlog!(r, "using configuration \"{}\", extended", shown_name(r.snap(), r.route.loc));
    // Its own limit holds beside that of the location around.
    if let Err(flow) = body::check_length(r) {
        return act(r, flow);
    }
    enter(r, Phase::Rewrite);
    None
}

fn refuse(r: &mut Request, status: u16) -> Option<Run> {
    dlog!(r, "http special response: {status}, \"{}\"", shown_uri(r));
    // `satisfy any`: the refusal is kept until all access handlers were asked. 401 outlives 403, so that the client
    // is asked for a password where that would help (nginx: `r->access_code`).
    if r.route.cursor.phase == Phase::Access
        && matches!(status, 401 | 403)
        && r.core().satisfy == Satisfy::Any
    {
        if r.route.cursor.denied != 401 {
            r.route.cursor.denied = status;
        }
        advance(r);
        return None;
    }
    if brisk_host::log::may_debug() {
        told::refused(r, status);
    }
    if r.route.is_look_up() {
        // The status itself, not the page that says so.
        r.resp.status = status;
        return Some(Run::Respond);
    }
    // The page may be made by another location: then this is a redirect as any other.
    match special::status(r, status) {
        Flow::Done => Some(finish(r)),
        Flow::Close => Some(Run::Close),
        other => act(r, other),
    }
}

/// The verdict of earlier access handlers is kept: it is asked at the end of the phase.
fn enter(r: &mut Request, phase: Phase) {
    r.route.cursor = Cursor { phase, handler: 0, denied: r.route.cursor.denied };
}

/// To the next handler; phases that have no more handlers are left in [`step`]'s functions.
fn advance(r: &mut Request) {
    r.route.cursor.handler += 1;
}

fn early_body(r: &mut Request) -> Flow {
    if r.route.cursor.handler == 0 && brisk_host::log::may_debug() {
        if trace::is_on() { told::begun(r) } else { show(r) }
    }
    // Only at first: the phase is entered again when the body is there.
    if r.route.cursor.handler == 0 && body::is_wanted_early(r) {
        return body::read_early(r);
    }
    enter(r, Phase::PostRead);
    listed(r, |p| &p.post_read)
}

/// What the client wants, for those who debug.
fn show(r: &Request) {
    let text = String::from_utf8_lossy;
    dlog!(r, "http request line: \"{}\"", text(r.head.parsed.request_line.of(&r.head.buf)));
    dlog!(r, "http uri: \"{}\"", text(&r.route.uri));
    dlog!(r, "http args: \"{}\"", text(&r.route.args));
    for (name, value) in r.head.parsed.headers.iter().map(|header| (header.name, header.value)) {
        dlog!(r, "http header: \"{}: {}\"", text(name.of(&r.head.buf)), text(value.of(&r.head.buf)));
    }
    dlog!(r, "http header done");
}

/// The URI with its arguments, as messages show it.
fn shown_uri(r: &Request) -> String {
    let question = if r.route.args.is_empty() { "" } else { "?" };
    format!("{}{question}{}", String::from_utf8_lossy(&r.route.uri), String::from_utf8_lossy(&r.route.args))
}

/// The rewrite handler of the present location (the server's root in the server phase).
fn rewrite(r: &mut Request) -> Flow {
    let server_phase = r.route.cursor.phase == Phase::ServerRewrite;
    dlog!(r, "rewrite phase: {}", r.route.cursor.handler);
    // Without a location the request stays in the server block, whose script has run already.
    let has_run = !server_phase && r.route.loc == r.snap().server(r.route.server).root;
    // The handler may change the request's configuration, so the snapshot that the handler is part of is held by
    // itself.
    // Each location's rewrite runs once per visit.
    if r.route.cursor.handler == 0
        && !has_run
        && let Some(handler) = r.live.snap.clone().location(r.route.loc).plan.rewrite.as_deref()
    {
        // Before it runs: whether it has done anything this time does not matter for other requests.
        // A rewrite may read anything. Prepared answers take account of what its plan has declared.
        r.note(r.snap().location(r.route.loc).plan.of_rewrite());
        let flow = handler.handle(r);
        if !matches!(flow, Flow::Next) {
            return flow;
        }
    }
    // A `break` or a changed URI, both are for the search that follows now.
    if server_phase {
        // A location is searched for in any case.
        r.route.uri_changed = false;
        enter(r, Phase::FindConfig);
        return find_config(r);
    }
    // post_rewrite
    // Each change is counted, so that rewrites in a circle end (nginx: NGX_HTTP_MAX_URI_CHANGES).
    if r.route.uri_changed {
        if !r.is_led_within() {
            return Flow::Status(400);
        }
        dlog!(r, "post rewrite phase: uri changes: {}", r.route.uri_changes_left);
        if !r.route.spend_change() {
            rlog_cycle(r);
            return Flow::Status(500);
        }
        r.route.uri_changed = false;
        r.leave_late();
        // The search begins at the server's own block again.
        let root = r.snap().server(r.route.server).root;
        r.route.loc = root;
        enter(r, Phase::FindConfig);
        return find_config(r);
    }
    enter(r, Phase::PreAccess);
    listed(r, |p| &p.preaccess)
}

fn rlog_cycle(r: &Request) {
    crate::rlog!(
        r,
        Error,
        "rewrite or internal redirection cycle while processing \"{}\"",
        String::from_utf8_lossy(&r.route.uri)
    );
}

fn find_config(r: &mut Request) -> Flow {
    let live = r.live.clone();
    let snap = &live.snap;
    // The search begins at the server's root, whatever location the request was in.
    let root = snap.server(r.route.server).root;
    let found =
        if is_about_server(r) { Ok(Found::Nothing) } else { locate::find(snap, r, snap.location(root)) };
    let (id, lacks_slash) = match found {
        // An expression that gave up could have chosen a location with rules of access.
        Err(error) => return error.into(),
        Ok(Found::Nothing) => (root, false),
        Ok(Found::Location(id)) => (id, false),
        Ok(Found::Slash(id)) => (id, true),
    };
    set_location(snap, r, id);
    if brisk_host::log::may_debug() {
        dlog!(r, "using configuration \"{}\"", shown_name(snap, r.route.loc));
        told::located(r, root);
    }
    let core = r.core();
    // As if there were none: nginx answers 404, not 403.
    if core.internal && !r.route.internal {
        told::decided(r, "the location is internal: clients may not ask for it");
        return Flow::Status(404);
    }
    // Each location may have another `client_max_body_size`, so it is asked anew after each redirect.
    if let Err(flow) = body::check_length(r) {
        return flow;
    }
    if lacks_slash {
        return with_slash(r, &snap.location(id).name);
    }
    enter(r, Phase::Rewrite);
    rewrite(r)
}

/// `/dir` for a location `/dir/` that passes on requests: a redirect to that.
fn with_slash(r: &mut Request, name: &[u8]) -> Flow {
    // With the arguments. The path is escaped again: `merge_slashes` and escapes have been undone in the name.
    let mut uri = escaped_uri(name);
    if !r.route.args.is_empty() {
        uri.push(b'?');
        uri.extend_from_slice(&r.route.args);
    }
    r.resp.location = Some(uri.into());
    told::decided(r, "the path lacks the slash of the location");
    Flow::Status(301)
}

/// A location's name; the server's own has none.
fn shown_name(snap: &Snapshot, id: LocationId) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&snap.location(id).name)
}

fn escaped_uri(uri: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(uri.len() + 8);
    brisk_http::uri::escape(brisk_http::uri::Escape::Uri, uri, &mut out);
    out
}

/// Makes `id` the request's location; `limit_except` may put its block in its place.
pub fn set_location(snap: &Snapshot, r: &mut Request, id: LocationId) {
    r.route.loc = id;
    let location = snap.location(id);
    if let Some(limit) = &location.core.limit_except {
        let name = r.sent_method_name();
        // A GET that an error page was made of is judged as GET; all others by what the client has sent.
        // A client's GET, POST and so on; the page of an error is fetched by this server.
        let name: &[u8] = if r.route.method == Method::Get && r.reply.error_page { b"GET" } else { name };
        if !limit.methods.iter().any(|m| **m == *name) {
            r.route.loc = limit.block;
        }
    }
}

fn listed(r: &mut Request, list: fn(&crate::plan::Plan) -> &Vec<Arc<dyn Handler>>) -> Flow {
    let live = r.live.clone();
    let plan = &live.snap.location(r.route.loc).plan;
    // Before the handler runs: what it may read counts even if it reads nothing now.
    r.note(if r.route.cursor.phase == Phase::PostRead { plan.of_post_read() } else { plan.of_rest() });
    let handlers = list(plan);
    dlog!(r, "generic phase: {}", r.route.cursor.handler);
    if let Some(handler) = handlers.get(usize::from(r.route.cursor.handler)) {
        return handler.handle(r);
    }
    match r.route.cursor.phase {
        Phase::PostRead => {
            enter(r, Phase::ServerRewrite);
            rewrite(r)
        }
        Phase::PreAccess => {
            enter(r, Phase::Access);
            access(r)
        }
        _ => {
            enter(r, Phase::Content);
            content(r)
        }
    }
}

fn access(r: &mut Request) -> Flow {
    if r.route.depth > 0 && !r.route.is_look_up() && !r.route.as_client {
        // Whoever may make the request may see its parts; and what decides about access is not asked about itself.
        enter(r, Phase::PreContent);
        return precontent(r);
    }
    let live = r.live.clone();
    dlog!(r, "access phase: {}", r.route.cursor.handler);
    let plan = &live.snap.location(r.route.loc).plan;
    r.note(plan.of_rest());
    if let Some(handler) = plan.access.get(usize::from(r.route.cursor.handler)) {
        return handler.handle(r);
    }
    // post_access
    dlog!(r, "post access phase: {}", r.route.cursor.denied);
    let denied = std::mem::take(&mut r.route.cursor.denied);
    if denied != 0 {
        // nginx's line, which tools such as fail2ban look for.
        if denied == 403 {
            crate::rlog!(r, Error, "access forbidden by rule");
        }
        // Out of the access phase first: there `refuse` would only keep the status again.
        r.route.cursor.phase = Phase::PreContent;
        return Flow::Status(denied);
    }
    enter(r, Phase::PreContent);
    precontent(r)
}

fn precontent(r: &mut Request) -> Flow {
    if is_about_server(r) { server_options(r) } else { listed(r, |p| &p.precontent) }
}

/// Whether the request is `OPTIONS *` and has not been led elsewhere: no location has such a path, nor has any file.
fn is_about_server(r: &Request) -> bool {
    r.head.target.asterisk && r.route.uri == b"*"
}

/// Answers `OPTIONS *` (RFC 9110 §9.3.7), which is about the server and none of its resources.
fn server_options(r: &mut Request) -> Flow {
    r.resp.status = 200;
    r.resp.content_length = Some(0);
    r.resp.add("Allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS".to_vec());
    Flow::Done
}

fn content(r: &mut Request) -> Flow {
    dlog!(r, "content phase: {}", r.route.cursor.handler);
    if r.route.is_look_up() {
        // Nothing has refused it, which is what was asked.
        return Flow::Done;
    }
    let live = r.live.clone();
    let plan = &live.snap.location(r.route.loc).plan;
    r.note(plan.of_rest());
    // One handler that takes the location as a whole (`proxy_pass`, `stub_status`): files are not looked for.
    // It has no chain, so a handler that declines is the end.
    if let Some(handler) = &plan.content {
        // Called again after its first turn, a content handler has declined. There is no other one to ask.
        return if r.route.cursor.handler == 0 { handler.handle(r) } else { Flow::Status(404) };
    }
    if let Some((_, handler)) = plan.content_chain.get(usize::from(r.route.cursor.handler)) {
        return handler.handle(r);
    }
    // All handlers of the chain have declined a folder: index and listing are among them. What is there is not for everybody.
    if r.route.uri.ends_with(b"/") {
        // The path is only for the message; where it cannot be made the answer is the same.
        if let Some(path) = crate::path::map(r, 0) {
            crate::rlog!(
                r,
                Error,
                "directory index of \"{}\" is forbidden",
                String::from_utf8_lossy(&path.bytes)
            );
        }
        return Flow::Status(403);
    }
    crate::rlog!(r, Error, "no handler found");
    Flow::Status(404)
}

/// An internal redirect; false if there were too many.
fn redirect(r: &mut Request, uri: Vec<u8>, args: Option<Vec<u8>>) -> bool {
    if !r.route.spend_change() {
        crate::rlog!(
            r,
            Error,
            "rewrite or internal redirection cycle while internally redirecting to \"{}\"",
            String::from_utf8_lossy(&uri)
        );
        return false;
    }
    // Or-ed: text of the old path may have become part of the new one.
    r.route.has_decoded_delimiter |= intake::has_delimiter(&uri);
    r.route.uri = uri;
    if let Some(args) = args {
        r.route.args = args;
    }
    dlog!(r, "internal redirect: \"{}\"", shown_uri(r));
    // A location that is `internal` may be reached from here on, also by later redirects.
    r.route.internal = true;
    r.route.add_uri_to_alias = false;
    r.route.unparsed_uri_valid = false;
    r.route.location_valid = true;
    // A visit ends with each redirect.
    // What a module kept for the location that is left must not be found in the next one.
    r.state.visit.clear();
    r.leave_late();
    let root = r.snap().server(r.route.server).root;
    r.route.loc = root;
    // Also the server's rewrites run again, as in nginx; the counter above ends circles.
    enter(r, Phase::ServerRewrite);
    true
}

/// A jump to a named location; false if it cannot be done.
fn named(r: &mut Request, name: &[u8]) -> bool {
    // Before the server's locations are looked up: those of what was compiled late are not meant.
    r.leave_late();
    let live = r.live.clone();
    if !r.route.spend_change() {
        crate::rlog!(
            r,
            Error,
            "rewrite or internal redirection cycle while redirect to named location \"{}\"",
            String::from_utf8_lossy(name)
        );
        return false;
    }
    if r.route.uri.is_empty() {
        crate::rlog!(
            r,
            Error,
            "empty URI in redirect to named location \"{}\"",
            String::from_utf8_lossy(name)
        );
        return false;
    }
    // Named locations belong to the server; the URI stays, so none is searched for by it.
    // The name may come from a back end (`X-Accel-Redirect`), so it is no error of the configuration alone.
    let Some(&id) = live.snap.server(r.route.server).named.get(name) else {
        crate::rlog!(r, Error, "could not find named location \"{}\"", String::from_utf8_lossy(name));
        return false;
    };
    dlog!(r, "test location: \"{}\"", String::from_utf8_lossy(name));
    set_location(&live.snap, r, id);
    dlog!(r, "using configuration \"{}\"", shown_name(&live.snap, r.route.loc));
    r.route.internal = true;
    r.route.uri_changed = false;
    r.state.visit.clear();
    // As in nginx the server's rewrites are not run again: the URI is the same.
    enter(r, Phase::Rewrite);
    true
}

/// The last step before a response is serialised: status, redirects made absolute, filters.
fn finish(r: &mut Request) -> Run {
    if r.route.is_look_up() {
        // There is nothing that filters could change.
        r.resp.status = if r.resp.status == 0 { 200 } else { r.resp.status };
        return Run::Respond;
    }
    special::settle_status(r);
    tunnel::settle(r);
    dlog!(r, "http finalize request: {}, \"{}\"", r.resp.status, shown_uri(r));
    special::absolute_location(r);
    refilter(r)
}

/// Runs a response, which may be another one than before, through all filters of its location.
pub fn refilter(r: &mut Request) -> Run {
    enter(r, Phase::Filters);
    filters(r)
}

/// The filters that are left.
fn filters(r: &mut Request) -> Run {
    let live = r.live.clone();
    r.note(live.snap.location(r.route.loc).plan.of_rest());
    // Looked up each time by the cursor: after a filter that waited, the walk goes on behind it.
    while let Some((stage, filter)) =
        live.snap.location(r.route.loc).plan.filters.get(usize::from(r.route.cursor.handler))
    {
        advance(r);
        // What a part is embedded in has its own head: filters about the whole response are run for that.
        if r.route.depth > 0 && !stage.is_for_parts() {
            continue;
        }
        if let Some(waiter) = filter.wait(r) {
            r.depends_on(Dependencies::AWAITED);
            return Run::Wait(waiter);
        }
        filter.filter(r);
        if let Some(refusal) = r.reply.refused.take()
            && let Some(run) = refused(r, refusal)
        {
            return run;
        }
    }
    // Once: a page whose own filters fail is sent as it is.
    if r.state.shared.vars.take_failure() && r.resp.status != 500 {
        // A filter could not find out what to do. The page for that goes through the same filters, and then out.
        r.route.cursor = Cursor::at(Phase::Content);
        return fail(r, 500);
    }
    // As nginx's header filter does: other statuses are not about the representation that was modified.
    if !crate::response::tells_last_modified(r.resp.status) {
        r.resp.last_modified = None;
    }
    r.learn_hints();
    Run::Respond
}

/// A filter has refused the request (`If-Match`, `Range`). `None`: the refusal is in the response's place, for the filters that are left.
fn refused(r: &mut Request, refusal: Refusal) -> Option<Run> {
    // As in nginx. The fields of a 416 tell the length; those of an answer that was not wanted go with it.
    let (status, kept) = match refusal {
        Refusal::PreconditionFailed => (412, Vec::new()),
        Refusal::RangeNotSatisfiable => (416, std::mem::take(&mut r.resp.headers)),
    };
    match special::status(r, status) {
        Flow::Done => {
            r.resp.headers.extend(kept);
            None
        }
        // The page that the configuration has for it is made by another location.
        flow => Some(resume(r, flow)),
    }
}
