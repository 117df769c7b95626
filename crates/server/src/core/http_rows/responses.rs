//! What responses carry, and how fast they leave.

use crate::conf::cx::Cx;
use crate::core::http_conf::{CoreConf, IfModifiedSince, Rate, ServerTokens};
use crate::core::simple::extend;
use crate::directive::directive;
use crate::module::Row;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};

const HSL: Context = Context::HSL;
const HSLI: Context = Context::HSLI;

/// The words of `server_tokens`.
const SERVER_TOKENS: [(&str, ServerTokens); 3] =
    [("off", ServerTokens::Off), ("on", ServerTokens::On), ("build", ServerTokens::Build)];

/// The words of `if_modified_since`.
const IF_MODIFIED_SINCE: [(&str, IfModifiedSince); 3] =
    [("off", IfModifiedSince::Off), ("exact", IfModifiedSince::Exact), ("before", IfModifiedSince::Before)];

/// Rows about responses.
pub const ROWS: &[Row] = &[
    // RFC 9110 §10.2.2 allows both. `off` is for servers behind a proxy that cannot know the scheme and port that clients see.
    directive("absolute_redirect")
        .doc("Whether redirects made by the server carry scheme and host.")
        .in_(HSL)
        .takes_flag()
        .default("on")
        .example("absolute_redirect off;")
        .sets(|cx, on| cx.conf::<CoreConf>().absolute_redirect = on),
    // Off where clients reach the server by another port, through a proxy or a mapping of ports.
    directive("port_in_redirect")
        .doc("Whether absolute redirects carry the port.")
        .in_(HSL)
        .takes_flag()
        .default("on")
        .example("port_in_redirect off;")
        .sets(|cx, on| cx.conf::<CoreConf>().port_in_redirect = on),
    // Off: the host that the client used is sure to lead back here, while a `server_name` may be a pattern or a name of the inside only.
    directive("server_name_in_redirect")
        .doc("Whether absolute redirects use the first server_name instead of the request's host.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .example("server_name_in_redirect on;")
        .sets(|cx, on| cx.conf::<CoreConf>().server_name_in_redirect = on),
    // The version helps an attacker to choose. It is on as in nginx, so that a site that is moved looks the
    // same.
    directive("server_tokens")
        .doc("What the Server header and error pages say: on (with version), off, build.")
        .in_(HSL)
        .takes_one_of(&SERVER_TOKENS)
        .default("on")
        .example("server_tokens off;")
        .set(|cx, d| {
            cx.conf::<CoreConf>().server_tokens = value::choice(d.arg(0), &SERVER_TOKENS)?;
            Ok(())
        }),
    // RFC 9112 §6.1 forbids chunks for HTTP/1.0; with `off` HTTP/1.1 clients are treated alike, which some broken ones need.
    directive("chunked_transfer_encoding")
        .doc("Whether responses of unknown length to HTTP/1.1 clients are chunked; off ends them by closing.")
        .in_(HSL)
        .takes_flag()
        .default("on")
        .example("chunked_transfer_encoding off;")
        .sets(|cx, on| cx.conf::<CoreConf>().chunked_transfer_encoding = on),
    // Of modification time and size, as nginx writes it, so that caches stay valid where one replaces the other.
    directive("etag")
        .doc("Whether files get an ETag.")
        .in_(HSL)
        .takes_flag()
        .default("on")
        .example("etag off;")
        .sets(|cx, on| cx.conf::<CoreConf>().etag = on),
    // `exact`, since clients send back the very date that they were given; a file that was put back from a backup is older, and another one.
    directive("if_modified_since")
        .doc("How If-Modified-Since is compared: off, exact, or before (not older).")
        .in_(HSL)
        .takes_one_of(&IF_MODIFIED_SINCE)
        .default("exact")
        .example("if_modified_since before;")
        .set(|cx, d| {
            cx.conf::<CoreConf>().if_modified_since = value::choice(d.arg(0), &IF_MODIFIED_SINCE)?;
            Ok(())
        }),
    // Many small overlapping ranges of a large file are an attack (CVE-2011-3192). Without a limit here ranges
    // that sum up to more than the file are still ignored, as in nginx.
    directive("max_ranges")
        .doc("Most ranges in a request; with more the whole file is sent. 0 turns ranges off.")
        .in_(HSL)
        .takes_number()
        .unit("ranges")
        .default_told("no limit")
        .risk(Risk::Security)
        .example("max_ranges 10;")
        .sets(|cx, count| cx.conf::<CoreConf>().max_ranges = Some(count as usize)),
    // MSIE of long ago took no redirect without a refresh. It reads `User-Agent`, which is recorded.
    directive("msie_refresh")
        .doc("Whether MSIE gets pages that refresh to the target instead of redirects.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .example("msie_refresh on;")
        .sets(|cx, on| cx.conf::<CoreConf>().msie_refresh = on),
    // Per response and not per client: two connections get twice as much. `limit_conn` is for that.
    directive("limit_rate")
        .doc("Bytes per second to one client connection; 0 is without limit. May contain variables.")
        .in_(HSLI)
        .takes("RATE")
        .default("0")
        .example("limit_rate 500k;")
        .set(|cx, d| {
            let rate = rate(cx, d)?;
            cx.conf::<CoreConf>().limit_rate = rate;
            Ok(())
        }),
    // The first part of a video is to come at once, the rest at the rate at which it is watched.
    directive("limit_rate_after")
        .doc("Bytes that are sent before limit_rate applies.")
        .in_(HSLI)
        .takes("SIZE | $VARIABLE")
        .default("0")
        .example("limit_rate_after 10m;")
        .set(|cx, d| {
            let rate = rate(cx, d)?;
            cx.conf::<CoreConf>().limit_rate_after = rate;
            Ok(())
        }),
    // A value is held in memory as a whole, unlike the body of an included page, which is passed on in pieces.
    directive("subrequest_output_buffer_size")
        .doc("The longest answer of a subrequest that may become a variable's value (SSI's include with set).")
        .in_(HSL)
        .takes_size()
        .default("4k")
        .risk(Risk::Resource)
        .example("subrequest_output_buffer_size 64k;")
        .sets(|cx, bytes| cx.conf::<CoreConf>().subrequest_output_buffer_size = bytes),
    // A condition and not a flag, as nginx has it: clients of HTTP/1.1 exist that take a 103 for the answer (RFC 8297 §3), so it is usually
    // `$http2`, or a map of browsers.
    directive("early_hints")
        .doc("Who gets 103 (Early Hints) responses, from back ends and from early_hints_add and early_hints_learn: requests for which any of the given values is neither empty nor 0.")
        .in_(HSL)
        .arity(Arity::SOME)
        .takes("VALUE ...")
        .many()
        .example("early_hints $http2;")
        .set(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            let is_first = cx.first;
            extend(&mut cx.conf::<CoreConf>().early_hints, is_first, list);
            Ok(())
        }),
    // They are sent only to requests that wait: in front of an answer that is there they would only delay it.
    directive("early_hints_add")
        .doc("Values of Link fields, such as \"</style.css>; rel=preload; as=style\", that are sent in a 103 response when a request must wait for its answer, to those whom early_hints names. An answer that is there at once has no hints.")
        .in_(HSL)
        .arity(Arity::SOME)
        .takes("VALUE ...")
        .many()
        .example("early_hints_add \"</style.css>; rel=preload; as=style\";")
        .set(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            let first = cx.first;
            let conf = cx.conf::<CoreConf>();
            // The first directive of a block begins a new list, as with all lists.
            let before = if first { &[][..] } else { &conf.early_hints_add };
            conf.early_hints_add = before.iter().cloned().chain(list).collect();
            Ok(())
        }),
    // Only what is public is learned (`interim/learned.rs`): the links of one user's page could tell another one about it.
    directive("early_hints_learn")
        .doc("Remembers the Link fields (preload, preconnect) of the last response of each URI that is not private, and sends them as early_hints_add does.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .example("early_hints_learn on;")
        .sets(|cx, on| cx.conf::<CoreConf>().early_hints_learn = on),
];

fn rate(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Rate, Diag> {
    let template = cx.template(d.arg(0))?;
    if template.is_literal() { value::size(d.arg(0)).map(Rate::Bytes) } else { Ok(Rate::Template(template)) }
}
