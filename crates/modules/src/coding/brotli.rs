//! Compression by `br`, with the directives of ngx_brotli (the usual third-party module).

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
    Module { name: "brotli", rows: ROWS, conf: || Arc::new(Conf::default()), ..Module::EMPTY };

static ROWS: &[Row] = &[
    simple!(
        Conf,
        flag,
        "brotli",
        on,
        Context::HSLI,
        "off",
        "Whether responses are compressed with Brotli for clients that accept br. See gzip for the choice among codings; gzip_vary, gzip_proxied, gzip_http_version and gzip_disable hold here too."
    ),
    ignored!(
        "brotli_buffers",
        Context::HSL,
        Arity::TWO,
        "Number and size of buffers for compressed data.",
        "buffers are made as they are needed, and a response has one at a time"
    ),
    row!(
        "brotli_comp_level",
        Context::HSL,
        Arity::ONE,
        D::Value("6"),
        Replace,
        false,
        "From 0, the fastest, to 11, the smallest; what is above 6 takes much longer.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().level = gzip::level(d.arg(0), 0, 11)?;
            Ok(())
        })
    ),
    simple!(
        Conf,
        size,
        "brotli_min_length",
        min_length,
        Context::HSL,
        "20",
        "Responses whose Content-Length is less are not compressed."
    ),
    types_row!(Conf, "brotli_types", "text/html", "that are compressed"),
    row!(
        "brotli_window",
        Context::HSL,
        Arity::ONE,
        D::Value("512k"),
        Replace,
        false,
        "How far back repetitions are looked for: a power of two from 1k to 16m.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().window = gzip::window(d.arg(0), 10, 24, "a power of two from 1k to 16m")?;
            Ok(())
        })
    ),
];

#[derive(Clone)]
pub struct Conf {
    on: bool,
    level: u8,
    min_length: u64,
    types: Arc<MediaTypes>,
    window: u8,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf { on: false, level: 6, min_length: 20, types: Arc::new(MediaTypes::of("")), window: 19 }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    pub fn offer(&self) -> Option<Offer> {
        let params = Params { coding: Coding::Br, level: self.level, window: self.window };
        self.on.then(|| Offer { params, min_length: self.min_length, types: self.types.clone() })
    }
}

#[cfg(test)]
mod tests {
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location(
            "brotli on; brotli_comp_level 11; brotli_min_length 1k; brotli_types text/css; brotli_window 16m;",
            &[],
        );
        messages_in_location("brotli_comp_level 23;", &["value must be equal to or less than 11"]);
    }
}
