//! The web server's configuration, in nginx's language.

use super::check::{Check, Seen, Tier, Weight};
use crate::ini::bytes;
use crate::site::{Block, Setting, Site};

/// A block with those around it, the file first.
#[derive(Clone)]
struct Scope<'a>(Vec<&'a Block>);

impl<'a> Scope<'a> {
    fn block(&self) -> &'a Block {
        self.0[self.0.len() - 1]
    }

    /// What holds in the block: its own directive, or that of the nearest block around it.
    fn find(&self, name: &str) -> Option<&'a Setting> {
        self.0.iter().rev().find_map(|block| block.own(name))
    }

    /// The same for directives that form a list: a block's own ones replace those around it.
    fn list(&self, name: &'a str) -> Vec<&'a Setting> {
        let own = |block: &&'a Block| block.all(name).collect::<Vec<_>>();
        self.0.iter().rev().map(own).find(|all| !all.is_empty()).unwrap_or_default()
    }

    fn is_on(&self, name: &str) -> bool {
        self.find(name).is_some_and(|setting| setting.value() == "on")
    }

    fn has_tls(&self) -> bool {
        let of_server = self.0.iter().rev().find(|block| block.name == "server");
        of_server.is_some_and(|server| server.all("listen").any(|listen| listen.has("ssl")))
    }
}

/// All blocks of these names inside of `http`.
fn scopes<'a>(site: &'a Site, names: &[&str]) -> Vec<Scope<'a>> {
    fn walk<'a>(around: &Scope<'a>, names: &[&str], found: &mut Vec<Scope<'a>>) {
        for block in &around.block().blocks {
            let mut chain = around.0.clone();
            chain.push(block);
            let scope = Scope(chain);
            if names.contains(&&*block.name) {
                found.push(scope.clone());
            }
            walk(&scope, names, found);
        }
    }
    let mut found = Vec::new();
    if let Some(root) = &site.server {
        for http in root.blocks.iter().filter(|block| block.name == "http") {
            walk(&Scope(vec![root, http]), names, &mut found);
        }
    }
    found
}

fn servers(site: &Site) -> Vec<Scope<'_>> {
    // `server` of an upstream is a directive, that of `stream` is elsewhere: what is left answers requests.
    scopes(site, &["server"])
}

/// Servers and locations in which it is so, by the directive that says so, or by the block.
fn where_set(site: &Site, name: &str, is_bad: impl Fn(&Setting) -> bool) -> Vec<Seen> {
    fn walk(block: &Block, name: &str, is_bad: &dyn Fn(&Setting) -> bool, seen: &mut Vec<Seen>) {
        let bad = block.settings.iter().filter(|setting| setting.name == name && is_bad(setting));
        seen.extend(bad.map(|setting| Seen::at(&setting.place, setting.text())));
        block.blocks.iter().for_each(|inner| walk(inner, name, is_bad, seen));
    }
    let mut seen = Vec::new();
    if let Some(root) = &site.server {
        walk(root, name, &is_bad, &mut seen);
    }
    seen
}

fn main_setting<'a>(site: &'a Site, name: &str) -> Option<&'a Setting> {
    site.server.as_ref()?.own(name)
}

fn has_http(site: &Site) -> bool {
    site.server.as_ref().is_some_and(|root| root.blocks.iter().any(|block| block.name == "http"))
}

fn named(scope: &Scope<'_>) -> String {
    let server = scope.0.iter().rev().find(|block| block.name == "server");
    let name = server.and_then(|server| server.own("server_name")).map_or("", Setting::value);
    if name.is_empty() { "a server".to_string() } else { format!("server {name}") }
}

