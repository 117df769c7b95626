//! Which rules a request comes under: paths, hosts and fields that two readers understand in two ways.

use super::{BIN, SMUGGLED, recording, recording_with, site, site_of};
use brisk_testkit::Builder;
use std::fmt::Write as _;

/// A GET of this target on a connection of its own.
fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

#[test]
fn dots_that_climb_out_of_the_root() {
    let site = site("");
    for target in [
        "/../../../etc/passwd",
        "/files/../../../etc/passwd",
        "/files/..%2f..%2f..%2fetc/passwd",
        "/files/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/files/.%2e/.%2e/.%2e/etc/passwd",
        "/files/%%32%65%%32%65/%%32%65%%32%65/etc/passwd",
        "/files/%252e%252e/%252e%252e/etc/passwd",
        "/files/..;/..;/etc/passwd",
        "/files/..%5c..%5cetc/passwd",
        "/files/..\\..\\etc/passwd",
        "/files/%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd",
        "/files/..%c0%af..%c0%afetc/passwd",
        "/files/..%00/etc/passwd",
        "/files/....//....//etc/passwd",
        "//..//..//etc/passwd",
    ] {
        for (status, body) in site.bodies(get(target)) {
            assert!(
                matches!(status, 400 | 403 | 404) && !body.contains("root:"),
                "{target}: {status} {body}"
            );
        }
    }
}

#[test]
fn an_alias_off_by_a_slash() {
    let site = site("location /img { alias {{DIR}}/html/; }");
    for target in
        ["/img../brisk.conf", "/img..%2fbrisk.conf", "/img%2e%2e/brisk.conf", "/img../../etc/passwd"]
    {
        for (status, body) in site.bodies(get(target)) {
            assert!(status >= 400 && !body.contains("listen"), "{target}: {status}");
        }
    }
}

#[test]
fn a_denied_path_in_other_words() {
    let site = site("location / { proxy_pass http://back; }");
    for target in [
        "/%61dmin",
        "/%61%64%6d%69%6e",
        "/x/../admin",
        "/x/%2e%2e/admin",
        "//admin",
        "/./admin",
        "/%2fadmin",
        "/admin%2f",
        "/admin/",
        "/admin?",
        "/admin%3f",
        "/admin#",
        "/admin;x",
        "/admin%20",
        "/x/..//admin",
        "/admin/.",
        "/x%2f../admin",
    ] {
        for (status, _) in site.bodies(get(target)) {
            assert!(matches!(status, 400 | 403), "{target}: {status}");
        }
    }
    assert!(site.seen().is_empty(), "{:?}", site.seen());
}

#[test]
fn a_line_feed_behind_a_denied_path() {
    let site = site(
        r"location ~ ^/(secret|private)$ { deny all; }
          location ~ ^/(secret|private) { return 200 open; }
          location ~* \.(bak|sql)$ { deny all; }
          location /x { if ($uri ~ ^/x/y$) { return 403; } return 200 open; }",
    );
    for target in ["/secret%0a", "/private%0A", "/a.bak%0a", "/x/y%0a"] {
        assert_eq!(site.statuses(get(target)), [403], "{target}");
    }
    // PCRE's `$` takes one line feed at the very end, and nothing else.
    assert_eq!(site.statuses(get("/secret%0a%0a")), [200]);
}

