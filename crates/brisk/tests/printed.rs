//! Configurations as articles on web servers print them, with nothing changed but folders, ports and what the pages have
//! mangled.

use brisk_testkit::application::Speaks;
use brisk_testkit::{Application, Builder, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");
const PARAMS: &str = include_str!("../../../packaging/fastcgi_params");

/// A gallery, and beside it a site whose answers are old soon.
const GALLERY: &str = r#"proxy_cache_path {{DIR}}/ng-cache levels=1:2 keys_zone=ng_cache:10m max_size=10g inactive=60m;
proxy_cache_use_stale error timeout http_500 http_502 http_503 http_504;
fastcgi_cache_path {{DIR}}/ngd-cache levels=1:2 keys_zone=ngd_cache:10m inactive=60m;
fastcgi_cache_key "$scheme$request_method$host$request_uri";
fastcgi_cache_use_stale error timeout invalid_header http_500;
fastcgi_ignore_headers Cache-Control Expires Set-Cookie;
add_header NGINX_FASTCGI_CACHE $upstream_cache_status;

server {
    listen 127.0.0.1:{{PORT}};
    server_name nginx-performance.app;
    root "{{DIR}}/public";

    index index.html index.htm index.php;

    charset utf-8;

    proxy_cache ng_cache;

    location / {
        try_files $uri $uri/ /index.php?$query_string;
    }

    location = /favicon.ico { access_log off; log_not_found off; }
    location = /robots.txt  { access_log off; log_not_found off; }

    access_log off;
    error_log  {{DIR}}/nginx-performance.app-error.log error;

    sendfile off;

    client_max_body_size 100m;

    location ~ \.php$ {
        fastcgi_split_path_info ^(.+\.php)(/.+)$;
        fastcgi_pass unix:{{DIR}}/fpm.sock;
        fastcgi_index index.php;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;

        fastcgi_intercept_errors off;
        fastcgi_buffer_size 16k;
        fastcgi_buffers 4 16k;
        fastcgi_connect_timeout 300;
        fastcgi_send_timeout 300;
        fastcgi_read_timeout 300;


      fastcgi_cache ngd_cache;
      fastcgi_cache_valid  60m;
    }

    location ~ /\.ht {
        deny all;
    }
}
server { listen 127.0.0.1:{{PORT}}; server_name site.test; root {{DIR}}/public;
    location / { fastcgi_pass unix:{{DIR}}/fpm.sock; include fastcgi_params; fastcgi_cache ngd_cache; fastcgi_cache_valid 1s; } }"#;

const RULES: &str = r#"fastcgi_cache_path {{DIR}}/micro levels=1:2 keys_zone=microcache:10m max_size=1000m inactive=60m;
server { listen 127.0.0.1:{{PORT}}; server_name site.test; root {{DIR}}/public; index index.php;
    set $cache_uri $request_uri;
    # POST requests and urls with a query string should always go to PHP
    if ($request_method = POST) { set $cache_uri 'null cache'; }
    if ($query_string != "") { set $cache_uri 'null cache'; }
    # Don't cache uris containing the following segments
    if ($request_uri ~* "(/wp-admin/|/xmlrpc.php|/wp-(app|cron|login|register|mail).php|wp-.*.php|/feed/|index.php|wp-comments-popup.php|wp-links-opml.php|wp-locations.php|sitemap(_index)?.xml|[a-z0-9_-]+-sitemap([0-9]+)?.xml)") { set $cache_uri 'null cache'; }
    # Don't use the cache for logged in users or recent commenters
    if ($http_cookie ~* "comment_author|wordpress_[a-f0-9]+|wp-postpass|wordpress_logged_in") { set $cache_uri 'null cache'; }
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \.php$ {
        ##
        # Fastcgi cache
        ##
        set $skip_cache 1;
        if ($cache_uri != "null cache") {
            add_header X-Cache-Debug "$cache_uri $cookie_nocache $arg_nocache$arg_comment $http_pragma $http_authorization";
            set $skip_cache 0;
        }
        fastcgi_cache_bypass $skip_cache;
        fastcgi_cache microcache;
        fastcgi_cache_key $scheme$host$request_uri$request_method;
        fastcgi_cache_valid any 8m;
        fastcgi_cache_use_stale updating;
        fastcgi_cache_bypass $http_pragma;
        fastcgi_cache_use_stale updating error timeout invalid_header http_500;
        ##
        # WordPress PHP
        ##
        try_files $uri /index.php;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_read_timeout 300;
        fastcgi_pass unix:{{DIR}}/fpm.sock;
    }
}"#;

/// An application whose every answer has a number, and headers that forbid to keep it. It can be switched off.
fn php(builder: &Builder, headers: &'static str) -> (Application, Arc<AtomicBool>) {
    let is_broken = Arc::<AtomicBool>::default();
    let broken = is_broken.clone();
    let app = Application::start_unix(Speaks::FastCgi, &builder.dir().join("fpm.sock"), move |exchange| {
        if broken.load(Ordering::SeqCst) {
            return exchange.stdout("Status: 500\r\n\r\n");
        }
        let asked = exchange.asked.clone();
        let text =
            format!("{} {} {}", asked.request, asked.param("SCRIPT_FILENAME"), asked.param("REQUEST_METHOD"));
        exchange.stdout(format!("{headers}Content-Type: text/html\r\n\r\n{text}"));
    });
    (app, is_broken)
}

/// The answer's body, and what it says of the cache. Read as it comes: a value that is printed may end in spaces.
fn ask(server: &Server, target: &str, more: &str) -> (String, Option<String>) {
    let mut client = server.client();
    client.send(format!("GET {target} HTTP/1.0\r\nHost: site.test\r\n{more}\r\n"));
    let answer = String::from_utf8(client.rest().unwrap()).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let said = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_string);
    (body.to_string(), said("NGINX_FASTCGI_CACHE: ").or_else(|| said("X-Cache-Debug: ")))
}