fn of_servers(site: &Site, is_bad: impl Fn(&Scope<'_>) -> bool, what: &str) -> Vec<Seen> {
    let all = servers(site);
    let bad = all.iter().filter(|scope| is_bad(scope));
    bad.map(|scope| Seen::at(&scope.block().place, format!("{}: {what}", named(scope)))).collect()
}

/// Whether a server answers with text that it makes or has: one that only redirects has nothing to compress.
fn has_content(scope: &Scope<'_>) -> bool {
    fn any(block: &Block) -> bool {
        const GIVES: &[&str] = &[
            "proxy_pass",
            "fastcgi_pass",
            "uwsgi_pass",
            "scgi_pass",
            "grpc_pass",
            "php_pass",
            "root",
            "alias",
        ];
        block.settings.iter().any(|setting| GIVES.contains(&&*setting.name)) || block.blocks.iter().any(any)
    }
    any(scope.block()) || (scope.find("root").is_some() && scope.block().own("return").is_none())
}

fn compresses(scope: &Scope<'_>) -> bool {
    ["gzip", "brotli", "zstd", "gzip_static", "brotli_static", "compress_static"]
        .iter()
        .any(|name| scope.find(name).is_some_and(|setting| !matches!(setting.value(), "off" | "")))
}

/// A location of the server compresses.
fn compresses_somewhere(block: &Block) -> bool {
    block.own("gzip").is_some_and(|setting| setting.value() == "on")
        || block.blocks.iter().any(compresses_somewhere)
}

/// Anywhere in a server's blocks.
fn inside(block: &Block, name: &str) -> bool {
    block.own(name).is_some() || block.blocks.iter().any(|inner| inside(inner, name))
}

fn gzip_off(site: &Site) -> Vec<Seen> {
    of_servers(
        site,
        |scope| has_content(scope) && !compresses(scope) && !compresses_somewhere(scope.block()),
        "nothing is compressed",
    )
}

fn gzip_html_only(site: &Site) -> Vec<Seen> {
    of_servers(
        site,
        |scope| {
            scope.is_on("gzip") && scope.list("gzip_types").is_empty() && !inside(scope.block(), "gzip_types")
        },
        "gzip is on, for text/html alone",
    )
}

fn gzip_of_images(site: &Site) -> Vec<Seen> {
    let packed = |arg: &String| {
        matches!(arg.as_str(), "image/jpeg" | "image/png" | "image/gif" | "image/webp" | "image/avif")
            || arg.starts_with("video/")
            || matches!(
                arg.as_str(),
                "application/zip" | "application/gzip" | "font/woff2" | "application/pdf" | "*"
            )
    };
    where_set(site, "gzip_types", |setting| setting.args.iter().any(packed))
}

fn gzip_level(site: &Site) -> Vec<Seen> {
    where_set(site, "gzip_comp_level", |setting| setting.value().parse().is_ok_and(|level: u32| level > 6))
}

fn gzip_short(site: &Site) -> Vec<Seen> {
    where_set(site, "gzip_min_length", |setting| bytes(setting.value()).is_some_and(|least| least < 100))
}

fn gzip_vary(site: &Site) -> Vec<Seen> {
    of_servers(site, |scope| scope.is_on("gzip") && !scope.is_on("gzip_vary"), "gzip without gzip_vary")
}

fn no_lifetimes(site: &Site) -> Vec<Seen> {
    let says = |block: &Block| {
        let has_field = |setting: &Setting| {
            setting.name == "expires"
                || (setting.name == "add_header" && setting.value().eq_ignore_ascii_case("cache-control"))
        };
        fn any(block: &Block, has: &dyn Fn(&Setting) -> bool) -> bool {
            block.settings.iter().any(has) || block.blocks.iter().any(|inner| any(inner, has))
        }
        any(block, &has_field)
    };
    let bad = |scope: &Scope<'_>| {
        let is_inherited = scope.0.iter().any(|block| {
            block.own("expires").is_some()
                || block.all("add_header").any(|header| header.value().eq_ignore_ascii_case("cache-control"))
        });
        scope.find("root").is_some() && has_content(scope) && !is_inherited && !says(scope.block())
    };
    of_servers(site, bad, "files are sent without a lifetime")
}

