//! `ngx_http_dav_module`: PUT, DELETE, MKCOL, COPY and MOVE of RFC 4918 on files.
//!
//! This file reads requests and answers them; what happens to files is in [`files`], on the pool of threads.

mod files;
mod rows;
mod target;

use crate::directory_overrides;
use crate::own_page::is_rebound;
use brisk_conf::Diag;
use brisk_http::date::parse_http_date;
use brisk_http::framing::BodyFraming;
use brisk_http::uri::{Escape, escape};
use brisk_net::blocking;
use brisk_server::conf::Cx;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf};
use brisk_server::path;
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::rlog;
use brisk_server::temp_file::{Fate, TempError, TempFile};
use files::{Copying, Done, Fault, Place};
use std::sync::Arc;
use target::Depth;

pub static MODULE: Module = Module {
    name: "dav",
    rows: rows::ROWS,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

/// Bytes of a body that are gathered before they are written.
// Each write is a job of the pool: few large ones keep its queue short.
const WRITE_BYTES: usize = 256 << 10;

/// Bits of `dav_methods`, and the names that requests have for them.
mod method {
    pub const PUT: u32 = 1 << 0;
    pub const DELETE: u32 = 1 << 1;
    pub const MKCOL: u32 = 1 << 2;
    pub const COPY: u32 = 1 << 3;
    pub const MOVE: u32 = 1 << 4;
    // The row gives bits; `off` among other words wins, wherever it stands.
    // Far from the methods: `off` must not be a method that is added later.
    pub const OFF: u32 = 1 << 31;

    pub fn of_name(name: &[u8]) -> u32 {
        match name {
            b"PUT" => PUT,
            b"DELETE" => DELETE,
            b"MKCOL" => MKCOL,
            b"COPY" => COPY,
            b"MOVE" => MOVE,
            _ => 0,
        }
    }
}

#[derive(Clone, Default)]
struct Conf {
    /// Bits of [`method`].
    methods: u32,
    /// Rights of new files; folders may also be searched by those who may read them.
    access: u32,
    create_full_put_path: bool,
    /// Segments that a URI must have to be deleted; 0: no matter how many.
    min_delete_depth: u64,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    fn allows(&self, method: u32) -> bool {
        self.methods & method::OFF == 0 && self.methods & method != 0
    }
}

fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    let conf = cx.conf_of::<Conf>();
    // PUT and MKCOL write only where the request's own path leads, which was judged.
    let writes_elsewhere = [method::COPY, method::MOVE, method::DELETE].iter().any(|&one| conf.allows(one));
    if writes_elsewhere && directory_overrides::is_apache(cx) {
        // Access is judged for the request's path alone: a folder's rules could be written, moved or deleted from outside.
        let text = "\"dav_methods\" COPY, MOVE and DELETE would go round the rules of .htaccess files";
        return Err(
            Diag::global(text).help("switch \"directory_overrides\" off here, or allow PUT and MKCOL alone")
        );
    }
    if conf.allows(method::PUT) {
        // The location keeps what reading bodies needs; without PUT nothing is read here.
        cx.reads_bodies();
    }
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.shared::<Conf>();
    if conf.methods & method::OFF == 0 {
        // The handlers before it let methods pass that change something.
        plan.add_content(40, Arc::new(move |r: &mut Request| handle(&conf, r)));
    }
}

fn handle(conf: &Arc<Conf>, r: &mut Request) -> Flow {
    let method = method::of_name(r.method_name());
    // A subrequest asks for content, whatever the client's method is.
    if method == 0 || r.route.depth > 0 || !conf.allows(method) {
        return Flow::Next;
    }
    // (A page that another site's answer has allowed to write here is that site's matter.)
    if is_rebound(r) {
        rlog!(r, Error, "a change was refused: a page asked for it under a name that no server_name has");
        return Flow::Status(403);
    }
    let result = match method {
        method::PUT => put(conf.clone(), r),
        method::DELETE => delete(conf, r),
        method::MKCOL => make_collection(conf, r),
        _ => copy_or_move(conf, r, method == method::MOVE),
    };
    result.unwrap_or_else(Flow::Status)
}

/// An error is logged where it is found; what is left of it is a status.
type Outcome = Result<Flow, u16>;

