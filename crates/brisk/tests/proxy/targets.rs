//! What stands in the request line to a back end, and what a decoded path must not make of it.

use crate::{BIN, builder, proxy};
use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Builder, H2Client, Server};

/// Answers with the request line that it got.
fn line() -> Backend {
    Backend::start(|mut peer: Peer| {
        while let Some(head) = peer.head() {
            peer.answer(head.lines().next().unwrap_or_default());
        }
    })
}

/// The target that the back end is asked for.
fn target(server: &Server, asked: &str) -> String {
    let text = server.request(format!("GET {asked} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).text();
    let target = text.strip_prefix("GET ").and_then(|rest| rest.strip_suffix(" HTTP/1.1"));
    target.unwrap_or_else(|| panic!("{asked}: {text}")).to_string()
}

/// RFC 9110 §4.2.3, RFC 9112 §3.2.1: an empty path is "/", and no target has a fragment.
#[test]
fn an_absolute_form_without_a_path_is_asked_for_with_one() {
    let backend = line();
    for directives in ["", "proxy_set_header X-Uri $request_uri;"] {
        let server = proxy(backend.port(), "", directives);
        let check = |asked: &str, want: &str| assert_eq!(target(&server, asked), want, "{asked}");
        check("http://evil.com?x", "/?x");
        check("http://evil.com", "/");
        check("http://evil.com/?x", "/?x");
        check("http://evil.com?", "/?");
        check("http://evil.com?x#y", "/?x");
        check("/a%2fb//c#frag", "/a%2fb//c");
        check("/a?b#frag", "/a?b");
    }
    let port = backend.port();
    let text = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ set $back 127.0.0.1:{port}; proxy_pass http://$back$request_uri; }}
            location = /moved {{ return 301 https://x$request_uri; }}
            location = / {{ if ($arg_back) {{ return 301 https://x$request_uri; }} return 200 $request_uri; }} }}"
    );
    let server = Builder::new(BIN).http(&text).start();
    assert_eq!(server.request("GET http://evil.com?x HTTP/1.0\r\n\r\n").text(), "/?x");
    let moved = server.request("GET http://evil.com?back=1 HTTP/1.0\r\n\r\n");
    assert_eq!(moved.header("location"), Some("https://x/?back=1"));
    assert_eq!(target(&server, "/a%3fb#c"), "/a%3fb");
}

/// What was encoded in a path is part of it, and stays so for the next server.
#[test]
fn a_decoded_delimiter_does_not_begin_arguments() {
    let backend = line();
    let port = backend.port();
    let text = format!(
        "map $uri $mapped {{ ~^/map(/.*)$ $1; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; listen 127.0.0.1:{{{{PORT2}}}}; http2 on;
            set $back 127.0.0.1:{port};
            location /uri {{ proxy_pass http://$back$uri; }}
            location /args {{ proxy_pass http://$back$uri$is_args$args; }}
            location ~ ^/capture(?<named>/.*)$ {{ proxy_pass http://$back/c$1; }}
            location ~ ^/name(?<named>/.*)$ {{ proxy_pass http://$back/n$named?x=$arg_x; }}
            location /map {{ proxy_pass http://$back$mapped; }}
            location /set {{ set $whole /s$uri; proxy_pass http://$back$whole; }}
            location /fixed/ {{ proxy_pass http://127.0.0.1:{port}/f/; }}
            location /raw {{ proxy_pass http://$back$request_uri; }}
            location /idiom/ {{ rewrite ^ $request_uri; rewrite ^/idiom/(.*) /$1 break; proxy_pass http://$back$uri; }}
            location /rewritten/ {{ rewrite ^/rewritten(/.*)$ /r$1 break; proxy_pass http://$back$uri; }}
            location /try/ {{ try_files /none /uri$uri?t=$arg_x; }}
            location /error/ {{ error_page 418 = /uri$uri?e=1; return 418; }}
        }}"
    );
    let server = Builder::new(BIN).http(&text).start();
    let check = |asked: &str, want: &str| assert_eq!(target(&server, asked), want, "{asked}");
    check("/uri/a%3fb=c", "/uri/a%3Fb=c");
    check("/uri/a%23b", "/uri/a%23b");
    check("/uri/a%20b%0d%0ac%7f%09", "/uri/a%20b%0D%0Ac%7F%09");
    check("/args/a%3fb?c=%3fd?e", "/args/a%3Fb?c=%3fd?e");
    check("/args/a?b", "/args/a?b");
    check("/capture/a%3fb%23", "/c/a%3Fb%23");
    check("/name/a%3fb?x=1%3f2", "/n/a%3Fb?x=1%3f2");
    check("/map/a%3fb", "/a%3Fb");
    check("/set/a%3fb", "/s/set/a%3Fb");
    check("/fixed/a%3fb?c", "/f/a%3Fb?c");
    check("/raw/a%3fb?c%23", "/raw/a%3fb?c%23");
    check("/rewritten/a%3fb", "/r/rewritten/a%3Fb".replacen("/rewritten", "", 1).as_str());
    check("/try/a%3fb?x=1", "/uri/try/a%3Fb");
    check("/error/a%3fb", "/uri/error/a%3Fb");
    // A well-known way to pass a path on as it came; what it does without decoded delimiters stays.
    check("/idiom/a%2fb?c=d", "/a%2fb?c=d");
    let answer = H2Client::connect(server.port_of(2)).get("/uri/a%3fb#c").text();
    assert_eq!(answer, "GET /uri/a%3Fb HTTP/1.1");
}

#[test]
fn a_decoded_delimiter_does_not_begin_the_arguments_of_a_redirect() {
    let text = "server { listen 127.0.0.1:{{PORT}};
        location /return { return 301 https://$host$uri; }
        location /args { return 302 $uri$is_args$args; }
        location ~ ^/capture/(.*)$ { return 303 http://x/$1; }
        location /rewrite { rewrite ^ http://x$uri redirect; }
        location /group { rewrite ^/group/(.*)$ http://x/$1 permanent; }
        location /error { error_page 404 http://x$uri; return 404; }
        location /text { return 301 \"http://x/a b?c#d\"; } }";
    let server = Builder::new(BIN).http(text).start();
    let check = |asked: &str, want: &str| {
        let answer = server.request(format!("GET {asked} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
        let location = answer.header("location").unwrap_or_default().to_string();
        assert_eq!(location.replace(&format!(":{}", server.port()), ""), want, "{asked}");
    };
    check("/return/a%3fb", "https://h/return/a%3Fb");
    check("/return/a%0d%0aSet-Cookie:%20b", "https://h/return/a%0D%0ASet-Cookie:%20b");
    check("/args/%23?b=%3f", "http://h/args/%23?b=%3f");
    check("/capture/a%3fb", "http://x/a%3Fb");
    check("/rewrite/a%3fb?c", "http://x/rewrite/a%3Fb?c");
    check("/group/a%3fb%20c?d", "http://x/a%3Fb%20c?d");
    check("/group/a%20b", "http://x/a%20b");
    check("/error/a%3fb", "http://x/error/a%3Fb");
    check("/text", "http://x/a b?c#d");
}

/// A back end's `X-Accel-Redirect` is decoded too.
#[test]
fn a_decoded_delimiter_survives_an_internal_redirect() {
    let backend = Backend::start(|mut peer: Peer| {
        while let Some(head) = peer.head() {
            let line = head.lines().next().unwrap_or_default();
            if line.starts_with("GET /accel") {
                peer.send(
                    "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /inner/a%3fb?c=d\r\nContent-Length: 0\r\n\r\n",
                );
            } else {
                peer.answer(line);
            }
        }
    });
    let port = backend.port();
    let inner = format!(
        "set $back 127.0.0.1:{port}; access_log off; location /inner/ {{ internal; proxy_pass http://$back$uri$is_args$args; }}"
    );
    let text = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; {inner} location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"
    );
    let server = Builder::new(BIN).http(&text).start();
    assert_eq!(target(&server, "/accel"), "/inner/a%3Fb?c=d");
}

/// Two requests that back ends are asked for differently have different keys, whatever the key is made of.
#[test]
fn a_decoded_delimiter_is_told_apart_in_keys_of_caches() {
    let backend = Backend::start(|mut peer: Peer| {
        while let Some(head) = peer.head() {
            let line = head.lines().next().unwrap_or_default();
            let length = line.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n{line}"
            ));
        }
    });
    let port = backend.port();
    for (key, pass) in [
        ("proxy_cache_key $uri$is_args$args;", format!("http://127.0.0.1:{port}")),
        ("", format!("http://127.0.0.1:{port}$uri$is_args$args")),
    ] {
        let text = format!(
            "proxy_cache_path {{{{DIR}}}}/cache keys_zone=one:1m;
            server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_cache one; {key} proxy_pass {pass}; }} }}"
        );
        let server = Builder::new(BIN).main("user root;").http(&text).start();
        assert_eq!(target(&server, "/a%3fb=c").to_lowercase(), "/a%3fb=c");
        assert_eq!(target(&server, "/a?b=c"), "/a?b=c", "{key}");
        assert_eq!(target(&server, "/a%3fb=c").to_lowercase(), "/a%3fb=c");
    }
}

/// A variable may name a host or an upstream, but no socket of which the configuration does not speak.
#[test]
fn variables_reach_no_socket_that_the_configuration_does_not_name() {
    let mut builder = builder(1, "", "");
    let dir = builder.dir().to_path_buf();
    let serve = |name: &str| {
        let listener = std::os::unix::net::UnixListener::bind(dir.join(name)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut buf = [0; 4096];
                let _ = std::io::Read::read(&mut stream, &mut buf);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere";
                let _ = std::io::Write::write_all(&mut stream, answer);
            }
        });
    };
    ["known.sock", "secret.sock", "pool-a.sock", "by-set.sock", "mapped.sock"].into_iter().for_each(serve);
    let text = builder.fill(
        "map $arg_m $mapped { 1 unix:{{DIR}}/mapped.sock; }
        upstream u { server unix:{{DIR}}/known.sock; }
        server { listen 127.0.0.1:{{PORT3}}; error_log {{DIR}}/unix.log info;
            location /any { proxy_pass http://$arg_to; }
            location /url { proxy_pass $arg_to; }
            location /pool { proxy_pass http://unix:{{DIR}}/pool-$arg_p.sock:/x; }
            location /set { set $to http://unix:{{DIR}}/by-set.sock; proxy_pass $to; }
            location /map { proxy_pass http://$mapped; }
            location /fastcgi { fastcgi_pass $arg_to; }
            location /scgi { scgi_pass $arg_to; }
            location /uwsgi { uwsgi_pass $arg_to; }
            location /grpc { grpc_pass $arg_to; } }",
    );
    let server = builder.main("user root;").http(&text).start();
    let dir = server.dir().display().to_string();
    let get = |target: &str| {
        let mut client = brisk_testkit::Client::connect(server.port_of(3));
        client.get(&target.replace("DIR", &dir)).status
    };
    assert_eq!(get("/any?to=unix:DIR/known.sock:/"), 200);
    assert_eq!(get("/any?to=u"), 200);
    assert_eq!(get("/pool?p=a"), 200);
    assert_eq!(get("/set"), 200);
    assert_eq!(get("/map?m=1"), 200);
    for bad in [
        "/any?to=unix:DIR/secret.sock:/",
        "/any?to=UNIX:DIR/secret.sock:/",
        "/any?to=unix:DIR/../x/secret.sock",
        "/url?to=http://unix:DIR/secret.sock:/",
        "/pool?p=a/../secret",
        "/pool?p=../secret.sock:",
        "/pool?p=/../secret.sock:/x",
        "/fastcgi?to=unix:DIR/secret.sock",
        "/scgi?to=unix:DIR/secret.sock",
        "/uwsgi?to=unix:DIR/secret.sock",
        "/grpc?to=unix:DIR/secret.sock",
        "/grpc?to=grpc://unix:DIR/secret.sock",
    ] {
        assert_eq!(get(bad), 500, "{bad}");
    }
    server.wait_for_line("unix.log", "which the configuration does not name");
}

/// The kernel refuses to connect before anything is asked: another peer is, and a client without a response gets a 502.
#[test]
fn a_peer_to_which_the_kernel_cannot_connect_is_passed_over_or_a_502() {
    let backend = Backend::answering("there");
    let text = format!(
        "upstream mixed {{ server unix:{{{{DIR}}}}/none.sock; server 127.0.0.1:{}; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; error_log {{{{DIR}}}}/refused.log crit;
            location /none {{ proxy_pass http://unix:{{{{DIR}}}}/none.sock; }}
            location /address {{ proxy_pass http://[fe80::1]:1; }}
            location /fastcgi {{ fastcgi_pass unix:{{{{DIR}}}}/none.sock; }}
            location /mixed {{ proxy_pass http://mixed/; }} }}",
        backend.port()
    );
    let mut builder = Builder::new(BIN);
    let text = builder.fill(&text);
    let server = builder.http(&text).start();
    for target in ["/none", "/address", "/fastcgi"] {
        assert_eq!(server.get(target).status, 502, "{target}");
    }
    let line = r"\[crit\] .*none\.sock failed \(2: No such file or directory\) while connecting to upstream";
    server.wait_for_line("refused.log", line);
    for _ in 0..3 {
        assert_eq!(server.get("/mixed").text(), "there");
    }
}
