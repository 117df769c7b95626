//! `ngx_http_gzip_module`.
//!
//! The rules about clients and proxies (`gzip_vary`, `gzip_disable`, …) are of this module by name only: they
//! hold for every coding, since a client that must not get one must not get another.

use super::encoder::Params;
use super::filter;
use super::offer::{Offer, window};
use super::rules::{Proxied, Rules};
use super::stream::Sizes;
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_http::Version;
use brisk_http::negotiate::Coding;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::request::Request;
use brisk_server::vars::{Variable, VariableGet};

use std::io::Write as _;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "gzip",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(filter::install),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // In `if` too, as in nginx. Off: whether compressing costs more than it saves depends on the site.
    directive("gzip")
        .doc("Whether responses are compressed with gzip for clients that accept it. Where several codings are on, the one that the client gives the greatest weight is used; among equals zstd, then br, then gzip: of codings made for each request the fastest is best. Responses of more than some KiB are compressed by the thread pool. What was made of a static file of up to 64 KiB is kept in memory, by level, until the file changes.")
        .in_(Context::HSLI)
        .takes_flag()
        .default("off")
        .example("gzip on;")
        .sets(|cx, on| cx.conf::<Conf>().on = on),
    directive("gzip_buffers")
        .doc("Number and size of buffers for compressed data.")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("NUMBER SIZE")
        .example("gzip_buffers 16 8k;")
        .ignored("buffers are made as they are needed, and a response has one at a time"),
    // 1, as in nginx: the first level saves most of the bytes for a fraction of the time.
    directive("gzip_comp_level")
        .doc("From 1, the fastest, to 9, the smallest.")
        .in_(Context::HSL)
        .takes_number()
        .range(1, 9)
        .unit("level")
        .default("1")
        .risk(Risk::Safe)
        .example("gzip_comp_level 5;")
        .sets(|cx, level| cx.conf::<Conf>().level = level as u8),
    DISABLE,
    // (The encoder takes what it needs for its level.)
    directive("gzip_hash")
        .doc("Memory for finding repetitions.")
        .in_(Context::HSL)
        .takes("SIZE")
        .example("gzip_hash 128k;")
        .ignored("it follows from the level"),
    HTTP_VERSION,
    // Below that gzip's head and checksum (18 bytes, RFC 1952 §2.3) eat what is saved.
    directive("gzip_min_length")
        .doc("Responses whose Content-Length is less are not compressed.")
        .in_(Context::HSL)
        .takes_size()
        .default("20")
        .risk(Risk::Safe)
        .example("gzip_min_length 256;")
        .sets(|cx, bytes| cx.conf::<Conf>().min_length = bytes),
    directive("gzip_no_buffer")
        .doc("Whether compressed data is sent as soon as there is some.")
        .in_(Context::HSL)
        .takes("on | off")
        .example("gzip_no_buffer on;")
        .ignored("it always is"),
    PROXIED,
    types_row!(Conf, "gzip_types", "text/html", "that are compressed"),
    VARY,
    // DEFLATE cannot refer further back than 32 KiB (RFC 1951 §2).
    directive("gzip_window")
        .doc("How far back repetitions are looked for: a power of two from 512 to 32k.")
        .in_(Context::HSL)
        .takes_size()
        .range(512, 32 << 10)
        .default("32k")
        .risk(Risk::Safe)
        .example("gzip_window 16k;")
        .set(|cx, d| {
            cx.conf::<Conf>().window = window(d.arg(0), "512, 1k, 2k, 4k, 8k, 16k, or 32k")?;
            Ok(())
        }),
    directive("postpone_gzipping")
        .doc("Bytes that are collected before compression begins.")
        .in_(Context::HSL)
        .takes("SIZE")
        .example("postpone_gzipping 0;")
        .ignored("a body that is in memory is compressed at once, others as they come"),
];

/// The words of `gzip_http_version`.
const HTTP_VERSIONS: [(&str, Version); 2] = [("1.0", Version::Http10), ("1.1", Version::Http11)];

/// Not in the table itself: with its words it would hide the rows around it.
const DISABLE: Row = directive("gzip_disable")
    .doc("Regular expressions, without regard to case: clients whose User-Agent matches get no coded responses. msie6 stands for Internet Explorer 4 to 6.")
    .in_(Context::HSL)
    .arity(Arity::SOME)
    .takes("REGEX ...")
    .many()
    .example("gzip_disable msie6;")
    .set(disable);
const HTTP_VERSION: Row = directive("gzip_http_version")
    .doc("The lowest version of a request that may get a coded response: 1.0 or 1.1.")
    .in_(Context::HSL)
    .takes_one_of(&HTTP_VERSIONS)
    .default("1.1")
    .example("gzip_http_version 1.0;")
    .set(|cx, d| {
        cx.conf::<Conf>().rules.version = value::choice(d.arg(0), &HTTP_VERSIONS)?;
        Ok(())
    });
