//! `ngx_http_gzip_module`.

use super::encoder::Params;
use super::filter::{self, Offer};
use super::rules::{self, Rules};
use super::stream::Sizes;
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Default as D, Diag, Token, value};
use brisk_http::negotiate::Coding;
use brisk_server::module::{Module, ModuleConf, Row, Set};
use brisk_server::request::Request;
use brisk_server::vars::{Variable, VariableGet};
use brisk_server::{ignored, row, simple};
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
    simple!(
        Conf,
        flag,
        "gzip",
        on,
        Context::HSLI,
        "off",
        "Whether responses are compressed with gzip for clients that accept it. Where several codings are on, the one that the client gives the greatest weight is used; among equals zstd, then br, then gzip: of codings made for each request the fastest is best. Responses of more than some KiB are compressed by the thread pool."
    ),
    ignored!(
        "gzip_buffers",
        Context::HSL,
        Arity::TWO,
        "Number and size of buffers for compressed data.",
        "buffers are made as they are needed, and a response has one at a time"
    ),
    row!(
        "gzip_comp_level",
        Context::HSL,
        Arity::ONE,
        D::Value("1"),
        Replace,
        false,
        "From 1, the fastest, to 9, the smallest.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().level = level(d.arg(0), 1, 9)?;
            Ok(())
        })
    ),
    rules::DISABLE,
    ignored!(
        "gzip_hash",
        Context::HSL,
        Arity::ONE,
        "Memory for finding repetitions.",
        "it follows from the level"
    ),
    rules::HTTP_VERSION,
    simple!(
        Conf,
        size,
        "gzip_min_length",
        min_length,
        Context::HSL,
        "20",
        "Responses whose Content-Length is less are not compressed."
    ),
    ignored!(
        "gzip_no_buffer",
        Context::HSL,
        Arity::ONE,
        "Whether compressed data is sent as soon as there is some.",
        "it always is"
    ),
    rules::PROXIED,
    types_row!(Conf, "gzip_types", "text/html", "that are compressed"),
    rules::VARY,
    row!(
        "gzip_window",
        Context::HSL,
        Arity::ONE,
        D::Value("32k"),
        Replace,
        false,
        "How far back repetitions are looked for: a power of two from 512 to 32k.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().window = window(d.arg(0), 9, 15, "512, 1k, 2k, 4k, 8k, 16k, or 32k")?;
            Ok(())
        })
    ),
    ignored!(
        "postpone_gzipping",
        Context::HSL,
        Arity::ONE,
        "Bytes that are collected before compression begins.",
        "a body that is in memory is compressed at once, others as they come"
    ),
];

static VARIABLES: &[Variable] = &[Variable {
    name: "gzip_ratio",
    get: VariableGet::Fixed(ratio),
    set: None,
    doc: "How many times smaller compression (by any coding) has made the response so far.",
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

/// A compression level.
pub fn level(token: &Token, min: u8, max: u8) -> Result<u8, Diag> {
    let level = value::number(token)?;
    u8::try_from(level).ok().filter(|level| (min..=max).contains(level)).ok_or_else(|| {
        let end = if level < u64::from(min) {
            format!("equal to or greater than {min}")
        } else {
            format!("equal to or less than {max}")
        };
        Diag::emerg(token.span, format!("value must be {end}")).help(format!("levels are {min} to {max}"))
    })
}

/// The base-two logarithm of a window's size.
pub fn window(token: &Token, min: u8, max: u8, allowed: &str) -> Result<u8, Diag> {
    let size = value::size(token)?;
    (min..=max).find(|log| size == 1 << log).ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()))
            .help(format!("it must be {allowed}"))
    })
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
        messages_in_location("gzip_comp_level 0;", &["value must be equal to or greater than 1"]);
        messages_in_location("gzip_comp_level 10;", &["value must be equal to or less than 9"]);
        messages_in_location("gzip_window 3k;", &["invalid value \"3k\""]);
        messages_in_location("gzip_types text/html;", &["duplicate MIME type \"text/html\""]);
    }
}
