//! What responses carry, and how fast they leave.

use crate::conf::Cx;
use crate::core::http_conf::{CoreConf, IfModifiedSince, Rate, ServerTokens};
use crate::core::simple::extend;
use crate::module::{Row, Set};
use crate::{row, simple};
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};

const HSL: Context = Context::HSL;
const HSLI: Context = Context::HSLI;

pub const ROWS: &[Row] = &[
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
    simple!(
        CoreConf,
        flag,
        "chunked_transfer_encoding",
        chunked_transfer_encoding,
        HSL,
        "on",
        "Whether responses of unknown length to HTTP/1.1 clients are chunked; off ends them by closing."
    ),
    simple!(CoreConf, flag, "etag", etag, HSL, "on", "Whether files get an ETag."),
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
    simple!(
        CoreConf,
        flag,
        "msie_refresh",
        msie_refresh,
        HSL,
        "off",
        "Whether MSIE gets pages that refresh to the target instead of redirects."
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
    simple!(
        CoreConf,
        size,
        "subrequest_output_buffer_size",
        subrequest_output_buffer_size,
        HSL,
        "4k",
        "The longest answer of a subrequest that may become a variable's value (SSI's include with set)."
    ),
    row!(
        "early_hints",
        HSL,
        Arity::SOME,
        D::Nothing,
        Replace,
        true,
        "Who gets 103 (Early Hints) responses, from back ends and from early_hints_add and early_hints_learn: requests for which any of the given values is neither empty nor 0.",
        Set::Simple(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            let is_first = cx.first;
            extend(&mut cx.conf::<CoreConf>().early_hints, is_first, list);
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
];

fn rate(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Rate, Diag> {
    let template = cx.template(d.arg(0))?;
    if template.is_literal() { value::size(d.arg(0)).map(Rate::Bytes) } else { Ok(Rate::Template(template)) }
}
