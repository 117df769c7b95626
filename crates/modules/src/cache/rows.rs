//! The rows of the four prefixes.

use super::{FASTCGI, PROXY, SCGI, UWSGI, conf, path};
use brisk_conf::{Arity, Context, Default as D, Inherit};
use brisk_server::module::{Row, Set};

/// One row: what is written behind the prefix, arity, default, whether it may stand several times, setter, doc.
macro_rules! cache_row {
    ($prefix:literal, $name:literal, $contexts:expr, $arity:expr, $default:expr, $inherit:ident, $many:literal, $set:expr, $doc:expr) => {
        Row {
            name: concat!($prefix, $name),
            contexts: $contexts,
            arity: $arity,
            default: $default,
            inherit: Inherit::$inherit,
            many: $many,
            doc: $doc,
            set: Set::Simple($set),
        }
    };
}

macro_rules! cache_rows {
    ($prefix:literal, $p:expr, $key:literal, [$($own:expr),*]) => {
        &[
            cache_row!($prefix, "_cache", Context::HSL, Arity::ONE, D::Value("off"), Replace, false, conf::zone::<{ $p }>,
                concat!("The cache that answers are stored in: a zone of ", $prefix, "_cache_path, which may be given by variables, or off.")),
            cache_row!($prefix, "_cache_background_update", Context::HSL, Arity::ONE, D::Value("off"), Replace, false, conf::background_update::<{ $p }>,
                "Whether an answer that may be given out stale is brought up to date by a request of its own, behind the client's back."),
            cache_row!($prefix, "_cache_bypass", Context::HSL, Arity::SOME, D::Nothing, Replace, true, conf::bypass::<{ $p }>,
                concat!("Conditions under which no answer is taken from the cache: strings of which one is neither empty nor \"0\". The answer is stored unless ", $prefix, "_no_cache says otherwise; -t warns about that.")),
            cache_row!($prefix, "_cache_key", Context::HSL, Arity::ONE, D::Told($key), Replace, false, conf::key::<{ $p }>,
                "What tells stored answers apart. A key with $http_authorization or $remote_user allows to store answers to requests with credentials."),
            cache_row!($prefix, "_cache_lock", Context::HSL, Arity::ONE, D::Value("off"), Replace, false, conf::lock::<{ $p }>,
                "Whether of several requests for the same answer only one is sent to the back end; the others wait for it. Unlike in nginx also if the answer is stored and has expired."),
            cache_row!($prefix, "_cache_lock_age", Context::HSL, Arity::ONE, D::Value("5s"), Replace, false, conf::lock_age::<{ $p }>,
                "After this time one more request is sent to the back end if the answer has not come."),
            cache_row!($prefix, "_cache_lock_timeout", Context::HSL, Arity::ONE, D::Value("5s"), Replace, false, conf::lock_timeout::<{ $p }>,
                "After this time a request that waits is sent to the back end; its answer is not stored."),
            cache_row!($prefix, "_cache_max_range_offset", Context::HSL, Arity::ONE, D::Nothing, Replace, false, conf::max_range_offset::<{ $p }>,
                "A range that begins beyond this byte is asked for as it is, and not stored."),
            cache_row!($prefix, "_cache_methods", Context::HSL, Arity::SOME, D::Value("GET HEAD"), Replace, true, conf::methods::<{ $p }>,
                "Methods whose answers are stored: GET, HEAD, POST. The first two always are."),
            cache_row!($prefix, "_cache_min_uses", Context::HSL, Arity::ONE, D::Value("1"), Replace, false, conf::min_uses::<{ $p }>,
                "After how many requests an answer is stored."),
            cache_row!($prefix, "_cache_mode", Context::HSL, Arity::ONE, D::Value("nginx"), Replace, false, conf::mode::<{ $p }>,
                "Whose rules apply: nginx's, or all of RFC 9111 with its company (heuristics, Age, request directives, CDN-Cache-Control, Cache-Status, invalidation, partial content). nginx has no such directive."),
            cache_row!($prefix, "_cache_path", Context::HTTP, Arity::at_least(2), D::Nothing, Definition, true, path::declare::<{ $p }>,
                "A cache: a folder and keys_zone=NAME:SIZE (an entry takes 128 bytes of it). levels=1:2, inactive=10m, max_size=, min_free=, use_temp_path=, loader_files=, loader_sleep=, loader_threshold=, manager_files=, manager_sleep=, manager_threshold=, purger=on, purger_files=, purger_sleep=, purger_threshold= as in nginx; memory=64m limits the bytes of answers that are kept in memory. Temporary files lie beside their entries; the loader has no pauses unless it is given some."),
            cache_row!($prefix, "_cache_purge", Context::HSL, Arity::SOME, D::Nothing, Replace, true, conf::purge::<{ $p }>,
                "Conditions under which a request removes what is stored under its key: 204 if there was something, else 404. A key that ends with * removes all that begin so; fields Surrogate-Key, Cache-Tag or X-LiteSpeed-Tag of the request remove all with one of these tags. In the form METHOD from ADDRESS … (or from all; on is PURGE) requests with that method are purges; in the form ZONE KEY, in a location without a pass, all are. Both answer with a page, as ngx_cache_purge does, and 404 if nothing was stored. Of an answer 128 tags of up to 256 bytes each are kept; that it has more is said once in the error log and counted."),
            cache_row!($prefix, "_cache_revalidate", Context::HSL, Arity::ONE, D::Value("off"), Replace, false, conf::revalidate::<{ $p }>,
                "Whether an expired answer is asked for with If-Modified-Since and If-None-Match."),
            cache_row!($prefix, "_cache_use_stale", Context::HSL, Arity::SOME, D::Value("off"), Replace, true, conf::use_stale::<{ $p }>,
                "When an expired answer is given out: error, timeout, invalid_header, updating (while another request asks for it), http_403, http_404, http_429, http_500, http_502, http_503, http_504, off."),
            cache_row!($prefix, "_cache_valid", Context::HSL, Arity::SOME, D::Nothing, Replace, true, conf::valid::<{ $p }>,
                "How long answers with these statuses (200, 301 and 302; any) are fresh that do not say so themselves."),
            cache_row!($prefix, "_no_cache", Context::HSL, Arity::SOME, D::Nothing, Replace, true, conf::no_cache::<{ $p }>,
                "Conditions under which an answer is not stored: strings of which one is neither empty nor \"0\"."),
            $($own),*
        ]
    };
}

pub static PROXY_ROWS: &[Row] = cache_rows!(
    "proxy",
    PROXY,
    "scheme, proxy_pass's host and the URI that is asked for",
    [cache_row!(
        "proxy",
        "_cache_convert_head",
        Context::HSL,
        Arity::ONE,
        D::Value("on"),
        Replace,
        false,
        conf::convert_head::<PROXY>,
        "Whether a GET is sent for a HEAD, so that the answer can be stored."
    )]
);
pub static FASTCGI_ROWS: &[Row] = cache_rows!("fastcgi", FASTCGI, "none: it must be given", []);
pub static SCGI_ROWS: &[Row] = cache_rows!("scgi", SCGI, "none: it must be given", []);
pub static UWSGI_ROWS: &[Row] = cache_rows!("uwsgi", UWSGI, "none: it must be given", []);
