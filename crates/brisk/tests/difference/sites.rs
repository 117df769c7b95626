//! Random configurations: many servers in one file, each with directives drawn from lists that together touch most of what a
//! request can be answered by.

use crate::random::Rng;
use std::fmt::Write as _;

/// One server of a configuration.
pub struct Site {
    pub name: String,
    pub text: String,
    pub has_tls: bool,
    /// There is another server of the same name on 127.0.0.3 alone.
    pub has_twin: bool,
}

/// Values of every kind: what follows from the target, and what a client brings along.
const VALUES: &[&str] = &[
    "fixed",
    "$uri",
    "$args",
    "$arg_a",
    "$host",
    "$http_host",
    "$request_uri",
    "$scheme://$host:$server_port$uri$is_args$args",
    "$server_name $request_method $server_protocol",
    "$document_root$uri",
    "$http_x_test",
    "$http_user_agent",
    "$http_accept_language",
    "$http_nosuch",
    "$cookie_a",
    "$http_cookie",
    "$cookie_nosuch",
    "$remote_addr",
    "$binary_remote_addr_text",
    "$server_addr",
    "$map_agent",
    "$map_arg",
    "$map_test",
    "$map_volatile",
    "$geo_client",
    "$geo_arg",
    "$split_client",
    "$split_uri",
    "$request_id",
    "at=$msec",
    "$connection_requests",
    "$pipe",
    "$ssl_protocol",
    "$ssl_server_name",
    "$https",
    "$http2",
    "$remote_user",
    "$request_length",
    "$content_type",
    "$realip_remote_addr",
    "$proxy_add_x_forwarded_for",
    "$invalid_referer",
    "$modern_browser$ancient_browser$msie",
    "$secure_link",
    "$uid_got",
    "$status",
    "$limit_rate",
    "$upstream_cache_status",
    "$sent_http_content_type",
    "$v",
    "$1",
    "$request_completion",
    "$http_accept_encoding",
    "$http_via",
];

/// Conditions of `if` and the like.
const CONDITIONS: &[&str] = &[
    "$arg_a",
    "$http_x_test",
    "$http_x_test = b",
    "$http_user_agent ~ Safari",
    "$http_cookie ~ \"a=(\\w)\"",
    "$cookie_a = one",
    "$remote_addr = 127.0.0.2",
    "$map_agent = old",
    "$map_test",
    "$geo_client = second",
    "$split_client = half",
    "$scheme = https",
    "$ssl_protocol = TLSv1.2",
    "$http2",
    "$invalid_referer",
    "$uri ~ \"^/(i)/\"",
    "-f $document_root/a.txt",
    "!-e $document_root$uri",
    "-f $document_root/$cookie_a.html",
    "$request_method = POST",
    "$http_via",
    "$remote_user",
];

