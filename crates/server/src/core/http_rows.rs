//! Directives of `http`, `server` and `location` that set one thing.

use super::http_conf::{
    Aio, BodyFile, CoreConf, FileCacheConf, IfModifiedSince, LingeringClose, Rate, Satisfy, ServerTokens,
    Symlinks, TempPath,
};
use super::{listen, location_rows, resolver, types};
use crate::conf::{Cx, invalid_parameter, invalid_value};
use crate::module::{Row, Set};
use crate::{ignored, row, simple};
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};
use std::sync::Arc;
use std::time::Duration;

const HSL: Context = Context::HSL;
const HS: Context = Context::HS;
const HSLI: Context = Context::HSLI;
const HTTP: Context = Context::HTTP;

pub static ROWS: &[Row] = &[
    row!(
        "http",
        Context::MAIN,
        Arity::NONE.block(),
        D::Nothing,
        Definition,
        false,
        "Holds the configuration of the HTTP server.",
        Set::Block(location_rows::http)
    ),
    row!(
        "server",
        HTTP,
        Arity::NONE.block(),
        D::Nothing,
        Definition,
        true,
        "A virtual server: addresses in listen, names in server_name.",
        Set::Block(location_rows::server)
    ),
    row!(
        "location",
        Context::SERVER.or(Context::LOCATION),
        Arity::between(1, 2).block(),
        D::Nothing,
        Definition,
        true,
        "Configuration for request URIs: a prefix, an exact URI (=), a prefix that keeps regular expressions out (^~), a regular expression (~, ~* without regard to case) or a name (@).",
        Set::Block(location_rows::location)
    ),
    row!(
        "limit_except",
        Context::LOCATION,
        Arity::SOME.block(),
        D::Nothing,
        No,
        false,
        "Directives (access rules) for all methods but the named ones. GET implies HEAD.",
        Set::Block(location_rows::limit_except)
    ),
    row!(
        "listen",
        Context::SERVER,
        Arity::SOME,
        D::Told("*:80 | *:8000"),
        Definition,
        true,
        "An address, port or unix socket on which the server answers, with socket options. Port 8000 is the default without root's rights.",
        Set::Simple(listen::set)
    ),
    row!(
        "server_name",
        Context::SERVER,
        Arity::SOME,
        D::Value("\"\""),
        Replace,
        true,
        "Names of the server: exact, with * at the start or end, or a regular expression after ~.",
        Set::Simple(location_rows::server_name)
    ),
    row!(
        "root",
        HSLI,
        Arity::ONE,
        D::Value("html"),
        Replace,
        false,
        "The folder in which files for requests are; the URI is appended. May contain variables.",
        Set::Simple(location_rows::root)
    ),
    row!(
        "alias",
        Context::LOCATION,
        Arity::ONE,
        D::Nothing,
        Replace,
        false,
        "Replaces the location's part of the URI by a path. Unlike nginx, a prefix location without final slash whose alias has one does not serve what lies beside the folder.",
        Set::Simple(location_rows::alias)
    ),
    row!(
        "error_page",
        HSLI,
        Arity::at_least(2),
        D::Nothing,
        Replace,
        true,
        "The URI or named location that answers for the given status codes, with =code to change the code.",
        Set::Simple(location_rows::error_page)
    ),
    row!(
        "error_log",
        HSL.or(Context::MAIN),
        Arity::SOME,
        D::Told("logs/error.log error"),
        Replace,
        true,
        "A file, stderr or syslog:server=ADDRESS[,facility=…][,tag=…][,nohostname] for messages from the given level up: debug, info, notice, warn, error, crit, alert, emerg. format=json writes an object per line, format=color nginx's lines with colours for a terminal.",
        Set::Simple(location_rows::error_log)
    ),
    row!(
        "types",
        HSL,
        Arity::NONE.block(),
        D::Told("text/html html; image/gif gif; image/jpeg jpg;"),
        Replace,
        true,
        "Media types by file extension.",
        Set::Simple(types::set)
    ),
    row!(
        "default_type",
        HSL,
        Arity::ONE,
        D::Value("text/plain"),
        Replace,
        false,
        "The media type of files whose extension is not in types.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().default_type = d.arg(0).bytes().into();
            Ok(())
        })
    ),
    row!(
        "internal",
        Context::LOCATION,
        Arity::NONE,
        D::Nothing,
        No,
        false,
        "The location answers only internal redirects and subrequests; others get 404.",
        Set::Simple(|cx, _| {
            cx.conf::<CoreConf>().internal = true;
            Ok(())
        })
    ),
    simple!(
        CoreConf,
        flag,
        "absolute_redirect",
        absolute_redirect,
        HSL,
        "on",
        "Whether redirects made by the server carry scheme and host."
    ),
    simple!(
        CoreConf,
        flag,
        "port_in_redirect",
        port_in_redirect,
        HSL,
        "on",
        "Whether absolute redirects carry the port."
    ),
    simple!(
        CoreConf,
        flag,
        "server_name_in_redirect",
        server_name_in_redirect,
        HSL,
        "off",
        "Whether absolute redirects use the first server_name instead of the request's host."
    ),
    simple!(
        CoreConf,
        flag,
        "chunked_transfer_encoding",
        chunked_transfer_encoding,
        HSL,
        "on",
        "Whether responses of unknown length to HTTP/1.1 clients are chunked; off ends them by closing."
    ),
    simple!(
        CoreConf,
        size,
        "client_body_buffer_size",
        client_body_buffer_size,
        HSL,
        "16k",
        "Bytes of a request body held in memory before it goes to a temporary file."
    ),
    simple!(
        CoreConf,
        msec,
        "client_body_timeout",
        client_body_timeout,
        HSL,
        "60s",
        "Longest pause between two reads of a request body; then 408."
    ),
    simple!(
        CoreConf,
        size,
        "client_header_buffer_size",
        client_header_buffer_size,
        HS,
        "1k",
        "First buffer for a request head."
    ),
    simple!(
        CoreConf,
        msec,
        "client_header_timeout",
        client_header_timeout,
        HS,
        "60s",
        "Time in which a whole request head must arrive; then 408."
    ),
    simple!(
        CoreConf,
        offset,
        "client_max_body_size",
        client_max_body_size,
        HSL,
        "1m",
        "Largest request body; larger ones get 413. 0 is without limit."
    ),
    simple!(CoreConf, flag, "etag", etag, HSL, "on", "Whether files get an ETag."),
    simple!(
        CoreConf,
        flag,
        "ignore_invalid_headers",
        ignore_invalid_headers,
        HS,
        "on",
        "Whether header fields with invalid names are dropped; off answers them with 400."
    ),
    simple!(
        CoreConf,
        flag,
        "log_not_found",
        log_not_found,
        HSL,
        "on",
        "Whether missing files are logged as errors."
    ),
    simple!(
        CoreConf,
        flag,
        "log_subrequest",
        log_subrequest,
        HSL,
        "off",
        "Whether subrequests are in the access log."
    ),
    simple!(
        CoreConf,
        size,
        "subrequest_output_buffer_size",
        subrequest_output_buffer_size,
        HSL,
        "4k",
        "The longest answer of a subrequest that may become a variable's value (SSI's include with set)."
    ),
    simple!(
        CoreConf,
        number,
        "max_headers",
        max_headers,
        HS,
        "1000",
        "Most header fields in a request; more get 400."
    ),
    simple!(
        CoreConf,
        flag,
        "merge_slashes",
        merge_slashes,
        HS,
        "on",
        "Whether several slashes in a URI count as one."
    ),
    simple!(
        CoreConf,
        flag,
        "msie_refresh",
        msie_refresh,
        HSL,
        "off",
        "Whether MSIE gets pages that refresh to the target instead of redirects."
    ),
    simple!(
        CoreConf,
        flag,
        "recursive_error_pages",
        recursive_error_pages,
        HSL,
        "off",
        "Whether an error page that fails may lead to another one."
    ),
    simple!(
        CoreConf,
        flag,
        "reset_timedout_connection",
        reset_timedout_connection,
        HSL,
        "off",
        "Whether timed-out connections are reset, which frees their memory in the kernel at once."
    ),
    row!(
        "resolver",
        HSL,
        Arity::SOME,
        D::Nothing,
        Replace,
        false,
        "Name servers (address, with a port if it is not 53) that are asked in turn for names that are known only at run time. valid= overrides how long answers are kept; ipv4=off and ipv6=off leave out a family. All threads share one cache.",
        Set::Simple(resolver::set)
    ),
    simple!(
        CoreConf,
        msec,
        "resolver_timeout",
        resolver_timeout,
        HSL,
        "30s",
        "How long a name may take to be looked up."
    ),
    simple!(
        CoreConf,
        msec,
        "send_timeout",
        send_timeout,
        HSL,
        "60s",
        "Longest pause between two writes of a response."
    ),
    simple!(
        CoreConf,
        flag,
        "tcp_nodelay",
        tcp_nodelay,
        HSL,
        "on",
        "Whether small packets leave at once on kept-alive connections."
    ),
    simple!(
        CoreConf,
        flag,
        "tcp_nopush",
        tcp_nopush,
        HSL,
        "off",
        "Whether the head and the start of a file go into one packet when sendfile is used."
    ),
    simple!(
        CoreConf,
        flag,
        "underscores_in_headers",
        underscores_in_headers,
        HS,
        "off",
        "Whether underscores are valid in names of header fields."
    ),
    simple!(
        CoreConf,
        flag,
        "sendfile",
        sendfile,
        HSLI,
        "off",
        "Whether large files are sent by sendfile(2) instead of being read into memory."
    ),
    simple!(
        CoreConf,
        offset,
        "sendfile_max_chunk",
        sendfile_max_chunk,
        HSL,
        "2m",
        "Most bytes of one sendfile call, so that a fast client cannot occupy a thread; 0 is without limit."
    ),
    simple!(
        CoreConf,
        number,
        "keepalive_requests",
        keepalive_requests,
        HSL,
        "1000",
        "Requests on one connection before it is closed."
    ),
    simple!(
        CoreConf,
        msec,
        "keepalive_time",
        keepalive_time,
        HSL,
        "1h",
        "Age of a connection after which its next response is its last."
    ),
    simple!(
        CoreConf,
        msec,
        "keepalive_min_timeout",
        keepalive_min_timeout,
        HSL,
        "0",
        "Time during which an idle connection is not closed by a graceful stop."
    ),
    simple!(
        CoreConf,
        msec,
        "auth_delay",
        auth_delay,
        HSL,
        "0",
        "Delays answers with 401, against guessing of passwords by timing."
    ),
    simple!(
        CoreConf,
        msec,
        "lingering_time",
        lingering_time,
        HSL,
        "30s",
        "How long data of a client is read and dropped before its connection is closed."
    ),
    simple!(
        CoreConf,
        msec,
        "lingering_timeout",
        lingering_timeout,
        HSL,
        "5s",
        "Longest pause between two pieces of such data."
    ),
    simple!(
        CoreConf,
        flag,
        "client_body_in_single_buffer",
        client_body_in_single_buffer,
        HSL,
        "off",
        "Accepted: a request body in memory is always in one piece."
    ),
    row!(
        "client_body_in_file_only",
        HSL,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "Whether request bodies that a handler reads go to files: on keeps the files, clean removes them with the request.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().client_body_in_file_only = value::choice(
                d.arg(0),
                &[("off", BodyFile::Off), ("on", BodyFile::Keep), ("clean", BodyFile::Clean)],
            )?;
            Ok(())
        })
    ),
    row!(
        "client_body_temp_path",
        HSL,
        Arity::between(1, 4),
        D::Told("client_body_temp"),
        Replace,
        false,
        "The folder for request bodies that are too large for memory, with up to three levels of subfolders.",
        Set::Simple(client_body_temp_path)
    ),
    row!(
        "client_body_early_read",
        HS,
        Arity::SOME,
        D::Nothing,
        Replace,
        false,
        "Reads the request body before the request is handled, if any of the given values is neither empty nor 0.",
        Set::Simple(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            cx.reads_bodies();
            cx.conf::<CoreConf>().client_body_early_read = list.into();
            Ok(())
        })
    ),
    row!(
        "early_hints",
        HSL,
        Arity::SOME,
        D::Nothing,
        Replace,
        false,
        "Who gets 103 (Early Hints) responses, from back ends and from early_hints_add and early_hints_learn: requests for which any of the given values is neither empty nor 0.",
        Set::Simple(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            cx.conf::<CoreConf>().early_hints = list.into();
            Ok(())
        })
    ),
    row!(
        "early_hints_add",
        HSL,
        Arity::SOME,
        D::Nothing,
        Replace,
        true,
        "Values of Link fields, such as \"</style.css>; rel=preload; as=style\", that are sent in a 103 response when a request must wait for its answer, to those whom early_hints names. An answer that is there at once has no hints.",
        Set::Simple(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            let first = cx.first;
            let conf = cx.conf::<CoreConf>();
            let before = if first { &[][..] } else { &conf.early_hints_add };
            conf.early_hints_add = before.iter().cloned().chain(list).collect();
            Ok(())
        })
    ),
    simple!(
        CoreConf,
        flag,
        "early_hints_learn",
        early_hints_learn,
        HSL,
        "off",
        "Remembers the Link fields (preload, preconnect) of the last response of each URI that is not private, and sends them as early_hints_add does."
    ),
    row!(
        "lingering_close",
        HSL,
        Arity::ONE,
        D::Value("on"),
        Replace,
        false,
        "Whether a closing connection waits for data the client still sends (on: if there may be some), so that it gets the response.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().lingering_close = value::choice(
                d.arg(0),
                &[
                    ("off", LingeringClose::Off),
                    ("on", LingeringClose::On),
                    ("always", LingeringClose::Always),
                ],
            )?;
            Ok(())
        })
    ),
    row!(
        "keepalive_timeout",
        HSL,
        Arity::between(1, 2),
        D::Value("75s"),
        Replace,
        false,
        "How long an idle connection stays open; 0 turns keep-alive off. The second value is told to clients in a Keep-Alive header.",
        Set::Simple(|cx, d| {
            let timeout = value::msec(d.arg(0))?;
            let header = d.args.get(1).map(value::seconds).transpose()?;
            let conf = cx.conf::<CoreConf>();
            conf.keepalive_timeout = timeout;
            conf.keepalive_header = header;
            Ok(())
        })
    ),
    row!(
        "keepalive_disable",
        HSL,
        Arity::between(1, 2),
        D::Value("msie6"),
        Replace,
        false,
        "Browsers that get no keep-alive: none, msie6 (after POST), safari.",
        Set::Simple(keepalive_disable)
    ),
    row!(
        "large_client_header_buffers",
        HS,
        Arity::TWO,
        D::Value("4 8k"),
        Replace,
        false,
        "Number and size of the buffers for long request heads: a longer request line gets 414, a longer header field 400.",
        Set::Simple(|cx, d| {
            let (number, size) = (value::number(d.arg(0))?, value::size(d.arg(1))?);
            if number == 0 || size == 0 {
                return Err(Diag::reason(d.span, "invalid value").help("both must be at least 1"));
            }
            cx.conf::<CoreConf>().large_client_header_buffers = (number, size);
            Ok(())
        })
    ),
    row!(
        "max_ranges",
        HSL,
        Arity::ONE,
        D::Told("no limit"),
        Replace,
        false,
        "Most ranges in a request; with more the whole file is sent. 0 turns ranges off.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().max_ranges = value::number(d.arg(0))? as usize;
            Ok(())
        })
    ),
    row!(
        "if_modified_since",
        HSL,
        Arity::ONE,
        D::Value("exact"),
        Replace,
        false,
        "How If-Modified-Since is compared: off, exact, or before (not older).",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().if_modified_since = value::choice(
                d.arg(0),
                &[
                    ("off", IfModifiedSince::Off),
                    ("exact", IfModifiedSince::Exact),
                    ("before", IfModifiedSince::Before),
                ],
            )?;
            Ok(())
        })
    ),
    row!(
        "server_tokens",
        HSL,
        Arity::ONE,
        D::Value("on"),
        Replace,
        false,
        "What the Server header and error pages say: on (with version), off, build.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().server_tokens = value::choice(
                d.arg(0),
                &[("off", ServerTokens::Off), ("on", ServerTokens::On), ("build", ServerTokens::Build)],
            )?;
            Ok(())
        })
    ),
    row!(
        "satisfy",
        HSL,
        Arity::ONE,
        D::Value("all"),
        Replace,
        false,
        "Whether all access modules must agree, or any one is enough.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().satisfy =
                value::choice(d.arg(0), &[("all", Satisfy::All), ("any", Satisfy::Any)])?;
            Ok(())
        })
    ),
    row!(
        "limit_rate",
        HSLI,
        Arity::ONE,
        D::Value("0"),
        Replace,
        false,
        "Bytes per second to one client connection; 0 is without limit. May contain variables.",
        Set::Simple(|cx, d| {
            let rate = rate(cx, d)?;
            cx.conf::<CoreConf>().limit_rate = rate;
            Ok(())
        })
    ),
    row!(
        "limit_rate_after",
        HSLI,
        Arity::ONE,
        D::Value("0"),
        Replace,
        false,
        "Bytes that are sent before limit_rate applies.",
        Set::Simple(|cx, d| {
            let rate = rate(cx, d)?;
            cx.conf::<CoreConf>().limit_rate_after = rate;
            Ok(())
        })
    ),
    row!(
        "aio",
        HSL,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "Accepted: files that are not in memory are always read by a pool of threads.",
        Set::Simple(|cx, d| {
            let text = d.arg(0).str();
            cx.conf::<CoreConf>().aio = match text {
                "off" => Aio::Off,
                "on" | "threads" => Aio::On,
                _ if text.starts_with("threads=") => Aio::On,
                _ => {
                    return Err(Diag::reason(d.arg(0).span, "invalid value")
                        .help("it must be on, off, threads or threads=POOL"));
                }
            };
            Ok(())
        })
    ),
    row!(
        "directio",
        HSL,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "Accepted: size from which nginx bypasses the page cache. Brisk reads such files through its pool like others.",
        Set::Simple(|cx, d| {
            let size = if d.arg(0).str() == "off" { None } else { Some(value::offset(d.arg(0))?) };
            cx.conf::<CoreConf>().directio = size;
            Ok(())
        })
    ),
    row!(
        "disable_symlinks",
        HSL,
        Arity::between(1, 2),
        D::Value("off"),
        Replace,
        false,
        "Refuses symbolic links in paths of files: on, if_not_owner, with from= a part of the path that is trusted.",
        Set::Simple(disable_symlinks)
    ),
    row!(
        "open_file_cache",
        HSL,
        Arity::between(1, 2),
        D::Value("off"),
        Replace,
        false,
        "Bounds the cache of open files (max=, inactive=). The cache is always there and always coherent: a changed file is served as it is by the next request.",
        Set::Simple(open_file_cache)
    ),
    row!(
        "open_file_cache_valid",
        HSL,
        Arity::ONE,
        D::Value("60"),
        Replace,
        false,
        "Seconds after which a file is looked at again where changes cannot be watched (network file systems).",
        Set::Simple(|cx, d| {
            let valid = Duration::from_secs(value::seconds(d.arg(0))?);
            file_cache(cx).valid = valid;
            Ok(())
        })
    ),
    row!(
        "open_file_cache_min_uses",
        HSL,
        Arity::ONE,
        D::Value("1"),
        Replace,
        false,
        "Uses within the inactive time for a file to stay open.",
        Set::Simple(|cx, d| {
            let uses = value::number(d.arg(0))?;
            file_cache(cx).min_uses = uses;
            Ok(())
        })
    ),
    row!(
        "open_file_cache_errors",
        HSL,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "Whether look-ups of missing files are kept where changes cannot be watched.",
        Set::Simple(|cx, d| {
            let on = value::flag("open_file_cache_errors", d.arg(0))?;
            file_cache(cx).errors = on;
            Ok(())
        })
    ),
    row!(
        "post_action",
        HSLI,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "A URI or named location that is run after each request, without the client seeing it.",
        Set::Simple(|cx, d| {
            let value = (d.arg(0).str() != "off").then(|| d.arg(0).bytes().into());
            cx.conf::<CoreConf>().post_action = value;
            Ok(())
        })
    ),
    ignored!(
        "open_file_cache_events",
        HSL,
        Arity::ONE,
        "Kernel events for the file cache.",
        "the file cache always follows the kernel's events"
    ),
    ignored!(
        "aio_write",
        HSL,
        Arity::ONE,
        "Asynchronous writing of temporary files.",
        "temporary files are always written by a pool of threads"
    ),
    ignored!("directio_alignment", HSL, Arity::ONE, "Alignment for directio.", "files are not read directly"),
    ignored!("read_ahead", HSL, Arity::ONE, "Read-ahead of the kernel.", "the kernel decides"),
    ignored!(
        "output_buffers",
        HSL,
        Arity::TWO,
        "Buffers for reading files.",
        "files are read as they are sent, at most 64k at a time"
    ),
    ignored!(
        "postpone_output",
        HSL,
        Arity::ONE,
        "Bytes collected before a response is sent.",
        "small responses leave in one write"
    ),
    ignored!("send_lowat", HSL, Arity::ONE, "A socket option of another system.", "Linux does not have it"),
    ignored!(
        "connection_pool_size",
        HS,
        Arity::ONE,
        "Memory per connection.",
        "memory is allocated as needed"
    ),
    ignored!("request_pool_size", HS, Arity::ONE, "Memory per request.", "memory is allocated as needed"),
    ignored!(
        "server_names_hash_bucket_size",
        HTTP,
        Arity::ONE,
        "Size of a hash bucket.",
        "hash tables size themselves"
    ),
    ignored!(
        "server_names_hash_max_size",
        HTTP,
        Arity::ONE,
        "Size of a hash table.",
        "hash tables size themselves"
    ),
    ignored!(
        "types_hash_bucket_size",
        HSL,
        Arity::ONE,
        "Size of a hash bucket.",
        "hash tables size themselves"
    ),
    ignored!("types_hash_max_size", HSL, Arity::ONE, "Size of a hash table.", "hash tables size themselves"),
    ignored!(
        "variables_hash_bucket_size",
        HTTP,
        Arity::ONE,
        "Size of a hash bucket.",
        "hash tables size themselves"
    ),
    ignored!(
        "variables_hash_max_size",
        HTTP,
        Arity::ONE,
        "Size of a hash table.",
        "hash tables size themselves"
    ),
    ignored!(
        "msie_padding",
        HSL,
        Arity::ONE,
        "Padding of error pages for MSIE.",
        "no browser in use needs it"
    ),
];

