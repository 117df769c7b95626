//! Heads and bodies of requests: how large, how long, where kept.

use crate::conf::{Cx, invalid_value};
use crate::core::TempPath;
use crate::core::http_conf::{BodyFile, CoreConf};
use crate::core::simple::extend;
use crate::module::{Row, Set};
use crate::{row, simple};
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};
use std::sync::Arc;

const HSL: Context = Context::HSL;
const HS: Context = Context::HS;

pub const ROWS: &[Row] = &[
    simple!(
        CoreConf,
        size,
        "client_header_buffer_size",
        client_header_buffer_size,
        HS,
        "1k",
        "First buffer for a request head."
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
        "allow_http09",
        allow_http09,
        HS,
        "off",
        "Whether requests without a version (GET /path), which are HTTP/0.9, are served; off answers them with 400. They have no Host: the default server of a socket decides."
    ),
    simple!(
        CoreConf,
        flag,
        "ignore_invalid_headers",
        ignore_invalid_headers,
        HS,
        "on",
        "Whether header fields are dropped whose names have more than letters, digits and hyphens (see underscores_in_headers). What is no token (brackets, bytes outside ASCII) gets 400 either way."
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
        offset,
        "client_max_body_size",
        client_max_body_size,
        HSL,
        "1m",
        "Largest request body; larger ones get 413. 0 is without limit."
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
        true,
        "Reads the request body before the request is handled, if any of the given values is neither empty nor 0.",
        Set::Simple(|cx, d| {
            let list = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
            cx.reads_bodies();
            let is_first = cx.first;
            extend(&mut cx.conf::<CoreConf>().client_body_early_read, is_first, list);
            Ok(())
        })
    ),
];

fn client_body_temp_path(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut levels = Vec::new();
    for token in &d.args[1..] {
        match value::number(token)? {
            level @ 1..=3 => levels.push(level as u8),
            _ => return Err(invalid_value(d, token, "from 1 to 3")),
        }
    }
    let path = cx.full_path(d.arg(0).str());
    cx.keeps_temporary(path.as_ref());
    cx.conf::<CoreConf>().client_body_temp_path = Some(Arc::new(TempPath { path, levels }));
    Ok(())
}
