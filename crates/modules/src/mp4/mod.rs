//! `ngx_http_mp4_module`: a part of an MP4 file, by time, as a file of its own.
//!
//! `?start=` and `?end=` are seconds. The tables in front of the samples are read, cut and written anew; the samples
//! themselves are sent from the file. Tables are strangers' bytes: see [`atoms`] for what holds for them.

mod atoms;
mod movie;
#[cfg(test)]
mod tests;
mod track;

pub use movie::fuzz;

use crate::own_handler::{self, OwnHandler};
use crate::static_files;
use brisk_conf::{Context, Risk};
use brisk_http::Method;
use brisk_net::blocking;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::files::{Found, OpenFile};
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row};
use brisk_server::path;
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece};
use brisk_server::rlog;
use brisk_server::vars::builtin::find_arg;
use movie::{Cut, Movie, Source, Wanted};
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "mp4",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    own_handler::row::<Settings>(
        "mp4",
        "Sends parts of MP4 files that the arguments start and end name in seconds, as files of their own.",
        "mp4;",
    ),
    directive("mp4_buffer_size")
        .doc("How much of a file is read at a time; tables up to this size are always taken.")
        .in_(Context::HSL)
        .takes_size()
        .default("512k")
        .risk(Risk::Resource)
        .example("mp4_buffer_size 1m;")
        .sets(|cx, bytes| cx.conf::<Conf>().settings.buffer_size = bytes),
    // Tables are in memory as a whole while they are cut, and a file may name any size of them.
    directive("mp4_max_buffer_size")
        .doc("How large a file's tables (its moov atom) may be; parts of others are refused.")
        .in_(Context::HSL)
        .takes_size()
        .default("10m")
        .risk(Risk::Resource)
        .example("mp4_max_buffer_size 20m;")
        .sets(|cx, bytes| cx.conf::<Conf>().settings.max_buffer_size = bytes),
    directive("mp4_start_key_frame")
        .doc("Whether a part begins with the key frame before its start; players that know edit lists hide what is too early.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("mp4_start_key_frame on;")
        .sets(|cx, on| cx.conf::<Conf>().settings.start_key_frame = on),
];

#[derive(Clone, Default)]
struct Settings {
    buffer_size: u64,
    max_buffer_size: u64,
    start_key_frame: bool,
}

type Conf = OwnHandler<Settings>;

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.shared::<Conf>();
    if conf.is_on {
        // Before the handler of files: that would send the whole file whatever the arguments say.
        plan.add_content(5, Arc::new(move |r: &mut Request| handle(&conf.settings, r)));
    }
}

fn handle(conf: &Settings, r: &mut Request) -> Flow {
    if !matches!(r.route.method, Method::Get | Method::Head) {
        return Flow::Status(405);
    }
    // Without a part the handler of files answers, which knows ranges, caches and prepared answers.
    let Some((start_ms, length_ms)) = times(&r.route.args).filter(|_| !r.route.uri.ends_with(b"/")) else {
        // A whole file is one as any other.
        return Flow::Next;
    };
    let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
    let symlinks = path::symlinks(r, &mapped);
    let file = match r.open_file(mapped.path(), symlinks) {
        Ok(Found::File(file)) => file,
        Ok(_) => return Flow::Next,
        Err(flow) => return flow,
    };
    let source = match (file.bytes(), &file.fd) {
        (Some(content), _) => Source::Memory(content.clone()),
        // The pool reads while the thread's cache may drop the file: the job has a descriptor of its own. It
        // shares no offset with others: reads name theirs.
        (None, Some(fd)) => match rustix::io::fcntl_dupfd_cloexec(fd, 0) {
            Ok(fd) => Source::File { fd, size: file.info.size },
            Err(error) => {
                rlog!(r, Crit, "dup() \"{}\" failed ({error})", mapped.path().display());
                return Flow::Status(500);
            }
        },
        // An empty file has neither.
        (None, None) => Source::Memory(Arc::from([])),
    };
    let wanted = Wanted {
        start_ms,
        length_ms,
        key_frame: conf.start_key_frame,
        read_bytes: conf.buffer_size,
        // As nginx: what fits into the buffer is taken even if `mp4_max_buffer_size` is smaller.
        tables_bytes_max: conf.max_buffer_size.max(conf.buffer_size),
    };
    let name = mapped.path().display().to_string();
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            // Tables of a long film are megabytes, to be read and rewritten: on the event loop that would hold
            // up all other connections.
            let result = match blocking::run(move || movie::cut(&source, &wanted)) {
                Ok(done) => done.await,
                // Refused, not queued without bound: each waiting job would hold a descriptor.
                Err(blocking::QueueFull) => return Flow::Status(503),
            };
            match result {
                Ok(Movie::Whole) => {
                    static_files::respond_with(r, file);
                    Flow::Done
                }
                Ok(Movie::Part(cut)) => respond(r, file, cut),
                Err(error) => {
                    rlog!(r, Error, "{error} in \"{name}\"");
                    Flow::Status(500)
                }
            }
        })
    }))
}

fn respond(r: &mut Request, file: Rc<OpenFile>, cut: Cut) -> Flow {
    // The new tables live until the client has taken them: they count as its connection's memory.
    r.client.also_holds(cut.head.len());
    static_files::respond_with(r, file.clone());
    r.resp.content_length = Some(cut.head.len() as u64 + (cut.samples.end - cut.samples.start));
    r.resp.body = Body::Many(vec![Piece::Bytes(cut.head.into()), Piece::File { file, range: cut.samples }]);
    Flow::Done
}

/// Milliseconds from the beginning, and of the part, 0 up to the end; `None` if the arguments name no part.
fn times(args: &[u8]) -> Option<(u64, u64)> {
    let start = find_arg(args, b"start").and_then(milliseconds);
    // `end=0` is no end, as in nginx.
    let end = find_arg(args, b"end").and_then(milliseconds).filter(|end| *end > 0);
    let begin = match (start, end) {
        (None, None) => return None,
        (start, _) => start.unwrap_or(0),
    };
    // An end at or before the start leaves 0, which is "up to the end", as in nginx.
    Some((begin, end.map_or(0, |end| end.saturating_sub(begin))))
}

/// Seconds with a fraction of any length; what is finer than milliseconds does not count.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let are_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if text.is_empty() || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let digits = whole.iter().copied().chain(fraction.iter().copied().chain([b'0'; 3]).take(3));
    let add = |value: u64, digit: u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    // Three digits of the fraction are taken into one number, so nothing is rounded; too many digits overflow
    // to "no part".
    digits.into_iter().try_fold(0, add).filter(|value| i64::try_from(*value).is_ok())
}
