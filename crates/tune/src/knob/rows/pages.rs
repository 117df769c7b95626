//! Caches of pages. A page is kept for a second. An answer to a request with a cookie or a password is not kept. Of many requests for the same page at
//! once, one goes to the back end.

use super::forms::{FASTCGI, PROXY, beside, nginx};
use crate::knob::row::Domain::Choice;
use crate::knob::row::{Companion, Knob, Risk};

/// Limits that a cache of pages moves. Where the application itself is the limit, a cache is not proposed, but it is tried with `--allow correctness`.
const CAUSES: &[&str] = &[
    "php-cpu",
    "php-one-process",
    "pool-too-small",
    "database-cpu",
    "database-connections",
    "database-one-thread",
    "application-cpu",
    "application-waits",
    "service-slow",
];

/// A zone of each kind: nginx has no zone for both.
const FASTCGI_ZONE: &str = "/var/cache/brisk_pages levels=1:2 keys_zone=brisk_pages:10m max_size=256m inactive=10m use_temp_path=off";
const PROXY_ZONE: &str = "/var/cache/brisk_proxied levels=1:2 keys_zone=brisk_proxied:10m max_size=256m inactive=10m use_temp_path=off";
/// Servers of one name at other addresses or ports are other sites: one of them may be for the inside only.
const KEY: &str = "$scheme$request_method$host:$server_addr:$server_port$request_uri";
/// If one of these is set, the cache does not answer the request and does not keep its answer: it may be for one visitor only.
const PERSONAL: &str = "$http_cookie $http_authorization";
const TIME: &str = "200 1s";

const fn path(name: &'static str, value: &'static str) -> Companion {
    Companion { name, value, repeats: true }
}

/// What would weaken the lines of [`CACHE`]'s rows, or makes pages personal by something other than a cookie or a password.
const FASTCGI_OTHERS: &[&str] = &[
    "fastcgi_ignore_headers",
    "fastcgi_no_cache",
    "fastcgi_cache_bypass",
    "fastcgi_cache_key",
    "fastcgi_cache_valid",
    "fastcgi_cache_methods",
    "auth_request",
    "ssl_verify_client",
];
const PROXY_OTHERS: &[&str] = &[
    "proxy_ignore_headers",
    "proxy_no_cache",
    "proxy_cache_bypass",
    "proxy_cache_key",
    "proxy_cache_valid",
    "proxy_cache_methods",
    "auth_request",
    "ssl_verify_client",
];

const CACHE: Knob = Knob { default: "off", risk: Risk::Correctness, causes: CAUSES, ..nginx("", "http") };

const VALID: Knob = Knob {
    default: "",
    domain: Choice(&["", "200 1s", "200 10s"]),
    risk: Risk::Correctness,
    causes: CAUSES,
    ..nginx("", "http")
};

/// Its rows.
pub(super) const ROWS: &[Knob] = &[
    Knob {
        name: "fastcgi_cache",
        domain: Choice(&["off", "brisk_pages"]),
        companions: &[
            path("fastcgi_cache_path", FASTCGI_ZONE),
            beside("fastcgi_cache_key", KEY),
            beside("fastcgi_cache_valid", TIME),
            beside("fastcgi_cache_bypass", PERSONAL),
            beside("fastcgi_no_cache", PERSONAL),
            beside("fastcgi_cache_lock", "on"),
            beside("fastcgi_cache_use_stale", "updating"),
        ],
        needs_any: FASTCGI,
        not_with: FASTCGI_OTHERS,
        source: "articles 001 and 004",
        ..CACHE
    },
    Knob {
        name: "fastcgi_cache_valid",
        idle_with: Some(("fastcgi_cache", "off")),
        source: "articles 001 and 004",
        ..VALID
    },
    Knob {
        name: "proxy_cache",
        domain: Choice(&["off", "brisk_proxied"]),
        companions: &[
            path("proxy_cache_path", PROXY_ZONE),
            beside("proxy_cache_key", KEY),
            beside("proxy_cache_valid", TIME),
            beside("proxy_cache_bypass", PERSONAL),
            beside("proxy_no_cache", PERSONAL),
            beside("proxy_cache_lock", "on"),
            beside("proxy_cache_use_stale", "updating"),
        ],
        needs_any: PROXY,
        not_with: PROXY_OTHERS,
        source: "article 002",
        ..CACHE
    },
    Knob {
        name: "proxy_cache_valid",
        idle_with: Some(("proxy_cache", "off")),
        source: "article 002",
        ..VALID
    },
];