/// What stands in servers and locations alike: a row per directive, of which one text is drawn. VALUE and OTHER are drawn, too.
const COMMON: &[&[&str]] = &[
    &[
        "add_header X-One \"VALUE\";\n    add_header X-Two \"OTHER\";",
        "add_header X-One \"VALUE\" always;\n    add_header X-Two \"OTHER\";",
    ],
    &[
        "expires 1h;",
        "expires -1;",
        "expires epoch;",
        "expires max;",
        "expires $map_expires;",
        "expires modified 1d;",
    ],
    &["gzip on;", "gzip off;"],
    &["gzip_min_length 1;"],
    &["gzip_types text/plain text/css application/octet-stream;"],
    &["gzip_vary on;"],
    &["gzip_proxied any;", "gzip_proxied auth;", "gzip_proxied expired no_etag;", "gzip_proxied off;"],
    &["gzip_disable msie6;", "gzip_disable Safari;"],
    &["gzip_http_version 1.0;"],
    &["gzip_static on;", "gzip_static always;"],
    &["gunzip on;"],
    &["allow 127.0.0.1; deny all;", "deny 127.0.0.2;", "deny all;", "allow all;"],
    &["satisfy any;", "satisfy all;"],
    &[
        "auth_basic closed;\n    auth_basic_user_file FILES/passwords;",
        "auth_basic off;",
        "auth_basic $map_realm;\n    auth_basic_user_file FILES/passwords;",
    ],
    &["limit_req zone=by_client;"],
    &["limit_conn by_address 100;"],
    &["keepalive_disable safari;", "keepalive_disable msie6 safari;", "keepalive_disable none;"],
    &["keepalive_requests 3;", "keepalive_requests 1;", "keepalive_requests 100;"],
    &["keepalive_timeout 65 65;", "keepalive_timeout 0;", "keepalive_timeout 75;"],
    &["keepalive_time 1h;"],
    &["absolute_redirect off;", "absolute_redirect on;"],
    &["port_in_redirect off;"],
    &["server_name_in_redirect on;"],
    &["server_tokens off;"],
    &["etag off;"],
    &["if_modified_since off;", "if_modified_since before;"],
    &["max_ranges 0;", "max_ranges 1;"],
    &["msie_refresh on;"],
    &["default_type text/plain;", "default_type application/octet-stream;"],
    &["charset utf-8;", "charset koi8-r;", "charset $map_charset;"],
    &["source_charset utf-8;"],
    &["override_charset on;"],
    &["sub_filter text \"VALUE\";\n    sub_filter page two;"],
    &["sub_filter_once off;"],
    &["sub_filter_types *;"],
    &["sub_filter_last_modified on;"],
    &["ssi on;"],
    &["ssi_types *;"],
    &["add_after_body /s/b.txt;"],
    &["autoindex on;", "autoindex on;\n    autoindex_format json;"],
    &["index index.html;", "index $cookie_a.html index.html;", "index $http_x_test.html one.html;"],
    &["set_real_ip_from 127.0.0.0/8;", "set_real_ip_from 127.0.0.2;"],
    &["real_ip_header X-Forwarded-For;"],
    &["real_ip_recursive on;"],
    &["userid on;", "userid log;", "userid v1;"],
    &["valid_referers none server_names *.good.test;"],
    &["secure_link $arg_s;\n    secure_link_md5 \"$uri$remote_addr secret\";"],
    &["modern_browser msie 9.0;\n    modern_browser_value new;"],
    &["ancient_browser Safari;\n    ancient_browser_value aged;"],
    &[
        "error_page 404 =200 /s/b.txt;",
        "error_page 404 /nf.html;",
        "error_page 404 403 = @named;",
        "error_page 403 =200 /s/a.txt;",
        "error_page 404 =301 http://$host/$http_x_test;",
    ],
    &[
        "error_page 400 494 497 =200 /s/a.txt;",
        "error_page 500 502 503 =200 /s/b.txt;",
        "error_page 405 412 416 =200 $uri;",
    ],
    &["recursive_error_pages on;", "recursive_error_pages off;"],
    &["log_not_found off;"],
    &["error_log DIR/error.log error;", "error_log DIR/error.log info;"],
    &["limit_rate 1m;", "limit_rate $map_rate;"],
    &["disable_symlinks on;", "disable_symlinks off;"],
    &["hide_files on;"],
    &[
        "directory_overrides .late headers access rewrite;",
        "directory_overrides on;",
        "directory_overrides off;",
    ],
    &["tcp_nodelay off;", "tcp_nodelay on;"],
    &["access_log off;", "access_log DIR/access.log short;", "access_log DIR/access.log long;"],
    &["types { text/plain txt html; }", "types { text/html txt; text/css css; }"],
    &["early_hints $map_test;", "early_hints 1;"],
    &["mirror /mirrored;"],
    &["auth_request /allowed;", "auth_request off;"],
    &["add_trailer X-Trailer \"VALUE\";"],
];

/// One text of each row.
fn common(rng: &mut Rng) -> Vec<String> {
    let (value, other) = (*rng.pick(VALUES), *rng.pick(VALUES));
    COMMON.iter().map(|row| rng.pick(row).replace("VALUE", value).replace("OTHER", other)).collect()
}