fn keepalive_off(site: &Site) -> Vec<Seen> {
    let of_apache = |name: &str, off: &str| {
        let last = site.apache.iter().rev().find(|setting| setting.name.eq_ignore_ascii_case(name));
        let is_off = |setting: &&Setting| setting.value().eq_ignore_ascii_case(off);
        last.filter(is_off).map(|setting| Seen::at(&setting.place, setting.text()))
    };
    let mut seen = where_set(site, "keepalive_timeout", |setting| matches!(setting.value(), "0" | "0s"));
    seen.extend(of_apache("KeepAlive", "off").or_else(|| of_apache("KeepAliveTimeout", "0")));
    seen
}

fn keepalive_few(site: &Site) -> Vec<Seen> {
    where_set(site, "keepalive_requests", |setting| {
        setting.value().parse().is_ok_and(|count: u64| count < 100)
    })
}

fn sendfile_off(site: &Site) -> Vec<Seen> {
    if site.is_brisk {
        return where_set(site, "sendfile", |setting| setting.value() == "off");
    }
    of_servers(site, |scope| scope.find("root").is_some() && !scope.is_on("sendfile"), "sendfile is off")
}

fn one_worker(site: &Site) -> Vec<Seen> {
    if !has_http(site) || site.is_brisk || site.machine.cpus < 2 {
        return Vec::new();
    }
    match main_setting(site, "worker_processes") {
        None => vec![Seen::nowhere(format!("one worker for {} CPUs (nginx's default)", site.machine.cpus))],
        Some(setting) if setting.value() == "1" => {
            vec![Seen::at(&setting.place, format!("one worker for {} CPUs", site.machine.cpus))]
        }
        Some(_) => Vec::new(),
    }
}

fn many_workers(site: &Site) -> Vec<Seen> {
    let cpus = site.machine.cpus;
    where_set(site, "worker_processes", |setting| {
        cpus > 0 && setting.value().parse().is_ok_and(|count: u64| count > cpus.saturating_mul(2).max(4))
    })
}

fn few_connections(site: &Site) -> Vec<Seen> {
    if !has_http(site) || site.is_brisk {
        return Vec::new();
    }
    let events = site.server.iter().flat_map(|root| &root.blocks).find(|block| block.name == "events");
    match events.and_then(|events| events.own("worker_connections")) {
        Some(setting) if setting.value().parse().is_ok_and(|count: u64| count < 1024) => {
            vec![Seen::at(&setting.place, setting.text())]
        }
        Some(_) => Vec::new(),
        None => vec![Seen::nowhere("worker_connections 512 (nginx's default)")],
    }
}

fn few_descriptors(site: &Site) -> Vec<Seen> {
    let events = site.server.iter().flat_map(|root| &root.blocks).find(|block| block.name == "events");
    let Some(connections) = events.and_then(|events| events.own("worker_connections")) else {
        return Vec::new();
    };
    let Ok(count) = connections.value().parse::<u64>() else { return Vec::new() };
    let limit = main_setting(site, "worker_rlimit_nofile");
    match limit.map(|setting| (setting, setting.value().parse::<u64>())) {
        Some((setting, Ok(files))) if files < count => {
            vec![Seen::at(&setting.place, format!("{} for {count} connections", setting.text()))]
        }
        None if count > 1024 && !site.is_brisk => {
            vec![Seen::at(&connections.place, format!("{} without worker_rlimit_nofile", connections.text()))]
        }
        _ => Vec::new(),
    }
}

fn unbuffered_log(site: &Site) -> Vec<Seen> {
    if site.is_brisk {
        // Lines of a wake-up are written together there.
        return Vec::new();
    }
    where_set(site, "access_log", |setting| {
        let is_file = setting.value() != "off" && !setting.value().starts_with("syslog:");
        is_file && !setting.args.iter().any(|arg| arg.starts_with("buffer=") || arg.starts_with("gzip"))
    })
}

fn debug_log(site: &Site) -> Vec<Seen> {
    where_set(site, "error_log", |setting| setting.has("debug"))
}

