//! Compression by `br`, with the directives of ngx_brotli (the usual third-party module).

use super::encoder::Params;
use super::offer::{Offer, window};
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Risk};
use brisk_http::negotiate::Coding;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};

use std::sync::Arc;

pub static MODULE: Module =
    Module { name: "brotli", rows: ROWS, conf: || Arc::new(Conf::default()), ..Module::EMPTY };

static ROWS: &[Row] = &[
    // Browsers offer `br` over TLS only, since proxies in between have mangled codings that they did not know.
    directive("brotli")
        .doc("Whether responses are compressed with Brotli for clients that accept br. See gzip for the choice among codings; gzip_vary, gzip_proxied, gzip_http_version and gzip_disable hold here too.")
        .in_(Context::HSLI)
        .takes_flag()
        .default("off")
        .example("brotli on;")
        .sets(|cx, on| cx.conf::<Conf>().on = on),
    directive("brotli_buffers")
        .doc("Number and size of buffers for compressed data.")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("NUMBER SIZE")
        .example("brotli_buffers 16 8k;")
        .ignored("buffers are made as they are needed, and a response has one at a time"),
    // 6 is ngx_brotli's default.
    directive("brotli_comp_level")
        .doc("From 0, the fastest, to 11, the smallest; what is above 6 takes much longer.")
        .in_(Context::HSL)
        .takes_number()
        .range(0, 11)
        .unit("level")
        .default("6")
        .risk(Risk::Safe)
        .example("brotli_comp_level 5;")
        .sets(|cx, level| cx.conf::<Conf>().level = level as u8),
    // The length as it is announced, as with gzip.
    directive("brotli_min_length")
        .doc("Responses whose Content-Length is less are not compressed.")
        .in_(Context::HSL)
        .takes_size()
        .default("20")
        .risk(Risk::Safe)
        .example("brotli_min_length 256;")
        .sets(|cx, bytes| cx.conf::<Conf>().min_length = bytes),
    types_row!(Conf, "brotli_types", "text/html", "that are compressed"),
    // RFC 7932 §9.1 allows windows of 10 to 24 bits, which is 1 KiB to 16 MiB. The decoder must hold as much, too.
    directive("brotli_window")
        .doc("How far back repetitions are looked for: a power of two from 1k to 16m.")
        .in_(Context::HSL)
        .takes_size()
        .range(1 << 10, 16 << 20)
        .default("512k")
        .risk(Risk::Safe)
        .example("brotli_window 256k;")
        .set(|cx, d| {
            cx.conf::<Conf>().window = window(d.arg(0), "a power of two from 1k to 16m")?;
            Ok(())
        }),
];

#[derive(Clone, Default)]
/// What nobody sets is what the rows give as defaults.
pub struct Conf {
    on: bool,
    level: u8,
    min_length: u64,
    types: Arc<MediaTypes>,
    // As a power of two, as the encoder takes it.
    window: u8,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    /// Without a filter of its own: that of `gzip` takes all codings together, since one is chosen among them.
    pub fn offer(&self) -> Option<Offer> {
        self.on.then(|| self.usual())
    }

    /// The same, whether it is on or not.
    /// Rules of a request's own (`Named`) compress where the location does not.
    pub fn usual(&self) -> Offer {
        let params = Params { coding: Coding::Br, level: self.level, window: self.window };
        Offer { params, min_length: self.min_length, types: self.types.clone() }
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
        messages_in_location("brotli_comp_level 23;", &["value must be between 0 and 11"]);
    }
}