/// Draws some of a list, each directive at most once.
fn some(rng: &mut Rng, mut from: Vec<String>, count: usize) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for _ in 0..count.min(from.len()) {
        let one = from.swap_remove(rng.below(from.len()));
        let word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_string();
        // `error_page` may stand twice: its lists have no code in common.
        if word(&one) == "error_page" || !taken.iter().any(|have| word(have) == word(&one)) {
            taken.push(one);
        }
    }
    taken
}

/// `if`, `set`, `rewrite`, `return`: in this order as they are drawn.
fn script(rng: &mut Rng, count: usize) -> Vec<String> {
    let mut list = Vec::new();
    for _ in 0..count {
        let (condition, value) = (*rng.pick(CONDITIONS), *rng.pick(VALUES));
        list.push(match rng.below(9) {
            // Several may stand in a page: a value ends with its text.
            0 => format!("if ({condition}) {{ return 200 \"if {value} \"; }}"),
            1 => format!("if ({condition}) {{ set $v \"{value}\"; }}"),
            2 => format!("if ({condition}) {{ return 403; }}"),
            3 => format!("if ({condition}) {{ rewrite ^ /s/b.txt last; }}"),
            4 => format!("if ({condition}) {{ return 302 \"/s/{value}\"; }}"),
            5 => format!("set $v \"{value}\";"),
            6 => "rewrite ^/w/(.*)$ /s/$1 last;".to_string(),
            7 => format!("if ({condition}) {{ rewrite ^/i/(.*)$ /s/$1 break; }}"),
            _ => "rewrite ^/away/(.*)$ /s/$1 permanent;".to_string(),
        });
    }
    list
}

fn indented(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + "    " + line + "\n")
}

fn location(rng: &mut Rng, head: &str, content: &str, count: usize) -> String {
    let drawn = common(rng);
    let mut lines = some(rng, drawn, count);
    // An owner of the location's content and another one cannot both be.
    if content.contains("_pass") || content.contains("empty_gif") {
        lines.retain(|line| !line.starts_with("mirror"));
    }
    let scripted = if rng.percent(35) { 1 + rng.below(2) } else { 0 };
    lines.extend(script(rng, scripted));
    format!("  location {head} {{\n{}    {content}\n  }}\n", indented(&lines))
}

/// The content of a location that passes requests on, perhaps through a cache.
fn passing(rng: &mut Rng) -> String {
    let mut text = "proxy_pass http://origin;\n    proxy_set_header X-Test $http_x_test;\n    proxy_set_header Host $host;".to_string();
    if rng.percent(80) {
        let key = *rng.pick(&[
            "$host$request_uri",
            "$host$uri$http_x_test",
            "$host$uri$cookie_a",
            "$host$uri$remote_addr",
        ]);
        let _ = write!(
            text,
            "\n    proxy_cache answers;\n    proxy_cache_lock on;\n    proxy_cache_valid 200 10m;\n    proxy_cache_key \"{key}\";\n    add_header X-Cache $upstream_cache_status;"
        );
        if rng.percent(30) {
            text.push_str("\n    proxy_cache_bypass $cookie_a;\n    proxy_no_cache $cookie_a;");
        }
        if rng.percent(30) {
            let more = *rng.pick(&[
                "\n    proxy_hide_header X-Origin;",
                "\n    proxy_ignore_headers Vary;",
                "\n    proxy_cookie_path / /$http_x_test;",
            ]);
            text.push_str(more);
        }
    }
    text
}