fn rate(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Rate, Diag> {
    let template = cx.template(d.arg(0))?;
    if template.is_literal() { value::size(d.arg(0)).map(Rate::Bytes) } else { Ok(Rate::Template(template)) }
}

fn file_cache<'c>(cx: &'c mut Cx<'_, '_>) -> &'c mut FileCacheConf {
    Arc::make_mut(&mut cx.conf::<CoreConf>().file_cache)
}

fn client_body_temp_path(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut levels = Vec::new();
    for token in &d.args[1..] {
        match value::number(token)? {
            level @ 1..=3 => levels.push(level as u8),
            _ => return Err(invalid_value(d, token, "from 1 to 3")),
        }
    }
    let path = cx.full_path(d.arg(0).str());
    cx.writes_into(path.as_ref());
    cx.conf::<CoreConf>().client_body_temp_path = Some(Arc::new(TempPath { path, levels }));
    Ok(())
}

fn keepalive_disable(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (mut msie6, mut safari) = (false, false);
    for token in &d.args {
        let (is_msie6, is_safari) = value::choice(
            token,
            &[("none", (false, false)), ("msie6", (true, false)), ("safari", (false, true))],
        )?;
        msie6 |= is_msie6;
        safari |= is_safari;
    }
    let conf = cx.conf::<CoreConf>();
    conf.keepalive_disable_msie6 = msie6;
    conf.keepalive_disable_safari = safari;
    Ok(())
}