fn no_open_files(site: &Site) -> Vec<Seen> {
    if site.is_brisk {
        return Vec::new();
    }
    of_servers(
        site,
        |scope| {
            scope.find("root").is_some()
                && scope.find("open_file_cache").is_none_or(|setting| setting.value() == "off")
        },
        "each request opens its file anew",
    )
}

fn no_resumption(site: &Site) -> Vec<Seen> {
    let no_tickets =
        |scope: &Scope<'_>| scope.find("ssl_session_tickets").is_some_and(|t| t.value() == "off");
    let no_cache = |scope: &Scope<'_>| {
        scope.find("ssl_session_cache").is_none_or(|cache| cache.has("off") || cache.has("none"))
    };
    of_servers(
        site,
        |scope| scope.has_tls() && no_tickets(scope) && no_cache(scope),
        "neither tickets nor a session cache: each connection is a full handshake",
    )
}

fn no_http2(site: &Site) -> Vec<Seen> {
    let asked = |scope: &Scope<'_>| {
        scope.is_on("http2") || scope.block().all("listen").any(|listen| listen.has("http2"))
    };
    of_servers(site, |scope| scope.has_tls() && !asked(scope), "TLS without HTTP/2")
}

fn few_streams(site: &Site) -> Vec<Seen> {
    where_set(site, "http2_max_concurrent_streams", |setting| {
        setting.value().parse().is_ok_and(|count: u64| count < 32)
    })
}

fn old_tls(site: &Site) -> Vec<Seen> {
    where_set(site, "ssl_protocols", |setting| {
        ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"].iter().any(|old| setting.has(old))
    })
}

/// Groups that are asked over connections of which each is for one request.
fn no_back_keepalive(site: &Site) -> Vec<Seen> {
    if site.is_brisk {
        return Vec::new();
    }
    let groups = scopes(site, &["upstream"]);
    let is_used = |name: &str| {
        let used = |scope: &Scope<'_>| {
            scope.block().all("proxy_pass").any(|pass| {
                let rest = pass.value().split_once("://").map_or(pass.value(), |(_, rest)| rest);
                rest.split(['/', ':']).next() == Some(name)
            })
        };
        scopes(site, &["location", "server", "if"]).iter().any(used)
    };
    groups
        .iter()
        .map(Scope::block)
        .filter(|group| group.own("keepalive").is_none())
        .filter(|group| group.args.first().is_some_and(|name| is_used(name)))
        .map(|group| Seen::at(&group.place, format!("upstream {} without keepalive", group.args.join(" "))))
        .collect()
}

/// A kept connection needs HTTP/1.1 and an empty Connection header, or it is closed all the same.
fn back_keepalive_in_vain(site: &Site) -> Vec<Seen> {
    if site.is_brisk {
        return Vec::new();
    }
    let kept: Vec<&str> = scopes(site, &["upstream"])
        .iter()
        .map(Scope::block)
        .filter(|group| group.own("keepalive").is_some())
        .filter_map(|group| Some(group.args.first()?.as_str()))
        .collect();
    let mut seen = Vec::new();
    for scope in scopes(site, &["location"]) {
        for pass in scope.block().all("proxy_pass") {
            let rest = pass.value().split_once("://").map_or(pass.value(), |(_, rest)| rest);
            let is_kept = rest.split(['/', ':']).next().is_some_and(|name| kept.contains(&name));
            let is_new = scope.find("proxy_http_version").is_some_and(|version| version.value() != "1.0");
            let is_clear = scope
                .list("proxy_set_header")
                .iter()
                .any(|header| header.value().eq_ignore_ascii_case("connection"));
            if is_kept && !(is_new && is_clear) {
                seen.push(Seen::at(&pass.place, format!("{} to a group with keepalive", pass.text())));
            }
        }
    }
    seen
}

/// The names of one family of cache directives.
const CACHES: [(&str, &str); 4] = [
    ("fastcgi", "fastcgi_cache"),
    ("proxy", "proxy_cache"),
    ("uwsgi", "uwsgi_cache"),
    ("scgi", "scgi_cache"),
];

