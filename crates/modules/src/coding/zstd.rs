//! Compression by `zstd`, with the directives of zstd-nginx-module (the usual third-party module).

use super::encoder::Params;
use super::filter::Offer;
use super::gzip;
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Default as D};
use brisk_http::negotiate::Coding;
use brisk_server::module::{Module, ModuleConf, Row, Set};
use brisk_server::{ignored, row, simple};
use std::sync::Arc;

pub static MODULE: Module =
    Module { name: "zstd", rows: ROWS, conf: || Arc::new(Conf::default()), ..Module::EMPTY };

static ROWS: &[Row] = &[
    simple!(
        Conf,
        flag,
        "zstd",
        on,
        Context::HSLI,
        "off",
        "Whether responses are compressed with Zstandard for clients that accept zstd. See gzip for the choice among codings; gzip_vary, gzip_proxied, gzip_http_version and gzip_disable hold here too."
    ),
    ignored!(
        "zstd_buffers",
        Context::HSL,
        Arity::TWO,
        "Number and size of buffers for compressed data.",
        "buffers are made as they are needed, and a response has one at a time"
    ),
    row!(
        "zstd_comp_level",
        Context::HSL,
        Arity::ONE,
        D::Value("1"),
        Replace,
        false,
        "From 1, the fastest, to 22, the smallest; what is above 9 takes much longer.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().level = gzip::level(d.arg(0), 1, 22)?;
            Ok(())
        })
    ),
    simple!(
        Conf,
        size,
        "zstd_min_length",
        min_length,
        Context::HSL,
        "20",
        "Responses whose Content-Length is less are not compressed."
    ),
    types_row!(Conf, "zstd_types", "text/html", "that are compressed"),
];

#[derive(Clone)]
pub struct Conf {
    on: bool,
    level: u8,
    min_length: u64,
    types: Arc<MediaTypes>,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf { on: false, level: 1, min_length: 20, types: Arc::new(MediaTypes::of("")) }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    pub fn offer(&self) -> Option<Offer> {
        let params = Params { coding: Coding::Zstd, level: self.level, window: 0 };
        self.on.then(|| Offer { params, min_length: self.min_length, types: self.types.clone() })
    }
}

#[cfg(test)]
mod tests {
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location("zstd on; zstd_comp_level 22; zstd_min_length 1k; zstd_types text/css;", &[]);
        messages_in_location("zstd_comp_level 23;", &["value must be equal to or less than 22"]);
    }
}