fn disable_symlinks(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let from = match d.args.get(1) {
        Some(token) => {
            let text = token.bytes().strip_prefix(b"from=").ok_or_else(|| invalid_parameter(token))?.to_vec();
            Some(crate::vars::Template::parse_bytes(&mut cx.global.vars, &text, token)?)
        }
        None => None,
    };
    let value = match d.arg(0).str() {
        "off" => Symlinks::Follow,
        "on" => Symlinks::Refuse { from },
        "if_not_owner" => Symlinks::SameOwner { from },
        _ => return Err(invalid_parameter(d.arg(0)).help("it must be off, on or if_not_owner")),
    };
    cx.conf::<CoreConf>().symlinks = Arc::new(value);
    Ok(())
}

fn open_file_cache(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (mut max, mut inactive) = (None, Duration::from_mins(1));
    for token in &d.args {
        if token.str() == "off" {
            max = None;
        } else if let Some(text) = token.str().strip_prefix("max=") {
            max = Some(text.parse().ok().filter(|&n| n > 0).ok_or_else(|| invalid_parameter(token))?);
        } else if let Some(text) = token.str().strip_prefix("inactive=") {
            let secs = value::parse_time(text.as_bytes(), true).ok_or_else(|| invalid_parameter(token))?;
            inactive = Duration::from_secs(secs);
        } else {
            return Err(Diag::emerg(
                token.span,
                format!("invalid \"open_file_cache\" parameter \"{}\"", token.text()),
            )
            .help("write: open_file_cache max=N [inactive=TIME], or off"));
        }
    }
    if max.is_none() && d.arg(0).str() != "off" {
        return Err(Diag::emerg(d.span, "\"open_file_cache\" must have the \"max\" parameter"));
    }
    let conf = file_cache(cx);
    conf.max = max;
    conf.inactive = inactive;
    Ok(())
}