/// Blocks that keep answers, with the family's name.
fn caching(site: &Site) -> Vec<(Scope<'_>, &'static str, Setting)> {
    let mut found = Vec::new();
    for scope in scopes(site, &["location", "server"]) {
        for (family, name) in CACHES {
            let passes = scope.block().settings.iter().any(|s| s.name == format!("{family}_pass"));
            let Some(setting) = scope.find(name).filter(|setting| setting.value() != "off") else { continue };
            if passes {
                found.push((scope.clone(), family, setting.clone()));
            }
        }
    }
    found
}

/// A cache whose pages are made for a user by cookies, and given to everybody.
fn leaking_cache(site: &Site) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (scope, family, setting) in caching(site) {
        let names = [format!("{family}_no_cache"), format!("{family}_cache_bypass")];
        let is_guarded = names.iter().all(|name| scope.find(name).is_some());
        let ignored = format!("{family}_ignore_headers");
        let ignores = scope.find(&ignored).is_some_and(|s| {
            s.args
                .iter()
                .any(|a| a.eq_ignore_ascii_case("set-cookie") || a.eq_ignore_ascii_case("cache-control"))
        });
        let key = format!("{family}_cache_key");
        let by_cookie = scope.find(&key).is_some_and(|key| key.args.iter().any(|arg| arg.contains("cookie")));
        if ignores && !is_guarded && !by_cookie {
            seen.push(Seen::at(
                &setting.place,
                format!("{} with {ignored}, without {} and {}", setting.text(), names[0], names[1]),
            ));
        }
    }
    seen
}

/// A key that does not tell hosts or arguments apart.
fn short_cache_key(site: &Site) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (scope, family, _) in caching(site) {
        let name = format!("{family}_cache_key");
        let Some(key) = scope.find(&name) else { continue };
        let text = key.args.join(" ");
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let has_target = has(&["$request_uri", "$args", "$query_string", "$is_args"]);
        let has_host = has(&["$host", "$http_host", "$server_name", "$proxy_host"]);
        if !has_target || !has_host {
            let lacks = if has_target { "the host" } else { "the arguments" };
            seen.push(Seen::at(&key.place, format!("{} lacks {lacks}", key.text())));
        }
    }
    seen
}

/// What all who ask for an expired page have made at the same time.
fn cache_stampede(site: &Site) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (scope, family, setting) in caching(site) {
        let locks = scope.is_on(&format!("{family}_cache_lock"));
        let stale =
            scope.find(&format!("{family}_cache_use_stale")).is_some_and(|setting| setting.has("updating"));
        if !locks && !stale {
            seen.push(Seen::at(&setting.place, format!("{} without {family}_cache_lock", setting.text())));
        }
    }
    seen
}

fn buffering_off(site: &Site) -> Vec<Seen> {
    let mut seen = where_set(site, "proxy_buffering", |setting| setting.value() == "off");
    seen.extend(where_set(site, "fastcgi_buffering", |setting| setting.value() == "off"));
    seen
}

fn no_fastcgi_keepalive(site: &Site) -> Vec<Seen> {
    if site.is_brisk {
        return Vec::new();
    }
    let groups = scopes(site, &["upstream"]);
    let mut seen = Vec::new();
    for scope in scopes(site, &["location"]) {
        for pass in scope.block().all("fastcgi_pass") {
            let group = groups.iter().map(Scope::block).find(|group| group.args.first() == pass.args.first());
            let keeps = group.is_some_and(|group| group.own("keepalive").is_some())
                && scope.is_on("fastcgi_keep_conn");
            if !keeps {
                seen.push(Seen::at(&pass.place, format!("{}: a connection for each request", pass.text())));
            }
        }
    }
    seen
}

fn small_backlog(site: &Site) -> Vec<Seen> {
    where_set(site, "listen", |setting| {
        setting.args.iter().any(|arg| {
            arg.strip_prefix("backlog=")
                .and_then(|n| n.parse::<i64>().ok())
                .is_some_and(|n| (0..511).contains(&n))
        })
    })
}