/// What is worth asking for; what answers most often stands there twice.
pub const TARGETS: &[&str] = &[
    "/s/a.txt",
    "/s/a.txt",
    "/s/page.html",
    "/s/x.css",
    "/s/nosuch",
    "/s/ssi.shtml",
    "/s/a.txt?a=1",
    "/s//a.txt",
    "/s/packed.txt",
    "/r/x",
    "/r/x",
    "/r/x?a=1",
    "/r/",
    "/i/a.txt",
    "/i/b.txt?a=0",
    "/i/nosuch",
    "/p/one",
    "/p/one",
    "/p/one?a=1",
    "/p/two",
    "/d/",
    "/d",
    "/d/rnd/",
    "/d/many/",
    "/gif",
    "/w/a.txt",
    "/away/a.txt",
    "/",
];

/// Those of which most answers are prepared.
pub const PREPARED_TARGETS: &[&str] = &["/s/a.txt", "/s/page.html", "/s/x.css", "/r/x", "/i/a.txt", "/gif"];

/// What stands in servers alone.
const OF_SERVER: &[&str] = &[
    "merge_slashes off;",
    "root FILES;",
    "root FILES/$cookie_a;",
    "underscores_in_headers on;",
    "ignore_invalid_headers off;",
    "max_headers 12;",
];

/// How `/s/` finds its files.
const TRIES: &[&str] = &[
    "alias FILES/;",
    "rewrite ^/s/(.*)$ /$1 break;",
    "rewrite ^/s/(.*)$ /$1 break;\n    try_files $uri /b.txt =404;",
    "rewrite ^/s/(.*)$ /$1 break;\n    try_files $uri/$http_x_test $uri =404;",
    "rewrite ^/s/(.*)$ /$1 break;\n    try_files /$cookie_a.html $uri @named;",
];

/// One random server. With a `focus` it is one of those whose answers are prepared most often, and half of them have this
/// directive.
pub fn site(rng: &mut Rng, number: usize, focus: Option<&str>) -> Site {
    let name = format!("s{number}.test");
    // With few directives most answers can be prepared; with many they hardly ever are.
    let is_calm = focus.is_some() || rng.percent(70);
    let has_tls = focus.is_some() || rng.percent(25);
    let has_twin = rng.percent(8);
    let tls = if has_tls { " listen PORT3 ssl;" } else { "" };
    let names = *rng.pick(&["", " ~^(?<captured>w\\d*)\\.NAME$", " *.NAME"]);
    let names = names.replace("NAME", &name);
    let drawn = common(rng);
    let count = rng.below(if is_calm { 3 } else { 7 });
    let mut lines = some(rng, drawn, count);
    if rng.percent(25) {
        lines.push((*rng.pick(OF_SERVER)).to_string());
    }
    if rng.percent(if is_calm { 8 } else { 30 }) {
        let scripted = 1 + rng.below(2);
        lines.extend(script(rng, scripted));
    }
    if let Some(directive) = focus.filter(|directive| !directive.is_empty() && rng.percent(50)) {
        let word = directive.split(' ').next();
        lines.retain(|line| line.split(' ').next() != word);
        lines.push(directive.to_string());
    }
    let tries = *rng.pick(TRIES);
    if tries.starts_with("alias") {
        // What such a rewrite leaves behind has no place below an alias: that is an alert.
        lines.retain(|line| !line.contains(" break;"));
    }
    let locations = locations(rng, if is_calm { 2 } else { 5 }, tries);
    let mut text = format!(
        "server {{\n  listen PORT1; listen 127.0.0.1:PORT2;{tls}\n  server_name {name}{names};\n{}{locations}}}\n",
        indented(&lines)
    );
    if has_twin {
        let _ = write!(
            text,
            "server {{\n  listen 127.0.0.3:PORT1;\n  server_name {name};\n  location / {{ return 200 \"the twin\"; }}\n}}\n"
        );
    }
    Site { name, text, has_tls, has_twin }
}

