//! Modules of Apache's of which Brisk does what they are asked for, without `mod_`.

/// Those that files of folders ask for, and a server's own files as well.
pub const OF_FOLDERS: &[&str] = &[
    "access_compat",
    "alias",
    "allowmethods",
    "auth_basic",
    "auth_digest",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_groupfile",
    "authz_host",
    "authz_user",
    "autoindex",
    "brotli",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "include",
    "log_debug",
    "mime",
    "negotiation",
    "rewrite",
    "setenvif",
    "speling",
];

/// Those that only a server's own files ask for.
pub const OF_SERVERS: &[&str] = &[
    "http2",
    "log_config",
    "macro",
    "mpm_event",
    "mpm_prefork",
    "mpm_worker",
    "php",
    "php7",
    "php8",
    "proxy",
    "proxy_fcgi",
    "proxy_http",
    "remoteip",
    "reqtimeout",
    "socache_shmcb",
    "ssl",
    "userdir",
];

/// Those of a server's own files whose lines `.htaccess` may have, some of which close something: `SSLRequireSSL`, `php_flag engine off`.
pub const OF_BOTH: &[&str] = &["php", "php7", "php8", "ssl"];

/// Whether a server's own files may load it.
pub fn has(name: &str) -> bool {
    OF_FOLDERS.contains(&name) || OF_SERVERS.contains(&name)
}

/// All of them, by name.
pub fn all() -> Vec<&'static str> {
    let mut all = [OF_FOLDERS, OF_SERVERS].concat();
    all.sort_unstable();
    all
}
