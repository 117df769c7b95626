//! `-v` and `-V`.

use brisk_modules::MODULES;
use std::fmt::Write as _;

/// The version of nginx whose configuration and behaviour are followed.
pub const NGINX: &str = "1.31.5";

pub fn short() -> String {
    format!("brisk version: brisk/{}\nnginx version: nginx/{NGINX} (followed)\n", env!("CARGO_PKG_VERSION"))
}

/// Modules that nginx has unless told otherwise: what is missing here is named `--without-…`.
const STANDARD: &[&str] = &[
    "charset",
    "gzip",
    "ssi",
    "userid",
    "access",
    "auth_basic",
    "mirror",
    "autoindex",
    "geo",
    "map",
    "split_clients",
    "referer",
    "rewrite",
    "proxy",
    "fastcgi",
    "uwsgi",
    "scgi",
    "grpc",
    "memcached",
    "limit_conn",
    "limit_req",
    "empty_gif",
    "browser",
    "upstream_hash",
    "upstream_ip_hash",
    "upstream_least_conn",
    "upstream_least_time",
    "upstream_random",
    "upstream_keepalive",
    "upstream_zone",
    "upstream_sticky",
    "tunnel",
];

/// Modules that nginx has only if told so.
const OPTIONAL: &[&str] = &[
    "ssl",
    "v2",
    "v3",
    "realip",
    "addition",
    "image_filter",
    "sub",
    "gunzip",
    "gzip_static",
    "auth_request",
    "random_index",
    "secure_link",
    "slice",
    "stub_status",
    "mp4",
    "flv",
    "dav",
];

pub fn long() -> String {
    // Balancing methods are one module here.
    let is =
        |module: &str, name: &str| module == name || module == "upstream" && name.starts_with("upstream_");
    let has = |name: &str| MODULES.iter().any(|m| is(m.name, name));
    let mut out = short();
    // Tools look for the version of OpenSSL whose settings they may use.
    out.push_str("built with AWS-LC (rustls), settings and messages as with OpenSSL 3.0.0\nTLS SNI support enabled\nconfigure arguments: --with-debug --with-stream --with-stream_realip_module --with-stream_ssl_module --with-stream_ssl_preread_module");
    let prefix = crate::config::system_prefix();
    let _ = write!(out, " --prefix={prefix} --conf-path={prefix}brisk.conf");
    for name in OPTIONAL.iter().filter(|name| has(name)) {
        let _ = write!(out, " --with-http_{name}_module");
    }
    for name in STANDARD.iter().filter(|name| !has(name)) {
        let _ = write!(out, " --without-http_{name}_module");
    }
    if !has("proxy") {
        out.push_str(" --without-http-cache");
    }
    out.push('\n');
    out
}
