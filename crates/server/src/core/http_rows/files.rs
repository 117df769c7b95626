//! How files are found, kept open and sent.

use crate::conf::cx::{Cx, invalid_parameter};
use crate::core::http_conf::{Aio, CoreConf, FileCacheConf, Symlinks};
use crate::directive::directive;
use crate::module::Row;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use std::sync::Arc;
use std::time::Duration;

const HSL: Context = Context::HSL;
const HSLI: Context = Context::HSLI;

/// Rows about files.
pub const ROWS: &[Row] = &[
    directive("sendfile")
        .doc("Whether large files are sent by sendfile(2) instead of being read into memory.")
        .in_(HSLI)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("sendfile on;")
        .sets(|cx, on| cx.conf::<CoreConf>().sendfile = on),
    directive("sendfile_max_chunk")
        .doc("Most bytes of one sendfile call, so that a fast client cannot occupy a thread; 0 is without limit.")
        .in_(HSL)
        .takes_offset()
        .default("2m")
        .risk(Risk::Safe)
        .example("sendfile_max_chunk 512k;")
        .sets(|cx, bytes| cx.conf::<CoreConf>().sendfile_max_chunk = bytes),
    directive("aio")
        .doc("Accepted: files that are not in memory are always read by a pool of threads.")
        .in_(HSL)
        .takes("on | off | threads[=POOL]")
        .default("off")
        .risk(Risk::Safe)
        .example("aio threads;")
        .set(|cx, d| {
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
        }),
    directive("directio")
        .doc("Accepted: size from which nginx bypasses the page cache. Brisk reads such files through its pool like others.")
        .in_(HSL)
        .takes("SIZE | off")
        .default("off")
        .risk(Risk::Safe)
        .example("directio 8m;")
        .set(|cx, d| {
            let size = if d.arg(0).str() == "off" { None } else { Some(value::offset(d.arg(0))?) };
            cx.conf::<CoreConf>().directio = size;
            Ok(())
        }),
    directive("disable_symlinks")
        .doc("Refuses symbolic links in paths of files: on, if_not_owner, with from= a part of the path that is trusted.")
        .in_(HSL)
        .arity(Arity::between(1, 2))
        .takes("off | on | if_not_owner [from=PART]")
        .default("off")
        .risk(Risk::Security)
        .example("disable_symlinks if_not_owner from=$document_root;")
        .set(disable_symlinks),
    directive("open_file_cache")
        .doc("Bounds the cache of open files (max=, inactive=). The cache is always there and always coherent: a changed file is served as it is by the next request.")
        .in_(HSL)
        .arity(Arity::between(1, 2))
        .takes("off | max=NUMBER [inactive=TIME]")
        .default("off")
        .risk(Risk::Safe)
        .example("open_file_cache max=10000 inactive=60s;")
        .set(open_file_cache),
    directive("open_file_cache_valid")
        .doc("Seconds after which a file is looked at again where changes cannot be watched (network file systems).")
        .in_(HSL)
        .takes_seconds()
        .default("60")
        .example("open_file_cache_valid 30s;")
        .sets(|cx, secs| { let valid = Duration::from_secs(secs); file_cache(cx).valid = valid; }),
    directive("open_file_cache_min_uses")
        .doc("Uses within the inactive time for a file to stay open.")
        .in_(HSL)
        .takes_number()
        .unit("uses")
        .default("1")
        .risk(Risk::Safe)
        .example("open_file_cache_min_uses 2;")
        .sets(|cx, uses| file_cache(cx).min_uses = uses),
    directive("open_file_cache_errors")
        .doc("Whether look-ups of missing files are kept where changes cannot be watched.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .example("open_file_cache_errors on;")
        .sets(|cx, on| file_cache(cx).errors = on),
];

fn file_cache<'c>(cx: &'c mut Cx<'_, '_>) -> &'c mut FileCacheConf {
    // Shared with the outer block until one of its four directives is written.
    Arc::make_mut(&mut cx.conf::<CoreConf>().file_cache)
}

fn disable_symlinks(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let from = match d.args.get(1) {
        Some(token) => {
            // The part of a path that the server's owner vouches for: links in it are followed.
            let text = token.bytes().strip_prefix(b"from=").ok_or_else(|| invalid_parameter(token))?.to_vec();
            Some(brisk_host::vars::Template::parse_bytes(&mut cx.global.vars, &text, token)?)
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
    // Each directive stands for itself: nothing of an inherited one is kept.
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