/// Where the request's URI is in the file system.
fn place(r: &Request) -> Result<Place, u16> {
    // By `alias`, `root` and the rules for symbolic links, as for files that are read: no path can be written
    // that could not be named.
    let mapped = path::map(r, 0).ok_or(500u16)?;
    let symlinks = path::symlinks(r, &mapped);
    // The end of the mapped path says whether it is a collection, as the URI's does.
    Ok(Place::new(&mapped.bytes, symlinks))
}

/// All methods but PUT take no body (RFC 4918 §8.4).
fn without_body(r: &Request, what: &str) -> Result<(), u16> {
    if matches!(r.head.framing, BodyFraming::None | BodyFraming::Length(0)) {
        return Ok(());
    }
    rlog!(r, Error, "{what} with body is unsupported");
    Err(415)
}

/// Does work on files on the pool, and answers with what has come of it.
fn on_pool(job: impl FnOnce() -> Result<Done, Fault> + Send + 'static) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let result = match blocking::run(job) {
                Ok(done) => done.await,
                Err(blocking::QueueFull) => Err(Fault::busy()),
            };
            answer(r, result)
        })
    }))
}

/// Whatever has come of it, the next request must not see what was there before.
fn answer(r: &mut Request, result: Result<Done, Fault>) -> Flow {
    // What is read next on this connection, or was read already, sees the change.
    // Also after an error: part of a tree may have changed. File events come too late: the next request may lie
    // in the same read.
    r.thread.files.must_confirm();
    match result {
        Ok(Done::Created) => {
            // RFC 9110 §15.3.2: 201 names what was made. The URI is decoded here, so it is encoded again.
            let mut location = Vec::with_capacity(r.route.uri.len() + 16);
            escape(Escape::Uri, &r.route.uri, &mut location);
            r.resp.location = Some(location.into());
            r.resp.status = 201;
            // Said, since there is no body to tell its length.
            r.resp.content_length = Some(0);
        }
        // Its place is the Destination that the client knows.
        Ok(Done::Moved) => {
            r.resp.status = 201;
            r.resp.content_length = Some(0);
        }
        // RFC 9110 §9.3.4.
        Ok(Done::Replaced) => r.resp.status = 204,
        Err(fault) => {
            if r.logs(fault.level) {
                r.log(fault.level, format_args!("{}", fault.text));
            }
            return Flow::Status(fault.status);
        }
    }
    r.resp.body = Body::Empty;
    Flow::Done
}

fn put(conf: Arc<Conf>, r: &mut Request) -> Outcome {
    // A folder is made by MKCOL (RFC 4918 §9.7.2).
    if r.route.uri.ends_with(b"/") {
        rlog!(r, Error, "cannot PUT to a collection");
        return Err(409);
    }
    // RFC 9110 §14.5: taken for a whole file, a part would destroy it.
    if r.header_named(b"Content-Range").is_some() {
        rlog!(r, Error, "PUT with range is unsupported");
        return Err(501);
    }
    // Before the body is read: a place that cannot be is refused without taking it.
    let to = place(r)?;
    // nginx's rule: the file gets the time that the client says.
    let modified = r.header_named(b"Date").and_then(parse_http_date);
    Ok(Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            // Into a file beside first: readers never see half a file, and a client that goes away leaves the
            // old one.
            let file = match receive(r).await {
                Ok(file) => file,
                Err(flow) => return flow,
            };
            // The name, not the descriptor: rename moves names, and across devices the file is copied.
            let from = (file.path().to_path_buf(), modified);
            let job = move || files::put(&from.0, &to, conf.access, from.1, conf.create_full_put_path);
            let result = match blocking::run(job) {
                Ok(done) => done.await,
                Err(blocking::QueueFull) => Err(Fault::busy()),
            };
            // If it has its place, nothing is left to be removed under its former name.
            drop(file);
            answer(r, result)
        })
    })))
}

/// Takes the body into a temporary file. The error is what the request ends with.
async fn receive(r: &mut Request) -> Result<TempFile, Flow> {
    let failed = |r: &mut Request, error: &TempError| {
        rlog!(r, Crit, "{error}");
        Flow::Status(500)
    };
    // The same folder as for bodies of other requests: its rights and limits hold.
    let folder = r.core().body_temp_path(&r.snap().state_folder);
    // Removed with its descriptor: a client that goes away leaves nothing behind.
    let mut file = TempFile::create(&folder, Fate::Removed).await.map_err(|error| failed(r, &error))?;
    let mut piece = Vec::new();
    loop {
        let more = match r.body_piece(&mut piece).await {
            Ok(more) => more,
            Err(failure) => return Err(brisk_server::failure::end(&failure, r)),
        };
        // The buffer goes to the pool and comes back empty: one allocation for the whole body.
        if piece.len() >= WRITE_BYTES || !more && !piece.is_empty() {
            piece = file.append(piece).await.map_err(|error| failed(r, &error))?;
        }
        if !more {
            return Ok(file);
        }
    }
}