fn etag_off(site: &Site) -> Vec<Seen> {
    let mut seen = where_set(site, "etag", |setting| setting.value() == "off");
    seen.extend(where_set(site, "if_modified_since", |setting| setting.value() == "off"));
    seen
}

fn nodelay_off(site: &Site) -> Vec<Seen> {
    where_set(site, "tcp_nodelay", |setting| setting.value() == "off")
}

const fn row(
    slug: &'static str,
    weight: Weight,
    why: &'static str,
    gain: Option<&'static str>,
    line: &'static str,
    look: fn(&Site) -> Vec<Seen>,
) -> Check {
    Check { slug, tier: Tier::Server, weight, why, gain, line, look }
}

#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    row("cache-leaks", Weight::Danger, "Answers that set cookies, or forbid to be kept, are kept and given to everybody: a logged-in user's page is shown to strangers.",
        None, "fastcgi_no_cache $http_cookie; fastcgi_cache_bypass $http_cookie; # or a map of the cookies of logins", leaking_cache),
    row("cache-key-short", Weight::Danger, "Pages of different hosts or with different arguments are taken for one.",
        None, "fastcgi_cache_key $scheme$request_method$host$request_uri;", short_cache_key),
    row("tls-old", Weight::Danger, "TLS before 1.2 is broken (RFC 8996).",
        None, "ssl_protocols TLSv1.2 TLSv1.3;", old_tls),
    row("compression-off", Weight::Large, "Text crosses the network at three to seven times its size when compressed.",
        Some("a style sheet of 54 KB is 7.5 KB compressed (docs/experiments/004.md)"), "gzip on; gzip_types text/css application/javascript application/json image/svg+xml;", gzip_off),
    row("compression-html-only", Weight::Large, "Style sheets, scripts and JSON are sent as they are.",
        Some("a style sheet of 54 KB is 7.5 KB compressed (docs/experiments/004.md)"), "gzip_types text/css application/javascript application/json image/svg+xml;", gzip_html_only),
    row("compression-of-compressed", Weight::Small, "What is compressed already gets no smaller, and costs the CPU of compressing.",
        None, "gzip_types without image/jpeg, image/png, video/*, font/woff2 and archives;", gzip_of_images),
    row("compression-level", Weight::Small, "Levels above 6 take several times the CPU for a percent or two fewer bytes.",
        Some("level 1 needs a tenth of the CPU of level 9 for 7 % more bytes (nginx, docs/cookbook/gzip-level.md)"), "gzip_comp_level 5; # and gzip_static on; for files", gzip_level),
    row("compression-of-little", Weight::Small, "An answer that fits into one packet gains nothing by being smaller.",
        None, "gzip_min_length 256;", gzip_short),
    row("compression-vary", Weight::Small, "Caches between server and users may give the compressed answer to who cannot read it, or none to anybody.",
        None, "gzip_vary on;", gzip_vary),
    row("lifetimes-none", Weight::Large, "Browsers ask again for every style sheet, script and image on every page.",
        None, "location ~* \\.(css|js|png|jpe?g|webp|svg|woff2)$ { expires 30d; }", no_lifetimes),
    row("keepalive-off", Weight::Large, "Each request pays for a connection, and over TLS for a handshake.",
        Some("41,131 requests/s with a connection each, 98,173 with kept ones (nginx, docs/experiments/004.md)"), "keepalive_timeout 65s;", keepalive_off),
    row("keepalive-few-requests", Weight::Small, "Connections are closed after so few requests that a page needs several.",
        None, "keepalive_requests 1000;", keepalive_few),
    row("sendfile-off", Weight::Small, "Files are copied through the server's memory.",
        None, "sendfile on; tcp_nopush on;", sendfile_off),
    row("workers-one", Weight::Large, "One worker uses one CPU.",
        Some("+21 % requests/s with two CPUs (nginx, kept connections, docs/experiments/004.md)"), "worker_processes auto;", one_worker),
    row("workers-many", Weight::Small, "More workers than CPUs take turns on them, and each has its own connections to back ends.",
        None, "worker_processes auto;", many_workers),
    row("connections-few", Weight::Large, "A worker accepts no more than this, back ends' connections included; the others wait.",
        None, "events { worker_connections 4096; }", few_connections),
    row("descriptors-few", Weight::Large, "Each connection is a descriptor, each connection to a back end and each file another one.",
        None, "worker_rlimit_nofile 65536;", few_descriptors),
    row("access-log-unbuffered", Weight::Small, "Each request is a write to the disk's file.",
        Some("−8 % CPU per request without a log at all (nginx, kept connections, docs/experiments/004.md)"), "access_log /var/log/nginx/access.log combined buffer=64k flush=5s;", unbuffered_log),
    row("error-log-debug", Weight::Large, "Dozens of lines are written for each request.",
        None, "error_log /var/log/nginx/error.log warn;", debug_log),
    row("files-opened-anew", Weight::Small, "Open, stat and close of the same files for every request.",
        Some("−10 % CPU per request (nginx, kept connections, docs/experiments/004.md)"), "open_file_cache max=10000 inactive=60s; open_file_cache_valid 30s;", no_open_files),
    row("tls-no-resumption", Weight::Large, "A resumed session saves the client a round trip and the server its signature.",
        Some("−61 % CPU per request, 9.4 ms → 4.0 ms (nginx, a connection each, docs/cookbook/tls-sessions.md)"), "ssl_session_cache shared:tls:10m; ssl_session_timeout 1d;", no_resumption),
    row("http2-off", Weight::Large, "Browsers open six connections and queue the rest of a page's requests behind them.",
        Some("half the CPU per request (Brisk, docs/cookbook/http2.md); undecided for nginx"), "http2 on; # nginx before 1.25.1: listen 443 ssl http2;", no_http2),
    row("http2-few-streams", Weight::Small, "A page's requests wait for each other.",
        None, "http2_max_concurrent_streams 128;", few_streams),
    row("back-end-connections", Weight::Large, "Each request opens a connection to the back end.",
        Some("−53 % CPU per request, 6.6 ms → 2.7 ms (nginx, docs/cookbook/upstream-keepalive.md)"), "keepalive 32; # in the upstream; and proxy_http_version 1.1; proxy_set_header Connection \"\";", no_back_keepalive),
    row("back-end-keepalive-in-vain", Weight::Large, "Without HTTP/1.1 and an empty Connection header the kept connection is closed after each request.",
        Some("−53 % CPU per request, 6.6 ms → 2.7 ms (nginx, docs/cookbook/upstream-keepalive.md)"), "proxy_http_version 1.1; proxy_set_header Connection \"\";", back_keepalive_in_vain),
    row("fastcgi-connections", Weight::Small, "Each request opens a connection to PHP.",
        None, "upstream php { server unix:/run/php/php-fpm.sock; keepalive 8; } … fastcgi_pass php; fastcgi_keep_conn on;", no_fastcgi_keepalive),
    row("cache-stampede", Weight::Large, "When a page expires, all who ask for it have it made at the same time.",
        None, "fastcgi_cache_lock on; fastcgi_cache_use_stale updating error timeout; fastcgi_cache_background_update on;", cache_stampede),
    row("buffering-off", Weight::Large, "A slow client keeps the back end's process busy until it has read all.",
        None, "proxy_buffering on; # off only for streams of events", buffering_off),
    row("backlog-small", Weight::Small, "Connections that come at once are dropped and tried again a second later.",
        None, "listen 80 backlog=4096; # and net.core.somaxconn", small_backlog),
    row("validators-off", Weight::Small, "Browsers cannot ask whether a file has changed, and get it as a whole again.",
        None, "etag on; if_modified_since exact;", etag_off),
    row("nodelay-off", Weight::Small, "The last packet of an answer waits up to 40 ms for the client's acknowledgement.",
        None, "tcp_nodelay on;", nodelay_off),
];
