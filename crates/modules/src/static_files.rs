//! `ngx_http_static_module`: files for GET and HEAD. It has no directives; the last of the content chain.
//!
//! Conditions, ranges and codings are filters: what is made here is the whole file.

use brisk_http::Method;
use brisk_net::file::Kind;
use brisk_server::files::{Found, OpenFile, reason};
use brisk_server::flow::Flow;
use brisk_server::module::Module;
use brisk_server::path;
use brisk_server::plan::{Declared, Declaring};
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece};
use brisk_server::text::Text;
use std::io::{self, Write as _};
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "static",
    install: Some(|_, plan| plan.add_content(60, Arc::new(Declaring(Declared::RECORDED, handle)))),
    ..Module::EMPTY
};

/// Answers with the file that the URI leads to.
pub fn handle(r: &mut Request) -> Flow {
    // Before the disk is asked: the answer does not depend on what is there.
    if !matches!(r.route.method, Method::Get | Method::Head | Method::Post) {
        return Flow::Status(405);
    }
    if r.route.uri.ends_with(b"/") {
        return Flow::Next;
    }
    let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
    brisk_server::dlog!(r, "http filename: \"{}\"", mapped.path().display());
    let symlinks = path::symlinks(r, &mapped);
    let found = match r.open_file(mapped.path(), symlinks) {
        Ok(found) => found,
        Err(flow) => return flow,
    };
    match found {
        Found::File(file) => serve(r, file),
        Found::Other(info) if info.kind == Kind::Directory => {
            let path = r.route.uri.clone();
            add_slash(r, &path)
        }
        // Sockets, pipes and devices: opening one could wait for ever, or do something.
        Found::Other(_) => {
            brisk_server::rlog!(r, Crit, "\"{}\" is not a regular file", mapped.path().display());
            Flow::Status(404)
        }
        Found::Missing(error) => missing(r, &mapped, &error),
    }
}

fn missing(r: &Request, mapped: &path::Mapped, error: &io::Error) -> Flow {
    // ENOENT, ENOTDIR, ENAMETOOLONG; EACCES and links that are refused.
    let (status, is_crit) = match error.raw_os_error() {
        Some(2 | 20 | 36) => (404, false),
        Some(13 | 40 | 31) => (403, false),
        _ => (500, true),
    };
    let path = mapped.path().display();
    if is_crit {
        brisk_server::rlog!(r, Crit, "open() \"{path}\" failed ({})", reason(error));
    // A refusal is always worth a line: somebody has set the rights.
    } else if status == 403 || r.core().log_not_found {
        brisk_server::rlog!(r, Error, "open() \"{path}\" failed ({})", reason(error));
    }
    Flow::Status(status)
}

/// A directory without its slash: relative links in its index would lead elsewhere. `path` is what the client knows it by.
pub fn add_slash(r: &mut Request, path: &[u8]) -> Flow {
    let mut location = Vec::with_capacity(path.len() + r.route.args.len() + 2);
    brisk_http::uri::escape(brisk_http::uri::Escape::Uri, path, &mut location);
    location.push(b'/');
    if !r.route.args.is_empty() {
        location.push(b'?');
        location.extend_from_slice(&r.route.args);
    }
    // A path; the core makes it absolute if that is configured (`absolute_location`).
    r.resp.location = Some(location.into());
    Flow::Status(301)
}

fn serve(r: &mut Request, file: Rc<OpenFile>) -> Flow {
    // As in nginx a POST to a file is refused only if there is one; else it is a 404.
    if r.route.method == Method::Post {
        return Flow::Status(405);
    }
    respond_with(r, file);
    Flow::Done
}

/// Makes a file the response: type, length, validators, body.
pub fn respond_with(r: &mut Request, file: Rc<OpenFile>) {
    let size = file.info.size;
    r.resp.status = 200;
    r.resp.content_length = Some(size);
    // Of the open descriptor and not of the path: what is sent and what is told belong together.
    r.resp.last_modified = Some(file.info.mtime);
    if r.core().etag {
        r.resp.etag = Some(etag(file.info.mtime, size));
    }
    // A handler before may have said it.
    if r.resp.content_type.is_none() {
        r.set_content_type_by_extension();
    }
    r.resp.allow_ranges = true;
    r.resp.body = if size == 0 { Body::Empty } else { Body::One(Piece::File { file, range: 0..size }) };
}

/// nginx's entity tag: time and length in hexadecimal.
pub fn etag(mtime: i64, size: u64) -> Text {
    let mut out = Vec::with_capacity(24);
    let _ = write!(out, "\"{mtime:x}-{size:x}\"");
    out.into()
}
