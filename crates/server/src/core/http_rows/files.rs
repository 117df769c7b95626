//! How files are found, kept open and sent.

use crate::conf::cx::{Cx, invalid_parameter};
use crate::core::http_conf::{CoreConf, Symlinks};
use crate::directive::directive;
use crate::module::Row;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use std::sync::Arc;

const HSL: Context = Context::HSL;
const HSLI: Context = Context::HSLI;

/// Rows about files.
pub const ROWS: &[Row] = &[
    directive("sendfile")
        .doc("Whether the kernel sends files, and stored answers that are in one, by sendfile(2), from 16 KiB on; smaller ones are answered from memory.")
        .in_(HSLI)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("sendfile on;")
        .sets(|cx, on| cx.conf::<CoreConf>().sendfile = on),
    // One call copies as much as the socket takes, and the thread serves no other connection meanwhile. nginx's default since 1.21.4.
    directive("sendfile_max_chunk")
        .doc("Most bytes of one sendfile call, so that a fast client cannot occupy a thread; 0 is without limit.")
        .in_(HSL)
        .takes_offset()
        .default("2m")
        .risk(Risk::Safe)
        .example("sendfile_max_chunk 512k;")
        .sets(|cx, bytes| cx.conf::<CoreConf>().sendfile_max_chunk = bytes),
    // `on` promises something of the kernel's that is not used, so it is told; `threads` is what always happens.
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
            if matches!(text, "off" | "on" | "threads") || text.starts_with("threads=") {
                return Ok(());
            }
            Err(Diag::reason(d.arg(0).span, "invalid value")
                .help("it must be on, off, threads or threads=POOL"))
        }),
    // Refused if it is no size: a typing error here is one in nginx, too.
    directive("directio")
        .doc("Accepted: size from which nginx bypasses the page cache. Brisk reads such files through its pool like others.")
        .in_(HSL)
        .takes("SIZE | off")
        .default("off")
        .risk(Risk::Safe)
        .example("directio 8m;")
        .set(|_, d| if d.arg(0).str() == "off" { Ok(()) } else { value::offset(d.arg(0)).map(drop) }),
    // A matter of hosts with many users: a link to another user's file would be read with the server's rights. Paths are then opened folder by
    // folder, each without following links.
    directive("disable_symlinks")
        .doc("Refuses symbolic links in paths of files: on, if_not_owner, with from= a part of the path that is trusted.")
        .in_(HSL)
        .arity(Arity::between(1, 2))
        .takes("off | on | if_not_owner [from=PART]")
        .default("off")
        .risk(Risk::Security)
        .example("disable_symlinks if_not_owner from=$document_root;")
        .set(disable_symlinks),
    // nginx's cache may be stale for `open_file_cache_valid`, which is why it has to be asked for. This one is not (`files.rs`).
    directive("open_file_cache")
        .doc("Accepted: each thread always keeps files open that are asked for again, within bounds of its own. What it keeps is always coherent: a changed file is served as it is by the next request.")
        .in_(HSL)
        .arity(Arity::between(1, 2))
        .takes("off | max=NUMBER [inactive=TIME]")
        .default("off")
        .risk(Risk::Safe)
        .example("open_file_cache max=10000 inactive=60s;")
        .set(open_file_cache),
    // inotify does not tell what another machine does, so on network file systems a look at each request is
    // the only way that is never stale.
    directive("open_file_cache_valid")
        .doc("Accepted: where changes of files cannot be watched (network file systems), each request looks at its file.")
        .in_(HSL)
        .takes_seconds()
        .default("60")
        .risk(Risk::Safe)
        .example("open_file_cache_valid 30s;")
        .sets(|_, _| {}),
    // A file that is asked for once is read and forgotten: a crawler must not push out what visitors ask for.
    directive("open_file_cache_min_uses")
        .doc("Accepted: a file is kept open from its second use on.")
        .in_(HSL)
        .takes_number()
        .unit("uses")
        .default("1")
        .risk(Risk::Safe)
        .example("open_file_cache_min_uses 2;")
        .sets(|_, _| {}),
    // Coherent, too: the folder is watched, so a file that appears is there for the next request.
    directive("open_file_cache_errors")
        .doc("Accepted: that a file is missing is kept as files are, and as coherent.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("open_file_cache_errors on;")
        .sets(|_, _| {}),
];

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

/// Checks the parameters; see the row.
fn open_file_cache(_: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut has_max = false;
    for token in &d.args {
        // Read and thrown away: a file that nginx refuses is refused here, so it is mended where it was
        // written.
        let is_good = if let Some(text) = token.str().strip_prefix("max=") {
            has_max = true;
            text.parse::<usize>().is_ok_and(|count| count > 0)
        } else if let Some(text) = token.str().strip_prefix("inactive=") {
            value::parse_time(text.as_bytes(), true).is_some()
        } else if token.str() == "off" {
            true
        } else {
            return Err(Diag::emerg(
                token.span,
                format!("invalid \"open_file_cache\" parameter \"{}\"", token.text()),
            )
            .help("write: open_file_cache max=N [inactive=TIME], or off"));
        };
        if !is_good {
            return Err(invalid_parameter(token));
        }
    }
    if !has_max && d.arg(0).str() != "off" {
        return Err(Diag::emerg(d.span, "\"open_file_cache\" must have the \"max\" parameter")
            .help("write: open_file_cache max=N [inactive=TIME], or off"));
    }
    Ok(())
}