fn delete(conf: &Conf, r: &mut Request) -> Outcome {
    without_body(r, "DELETE")?;
    // Protects the upper folders of a tree: `min_delete_depth 2` keeps /a.
    let depth = target::segments(&r.route.uri);
    if conf.min_delete_depth > depth {
        rlog!(r, Error, "insufficient URI depth:{depth} to DELETE");
        return Err(409);
    }
    // RFC 4918 §9.6.1: a folder is deleted with infinite depth or not at all, which `files` asks.
    let (place, asked) = (place(r)?, target::depth(r)?);
    Ok(on_pool(move || files::delete(&place, asked)))
}

fn make_collection(conf: &Conf, r: &mut Request) -> Outcome {
    without_body(r, "MKCOL")?;
    // RFC 4918 §5.2: a collection's name ends with a slash.
    if !r.route.uri.ends_with(b"/") {
        rlog!(r, Error, "MKCOL can create a collection only");
        return Err(409);
    }
    let (place, access) = (place(r)?, conf.access);
    Ok(on_pool(move || files::make_collection(&place, access)))
}

fn copy_or_move(conf: &Conf, r: &mut Request, moves: bool) -> Outcome {
    without_body(r, "COPY and MOVE")?;
    let destination = target::destination(r)?;
    // RFC 4918 §9.8.3 and §9.9.2: a COPY may be of the folder alone, a MOVE is always of all that is in it.
    let depth = match (target::depth(r)?, moves) {
        (None, _) => Depth::Infinity,
        (Some(Depth::Infinity), _) => Depth::Infinity,
        (Some(Depth::Zero), false) => Depth::Zero,
        (_, false) => {
            rlog!(r, Error, "\"Depth\" header must be 0 or infinity");
            return Err(400);
        }
        (_, true) => {
            rlog!(r, Error, "\"Depth\" header must be infinity");
            return Err(400);
        }
    };
    // All fields are read before anything is looked up: a request with a mistake changes nothing.
    let overwrites = target::overwrites(r)?;
    let from = place(r)?;
    // By the rules of this location, which `target::destination` has found to be the destination's, too.
    let mapped = path::map_uri(r, &destination, 0).ok_or(500u16)?;
    let symlinks = path::symlinks(r, &mapped);
    let to = Place::new(&mapped.bytes, symlinks);
    let text = String::from_utf8_lossy;
    // A folder copied into itself would grow until the disk is full; a target that holds the source would be
    // removed with it.
    if from.is(&to) || from.is_collection && (from.holds(&to) || to.holds(&from)) {
        let (from, to) = (text(&r.route.uri), text(&destination));
        rlog!(r, Error, "\"{from}\" and \"{to}\" are the same, or one is in the other");
        return Err(403);
    }
    let copying = Copying { from, to, overwrites, shallow: depth == Depth::Zero, access: conf.access };
    Ok(on_pool(move || if moves { files::move_to(&copying) } else { files::copy(&copying) }))
}

#[cfg(test)]
mod tests {
    use crate::check::{http, refused};

    #[test]
    fn words_that_mean_nothing_are_refused() {
        refused(&[
            ("dav_methods GET;", "invalid value \"GET\""),
            ("dav_access nobody:rw;", "invalid value \"nobody:rw\""),
            ("min_delete_depth x;", "\"min_delete_depth\" directive invalid number"),
            (
                "create_full_put_path yes;",
                "invalid value \"yes\" in \"create_full_put_path\" directive, it must be \"on\" or \"off\"",
            ),
        ]);
    }

    #[test]
    fn only_locations_with_methods_have_the_handler() {
        let text = "dav_access user:rw group:rw all:r; create_full_put_path on; min_delete_depth 4;
            server { location /a { } location /b { dav_methods PUT delete; } location /c { dav_methods off; } }";
        let locations = http(text).unwrap().locations;
        let handlers: Vec<_> =
            locations.iter().map(|l| l.plan.content_chain.iter().any(|(order, _)| *order == 40)).collect();
        assert_eq!(handlers, [false, false, true, false]);
    }
}
