//! The rows of the four prefixes.
//!
//! One table for all: what a row says is the same for each prefix but for its name. Setters are generic over
//! the prefix's number, so each prefix has a configuration of its own.

use super::prefix::{FASTCGI, PROXY, SCGI, UWSGI};
use super::{conf, path};
use brisk_conf::{Arity, Context, Risk};
use brisk_server::directive::directive;
use brisk_server::module::Row;

/// `$key`: what is written of the default key. `$own`: rows that only this prefix has.
macro_rules! cache_rows {
    ($prefix:literal, $p:expr, $key:literal, [$($own:expr),*]) => {
        &[
            directive(concat!($prefix, "_cache"))
                .doc(concat!("The cache that answers are stored in: a zone of ", $prefix, "_cache_path, which may be given by variables, or off."))
                .in_(Context::HSL)
                .takes("ZONE | off")
                .default("off")
                .example(concat!($prefix, "_cache pages;"))
                .set(conf::zone::<{ $p }>),
            // Off, as in nginx: without it the client that finds the answer stale waits for the new one.
            directive(concat!($prefix, "_cache_background_update"))
                .doc("Whether an answer that may be given out stale is brought up to date by a request of its own, while the client gets the stale one.")
                .in_(Context::HSL)
                .takes_flag()
                .default("off")
                .risk(Risk::Safe)
                .example(concat!($prefix, "_cache_background_update on;"))
                .sets(conf::background_update::<{ $p }>),
            // The answer is stored all the same, which refreshes an entry; `_no_cache` is about storing.
            directive(concat!($prefix, "_cache_bypass"))
                .doc(concat!("Conditions under which no answer is taken from the cache: strings of which one is neither empty nor \"0\". The answer is stored unless ", $prefix, "_no_cache says otherwise; -t warns about that."))
                .in_(Context::HSL)
                .arity(Arity::SOME)
                .takes("VALUE ...")
                .many()
                .example(concat!($prefix, "_cache_bypass $cookie_session $arg_nocache;"))
                .set(conf::bypass::<{ $p }>),
            // A security matter: what is missing in the key gives one user's answer to another.
            directive(concat!($prefix, "_cache_key"))
                .doc("What tells stored answers apart. A key with $http_authorization allows to store answers to requests with credentials.")
                .in_(Context::HSL)
                .takes("VALUE")
                .default_told($key)
                .risk(Risk::Security)
                .example(concat!($prefix, "_cache_key $scheme$host$request_uri;"))
                .set(conf::key::<{ $p }>),
            directive(concat!($prefix, "_cache_lock"))
                .doc("Whether of several requests for the same answer only one is sent to the back end; the others wait for it. Unlike in nginx also if the answer is stored and has expired.")
                .in_(Context::HSL)
                .takes_flag()
                .default("off")
                .risk(Risk::Safe)
                .example(concat!($prefix, "_cache_lock on;"))
                .sets(conf::lock::<{ $p }>),
            // The one that was sent may be lost: another one is tried before all that wait are let go.
            directive(concat!($prefix, "_cache_lock_age"))
                .doc("After this time one more request is sent to the back end if the answer has not come.")
                .in_(Context::HSL)
                .takes_time()
                .default("5s")
                .risk(Risk::Safe)
                .example(concat!($prefix, "_cache_lock_age 10s;"))
                .sets(conf::lock_age::<{ $p }>),
            // Not stored, as in nginx: of many such answers each would replace the other.
            directive(concat!($prefix, "_cache_lock_timeout"))
                .doc("After this time a request that waits is sent to the back end; its answer is not stored.")
                .in_(Context::HSL)
                .takes_time()
                .default("5s")
                .risk(Risk::Safe)
                .example(concat!($prefix, "_cache_lock_timeout 10s;"))
                .sets(conf::lock_timeout::<{ $p }>),
            // Nearer ranges are cut out of the whole: a client that seeks far into a film would wait for all before that.
            directive(concat!($prefix, "_cache_max_range_offset"))
                .doc("A range that begins beyond this byte is asked for as it is, and not stored.")
                .in_(Context::HSL)
                .takes_offset()
                .risk(Risk::Safe)
                .example(concat!($prefix, "_cache_max_range_offset 10m;"))
                .sets(conf::max_range_offset::<{ $p }>),
            // GET and HEAD always, as in nginx. An answer to POST depends on its body, which the key does not have by itself.
            directive(concat!($prefix, "_cache_methods"))
                .doc("Methods whose answers are stored: GET, HEAD, POST. The first two always are.")
                .in_(Context::HSL)
                .arity(Arity::SOME)
                .takes("GET | HEAD | POST ...")
                .default("GET HEAD")
                .many()
                .example(concat!($prefix, "_cache_methods GET HEAD POST;"))
                .set(conf::methods::<{ $p }>),
            // 1 stores at once. More keeps what is asked for once from pushing out what is asked for again.
            directive(concat!($prefix, "_cache_min_uses"))
                .doc("After how many requests an answer is stored.")
                .in_(Context::HSL)
                .takes_number()
                .unit("requests")
                .default("1")
                .risk(Risk::Resource)
                .example(concat!($prefix, "_cache_min_uses 2;"))
                .sets(conf::min_uses::<{ $p }>),
            // `nginx` by default: RFC 9111 would store less of what configurations rely on, and more of what they do not expect.
            directive(concat!($prefix, "_cache_mode"))
                .doc("Whose rules apply: nginx's, or all of RFC 9111 with its company (heuristics, Age, request directives, CDN-Cache-Control, Cache-Status, invalidation, partial content). nginx has no such directive.")
                .in_(Context::HSL)
                .takes_one_of(&conf::MODES)
                .default("nginx")
                .example(concat!($prefix, "_cache_mode rfc9111;"))
                .set(conf::mode::<{ $p }>),
            // In `http` only: a zone is the process's, and two folders under one name would be two caches.
            directive(concat!($prefix, "_cache_path"))
                .doc("A cache: a folder and keys_zone=NAME:SIZE (an entry takes 128 bytes of it). levels=1:2, inactive=10m, max_size=, min_free=, use_temp_path=, loader_files=, loader_sleep=, loader_threshold=, manager_files=, manager_sleep=, manager_threshold=, purger=on, purger_files=, purger_sleep=, purger_threshold= as in nginx; memory=64m limits the bytes of answers that are kept in memory. Temporary files lie beside their entries; the loader has no pauses unless it is given some.")
                .in_(Context::HTTP)
                .arity(Arity::at_least(2))
                .takes("DIR keys_zone=NAME:SIZE [levels=LEVELS] [inactive=TIME] [max_size=SIZE] [min_free=SIZE] [memory=SIZE] [use_temp_path=on|off] [loader_files=NUMBER] [loader_sleep=TIME] [loader_threshold=TIME] [manager_files=NUMBER] [manager_sleep=TIME] [manager_threshold=TIME] [purger=on|off] [purger_files=NUMBER] [purger_sleep=TIME] [purger_threshold=TIME]")
                .many()
                .definition()
                .risk(Risk::Resource)
                .example(concat!($prefix, "_cache_path /var/cache/brisk/pages levels=1:2 keys_zone=pages:10m max_size=1g inactive=1d;"))
                .set(path::declare::<{ $p }>),
            // A security matter: who may purge can make the back end answer everything.
            directive(concat!($prefix, "_cache_purge"))
                .doc("Conditions under which a request removes what is stored under its key: 204 if there was something, else 404. A key that ends with * removes all that begin so; fields Surrogate-Key, Cache-Tag or X-LiteSpeed-Tag of the request remove all with one of these tags. In the form METHOD from ADDRESS … (or from all; on is PURGE) requests with that method are purges; in the form ZONE KEY, in a location without a pass, all are. Both answer with a page, as ngx_cache_purge does, and 404 if nothing was stored. GET and HEAD are refused that a page of another site may have asked for, as far as browsers tell (a picture is enough to ask): PURGE is the safe form. Of an answer 128 tags of up to 256 bytes each are kept; that it has more is said once in the error log and counted.")
                .in_(Context::HSL)
                .arity(Arity::SOME)
                .takes("VALUE ... | METHOD from all | METHOD from ADDRESS ... | ZONE KEY")
                .many()
                .risk(Risk::Security)
                .example(concat!($prefix, "_cache_purge $purge;"))
                .set(conf::purge::<{ $p }>),
            // A 304 costs the back end less than the answer, but needs one that knows its validators.
            directive(concat!($prefix, "_cache_revalidate"))
                .doc("Whether an expired answer is asked for with If-Modified-Since and If-None-Match.")
                .in_(Context::HSL)
                .takes_flag()
                .default("off")
                .risk(Risk::Safe)
                .example(concat!($prefix, "_cache_revalidate on;"))
                .sets(conf::revalidate::<{ $p }>),
            // Off: old content is better than none for many sites, and worse for some.
            directive(concat!($prefix, "_cache_use_stale"))
                .doc("When an expired answer is given out: error, timeout, invalid_header, updating (while another request asks for it), http_403, http_404, http_429, http_500, http_502, http_503, http_504, off.")
                .in_(Context::HSL)
                .arity(Arity::SOME)
                .takes("error | timeout | invalid_header | updating | http_500 | http_502 | http_503 | http_504 | http_403 | http_404 | http_429 | off ...")
                .default("off")
                .many()
                .example(concat!($prefix, "_cache_use_stale error timeout updating;"))
                .set(conf::use_stale::<{ $p }>),
            // For answers that say nothing of themselves: their own `Cache-Control` wins.
            directive(concat!($prefix, "_cache_valid"))
                .doc("How long answers with these statuses (200, 301 and 302; any) are fresh that do not say so themselves.")
                .in_(Context::HSL)
                .arity(Arity::SOME)
                .takes("[CODE ...] TIME")
                .many()
                .risk(Risk::Security)
                .example(concat!($prefix, "_cache_valid 200 301 10m;"))
                .set(conf::valid::<{ $p }>),
            // Asked when the answer has come, so it may look at `$upstream_http_…`.
            directive(concat!($prefix, "_no_cache"))
                .doc("Conditions under which an answer is not stored: strings of which one is neither empty nor \"0\".")
                .in_(Context::HSL)
                .arity(Arity::SOME)
                .takes("VALUE ...")
                .many()
                .risk(Risk::Security)
                .example(concat!($prefix, "_no_cache $cookie_session;"))
                .set(conf::no_cache::<{ $p }>),
            $($own),*
        ]
    };
}

/// The rows of `proxy_cache…`.
pub static PROXY_ROWS: &[Row] = cache_rows!(
    "proxy",
    PROXY,
    "scheme, proxy_pass's host and the URI that is asked for",
    // Of `proxy` alone, as in nginx: the other protocols pass the method on as a parameter.
    [directive("proxy_cache_convert_head")
        .doc("Whether a GET is sent for a HEAD, so that the answer can be stored.")
        .in_(Context::HSL)
        .takes_flag()
        .default("on")
        .example("proxy_cache_convert_head off;")
        .sets(conf::convert_head::<PROXY>)]
);
/// The rows of `fastcgi_cache…`.
pub static FASTCGI_ROWS: &[Row] = cache_rows!("fastcgi", FASTCGI, "none: it must be given", []);
/// The rows of `scgi_cache…`.
pub static SCGI_ROWS: &[Row] = cache_rows!("scgi", SCGI, "none: it must be given", []);
/// The rows of `uwsgi_cache…`.
pub static UWSGI_ROWS: &[Row] = cache_rows!("uwsgi", UWSGI, "none: it must be given", []);