/// Stale answers for a back end that fails, headers that are ignored, and the header that says what the cache did.
#[test]
fn an_application_that_is_cached_whatever_it_says() {
    let builder = Builder::new(BIN);
    let (_app, is_broken) = php(
        &builder,
        "Cache-Control: no-store\r\nExpires: Thu, 19 Nov 1981 08:52:00 GMT\r\nSet-Cookie: a=b\r\n",
    );
    let server =
        builder.http(GALLERY).file("fastcgi_params", PARAMS).file("public/.htpasswd", "secret").start();
    let get = |target: &str| {
        let answer = server.request(format!("GET {target} HTTP/1.1\r\nHost: nginx-performance.app\r\n\r\n"));
        (answer.text(), answer.header("NGINX_FASTCGI_CACHE").map(str::to_string))
    };
    let script = format!("1 {}/public/index.php GET", server.dir().display());
    assert_eq!(get("/gallery?page=2"), (script.clone(), Some("MISS".into())));
    assert_eq!(get("/gallery?page=2"), (script, Some("HIT".into())));
    assert!(get("/gallery?page=3").0.starts_with("2 "));
    assert_eq!(server.request("GET /.htpasswd HTTP/1.1\r\nHost: nginx-performance.app\r\n\r\n").status, 403);
    // The application fails: what is old is better than nothing.
    let before = ask(&server, "/old", "").0;
    is_broken.store(true, Ordering::SeqCst);
    brisk_testkit::wait::holds("it is old", || ask(&server, "/old", "").1.as_deref() == Some("STALE"));
    assert_eq!(ask(&server, "/old", "").0, before);
}

#[test]
fn the_purge_method_removes_what_is_stored() {
    let builder = Builder::new(BIN);
    let (_app, _) = php(&builder, "Cache-Control: max-age=600\r\n");
    let server = builder
        .http(
            "fastcgi_cache_path {{DIR}}/cache keys_zone=cache_zone:10m;

map $request_method $purge_method {
    PURGE   1;
    default 0;
}

upstream backend { server unix:{{DIR}}/fpm.sock; }

server {
    listen 127.0.0.1:{{PORT}};
    include fastcgi_params;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    location / {
        fastcgi_pass        backend;
        fastcgi_cache       cache_zone;
        fastcgi_cache_key   $uri;
        fastcgi_cache_purge $purge_method;
    }
}",
        )
        .file("fastcgi_params", PARAMS)
        .start();
    let purge = |target: &str| server.request(format!("PURGE {target} HTTP/1.1\r\nHost: a\r\n\r\n")).status;
    let first = server.get("/a").text();
    assert_eq!(server.get("/a").text(), first);
    assert_eq!(purge("/a"), 204);
    assert_ne!(server.get("/a").text(), first);
    assert_eq!(purge("/b"), 404);
}

/// The rules keep visitors apart only with the `fastcgi_no_cache` that they lack: `-t` says so.
#[test]
fn rules_for_wordpress() {
    let safe = RULES.replace(
        "fastcgi_cache microcache;",
        "fastcgi_cache microcache; fastcgi_no_cache $skip_cache $http_pragma;",
    );
    let warned = |rules: &str| {
        let prepared = Builder::new(BIN).http(rules).file("fastcgi_params", PARAMS).prepare();
        let output = prepared.run(&["-t"]);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{text}");
        text.contains("answers that bypass the cache are stored")
    };
    assert!(warned(RULES) && !warned(&safe));
    let builder = Builder::new(BIN);
    let (app, _) = php(&builder, "");
    let server =
        builder.http(&safe).file("fastcgi_params", PARAMS).file("public/index.php", "<?php ?>").start();
    let script = format!("{}/public/index.php GET", server.dir().display());
    let (first, debug) = ask(&server, "/a-post/", "");
    assert_eq!(first, format!("1 {script}"));
    assert_eq!(debug.as_deref(), Some("/a-post/    "));
    assert_eq!(ask(&server, "/a-post/", "").0, first);
    // A commenter sees a page of his own, and leaves none to others.
    let cookie = "Cookie: comment_author_1=me\r\n";
    for request in 2..4 {
        assert_eq!(ask(&server, "/a-post/", cookie).0, format!("{request} {script}"));
    }
    assert_eq!(ask(&server, "/other/", cookie).0, format!("4 {script}"));
    assert_eq!(ask(&server, "/other/", "").0, format!("5 {script}"));
    for target in ["/wp-admin/", "/feed/", "/a-post/?s=x"] {
        let before = app.requests();
        (0..2).for_each(|_| drop(ask(&server, target, "")));
        assert_eq!(app.requests(), before + 2, "{target}");
    }
}