const PROXIED: Row = directive("gzip_proxied")
    .doc("Which responses to proxies (requests with Via) may be coded: off, any, or those with Expires in the past (expired), Cache-Control of no-cache, no-store or private, without Last-Modified (no_last_modified) or ETag (no_etag), or to requests with Authorization (auth).")
    .in_(Context::HSL)
    .arity(Arity::SOME)
    .takes("off | any | expired | no-cache | no-store | private | no_last_modified | no_etag | auth ...")
    .default("off")
    .many()
    .example("gzip_proxied any;")
    .set(proxied);
// Off, as in nginx; without a cache in between it is only bytes.
const VARY: Row = directive("gzip_vary")
    .doc("Adds Vary: Accept-Encoding to all responses that are coded for clients that accept it. Turn it on wherever caches are between server and clients.")
    .in_(Context::HSL)
    .takes_flag()
    .default("off")
    .example("gzip_vary on;")
    .sets(|cx, on| cx.conf::<Conf>().rules.vary = on);

static VARIABLES: &[Variable] = &[Variable {
    name: "gzip_ratio",
    get: VariableGet::Fixed(ratio),
    doc: "How many times smaller compression (by any coding) has made the response so far.",
    ..Variable::SILENT
}];

/// What nobody sets is what the rows give as defaults.
#[derive(Clone, Default)]
pub struct Conf {
    on: bool,
    level: u8,
    min_length: u64,
    types: Arc<MediaTypes>,
    window: u8,
    pub rules: Rules,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    pub fn offer(&self) -> Option<Offer> {
        self.on.then(|| self.usual())
    }

    /// The same, whether it is on or not.
    pub fn usual(&self) -> Offer {
        let params = Params { coding: Coding::Gzip, level: self.level, window: self.window };
        Offer { params, min_length: self.min_length, types: self.types.clone() }
    }
}

fn proxied(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // nginx's words. Which of them wins is told by `Rules::allows_proxy`.
    let words = [
        ("off", Proxied::OFF),
        ("any", Proxied::ANY),
        ("expired", Proxied::EXPIRED),
        ("no-cache", Proxied::NO_CACHE),
        ("no-store", Proxied::NO_STORE),
        ("private", Proxied::PRIVATE),
        ("no_last_modified", Proxied::NO_LAST_MODIFIED),
        ("no_etag", Proxied::NO_ETAG),
        ("auth", Proxied::AUTH),
    ];
    // A second directive of the block adds to the first.
    let before = cx.conf::<Conf>().rules.proxied.0;
    let set = cx.bits(d, &words, before)?;
    cx.conf::<Conf>().rules.proxied = Proxied(set);
    Ok(())
}

fn disable(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    if cx.first {
        let rules = &mut cx.conf::<Conf>().rules;
        // A block's own directives replace the inherited ones, and are added up among each other.
        rules.disabled = Arc::new([]);
        rules.disabled_msie6 = false;
    }
    for token in &d.args {
        // A word, not an expression: what it stands for is compared without one.
        if token.bytes() == b"msie6" {
            cx.conf::<Conf>().rules.disabled_msie6 = true;
            continue;
        }
        // Shared, not compiled again, by all the blocks that inherit it.
        let regex = Arc::new(cx.regex(token, token.bytes(), true)?);
        let rules = &mut cx.conf::<Conf>().rules;
        rules.disabled = rules.disabled.iter().cloned().chain([regex]).collect();
    }
    Ok(())
}

/// nginx's form: two decimals, rounded.
fn ratio(r: &Request, out: &mut Vec<u8>) -> bool {
    // Counted while the response is sent: the log, which comes last, sees the whole.
    let sizes = r.state.own.get_or(Sizes::default);
    let (plain, coded) = (sizes.plain.get(), sizes.coded.get());
    // Nothing was coded, or nothing has come out yet: no ratio, rather than one of nothing.
    if coded == 0 {
        return false;
    }
    // One decimal more than is written, for rounding.
    let hundredths = (plain * 1000 / coded + 5) / 10;
    let _ = write!(out, "{}.{:02}", hundredths / 100, hundredths % 100);
    true
}

#[cfg(test)]
mod tests {
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location(
            "gzip on; gzip_comp_level 9; gzip_min_length 1k; gzip_window 4k; gzip_types *;",
            &[],
        );
        messages_in_location("gzip_comp_level 0;", &["value must be between 1 and 9"]);
        messages_in_location("gzip_comp_level 10;", &["value must be between 1 and 9"]);
        messages_in_location("gzip_window 3k;", &["invalid value \"3k\""]);
        messages_in_location("gzip_types text/html;", &["duplicate MIME type \"text/html\""]);
    }
}
