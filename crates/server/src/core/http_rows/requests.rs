//! Heads and bodies of requests: how large, how long, where kept.

use crate::core::http_conf::{BodyFile, CoreConf};
use crate::core::simple::extend;
use crate::directive::directive;
use crate::module::Row;

use brisk_conf::{Arity, Context, Diag, Risk, value};

const HSL: Context = Context::HSL;
const HS: Context = Context::HS;

/// The words of `client_body_in_file_only`.
const BODY_FILES: [(&str, BodyFile); 3] =
    [("off", BodyFile::Off), ("on", BodyFile::Keep), ("clean", BodyFile::Clean)];

/// Rows about requests.
pub const ROWS: &[Row] = &[
    // No memory is taken by it: it is the first of the buffers by which nginx counts whether a head is too long, and so where 414 and
    // 400 begin (`http/src/head/limits.rs`).
    directive("client_header_buffer_size")
        .doc("First buffer for a request head.")
        .in_(HS)
        .takes_size()
        .default("1k")
        .risk(Risk::Resource)
        .example("client_header_buffer_size 2k;")
        .sets(|cx, bytes| cx.conf::<CoreConf>().client_header_buffer_size = bytes),
    // The product bounds a head, and so what a client can make the server keep before anything is known of it. Both parts are needed: one
    // line must fit one buffer.
    directive("large_client_header_buffers")
        .doc("Number and size of the buffers for long request heads: a longer request line gets 414, a longer header field 400.")
        .in_(HS)
        .arity(Arity::TWO)
        .takes("NUMBER SIZE")
        .default("4 8k")
        .risk(Risk::Security)
        .example("large_client_header_buffers 4 16k;")
        .set(|cx, d| {
            let (number, size) = (value::number(d.arg(0))?, value::size(d.arg(1))?);
            if number == 0 || size == 0 {
                // Zero buffers would refuse every request; nginx refuses the configuration instead.
                return Err(Diag::reason(d.span, "invalid value").help("both must be at least 1"));
            }
            cx.conf::<CoreConf>().large_client_header_buffers = (number, size);
            Ok(())
        }),
    // For the whole head and not between two reads, or a client that sends a byte a minute would hold its place for ever.
    directive("client_header_timeout")
        .doc("Time in which a whole request head must arrive; then 408.")
        .in_(HS)
        .takes_time()
        .default("60s")
        .risk(Risk::Security)
        .example("client_header_timeout 15s;")
        .sets(|cx, time| cx.conf::<CoreConf>().client_header_timeout = time),
    // Also what a prepared answer must not skip: the least number of all servers is asked for before one is given (`Unusual::fields_max`).
    directive("max_headers")
        .doc("Most header fields in a request; more get 400.")
        .in_(HS)
        .takes_number()
        .unit("header fields")
        .default("1000")
        .risk(Risk::Security)
        .example("max_headers 100;")
        .sets(|cx, count| cx.conf::<CoreConf>().max_headers = count),
    // Without a version and fields there is nothing that tells a request from bytes that another protocol or a broken client has sent.
    directive("allow_http09")
        .doc("Whether requests without a version (GET /path), which are HTTP/0.9, are served; off answers them with 400. They have no Host: the default server of a socket decides.")
        .in_(HS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("allow_http09 on;")
        .sets(|cx, on| cx.conf::<CoreConf>().allow_http09 = on),
    // Names that differ only in such bytes are one to many applications (CGI writes `-` and `_` alike), so a client could slip in a field
    // that a proxy is to set.
    directive("ignore_invalid_headers")
        .doc("Whether header fields are dropped whose names have more than letters, digits and hyphens (see underscores_in_headers). What is no token (brackets, bytes outside ASCII) gets 400 either way.")
        .in_(HS)
        .takes_flag()
        .default("on")
        .risk(Risk::Security)
        .example("ignore_invalid_headers off;")
        .sets(|cx, on| cx.conf::<CoreConf>().ignore_invalid_headers = on),
    // Off, as in nginx: CGI turns `-` and `_` into one character, so `X_Real_IP` would be a client's way to
    // write the field `X-Real-IP` that a proxy sets.
    directive("underscores_in_headers")
        .doc("Whether underscores are valid in names of header fields.")
        .in_(HS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("underscores_in_headers on;")
        .sets(|cx, on| cx.conf::<CoreConf>().underscores_in_headers = on),
    // Asked twice: at once where a length is told, and while a body comes that tells none. 413 closes the connection, since what follows is
    // still the body.
    directive("client_max_body_size")
        .doc("Largest request body; larger ones get 413. 0 is without limit.")
        .in_(HSL)
        .takes_offset()
        .default("1m")
        .risk(Risk::Security)
        .example("client_max_body_size 64m;")
        .sets(|cx, bytes| cx.conf::<CoreConf>().client_max_body_size = bytes),
    // Two pages, as nginx has it with 8k pages on 64-bit machines. What is beyond goes to a file, so memory per request is bounded by this.
    directive("client_body_buffer_size")
        .doc("Bytes of a request body held in memory before it goes to a temporary file.")
        .in_(HSL)
        .takes_size()
        .default("16k")
        .risk(Risk::Resource)
        .example("client_body_buffer_size 128k;")
        .sets(|cx, bytes| cx.conf::<CoreConf>().client_body_buffer_size = bytes),
    // Between two reads and not for the whole: a large upload over a slow line is no attack.
    directive("client_body_timeout")
        .doc("Longest pause between two reads of a request body; then 408.")
        .in_(HSL)
        .takes_time()
        .default("60s")
        .risk(Risk::Security)
        .example("client_body_timeout 15s;")
        .sets(|cx, time| cx.conf::<CoreConf>().client_body_timeout = time),
    // Kept in one buffer from its first byte on, so there is nothing to be put together.
    directive("client_body_in_single_buffer")
        .doc("Accepted: a request body in memory is always in one piece.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("client_body_in_single_buffer on;")
        .sets(|_, _| {}),
    // For applications that take a path. `on` keeps every file: removing them is somebody else's task, as in
    // nginx.
    directive("client_body_in_file_only")
        .doc("Whether request bodies that a handler reads go to files: on keeps the files, clean removes them with the request.")
        .in_(HSL)
        .takes_one_of(&BODY_FILES)
        .default("off")
        .risk(Risk::Resource)
        .example("client_body_in_file_only clean;")
        .set(|cx, d| {
            cx.conf::<CoreConf>().client_body_in_file_only = value::choice(d.arg(0), &BODY_FILES)?;
            Ok(())
        }),
    // Folders are made at the start by the master, as the worker's user (`Cx::temp_path` notes them).
    directive("client_body_temp_path")
        .doc("The folder for request bodies that are too large for memory, with up to three levels of subfolders.")
        .in_(HSL)
        .arity(Arity::between(1, 4))
        .takes("DIR [LEVEL [LEVEL [LEVEL]]]")
        .default_told("client_body_temp")
        .example("client_body_temp_path /var/lib/brisk/bodies 1 2;")
        .set(|cx, d| {
            cx.conf::<CoreConf>().client_body_temp_path = Some(cx.temp_path(d)?);
            Ok(())
        }),
    // In the server and not below: it is decided before a location is looked for.
    directive("client_body_early_read")
        .doc("Reads the request body before the request is handled, if any of the given values is neither empty nor 0.")
        .in_(HS)
        .arity(Arity::SOME)
        .takes("VALUE ...")
        .many()
        .example("client_body_early_read $http_x_upload;")
        .set(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            cx.reads_bodies();
            let is_first = cx.first;
            extend(&mut cx.conf::<CoreConf>().client_body_early_read, is_first, list);
            Ok(())
        }),
];
