//! How files are found, kept open and sent.

use crate::conf::{Cx, invalid_parameter};
use crate::core::http_conf::{Aio, CoreConf, FileCacheConf, Symlinks};
use crate::module::{Row, Set};
use crate::{row, simple};
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};
use std::sync::Arc;
use std::time::Duration;

const HSL: Context = Context::HSL;
const HSLI: Context = Context::HSLI;

pub const ROWS: &[Row] = &[
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
            if text == "on" {
                let why = "files that are not in memory are always read by a pool of threads";
                cx.warn(Diag::notice(d.span, format!("the \"aio\" directive has no effect here: {why}")));
            }
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
];

fn file_cache<'c>(cx: &'c mut Cx<'_, '_>) -> &'c mut FileCacheConf {
    Arc::make_mut(&mut cx.conf::<CoreConf>().file_cache)
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
