//! Compression by `zstd`, with the directives of zstd-nginx-module (the usual third-party module).

use super::encoder::Params;
use super::offer::Offer;
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Risk};
use brisk_http::negotiate::Coding;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};

use std::sync::Arc;

pub static MODULE: Module =
    Module { name: "zstd", rows: ROWS, conf: || Arc::new(Conf::default()), ..Module::EMPTY };

static ROWS: &[Row] = &[
    directive("zstd")
        .doc("Whether responses are compressed with Zstandard for clients that accept zstd. See gzip for the choice among codings; gzip_vary, gzip_proxied, gzip_http_version and gzip_disable hold here too.")
        .in_(Context::HSLI)
        .takes_flag()
        .default("off")
        // Off, as all codings are: whether they pay depends on the site.
        .example("zstd on;")
        .sets(|cx, on| cx.conf::<Conf>().on = on),
    directive("zstd_buffers")
        .doc("Number and size of buffers for compressed data.")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("NUMBER SIZE")
        .example("zstd_buffers 16 8k;")
        .ignored("buffers are made as they are needed, and a response has one at a time"),
    // Levels from 20 on need a window of more than 8 MiB, which RFC 9659 does not allow over HTTP: the encoder bounds it.
    directive("zstd_comp_level")
        .doc("From 1, the fastest, to 22, the smallest; what is above 9 takes much longer.")
        .in_(Context::HSL)
        .takes_number()
        .range(1, 22)
        .unit("level")
        .default("1")
        .risk(Risk::Safe)
        .example("zstd_comp_level 3;")
        .sets(|cx, level| cx.conf::<Conf>().level = level as u8),
    directive("zstd_min_length")
        .doc("Responses whose Content-Length is less are not compressed.")
        .in_(Context::HSL)
        .takes_size()
        .default("20")
        .risk(Risk::Safe)
        .example("zstd_min_length 256;")
        .sets(|cx, bytes| cx.conf::<Conf>().min_length = bytes),
    types_row!(Conf, "zstd_types", "text/html", "that are compressed"),
];

#[derive(Clone, Default)]
pub struct Conf {
    on: bool,
    level: u8,
    min_length: u64,
    types: Arc<MediaTypes>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    /// See `brotli`. The window follows from the level: 0 leaves it to the encoder.
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
        messages_in_location("zstd_comp_level 23;", &["value must be between 1 and 22"]);
    }
}