#[test]
fn a_pattern_that_takes_too_long_opens_nothing() {
    let (backend, _seen) = recording();
    let conf = format!(
        r"server {{ listen 127.0.0.1:{{{{PORT}}}};
              location ~ ^/re/((a|aa)+)\1$ {{ deny all; }}
              location /re/ {{ return 200 open; }}
              location /if/ {{ if ($uri ~ ^/if/((a|aa)+)\1$) {{ return 403; }} return 200 open; }}
              location = /who {{ proxy_pass http://127.0.0.1:{}; }} }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).allow_alerts("pcre2_match").start();
    for prefix in ["/re/", "/if/"] {
        assert_eq!(server.get(&format!("{prefix}aaaa")).status, 403, "{prefix}");
        assert_eq!(server.get(&format!("{prefix}{}c", "a".repeat(2000))).status, 500, "{prefix}");
    }
    assert_eq!(server.get("/who").status, 200);
}

#[test]
fn a_prefix_that_is_stripped_and_climbed_out_of() {
    let site = site("location /public/ { proxy_pass http://back/; } location /public { return 404; }");
    for target in ["/public/../admin", "/public/%2e%2e/admin", "/public/..%2fadmin", "/public//../../admin"] {
        for (status, _) in site.bodies(get(target)) {
            assert!(matches!(status, 400 | 403 | 404), "{target}: {status}");
        }
    }
    assert!(site.seen().iter().all(|request| !request.contains("admin")), "{:?}", site.seen());
}

#[test]
fn a_decoded_path_does_not_end_the_request_line() {
    let site = site(
        "location /raw/ { proxy_pass http://back$uri; }
         location /kept/ { rewrite ^/kept/(.*)$ /api/$1 break; proxy_pass http://back; }
         location /told/ { proxy_pass http://back; proxy_set_header X-Path $uri; }",
    );
    for prefix in ["/raw/", "/kept/", "/told/"] {
        for tail in [
            "a%20HTTP/1.1%0d%0aX:%20y",
            "a%0d%0a%0d%0aGET%20/admin%20HTTP/1.1",
            "a%0aHost:%20evil",
            "a%3fadmin",
            "a%23b",
        ] {
            let statuses = site.statuses(get(&format!("{prefix}{tail}")));
            assert_eq!(statuses.len(), 1, "{prefix}{tail}");
        }
    }
    for request in site.seen() {
        let line = request.lines().next().unwrap();
        assert_eq!(line.split(' ').count(), 3, "{request}");
        assert!(!request.contains("\r\nX: y") && !request.contains("\r\nHost: evil"), "{request}");
        assert!(!line.contains('?') && !line.contains('#'), "{request}");
    }
}

#[test]
fn redirects_that_are_split() {
    let site = site(
        "location /go/ { return 302 https://$host$uri; }
         location ~ ^/to/(.*)$ { return 302 /x/$1; }
         location /named/ { add_header X-Path $uri; return 200 x; }
         location /re/ { rewrite ^/re/(.*)$ https://a/$1 redirect; }",
    );
    for prefix in ["/go/", "/to/", "/named/", "/re/"] {
        let mut client = site.server.client();
        client.send(get(&format!("{prefix}%0d%0aSet-Cookie:%20stolen=1%0d%0a%0d%0a<script>")));
        let response = client.response();
        assert!(response.header("set-cookie").is_none(), "{}", response.head);
        assert!(!response.text().contains("<script>") || response.status >= 300, "{}", response.text());
    }
}

#[test]
fn question_marks_in_captures() {
    // Escaping was computed for one part of the replacement and applied to another.
    let site = site(
        r"location /over/ { rewrite ^/over/((a)(b)?(.*))$ /api/$1?q=$1$2$3$4 break; proxy_pass http://back; }
          location /set/ { rewrite ^/set/(.*)$ /api/x?y=$1; set $z $1; }
          location /enc/ { rewrite ^/enc/(.*) /api/$1 break; proxy_pass http://back; }",
    );
    let long = "%25+%3f%26".repeat(1500);
    for target in [
        format!("/over/ab{long}"),
        format!("/over/a{long}"),
        format!("/set/{long}"),
        "/enc/a%3fb=c%26d".into(),
    ] {
        let statuses = site.statuses(get(&target));
        assert!(matches!(statuses[..], [200 | 400 | 414]), "{statuses:?}");
    }
    let seen = site.seen();
    let last = seen.iter().find(|request| request.contains("/api/a")).map(String::as_str).unwrap_or_default();
    assert!(!last.starts_with("GET /api/a?b"), "{last}");
    site.still_serves();
}

#[test]
fn captures_that_a_map_changes_under_way() {
    let site = site_of(
        "map $arg_m $mapped { ~^(?<first>.)(.*)$ $2; default none; }",
        r#"location ~ ^/cap/(.*)$ { return 200 "$1|$mapped|$1|$first"; }"#,
    );
    let long = "z".repeat(6000);
    for (captured, mapped) in [("aa", long.as_str()), (long.as_str(), "q"), ("", "x"), ("b", "")] {
        let bodies = site.bodies(get(&format!("/cap/{captured}?m={mapped}")));
        let (status, body) = &bodies[0];
        assert_eq!(*status, 200);
        assert_eq!(body.split('|').count(), 4, "{}", &body[..body.len().min(80)]);
    }
    site.still_serves();
}

#[test]
fn hosts_beyond_a_hundred_in_capitals() {
    let mut names = String::new();
    (0..300).for_each(|n| _ = write!(names, "host{n}.example "));
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} default_server; return 200 open; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name {names}; deny all; location / {{ }} }}"
    );
    let server = Builder::new(BIN).http(&conf).file("html/index.html", "x").start();
    for host in ["host7.example", "HOST7.EXAMPLE", "Host299.Example", "host7.example.", "HOST7.example:80"] {
        let response = server.request(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!(response.status, 403, "{host}");
    }
}

#[test]
fn hosts_that_are_none() {
    let site = site("");
    for host in [
        "a/b", "a?b", "a#b", "a@b", "user@a", "a b", "a\\b", "a:b", "a:80:80", "[::1", "a]", "\u{e9}", "",
        "a\0",
    ] {
        let bodies = site.bodies(format!("GET /api/a HTTP/1.1\r\nHost: {host}\r\n\r\n{SMUGGLED}"));
        let first = bodies.first().map(|(status, _)| *status);
        assert!(
            matches!(first, Some(400)) || site.seen().is_empty(),
            "{host:?}: {first:?} {:?}",
            site.seen()
        );
    }
    for fields in ["", "Host: a\r\nHost: b\r\n", "Host: a\r\nhost: a\r\n"] {
        site.refuses(&[400], format!("GET /api/a HTTP/1.1\r\n{fields}\r\n{SMUGGLED}"));
    }
}

#[test]
fn an_absolute_target_against_the_host_field() {
    let (backend, seen) = recording();
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name front.example; location / {{ proxy_pass http://127.0.0.1:{}; proxy_set_header Host $host; }} }}
         server {{ listen 127.0.0.1:{{{{PORT}}}} default_server; return 403; }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    for target in [
        "http://front.example",
        "http://front.example/",
        "http://front.example?x",
        "http://FRONT.example/x",
        "ftp://front.example/",
    ] {
        let response = server
            .request(format!("GET {target} HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n"));
        assert!(matches!(response.status, 200 | 400), "{target}: {}", response.status);
    }
    for request in seen.lock().unwrap().iter() {
        assert!(request.starts_with("GET /") && request.contains("\r\nHost: front.example\r\n"), "{request}");
    }
    for target in
        ["http://user@front.example/", "http:///x", "http:/x", "//front.example/x", "http://front.example:x/"]
    {
        let status =
            server.request(format!("GET {target} HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n")).status;
        assert!(matches!(status, 400 | 403), "{target}: {status}");
    }
}

#[test]
fn fields_with_underscores() {
    let site = site("");
    let fields = "Remote_User: admin\r\nX_Forwarded_For: 6.6.6.6\r\nX_Auth_User: admin\r\nX-Forwarded_For: 6.6.6.6\r\n";
    site.keeps_apart(1, format!("GET /api/a HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let seen = site.seen()[0].to_ascii_lowercase();
    assert!(!seen.contains("admin") && !seen.contains("6.6.6.6"), "{seen}");
}

#[test]
fn a_variable_does_not_choose_a_unix_socket() {
    let (backend, seen) = recording();
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; resolver 127.0.0.1:1; resolver_timeout 1s;
             location /to/ {{ proxy_pass http://$arg_to; }}
             location /whole/ {{ proxy_pass $arg_to; }}
             location /fcgi/ {{ fastcgi_pass $arg_to; }}
             location /ok/ {{ proxy_pass http://127.0.0.1:{}; }} }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    let socket = server.dir().join("secret.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let path = socket.display();
    for target in [
        format!("/to/?to=unix:{path}"),
        format!("/to/?to=unix:{path}:/x"),
        format!("/whole/?to=http://unix:{path}:/x"),
        format!("/fcgi/?to=unix:{path}"),
    ] {
        let status = server.get(&target).status;
        assert!(matches!(status, 500 | 502), "{target}: {status}");
    }
    assert!(listener.accept().is_err(), "the socket was reached");
    assert_eq!(server.get("/ok/").status, 200);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn backslashes_in_try_files() {
    let site = site(r"location /try/ { try_files $uri /who; }");
    for target in ["/try/..\\..\\brisk.conf", "/try/%5c..%5c..%5cbrisk.conf", "/try/*", "/try/[a-z]*"] {
        for (status, body) in site.bodies(get(target)) {
            assert!(
                matches!(status, 200 | 400 | 404) && !body.contains("listen"),
                "{target}: {status} {body}"
            );
        }
    }
}

#[test]
fn a_fragment_in_the_target() {
    let site = site("location ~ /private.*$ { deny all; }");
    for target in ["/api/x#/private", "/api/private#.png", "/api/#"] {
        let statuses = site.statuses(get(target));
        assert!(matches!(statuses[..], [200 | 400 | 403]), "{target}: {statuses:?}");
    }
    assert!(
        site.seen().iter().all(|request| !request.lines().next().unwrap().contains('#')),
        "{:?}",
        site.seen()
    );
    assert!(site.seen().iter().all(|request| !request.contains("private")), "{:?}", site.seen());
}

#[test]
fn an_internal_redirect_that_never_ends() {
    let (backend, _seen) = recording_with(|line| {
        let to = if line.contains("/deep") { "/loop/deep" } else { "/secret" };
        format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\nContent-Length: 0\r\n\r\n")
    });
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; location /loop/ {{ proxy_pass http://127.0.0.1:{}; }}
         error_page 404 /gone; location /gone {{ error_page 404 /gone2; return 404; }}
         location = /who {{ return 200 who; }} location /turn {{ rewrite ^ /turn last; }} }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    assert_eq!(server.get("/loop/deep").status, 500);
    assert_eq!(server.get("/turn").status, 500);
    assert_eq!(server.get("/none").status, 404);
    assert_eq!(server.get("/who").text(), "who");
}