/// The locations of a server, with fewer than `most` directives drawn for each.
fn locations(rng: &mut Rng, most: usize, tries: &str) -> String {
    let value = *rng.pick(VALUES);
    let code = *rng.pick(&["200", "200", "200", "404", "204", "403"]);
    let answer = match rng.below(4) {
        0 => format!("return 301 \"http://$host/{value}\";"),
        1 => "return 302 /s/there;".to_string(),
        _ => format!("return {code} \"answer {value} \";"),
    };
    let named = format!("return 200 \"named {value} \";");
    let passes = passing(rng);
    let mut text = String::new();
    for (head, content) in [
        ("/s/", tries),
        ("/r/", &*answer),
        ("/i/", "root FILES;"),
        ("/p/", &*passes),
        ("/d/", "root FILES;"),
        // Files here differ in their names alone.
        ("/d/rnd/", "root FILES;\n    random_index on;"),
        ("= /gif", "empty_gif;"),
        ("@named", &*named),
    ] {
        let count = rng.below(most);
        text.push_str(&location(rng, head, content, count));
    }
    text + "  location = /allowed { internal; if ($cookie_a = one) { return 204; } return 403; }\n  \
            location = /mirrored { internal; return 204; }\n  location = /nf.html { root FILES; }\n"
}

/// The whole configuration. FILES, DIR and PORT1… are filled in later.
pub fn whole(sites: &[Site]) -> String {
    let servers: String = sites.iter().map(|site| site.text.as_str()).collect();
    format!("{HEAD}{servers}}}\n")
}

const HEAD: &str = r#"daemon off;
pid DIR/brisk.pid;
error_log DIR/error.log crit;
worker_processes 1;
env BRISK_FAULTS;
events { worker_connections 1024; }
http {
root FILES;
http2 on;
ssl_certificate FILES/a.crt;
ssl_certificate_key FILES/a.key;
server_names_hash_bucket_size 128;
log_format short '$host|$request|$status|$uri|$args|$remote_addr|$http_x_test|$cookie_a|$http_user_agent|$request_completion|$server_protocol|$scheme|$host$is_request_port$request_port|$map_agent|$upstream_cache_status|$body_bytes_sent';
log_format long '$host|$request|$sent_http_content_type|$sent_http_etag';
access_log DIR/access.log short;
limit_req_zone "$host$remote_addr" zone=by_client:1m rate=1r/m;
limit_conn_zone $binary_remote_addr zone=by_address:1m;
proxy_cache_path DIR/cache keys_zone=answers:4m use_temp_path=off;
charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; }
map $http_user_agent $map_agent { default new; "~MSIE 6" old; ~Safari apple; }
map $arg_a $map_arg { default none; 1 first; 0 zero; }
map $http_x_test $map_test { default ""; a 1; b 2; }
map $http_x_test $map_volatile { volatile; default x; b "$remote_addr"; }
map $http_cookie $map_expires { default 1h; "~a=one" -1; "~a=two" max; }
map $http_accept_language $map_charset { default utf-8; ~^de koi8-r; }
map $http_x_test $map_realm { default off; b closed; }
map $http_user_agent $map_rate { default 0; ~Safari 10m; }
map $remote_addr $binary_remote_addr_text { default other; 127.0.0.2 second; }
geo $geo_client { default first; 127.0.0.2 second; 127.0.0.7 seventh; }
geo $arg_a $geo_arg { default no; 10.0.0.0/8 ten; }
split_clients "$remote_addr$http_x_test$http_cookie" $split_client { 50% half; * rest; }
split_clients "$uri" $split_uri { 50% half; * rest; }
upstream origin { server 127.0.0.1:PORT4; }
server {
  listen 127.0.0.1:PORT4;
  location / { add_header X-Origin "$request_uri"; add_header Cache-Control "max-age=100"; return 200 "origin $uri $args $http_x_test\n"; }
  location /p/two { add_header Vary X-Test; add_header Set-Cookie "b=1; Path=/"; return 200 "text two $http_x_test\n"; }
}
server { listen PORT1; server_name metrics.test; set $v none; access_log off; location = /metrics { metrics; } }
server { listen PORT1 default_server; listen 127.0.0.1:PORT2 default_server; listen PORT3 ssl default_server; server_name none; return 200 "no site\n"; }
"#;
