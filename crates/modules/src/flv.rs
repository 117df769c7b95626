//! `ngx_http_flv_module`: a Flash video from a byte on, as players ask for it (`?start=`).

use crate::own_handler::{self, OwnHandler};
use crate::static_files;
use brisk_http::Method;
use brisk_server::conf::Cx;
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row};
use brisk_server::path;
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece};
use brisk_server::vars::builtin::find_arg;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "flv",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[own_handler::row::<Settings>(
    "flv",
    "Sends FLV files from the byte on that the argument start names, with a header of their own before it.",
    "flv;",
)];

/// Signature, version, sound and picture; the header's length; no tag before the first.
const HEADER: &[u8; 13] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// There are none: the type stands for the module.
#[derive(Clone, Default)]
struct Settings;

type Conf = OwnHandler<Settings>;

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if cx.conf_of::<Conf>().is_on {
        // Before plain files: only requests with `start` are its own.
        plan.add_content(5, Arc::new(handle));
    }
}

fn handle(r: &mut Request) -> Flow {
    if !matches!(r.route.method, Method::Get | Method::Head) {
        return Flow::Status(405);
    }
    // A whole file is one as any other.
    // (A folder has no first byte.)
    let Some(start) = start(&r.route.args).filter(|_| !r.route.uri.ends_with(b"/")) else {
        return Flow::Next;
    };
    let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
    let symlinks = path::symlinks(r, &mapped);
    let file = match r.open_file(mapped.path(), symlinks) {
        // A start behind the end asks for the whole file, as in nginx.
        Ok(Found::File(file)) if start < file.info.size => file,
        Ok(_) => return Flow::Next,
        Err(flow) => return flow,
    };
    let end = file.info.size;
    static_files::respond_with(r, file.clone());
    // Not the file's: the head is in front of it.
    r.resp.content_length = Some(HEADER.len() as u64 + end - start);
    let header = Piece::Bytes(HEADER.to_vec().into());
    r.resp.body = Body::Many(vec![header, Piece::File { file, range: start..end }]);
    Flow::Done
}

/// The first byte that is wanted, if it is not the file's first.
fn start(args: &[u8]) -> Option<u64> {
    // A minus or a plus is no number of a byte.
    let text = find_arg(args, b"start")?;
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse().ok().filter(|start| *start > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::http;

    #[test]
    fn starts() {
        for (args, want) in [
            ("start=10", Some(10)),
            ("a=1&start=10&b", Some(10)),
            ("start=0", None),
            ("start=", None),
            ("start=-1", None),
            ("start=+1", None),
            ("start=1.5", None),
            ("start=99999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(start(args.as_bytes()), want, "{args}");
        }
    }

    #[test]
    fn only_locations_that_say_so_have_the_handler() {
        let text = "server { location /a { flv; location /a/b { } } location /c { mp4; } location /d { } }";
        let locations = http(text).unwrap().locations;
        let handlers: Vec<_> =
            locations.iter().map(|l| l.plan.content_chain.iter().any(|(order, _)| *order == 5)).collect();
        assert_eq!(handlers, [false, true, false, true, false]);
    }
}
