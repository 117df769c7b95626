//! `ngx_http_gzip_module`.

use super::encoder::Params;
use super::filter::{self, Offer};
use super::rules::{self, Rules};
use super::stream::Sizes;
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Diag, Risk, Token, value};
use brisk_http::negotiate::Coding;
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
    directive("gzip")
        .doc("Whether responses are compressed with gzip for clients that accept it. Where several codings are on, the one that the client gives the greatest weight is used; among equals zstd, then br, then gzip: of codings made for each request the fastest is best. Responses of more than some KiB are compressed by the thread pool.")
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
    rules::DISABLE,
    directive("gzip_hash")
        .doc("Memory for finding repetitions.")
        .in_(Context::HSL)
        .takes("SIZE")
        .example("gzip_hash 128k;")
        .ignored("it follows from the level"),
    rules::HTTP_VERSION,
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
    rules::PROXIED,
    types_row!(Conf, "gzip_types", "text/html", "that are compressed"),
    rules::VARY,
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

static VARIABLES: &[Variable] = &[Variable {
    name: "gzip_ratio",
    get: VariableGet::Fixed(ratio),
    doc: "How many times smaller compression (by any coding) has made the response so far.",
    ..Variable::SILENT
}];

#[derive(Clone)]
pub struct Conf {
    on: bool,
    level: u8,
    min_length: u64,
    types: Arc<MediaTypes>,
    window: u8,
    pub rules: Rules,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            on: false,
            level: 1,
            min_length: 20,
            types: Arc::new(MediaTypes::of("")),
            window: 15,
            rules: Rules::default(),
        }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    pub fn offer(&self) -> Option<Offer> {
        let params = Params { coding: Coding::Gzip, level: self.level, window: self.window };
        self.on.then(|| Offer { params, min_length: self.min_length, types: self.types.clone() })
    }
}

/// The base-two logarithm of a window's size, for a row with a range of powers of two.
pub fn window(token: &Token, allowed: &str) -> Result<u8, Diag> {
    let size = value::size(token)?;
    if size.is_power_of_two() {
        return Ok(size.ilog2() as u8);
    }
    Err(Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()))
        .help(format!("it must be {allowed}")))
}

/// nginx's form: two decimals, rounded.
fn ratio(r: &Request, out: &mut Vec<u8>) -> bool {
    let sizes = r.finding(Sizes::default);
    let (plain, coded) = (sizes.plain.get(), sizes.coded.get());
    if coded == 0 {
        return false;
    }
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
